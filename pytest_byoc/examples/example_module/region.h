// What a region is: steps over tensors. How it becomes bytes, how it is read, and how it is run.
// Nothing here knows TVM, so both IRs, compiler and runtime use it.
#ifndef EXAMPLE_MODULE_REGION_H_
#define EXAMPLE_MODULE_REGION_H_

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace example_module {

using Shape = std::vector<int64_t>;

// The numbers are part of the format of artifacts: append, never renumber.
enum class DType : int64_t { kFloat32, kFloat64, kInt32, kCount };
enum class Op : int64_t {
  kAdd, kSubtract, kMultiply, kMaximum, kMinimum, kRelu, kAbs, kNegative, kMatmul, kConv2d, kCount
};

inline const char* kName = "example_module";
constexpr int64_t kVersion = 1;
// An extent that is known when the region runs.
constexpr int64_t kAny = -1;

inline size_t BytesOf(DType dtype) { return dtype == DType::kFloat64 ? 8 : 4; }

// An input, a constant or a result. Only a constant has data, and only it and inputs have a shape.
struct Tensor {
  DType dtype = DType::kFloat32;
  Shape shape;
  std::string data;
};

// One call. `ints` are, of conv2d: strides (2), padding (4), dilation (2), groups; of matmul:
// whether its left and its right side are transposed; of a binary operator: the axis along which its
// right side lies, or nothing, where it is broadcast as in NumPy.
struct Step {
  Op op;
  std::vector<int64_t> inputs, ints;
  int64_t result;
};

struct Region {
  std::string symbol;
  std::vector<Tensor> tensors;
  std::vector<int64_t> inputs, outputs;
  std::vector<Step> steps;

  int64_t Add(Tensor tensor) {
    tensors.push_back(std::move(tensor));
    return static_cast<int64_t>(tensors.size()) - 1;
  }
  std::string ToBytes() const;
  // Throws std::runtime_error for bytes that are of another version, damaged or cut off.
  static Region FromBytes(const std::string& bytes);
};

// A tensor of the caller. Without a shape (`rank` is 0) the declared one is taken.
struct Argument {
  void* data;
  const int64_t* shape;
  int rank;
};

// Runs a region: inputs first, then outputs. Throws std::runtime_error if shapes don't fit. It keeps
// nothing between calls, so that several threads may run one region.
void Run(const Region& region, const std::vector<Argument>& arguments);

}  // namespace example_module

#endif  // EXAMPLE_MODULE_REGION_H_
