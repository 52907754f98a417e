/* The order of computations of each schedule (see the papers that pipeline.h names). */
#include "parallel/pipeline/pipeline_orders_impl.h"

enum { F = TESS_PIPELINE_F, B = TESS_PIPELINE_B, BI = TESS_PIPELINE_BI, BW = TESS_PIPELINE_BW };

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Appends the computation `op` of the chunk's next micro-batch. Micro-batches that the step does not have are
 * counted but left out. So the schedule of a few micro-batches is that of many, cut short. */
static void put(pipeline_order *o, int op, int chunk)
{
    int micro = o->next[op][chunk]++;
    if (micro < o->schedule->micros)
        o->actions[o->n++] = (tess_pipeline_action){.op = (tess_pipeline_op)op, .chunk = chunk, .micro = micro};
}

static void put_many(pipeline_order *o, int n, int op, int chunk)
{
    for (int i = 0; i < n; i++)
        put(o, op, chunk);
}

static void gpipe(pipeline_order *o)
{
    put_many(o, o->schedule->micros, F, 0);
    put_many(o, o->schedule->micros, B, 0);
}

/* A rank begins with a forward for each rank after it, then alternates: rank r holds at most ranks - r micro-batches.
 */
static void one_f_one_b(pipeline_order *o, int rank)
{
    int m = o->schedule->micros, warm = least(o->schedule->ranks - 1 - rank, m);
    put_many(o, warm, F, 0);
    for (int i = warm; i < m; i++) {
        put(o, F, 0);
        put(o, B, 0);
    }
    put_many(o, warm, B, 0);
}

/* Interleaved 1F1B: a rank computes `ranks` micro-batches in one chunk, then in the next one; backward goes through
 * the chunks in reverse. */
static void interleaved(pipeline_order *o, int rank)
{
    int p = o->schedule->ranks, v = o->schedule->chunks, turns = v * o->schedule->micros;
    int warm = least(2 * (p - 1 - rank) + (v - 1) * p, turns);
    for (int i = 0; i < turns + warm; i++) {
        if (i < turns)
            put(o, F, i / p % v);
        if (i >= warm)
            put(o, B, v - 1 - (i - warm) / p % v);
    }
}

/* 1F1B with backward in two parts. Rank r delays BW by r micro-batches, so each rank holds as many micro-batches as
 * rank 0 holds in 1F1B. Where 1F1B waits for the last gradients, the rank computes the delayed BW. */
static void zb_h1(pipeline_order *o, int rank)
{
    int m = o->schedule->micros;
    put_many(o, o->schedule->ranks - 1 - rank, F, 0);
    for (int i = 0; i < m; i++) {
        put(o, F, 0);
        put(o, BI, 0);
        if (i >= rank)
            put(o, BW, 0);
    }
    put_many(o, least(rank, m), BW, 0);
}

static void put_split(pipeline_order *o, int chunk)
{
    put(o, BI, chunk);
    put(o, BW, chunk);
}

/* No rank waits once it has begun, if F, BI and BW take the same time: after a warm-up each micro-batch costs a rank
 * its six computations in turn. 2 * ranks micro-batches are held, half a rank's layers each: as much as by 1F1B. */
static void zbv(pipeline_order *o, int rank)
{
    int p = o->schedule->ranks, m = o->schedule->micros, full = m > 2 * p - 1 ? m : 2 * p - 1;
    put_many(o, 2 * (p - rank) - 1, F, 0);
    for (int i = 0; i < rank; i++) {
        put(o, F, 1);
        put(o, F, 0);
    }
    for (int i = 0; i < p - rank; i++) {
        put(o, F, 1);
        put_split(o, 1);
    }
    while (o->next[F][1] < full) {
        if (o->next[F][0] < full)
            put(o, F, 0);
        put_split(o, 0);
        put(o, F, 1);
        put_split(o, 1);
    }
    for (int i = 0; i < rank; i++) {
        put(o, BI, 0);
        put(o, BI, 1);
    }
    for (int i = 0; i < p - rank; i++)
        put_split(o, 0);
    put_many(o, full - o->next[BW][1], BW, 1);
    put_many(o, full - o->next[BW][0], BW, 0);
}

/* Appends a whole backward, or its BI only; put_weights appends the BW later. */
static void put_backward(pipeline_order *o, int chunk, bool split)
{
    put(o, split ? BI : B, chunk);
    o->next[split ? B : BI][chunk]++; /* both count backwards */
}

/* Appends the BW of the oldest BI that has none yet. */
static void put_weights(pipeline_order *o)
{
    while (o->actions[o->weights].op != TESS_PIPELINE_BI)
        o->weights++;
    tess_pipeline_action oldest = o->actions[o->weights++];
    oldest.op = TESS_PIPELINE_BW;
    o->actions[o->n++] = oldest;
}

/* Pairs forwards of one chunk with backwards of the other. A backward is whole if a forward is paired with it, and
 * split while the pipeline fills and drains. */
static void dualpipev(pipeline_order *o, int rank)
{
    int p = o->schedule->ranks, m = o->schedule->micros, behind = p - 1 - rank;
    put_many(o, 2 * behind, F, 0);
    for (int i = 0; i < rank + 1; i++) {
        put(o, F, 0);
        put(o, F, 1);
    }
    for (int i = 0; i < behind; i++) {
        put_backward(o, 1, true);
        put_weights(o);
        put(o, F, 1);
    }
    for (int i = 0; i < m - 2 * p + rank + 1; i++) {
        put(o, F, 0);
        put_backward(o, 1, false);
        put(o, F, 1);
        put_backward(o, 0, false);
    }
    for (int i = 0; i < behind; i++) {
        put_backward(o, 1, false);
        put(o, F, 1);
        put_backward(o, 0, false);
    }
    for (int i = 0; i < 2 * (rank + 1); i++) /* the second half of them in two parts */
        put_backward(o, 1 - i % 2, i > rank);
    for (int i = 0; i < behind; i++) {
        put_weights(o);
        put_backward(o, 0, true);
    }
    for (int i = 0; i < rank + 1; i++)
        put_weights(o);
}

void pipeline_order_fill(pipeline_order *o, int rank)
{
    switch (o->schedule->kind) {
    case TESS_PIPELINE_GPIPE:
        gpipe(o);
        break;
    case TESS_PIPELINE_1F1B:
        one_f_one_b(o, rank);
        break;
    case TESS_PIPELINE_INTERLEAVED:
        interleaved(o, rank);
        break;
    case TESS_PIPELINE_ZB_H1:
        zb_h1(o, rank);
        break;
    case TESS_PIPELINE_ZBV:
        zbv(o, rank);
        break;
    default:
        dualpipev(o, rank);
        break;
    }
}
