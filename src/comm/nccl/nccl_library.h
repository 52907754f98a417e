/* NVIDIA's NCCL, opened at run time: its functions and numbers that are used here. The declarations are ours. Of NCCL
 * only messages are used, never its reductions, whose order is not ours. */
#ifndef TESS_COMM_NCCL_NCCL_LIBRARY_H
#define TESS_COMM_NCCL_NCCL_LIBRARY_H

#include <limits.h>
#include <stddef.h>

#include "tessera/status.h"

typedef struct ncclComm *nccl_communicator;

/* The number that the members of a communicator share before they know each other. Plain bytes: send them as they are.
 */
typedef struct nccl_id {
    char bytes[128];
} nccl_id;

/* The struct of NCCL 2.18. A newer library reads `size` bytes of version `version`, and takes its own defaults for the
 * rest. */
typedef struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cluster_size, least_blocks, most_blocks;
    const char *network;
    int shares_resources;
} nccl_config;

/* X(what it returns, our name, the library's, parameters). An int is 0 or an error's number. */
#define NCCL_LIST(X)                                                                                             \
    X(int, version, "ncclGetVersion", (int *version))                                                            \
    X(const char *, error_text, "ncclGetErrorString", (int error))                                               \
    X(const char *, newest_error, "ncclGetLastError", (nccl_communicator c))                                     \
    X(int, id_create, "ncclGetUniqueId", (nccl_id * id))                                                         \
    X(int, create, "ncclCommInitRankConfig",                                                                     \
      (nccl_communicator * c, int size, nccl_id id, int rank, nccl_config *config))                              \
    X(int, state, "ncclCommGetAsyncError", (nccl_communicator c, int *error))                                    \
    X(int, finalize, "ncclCommFinalize", (nccl_communicator c))                                                  \
    X(int, destroy, "ncclCommDestroy", (nccl_communicator c))                                                    \
    X(int, abort, "ncclCommAbort", (nccl_communicator c))                                                        \
    X(int, group_start, "ncclGroupStart", (void))                                                                \
    X(int, group_end, "ncclGroupEnd", (void))                                                                    \
    X(int, send, "ncclSend", (const void *from, size_t n, int type, int peer, nccl_communicator c, void *queue)) \
    X(int, recv, "ncclRecv", (void *to, size_t n, int type, int peer, nccl_communicator c, void *queue))

typedef struct nccl_library {
#define X(type, name, symbol, parameters) type(*name) parameters;
    NCCL_LIST(X)
#undef X
    const char *path;
    int version_number; /* 22809 is 2.28.9 */
} nccl_library;

enum {
    NCCL_SUCCESS = 0,
    NCCL_CUDA_ERROR = 1,
    NCCL_SYSTEM_ERROR = 2,
    NCCL_INTERNAL_ERROR = 3,
    NCCL_INVALID_ARGUMENT = 4,
    NCCL_INVALID_USAGE = 5,
    NCCL_REMOTE_ERROR = 6,
    NCCL_IN_PROGRESS = 7,
    NCCL_BYTES = 1, /* a type: unsigned bytes */
    NCCL_LEAST_VERSION = 21800,
    NCCL_MAGIC = (int)0xcafebeef,
    NCCL_UNDEFINED = INT_MIN
};

/* Opens the library once a process; it stays. TESSERA_NCCL=PATH: that file; TESSERA_NCCL=off: none. Starts nothing, and
 * needs no GPU.
 * TESS_E_NOT_FOUND: it is not installed, or shall not be used: the caller may do without. TESS_E_UNSUPPORTED: it is
 * older than 2.18, or does not load; TESS_E_INVALID: TESSERA_NCCL is wrong, or a variable of NCCL's. All name the fix.
 * Thread-safe. */
tess_status tess_nccl_open(const nccl_library **nccl);

#endif
