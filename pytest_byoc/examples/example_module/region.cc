// The format of artifacts, and the kernels.
#include "region.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <type_traits>

namespace example_module {
namespace {

[[noreturn]] void Fail(const std::string& message) { throw std::runtime_error(kName + (": " + message)); }

// ---- bytes: a magic word, the version, then every field as its length and its content ------------

const char kMagic[] = "XMODULE";  // eight bytes, with the zero at its end

class Writer {
 public:
  void Int(int64_t value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void Text(const std::string& text) { Int(text.size()), bytes += text; }
  void Ints(const std::vector<int64_t>& values) {
    Int(values.size());
    for (int64_t value : values) Int(value);
  }
  std::string bytes;
};

class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}
  std::string Raw(size_t size) {
    if (size > bytes_.size() - at_) Fail("the bytes of a region are cut off");
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  int64_t Int() {
    int64_t value;
    std::memcpy(&value, Raw(sizeof value).data(), sizeof value);
    return value;
  }
  int64_t Count() { return Within(Int(), bytes_.size() + 1); }
  static void Require(bool holds) {
    if (!holds) Fail("the bytes of a region are damaged");
  }
  // A number that stands for something, of which there are `count`.
  static int64_t Within(int64_t value, int64_t count) {
    Require(value >= 0 && value < count);
    return value;
  }
  std::string Text() { return Raw(Count()); }
  std::vector<int64_t> Ints() {
    std::vector<int64_t> values(Count());
    for (int64_t& value : values) value = Int();
    return values;
  }
  bool AtEnd() const { return at_ == bytes_.size(); }

 private:
  const std::string& bytes_;
  size_t at_ = 0;
};

// ---- shapes ---------------------------------------------------------------------------------------

int64_t SizeOf(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>());
}

int64_t Extent(const Shape& shape, size_t rank, size_t axis) {
  const size_t missing = rank - shape.size();
  return axis < missing ? 1 : shape[axis - missing];
}

// The shape of a stack of matrices, without that of the matrices.
Shape Stack(const Shape& shape) { return Shape(shape.begin(), shape.end() - 2); }

// The steps between neighbours along each axis, of a tensor that is broadcast to `rank` axes.
Shape StridesOf(const Shape& shape, size_t rank) {
  Shape strides(rank, 0);
  int64_t step = 1;
  for (size_t axis = rank; axis-- > 0;) {
    const int64_t extent = Extent(shape, rank, axis);
    strides[axis] = extent == 1 ? 0 : step;
    step *= extent;
  }
  return strides;
}

Shape Broadcast(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()));
  for (size_t axis = 0; axis < result.size(); ++axis) {
    const int64_t left = Extent(a, result.size(), axis), right = Extent(b, result.size(), axis);
    if (left != right && left != 1 && right != 1) Fail("shapes that cannot be broadcast");
    result[axis] = left == 1 ? right : left;
  }
  return result;
}

// Calls `visit` with the offsets of both operands for each element of the result, in order.
template <typename Visit>
void ForEach(const Shape& shape, const Shape& left, const Shape& right, Visit visit) {
  const size_t rank = shape.size();
  const Shape a = StridesOf(left, rank), b = StridesOf(right, rank);
  Shape index(rank, 0);
  int64_t at_a = 0, at_b = 0;
  for (int64_t i = 0, count = SizeOf(shape); i < count; ++i) {
    visit(i, at_a, at_b);
    for (size_t axis = rank; axis-- > 0;) {
      at_a += a[axis], at_b += b[axis];
      if (++index[axis] < shape[axis]) break;
      at_a -= a[axis] * shape[axis], at_b -= b[axis] * shape[axis], index[axis] = 0;
    }
  }
}

// ---- kernels --------------------------------------------------------------------------------------

struct Value {
  const char* data;
  Shape shape;
};

// Arithmetic of integers wraps around, as TVM's does; signed arithmetic of C++ would be undefined.
template <typename T>
using Arithmetic = std::conditional_t<std::is_integral<T>::value, uint32_t, T>;

template <typename T>
T Combine(Op op, T a, T b) {
  const Arithmetic<T> x = a, y = b;
  switch (op) {
    case Op::kAdd: return x + y;
    case Op::kSubtract: return x - y;
    case Op::kMultiply: return x * y;
    // In the order of TVM's own code, so that NaN and -0.0 give the same results.
    case Op::kMaximum: return a > b ? a : b;
    case Op::kMinimum: return a < b ? a : b;
    default: Fail("not a binary operator");
  }
}

template <typename T>
T Apply(Op op, T x) {
  switch (op) {
    case Op::kRelu: return x > 0 ? x : T(0);
    case Op::kAbs:
      if constexpr (std::is_integral<T>::value) return x < 0 ? T(-Arithmetic<T>(x)) : x;
      else return std::signbit(x) ? -x : x;
    case Op::kNegative: return -Arithmetic<T>(x);
    default: Fail("not a unary operator");
  }
}

// Stacks of matrices are broadcast as in NumPy.
template <typename T>
void Matmul(const Value& a, const Value& b, const Step& step, const Shape& shape, T* out) {
  const bool transposed_a = step.ints[0], transposed_b = step.ints[1];
  const size_t rank = shape.size();
  const int64_t rows = shape[rank - 2], columns = shape[rank - 1];
  const int64_t inner = a.shape[a.shape.size() - (transposed_a ? 2 : 1)];
  const T *left = reinterpret_cast<const T*>(a.data), *right = reinterpret_cast<const T*>(b.data);
  ForEach(Stack(shape), Stack(a.shape), Stack(b.shape), [&](int64_t i, int64_t at_a, int64_t at_b) {
    const T *x = left + at_a * rows * inner, *y = right + at_b * inner * columns;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        Arithmetic<T> sum = 0;
        for (int64_t k = 0; k < inner; ++k) {
          const Arithmetic<T> p = x[transposed_a ? k * rows + row : row * inner + k];
          const Arithmetic<T> q = y[transposed_b ? column * inner + k : k * columns + column];
          sum += p * q;
        }
        out[(i * rows + row) * columns + column] = sum;
      }
    }
  });
}

// NCHW and OIHW.
template <typename T>
void Conv2d(const Value& data, const Value& weight, const Step& step, const Shape& shape, T* out) {
  const auto& n = step.ints;
  const int64_t groups = n[8], channels = weight.shape[1], per_group = shape[1] / groups;
  const int64_t height = data.shape[2], width = data.shape[3];
  const T* in = reinterpret_cast<const T*>(data.data);
  const T* kernel = reinterpret_cast<const T*>(weight.data);
  for (int64_t b = 0; b < shape[0]; ++b)
    for (int64_t o = 0; o < shape[1]; ++o)
      for (int64_t y = 0; y < shape[2]; ++y)
        for (int64_t x = 0; x < shape[3]; ++x) {
          Arithmetic<T> sum = 0;
          for (int64_t c = 0; c < channels; ++c)
            for (int64_t i = 0; i < weight.shape[2]; ++i)
              for (int64_t j = 0; j < weight.shape[3]; ++j) {
                const int64_t row = y * n[0] - n[2] + i * n[6], column = x * n[1] - n[3] + j * n[7];
                // Padding is multiplied as well: 0 times infinity is NaN, also in TVM's own code.
                const bool inside = row >= 0 && row < height && column >= 0 && column < width;
                const int64_t channel = b * data.shape[1] + o / per_group * channels + c;
                const Arithmetic<T> p = inside ? in[(channel * height + row) * width + column] : T(0);
                const int64_t at = ((o * channels + c) * weight.shape[2] + i) * weight.shape[3] + j;
                sum += p * Arithmetic<T>(kernel[at]);
              }
          *out++ = sum;
        }
}

bool IsUnary(Op op) { return op == Op::kRelu || op == Op::kAbs || op == Op::kNegative; }

// The shape of the result; the right side of a binary operator is given the shape that it lies in.
Shape ResultOf(const Step& step, const Value& a, Value* b) {
  if (IsUnary(step.op)) return a.shape;
  if (step.op == Op::kMatmul) {
    if (a.shape.size() < 2 || b->shape.size() < 2) Fail("a product of vectors");
    const auto at = [](const Shape& s, int64_t from_end) { return s[s.size() - from_end]; };
    const bool transposed_a = step.ints[0], transposed_b = step.ints[1];
    if (at(a.shape, transposed_a ? 2 : 1) != at(b->shape, transposed_b ? 1 : 2)) {
      Fail("matrices that do not fit each other");
    }
    Shape shape = Broadcast(Stack(a.shape), Stack(b->shape));
    shape.push_back(at(a.shape, transposed_a ? 1 : 2));
    shape.push_back(at(b->shape, transposed_b ? 2 : 1));
    return shape;
  }
  if (step.op == Op::kConv2d) {
    const auto& n = step.ints;
    if (a.shape.size() != 4 || b->shape.size() != 4 || a.shape[1] != b->shape[1] * n[8]) {
      Fail("data and weights of a convolution that do not fit each other");
    }
    const auto extent = [&](int i) {
      return (a.shape[2 + i] + n[2 + i] + n[4 + i] - (b->shape[2 + i] - 1) * n[6 + i] - 1) / n[i] + 1;
    };
    return {a.shape[0], b->shape[0], extent(0), extent(1)};
  }
  if (!step.ints.empty()) {  // a bias
    Shape shape(a.shape.size(), 1);
    shape[step.ints[0]] = SizeOf(b->shape);
    b->shape = shape;
  }
  return Broadcast(a.shape, b->shape);
}

template <typename T>
void RunStep(const Step& step, const Value& a, const Value& b, const Shape& shape, void* result) {
  T* const out = static_cast<T*>(result);
  const T *x = reinterpret_cast<const T*>(a.data), *y = reinterpret_cast<const T*>(b.data);
  if (step.op == Op::kMatmul) {
    Matmul(a, b, step, shape, out);
  } else if (step.op == Op::kConv2d) {
    Conv2d(a, b, step, shape, out);
  } else if (IsUnary(step.op)) {
    for (int64_t i = 0, count = SizeOf(shape); i < count; ++i) out[i] = Apply(step.op, x[i]);
  } else {
    ForEach(shape, a.shape, b.shape,
            [&](int64_t i, int64_t p, int64_t q) { out[i] = Combine(step.op, x[p], y[q]); });
  }
}

}  // namespace

std::string Region::ToBytes() const {
  Writer to;
  to.bytes.assign(kMagic, sizeof kMagic);
  to.Int(kVersion);
  to.Text(symbol);
  to.Int(tensors.size());
  for (const Tensor& tensor : tensors) {
    to.Int(static_cast<int64_t>(tensor.dtype)), to.Ints(tensor.shape), to.Text(tensor.data);
  }
  to.Ints(inputs), to.Ints(outputs);
  to.Int(steps.size());
  for (const Step& step : steps) {
    to.Int(static_cast<int64_t>(step.op)), to.Ints(step.inputs), to.Ints(step.ints), to.Int(step.result);
  }
  return to.bytes;
}

Region Region::FromBytes(const std::string& bytes) {
  Reader from(bytes);
  if (from.Raw(sizeof kMagic) != std::string(kMagic, sizeof kMagic)) Fail("these bytes are no region");
  const int64_t version = from.Int();
  if (version != kVersion) {
    Fail("the artifact has version " + std::to_string(version) + " of the format, and this library reads " +
         std::to_string(kVersion) + ": export it again, or load the library that it was exported with");
  }
  Region region;
  region.symbol = from.Text();
  region.tensors.resize(from.Count());
  const int64_t count = region.tensors.size();
  for (Tensor& tensor : region.tensors) {
    tensor.dtype = static_cast<DType>(from.Within(from.Int(), static_cast<int64_t>(DType::kCount)));
    tensor.shape = from.Ints(), tensor.data = from.Text();
  }
  region.inputs = from.Ints(), region.outputs = from.Ints();
  region.steps.resize(from.Count());
  for (Step& step : region.steps) {
    const int64_t op = from.Int();
    if (op < 0 || op >= static_cast<int64_t>(Op::kCount)) {
      Fail("this library has no operator " + std::to_string(op) + ": load a later one");
    }
    step.op = static_cast<Op>(op);
    step.inputs = from.Ints(), step.ints = from.Ints(), step.result = from.Within(from.Int(), count);
    for (int64_t input : step.inputs) from.Within(input, count);
    from.Require(step.inputs.size() == (IsUnary(step.op) ? 1 : 2));
    from.Require(step.op != Op::kConv2d || step.ints.size() == 9);
    from.Require(step.op != Op::kMatmul || step.ints.size() == 2);
  }
  for (int64_t tensor : region.inputs) from.Within(tensor, count);
  for (int64_t tensor : region.outputs) from.Within(tensor, count);
  from.Require(from.AtEnd());
  return region;
}

void Run(const Region& region, const std::vector<Argument>& arguments) {
  if (arguments.size() != region.inputs.size() + region.outputs.size()) {
    Fail(region.symbol + ": expected " + std::to_string(region.inputs.size() + region.outputs.size()) +
         " arguments");
  }
  std::vector<Value> values(region.tensors.size());
  std::vector<std::vector<char>> results(region.tensors.size());
  for (size_t i = 0; i < region.tensors.size(); ++i) {
    values[i] = {region.tensors[i].data.data(), region.tensors[i].shape};
  }
  for (size_t i = 0; i < region.inputs.size(); ++i) {
    Value& value = values[region.inputs[i]];
    value.data = static_cast<const char*>(arguments[i].data);
    if (arguments[i].rank) value.shape.assign(arguments[i].shape, arguments[i].shape + arguments[i].rank);
    if (std::count(value.shape.begin(), value.shape.end(), kAny)) Fail("an input without a shape");
  }
  for (const Step& step : region.steps) {
    const DType dtype = region.tensors[step.result].dtype;
    const Value& a = values[step.inputs.front()];
    Value b = values[step.inputs.back()];
    Value& result = values[step.result];
    result.shape = ResultOf(step, a, &b);
    std::vector<char>& memory = results[step.result];
    memory.resize(SizeOf(result.shape) * BytesOf(dtype) + 1);  // never without an address
    result.data = memory.data();
    if (dtype == DType::kFloat32) {
      RunStep<float>(step, a, b, result.shape, memory.data());
    } else if (dtype == DType::kFloat64) {
      RunStep<double>(step, a, b, result.shape, memory.data());
    } else {
      RunStep<int32_t>(step, a, b, result.shape, memory.data());
    }
  }
  for (size_t i = 0; i < region.outputs.size(); ++i) {
    const Value& value = values[region.outputs[i]];
    const Argument& to = arguments[region.inputs.size() + i];
    const Shape shape(to.shape, to.shape + to.rank);
    if (to.rank && shape != value.shape) Fail(region.symbol + ": an output has another shape");
    std::memcpy(to.data, value.data, SizeOf(value.shape) * BytesOf(region.tensors[region.outputs[i]].dtype));
  }
}

}  // namespace example_module
