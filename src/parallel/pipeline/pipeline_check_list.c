/* Checks the list of one rank: every computation occurs once, in an order in which its inputs exist. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "parallel/pipeline/pipeline_check_impl.h"

enum {
    F = TESS_PIPELINE_F,
    B = TESS_PIPELINE_B,
    BI = TESS_PIPELINE_BI,
    BW = TESS_PIPELINE_BW,
    SEND_F = TESS_PIPELINE_SEND_F,
    RECV_F = TESS_PIPELINE_RECV_F,
    SEND_B = TESS_PIPELINE_SEND_B,
    RECV_B = TESS_PIPELINE_RECV_B,
    SEND_T = TESS_PIPELINE_SEND_T,
    RECV_T = TESS_PIPELINE_RECV_T
};

typedef struct list_check {
    const tess_pipeline_schedule *s;
    const tess_pipeline_list *list;
    int rank;
    int *at;    /* (chunks, micros, OPS) index of the action that performs the operation; -1: none */
    int *end;   /* (chunks, micros) index of the last action that names this chunk and micro-batch */
    int *owner; /* (chunks, micros) micro-batch that holds each slot of a chunk; -1: none */
} list_check;

const char *pipeline_action_text(const tess_pipeline_schedule *s, int rank, int index, char text[PIPELINE_ACTION_BYTES])
{
    const tess_pipeline_action *a = &s->lists[rank].actions[index], *computation = s->lists[rank].actions;
    if (a->cell == 0) {
        snprintf(text, PIPELINE_ACTION_BYTES, "rank %d, action %d (%s of chunk %d, micro-batch %d)", rank, index,
                 (unsigned)a->op < TESS_PIPELINE_OPS ? tess_pipeline_op_name(a->op) : "no operation", a->chunk,
                 a->micro);
        return text;
    }
    while (computation->cell != a->cell || computation->op > TESS_PIPELINE_BW)
        computation++;
    snprintf(text, PIPELINE_ACTION_BYTES, "row %d, cell %d ('%d%c%d')", rank + 1, a->cell,
             tess_pipeline_stage(s, rank, a->chunk), "FBIW"[computation->op], a -> micro);
    return text;
}

static tess_status __attribute__((format(printf, 3, 4))) refuse(const list_check *c, int index, const char *format, ...)
{
    char text[PIPELINE_ACTION_BYTES], why[128];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    return TESS_FAIL(TESS_E_INVALID, "%s: %s", pipeline_action_text(c->s, c->rank, index, text), why);
}

static size_t key_of(const list_check *c, int chunk, int micro)
{
    return (size_t)chunk * (size_t)c->s->micros + (size_t)micro;
}

/* Returns, by operation, the index of the action that performs it on (chunk, micro). */
static int *done(const list_check *c, int chunk, int micro)
{
    return c->at + key_of(c, chunk, micro) * TESS_PIPELINE_OPS;
}

static bool is_before(const int *at, int op, int index)
{
    return at[op] >= 0 && at[op] < index;
}

/* Whether the operation is the whole backward, or its part for the inputs. */
static bool went_back(const int *at, int index)
{
    return is_before(at, B, index) || is_before(at, BI, index);
}

static tess_status check_range(const list_check *c, int i)
{
    const tess_pipeline_action *a = &c->list->actions[i];
    if ((unsigned)a->op >= TESS_PIPELINE_OPS)
        return refuse(c, i, "there is no such operation");
    if (a->chunk < 0 || a->chunk >= c->s->chunks)
        return refuse(c, i, "a rank has the chunks 0 .. %d", c->s->chunks - 1);
    if (a->micro < 0 || a->micro >= c->s->micros)
        return refuse(c, i, "a step has the micro-batches 0 .. %d", c->s->micros - 1);
    if (a->slot < 0 || a->slot >= c->list->slots[a->chunk] || a->slot >= c->s->micros)
        return refuse(c, i, "it has slot %d, the chunk has %d slots", a->slot, c->list->slots[a->chunk]);
    return TESS_OK;
}

static tess_status check_once(const list_check *c, int i)
{
    const tess_pipeline_action *a = &c->list->actions[i];
    const int *at = done(c, a->chunk, a->micro);
    const int op = a->op;
    int before = at[op];
    if (op == BI || op == BW) /* B contains BI and BW */
        before = before >= 0 ? before : at[B];
    else if (op == B && before < 0)
        before = at[BI] >= 0 ? at[BI] : at[BW];
    if (before < 0)
        return TESS_OK;
    return refuse(c, i, "action %d (%s) did it before", before, tess_pipeline_op_name(c->list->actions[before].op));
}

/* Messages about a tied table lead from stage 0 to the last one. */
static bool sends_table(const tess_pipeline_schedule *s)
{
    return s->tables > 0 && tess_pipeline_rank_of(s, s->ranks * s->chunks - 1) != 0;
}

/* Checks that the inputs of an action exist: they were received, or computed on this rank. */
static tess_status check_inputs(const list_check *c, int i)
{
    const tess_pipeline_action *a = &c->list->actions[i];
    const int stage = tess_pipeline_stage(c->s, c->rank, a->chunk), last = c->s->ranks * c->s->chunks - 1;
    const bool before = tess_pipeline_crosses(c->s, stage - 1), behind = tess_pipeline_crosses(c->s, stage);
    const int *at = done(c, a->chunk, a->micro);
    switch ((int)a->op) {
    case F:
        if (before && !is_before(at, RECV_F, i))
            return refuse(c, i, "its input is missing: no RECV_F before it");
        if (!before && stage > 0 && !is_before(done(c, tess_pipeline_chunk_of(c->s, stage - 1), a->micro), F, i))
            return refuse(c, i, "its input is missing: no F of the stage before, on this rank, before it");
        return TESS_OK;
    case B:
    case BI:
        if (!is_before(at, F, i))
            return refuse(c, i, "its input is missing: no F before it");
        if (behind && !is_before(at, RECV_B, i))
            return refuse(c, i, "its input is missing: no RECV_B before it");
        if (!behind && stage < last && !went_back(done(c, tess_pipeline_chunk_of(c->s, stage + 1), a->micro), i))
            return refuse(c, i, "its input is missing: no B or BI of the stage behind, on this rank, before it");
        return TESS_OK;
    case BW:
        return is_before(at, BI, i) ? TESS_OK : refuse(c, i, "its input is missing: no BI before it");
    case SEND_F:
        if (!behind)
            return refuse(c, i, "no other rank has the stage behind");
        return is_before(at, F, i) ? TESS_OK : refuse(c, i, "what it sends is missing: no F before it");
    case SEND_B:
        if (!before)
            return refuse(c, i, "no other rank has the stage before");
        return went_back(at, i) ? TESS_OK : refuse(c, i, "what it sends is missing: no B or BI before it");
    case SEND_T:
        if (!sends_table(c->s) || stage > 0)
            return refuse(c, i, "it is no stage with the embedding of tied weights apart from their head");
        return went_back(at, i) ? TESS_OK : refuse(c, i, "what it sends is missing: no B or BI before it");
    case RECV_T:
        if (!sends_table(c->s) || stage < last)
            return refuse(c, i, "it is no stage with the head of tied weights apart from their embedding");
        return went_back(at, i) ? TESS_OK : refuse(c, i, "the head's gradient is missing: no B or BI before it");
    case RECV_F:
        return before ? TESS_OK : refuse(c, i, "no other rank has the stage before");
    default:
        return behind ? TESS_OK : refuse(c, i, "no other rank has the stage behind");
    }
}

/* Assigns the slot to this micro-batch, unless it has it already. *taken: the slot was free. */
static tess_status check_slot(const list_check *c, int i, bool *taken)
{
    const tess_pipeline_action *a = &c->list->actions[i];
    const int *at = done(c, a->chunk, a->micro);
    int *owner = &c->owner[key_of(c, a->chunk, a->slot)];
    for (int op = 0; op < TESS_PIPELINE_RECV_T; op++) {
        if (!is_before(at, op, i) || c->list->actions[at[op]].slot == a->slot)
            continue;
        return refuse(c, i, "it has slot %d, but action %d gave the micro-batch slot %d", a->slot, at[op],
                      c->list->actions[at[op]].slot);
    }
    *taken = *owner < 0;
    if (*taken)
        *owner = a->micro;
    if (*owner == a->micro)
        return TESS_OK;
    int end = c->end[key_of(c, a->chunk, *owner)];
    return refuse(c, i, "slot %d still holds micro-batch %d, up to action %d (%s)", a->slot, *owner, end,
                  tess_pipeline_op_name(c->list->actions[end].op));
}

/* Returns an operation that is missing for (chunk, micro) at the end of the list, or -1. */
static int missing(const list_check *c, int chunk, const int *at)
{
    const int stage = tess_pipeline_stage(c->s, c->rank, chunk);
    const bool before = tess_pipeline_crosses(c->s, stage - 1), behind = tess_pipeline_crosses(c->s, stage);
    if (at[F] < 0)
        return F;
    if (at[B] < 0 && at[BI] < 0)
        return B;
    if (at[BI] >= 0 && at[BW] < 0)
        return BW;
    if (behind && at[SEND_F] < 0)
        return SEND_F;
    if (sends_table(c->s) && stage == 0 && at[SEND_T] < 0)
        return SEND_T;
    if (sends_table(c->s) && stage == c->s->ranks * c->s->chunks - 1 && at[RECV_T] < 0)
        return RECV_T;
    return before && at[SEND_B] < 0 ? SEND_B : -1; /* a missing RECV would have failed as the input of F or B */
}

static tess_status check_complete(const list_check *c)
{
    int last[TESS_PIPELINE_MAX_CHUNKS] = {0}; /* the action that completes the gradients of each chunk */
    for (int chunk = 0; chunk < c->s->chunks; chunk++) {
        for (int micro = 0; micro < c->s->micros; micro++) {
            const int *at = done(c, chunk, micro);
            int lacks = missing(c, chunk, at), stage = tess_pipeline_stage(c->s, c->rank, chunk);
            char waits[32] = "";
            if (lacks == SEND_F || lacks == SEND_B)
                snprintf(waits, sizeof(waits), ", which rank %d waits for",
                         tess_pipeline_rank_of(c->s, lacks == SEND_F ? stage + 1 : stage - 1));
            TESS_CHECK(lacks < 0, TESS_E_INVALID, "rank %d, end of its list: no %s of chunk %d, micro-batch %d%s",
                       c->rank, tess_pipeline_op_name((tess_pipeline_op)lacks), chunk, micro, waits);
            int ends = at[B] >= 0 ? at[B] : at[BW];
            last[chunk] = ends > last[chunk] ? ends : last[chunk];
        }
    }
    for (int i = 0; i < c->list->n; i++) {
        const tess_pipeline_action *a = &c->list->actions[i];
        if (a->last != (i == last[a->chunk]))
            return refuse(c, i,
                          a->last ? "it is marked as the last, but the gradients of its chunk are not complete"
                                  : "it completes the gradients of its chunk, but is not marked as the last");
    }
    return TESS_OK;
}

size_t pipeline_list_work(const tess_pipeline_schedule *s)
{
    return (size_t)s->chunks * (size_t)s->micros * (TESS_PIPELINE_OPS + 2);
}

tess_status pipeline_check_list(const tess_pipeline_schedule *s, int rank, int *work, tess_pipeline_report *report)
{
    size_t all = (size_t)s->chunks * (size_t)s->micros;
    list_check c = {
        s, &s->lists[rank], rank, work, work + all * TESS_PIPELINE_OPS, work + all * (TESS_PIPELINE_OPS + 1)};
    int held = 0, chunk_held[TESS_PIPELINE_MAX_CHUNKS] = {0};
    memset(work, -1, pipeline_list_work(s) * sizeof(int));
    for (int i = 0; i < c.list->n; i++) {
        const tess_pipeline_action *a = &c.list->actions[i];
        TESS_TRY(check_range(&c, i));
        TESS_TRY(check_once(&c, i));
        done(&c, a->chunk, a->micro)[a->op] = i;
        if (a->op != TESS_PIPELINE_RECV_T)
            c.end[key_of(&c, a->chunk, a->micro)] = i;
    }
    for (int i = 0; i < c.list->n; i++) {
        const tess_pipeline_action *a = &c.list->actions[i];
        int *most = &report->slots[rank * s->chunks + a->chunk];
        bool taken = false;
        TESS_TRY(check_inputs(&c, i));
        if (a->op == TESS_PIPELINE_RECV_T) /* another micro-batch may have its stage's slot by now */
            continue;
        TESS_TRY(check_slot(&c, i, &taken));
        held += taken;
        chunk_held[a->chunk] += taken;
        *most = chunk_held[a->chunk] > *most ? chunk_held[a->chunk] : *most;
        report->in_flight[rank] = held > report->in_flight[rank] ? held : report->in_flight[rank];
        if (c.end[key_of(&c, a->chunk, a->micro)] == i) {
            c.owner[key_of(&c, a->chunk, a->slot)] = -1;
            held--;
            chunk_held[a->chunk]--;
        }
    }
    return check_complete(&c);
}
