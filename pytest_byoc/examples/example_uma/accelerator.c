/* The accelerator, which is simulated: it adds up products of two tensors along a nest of loops.
 *
 * Like a device it has registers, one for each loop, which are set before it runs. Each thread has registers
 * of its own. TVM declares these functions where it calls them, so that they cannot be static (and declares
 * pointers as void* in Relax: EXAMPLE_UMA_UNTYPED). They are weak, since an artifact may hold them several
 * times. */
#ifndef EXAMPLE_UMA_ACCELERATOR
#define EXAMPLE_UMA_ACCELERATOR
#include <stdint.h>

#ifdef __cplusplus
#define EXAMPLE_UMA_API extern "C" __attribute__((weak))
#else
#define EXAMPLE_UMA_API __attribute__((weak))
#endif

#ifdef EXAMPLE_UMA_UNTYPED
#define EXAMPLE_UMA_POINTER(TYPE) void*
#else
#define EXAMPLE_UMA_POINTER(TYPE) TYPE*
#endif

enum { EXAMPLE_UMA_LOOPS = 16 };

/* How often a loop runs, and how far it moves (in elements) in the result and in both operands. */
typedef struct {
  int64_t extent, result, left, right;
} ExampleUmaLoop;

static __thread ExampleUmaLoop example_uma_loops[EXAMPLE_UMA_LOOPS];

EXAMPLE_UMA_API ExampleUmaLoop* example_uma_registers(void) { return example_uma_loops; }

EXAMPLE_UMA_API int32_t example_uma_loop(int64_t number, int64_t extent, int64_t result, int64_t left,
                                         int64_t right) {
  ExampleUmaLoop* const loop = &example_uma_registers()[number];
  loop->extent = extent;
  loop->result = result;
  loop->left = left;
  loop->right = right;
  return 0;
}

/* outer: the number of loops over elements of the result. inner: of those over what is added up, which
 * follow them. */
#define EXAMPLE_UMA_MULTIPLY_ADD(NAME, OPERAND, RESULT)                                                   \
  static RESULT NAME##_sum(const ExampleUmaLoop* loop, int64_t inner, const OPERAND* left,                \
                           const OPERAND* right, RESULT sum) {                                            \
    if (inner == 0) return sum + (RESULT)*left * (RESULT)*right;                                          \
    for (int64_t i = 0; i < loop->extent; ++i)                                                            \
      sum = NAME##_sum(loop + 1, inner - 1, left + i * loop->left, right + i * loop->right, sum);         \
    return sum;                                                                                           \
  }                                                                                                       \
  static void NAME##_each(const ExampleUmaLoop* loop, int64_t outer, int64_t inner, RESULT* result,       \
                          const OPERAND* left, const OPERAND* right) {                                    \
    if (outer == 0) {                                                                                     \
      *result = NAME##_sum(loop, inner, left, right, 0);                                                  \
      return;                                                                                             \
    }                                                                                                     \
    for (int64_t i = 0; i < loop->extent; ++i)                                                            \
      NAME##_each(loop + 1, outer - 1, inner, result + i * loop->result, left + i * loop->left,           \
                  right + i * loop->right);                                                               \
  }                                                                                                       \
  EXAMPLE_UMA_API int32_t NAME(EXAMPLE_UMA_POINTER(RESULT) result, EXAMPLE_UMA_POINTER(OPERAND) left,     \
                               EXAMPLE_UMA_POINTER(OPERAND) right, int64_t outer, int64_t inner) {        \
    NAME##_each(example_uma_registers(), outer, inner, (RESULT*)result, (const OPERAND*)left,             \
                (const OPERAND*)right);                                                                   \
    return 0;                                                                                             \
  }

EXAMPLE_UMA_MULTIPLY_ADD(example_uma_float32, float, float)
EXAMPLE_UMA_MULTIPLY_ADD(example_uma_int8, int8_t, int32_t)
#endif
