// The target kind "example_extern", whose RelayToTIR hook is a function registered from Python.
#include <utility>
#include <vector>
#include <string>
#include <unordered_map>
#include <tvm/ir/module.h>
#include <tvm/ir/transform.h>
#include <tvm/relay/transform.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>
#include <tvm/target/target.h>
#include <tvm/target/target_kind.h>

namespace tvm {

transform::Pass ExampleExternHook() {
  auto hook = [](IRModule module, transform::PassContext context) -> IRModule {
    return (*runtime::Registry::Get("example_extern.relay_to_tir"))(module);
  };
  return transform::CreateModulePass(hook, 0, "example_extern.RelayToTIR", {});
}

TVM_REGISTER_TARGET_KIND("example_extern", kDLCPU)
    .set_attr<Bool>("use_device_api", Bool(false))
    .set_attr<relay::transform::FTVMRelayToTIR>(attr::kRelayToTIR, ExampleExternHook());

}  // namespace tvm
