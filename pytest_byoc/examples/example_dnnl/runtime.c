/* Runs a region with oneDNN's C API; `c_source.py` writes the tables of the region behind this text. */
#ifndef EXAMPLE_DNNL_RUNTIME
#define EXAMPLE_DNNL_RUNTIME
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPERANDS = 16, ADDEND = DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1 };

/* ---- tables, which never change; tensor 0 stands for "none" ---- */

typedef struct {
  dnnl_data_type_t type;
  int rank;
  size_t bytes;
  dnnl_dims_t dims;
  const void* data; /* of a constant */
} Tensor;

/* A tensor as a primitive sees it: reshaped to `dims`, then axis i moved to axes[i], in the layout that the
 * tensor has, that oneDNN decides on, or row-major. */
enum { GIVEN, ANY, PLAIN };
typedef struct { int code, tensor, layout, rank; dnnl_dims_t dims; int axes[DNNL_MAX_NDIMS]; } Operand;

typedef struct {
  dnnl_primitive_kind_t kind;
  dnnl_alg_kind_t algorithm, activation; /* the latter is applied to the result */
  int operands, axis;
  const char* name;
  const Operand* operand; /* the last one is the result */
  float alpha, beta, activation_alpha, activation_beta;
  unsigned flags;
  dnnl_dims_t kernel, strides, dilates, left, right;
} Step;

typedef struct {
  int tensors, steps, inputs, outputs; /* the inputs are the tensors 1, 2 … */
  const Tensor* tensor;
  const Step* step;
  const int* output;
} Tables;

/* ---- what the first call makes of them, which no later call changes ---- */

typedef enum { CONSTANT, ARGUMENT, KEPT, WORKSPACE } Place;
typedef struct { dnnl_memory_desc_t desc; Place place; size_t at; } Value;
typedef struct {
  dnnl_primitive_t primitive;
  const Step* step; /* NULL if it changes a layout */
  int once; /* it reads constants alone, and is executed when the region is built */
  int count, code[MOST_OPERANDS + 2], value[MOST_OPERANDS + 2];
  const_dnnl_memory_desc_t desc[MOST_OPERANDS + 2];
} Call;
typedef struct {
  const Tables* tables;
  int ready, values, calls, descs;
  Value* value; /* of the tensors where they are now; behind them, of scratchpads and other layouts */
  Call* call;
  dnnl_memory_desc_t* desc; /* all descriptions, to be freed */
  size_t bytes[WORKSPACE + 1];
  char* kept;
} Region;

static __thread char example_dnnl_message[300];
static dnnl_status_t failed(dnnl_status_t status, const char* call) {
  if (!example_dnnl_message[0]) /* the innermost call says most */
    snprintf(example_dnnl_message, 300, "oneDNN: %s: %.200s", dnnl_status2str(status), call);
  return status;
}
#define TRY(call)                                              \
  do {                                                         \
    const dnnl_status_t status_ = (call);                      \
    if (status_ != dnnl_success) return failed(status_, #call); \
  } while (0)

/* One engine and one lock for the library, which may hold several regions. The regions' primitives
 * refer to the engine: destructors of this priority run after the others. */
#define OF_LIBRARY __attribute__((weak, visibility("hidden")))
OF_LIBRARY dnnl_engine_t example_dnnl_engine = NULL;
OF_LIBRARY pthread_mutex_t example_dnnl_lock = PTHREAD_MUTEX_INITIALIZER;
OF_LIBRARY __attribute__((destructor(101))) void example_dnnl_end(void) {
  if (example_dnnl_engine) dnnl_engine_destroy(example_dnnl_engine);
  example_dnnl_engine = NULL;
}

/* ---- execution: all that a call changes belongs to this call alone ---- */

/* Where a row holds NaN, oneDNN's softmax is NaN in one element of the row alone. */
static void spread_nan(const Step* s, const Tensor* t, float* result) {
  size_t rows = 1, extent = t->dims[s->axis], stride = 1;
  for (int i = 0; i < t->rank; ++i) *(i < s->axis ? &rows : &stride) *= i == s->axis ? 1 : t->dims[i];
  for (size_t i = 0; i < rows * stride; ++i) {
    float* const row = result + i / stride * extent * stride + i % stride;
    float sum = 0; /* NaN if an element is */
    for (size_t k = 0; k < extent; ++k) sum += row[k * stride];
    for (size_t k = 0; k < extent && sum != sum; ++k) row[k * stride] = sum;
  }
}

/* The index of an element in a layout, which may have axes in blocks, say 16 channels side by side. */
static size_t index_of(const_dnnl_memory_desc_t desc, dnnl_dim_t n, dnnl_dim_t c, dnnl_dim_t y, dnnl_dim_t x) {
  dnnl_dim_t at[] = {n, c, y, x}, step = 1, index = 0;
  const dnnl_dims_t *strides, *sizes, *axes;
  int blocks;
  dnnl_memory_desc_query(desc, dnnl_query_strides, &strides);
  dnnl_memory_desc_query(desc, dnnl_query_inner_nblks_s32, &blocks);
  dnnl_memory_desc_query(desc, dnnl_query_inner_blks, &sizes);
  dnnl_memory_desc_query(desc, dnnl_query_inner_idxs, &axes);
  while (blocks-- > 0) { /* the last one is the innermost */
    const dnnl_dim_t size = (*sizes)[blocks], axis = (*axes)[blocks];
    index += at[axis] % size * step;
    at[axis] /= size, step *= size;
  }
  for (int i = 0; i < 4; ++i) index += at[i] * (*strides)[i];
  return index;
}

/* Where a window holds nothing but -inf or NaN, the maximum of oneDNN's pooling is the least finite number.
 * What has this value, which is rare, becomes the largest number of its window, NaN if there is none. */
static void pool_again(const Step* s, const_dnnl_memory_desc_t from, const float* source,
                       const_dnnl_memory_desc_t to, float* result) {
  const size_t count = dnnl_memory_desc_get_size(to) / sizeof *result;
  const dnnl_dims_t *in, *out;
  size_t finite = 0;
  while (finite < count && result[finite] != -FLT_MAX) ++finite;
  if (finite == count) return;
  dnnl_memory_desc_query(from, dnnl_query_dims, &in);
  dnnl_memory_desc_query(to, dnnl_query_dims, &out);
  for (dnnl_dim_t n = 0; n < (*out)[0]; ++n)
    for (dnnl_dim_t c = 0; c < (*out)[1]; ++c)
      for (dnnl_dim_t i = 0; i < (*out)[2]; ++i)
        for (dnnl_dim_t j = 0; j < (*out)[3]; ++j) {
          float* const largest = &result[index_of(to, n, c, i, j)];
          if (*largest != -FLT_MAX) continue;
          *largest = NAN;
          for (dnnl_dim_t k = 0; k < s->kernel[0]; ++k)
            for (dnnl_dim_t l = 0; l < s->kernel[1]; ++l) {
              const dnnl_dim_t y = i * s->strides[0] - s->left[0] + k * (s->dilates[0] + 1);
              const dnnl_dim_t x = j * s->strides[1] - s->left[1] + l * (s->dilates[1] + 1);
              if (y < 0 || y >= (*in)[2] || x < 0 || x >= (*in)[3]) continue;
              const float value = source[index_of(from, n, c, y, x)];
              if (isnan(*largest) || value > *largest) *largest = value;
            }
        }
}

static dnnl_status_t execute(const Region* r, const Call* c, dnnl_stream_t stream, void* const* args, char* workspace) {
  dnnl_exec_arg_t arg[MOST_OPERANDS + 2] = {{0, NULL}};
  void* data[MOST_OPERANDS + 2];
  dnnl_status_t status = dnnl_success;
  int made = 0;
  for (; made < c->count && status == dnnl_success; ++made) {
    const Value* const v = &r->value[c->value[made]];
    data[made] = v->place == CONSTANT ? (void*)v->at : v->place == ARGUMENT ? args[v->at]
               : (v->place == KEPT ? r->kept : workspace) + v->at;
    arg[made] = (dnnl_exec_arg_t){c->code[made], NULL};
    status = dnnl_memory_create(&arg[made].memory, c->desc[made], example_dnnl_engine, data[made]);
  }
  if (status == dnnl_success) status = dnnl_primitive_execute(c->primitive, stream, c->count, arg);
  if (status == dnnl_success) status = dnnl_stream_wait(stream);
  while (made-- > 0) dnnl_memory_destroy(arg[made].memory);
  if (status != dnnl_success || c->step == NULL) return status;
  if (c->step->kind == dnnl_softmax) spread_nan(c->step, &r->tables->tensor[c->step->operand[1].tensor], data[1]);
  if (c->step->algorithm == dnnl_pooling_max) pool_again(c->step, c->desc[0], data[0], c->desc[1], data[1]);
  return status;
}

static dnnl_status_t execute_all(const Region* r, int once, void* const* args) {
  char* const workspace = aligned_alloc(64, r->bytes[WORKSPACE] + 64);
  dnnl_stream_t stream = NULL;
  if (workspace == NULL) return failed(dnnl_out_of_memory, "workspace");
  dnnl_status_t status = dnnl_stream_create(&stream, example_dnnl_engine, dnnl_stream_default_flags);
  for (int i = 0; i < r->calls && status == dnnl_success; ++i)
    if (r->call[i].once == once) status = execute(r, &r->call[i], stream, args, workspace);
  dnnl_stream_destroy(stream);
  free(workspace);
  TRY(status);
  return dnnl_success;
}

/* ---- building ---- */

static dnnl_status_t keep(Region* r, dnnl_memory_desc_t* desc, dnnl_status_t status) {
  if (status == dnnl_success) r->desc[r->descs++] = *desc;
  return status;
}

static dnnl_status_t plain(Region* r, const Tensor* t, dnnl_memory_desc_t* desc) {
  dnnl_dims_t strides;
  for (int i = t->rank - 1; i >= 0; --i) strides[i] = i == t->rank - 1 ? 1 : strides[i + 1] * t->dims[i + 1];
  TRY(keep(r, desc, dnnl_memory_desc_create_with_strides(desc, t->rank, t->dims, t->type, strides)));
  return dnnl_success;
}

static int new_value(Region* r, const_dnnl_memory_desc_t desc, Place place) {
  r->value[r->values] = (Value){(dnnl_memory_desc_t)desc, place, r->bytes[place]};
  r->bytes[place] += (dnnl_memory_desc_get_size(desc) + 63) / 64 * 64;
  return r->values++;
}

static void add_argument(Call* c, int code, int value, const_dnnl_memory_desc_t desc) {
  c->code[c->count] = code;
  c->value[c->count] = value;
  c->desc[c->count++] = desc;
}

static dnnl_status_t add_call(Region* r, dnnl_primitive_desc_t pd, const Call* filled) {
  Call* const c = &r->call[r->calls];
  dnnl_memory_desc_t desc;
  *c = *filled;
  dnnl_status_t status = dnnl_primitive_create(&c->primitive, pd);
  if (status == dnnl_success) {
    ++r->calls;
    status = keep(r, &desc, dnnl_memory_desc_clone(&desc, dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0)));
  }
  if (status == dnnl_success) add_argument(c, DNNL_ARG_SCRATCHPAD, new_value(r, desc, WORKSPACE), desc);
  dnnl_primitive_desc_destroy(pd);
  TRY(status);
  return dnnl_success;
}

static dnnl_status_t attributes(dnnl_primitive_attr_t attr, const Step* s, const_dnnl_memory_desc_t addend) {
  dnnl_post_ops_t posts;
  TRY(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
  TRY(dnnl_post_ops_create(&posts));
  dnnl_status_t status = dnnl_success;
  if (addend) status = dnnl_post_ops_append_binary(posts, dnnl_binary_add, addend);
  if (status == dnnl_success && s->activation)
    status = dnnl_post_ops_append_eltwise(posts, s->activation, s->activation_alpha, s->activation_beta);
  if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(attr, posts);
  dnnl_post_ops_destroy(posts);
  return status;
}

/* Another layout of a value: of a constant once and for all, of another one at each run. */
static dnnl_status_t reorder(Region* r, int value, const_dnnl_memory_desc_t from, const_dnnl_memory_desc_t to, int* result) {
  static const Step nothing;
  const int once = r->value[value].place == CONSTANT || r->value[value].place == KEPT;
  dnnl_primitive_attr_t attr;
  dnnl_primitive_desc_t pd;
  Call c = {.once = once};
  *result = new_value(r, to, once ? KEPT : WORKSPACE);
  add_argument(&c, DNNL_ARG_FROM, value, from);
  add_argument(&c, DNNL_ARG_TO, *result, to);
  TRY(dnnl_primitive_attr_create(&attr));
  dnnl_status_t status = attributes(attr, &nothing, NULL);
  if (status == dnnl_success)
    status = dnnl_reorder_primitive_desc_create(&pd, from, example_dnnl_engine, to, example_dnnl_engine, attr);
  dnnl_primitive_attr_destroy(attr);
  TRY(status);
  return add_call(r, pd, &c);
}

/* Describes an operand as the primitive sees it. What is to be reshaped is made row-major first. */
static dnnl_status_t view(Region* r, const Operand* o, int* value, dnnl_memory_desc_t* desc) {
  const Tensor* const t = &r->tables->tensor[o->tensor];
  dnnl_memory_desc_t next = r->value[*value = o->tensor].desc;
  if (o->layout == PLAIN || o->rank != t->rank || memcmp(o->dims, t->dims, t->rank * sizeof *t->dims)) {
    TRY(plain(r, t, &next));
    if (!dnnl_memory_desc_equal(next, r->value[o->tensor].desc))
      TRY(reorder(r, o->tensor, r->value[o->tensor].desc, next, value));
    TRY(keep(r, &next, dnnl_memory_desc_reshape(&next, next, o->rank, o->dims)));
  }
  return keep(r, desc, dnnl_memory_desc_permute_axes(desc, next, o->axes));
}

static dnnl_status_t describe(const Step* s, const_dnnl_memory_desc_t const* md, dnnl_primitive_attr_t attr, dnnl_primitive_desc_t* pd) {
  const dnnl_engine_t engine = example_dnnl_engine;
  const dnnl_prop_kind_t forward = dnnl_forward_inference;
  const_dnnl_memory_desc_t src = md[0], second = md[1], dst = md[s->operands - 1], bias = NULL;
  for (int i = 0; i < s->operands; ++i)
    if (s->operand[i].code == DNNL_ARG_BIAS) bias = md[i];
  switch (s->kind) {
    case dnnl_convolution:
      return dnnl_convolution_forward_primitive_desc_create(pd, engine, forward, dnnl_convolution_direct, src,
          second, bias, dst, s->strides, s->dilates, s->left, s->right, attr);
    case dnnl_matmul:
      return dnnl_matmul_primitive_desc_create(pd, engine, src, second, bias, dst, attr);
    case dnnl_pooling:
      return dnnl_pooling_forward_primitive_desc_create(pd, engine, forward, s->algorithm, src, dst, s->strides,
          s->kernel, s->dilates, s->left, s->right, attr);
    case dnnl_batch_normalization:
      return dnnl_batch_normalization_forward_primitive_desc_create(pd, engine, forward, src, dst, s->alpha, s->flags, attr);
    case dnnl_layer_normalization:
      return dnnl_layer_normalization_forward_primitive_desc_create(pd, engine, forward, src, dst, NULL, s->alpha, s->flags, attr);
    case dnnl_eltwise:
      return dnnl_eltwise_forward_primitive_desc_create(pd, engine, forward, s->algorithm, src, dst, s->alpha, s->beta, attr);
    case dnnl_binary:
      return dnnl_binary_primitive_desc_create(pd, engine, s->algorithm, src, second, dst, attr);
    case dnnl_softmax:
      return dnnl_softmax_forward_primitive_desc_create(pd, engine, forward, s->algorithm, src, dst, s->axis, attr);
    case dnnl_concat:
      return dnnl_concat_primitive_desc_create(pd, engine, dst, s->operands - 1, s->axis, md, attr);
    default:
      return dnnl_unimplemented;
  }
}

/* Has a primitive made for the step. Its operands are brought into the layouts that it prefers, its
 * result stays in the one that it prefers, so that nothing is copied between two that agree. */
static dnnl_status_t add_step(Region* r, const Step* s) {
  dnnl_memory_desc_t have[MOST_OPERANDS], want[MOST_OPERANDS], addend = NULL;
  const int last = s->operands - 1;
  const Operand* const to = &s->operand[last];
  dnnl_primitive_attr_t attr;
  dnnl_primitive_desc_t pd;
  Call c = {.step = s};

  for (int i = 0; i <= last; ++i) {
    const Operand* const o = &s->operand[i];
    dnnl_dims_t dims;
    for (int k = 0; k < o->rank; ++k) dims[o->axes[k]] = o->dims[k];
    if (i < last) TRY(view(r, o, &c.value[i], &have[i]));
    else if (o->layout == PLAIN) TRY(plain(r, &r->tables->tensor[o->tensor], &have[i]));
    want[i] = have[i];
    if (o->layout == ANY)
      TRY(keep(r, &want[i], dnnl_memory_desc_create_with_tag(&want[i], o->rank, dims,
                                r->tables->tensor[o->tensor].type, dnnl_format_tag_any)));
    if (o->code == ADDEND) addend = want[i];
  }
  TRY(dnnl_primitive_attr_create(&attr));
  dnnl_status_t status = attributes(attr, s, addend);
  if (status == dnnl_success) status = describe(s, (const_dnnl_memory_desc_t const*)want, attr, &pd);
  dnnl_primitive_attr_destroy(attr);
  if (status != dnnl_success) return failed(status, s->name);

  for (int i = 0; i <= last && status == dnnl_success; ++i) {
    const Operand* const o = &s->operand[i];
    if (o->layout == ANY)
      status = keep(r, &want[i], dnnl_memory_desc_clone(
                        &want[i], dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, o->code)));
    if (i < last && status == dnnl_success && !dnnl_memory_desc_equal(have[i], want[i]))
      status = reorder(r, c.value[i], have[i], want[i], &c.value[i]);
    add_argument(&c, o->code, i < last ? c.value[i] : to->tensor, want[i]);
  }
  if (status == dnnl_success) {
    Value* const result = &r->value[to->tensor];
    int back[DNNL_MAX_NDIMS];
    for (int k = 0; k < to->rank; ++k) back[to->axes[k]] = k;
    *result = r->value[new_value(r, want[last], WORKSPACE)];
    status = keep(r, &result->desc, dnnl_memory_desc_permute_axes(&result->desc, want[last], back));
  }
  if (status == dnnl_success) return add_call(r, pd, &c);
  dnnl_primitive_desc_destroy(pd);
  return failed(status, s->name);
}

static void release(Region* r) {
  for (int i = 0; i < r->calls; ++i) dnnl_primitive_destroy(r->call[i].primitive);
  for (int i = 0; i < r->descs; ++i) dnnl_memory_desc_destroy(r->desc[i]);
  free(r->value), free(r->call), free(r->desc), free(r->kept);
  memset(r, 0, sizeof *r);
}

static dnnl_status_t build(Region* r, const Tables* t) {
  /* A step has at most two layouts and a scratchpad for each operand. */
  const size_t most = t->tensors + t->outputs + (size_t)t->steps * MOST_OPERANDS * 4;
  if (dnnl_version()->major != DNNL_VERSION_MAJOR || dnnl_version()->minor < DNNL_VERSION_MINOR)
    return failed(dnnl_unimplemented, "this library is another version than the one compiled for");
  if (example_dnnl_engine == NULL) TRY(dnnl_engine_create(&example_dnnl_engine, dnnl_cpu, 0));
  r->tables = t;
  r->value = calloc(most, sizeof *r->value);
  r->call = calloc(most, sizeof *r->call);
  r->desc = calloc(4 * most, sizeof *r->desc);
  if (!r->value || !r->call || !r->desc) return failed(dnnl_out_of_memory, "tables");
  r->values = t->tensors;
  for (int i = 1; i < t->tensors; ++i) {
    const Place place = t->tensor[i].data ? CONSTANT : i <= t->inputs ? ARGUMENT : WORKSPACE;
    r->value[i] = (Value){NULL, place, place == CONSTANT ? (size_t)t->tensor[i].data : (size_t)i - 1};
    if (place != WORKSPACE && t->tensor[i].type) TRY(plain(r, &t->tensor[i], &r->value[i].desc));
  }
  for (int i = 0; i < t->steps; ++i) TRY(add_step(r, &t->step[i]));
  for (int i = 0; i < t->outputs; ++i) {
    Value* const v = &r->value[t->output[i]];
    dnnl_memory_desc_t desc;
    int result;
    if (v->place != WORKSPACE) continue; /* an input, a constant, or an output already: is copied */
    TRY(plain(r, &t->tensor[t->output[i]], &desc));
    result = t->output[i];
    if (!dnnl_memory_desc_equal(desc, v->desc)) TRY(reorder(r, result, v->desc, desc, &result));
    r->value[result].place = ARGUMENT, r->value[result].at = t->inputs + i;
  }
  r->kept = aligned_alloc(64, r->bytes[KEPT] + 64);
  if (r->kept == NULL) return failed(dnnl_out_of_memory, "weights");
  TRY(execute_all(r, 1, NULL));
  r->ready = 1;
  return dnnl_success;
}

static const char* example_dnnl_run(Region* r, const Tables* t, void* const* args) {
  example_dnnl_message[0] = 0;
  pthread_mutex_lock(&example_dnnl_lock);
  dnnl_status_t status = r->ready ? dnnl_success : build(r, t);
  if (status != dnnl_success) release(r);
  pthread_mutex_unlock(&example_dnnl_lock);
  if (status == dnnl_success) status = execute_all(r, 0, args);
  for (int i = 0; i < t->outputs && status == dnnl_success; ++i) {
    const Tensor* const tensor = &t->tensor[t->output[i]];
    const Value* const v = &r->value[t->output[i]];
    if (v->place == CONSTANT || (v->place == ARGUMENT && v->at != (size_t)(t->inputs + i)))
      memcpy(args[t->inputs + i], v->place == CONSTANT ? tensor->data : args[v->at], tensor->bytes);
  }
  return status == dnnl_success ? NULL : example_dnnl_message;
}
#endif
