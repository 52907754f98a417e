/* Compares our declarations of NCCL with its own header: sizes, numbers, and functions that take what we give them. It
 * compiles if they agree. */
#include "comm/nccl/nccl_library.h"

#include <nccl.h>
#include <stddef.h>
#include <string.h>

#define SAME_PLACE(ours, theirs)                                                                             \
    _Static_assert(offsetof(nccl_config, ours) == offsetof(ncclConfig_t, theirs), "ncclConfig_t: " #theirs); \
    _Static_assert(sizeof(((nccl_config *)0)->ours) == sizeof(((ncclConfig_t *)0)->theirs),                  \
                   "ncclConfig_t: size of " #theirs)
#define SAME_NUMBER(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)

_Static_assert(sizeof(nccl_id) == sizeof(ncclUniqueId), "ncclUniqueId");
_Static_assert(sizeof(nccl_config) <= sizeof(ncclConfig_t), "a library reads the part that we give");
SAME_PLACE(size, size);
SAME_PLACE(magic, magic);
SAME_PLACE(version, version);
SAME_PLACE(blocking, blocking);
SAME_PLACE(cluster_size, cgaClusterSize);
SAME_PLACE(least_blocks, minCTAs);
SAME_PLACE(most_blocks, maxCTAs);
SAME_PLACE(network, netName);
SAME_PLACE(shares_resources, splitShare);
SAME_NUMBER(NCCL_UNDEFINED, NCCL_CONFIG_UNDEF_INT);
SAME_NUMBER(NCCL_SUCCESS, ncclSuccess);
SAME_NUMBER(NCCL_CUDA_ERROR, ncclUnhandledCudaError);
SAME_NUMBER(NCCL_SYSTEM_ERROR, ncclSystemError);
SAME_NUMBER(NCCL_INTERNAL_ERROR, ncclInternalError);
SAME_NUMBER(NCCL_INVALID_ARGUMENT, ncclInvalidArgument);
SAME_NUMBER(NCCL_INVALID_USAGE, ncclInvalidUsage);
SAME_NUMBER(NCCL_REMOTE_ERROR, ncclRemoteError);
SAME_NUMBER(NCCL_IN_PROGRESS, ncclInProgress);
SAME_NUMBER(NCCL_BYTES, ncclUint8);
SAME_NUMBER(NCCL_LEAST_VERSION, NCCL_VERSION(2, 18, 0));
SAME_NUMBER(NCCL_OVERLAP_VERSION, NCCL_VERSION(2, 27, 3));

/* Each function of our table, with our parameters, by NCCL's declaration. */
#define X(type, name, symbol, parameters) type check_##name parameters;
NCCL_LIST(X)
#undef X
int check_version(int *version)
{
    return ncclGetVersion(version);
}
const char *check_error_text(int error)
{
    return ncclGetErrorString((ncclResult_t)error);
}
const char *check_newest_error(nccl_communicator c)
{
    return ncclGetLastError(c);
}
int check_id_create(nccl_id *id)
{
    return ncclGetUniqueId((ncclUniqueId *)id);
}
int check_create(nccl_communicator *c, int size, nccl_id id, int rank, nccl_config *config)
{
    ncclUniqueId theirs;
    memcpy(&theirs, &id, sizeof(theirs));
    return ncclCommInitRankConfig(c, size, theirs, rank, (ncclConfig_t *)config);
}
int check_state(nccl_communicator c, int *error)
{
    return ncclCommGetAsyncError(c, (ncclResult_t *)error);
}
int check_finalize(nccl_communicator c)
{
    return ncclCommFinalize(c);
}
int check_destroy(nccl_communicator c)
{
    return ncclCommDestroy(c);
}
int check_abort(nccl_communicator c)
{
    return ncclCommAbort(c);
}
int check_group_start(void)
{
    return ncclGroupStart();
}
int check_group_end(void)
{
    return ncclGroupEnd();
}
int check_send(const void *from, size_t n, int type, int peer, nccl_communicator c, void *queue)
{
    return ncclSend(from, n, (ncclDataType_t)type, peer, c, queue);
}
int check_recv(void *to, size_t n, int type, int peer, nccl_communicator c, void *queue)
{
    return ncclRecv(to, n, (ncclDataType_t)type, peer, c, queue);
}

/* NCCL's own initial value has our magic number. */
int check_magic(void);
int check_magic(void)
{
    const ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;
    return initial.magic == (unsigned)NCCL_MAGIC && initial.size == sizeof(initial);
}
