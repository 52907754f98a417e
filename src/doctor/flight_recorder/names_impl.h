/* Maps c10d's names of operations and element types to ours, and back. */
#ifndef TESS_DOCTOR_FLIGHT_RECORDER_NAMES_IMPL_H
#define TESS_DOCTOR_FLIGHT_RECORDER_NAMES_IMPL_H

#include "trace/ring.h"

/* A parsed profiling name: "nccl:send 0->1", "gloo:all_reduce". */
typedef struct fr_name {
    char backend[16];
    char op[48];
    int peer; /* place in the group; -1: not a message, or a receive from any rank */
    tess_trace_op kind;
    bool by_output; /* the outputs, not the inputs, are alike on all ranks */
    bool uneven;    /* sizes may differ between ranks */
} fr_name;

void fr_name_parse(const char *profiling_name, fr_name *name);

/* Ends a coalesced group, after its members. */
bool fr_name_ends_group(const fr_name *name);

tess_dtype fr_dtype_parse(const char *text); /* "BFloat16"; TESS_DTYPE_COUNT: not one of ours */
const char *fr_dtype_name(int dtype);

/* The c10d operation nearest to ours. */
const char *fr_op_name(int op);

#endif
