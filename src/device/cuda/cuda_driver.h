/* NVIDIA's driver, libcuda.so.1, opened at run time: its functions, and the meaning of its errors. The declarations are
 * our own, so the program is built without CUDA. The kernels are in a separate plug-in (device/cuda/cuda_plugin.h). */
#ifndef TESS_DEVICE_CUDA_CUDA_DRIVER_H
#define TESS_DEVICE_CUDA_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tessera/status.h"

/* The driver's handles. */
typedef struct CUctx_st *cuda_context;
typedef struct CUstream_st *cuda_queue;
typedef struct CUevent_st *cuda_ticket;
typedef uint64_t cuda_address;

/* Identifies memory of a GPU to another process. */
typedef struct cuda_ipc {
    char bytes[64];
} cuda_ipc;

/* X(our name, the driver's name, parameters). Each function returns 0 or an error number. */
#define CUDA_DRIVER_LIST(X)                                                                                    \
    X(init, "cuInit", (unsigned flags))                                                                        \
    X(version, "cuDriverGetVersion", (int *version))                                                           \
    X(error_name, "cuGetErrorName", (int error, const char **name))                                            \
    X(error_text, "cuGetErrorString", (int error, const char **text))                                          \
    X(device_count, "cuDeviceGetCount", (int *n))                                                              \
    X(device_get, "cuDeviceGet", (int *device, int number))                                                    \
    X(device_name, "cuDeviceGetName", (char *name, int bytes, int device))                                     \
    X(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))                       \
    X(device_memory, "cuDeviceTotalMem_v2", (size_t * bytes, int device))                                      \
    X(device_bus, "cuDeviceGetPCIBusId", (char *id, int bytes, int device))                                    \
    X(device_reaches, "cuDeviceCanAccessPeer", (int *can, int device, int peer))                               \
    X(context_retain, "cuDevicePrimaryCtxRetain", (cuda_context * context, int device))                        \
    X(context_set, "cuCtxSetCurrent", (cuda_context context))                                                  \
    X(context_synchronize, "cuCtxSynchronize", (void))                                                         \
    X(memory_alloc, "cuMemAlloc_v2", (cuda_address * memory, size_t bytes))                                    \
    X(memory_free, "cuMemFree_v2", (cuda_address memory))                                                      \
    X(memory_info, "cuMemGetInfo_v2", (size_t * left, size_t * whole))                                         \
    X(ipc_get, "cuIpcGetMemHandle", (cuda_ipc * ipc, cuda_address memory))                                     \
    X(ipc_open, "cuIpcOpenMemHandle_v2", (cuda_address * memory, cuda_ipc ipc, unsigned flags))                \
    X(ipc_close, "cuIpcCloseMemHandle", (cuda_address memory))                                                 \
    X(host_register, "cuMemHostRegister_v2", (void *host, size_t bytes, unsigned flags))                       \
    X(host_unregister, "cuMemHostUnregister", (void *host))                                                    \
    X(host_address, "cuMemHostGetDevicePointer_v2", (cuda_address * memory, void *host, unsigned flags))       \
    X(copy, "cuMemcpyAsync", (cuda_address to, cuda_address from, size_t bytes, cuda_queue q))                 \
    X(fill, "cuMemsetD8Async", (cuda_address to, unsigned char byte, size_t n, cuda_queue q))                  \
    X(queue_create, "cuStreamCreate", (cuda_queue * q, unsigned flags))                                        \
    X(queue_destroy, "cuStreamDestroy_v2", (cuda_queue q))                                                     \
    X(queue_synchronize, "cuStreamSynchronize", (cuda_queue q))                                                \
    X(queue_wait, "cuStreamWaitEvent", (cuda_queue q, cuda_ticket ticket, unsigned flags))                     \
    X(queue_write, "cuStreamWriteValue32_v2", (cuda_queue q, cuda_address to, uint32_t value, unsigned flags)) \
    X(ticket_create, "cuEventCreate", (cuda_ticket * ticket, unsigned flags))                                  \
    X(ticket_destroy, "cuEventDestroy_v2", (cuda_ticket ticket))                                               \
    X(ticket_record, "cuEventRecord", (cuda_ticket ticket, cuda_queue q))                                      \
    X(ticket_query, "cuEventQuery", (cuda_ticket ticket))                                                      \
    X(ticket_synchronize, "cuEventSynchronize", (cuda_ticket ticket))                                          \
    X(ticket_elapsed, "cuEventElapsedTime", (float *ms, cuda_ticket from, cuda_ticket to))

typedef struct cuda_driver {
#define X(name, symbol, parameters) int(*name) parameters;
    CUDA_DRIVER_LIST(X)
#undef X
} cuda_driver;

/* Constants of the driver. */
enum {
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NO_DEVICE = 100,
    CUDA_NOT_READY = 600,
    CUDA_ATTRIBUTE_CLOCK_KHZ = 13,
    CUDA_ATTRIBUTE_PROCESSORS = 16,
    CUDA_ATTRIBUTE_ECC = 32,
    CUDA_ATTRIBUTE_MEMORY_CLOCK_KHZ = 36,
    CUDA_ATTRIBUTE_MEMORY_BITS = 37,
    CUDA_ATTRIBUTE_MAJOR = 75,
    CUDA_ATTRIBUTE_MINOR = 76,
    CUDA_QUEUE_NON_BLOCKING = 1,
    CUDA_REGISTER_MAPPED = 2,
    CUDA_IPC_ENABLE_PEER_ACCESS = 1,
    CUDA_TICKET_DISABLE_TIMING = 2,
    CUDA_TICKET_TIMED = 0
};

/* Opens the driver once per process; it is never closed. It is not initialised, so a process may call this before it
 * forks ranks. TESS_E_NOT_FOUND: no driver is installed. TESS_E_UNSUPPORTED: its file cannot be loaded, or lacks a
 * function. */
tess_status tess_cuda_driver_open(const cuda_driver **driver);

/* Initialises the driver and counts the GPUs that this process may use (at least 1). TESS_E_NOT_FOUND: there is none.
 * TESS_E_INVALID: CUDA_VISIBLE_DEVICES hides all of them, or names some that do not exist. */
tess_status tess_cuda_devices(const cuda_driver *driver, int *n);

/* Fails unless `error` is 0. The message says what was done (`what`), on which GPU (`where`, such as "cuda:0 (NVIDIA
 * H100)"), what happened and what to do. */
tess_status tess_cuda_check(const cuda_driver *driver, int error, const char *where, const char *what);

/* Returns true if this error of a call was caused by an operation that was enqueued earlier. After such an error all
 * calls of the process fail. */
bool tess_cuda_is_of_queue(int error);

/* Writes a version of CUDA, such as 13000, as "13.0". Returns text. */
const char *tess_cuda_version_text(int version, char *text, size_t size);

#endif
