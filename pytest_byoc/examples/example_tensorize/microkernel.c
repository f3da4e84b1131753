/* The micro-kernel that tensorised loops call. The sizes of its tile come from schedule.py.
 *
 * VISIBILITY is "hidden" where it becomes part of an artifact: two artifacts in one process must not
 * call each other's. It is "default" in the library that a process loads. */
#include <stdint.h>
#ifdef __cplusplus
extern "C"
#endif
/* c[i, j] += sum over l of a[i, l] * b[j, l], for one tile; ld*: the distance between rows. */
__attribute__((visibility(VISIBILITY)))
int32_t example_tensorize_gemm(float* c, const float* a, const float* b,
                               int32_t ldc, int32_t lda, int32_t ldb) {
  int32_t i, j, l;
  for (i = 0; i < ROWS; ++i)
    for (j = 0; j < COLUMNS; ++j) {
      float sum = c[i * ldc + j];
      for (l = 0; l < DEPTH; ++l) sum += a[i * lda + l] * b[j * ldb + l];
      c[i * ldc + j] = sum;
    }
  return 0;
}
