/* Runs regions by OpenVINO's C API. Part of each region's source; TVM may join several into one file. */
#ifndef EXAMPLE_OPENVINO_RUNTIME
#define EXAMPLE_OPENVINO_RUNTIME
#include <openvino/c/openvino.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tensor of TVM. */
typedef struct {
  ov_element_type_e type;
  int64_t rank;
  int64_t* shape;
  void* data;
} Argument;

/* Requests are not for two threads at once. Each call takes one that is idle, or makes one. */
typedef struct Request {
  ov_infer_request_t* request;
  struct Request* next;
} Request;

/* The model, compiled for one shape of each input. Compiled for open extents, OpenVINO 2026.4.1 fails at the
 * second shape of some models. */
typedef struct Compiled {
  ov_compiled_model_t* model;
  Request* idle;
  int64_t* extents; /* of all inputs, one after another */
  int users;        /* calls that run */
  struct Compiled* next; /* was used before */
} Compiled;

enum { EXAMPLE_OPENVINO_KEPT = 32 }; /* The most shapes of a region whose models are kept. */

typedef struct {
  const char* name;
  const char* version;
  const char* xml;
  size_t length;
  const void* weights;
  int64_t bytes;
  int inputs, outputs, held;
  const int* source; /* Of each output: the argument that it is, or -1. */
  Compiled* compiled; /* The last used first. */
} Region;

static pthread_mutex_t example_openvino_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread char example_openvino_message[1024];

#define TRY(call)                                         \
  do {                                                    \
    const ov_status_e status_ = (call);                   \
    if (status_ != OK) return failed(r, status_, #call);  \
  } while (0)

static ov_status_e failed(const Region* r, ov_status_e status, const char* call) {
  const char* const text = ov_get_last_err_msg();
  snprintf(example_openvino_message, sizeof example_openvino_message, "example_openvino: %s: %.*s: %s: %s",
           r->name, (int)strcspn(call, "("), call, ov_get_error_info(status), text ? text : "");
  return status;
}

static void drop(Request* request) {
  if (request->request != NULL) ov_infer_request_free(request->request);
  free(request);
}

static void discard(Compiled* compiled) {
  while (compiled->idle != NULL) {
    Request* const request = compiled->idle;
    compiled->idle = request->next;
    drop(request);
  }
  if (compiled->model != NULL) ov_compiled_model_free(compiled->model);
  free(compiled->extents);
  free(compiled);
}

static void release(Region* r) {
  while (r->compiled != NULL) {
    Compiled* const first = r->compiled;
    r->compiled = first->next;
    discard(first);
  }
}

/* Discards what was not used for the longest time, if there is too much of it. */
static void trim(Region* r) {
  Compiled** oldest = NULL;
  int count = 0;
  for (Compiled** place = &r->compiled; *place != NULL; place = &(*place)->next, ++count)
    if ((*place)->users == 0) oldest = place;
  if (count <= EXAMPLE_OPENVINO_KEPT || oldest == NULL) return;
  Compiled* const last = *oldest;
  *oldest = last->next;
  discard(last);
}

static int fits(const Region* r, const Compiled* compiled, const Argument* args) {
  const int64_t* extent = compiled->extents;
  for (int i = 0; i < r->inputs; ++i)
    for (int axis = 0; axis < args[i].rank; ++axis)
      if (args[i].shape[axis] != *extent++) return 0;
  return 1;
}

/* Puts first what was compiled for the shapes of the inputs. Returns 0 if there is nothing. */
static int find(Region* r, const Argument* args) {
  for (Compiled** place = &r->compiled; *place != NULL; place = &(*place)->next) {
    Compiled* const found = *place;
    if (!fits(r, found, args)) continue;
    *place = found->next;
    found->next = r->compiled;
    r->compiled = found;
    return 1;
  }
  return 0;
}

/* The artifact is linked with one release of OpenVINO, and the results were examined with it. */
static ov_status_e check_version(const Region* r) {
  ov_version_t version = {NULL, NULL};
  TRY(ov_get_openvino_version(&version));
  const char* const number = version.buildNumber ? version.buildNumber : "";
  const size_t length = strlen(r->version);
  if (strncmp(number, r->version, length) == 0) {
    ov_version_free(&version);
    return OK;
  }
  snprintf(example_openvino_message, sizeof example_openvino_message,
           "example_openvino: %s: this is another version of OpenVINO: %.40s in place of %s. Compile the "
           "artifact again, or install that version.", r->name, number, r->version);
  ov_version_free(&version);
  return GENERAL_ERROR;
}

static ov_status_e close_extents(const Region* r, ov_model_t* model, const Argument* args) {
  size_t ports[r->inputs];
  ov_partial_shape_t shapes[r->inputs];
  ov_status_e status = OK;
  int count = 0;
  for (int i = 0; i < r->inputs && status == OK; ++i) {
    if (args[i].rank == 0) continue; /* The C API takes it for a vector of any length. */
    ports[count] = i;
    status = ov_partial_shape_create_static(args[i].rank, args[i].shape, &shapes[count]);
    if (status == OK) ++count;
  }
  if (status == OK) status = ov_model_reshape_by_port_indexes(model, ports, shapes, count);
  if (status != OK) failed(r, status, "the shapes of the inputs");
  while (count-- > 0) ov_partial_shape_free(&shapes[count]);
  return status;
}

static ov_status_e compile(Region* r, ov_core_t* core, const Argument* args, ov_tensor_t** weights,
                           ov_model_t** model, ov_compiled_model_t** compiled) {
  int64_t dims[1] = {r->bytes};
  const ov_shape_t shape = {1, dims};
  TRY(ov_tensor_create_from_host_ptr(U8, shape, (void*)r->weights, weights));
  TRY(ov_core_read_model_from_memory_buffer(core, r->xml, r->length, *weights, model));
  if (ov_model_is_dynamic(*model)) {
    const ov_status_e status = close_extents(r, *model, args);
    if (status != OK) return status;
  }
  /* By default a CPU with bfloat16 computes in it. No streams: it is the caller's thread that computes. */
  TRY(ov_core_compile_model(core, *model, "CPU", 10, compiled, "INFERENCE_PRECISION_HINT", "f32",
                            "EXECUTION_MODE_HINT", "ACCURACY", "INFERENCE_NUM_THREADS", "1",
                            "NUM_STREAMS", "0", "CPU_DENORMALS_OPTIMIZATION", "NO"));
  return OK;
}

/* Puts the model for the shapes of these inputs first. */
static ov_status_e build(Region* r, void (*end)(void), const Argument* args) {
  ov_core_t* core = NULL;
  ov_tensor_t* weights = NULL;
  ov_model_t* model = NULL;
  ov_status_e status = check_version(r);
  if (status != OK) return status;
  int64_t rank = 0;
  for (int i = 0; i < r->inputs; ++i) rank += args[i].rank;
  Compiled* const made = calloc(1, sizeof(Compiled));
  if (made != NULL) made->extents = malloc((rank + 1) * sizeof(int64_t));
  if (made == NULL || made->extents == NULL) {
    free(made);
    return failed(r, GENERAL_ERROR, "calloc");
  }
  int64_t* extent = made->extents;
  for (int i = 0; i < r->inputs; ++i)
    for (int axis = 0; axis < args[i].rank; ++axis) *extent++ = args[i].shape[axis];
  status = ov_core_create(&core);
  if (status == OK) status = compile(r, core, args, &weights, &model, &made->model);
  else failed(r, status, "ov_core_create");
  if (model != NULL) ov_model_free(model);
  if (weights != NULL) ov_tensor_free(weights);
  if (core != NULL) ov_core_free(core);
  if (status != OK) {
    discard(made);
    return status;
  }
  /* A destructor would run after those of the plugin that the core has loaded. */
  if (r->compiled == NULL) atexit(end);
  made->next = r->compiled;
  r->compiled = made;
  trim(r);
  return OK;
}

/* number: of an input of the model, or below 0: -1 is the first result. */
static ov_status_e set(const Region* r, ov_infer_request_t* request, const Argument* arg, int number) {
  ov_tensor_t* tensor = NULL;
  const ov_shape_t shape = {arg->rank, arg->shape};
  TRY(ov_tensor_create_from_host_ptr(arg->type, shape, arg->data, &tensor));
  const ov_status_e status =
      number < 0 ? ov_infer_request_set_output_tensor_by_index(request, -1 - number, tensor)
                 : ov_infer_request_set_input_tensor_by_index(request, number, tensor);
  if (status != OK) failed(r, status, number < 0 ? "an output" : "an input");
  ov_tensor_free(tensor);
  return status;
}

/* Writes the outputs that are inputs, and returns the number of the others. */
static int copy(const Region* r, const Argument* args) {
  int results = 0;
  for (int i = 0; i < r->outputs; ++i) {
    if (r->source[i] < 0) {
      ++results;
      continue;
    }
    const Argument* const input = &args[r->source[i]];
    size_t bytes = input->type == BOOLEAN ? 1 : 4; /* F32 */
    for (int axis = 0; axis < input->rank; ++axis) bytes *= input->shape[axis];
    memcpy(args[r->inputs + i].data, input->data, bytes);
  }
  return results;
}

static ov_status_e execute(Region* r, const Compiled* compiled, Request* request, const Argument* args) {
  ov_status_e status = OK;
  if (request->request == NULL) TRY(ov_compiled_model_create_infer_request(compiled->model, &request->request));
  int results = 0;
  for (int i = 0; i < r->inputs && status == OK; ++i)
    status = set(r, request->request, &args[i], i);
  for (int i = 0; i < r->held && status == OK; ++i)
    status = set(r, request->request, &args[r->inputs + r->outputs + i], r->inputs + i);
  for (int i = 0; i < r->outputs && status == OK; ++i)
    if (r->source[i] < 0) status = set(r, request->request, &args[r->inputs + i], -1 - results++);
  if (status != OK) return status;
  TRY(ov_infer_request_infer(request->request));
  return OK;
}

/* Returns NULL, or what went wrong. args: inputs, outputs, constants. */
static const char* example_openvino_run(Region* r, void (*end)(void), const Argument* args) {
  if (copy(r, args) == 0) return NULL; /* OpenVINO has nothing to compute. */
  Request* request = NULL;
  pthread_mutex_lock(&example_openvino_lock);
  ov_status_e status = find(r, args) ? OK : build(r, end, args);
  Compiled* const compiled = r->compiled;
  if (status == OK) {
    compiled->users++;
    request = compiled->idle;
    if (request != NULL) compiled->idle = request->next;
  }
  pthread_mutex_unlock(&example_openvino_lock);
  if (status != OK) return example_openvino_message;
  if (request == NULL) request = calloc(1, sizeof(Request));
  status = request == NULL ? failed(r, GENERAL_ERROR, "calloc") : execute(r, compiled, request, args);
  pthread_mutex_lock(&example_openvino_lock);
  compiled->users--;
  if (status == OK) {
    request->next = compiled->idle;
    compiled->idle = request;
  }
  pthread_mutex_unlock(&example_openvino_lock);
  if (status == OK) return NULL;
  if (request != NULL) drop(request);
  return example_openvino_message;
}
#endif
