/* The common declarations of the plug-in's files. A process has one MPI, and so one state. */
#ifndef TESS_COMM_MPI_MPI_IMPL_H
#define TESS_COMM_MPI_MPI_IMPL_H

#include <mpi.h>

#include "comm/wire/wire.h"

/* MPI counts are ints, and not every transport below MPI carries messages over 2 GiB: longer ones go in parts. */
#define MPI_PART_BYTES ((size_t)1 << 30)

struct wire_group {
    wire_group *next; /* older */
    MPI_Comm comm;
    int rank, size; /* this process in it */
};

typedef enum mpi_request_kind { REQUEST_SEND, REQUEST_RECV, REQUEST_COLLECTIVE } mpi_request_kind;

struct wire_request {
    wire_request *next; /* idle ones */
    mpi_request_kind kind;
    MPI_Request *parts;
    size_t n_parts, n_done, room;
    size_t bytes;          /* size of the whole message */
    int from;              /* REQUEST_RECV */
    MPI_Datatype types[2]; /* made for this request; MPI_DATATYPE_NULL: none */
};

typedef struct mpi_state {
    bool finalizes; /* we initialised MPI, so we end it */
    size_t part_bytes;
    wire_group world;
    wire_group *groups; /* newest first */
    wire_request *idle; /* reused by the next messages: a running job allocates nothing */
} mpi_state;

extern mpi_state mpi;

/* Writes "<what>: <what MPI says to code>" and returns -1. */
int mpi_fail(char error[WIRE_ERROR_BYTES], int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A request with room for n_parts, none of them posted: n_parts counts those. NULL with a text when memory is out. */
wire_request *mpi_request_take(mpi_request_kind kind, size_t n_parts, char error[WIRE_ERROR_BYTES]);
/* Cancels the parts in flight. The request becomes idle. */
void mpi_request_cancel(wire_request **request);
int mpi_request_test(wire_request **request, char error[WIRE_ERROR_BYTES]);
void mpi_requests_free(void); /* the idle ones */

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
