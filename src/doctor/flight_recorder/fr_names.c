/* Parses the names of operations and dtypes in a dump. */
#include "doctor/flight_recorder/flight_recorder_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"

/* Operations of c10d: their names, which "|" separates, and what they are. */
typedef struct op_row {
    const char *names;
    tess_trace_op kind;
    bool by_output, uneven;
} op_row;

static const op_row ops[] = {
    {"all_reduce|allreduce|allreduce_coalesced|all_reduce_coalesced", TESS_TRACE_ALL_REDUCE, false, false},
    {"sparse_all_reduce", TESS_TRACE_ALL_REDUCE, false, true},
    {"all_reduce_barrier|barrier", TESS_TRACE_BARRIER, false, false},
    {"_all_gather_base|all_gather|all_gather_single|all_gather_into_tensor_coalesced|allgather_coalesced|"
     "ALLGATHER_coalesced",
     TESS_TRACE_ALL_GATHER, false, false},
    {"all_gather_v", TESS_TRACE_ALL_GATHER, false, true},
    {"_reduce_scatter_base|reduce_scatter|reduce_scatter_single|reduce_scatter_tensor_coalesced|"
     "REDUCE_SCATTER_coalesced",
     TESS_TRACE_REDUCE_SCATTER, true, false},
    {"reduce_scatter_v", TESS_TRACE_REDUCE_SCATTER, false, true},
    {"broadcast|_broadcast_oop", TESS_TRACE_BROADCAST, true, false},
    {"reduce|_reduce_oop", TESS_TRACE_REDUCE, false, false},
    {"gather", TESS_TRACE_GATHER, false, false},
    {"scatter", TESS_TRACE_SCATTER, true, false},
    {"all_to_all|all_to_all_single|all_to_all_v_single", TESS_TRACE_ALL_TO_ALL_V, false, true},
    {"send", TESS_TRACE_SEND, false, false},
    {"recv|recvAnySource", TESS_TRACE_RECV, true, false},
    {"split", TESS_TRACE_TEAM_SPLIT, false, true},
    {"new_window", TESS_TRACE_WINDOW_ALLOC, false, true},
};

static const op_row *find_op(const char *name)
{
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        if (tess_text_has(name, strlen(name), TESS_WORD_IS, ops[i].names))
            return &ops[i];
    return NULL;
}

/* Reads the number after the arrow: "0->1" of a send, "1<-0" of a receive. */
static int parse_peer(const char *text)
{
    const char *arrow = strpbrk(text, "-<");
    if (arrow == NULL || arrow[1] == '\0')
        return -1;
    char *end;
    long peer = strtol(arrow + 2, &end, 10);
    return end != arrow + 2 && peer >= 0 && peer <= INT32_MAX ? (int)peer : -1;
}

void fr_name_parse(const char *text, fr_name *name)
{
    const char *colon = strrchr(text, ':');
    const char *op = colon != NULL ? colon + 1 : text;
    size_t n = strcspn(op, " ");
    *name = (fr_name){.peer = -1, .kind = TESS_TRACE_OTHER};
    snprintf(name->backend, sizeof(name->backend), "%.*s", colon != NULL ? (int)(colon - text) : 0, text);
    snprintf(name->op, sizeof(name->op), "%.*s", (int)n, op);
    const op_row *row = find_op(name->op);
    if (row != NULL) {
        name->kind = row->kind;
        name->by_output = row->by_output;
        name->uneven = row->uneven;
    }
    if (name->kind == TESS_TRACE_SEND || name->kind == TESS_TRACE_RECV)
        name->peer = parse_peer(op + n);
}

bool fr_name_ends_group(const fr_name *name)
{
    size_t n = strlen(name->op);
    return strcmp(name->op, "coalesced") == 0 || (n > 10 && strcmp(name->op + n - 10, "_coalesced") == 0);
}

static const struct {
    const char *name;
    tess_dtype dtype;
} dtypes[] = {
    {"Float", TESS_F32}, {"BFloat16", TESS_BF16}, {"Half", TESS_F16},
    {"Int", TESS_I32},   {"Long", TESS_I64},      {"Byte", TESS_U8},
};

tess_dtype fr_dtype_parse(const char *text)
{
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
        if (strcmp(dtypes[i].name, text) == 0)
            return dtypes[i].dtype;
    return TESS_DTYPE_COUNT;
}

const char *fr_dtype_name(int dtype)
{
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
        if ((int)dtypes[i].dtype == dtype)
            return dtypes[i].name;
    return "Undefined";
}

const char *fr_op_name(int op)
{
    static const char *const names[TESS_TRACE_OP_COUNT] = {
        [TESS_TRACE_ALL_GATHER] = "_all_gather_base",
        [TESS_TRACE_REDUCE_SCATTER] = "_reduce_scatter_base",
        [TESS_TRACE_ALL_REDUCE] = "all_reduce",
        [TESS_TRACE_BROADCAST] = "broadcast",
        [TESS_TRACE_ALL_TO_ALL] = "all_to_all",
        [TESS_TRACE_ALL_TO_ALL_V] = "all_to_all",
        [TESS_TRACE_GATHER] = "gather",
        [TESS_TRACE_SCATTER] = "scatter",
        [TESS_TRACE_SEND] = "send",
        [TESS_TRACE_RECV] = "recv",
        [TESS_TRACE_ALL_GATHER_PIECES] = "all_gather_v",
        [TESS_TRACE_REDUCE_SCATTER_PIECES] = "reduce_scatter_v",
        [TESS_TRACE_TEAM_SPLIT] = "split",
        [TESS_TRACE_WINDOW_ALLOC] = "new_window",
        [TESS_TRACE_SHARED_ALLOC] = "new_window",
        [TESS_TRACE_REDUCE] = "reduce",
    };
    const char *name = op >= 0 && op < TESS_TRACE_OP_COUNT ? names[op] : NULL;
    return name != NULL ? name : "barrier";
}
