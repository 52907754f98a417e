/* Enqueues the kernels of an operation over several hosts on device memory. They pack, add and distribute the data
 * of each round. */
#include "comm/hosts/linked.h"

#include "base/mem/make_room.h"
#include "comm/reduce.h"

/* ---- Places in the buffer ---- */
static size_t most_slots(const tess_work *work)
{
    const comm_hosts *h = hosts_of(work->team);
    const hosts_way *way = &h->ways[HOSTS_STRIPED];
    const hosts_subtrees *of = linked_of(work)->subtrees;
    size_t sums = (size_t)way->most_sources * (size_t)of->most + (size_t)of->n;
    return (hosts_linked_sums(work) ? sums : 0) + (hosts_linked_gathers(work) ? 1 + (size_t)way->most_sources : 0);
}

/* Size of a slot's element: float32, or the gathered type if that is wider. */
static size_t slot_element(const tess_work *work)
{
    size_t size = tess_dtype_size(work->dtype);
    return size > sizeof(float) ? size : sizeof(float);
}

static size_t slot_bytes(const tess_work *work)
{
    return linked_of(work)->per_round * slot_element(work);
}

/* Returns a block in the buffer of a sibling. Slot 0 holds the sibling's own block; the blocks of the ranks that it
 * handles follow. */
static const uint8_t *gathered(const tess_work *work, int rank)
{
    const comm_hosts *h = hosts_of(work->team);
    const hosts_seat *seat = &h->ways[HOSTS_STRIPED].seats[rank];
    int holder = hosts_local_rank(h, seat->holder);
    const uint8_t *buffer = holder == work->team->rank ? h->linked->buffer : h->linked->window->peers[holder];
    return buffer + (size_t)seat->slot * slot_bytes(work);
}

/* After the gathered blocks, the buffer holds the partial sums to send, for each rank that this rank handles. Then
 * come the partial sums for its own block, by subtree. */
static uint8_t *partial_sent(const tess_work *work, int k, int n)
{
    const comm_hosts *h = hosts_of(work->team);
    size_t gathers = hosts_linked_gathers(work) ? 1 + (size_t)h->ways[HOSTS_STRIPED].most_sources : 0;
    return h->linked->buffer +
           (gathers + (size_t)k * (size_t)linked_of(work)->subtrees->most + (size_t)n) * slot_bytes(work);
}

static float *partial_got(const tess_work *work, int subtree)
{
    int most = hosts_of(work->team)->ways[HOSTS_STRIPED].most_sources;
    return (float *)(void *)(partial_sent(work, most, 0) + (size_t)subtree * slot_bytes(work));
}

void hosts_linked_plan(const tess_work *work)
{
    const comm_hosts *h = hosts_of(work->team);
    hosts_linked_work *l = linked_of(work);
    if (hosts_linked_is_straight(work))
        return;                             /* it has no rounds */
    size_t block = hosts_block_of(work, 0); /* no rank's block is longer */
    l->subtrees = hosts_subtrees_of(work);
    size_t longest = h->linked->bytes / slot_element(work) / most_slots(work) / 64 * 64, all = (block + 63) / 64 * 64;
    l->per_round = all < longest ? all : longest;
    l->n = (block + l->per_round - 1) / l->per_round;
}

/* Returns the elements of a rank's block that are in the round. */
static size_t span(const tess_work *work, uint64_t round, int rank, size_t *first)
{
    size_t block = hosts_block_of(work, rank), per_round = linked_of(work)->per_round;
    *first = (size_t)round * per_round;
    size_t left = block > *first ? block - *first : 0;
    return left < per_round ? left : per_round;
}

/* ---- Runs and messages ---- */
static size_t n_runs_at_most(const tess_work *work)
{
    return work->pieces.n + 1;
}

static tess_status add_message(tess_work *work, const void *data, size_t bytes, int peer, bool sends)
{
    hosts_linked *l = hosts_of(work->team)->linked;
    size_t room = (size_t)l->room;
    TESS_TRY(tess_mem_make_room(work->team->runtime->mem, TESS_POOL_MISC, (size_t)l->n_messages, sizeof(l->messages[0]),
                                "messages", &room, &l->messages));
    l->room = (int)room;
    l->messages[l->n_messages++] = (tess_nccl_message){(void *)(uintptr_t)data, bytes, peer, sends};
    return TESS_OK;
}

static tess_status send_messages(tess_work *work)
{
    hosts_linked *l = hosts_of(work->team)->linked;
    int n = l->n_messages;
    l->n_messages = 0;
    return tess_nccl_begin(l->link, ondevice_of(work)->stream, l->messages, n);
}

/* ---- Sums ---- */
/* Adds a block's elements in the round over the subtree's ranks, all on this host; writes y or `packed`. */
static tess_status add_subtree(tess_work *work, uint64_t round, const hosts_subtree *subtree, int block, void *y)
{
    const void **rows = work->team->lists.rows;
    size_t first, count = span(work, round, block, &first);
    tess_byte_run_cursor cursor = {0};
    tess_byte_run run;
    tess_reduce_run *runs;
    int64_t n = 0;
    TESS_TRY(ondevice_take_runs(work, n_runs_at_most(work), sizeof(*runs), (void **)&runs));
    while (hosts_next_run(work, block, first, count, &cursor, &run))
        runs[n++] = (tess_reduce_run){(int64_t)run.full, (int64_t)(run.packed - first), (int64_t)run.count};
    for (int r = subtree->begin; r < subtree->end; r++)
        rows[r - subtree->begin] = ondevice_peer(work, r);
    const tess_reduction sum = {.x = rows,
                                .n_inputs = subtree->end - subtree->begin,
                                .dtype = work->in_dtype,
                                .divisor = 1,
                                .y = &y,
                                .n_outputs = 1,
                                .y_dtype = TESS_F32};
    return ondevice_kernels(work)->reduce_runs(ondevice_of(work)->stream,
                                               &(tess_reduce_runs_args){.of = sum, .runs = runs, .n_runs = n});
}

/* Computes this host's partial sums for the blocks of the ranks that this rank handles, and for its own block. */
static tess_status add_partials(tess_work *work, uint64_t round)
{
    const comm_hosts *h = hosts_of(work->team);
    const hosts_way *way = &h->ways[HOSTS_STRIPED];
    const hosts_subtrees *of = linked_of(work)->subtrees;
    size_t first;
    for (int k = 0; k < way->n_sources; k++) {
        size_t count = span(work, round, way->sources[k], &first);
        for (int s = 0, n = 0; s < of->n && count > 0; s++) {
            if (of->at[s].host != h->mine)
                continue;
            uint8_t *y = partial_sent(work, k, n++);
            TESS_TRY(add_subtree(work, round, &of->at[s], way->sources[k], y));
            TESS_TRY(add_message(work, y, count * sizeof(float), way->sources[k], true));
        }
    }
    size_t count = span(work, round, work->team->rank, &first);
    for (int s = 0; s < of->n && count > 0; s++) {
        float *y = partial_got(work, s);
        if (of->at[s].host == h->mine)
            TESS_TRY(add_subtree(work, round, &of->at[s], work->team->rank, y));
        else
            TESS_TRY(add_message(work, y, count * sizeof(float),
                                 hosts_handler(h, way, of->at[s].host, work->team->rank), false));
    }
    return TESS_OK;
}

/* Adds the partial sums of ranks [begin, end), whose subtrees begin at number *s. The result replaces the first of
 * them. */
static tess_status add_tree(tess_work *work, int begin, int end, size_t count, int *s, float **sum)
{
    if (linked_of(work)->subtrees->at[*s].end == end) {
        *sum = partial_got(work, (*s)++);
        return TESS_OK;
    }
    int middle = begin + tess_reduce_half(end - begin);
    float *left = NULL, *right = NULL;
    TESS_TRY(add_tree(work, begin, middle, count, s, &left));
    TESS_TRY(add_tree(work, middle, end, count, s, &right));
    *sum = left;
    return ondevice_kernels(work)->add(
        ondevice_of(work)->stream,
        &(tess_add_args){.a = left, .b = right, .y = left, .n = (int64_t)count, .dtype = TESS_F32});
}

/* Lists the runs of this rank's elements in the round, either packed or in the shard. Returns their number. */
static int64_t shard_runs(const tess_work *work, uint64_t round, bool packed, tess_reduce_run *runs)
{
    size_t first, count = span(work, round, work->team->rank, &first);
    tess_byte_run_cursor cursor = {0};
    tess_byte_run run;
    int64_t n = 0;
    while (hosts_next_run(work, work->team->rank, first, count, &cursor, &run))
        runs[n++] = (tess_reduce_run){(int64_t)(packed ? run.packed - first : run.shard), (int64_t)run.shard,
                                      (int64_t)run.count};
    return n;
}

/* Executes one step of a sum of pieces: y (+)= x. */
static tess_status add_step(tess_work *work, uint64_t round, const tess_leaf_step *step, const float *sum)
{
    const void *x = sum != NULL ? sum : step->x;
    void *y = step->y;
    tess_reduce_run *runs;
    const tess_reduction add = {.x = &x,
                                .n_inputs = 1,
                                .dtype = TESS_F32,
                                .divisor = 1,
                                .y = &y,
                                .n_outputs = 1,
                                .y_dtype = TESS_F32,
                                .accumulate = step->accumulate};
    TESS_TRY(ondevice_take_runs(work, n_runs_at_most(work), sizeof(*runs), (void **)&runs));
    int64_t n = shard_runs(work, round, sum != NULL, runs);
    return ondevice_kernels(work)->reduce_runs(ondevice_of(work)->stream,
                                               &(tess_reduce_runs_args){.of = add, .runs = runs, .n_runs = n});
}

static tess_status finish_pieces(tess_work *work, uint64_t round)
{
    int n_steps, s = 0;
    tess_leaf_step plain;
    const tess_leaf_step *steps = tess_work_steps(work, work->team->size, &plain, &n_steps);
    size_t first, count = span(work, round, work->team->rank, &first);
    for (int i = 0; i < n_steps && count > 0; i++) {
        float *sum = NULL;
        if (steps[i].n > 0)
            TESS_TRY(add_tree(work, steps[i].begin, steps[i].begin + steps[i].n, count, &s, &sum));
        TESS_TRY(add_step(work, round, &steps[i], sum));
    }
    return TESS_OK;
}

/* Writes this rank's part of an all_reduce result to the place that the gather reads. */
static tess_status finish_part(tess_work *work, uint64_t round)
{
    int s = 0;
    float *sum = NULL;
    size_t first, count = span(work, round, work->team->rank, &first);
    if (count == 0)
        return TESS_OK;
    TESS_TRY(add_tree(work, 0, work->team->size, count, &s, &sum));
    const void *x = sum;
    void *y = hosts_of(work->team)->linked->buffer;
    const tess_reduction divide = {.x = &x,
                                   .n_inputs = 1,
                                   .dtype = TESS_F32,
                                   .op = work->op,
                                   .divisor = work->op == TESS_AVG ? work->team->size : 1,
                                   .y = &y,
                                   .n_outputs = 1,
                                   .y_dtype = TESS_F32,
                                   .n = (int64_t)count};
    return ondevice_kernels(work)->reduce(ondevice_of(work)->stream, &divide);
}

/* ---- Gathers ---- */
static tess_status pack(tess_work *work, uint64_t round)
{
    size_t first, count = span(work, round, work->team->rank, &first), in_size = tess_dtype_size(work->in_dtype);
    tess_byte_run_cursor cursor = {0};
    tess_byte_run run;
    tess_value_run *runs;
    int64_t n = 0;
    uint8_t *to = hosts_of(work->team)->linked->buffer;
    TESS_TRY(ondevice_take_runs(work, n_runs_at_most(work), sizeof(*runs), (void **)&runs));
    while (hosts_next_run(work, work->team->rank, first, count, &cursor, &run))
        runs[n++] = (tess_value_run){work->in + run.shard * in_size,
                                     to + (run.packed - first) * tess_dtype_size(work->dtype), (int64_t)run.count};
    return ondevice_kernels(work)->convert_runs(
        ondevice_of(work)->stream,
        &(tess_convert_runs_args){.runs = runs, .n_runs = n, .from = work->in_dtype, .to = work->dtype});
}

static tess_status add_blocks(tess_work *work, uint64_t round)
{
    const comm_hosts *h = hosts_of(work->team);
    const hosts_way *way = &h->ways[HOSTS_STRIPED];
    size_t first, size = tess_dtype_size(work->dtype);
    size_t count = span(work, round, work->team->rank, &first);
    for (int host = 0; host < h->n_hosts; host++)
        if (host != h->mine)
            TESS_TRY(add_message(work, h->linked->buffer, count * size, hosts_handler(h, way, host, work->team->rank),
                                 true));
    for (int k = 0; k < way->n_sources; k++)
        TESS_TRY(add_message(work, gathered(work, way->sources[k]), span(work, round, way->sources[k], &first) * size,
                             way->sources[k], false));
    return TESS_OK;
}

/* ---- Blocks from rank to rank ---- */
static tess_status exchange_blocks(tess_work *work)
{
    const comm_counts *c = &work->counts;
    const size_t size = tess_dtype_size(work->dtype);
    const int me = work->team->rank;
    TESS_TRY(tess_stream_copy(ondevice_of(work)->stream, work->out + c->out_offsets[me] * size,
                              work->in + c->in_offsets[me] * size, c->in_counts[me] * size));
    for (int r = 0; r < work->team->size; r++) {
        if (r == me)
            continue;
        TESS_TRY(add_message(work, work->in + c->in_offsets[r] * size, c->in_counts[r] * size, r, true));
        TESS_TRY(add_message(work, work->out + c->out_offsets[r] * size, c->out_counts[r] * size, r, false));
    }
    return send_messages(work);
}

tess_status hosts_linked_begin(tess_work *work, uint64_t round, bool second)
{
    if (hosts_linked_is_straight(work))
        return exchange_blocks(work);
    if (hosts_linked_sums(work) && !second) {
        TESS_TRY(add_partials(work, round));
        return send_messages(work);
    }
    if (!second)
        TESS_TRY(pack(work, round));
    TESS_TRY(add_blocks(work, round));
    return send_messages(work);
}

tess_status hosts_linked_finish(tess_work *work, uint64_t round)
{
    return hosts_linked_gathers(work) ? finish_part(work, round) : finish_pieces(work, round);
}

tess_status hosts_linked_take(tess_work *work, uint64_t round)
{
    size_t size = tess_dtype_size(work->dtype);
    tess_value_run *runs;
    int64_t n = 0;
    int W = work->team->size;
    TESS_TRY(ondevice_take_runs(work, (size_t)W * n_runs_at_most(work), sizeof(*runs), (void **)&runs));
    for (int r = 0; r < W; r++) {
        size_t first, count = span(work, round, r, &first);
        const uint8_t *from = gathered(work, r);
        tess_byte_run_cursor cursor = {0};
        tess_byte_run run;
        while (hosts_next_run(work, r, first, count, &cursor, &run))
            runs[n++] =
                (tess_value_run){from + (run.packed - first) * size, work->out + run.full * size, (int64_t)run.count};
    }
    return ondevice_kernels(work)->convert_runs(
        ondevice_of(work)->stream,
        &(tess_convert_runs_args){.runs = runs, .n_runs = n, .from = work->dtype, .to = work->dtype});
}
