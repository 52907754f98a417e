/* Distributes pieces of attention work to the threads of a stream. */
#include "device/cpu/attention_impl.h"

#include <stdatomic.h>

#include "device/stream_impl.h"

typedef struct forward_run {
    const attention_forward_job *job;
    atomic_llong next;    /* the next tile, counted over all sequences, the longest remaining sequence first */
    int64_t n_rep, grain; /* grain: number of tiles taken at once */
} forward_run;

static int64_t tiles_of(const tess_attention_seq *s, int64_t n_rep)
{
    return divide_up(s->q_len * n_rep, ATTENTION_ROWS);
}

static void run_tile(const forward_run *run, int64_t seq_index, int64_t index, void *memory)
{
    const tess_attention *a = run->job->a;
    const tess_attention_seq *s = &a->seqs[seq_index];
    const int64_t n_tiles = tiles_of(s, run->n_rep), n_rows = s->q_len * run->n_rep;
    /* The last tiles see the most keys. They are taken first, so that no thread has to finish a long one at the end. */
    attention_tile tile = {.seq = s,
                           .seq_index = seq_index,
                           .kv_head = index / n_tiles,
                           .row_begin = (n_tiles - 1 - index % n_tiles) * ATTENTION_ROWS,
                           .n_rep = run->n_rep};
    tile.n_rows = min64(ATTENTION_ROWS, n_rows - tile.row_begin);
    tile.key_begin = attention_first_key(a, attention_position(&tile, 0));
    tile.key_end = attention_position(&tile, tile.n_rows - 1) + 1;
    if (a->state != NULL) {
        tile.key_begin = max64(tile.key_begin, s->k_begin);
        tile.key_end = min64(tile.key_end, s->k_end);
        if (tile.key_begin >= tile.key_end)
            tile.key_begin = tile.key_end = 0;
        if (tile.key_end == 0 && !s->first && !s->last)
            return;
    }
    run->job->tile(run->job, &tile, memory);
}

static void forward_worker(void *context, int64_t begin, int64_t end, int worker)
{
    forward_run *run = context;
    const tess_attention *a = run->job->a;
    void *memory = (char *)run->job->worker_memory + (size_t)worker * run->job->worker_bytes;
    (void)begin, (void)end;
    if (run->job->enter != NULL)
        run->job->enter();
    int64_t seq_index = 0, first = 0; /* first: number of the sequence's first tile */
    for (int64_t index = 0, left = 0;; index++, left--) {
        if (left == 0) {
            index = atomic_fetch_add_explicit(&run->next, run->grain, memory_order_relaxed);
            left = run->grain;
        }
        while (seq_index < a->n_seqs) {
            const int64_t n = tiles_of(&a->seqs[seq_index], run->n_rep) * a->n_kv_heads;
            if (index < first + n)
                break;
            first += n;
            seq_index++;
        }
        if (seq_index == a->n_seqs)
            break;
        run_tile(run, seq_index, index - first, memory);
    }
    if (run->job->leave != NULL)
        run->job->leave();
}

void tess_attention_run_forward(tess_stream *stream, const attention_forward_job *job)
{
    const tess_attention *a = job->a;
    const int n_threads = tess_threads_count(stream->threads);
    forward_run run = {.job = job, .n_rep = a->n_heads / a->n_kv_heads, .grain = 1};
    int64_t n_tiles = 0;
    for (int64_t i = 0; i < a->n_seqs; i++)
        n_tiles += tiles_of(&a->seqs[i], run.n_rep);
    /* A sequence has one tile per head in generation, and its heads are neighbours in memory, so they are computed
     * together. */
    if (n_tiles == a->n_seqs && a->n_seqs >= 4 * n_threads)
        run.grain = a->n_kv_heads;
    atomic_init(&run.next, 0);
    tess_threads_run(stream->threads, forward_worker, &run, n_threads, 1);
}

/* ---- Backward ---- */
/* The pieces of a unit whose gradients are wanted: blocks of keys, and tiles of query heads. */
typedef struct wanted_pieces {
    int64_t first_block, n_blocks, first_rep, n_reps, first_tile, n_tiles;
} wanted_pieces;

enum phase { PHASE_UNITS, PHASE_PACK, PHASE_KEYS, PHASE_QUERIES };

typedef struct backward_run {
    const tess_attention_grad *g;
    const attention_backward_steps *steps;
    char *unit_memory, *worker_memory;
    float *delta; /* (T, H), or NULL */
    size_t unit_bytes;
    enum phase phase;
    attention_unit unit;     /* shared by the threads, except in PHASE_UNITS */
    wanted_pieces wanted;    /* pieces of that unit */
    int64_t first, n_pieces; /* first: index of the first piece within the unit */
    atomic_llong next;
} backward_run;

static attention_unit unit_of(const backward_run *run, int64_t index, char *memory)
{
    const tess_attention *a = &run->g->forward;
    const tess_attention_seq *s = &a->seqs[index / a->n_kv_heads];
    const int64_t n_keys = tess_attention_key_end(a, s) - s->k_begin;
    return (attention_unit){.g = run->g,
                            .a = a,
                            .seq = s,
                            .kv_head = index % a->n_kv_heads,
                            .n_rep = a->n_heads / a->n_kv_heads,
                            .n_keys = n_keys,
                            .q_first = s->k_len - s->q_len,
                            .k_first = s->k_begin,
                            .n_blocks = divide_up(n_keys, run->steps->block_keys),
                            .n_tiles = divide_up(s->q_len, run->steps->tile_rows),
                            .memory = memory,
                            .delta = run->delta,
                            .keeps_sums = a->state != NULL};
}

static void pack(const attention_backward_steps *steps, const attention_unit *u, int64_t piece, void *memory)
{
    if (piece < u->n_blocks)
        steps->pack_keys(u, piece);
    else
        steps->pack_queries(u, (piece - u->n_blocks) / u->n_tiles, (piece - u->n_blocks) % u->n_tiles, memory);
}

static void run_unit(const attention_backward_steps *steps, const attention_unit *u, void *memory)
{
    for (int64_t i = 0; i < u->n_blocks + u->n_rep * u->n_tiles; i++)
        pack(steps, u, i, memory);
    steps->key_blocks(u, 0, u->n_blocks, true, memory);
    for (int64_t i = 0; i < u->n_rep * u->n_tiles; i++)
        steps->write_dq(u, i / u->n_tiles, i % u->n_tiles, memory);
}

static void backward_worker(void *context, int64_t begin, int64_t end, int worker)
{
    backward_run *run = context;
    const attention_backward_steps *steps = run->steps;
    char *memory = run->worker_memory + (size_t)worker * steps->worker_bytes;
    attention_unit *u = &run->unit;
    (void)begin, (void)end;
    if (steps->enter != NULL)
        steps->enter();
    for (;;) {
        const int64_t next = atomic_fetch_add_explicit(&run->next, 1, memory_order_relaxed), i = run->first + next;
        if (next >= run->n_pieces)
            break;
        switch (run->phase) {
        case PHASE_UNITS: {
            attention_unit own = unit_of(run, i, run->unit_memory + (size_t)worker * run->unit_bytes);
            run_unit(steps, &own, memory);
            break;
        }
        case PHASE_PACK:
            pack(steps, u, i, memory);
            break;
        case PHASE_KEYS:
            steps->key_blocks(u, i, i + 1, false, memory);
            break;
        case PHASE_QUERIES: { /* the last tiles see the most keys */
            const wanted_pieces *w = &run->wanted;
            const int64_t rep = w->first_rep + i / w->n_tiles, tile = w->first_tile + w->n_tiles - 1 - i % w->n_tiles;
            steps->query_tile(u, rep, tile, memory);
            steps->write_dq(u, rep, tile, memory);
            break;
        }
        }
    }
    if (steps->leave != NULL)
        steps->leave();
}

static void run_phase(tess_stream *stream, backward_run *run, enum phase phase, int64_t first, int64_t n_pieces,
                      int64_t n_workers)
{
    run->phase = phase;
    run->first = first;
    run->n_pieces = n_pieces;
    atomic_store(&run->next, 0);
    tess_threads_run(stream->threads, backward_worker, run, n_workers, 1);
}

/* Returns the number of blocks of `size` rows of a sequence that have rows [begin, end) of the batch, and the first one
 * in *first. */
static int64_t blocks_of(const tess_attention_seq *s, int64_t begin, int64_t end, int64_t size, int64_t *first)
{
    const int64_t from = max64(begin - s->q_begin, 0), to = min64(end - s->q_begin, s->q_len);
    *first = from / size;
    return from < to ? divide_up(to, size) - *first : 0;
}

static wanted_pieces wanted_of(const attention_unit *u, const attention_backward_steps *steps)
{
    const tess_attention_grad *g = u->g;
    if (g->wanted == TESS_ATTENTION_QUERIES)
        return (wanted_pieces){.n_reps = u->n_rep, .n_tiles = u->n_tiles};
    if (g->wanted == TESS_ATTENTION_KEYS)
        return (wanted_pieces){.n_blocks = u->n_blocks};
    if (!g->in_part)
        return (wanted_pieces){0, u->n_blocks, 0, u->n_rep, 0, u->n_tiles};
    const int64_t head = u->kv_head * u->n_rep;
    const int64_t heads = max64(g->head_begin - head, 0), heads_end = min64(g->head_end - head, u->n_rep);
    wanted_pieces w = {.first_rep = heads, .n_reps = max64(heads_end - heads, 0)};
    w.n_blocks = blocks_of(u->seq, g->key_begin, g->key_end, steps->block_keys, &w.first_block);
    w.n_tiles = blocks_of(u->seq, g->query_begin, g->query_end, steps->tile_rows, &w.first_tile);
    return w;
}

static void run_together(tess_stream *stream, backward_run *run)
{
    const attention_unit *u = &run->unit;
    const wanted_pieces w = run->wanted = wanted_of(u, run->steps);
    const bool sinks = u->delta != NULL && w.n_reps > 0; /* packing writes delta */
    if (w.n_blocks == 0 && w.n_reps * w.n_tiles == 0 && !sinks)
        return;
    const int n_threads = tess_threads_count(stream->threads);
    run_phase(stream, run, PHASE_PACK, 0, u->n_blocks + u->n_rep * u->n_tiles, n_threads);
    run_phase(stream, run, PHASE_KEYS, w.first_block, w.n_blocks, n_threads);
    run_phase(stream, run, PHASE_QUERIES, 0, w.n_reps * w.n_tiles, n_threads);
}

/* Whether to split units over all threads. One thread per unit needs five matrix products per tile. Splitting needs two
 * phases and seven products. It pays if the workers, or the one with the largest unit, would take longer. */
static bool units_are_too_few(const tess_attention *a, int64_t n_workers, int n_threads)
{
    double all = 0, largest = 0;
    for (int64_t i = 0; i < a->n_seqs; i++) {
        const double n = (double)a->seqs[i].q_len, w = a->window > 0 && (double)a->window < n ? (double)a->window : n;
        const double cost = w * (n - w / 2);
        all += cost * (double)a->n_kv_heads;
        largest = cost > largest ? cost : largest;
    }
    const double longest = all / (double)n_workers > largest ? all / (double)n_workers : largest;
    return n_threads > 1 && longest > 1.4 * all / n_threads;
}

/* Returns how many units at a time have work space if `tokens` are in full rows (tess_attention.row_keys). This agrees
 * with units_are_too_few. */
static int64_t units_of_rows(const tess_attention *a, int64_t tokens, int n_threads)
{
    const int64_t n_units = max64(tokens / a->row_keys, 1) * a->n_kv_heads;
    return n_threads > 1.4 * (double)n_units ? 1 : n_threads;
}

static void run_sinks(tess_stream *stream, const tess_attention_grad *g, const attention_backward_steps *steps,
                      float *delta)
{
    attention_sinks_job sinks = {g, delta, g->in_part ? g->head_begin : 0,
                                 g->in_part ? g->head_end : g->forward.n_heads};
    tess_threads_run(stream->threads, steps->sinks, &sinks, divide_up(sinks.head_end - sinks.head, ATTENTION_SINKS), 1);
}

tess_status tess_attention_run_backward(tess_stream *stream, const tess_attention_grad *g,
                                        const attention_backward_steps *steps)
{
    const tess_attention *a = &g->forward;
    const int n_threads = tess_threads_count(stream->threads);
    int64_t longest = 0, tokens = 0;
    if (g->wanted == TESS_ATTENTION_SINKS) {
        run_sinks(stream, g, steps, g->delta);
        return TESS_OK;
    }
    for (int64_t i = 0; i < a->n_seqs; i++) {
        longest = max64(longest, max64(a->seqs[i].q_len, tess_attention_key_end(a, &a->seqs[i]) - a->seqs[i].k_begin));
        tokens = max64(tokens, a->seqs[i].q_begin + a->seqs[i].q_len);
    }
    const bool limited = a->most_keys > 0 || a->row_keys > 0;
    const size_t own = steps->unit_bytes(a, longest);
    const size_t room = a->row_keys > 0 ? steps->unit_bytes(a, max64(longest, a->row_keys)) *
                                              (size_t)units_of_rows(a, tokens, n_threads)
                                        : steps->unit_bytes(a, max64(longest, a->most_keys));
    const int64_t n_workers = limited && own > 0 ? min64(n_threads, (int64_t)(room / own)) : n_threads;
    const bool together = g->in_part || a->state != NULL || units_are_too_few(a, n_workers, n_threads);
    backward_run run = {.g = g, .steps = steps, .unit_bytes = own};
    const size_t units_bytes = limited ? room : together ? own : own * (size_t)n_threads;
    const size_t workers_bytes = steps->worker_bytes * (size_t)n_threads;
    const size_t delta_bytes = g->dsinks != NULL ? sizeof(float) * (size_t)(tokens * a->n_heads) : 0;
    void *scratch;
    TESS_TRY(tess_stream_scratch(stream, units_bytes + workers_bytes + delta_bytes, &scratch));
    run.unit_memory = scratch;
    run.worker_memory = run.unit_memory + units_bytes;
    if (g->wanted == TESS_ATTENTION_QUERIES)
        run.delta = g->delta;
    else if (g->dsinks != NULL)
        run.delta = (float *)(run.worker_memory + workers_bytes);
    const int64_t n_units = a->n_seqs * a->n_kv_heads;
    if (!together)
        run_phase(stream, &run, PHASE_UNITS, 0, n_units, n_workers);
    for (int64_t i = 0; together && i < n_units; i++) {
        run.unit = unit_of(&run, i, run.unit_memory);
        run_together(stream, &run);
    }
    if (g->dsinks != NULL)
        run_sinks(stream, g, steps, run.delta);
    return TESS_OK;
}
