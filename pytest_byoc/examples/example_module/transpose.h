// What the passes of both IRs share: transposing a constant.
#ifndef EXAMPLE_MODULE_TRANSPOSE_H_
#define EXAMPLE_MODULE_TRANSPOSE_H_

#include <dlpack/dlpack.h>

#include "region.h"

namespace example_module {

// The shape after a permutation, whose negative axes are counted from the end, and become positive.
inline Shape Permuted(const Shape& shape, std::vector<int64_t>* axes) {
  Shape permuted;
  for (int64_t& axis : *axes) {
    axis += axis < 0 ? shape.size() : 0;
    permuted.push_back(shape.at(axis));
  }
  return permuted;
}

// Copies a dense tensor, whose elements are whole bytes, to memory in the order of the axes.
inline void Transpose(const DLTensor& from, const std::vector<int64_t>& axes, void* target) {
  const int64_t rank = from.ndim, bytes = from.dtype.bits * from.dtype.lanes / 8;
  const char* source = static_cast<const char*>(from.data) + from.byte_offset;
  Shape strides(rank, bytes);
  int64_t count = 1;
  for (int64_t i = 0; i < rank; ++i) count *= from.shape[i];
  for (int64_t i = rank - 1; i > 0; --i) strides[i - 1] = strides[i] * from.shape[i];
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = 0, rest = i;
    for (int64_t axis = rank; axis-- > 0;) {
      const int64_t extent = from.shape[axes[axis]];
      at += rest % extent * strides[axes[axis]];
      rest /= extent;
    }
    std::memcpy(static_cast<char*>(target) + i * bytes, source + at, bytes);
  }
}

}  // namespace example_module

#endif  // EXAMPLE_MODULE_TRANSPOSE_H_
