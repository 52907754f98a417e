/* What c10d calls operations and element types, and what we call them. */
#ifndef TESS_DOCTOR_FLIGHT_RECORDER_NAMES_IMPL_H
#define TESS_DOCTOR_FLIGHT_RECORDER_NAMES_IMPL_H

#include "trace/ring.h"

/* A profiling name taken apart: "nccl:send 0->1", "gloo:all_reduce". */
typedef struct fr_name {
    char backend[16];
    char op[48];
    int peer; /* place in the group; -1: not a message, or from whoever sends */
    tess_trace_op kind;
    bool by_output; /* its outputs are what is equal on all ranks */
    bool uneven;    /* sizes may differ between ranks */
} fr_name;

void fr_name_parse(const char *profiling_name, fr_name *name);

/* Ends a coalesced group, after its members. */
bool fr_name_ends_group(const fr_name *name);

tess_dtype fr_dtype_parse(const char *text); /* "BFloat16"; TESS_DTYPE_COUNT: none of ours */
const char *fr_dtype_name(int dtype);

/* The c10d operation that is nearest to ours. */
const char *fr_op_name(int op);

#endif
