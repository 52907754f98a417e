#include "device/dry/work_trace.h"

#include <string.h>

#include "base/mem/make_room.h"
#include "base/mem/scoped.h"

_Static_assert(sizeof(tess_call_key) == 4 * sizeof(int32_t) + TESS_CALL_SIZES * sizeof(int64_t) + 2 * sizeof(double),
               "keys are compared as bytes, so they have no padding");

enum { FIRST_TABLE = 256 };

const char *tess_call_name(int kind)
{
    static const char *const others[] = {"stream_copy", "stream_fill"};
    if (kind < TESS_KERNEL_ROW_COUNT)
        return tess_kernel_row_of((tess_kernel_row_id)kind)->name;
    return others[kind - TESS_CALL_COPY];
}

double tess_call_median(const tess_call *call)
{
    double sorted[TESS_CALL_SAMPLES];
    for (int i = 0; i < call->n_samples; i++) {
        int at = i;
        for (; at > 0 && sorted[at - 1] > call->sample_s[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = call->sample_s[i];
    }
    return call->n_samples > 0 ? sorted[call->n_samples / 2] : 0;
}

tess_call_key tess_call_key_of(tess_kernel_row_id id, const void *args)
{
    const tess_kernel_row *row = tess_kernel_row_of(id);
    const tess_kernel_work work = tess_kernel_work_of(row, args);
    tess_call_key key = {.kind = (int32_t)id, .bytes = work.bytes, .flops = work.flops};
    key.variant = row->variant != NULL ? row->variant(args) : 0;
    int n = 0;
    for (int i = 0; i < row->n_operands; i++) {
        const tess_operand *o = &row->operands[i];
        if (tess_operand_pointer(args, o->at) == NULL || o->access == TESS_WORKS)
            continue;
        const tess_dtype dtype = tess_operand_dtype(args, o);
        if (n == 0)
            key.dtype = (int32_t)dtype;
        if (n < TESS_CALL_SIZES / 2) {
            key.size[2 * n] = tess_kernel_size_of(args, o->rows);
            key.size[2 * n + 1] = tess_kernel_size_of(args, o->columns);
        }
        key.to_dtype = (int32_t)dtype;
        n++;
    }
    if (row->dtype_of != 0)
        memcpy(&key.dtype, (const char *)args + row->dtype_of - 1, sizeof(key.dtype));
    return key;
}

/* ---- Calls ---- */
/* Mixes the words of a key. A step has hundreds of thousands of calls, so this is faster than a hash of bytes. */
static uint64_t hash_of(const tess_call_key *key)
{
    uint64_t words[sizeof(*key) / sizeof(uint64_t)], hash = 0;
    memcpy(words, key, sizeof(words));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return hash;
}

static void enter(tess_work_trace *t, uint32_t index)
{
    size_t at = hash_of(&t->calls[index].key) & (t->table_size - 1);
    while (t->table[at] != 0)
        at = (at + 1) & (t->table_size - 1);
    t->table[at] = index + 1;
}

/* Keeps at least half of the table empty. */
static tess_status grow_table(tess_work_trace *t)
{
    if (2 * (t->n_calls + 1) <= t->table_size)
        return TESS_OK;
    const size_t size = t->table_size > 0 ? 2 * t->table_size : FIRST_TABLE;
    tess_mem_free(t->mem, t->table);
    t->table = NULL;
    t->table_size = 0;
    TESS_TRY(TESS_NEW(t->mem, size, "calls", &t->table));
    t->table_size = size;
    for (size_t i = 0; i < t->n_calls; i++)
        enter(t, (uint32_t)i);
    return TESS_OK;
}

static tess_status find_call(tess_work_trace *t, const tess_call_key *key, uint32_t *index)
{
    TESS_TRY(grow_table(t));
    size_t at = hash_of(key) & (t->table_size - 1);
    for (; t->table[at] != 0; at = (at + 1) & (t->table_size - 1)) {
        *index = t->table[at] - 1;
        if (memcmp(&t->calls[*index].key, key, sizeof(*key)) == 0)
            return TESS_OK;
    }
    TESS_TRY(
        tess_mem_make_room(t->mem, TESS_POOL_MISC, t->n_calls, sizeof(*t->calls), "calls", &t->calls_room, &t->calls));
    *index = (uint32_t)t->n_calls;
    t->calls[t->n_calls++] = (tess_call){.key = *key};
    t->table[at] = *index + 1;
    return TESS_OK;
}

static tess_status add_event(tess_work_trace *t, tess_work_what what, uint32_t index)
{
    TESS_TRY(tess_mem_make_room(t->mem, TESS_POOL_MISC, t->n_events, sizeof(*t->events), "events of a dry rank",
                                &t->events_room, &t->events));
    t->events[t->n_events++] =
        (tess_work_event){.what = (uint8_t)what,
                          .phase = (uint8_t)(t->clock != NULL ? t->clock->phase : TESS_PHASE_OTHER),
                          .index = index};
    return TESS_OK;
}

static tess_status add_call(tess_work_trace *t, const tess_call_key *key, uint32_t *index)
{
    TESS_TRY(find_call(t, key, index));
    t->calls[*index].n++;
    return add_event(t, TESS_WORK_CALL, *index);
}

int tess_work_trace_call(tess_work_trace *t, const tess_call_key *key)
{
    uint32_t index = 0;
    if (t->status == TESS_OK)
        t->status = add_call(t, key, &index);
    return t->status == TESS_OK ? (int)index : -1;
}

/* ---- Operations ---- */
static tess_status find_team(tess_work_trace *t, const tess_work_team *team, int32_t *index)
{
    for (size_t i = t->n_teams; i-- > 0;)
        if (memcmp(&t->teams[i], team, sizeof(*team)) == 0) {
            *index = (int32_t)i;
            return TESS_OK;
        }
    TESS_TRY(
        tess_mem_make_room(t->mem, TESS_POOL_MISC, t->n_teams, sizeof(*t->teams), "teams", &t->teams_room, &t->teams));
    *index = (int32_t)t->n_teams;
    t->teams[t->n_teams++] = *team;
    return TESS_OK;
}

static tess_status add_op(tess_work_trace *t, const tess_work_team *team, const tess_work_op *op)
{
    int32_t of_team = 0;
    TESS_TRY(find_team(t, team, &of_team));
    TESS_TRY(
        tess_mem_make_room(t->mem, TESS_POOL_MISC, t->n_ops, sizeof(*t->ops), "operations", &t->ops_room, &t->ops));
    t->ops[t->n_ops] = *op;
    t->ops[t->n_ops].team = of_team;
    return add_event(t, TESS_WORK_ISSUE, (uint32_t)t->n_ops++);
}

int tess_work_trace_issue(tess_work_trace *t, const tess_work_team *team, const tess_work_op *op)
{
    if (t->status == TESS_OK)
        t->status = add_op(t, team, op);
    return t->status == TESS_OK ? (int)t->n_ops - 1 : -1;
}

void tess_work_trace_wait(tess_work_trace *t, int op)
{
    if (t->status == TESS_OK && op >= 0)
        t->status = add_event(t, TESS_WORK_WAIT, (uint32_t)op);
}

void tess_work_trace_free(tess_work_trace *t)
{
    tess_mem_free(t->mem, t->calls);
    tess_mem_free(t->mem, t->ops);
    tess_mem_free(t->mem, t->teams);
    tess_mem_free(t->mem, t->events);
    tess_mem_free(t->mem, t->table);
    *t = (tess_work_trace){.mem = t->mem};
}
