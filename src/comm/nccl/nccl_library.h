/* Loads NVIDIA's NCCL at run time, and declares the functions and constants that we use. Only NCCL's messages are
 * used, never its reductions, because their order is not ours. */
#ifndef TESS_COMM_NCCL_NCCL_LIBRARY_H
#define TESS_COMM_NCCL_NCCL_LIBRARY_H

#include <limits.h>
#include <stddef.h>

#include "tessera/status.h"

typedef struct ncclComm *nccl_communicator;

/* NCCL's unique id, which the members of a communicator share before they can reach each other. It is plain bytes,
 * and can be sent as it is. */
typedef struct nccl_id {
    char bytes[128];
} nccl_id;

/* NCCL's configuration struct of version 2.18. A newer library reads `size` bytes of version `version`, and uses its
 * own defaults for the rest. */
typedef struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cluster_size, least_blocks, most_blocks;
    const char *network;
    int shares_resources;
} nccl_config;

/* X(return type, our name, the library's name, parameters). An int result is 0 or an error number. */
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
    int version_number; /* version number: 22809 means 2.28.9 */
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
    NCCL_BYTES = 1, /* NCCL's type number for unsigned bytes */
    NCCL_LEAST_VERSION = 21800,
    NCCL_OVERLAP_VERSION = 22703, /* a thread may begin a group while others of its groups are unfinished */
    NCCL_MAGIC = (int)0xcafebeef,
    NCCL_UNDEFINED = INT_MIN
};

/* Opens the library, once for the process. TESSERA_NCCL=PATH selects a file; TESSERA_NCCL=off disables NCCL. Starts
 * nothing, and needs no GPU. Thread-safe. All errors name the fix:
 * - TESS_E_NOT_FOUND: NCCL is not installed or is disabled. The caller may work without it.
 * - TESS_E_UNSUPPORTED: the library is older than 2.18, or cannot be loaded.
 * - TESS_E_INVALID: TESSERA_NCCL or one of NCCL's own variables has a wrong value. */
tess_status tess_nccl_open(const nccl_library **nccl);

#endif
