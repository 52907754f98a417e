/* Enqueues the kernels of an operation when all ranks show their windows. Sums have the same order and bits as on
 * host memory. */
#include "comm/ondevice/ondevice.h"
#include "base/mem/scoped.h"

tess_status ondevice_take_runs(const tess_work *work, size_t n, size_t size, void **runs)
{
    struct comm_device_team *t = ondevice_of(work);
    TESS_TRY(tess_mem_grow(work->team->runtime->mem, TESS_POOL_MISC, n * size + 1, "runs of a collective", &t->runs));
    *runs = t->runs;
    return TESS_OK;
}

/* ---- Gathers ---- */
static tess_status gather(tess_work *work)
{
    int W = work->team->size;
    size_t bytes = work->n * tess_dtype_size(work->dtype);
    int64_t n = 0;
    tess_value_run *runs;
    TESS_TRY(ondevice_take_runs(work, (size_t)W, sizeof(*runs), (void **)&runs));
    for (int r = 0; r < W; r++) {
        const uint8_t *from = ondevice_peer(work, r);
        if (from != work->out + (size_t)r * bytes)
            runs[n++] = (tess_value_run){from, work->out + (size_t)r * bytes, (int64_t)work->n};
    }
    return ondevice_kernels(work)->convert_runs(
        ondevice_of(work)->stream,
        &(tess_convert_runs_args){.runs = runs, .n_runs = n, .from = work->dtype, .to = work->dtype});
}

/* Returns the rows of a piece that a rank owns: the first element in the full buffer, and their number. */
static size_t own_rows(const tess_piece *piece, int size, int rank, size_t *count)
{
    int64_t begin, n;
    tess_shard_rows((int64_t)piece->n_rows, size, rank, &begin, &n);
    *count = (size_t)n * piece->row;
    return piece->offset + (size_t)begin * piece->row;
}

/* Returns the offset of a piece in a rank's shard, which the rank publishes next to its post. */
static uint64_t shard_offset(const tess_work *work, int rank, size_t piece)
{
    const tess_team *team = work->team;
    if (rank == team->rank)
        return work->pieces.pieces[piece].shard_offset;
    const uint8_t *beside = tess_control_inline(team->control, team->size, work->fp.sequence, rank);
    return ((const uint64_t *)(const void *)beside)[piece];
}

/* Each rank begins with its own data, so that ranks do not all read one window at the same time. */
static tess_status gather_pieces(tess_work *work)
{
    int W = work->team->size;
    size_t in_size = tess_dtype_size(work->in_dtype), size = tess_dtype_size(work->dtype), count;
    int64_t n = 0;
    tess_value_run *runs;
    TESS_TRY(ondevice_take_runs(work, (size_t)W * work->pieces.n, sizeof(*runs), (void **)&runs));
    for (int i = 0; i < W; i++) {
        int r = (work->team->rank + i) % W;
        const uint8_t *shard = ondevice_peer(work, r);
        for (size_t k = 0; k < work->pieces.n; k++) {
            size_t full = own_rows(&work->pieces.pieces[k], W, r, &count);
            if (count > 0)
                runs[n++] = (tess_value_run){shard + shard_offset(work, r, k) * in_size, work->out + full * size,
                                             (int64_t)count};
        }
    }
    return ondevice_kernels(work)->convert_runs(
        ondevice_of(work)->stream,
        &(tess_convert_runs_args){.runs = runs, .n_runs = n, .from = work->in_dtype, .to = work->dtype});
}

/* ---- Sums ---- */
/* Lists the runs of this rank's rows: from the full buffer to the shard, or inside the shard. Returns their number. */
static int64_t sum_runs(const tess_work *work, bool from_full, tess_reduce_run *runs)
{
    int64_t n = 0;
    for (size_t k = 0; k < work->pieces.n; k++) {
        const tess_piece *piece = &work->pieces.pieces[k];
        size_t count, full = own_rows(piece, work->team->size, work->team->rank, &count);
        int64_t shard = (int64_t)piece->shard_offset;
        if (count > 0)
            runs[n++] = (tess_reduce_run){from_full ? (int64_t)full : shard, shard, (int64_t)count};
    }
    return n;
}

static tess_status run_step(tess_work *work, const tess_leaf_step *step, const void *const *rows, tess_reduce_run *runs)
{
    bool leaves = step->n > 0;
    const void *x = step->x;
    void *y = step->y;
    const tess_reduction sum = {.x = leaves ? rows + step->begin : &x,
                                .n_inputs = leaves ? step->n : 1,
                                .dtype = leaves ? work->in_dtype : TESS_F32,
                                .divisor = 1,
                                .y = &y,
                                .n_outputs = 1,
                                .y_dtype = TESS_F32,
                                .accumulate = step->accumulate,
                                .finite = leaves ? ondevice_of(work)->finite : NULL};
    int64_t n = sum_runs(work, leaves, runs);
    return ondevice_kernels(work)->reduce_runs(ondevice_of(work)->stream,
                                               &(tess_reduce_runs_args){.of = sum, .runs = runs, .n_runs = n});
}

static tess_status reduce_pieces(tess_work *work)
{
    struct comm_device_team *t = ondevice_of(work);
    int W = work->team->size, n_steps;
    const void **rows = work->team->lists.rows;
    tess_reduce_run *runs;
    tess_leaf_step sum;
    const tess_leaf_step *steps = tess_work_steps(work, W, &sum, &n_steps);
    TESS_TRY(ondevice_take_runs(work, work->pieces.n, sizeof(*runs), (void **)&runs));
    for (int r = 0; r < W; r++)
        rows[r] = ondevice_peer(work, r);
    TESS_TRY(tess_stream_fill(t->stream, t->finite, true, sizeof(bool)));
    for (int i = 0; i < n_steps; i++)
        TESS_TRY(run_step(work, &steps[i], rows, runs));
    return tess_stream_copy(t->stream, t->finite_seen, t->finite, sizeof(bool));
}

/* An in-place all_reduce is safe, because only rank r reads and writes part r of any buffer. */
static tess_status all_reduce(tess_work *work)
{
    size_t W = (size_t)work->team->size, size = tess_dtype_size(work->dtype), part = (work->n + W - 1) / W;
    size_t begin = (size_t)work->team->rank * part;
    const void **x = work->team->lists.rows;
    void **y = work->team->lists.results;
    if (begin >= work->n)
        return TESS_OK;
    for (int r = 0; r < (int)W; r++) {
        x[r] = ondevice_peer(work, r) + begin * size;
        y[r] = (void *)(uintptr_t)x[r];
    }
    const tess_reduction sum = {.x = x,
                                .n_inputs = (int)W,
                                .dtype = work->dtype,
                                .op = work->op,
                                .divisor = work->op == TESS_AVG ? (int)W : 1,
                                .y = y,
                                .n_outputs = (int)W,
                                .y_dtype = work->dtype,
                                .n = (int64_t)(work->n - begin < part ? work->n - begin : part)};
    return ondevice_kernels(work)->reduce(ondevice_of(work)->stream, &sum);
}

tess_status ondevice_enqueue(tess_work *work)
{
    switch (work->fp.kind) {
    case TESS_TRACE_ALL_GATHER:
        return gather(work);
    case TESS_TRACE_ALL_GATHER_PIECES:
        return gather_pieces(work);
    case TESS_TRACE_REDUCE_SCATTER_PIECES:
        return reduce_pieces(work);
    default:
        return all_reduce(work);
    }
}

/* ---- Sums that are not finite ---- */
/* Copies the addends of the pieces to the host. Their ranks still show them. */
static tess_status look_at_piece(tess_work *work, size_t piece, uint8_t *room)
{
    int W = work->team->size;
    size_t count, size = tess_dtype_size(work->in_dtype);
    size_t full = own_rows(&work->pieces.pieces[piece], W, work->team->rank, &count);
    const void **rows = work->team->lists.rows;
    for (int r = 0; r < W; r++) {
        rows[r] = room + (size_t)r * count * size;
        TESS_TRY(tess_fetch(ondevice_of(work)->stream, room + (size_t)r * count * size,
                            ondevice_peer(work, r) + full * size, count * size));
    }
    const tess_byte_run run = {.full = full, .count = count};
    tess_bad_addend_look(work, rows, &run, piece);
    return TESS_OK;
}

tess_status ondevice_look(tess_work *work)
{
    bool sums = work->fp.kind == TESS_TRACE_REDUCE_SCATTER_PIECES && work->team->size > 1;
    if (!sums || *ondevice_of(work)->finite_seen)
        return TESS_OK;
    tess_mem *mem = work->team->runtime->mem;
    size_t most = 0, count;
    TESS_AUTO(tess_mem_drop) uint8_t *room = NULL;
    for (size_t k = 0; k < work->pieces.n; k++) {
        own_rows(&work->pieces.pieces[k], work->team->size, work->team->rank, &count);
        most = count > most ? count : most;
    }
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, most * (size_t)work->team->size, tess_dtype_size(work->in_dtype),
                                  "addends that are not finite", (void **)&room));
    for (size_t k = 0; k < work->pieces.n && work->team->bad.pieces == NULL; k++)
        TESS_TRY(look_at_piece(work, k, room));
    return TESS_OK;
}
