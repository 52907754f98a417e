/* The wire: what carries bytes between hosts. Links over TCP (comm/tcp) fill this table, and so do plug-ins for MPI
 * (libtessera_mpi_openmpi.so, libtessera_mpi_mpich.so). A plug-in is loaded only by jobs that its MPI has started, so
 * the plain binary needs no MPI.
 *
 * A plug-in sees nothing else of Tessera: plain C types, return values 0 (success) and -1 (with a text in `error`),
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

enum { WIRE_VERSION = 4, WIRE_ERROR_BYTES = 512 };

#define WIRE_TABLE_SYMBOL "tess_wire_plugin"

typedef struct wire_group wire_group;     /* a group of ranks that exchange messages: a communicator */
typedef struct wire_request wire_request; /* a message or a native collective in flight */

typedef struct wire_process {
    /* Set by the caller: the size of the parts of a large message (0: the wire chooses), the time in which all
     * processes must come, and a function that reports who is missing. NULL: no reports. */
    size_t part_bytes;
    double timeout_s;
    void (*say)(void *self, const char *line);
    void *self;
    bool tls;          /* set by the caller: connections are encrypted; not for MPI */
    int failure;       /* tess_status of a failed `open`; 0: TESS_E_UNSUPPORTED */
    int rank, size;    /* numbers from the launcher */
    int first_core;    /* the first core that this process may run on, in hwloc's order; -1: not known */
    bool funneled;     /* only the opening thread may call */
    int most_tag;      /* the largest tag that may be used */
    char library[128]; /* "Open MPI 4.1.4" */
    wire_group *world; /* text that belongs to the plug-in */
} wire_process;

/* Reductions that an MPI can do by itself (comm.reduction=native). */
typedef enum wire_type { WIRE_F32, WIRE_I32, WIRE_I64, WIRE_U8 } wire_type;
typedef enum wire_op { WIRE_SUM, WIRE_MAX, WIRE_MIN } wire_op;

typedef struct wire_table {
    uint32_t version; /* must be WIRE_VERSION */
    const char *name; /* "mpi" or "tcp" */
    /* Meets the other processes. MPI: calls MPI_Init_thread. Fails, with advice, if MPI offers less than
     * MPI_THREAD_FUNNELED. If MPI itself cannot start, it ends the process, because no error handler can be set before.
     * An MPI that the program has already initialised is used as it is, and the program finalizes it. */
    int (*open)(wire_process *process, char error[WIRE_ERROR_BYTES]);
    /* `orderly`: collective over all ranks (MPI_Finalize). Otherwise MPI is not called again: a peer is lost, and
     * finalizing could wait for it forever. */
    void (*close)(bool orderly);

    /* Creates a group. Collective over the members. All pass the same `ranks` (the launcher's numbers) and `tag`,
     * and create the groups that they share in one order. */
    int (*make_group)(const int *ranks, int n, int tag, wire_group **group, char error[WIRE_ERROR_BYTES]);
    /* Releases a group. Local. Requests in flight stay valid, and may be tested or cancelled: MPI keeps the
     * communicator until close (MPICH has about 2000). */
    void (*free_group)(wire_group **group);

    /* Send and receive. `to`, `from`: index in the group's `ranks`. Messages may have any size, even over 2^31
     * bytes. If the receiver's buffer is smaller than one part (1 GiB), it also accepts a shorter message. Otherwise
     * both sides must give the same size; a difference is an error that names both sizes. The buffer belongs to the
     * wire until `test` reports completion. */
    int (*send)(wire_group *group, const void *data, size_t bytes, int to, int tag, wire_request **request,
                char error[WIRE_ERROR_BYTES]);
    int (*recv)(wire_group *group, void *data, size_t bytes, int from, int tag, wire_request **request,
                char error[WIRE_ERROR_BYTES]);
    /* Gathers `bytes` bytes of each member on all members, in the group's order. Collective over the group. */
    int (*all_gather)(wire_group *group, const void *in, void *out, size_t bytes, wire_request **request,
                      char error[WIRE_ERROR_BYTES]);
    /* Reduces `n` elements. in == out is allowed, on all members or on none. Links over TCP refuse all reductions. */
    int (*all_reduce)(wire_group *group, const void *in, void *out, size_t n, wire_type type, wire_op op,
                      wire_request **request, char error[WIRE_ERROR_BYTES]);
    /* out: n elements; in: n elements for each rank of the group. They must not overlap. */
    int (*reduce_scatter)(wire_group *group, const void *in, void *out, size_t n, wire_type type, wire_op op,
                          wire_request **request, char error[WIRE_ERROR_BYTES]);
    /* Returns 1: done; 0: not yet; -1: failed. A request that is done or has failed is freed and set to NULL.
     * Progresses all requests of this process. */
    int (*test)(wire_request **request, char error[WIRE_ERROR_BYTES]);
    /* Progresses all requests of this process, even if only other processes wait for them. */
    void (*poll)(void);
    /* Cancels a message if possible, and never waits. NULL is allowed. MPI can cancel only receives that have not
     * begun: otherwise the buffer belongs to the wire until the process ends, and the tag is not used again. */
    void (*cancel)(wire_request **request);
} wire_table;

#endif
