// The codegen, the predicate and the pass for Relax.
//
// A wheel of apache-tvm has no headers of its compiler: no `relax::Call`, no `IRModule`, no visitors.
// So objects are read by reflection, as TVM's Python reads them, and made by TVM's global functions.
// This library is bound to the names of classes and fields, and not to the layout of TVM's classes.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/reflection/accessor.h>
#include <tvm/ffi/rvalue_ref.h>
#include <tvm/ffi/tvm_ffi.h>

#include <map>
#include <optional>

#include "region.h"
#include "transpose.h"

namespace example_module {
namespace {

namespace ffi = tvm::ffi;
using ffi::ObjectRef;
using Objects = ffi::Array<ObjectRef>;

// ---- TVM's objects, by reflection -----------------------------------------------------------------

// The name of the object's class, such as Call or DataflowVar.
std::string Kind(const ObjectRef& object) {
  const std::string key = object->GetTypeKey();
  return key.substr(key.rfind('.') + 1);
}

// The value of a field, of the object's class or of one from which it inherits.
template <typename T>
T Get(const ObjectRef& object, const std::string& field) {
  ffi::Any value;
  const bool found = ffi::reflection::ForEachFieldInfoWithEarlyStop(
      TVMFFIGetTypeInfo(object->type_index()), [&](const TVMFFIFieldInfo* info) {
        if (std::string(info->name.data, info->name.size) != field) return false;
        value = ffi::reflection::FieldGetter(info)(object);
        return true;
      });
  if (!found) TVM_FFI_THROW(TypeError) << kName << ": " << Kind(object) << " has no " << field;
  return value.cast<T>();
}

template <typename... Args>
ffi::Any Global(const char* name, Args&&... args) {
  return ffi::Function::GetGlobalRequired(name)(std::forward<Args>(args)...);
}

// TVM 0.27 renamed the class, and its field.
bool IsConstant(const ObjectRef& expr) { return Kind(expr) == "Constant" || Kind(expr) == "GenericConst"; }

ffi::Tensor DataOf(const ObjectRef& constant) {
  return Get<ffi::Tensor>(constant, Kind(constant) == "Constant" ? "data" : "value");
}

ffi::Map<ffi::String, ffi::Any> Attributes(const ObjectRef& function) {
  return Get<ffi::Map<ffi::String, ffi::Any>>(Get<ObjectRef>(function, "attrs"), "__dict__");
}

std::vector<int64_t> Ints(const ffi::Array<ffi::Any>& values) {
  std::vector<int64_t> ints;
  for (const ffi::Any& value : values) {
    const std::optional<int64_t> number = value.as<int64_t>();
    ints.push_back(number ? *number : Get<int64_t>(value.cast<ObjectRef>(), "value"));
  }
  return ints;
}

// ---- what is offloaded ----------------------------------------------------------------------------

// A tensor for a type, or nothing if its dtype is another one, or its number of axes unknown.
std::optional<Tensor> TensorOf(const ObjectRef& type) {
  if (Kind(type) != "TensorType") return std::nullopt;
  const auto prim = Get<ffi::Optional<ObjectRef>>(type, "dtype");
  const auto shape = Get<ffi::Optional<ObjectRef>>(type, "shape");
  if (!prim || !shape || Kind(*shape) != "ShapeExpr") return std::nullopt;
  Tensor tensor;
  const auto dtype = Get<DLDataType>(*prim, "dtype");
  if (dtype.lanes != 1) return std::nullopt;
  if (dtype.code == kDLFloat && dtype.bits == 32) tensor.dtype = DType::kFloat32;
  else if (dtype.code == kDLFloat && dtype.bits == 64) tensor.dtype = DType::kFloat64;
  else if (dtype.code == kDLInt && dtype.bits == 32) tensor.dtype = DType::kInt32;
  else return std::nullopt;
  for (const ObjectRef& extent : Get<Objects>(*shape, "values")) {
    tensor.shape.push_back(Kind(extent) == "IntImm" ? Get<int64_t>(extent, "value") : kAny);
  }
  return tensor;
}

std::optional<Tensor> TensorOfExpr(const ObjectRef& expr) {
  const auto type = Get<ffi::Optional<ObjectRef>>(expr, "ty");
  return type ? TensorOf(*type) : std::nullopt;
}

const std::map<std::string, Op>& Operators() {
  static const std::map<std::string, Op> operators = {
      {"relax.add", Op::kAdd},           {"relax.subtract", Op::kSubtract}, {"relax.multiply", Op::kMultiply},
      {"relax.maximum", Op::kMaximum},   {"relax.minimum", Op::kMinimum},   {"relax.nn.relu", Op::kRelu},
      {"relax.abs", Op::kAbs},           {"relax.negative", Op::kNegative}, {"relax.matmul", Op::kMatmul},
      {"relax.nn.conv2d", Op::kConv2d},
  };
  return operators;
}

// The call as a step without its tensors, or nothing if TVM keeps it. Predicate and codegen ask this.
std::optional<Step> StepOf(const ObjectRef& call) {
  if (Kind(call) != "Call") return std::nullopt;
  const auto callee = Get<ObjectRef>(call, "op");
  if (Kind(callee) != "Op") return std::nullopt;
  const auto found = Operators().find(Get<ffi::String>(callee, "name"));
  if (found == Operators().end()) return std::nullopt;
  const std::optional<Tensor> result = TensorOfExpr(call);
  std::vector<Tensor> operands;
  for (const ObjectRef& arg : Get<Objects>(call, "args")) {
    const std::optional<Tensor> operand = TensorOfExpr(arg);
    if (!operand || !result || operand->dtype != result->dtype) return std::nullopt;
    operands.push_back(*operand);
  }
  Step step{found->second, {}, {}, 0};
  if (step.op == Op::kMatmul) {
    if (operands[0].shape.size() < 2 || operands[1].shape.size() < 2) return std::nullopt;
    step.ints = {0, 0};
  } else if (step.op == Op::kConv2d) {
    const auto attrs = Get<ObjectRef>(call, "attrs");
    const std::string layout = Get<ffi::String>(attrs, "data_layout");
    const std::string out_layout = Get<ffi::String>(attrs, "out_layout");
    if (layout != "NCHW" || Get<ffi::String>(attrs, "kernel_layout") != "OIHW" ||
        (out_layout != layout && !out_layout.empty())) {
      return std::nullopt;
    }
    for (const char* name : {"strides", "padding", "dilation"}) {
      const std::vector<int64_t> ints = Ints(Get<ffi::Array<ffi::Any>>(attrs, name));
      const size_t count = std::string(name) == "padding" ? 4 : 2;
      // One number stands for all, two for both ends of each axis.
      for (size_t i = 0; i < count; ++i) step.ints.push_back(ints[i % ints.size()]);
    }
    step.ints.push_back(Get<int64_t>(attrs, "groups"));
  }
  return step;
}

bool Supports(const ObjectRef& call) { return StepOf(call).has_value(); }

// ---- from a function to a region ------------------------------------------------------------------

// What an expression evaluates to: a tensor, or a tuple of values.
struct Value {
  int64_t tensor = -1;
  std::vector<Value> fields;
};

class Translator {
 public:
  explicit Translator(const ObjectRef& function) {
    region.symbol = Attributes(function)["global_symbol"].cast<ffi::String>();
    for (const ObjectRef& param : Get<Objects>(function, "params")) {
      values_[param.get()] = Declare(Get<ObjectRef>(param, "ty"));
    }
    Flatten(Body(function), &region.outputs);
  }

  Region region;

 private:
  Value Declare(const ObjectRef& type) {
    Value value;
    if (Kind(type) == "TupleType") {
      for (const ObjectRef& field : Get<Objects>(type, "fields")) value.fields.push_back(Declare(field));
    } else if (Kind(type) != "ShapeType") {  // that of unknown extents, which the tensors have as well
      const std::optional<Tensor> tensor = TensorOf(type);
      if (!tensor) TVM_FFI_THROW(TypeError) << kName << ": an input that no step can read";
      value.tensor = region.Add(*tensor);
      region.inputs.push_back(value.tensor);
    }
    return value;
  }

  Value Body(const ObjectRef& function) {
    const auto body = Get<ObjectRef>(function, "body");
    for (const ObjectRef& block : Get<Objects>(body, "blocks")) {
      for (const ObjectRef& binding : Get<Objects>(block, "bindings")) {
        const auto var = Get<ObjectRef>(binding, "var"), value = Get<ObjectRef>(binding, "value");
        if (Kind(value) == "Function") {
          composites_.insert({var.get(), value});
        } else {
          values_[var.get()] = Evaluate(value);
        }
      }
    }
    return Evaluate(Get<ObjectRef>(body, "body"));
  }

  Value Evaluate(const ObjectRef& expr) {
    const auto known = values_.find(expr.get());
    if (known != values_.end()) return known->second;
    Value value;
    const std::string kind = Kind(expr);
    if (IsConstant(expr)) {
      const ffi::Tensor data = DataOf(expr);
      Tensor tensor = *TensorOfExpr(expr);
      const DLTensor& from = *data.GetDLTensorPtr();
      const char* begin = static_cast<const char*>(from.data) + from.byte_offset;
      tensor.data.assign(begin, data.numel() * BytesOf(tensor.dtype));
      value.tensor = region.Add(tensor);
      values_[expr.get()] = value;  // once, however many calls read it
    } else if (kind == "Tuple") {
      for (const ObjectRef& field : Get<Objects>(expr, "fields")) value.fields.push_back(Evaluate(field));
    } else if (kind == "TupleGetItem") {
      value = Evaluate(Get<ObjectRef>(expr, "tuple_value")).fields.at(Get<int64_t>(expr, "index"));
    } else if (kind == "Call") {
      value = Call(expr);
    } else {
      TVM_FFI_THROW(TypeError) << kName << ": no code for a " << kind;
    }
    return value;
  }

  Value Call(const ObjectRef& call) {
    const auto args = Get<Objects>(call, "args");
    const auto composite = composites_.find(Get<ObjectRef>(call, "op").get());
    if (composite != composites_.end()) {
      const auto params = Get<Objects>(composite->second, "params");
      for (size_t i = 0; i < args.size(); ++i) values_[params[i].get()] = Evaluate(args[i]);
      return Body(composite->second);
    }
    std::optional<Step> step = StepOf(call);
    if (!step) TVM_FFI_THROW(TypeError) << kName << ": no code for this call of " << region.symbol;
    for (const ObjectRef& arg : args) step->inputs.push_back(Evaluate(arg).tensor);
    Tensor result;
    result.dtype = TensorOfExpr(call)->dtype;
    Value value;
    value.tensor = step->result = region.Add(result);
    region.steps.push_back(*step);
    return value;
  }

  static void Flatten(const Value& value, std::vector<int64_t>* tensors) {
    if (value.tensor >= 0) tensors->push_back(value.tensor);
    for (const Value& field : value.fields) Flatten(field, tensors);
  }

  std::map<const ffi::Object*, Value> values_;
  std::map<const ffi::Object*, ObjectRef> composites_;
};

// ---- the pass -------------------------------------------------------------------------------------

// The constant that a `permute_dims` of a constant gives, or the call itself.
ObjectRef Folded(const ObjectRef& call) {
  const ffi::Tensor data = DataOf(Get<Objects>(call, "args")[0]);
  const DLTensor& from = *data.GetDLTensorPtr();
  if (from.dtype.bits % 8) return call;  // several elements share a byte
  const auto axes = Get<ffi::Optional<ffi::Array<ffi::Any>>>(Get<ObjectRef>(call, "attrs"), "axes");
  std::vector<int64_t> order;
  for (int64_t i = from.ndim; i-- > 0;) order.push_back(i);
  if (axes) order = Ints(*axes);
  const Shape shape = Permuted(Shape(from.shape, from.shape + from.ndim), &order);
  const DLDevice cpu{kDLCPU, 0};
  const auto to = Global("runtime.TVMTensorAllocWithScope", ffi::Shape(shape), from.dtype, cpu, nullptr)
                      .cast<ffi::Tensor>();
  Transpose(from, order, to.GetDLTensorPtr()->data);
  return Global("relax.MakeTensorConst", to, nullptr, nullptr).cast<ObjectRef>();
}

// A pass that transposes constants where `permute_dims` would do so in each run.
ObjectRef FoldTransposes() {
  // TVM moves the module into the function.
  const auto run = [](ffi::RValueRef<ObjectRef> moved, const ObjectRef&) {
    ObjectRef module = *std::move(moved);
    const auto op = Global("ir.GetOp", "relax.permute_dims");
    const auto pattern = Global("relax.dpl.CallPattern", Global("relax.dpl.ExprPattern", op),
                                ffi::Array<ffi::Any>{Global("relax.dpl.ConstantPattern")}, false);
    for (const auto& [var, function] : Get<ffi::Map<ObjectRef, ObjectRef>>(module, "functions")) {
      // Regions are left to the targets that cut them out.
      if (function->GetTypeKey() != "relax.expr.Function" || Attributes(function).count("Codegen")) continue;
      // TVM writes a function anew even where nothing matches.
      bool folds = false;
      const auto rewrite = [&folds](const ObjectRef& call, const ObjectRef&) {
        const ObjectRef folded = Folded(call);
        folds = folds || !folded.same_as(call);
        return folded;
      };
      const auto rewritten =
          Global("relax.dpl.rewrite_call", pattern, ffi::Function::FromTyped(rewrite), function);
      if (folds) {
        module = Global("ir.Module_Clone", module).cast<ObjectRef>();
        Global("ir.Module_UpdateFunction", module, var, rewritten);
      }
    }
    return module;
  };
  const ffi::Array<ffi::String> required;
  const auto info = Global("transform.PassInfo", 0, "example_module.FoldTransposes", required, false);
  return Global("transform.MakeModulePass", ffi::Function::FromTyped(run), info).cast<ObjectRef>();
}

// ---- what TVM and Python look up ------------------------------------------------------------------

ffi::Array<ffi::Module> Codegen(const Objects& functions, const ffi::Any&, const ffi::Any&) {
  ffi::Array<ffi::Module> modules;
  for (const ObjectRef& function : functions) {
    const ffi::Bytes bytes(Translator(function).region.ToBytes());
    modules.push_back(Global("ffi.Module.load_from_bytes.example_module", bytes).cast<ffi::Module>());
  }
  return modules;
}

TVM_FFI_STATIC_INIT_BLOCK() {
  ffi::Function::SetGlobal("relax.ext.example_module", ffi::Function::FromTyped(Codegen));
  ffi::Function::SetGlobal("example_module.version", ffi::Function::FromTyped([] { return kVersion; }));
  ffi::Function::SetGlobal("example_module.supports", ffi::Function::FromTyped(Supports));
  ffi::Function::SetGlobal("example_module.FoldTransposes", ffi::Function::FromTyped(FoldTransposes));
}

}  // namespace
}  // namespace example_module
