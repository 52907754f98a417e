/* Runs a pass over the blocks of a span. Each block is copied to the journal, if there is one, then changed, then
 * its weights are written to the gathered copy. Blocks do not depend on each other. */
#include <stdatomic.h>

#include "base/os/threads.h"
#include "device/elementwise.h"
#include "optim/optim_impl.h"

typedef struct block_range {
    int64_t begin;
    int n;
} block_range;

static block_range range_of(const optim_param *p, int64_t block)
{
    int64_t per_run = (p->run + OPTIM_BLOCK - 1) / OPTIM_BLOCK, in_run = block % per_run * OPTIM_BLOCK;
    int64_t left = p->run - in_run;
    return (block_range){block / per_run * p->run + in_run, left < OPTIM_BLOCK ? (int)left : OPTIM_BLOCK};
}

static tess_status put_copy(const optim_pass *pass, const block_range *range)
{
    const tess_span *span = pass->span;
    tess_stream *stream = pass->u->optimizer->stream;
    int64_t begin = range->begin, end = begin + range->n, copy_end = span->copy_begin + span->copy_n;
    begin = begin < span->copy_begin ? span->copy_begin : begin;
    end = end < copy_end ? end : copy_end;
    if (span->copy == NULL || begin >= end)
        return TESS_OK;
    void *to = (char *)span->copy + (size_t)(begin - span->copy_begin) * tess_dtype_size(span->copy_dtype);
    return tess_stream_kernels(stream)->convert(
        stream, &(tess_convert_args){
                    .x = span->param + begin, .from = TESS_F32, .y = to, .to = span->copy_dtype, .n = end - begin});
}

static tess_status update_block(const optim_pass *pass, int64_t block)
{
    block_range range = range_of(pass->param, block);
    TESS_TRY(pass->update(pass, range.begin, range.n));
    return pass->changes_weights ? put_copy(pass, &range) : TESS_OK;
}

/* A pass that several threads share. */
typedef struct shared_pass {
    const optim_pass *pass;
    int64_t n_blocks, per_lane; /* number of blocks: of the span, and of one lane of the journal */
    _Atomic int status;         /* the last status that was not TESS_OK */
} shared_pass;

static void keep_status(shared_pass *s, tess_status status)
{
    if (status != TESS_OK)
        atomic_store(&s->status, status);
}

static void update_blocks(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    shared_pass *s = context;
    for (int64_t block = begin; block < end; block++)
        keep_status(s, update_block(s->pass, block));
}

/* ---- Updates with a journal ---- */
static void add_array(optim_block_bytes *block, void *at, size_t bytes)
{
    block->array[block->n].at = at;
    block->array[block->n++].bytes = bytes;
}

static optim_block_bytes bytes_of(const optim_pass *pass, int64_t number)
{
    const optim_param *p = pass->param;
    char *state = pass->u->optimizer->state;
    block_range range = range_of(p, number);
    size_t width = optim_value_bytes(p->coding);
    optim_block_bytes block = {.n = 0};
    if (pass->changes_weights)
        add_array(&block, pass->span->param + range.begin, (size_t)range.n * sizeof(float));
    for (int k = 0; pass->changes_moments && k < p->n_moments; k++) {
        add_array(&block, state + p->values[k] + (size_t)range.begin * width, (size_t)range.n * width);
        if (p->coding == OPTIM_8BIT)
            add_array(&block, state + p->absmax[k] + (size_t)number * sizeof(float), sizeof(float));
    }
    return block;
}

static void update_lane(shared_pass *s, int lane)
{
    const optim_pass *pass = s->pass;
    const optim_journal *journal = pass->u->optimizer->journal;
    int64_t from = lane * s->per_lane, to = from + s->per_lane < s->n_blocks ? from + s->per_lane : s->n_blocks;
    int64_t at = optim_journal_block(journal, lane) - pass->first;
    if (at >= from && at < to) {
        optim_block_bytes block = bytes_of(pass, at);
        optim_journal_restore(journal, lane, &block);
        from = at;
    } else if (at >= to) {
        from = to;
    }
    for (int64_t block = from; block < to; block++) {
        optim_block_bytes bytes = bytes_of(pass, block);
        optim_journal_record(journal, lane, pass->first + block, &bytes);
        keep_status(s, update_block(pass, block));
    }
}

static void update_lanes(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    for (int64_t lane = begin; lane < end; lane++)
        update_lane(context, (int)lane);
}

/* Runs a pass with a journal. If an interrupted update is resumed, the lanes are those of that update, whatever the
 * number of threads. */
static void run_with_journal(shared_pass *s)
{
    const optim_update *u = s->pass->u;
    s->per_lane = (s->n_blocks + u->n_lanes - 1) / u->n_lanes;
    optim_notify(u, "shard");
    tess_threads_run(tess_stream_threads(u->optimizer->stream), update_lanes, s,
                     (s->n_blocks + s->per_lane - 1) / s->per_lane, 1);
    optim_notify(u, "shard-done");
    s->pass->u->number++;
}

int64_t optim_blocks_count(const optim_param *p)
{
    return p->n == 0 ? 0 : p->n / p->run * ((p->run + OPTIM_BLOCK - 1) / OPTIM_BLOCK);
}

tess_status optim_blocks_run(optim_pass *pass)
{
    const optim_param *p = pass->param;
    shared_pass s = {.pass = pass, .n_blocks = optim_blocks_count(p)};
    TESS_CHECK(pass->span->grad != NULL, TESS_E_INVALID,
               "optimizer: '%s' has no gradient; end the step's sums first (tess_fsdp_step_end)", pass->span->name);
    if (s.n_blocks == 0)
        return TESS_OK;
    for (int k = 0; p->coding == OPTIM_BF16 && k < p->n_moments; k++)
        pass->random[k] = optim_random_of(pass->u, pass->span, k);
    if (pass->u->optimizer->journal != NULL)
        run_with_journal(&s);
    else
        tess_threads_run(tess_stream_threads(pass->u->optimizer->stream), update_blocks, &s, s.n_blocks,
                         tess_loop_grain(OPTIM_BLOCK));
    return atomic_load(&s.status);
}
