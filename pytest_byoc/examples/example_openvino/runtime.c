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

typedef struct {
  const char* name;
  const char* version;
  const char* xml;
  size_t length;
  const void* weights;
  int64_t bytes;
  int inputs, outputs, held;
  const int* source; /* Of each output: the argument that it is, or -1. */
  ov_compiled_model_t* model;
  Request* idle;
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

static void release(Region* r) {
  while (r->idle != NULL) {
    Request* const request = r->idle;
    r->idle = request->next;
    drop(request);
  }
  if (r->model != NULL) ov_compiled_model_free(r->model);
  r->model = NULL;
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

static ov_status_e compile(Region* r, ov_core_t* core, ov_tensor_t** weights, ov_model_t** model) {
  int64_t dims[1] = {r->bytes};
  const ov_shape_t shape = {1, dims};
  TRY(ov_tensor_create_from_host_ptr(U8, shape, (void*)r->weights, weights));
  TRY(ov_core_read_model_from_memory_buffer(core, r->xml, r->length, *weights, model));
  /* By default a CPU with bfloat16 computes in it. No streams: it is the caller's thread that computes. */
  TRY(ov_core_compile_model(core, *model, "CPU", 10, &r->model, "INFERENCE_PRECISION_HINT", "f32",
                            "EXECUTION_MODE_HINT", "ACCURACY", "INFERENCE_NUM_THREADS", "1",
                            "NUM_STREAMS", "0", "CPU_DENORMALS_OPTIMIZATION", "NO"));
  return OK;
}

static ov_status_e build(Region* r, void (*end)(void)) {
  ov_core_t* core = NULL;
  ov_tensor_t* weights = NULL;
  ov_model_t* model = NULL;
  ov_status_e status = check_version(r);
  if (status != OK) return status;
  TRY(ov_core_create(&core));
  status = compile(r, core, &weights, &model);
  if (model != NULL) ov_model_free(model);
  if (weights != NULL) ov_tensor_free(weights);
  ov_core_free(core);
  /* A destructor would run after those of the plugin that the core has loaded. */
  if (status == OK) atexit(end);
  return status;
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

static ov_status_e execute(Region* r, Request* request, const Argument* args) {
  ov_status_e status = OK;
  if (request->request == NULL) TRY(ov_compiled_model_create_infer_request(r->model, &request->request));
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
  pthread_mutex_lock(&example_openvino_lock);
  ov_status_e status = r->model != NULL ? OK : build(r, end);
  Request* request = r->idle;
  if (status == OK && request != NULL) r->idle = request->next;
  pthread_mutex_unlock(&example_openvino_lock);
  if (status != OK) return example_openvino_message;
  if (request == NULL) request = calloc(1, sizeof(Request));
  if (request == NULL) return "example_openvino: out of memory";
  status = execute(r, request, args);
  if (status != OK) {
    drop(request);
    return example_openvino_message;
  }
  pthread_mutex_lock(&example_openvino_lock);
  request->next = r->idle;
  r->idle = request;
  pthread_mutex_unlock(&example_openvino_lock);
  return NULL;
}
#endif
