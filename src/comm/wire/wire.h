/* The wire: what carries bytes between hosts. A plug-in (libtessera_mpi_openmpi.so, libtessera_mpi_mpich.so) fills this
 * table; it is loaded only by jobs that an MPI has started, so the plain binary needs no MPI.
 *
 * The plug-in sees nothing else of Tessera: plain C types, return values 0 (success) and -1 (with a text in `error`),
 * no exit, no abort, no output. The core holds a lock, so a process makes one call at a time; when the MPI offers only
 * MPI_THREAD_FUNNELED, the thread that opened it makes all calls. Only open, close and make_group wait. Messages
 * between two ranks of a group with one tag arrive in the order in which they were sent; all members of a group start
 * its collectives in one order.
 *
 * TESSERA_MPI_PART_BYTES, for tests of the plug-in: the size of the parts that messages are cut into, instead of 1 GiB.
 */
#ifndef TESS_COMM_WIRE_WIRE_H
#define TESS_COMM_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WIRE_VERSION = 2, WIRE_ERROR_BYTES = 512 };

#define WIRE_TABLE_SYMBOL "tess_wire_plugin"

typedef struct wire_group wire_group;     /* ranks that exchange messages: a communicator */
typedef struct wire_request wire_request; /* a message or a native collective in flight */

typedef struct wire_process {
    size_t part_bytes; /* set by the caller: bytes of a part of a large message; 0: the plug-in chooses */
    int rank, size;    /* the launcher's numbers */
    int first_core;    /* the first core that this process may run on, in hwloc's order; -1: not known */
    bool funneled;     /* only the opening thread may call */
    int most_tag;      /* the largest tag */
    char library[128]; /* "Open MPI 4.1.4" */
    wire_group *world; /* owned by the plug-in */
} wire_process;

/* Reductions that the MPI can do by itself (comm.reduction=native). */
typedef enum wire_type { WIRE_F32, WIRE_I32, WIRE_I64, WIRE_U8 } wire_type;
typedef enum wire_op { WIRE_SUM, WIRE_MAX, WIRE_MIN } wire_op;

typedef struct wire_table {
    uint32_t version; /* WIRE_VERSION */
    /* MPI_Init_thread. Fails (with what to change) when the MPI offers less than MPI_THREAD_FUNNELED. When MPI itself
     * cannot start, it ends the process: no error handler can be set before. An MPI that the program has initialised is
     * used as it is, and the program finalizes it. */
    int (*open)(wire_process *process, char error[WIRE_ERROR_BYTES]);
    /* `orderly`: all ranks come here (MPI_Finalize, collective). Otherwise MPI is not called any more: a peer is
     * lost, and finalizing could wait for it forever. */
    void (*close)(bool orderly);

    /* Collective over the members, which all pass the same `ranks` (numbers of the launcher) and `tag`, and make the
     * groups that they share in one order. */
    int (*make_group)(const int *ranks, int n, int tag, wire_group **group, char error[WIRE_ERROR_BYTES]);
    /* Local. Requests in flight stay valid and may be tested or cancelled: MPI keeps the communicator until close
     * (MPICH has about 2000). */
    void (*free_group)(wire_group **group);

    /* `to`, `from`: place in the group's `ranks`. Any size, also over 2^31 bytes. A receiver with room for less
     * than one part (1 GiB) takes any shorter message as well; else both name the same size, and another one is an
     * error that names both sizes. The buffer is the wire's until `test` says done. */
    int (*send)(wire_group *group, const void *data, size_t bytes, int to, int tag, wire_request **request,
                char error[WIRE_ERROR_BYTES]);
    int (*recv)(wire_group *group, void *data, size_t bytes, int from, int tag, wire_request **request,
                char error[WIRE_ERROR_BYTES]);
    /* Collective over the group; each gives `bytes` bytes and gets them all, in the group's order. */
    int (*all_gather)(wire_group *group, const void *in, void *out, size_t bytes, wire_request **request,
                      char error[WIRE_ERROR_BYTES]);
    /* `n` elements; in == out is allowed, on all members or none. */
    int (*all_reduce)(wire_group *group, const void *in, void *out, size_t n, wire_type type, wire_op op,
                      wire_request **request, char error[WIRE_ERROR_BYTES]);
    /* out: n elements; in: n for each rank of the group. They do not overlap. */
    int (*reduce_scatter)(wire_group *group, const void *in, void *out, size_t n, wire_type type, wire_op op,
                          wire_request **request, char error[WIRE_ERROR_BYTES]);
    /* 1: done; 0: not yet; -1: failed. A request that is done or failed is freed and nulled. Progresses all requests
     * of this process. */
    int (*test)(wire_request **request, char error[WIRE_ERROR_BYTES]);
    /* Progresses all requests of this process, also those that only others wait for. */
    void (*poll)(void);
    /* Cancels a message where possible, and never waits. NULL is allowed. MPI can cancel only receives that have not
     * begun: the buffer stays the wire's until the process ends, and the tag is not used again. */
    void (*cancel)(wire_request **request);
} wire_table;

#endif
