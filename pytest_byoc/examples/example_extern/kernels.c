/* The kernels that the generated TIR calls. They are linked into each artifact.
 *
 * This text is for float32; library.py makes the one for float64 from it by replacing names. The
 * functions are hidden: two artifacts in one process must not call each other's. A kernel returns
 * 0, or 1 if it can't compute.
 */
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#define KERNEL __attribute__((visibility("hidden"))) int32_t

/* The interface with 32-bit integers. Weak: if nobody supplies the function, its address is 0. */
__attribute__((weak)) void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k,
                                       float alpha, const float* a, int lda, const float* b, int ldb,
                                       float beta, float* c, int ldc);

/* c[i] = a[i] b[i] for stacks of row-major matrices; a stride of 0 repeats the only one. */
KERNEL example_extern_matmul_f32(const float* a, const float* b, float* c, int32_t stack, int32_t m,
                                 int32_t n, int32_t k, int32_t trans_a, int32_t trans_b,
                                 int32_t stride_a, int32_t stride_b) {
  enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };
  int64_t i;
  if (cblas_sgemm == 0) return 1;
  for (i = 0; i < stack; ++i)
    cblas_sgemm(ROW_MAJOR, trans_a ? TRANS : NO_TRANS, trans_b ? TRANS : NO_TRANS, m, n, k, 1,
                a + i * stride_a, trans_a ? m : k, b + i * stride_b, trans_b ? k : n, 0,
                c + i * m * n, n);
  return 0;
}

/* The second operand is repeated every `period` elements: a bias along the last axis, a scalar. */
KERNEL example_extern_add_f32(const float* a, const float* b, float* y, int32_t size, int32_t period) {
  int32_t i, j;
  for (i = 0; i < size; i += period)
    for (j = 0; j < period; ++j) y[i + j] = a[i + j] + b[j];
  return 0;
}

KERNEL example_extern_multiply_f32(const float* a, const float* b, float* y, int32_t size,
                                   int32_t period) {
  int32_t i, j;
  for (i = 0; i < size; i += period)
    for (j = 0; j < period; ++j) y[i + j] = a[i + j] * b[j];
  return 0;
}

KERNEL example_extern_relu_f32(const float* x, float* y, int32_t size) {
  int32_t i;
  for (i = 0; i < size; ++i) y[i] = x[i] > 0 ? x[i] : 0;
  return 0;
}

#ifdef __cplusplus
}
#endif
