/* Common declarations of the plug-in's files. A process has one MPI, and so one state. */
#ifndef TESS_COMM_MPI_MPI_IMPL_H
#define TESS_COMM_MPI_MPI_IMPL_H

#include <mpi.h>

#include "comm/wire/wire.h"

/* Maximum size of a part. MPI counts are ints, and some transports below MPI cannot carry messages over 2 GiB, so
 * longer messages are sent in parts. */
#define MPI_PART_BYTES ((size_t)1 << 30)

struct wire_group {
    wire_group *next; /* next older group */
    MPI_Comm comm;
    int rank, size; /* rank of this process in the group */
};

typedef enum mpi_request_kind { REQUEST_SEND, REQUEST_RECV, REQUEST_COLLECTIVE } mpi_request_kind;

struct wire_request {
    wire_request *next; /* next idle request */
    mpi_request_kind kind;
    MPI_Request *parts;
    size_t n_parts, n_done, room;
    size_t bytes;          /* size of the whole message */
    int from;              /* REQUEST_RECV or another kind */
    MPI_Datatype types[2]; /* datatype created for this request; MPI_DATATYPE_NULL: none */
};

typedef struct mpi_state {
    bool finalizes; /* this plug-in initialised MPI, so it also finalizes it */
    size_t part_bytes;
    wire_group world;
    wire_group *groups; /* list of groups, newest first */
    wire_request *idle; /* requests kept for reuse, so that a running job allocates nothing */
} mpi_state;

extern mpi_state mpi;

/* Writes "<what>: <MPI's text for code>" as the error, and returns -1. */
int mpi_fail(char error[WIRE_ERROR_BYTES], int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Returns a request with room for n_parts; none of them is posted yet, and n_parts counts posted parts. NULL: out of
 * memory, with an error text. */
wire_request *mpi_request_take(mpi_request_kind kind, size_t n_parts, char error[WIRE_ERROR_BYTES]);
/* Cancels the parts in flight, and makes the request idle. */
void mpi_request_cancel(wire_request **request);
int mpi_request_test(wire_request **request, char error[WIRE_ERROR_BYTES]);
void mpi_requests_free(void); /* list of idle requests */

int mpi_send(wire_group *group, const void *data, size_t bytes, int to, int tag, wire_request **request,
             char error[WIRE_ERROR_BYTES]);
int mpi_recv(wire_group *group, void *data, size_t bytes, int from, int tag, wire_request **request,
             char error[WIRE_ERROR_BYTES]);

int mpi_all_gather(wire_group *group, const void *in, void *out, size_t bytes, wire_request **request,
                   char error[WIRE_ERROR_BYTES]);
int mpi_all_reduce(wire_group *group, const void *in, void *out, size_t n, wire_type type, wire_op op,
                   wire_request **request, char error[WIRE_ERROR_BYTES]);
int mpi_reduce_scatter(wire_group *group, const void *in, void *out, size_t n, wire_type type, wire_op op,
                       wire_request **request, char error[WIRE_ERROR_BYTES]);

#endif
