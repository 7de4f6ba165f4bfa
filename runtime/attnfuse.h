/* AttnFuse's C interface: attention programs compiled from text and launched on the caller's device memory
 * and stream. C99; the library is libattnfuse_c.so.
 *
 *   attnfuse_device* device;  attnfuse_program* program;
 *   attnfuse_device_open(NULL, &device);                         the CUDA device of this thread
 *   attnfuse_compile(device, text, NULL, &program);
 *   attnfuse_call call = {sizeof call};                          tensors by name, stream, workspace
 *   attnfuse_workspace_bytes(program, &call, &bytes);
 *   attnfuse_launch(program, &call);                             asynchronous
 *
 * Errors. Every function returns a status. attnfuse_last_error() has the words of the last call of this
 * thread that failed; they stay until the thread's next call that fails. A call that fails has launched
 * nothing and made no handle, and sets no output.
 *
 * Threads. All functions may be called from any thread, also on the same handle. Launches of one program take
 * turns for the microseconds that a launch takes on the host.
 *
 * Lifetimes. Handles are given back in any order: a program keeps what it needs of its device. Nothing that
 * is passed in is kept: strings, arrays and structs may go when the function returns. Programs, and memory of
 * attnfuse_alloc, must be given back before the owner of the CUDA context destroys it.
 *
 * CUDA contexts. A device is opened over the context that is current on the calling thread and works within
 * it; without one it retains the primary context of device 0. No function leaves another context current than
 * it found. A stream belongs to the same context.
 *
 * Recording. A launch can be recorded into a CUDA graph once a launch like it (alignment, needed workspace)
 * or attnfuse_supports() has been called outside of a recording. Do not run two instances of one recorded
 * graph at the same time.
 *
 * Versions. Structs that may grow start with their size: set it to sizeof of the struct. What a caller does
 * not know about is taken as zero. */
#ifndef ATTNFUSE_H
#define ATTNFUSE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ATTNFUSE_API __attribute__((visibility("default")))
#else
#define ATTNFUSE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define ATTNFUSE_VERSION 1  /* of this interface */
#define ATTNFUSE_MAX_RANK 8 /* dimensions of a tensor */

typedef struct attnfuse_device attnfuse_device;
typedef struct attnfuse_program attnfuse_program;

typedef enum attnfuse_status {
  ATTNFUSE_OK = 0,
  ATTNFUSE_BAD_ARGUMENT = 1, /* a null pointer, an unknown struct size or dtype */
  ATTNFUSE_BAD_PROGRAM = 2,  /* the text, with line and column; a program that attnfuse_merge does not take */
  ATTNFUSE_BAD_TENSOR = 3,   /* missing or unknown name, dtype, shape, strides or address */
  ATTNFUSE_BAD_WORKSPACE = 4, /* too small or not aligned */
  ATTNFUSE_NO_TARGET = 5,     /* no target of this name */
  ATTNFUSE_NO_DEVICE = 6,     /* no device, no driver, or not of this target */
  ATTNFUSE_NO_TOOLKIT = 7,    /* the target's assembler is not installed */
  ATTNFUSE_UNSUPPORTED = 8,   /* the target cannot hold the program */
  ATTNFUSE_OUT_OF_MEMORY = 9,
  ATTNFUSE_DEVICE_FAILED = 10, /* what the driver or the assembler reports */
  ATTNFUSE_INTERNAL = 11       /* a mistake of ours: please report it */
} attnfuse_status;

typedef enum attnfuse_dtype {
  ATTNFUSE_F16 = 0,
  ATTNFUSE_BF16 = 1,
  ATTNFUSE_F32 = 2,
  ATTNFUSE_I32 = 3,
  ATTNFUSE_BOOLEAN = 4 /* one byte, 0 or 1 */
} attnfuse_dtype;

ATTNFUSE_API uint32_t attnfuse_version(void);                          /* ATTNFUSE_VERSION of the library */
ATTNFUSE_API const char* attnfuse_status_name(attnfuse_status status); /* "bad argument", for ever */
ATTNFUSE_API const char* attnfuse_last_error(void);                    /* "" when nothing failed yet */

/* ---- devices ------------------------------------------------------------------------------------------- */

/* target: "cuda", "cuda:sm_90a", "hip", "spirv", or an executor on the CPU such as "hip-cpu:gfx942". NULL:
 * the CUDA device of this thread. */
ATTNFUSE_API attnfuse_status attnfuse_device_open(const char* target, attnfuse_device** device);
ATTNFUSE_API void attnfuse_device_close(attnfuse_device* device); /* NULL: nothing happens */
ATTNFUSE_API const char* attnfuse_device_name(
    const attnfuse_device* device); /* "NVIDIA H200"; as the handle */
ATTNFUSE_API const char* attnfuse_device_target(
    const attnfuse_device* device); /* "cuda:sm_90a"; as the handle */

/* Memory of the device, for callers without a framework that has some. Copies wait for launches on the
 * default stream; attnfuse_synchronize waits for all. offset: bytes. Any number of bytes, 0 included. */
ATTNFUSE_API attnfuse_status attnfuse_alloc(attnfuse_device* device, size_t bytes, void** data);
ATTNFUSE_API attnfuse_status attnfuse_free(attnfuse_device* device, void* data); /* NULL: nothing happens */
ATTNFUSE_API attnfuse_status attnfuse_upload(attnfuse_device* device, void* data, size_t offset,
                                             const void* from, size_t bytes);
ATTNFUSE_API attnfuse_status attnfuse_download(attnfuse_device* device, const void* data, size_t offset,
                                               void* to, size_t bytes);
ATTNFUSE_API attnfuse_status attnfuse_synchronize(attnfuse_device* device);

/* ---- programs ------------------------------------------------------------------------------------------ */

typedef struct attnfuse_options {
  size_t struct_size;
  const char* file; /* names the text in messages; NULL: "<text>" */
} attnfuse_options;

/* text: one `attention name { ... }`. options may be NULL. */
ATTNFUSE_API attnfuse_status attnfuse_compile(attnfuse_device* device, const char* text,
                                              const attnfuse_options* options, attnfuse_program** program);
ATTNFUSE_API void attnfuse_program_release(attnfuse_program* program); /* NULL: nothing happens */

/* A tensor that calls of a program have: inputs "q" [b,h,sq,d], "k" [b,kv_heads,skv,d], "v"
 * [b,kv_heads,skv,dv], captured tensors as the program declares them, outputs "o" [b,h,sq,dv] and "lse"
 * [b,h,sq]. Differential programs have a second score head: "q2" as "q", "k2" as "k", and output "lse2" as
 * "lse". With a line `storage` in the program these lie otherwise, and it has i32 tensors more:
 *   ragged          "q", "o" [h,total_q,d], "k", "v" [kv_heads,total_k,d], "lse" [h,total_q];
 *                   "cu_seqlens_q", "cu_seqlens_k" [b+1]: where each sequence starts, and the last one ends
 *   paged(n)        "k", "v" [pages,kv_heads,n,d]; "page_table" [b,max_pages], "seqused_k" [b]: keys in use
 *   ragged, paged   "q", "o", "lse", "cu_seqlens_q" as ragged, the rest as paged
 * What these hold is not checked: cu_seqlens must not descend or end past the tensor, page numbers and keys
 * in use must stay inside theirs. */
typedef struct attnfuse_tensor_info {
  size_t struct_size;
  const char* name; /* as the handle */
  attnfuse_dtype dtype;
  int32_t rank;
  int32_t is_output;
  int64_t shape[ATTNFUSE_MAX_RANK]; /* -1: decided by the call */
} attnfuse_tensor_info;

ATTNFUSE_API size_t attnfuse_tensor_count(const attnfuse_program* program);
ATTNFUSE_API attnfuse_status attnfuse_tensor_at(const attnfuse_program* program, size_t index,
                                                attnfuse_tensor_info* info);

/* ---- calls --------------------------------------------------------------------------------------------- */

/* Strides in elements; the last one of q, k, v and o is 1. This struct never grows. */
typedef struct attnfuse_tensor {
  const char* name;
  void* data;    /* device memory */
  int32_t dtype; /* attnfuse_dtype */
  int32_t rank;
  int64_t shape[ATTNFUSE_MAX_RANK];
  int64_t strides[ATTNFUSE_MAX_RANK];
} attnfuse_tensor;

typedef struct attnfuse_call {
  size_t struct_size;
  const attnfuse_tensor* tensors; /* every one of the program's, in any order */
  size_t tensor_count;
  void* stream;    /* CUstream or hipStream_t; NULL: the default stream */
  void* workspace; /* device memory at a multiple of 256 bytes; needs no clearing; one for each launch that
                      may run at the same time */
  size_t workspace_bytes;
} attnfuse_call;

/* ATTNFUSE_OK: attnfuse_launch takes the call's tensors. Compiles what such calls need; stream and workspace
 * do not matter. */
ATTNFUSE_API attnfuse_status attnfuse_supports(attnfuse_program* program, const attnfuse_call* call);
/* What the call needs, 0 included. Stream and workspace do not matter. */
ATTNFUSE_API attnfuse_status attnfuse_workspace_bytes(attnfuse_program* program, const attnfuse_call* call,
                                                      size_t* bytes);
/* Asynchronous. The tensors and the workspace must stay until it has run. */
ATTNFUSE_API attnfuse_status attnfuse_launch(attnfuse_program* program, const attnfuse_call* call);

/* Outputs of the program over parts of the keys become its outputs over all of these keys: for keys that lie
 * on several devices, or come one set after the other (context parallelism). Tensors of the call, in the
 * program's dtype and f32; of ragged programs without b, and with total_q for sq:
 *   "o_parts" [b,parts,h,sq,dv], "lse_parts" [b,parts,h,sq]   outputs of calls over disjoint sets of keys
 *   "o" [b,h,sq,dv], "lse" [b,h,sq]                           those of all; they do not overlap the parts
 * Strides are free, as in calls: calls may write their part in place, and parts may be the outermost axis.
 * How parts are grouped and in which order they are merged does not matter, up to rounding. A row with lse =
 * -inf is that of a part without keys: it changes nothing, and its o may hold anything; where all parts have
 * it, o is 0 and lse -inf. Where an lse is NaN or +inf, the row is NaN; where an o is not finite, so is that
 * element. Programs: softmax without output lines, max_logit excepted, which is not merged. A sink counts
 * once for each part that has it: give it to one call, and -inf to the others. Scores and masks of a call
 * count keys from its first one. Asynchronous; workspace does not matter. Can be recorded after a merge of
 * the same alignment. */
ATTNFUSE_API attnfuse_status attnfuse_merge(attnfuse_program* program, const attnfuse_call* call);

/* A kernel that a call launches; numbers are -1 where the assembler does not report them. */
typedef struct attnfuse_kernel_info {
  size_t struct_size;
  const char* name;         /* as the handle, like all names here */
  const char* schedule;     /* "hopper", "portable" */
  const char* source;       /* where the schedule's numbers come from: "table", "derived" */
  int32_t block_q, block_k; /* query rows of a workgroup, keys of a step */
  int32_t threads;
  int32_t registers; /* of a thread */
  int32_t spill_bytes;
  int32_t shared_bytes; /* of a workgroup */
} attnfuse_kernel_info;

/* Kernels in the order of their launches; how many there are goes to *count. kernels: NULL, or an array of
 * `capacity`; the size of its elements is the first one's struct_size. */
ATTNFUSE_API attnfuse_status attnfuse_kernels(attnfuse_program* program, const attnfuse_call* call,
                                              attnfuse_kernel_info* kernels, size_t capacity, size_t* count);

#ifdef __cplusplus
}
#endif

#endif
