/* The collectives that `tessera bench comm` measures: what each calls, and what it must move. */
#ifndef TESS_BENCH_COMM_OPS_H
#define TESS_BENCH_COMM_OPS_H

#include "bench/comm_cross.h"
#include "trace/ring.h"

/* Buffers and sizes of one measured call. `bytes` is the size in nccl-tests' sense: the larger buffer of a rank. */
typedef struct comm_call {
    tess_team *team;
    tess_dtype dtype;
    size_t bytes;
    void *in, *out; /* `bytes` each; of the forms for pieces one is the full buffer and one the float32 shard */
} comm_call;

typedef struct comm_op {
    const char *name;
    const char *peer;                                /* what MPI calls the same movement */
    bool reduces;                                    /* has an operation: a sum */
    bool sized;                                      /* moves data at all */
    bool shares;                                     /* `out` is one copy for all ranks */
    double (*bus_factor)(int ranks);                 /* nccl-tests' busbw = algbw * this */
    double (*traffic)(const comm_call *, int ranks); /* bytes that all ranks together must read and write at least */
    comm_crossing *crossing;                         /* what links between hosts carry */
    tess_trace_op kind;                              /* for the tuning table */
    tess_status (*call)(const comm_call *);
} comm_op;

const comm_op *comm_op_list(int *n);

/* Bytes of the buffers that a call of `bytes` needs at most. */
size_t comm_op_buffer_bytes(size_t bytes);

#endif
