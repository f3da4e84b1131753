// The codegen, the predicate and the pass for Relay.
#include <tvm/ir/module.h>
#include <tvm/ir/op.h>
#include <tvm/ir/transform.h>
#include <tvm/relay/attrs/nn.h>
#include <tvm/relay/attrs/transform.h>
#include <tvm/relay/expr.h>
#include <tvm/relay/expr_functor.h>
#include <tvm/relay/transform.h>
#include <tvm/runtime/registry.h>

#include <map>
#include <optional>

#include "region.h"
#include "transpose.h"

namespace example_module {

tvm::runtime::Module FromBytes(const std::string& bytes);

namespace {

using namespace tvm;
using namespace tvm::relay;
using runtime::NDArray;
using runtime::TypedPackedFunc;

// ---- what is offloaded ----------------------------------------------------------------------------

// A tensor for a type, or nothing if its dtype is another one, or an extent unknown.
std::optional<Tensor> TensorOf(const Type& type) {
  const auto* node = type.as<TensorTypeNode>();
  if (node == nullptr) return std::nullopt;
  Tensor tensor;
  if (node->dtype == DataType::Float(32)) tensor.dtype = DType::kFloat32;
  else if (node->dtype == DataType::Float(64)) tensor.dtype = DType::kFloat64;
  else if (node->dtype == DataType::Int(32)) tensor.dtype = DType::kInt32;
  else return std::nullopt;
  for (const PrimExpr& extent : node->shape) {
    const auto* known = extent.as<IntImmNode>();
    if (known == nullptr) return std::nullopt;
    tensor.shape.push_back(known->value);
  }
  return tensor;
}

const std::map<std::string, example_module::Op>& Operators() {
  using Ours = example_module::Op;
  static const std::map<std::string, Ours> operators = {
      {"add", Ours::kAdd},           {"subtract", Ours::kSubtract},      {"multiply", Ours::kMultiply},
      {"maximum", Ours::kMaximum},   {"minimum", Ours::kMinimum},        {"nn.bias_add", Ours::kAdd},
      {"nn.relu", Ours::kRelu},      {"abs", Ours::kAbs},                {"negative", Ours::kNegative},
      {"nn.dense", Ours::kMatmul},   {"nn.batch_matmul", Ours::kMatmul}, {"nn.matmul", Ours::kMatmul},
      {"nn.conv2d", Ours::kConv2d},
  };
  return operators;
}

template <typename Number>
std::vector<int64_t> Ints(const Array<Number>& values, size_t count) {
  std::vector<int64_t> ints;
  // One number stands for all, two for both ends of each axis.
  for (size_t i = 0; i < count; ++i) {
    ints.push_back(Downcast<IntImm>(values[i % values.size()])->value);
  }
  return ints;
}

template <typename Attributes>
std::vector<int64_t> Transpositions(const Call& call) {
  const auto* attrs = call->attrs.as<Attributes>();
  return {attrs->transpose_a, attrs->transpose_b};
}

// The call as a step without its tensors, or nothing if TVM keeps it. Predicate and codegen ask this.
std::optional<Step> StepOf(const Call& call) {
  const auto* op = call->op.as<OpNode>();
  if (op == nullptr) return std::nullopt;
  const auto found = Operators().find(op->name);
  if (found == Operators().end()) return std::nullopt;
  const std::optional<Tensor> result = TensorOf(call->checked_type());
  std::vector<Tensor> operands;
  for (const Expr& arg : call->args) {
    const std::optional<Tensor> operand = TensorOf(arg->checked_type());
    if (!operand || !result || operand->dtype != result->dtype) return std::nullopt;
    operands.push_back(*operand);
  }
  const int64_t rank = result->shape.size();
  Step step{found->second, {}, {}, 0};
  if (op->name == "nn.dense") {
    step.ints = {0, 1};
  } else if (op->name == "nn.batch_matmul") {
    step.ints = Transpositions<BatchMatmulAttrs>(call);
  } else if (op->name == "nn.matmul") {
    step.ints = Transpositions<MatmulAttrs>(call);
  } else if (op->name == "nn.bias_add") {
    const int64_t axis = call->attrs.as<BiasAddAttrs>()->axis;
    step.ints = {axis < 0 ? axis + rank : axis};
  } else if (op->name == "nn.conv2d") {
    const auto* attrs = call->attrs.as<Conv2DAttrs>();
    if (attrs->data_layout != "NCHW" || attrs->kernel_layout != "OIHW" ||
        (attrs->out_layout != "" && attrs->out_layout != "NCHW")) {
      return std::nullopt;
    }
    for (const auto& ints : {Ints(attrs->strides, 2), Ints(attrs->padding, 4), Ints(attrs->dilation, 2)}) {
      step.ints.insert(step.ints.end(), ints.begin(), ints.end());
    }
    step.ints.push_back(attrs->groups);
  }
  for (const Tensor& operand : operands) {
    if (step.op == example_module::Op::kMatmul && operand.shape.size() < 2) return std::nullopt;
  }
  return step;
}

bool Supports(const Expr& expr) {
  const auto* call = expr.as<CallNode>();
  return call != nullptr && StepOf(GetRef<Call>(call)).has_value();
}

// ---- from a function to a region ------------------------------------------------------------------

class Translator : public MixedModeVisitor {
 public:
  explicit Translator(const Function& function) {
    region.symbol = function->GetAttr<String>(tvm::attr::kGlobalSymbol).value();
    for (const Var& param : function->params) Declare(param->checked_type(), &values_[param.get()]);
    VisitExpr(function->body);
    region.outputs = values_.at(function->body.get());
  }

  Region region;

 private:
  // The tensors of a value. TVM passes the fields of a tuple one by one.
  using Tensors = std::vector<int64_t>;

  void Declare(const Type& type, Tensors* tensors) {
    if (const auto* tuple = type.as<TupleTypeNode>()) {
      for (const Type& field : tuple->fields) Declare(field, tensors);
      return;
    }
    const std::optional<Tensor> tensor = TensorOf(type);
    ICHECK(tensor) << kName << ": an input of this type: " << type;
    tensors->push_back(region.Add(*tensor));
    region.inputs.push_back(tensors->back());
  }

  // Each is called after the expressions that it reads.
  void VisitExpr_(const ConstantNode* constant) final {
    Tensor tensor = *TensorOf(constant->checked_type());
    tensor.data.resize(runtime::GetDataSize(*constant->data.operator->()));
    constant->data.CopyToBytes(tensor.data.data(), tensor.data.size());
    values_[constant] = {region.Add(tensor)};
  }

  void VisitExpr_(const TupleNode* tuple) final {
    Tensors tensors;
    for (const Expr& field : tuple->fields) {
      const Tensors& more = values_.at(field.get());
      tensors.insert(tensors.end(), more.begin(), more.end());
    }
    values_[tuple] = tensors;
  }

  void VisitExpr_(const TupleGetItemNode* item) final {
    values_[item] = {values_.at(item->tuple.get()).at(item->index)};
  }

  void VisitExpr_(const CallNode* node) final {
    const Call call = GetRef<Call>(node);
    std::optional<Step> step = StepOf(call);
    ICHECK(step) << kName << ": no code for " << call->op;
    for (const Expr& arg : call->args) step->inputs.push_back(values_.at(arg.get()).front());
    Tensor result;
    result.dtype = TensorOf(call->checked_type())->dtype;
    step->result = region.Add(result);
    region.steps.push_back(*step);
    values_[node] = {step->result};
  }

  std::map<const Object*, Tensors> values_;
};

// ---- the pass -------------------------------------------------------------------------------------

// Transposes constants where `transpose` would do so in each run.
class TransposeFolder : public MixedModeMutator {
 private:
  Expr Rewrite_(const CallNode*, const Expr& rewritten) final {
    const auto* call = rewritten.as<CallNode>();
    const auto* constant = call->args.empty() ? nullptr : call->args[0].as<ConstantNode>();
    const auto* op = call->op.as<OpNode>();
    if (constant == nullptr || op == nullptr || op->name != "transpose") return rewritten;
    const DLTensor* from = constant->data.operator->();
    if (from->dtype.bits % 8) return rewritten;  // several elements share a byte
    const Array<Integer> axes = call->attrs.as<TransposeAttrs>()->axes;
    std::vector<int64_t> order;
    for (int64_t i = 0; i < from->ndim; ++i) {
      order.push_back(axes.empty() ? from->ndim - 1 - i : axes[i].IntValue());
    }
    const Shape shape = Permuted(Shape(from->shape, from->shape + from->ndim), &order);
    const NDArray to = NDArray::Empty(runtime::ShapeTuple(shape), from->dtype, {kDLCPU, 0});
    Transpose(*from, order, to->data);
    return Constant(to);
  }
};

tvm::transform::Pass FoldTransposes() {
  const auto run = [](Function function, IRModule, tvm::transform::PassContext) {
    return Downcast<Function>(TransposeFolder().Mutate(function));
  };
  return relay::transform::CreateFunctionPass(run, 0, "example_module.FoldTransposes", {"InferType"});
}

// ---- what TVM and Python look up ------------------------------------------------------------------

runtime::Module Codegen(const ObjectRef& function) {
  return FromBytes(Translator(Downcast<Function>(function)).region.ToBytes());
}

// The constants are in the bytes. TVM would store others as parameters of the graph.
Map<String, NDArray> ConstantsToExport(Expr, String) { return {}; }

TVM_REGISTER_GLOBAL("relay.ext.example_module").set_body_typed(Codegen);
TVM_REGISTER_GLOBAL("relay.ext.example_module.constant_updater").set_body_typed(ConstantsToExport);
TVM_REGISTER_GLOBAL("example_module.version").set_body_typed([] { return kVersion; });
TVM_REGISTER_GLOBAL("example_module.supports").set_body_typed(Supports);
TVM_REGISTER_GLOBAL("example_module.FoldTransposes").set_body_typed(FoldTransposes);

// AnnotateTarget asks the attribute "target.NAME" of an operator about each of its calls.
const bool annotated [[maybe_unused]] = [] {
  for (const auto& entry : Operators()) {
    tvm::OpRegEntry::RegisterOrGet(entry.first)
        .set_attr<TypedPackedFunc<bool(const Expr&)>>("target.example_module", Supports);
  }
  return true;
}();

}  // namespace
}  // namespace example_module
