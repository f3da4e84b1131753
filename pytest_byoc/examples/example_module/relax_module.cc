// The runtime module for Relax. It needs the headers and the library of tvm-ffi alone.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/tvm_ffi.h>

#include "region.h"

namespace example_module {

namespace ffi = tvm::ffi;

class RegionModule : public ffi::ModuleObj {
 public:
  explicit RegionModule(Region region) : region_(std::move(region)) {}

  const char* kind() const final { return kName; }
  int GetPropertyMask() const final { return ffi::Module::kBinarySerializable | ffi::Module::kRunnable; }
  ffi::Bytes SaveToBytes() const final { return ffi::Bytes(region_.ToBytes()); }

  ffi::Optional<ffi::Function> GetFunction(const ffi::String& name) final {
    if (std::string(name) != region_.symbol) return std::nullopt;
    // The function keeps the module alive.
    ffi::ObjectPtr<ffi::Object> self = ffi::GetObjectPtr<ffi::Object>(this);
    return ffi::Function([self, this](ffi::PackedArgs args, ffi::Any*) {
      std::vector<Argument> arguments;
      for (int i = 0; i < args.size(); ++i) {
        if (args[i].as<ffi::Shape>()) continue;  // unknown extents, which the tensors have as well
        const DLTensor* tensor = args[i].cast<DLTensor*>();
        void* data = static_cast<char*>(tensor->data) + tensor->byte_offset;
        arguments.push_back({data, tensor->shape, tensor->ndim});
      }
      try {
        Run(region_, arguments);
      } catch (const std::runtime_error& e) {
        TVM_FFI_THROW(RuntimeError) << e.what();
      }
    });
  }

 private:
  const Region region_;
};

ffi::Module FromBytes(const ffi::Bytes& bytes) {
  try {
    return ffi::Module(ffi::make_object<RegionModule>(Region::FromBytes(bytes)));
  } catch (const std::runtime_error& e) {
    TVM_FFI_THROW(RuntimeError) << e.what();
  }
}

TVM_FFI_STATIC_INIT_BLOCK() {
  // Both libraries contain the module; the one that is loaded later replaces it.
  const std::string name = std::string("ffi.Module.load_from_bytes.") + kName;
  ffi::Function::SetGlobal(name, ffi::Function::FromTyped(FromBytes), true);
}

}  // namespace example_module
