// The runtime module for Relay.
#include <dmlc/io.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

#include "region.h"

namespace example_module {

using namespace tvm::runtime;

class RegionModule : public ModuleNode {
 public:
  explicit RegionModule(Region region) : region_(std::move(region)) {}

  const char* type_key() const final { return kName; }
  int GetPropertyMask() const final { return ModulePropertyMask::kBinarySerializable; }
  void SaveToBinary(dmlc::Stream* stream) final { stream->Write(region_.ToBytes()); }

  PackedFunc GetFunction(const String& name, const ObjectPtr<Object>& self) final {
    if (std::string(name) != region_.symbol) return PackedFunc(nullptr);
    // The function keeps the module alive.
    return PackedFunc([self, this](TVMArgs args, TVMRetValue*) {
      std::vector<Argument> arguments;
      for (int i = 0; i < args.size(); ++i) {
        const DLTensor* tensor = args[i];
        void* data = static_cast<char*>(tensor->data) + tensor->byte_offset;
        arguments.push_back({data, tensor->shape, tensor->ndim});
      }
      try {
        Run(region_, arguments);
      } catch (const std::runtime_error& e) {
        LOG(FATAL) << e.what();
      }
    });
  }

 private:
  const Region region_;
};

Module FromBytes(const std::string& bytes) {
  try {
    return Module(make_object<RegionModule>(Region::FromBytes(bytes)));
  } catch (const std::runtime_error& e) {
    LOG(FATAL) << e.what();
  }
}

Module FromStream(void* stream) {
  std::string bytes;
  ICHECK(static_cast<dmlc::Stream*>(stream)->Read(&bytes)) << kName << ": the bytes of a region are cut off";
  return FromBytes(bytes);
}

// Both libraries contain the module; the one that is loaded later replaces it.
static const auto& registered [[maybe_unused]] =
    Registry::Register(std::string("runtime.module.loadbinary_") + kName, true).set_body_typed(FromStream);

}  // namespace example_module
