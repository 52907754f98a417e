/* A pass over the blocks of a span: each is copied into the journal, if there is one, then changed, then its weights
 * are written into the gathered copy. Blocks do not see each other. */
#include "base/os/threads.h"
#include "device/bf16.h"
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

static void put_copy(const tess_span *span, const block_range *range)
{
    for (int64_t i = range->begin; i < range->begin + range->n && span->copy != NULL; i++)
        if (i >= span->copy_begin && i < span->copy_begin + span->copy_n)
            tess_put_float(span->copy, span->copy_dtype, (size_t)(i - span->copy_begin), span->param[i]);
}

static void update_block(const optim_pass *pass, int64_t block)
{
    block_range range = range_of(pass->param, block);
    pass->update(pass, range.begin, range.n);
    if (pass->changes_weights)
        put_copy(pass->span, &range);
}

static void update_blocks(void *context, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    for (int64_t block = begin; block < end; block++)
        update_block(context, block);
}

/* ---- With a journal ---- */
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

typedef struct lanes {
    const optim_pass *pass;
    int64_t n_blocks, per_lane;
} lanes;

static void update_lane(const lanes *l, int lane)
{
    const optim_pass *pass = l->pass;
    optim_block_journal *journal = pass->u->optimizer->block_journal;
    int64_t from = lane * l->per_lane, to = from + l->per_lane < l->n_blocks ? from + l->per_lane : l->n_blocks;
    int64_t at = optim_block_journal_at(journal, lane) - pass->first;
    if (at >= from && at < to) {
        optim_block_bytes block = bytes_of(pass, at);
        optim_block_journal_restore(journal, lane, &block);
        from = at;
    } else if (at >= to) {
        from = to;
    }
    for (int64_t block = from; block < to; block++) {
        optim_block_bytes bytes = bytes_of(pass, block);
        optim_block_journal_record(journal, lane, pass->first + block, &bytes);
        update_block(pass, block);
    }
}

static void update_lanes(void *context, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    for (int64_t lane = begin; lane < end; lane++)
        update_lane(context, (int)lane);
}

/* The lanes are those of the interrupted update, whichever process resumes it. */
static void run_with_journal(const optim_pass *pass, int64_t n_blocks)
{
    tess_threads *threads = tess_stream_threads(pass->u->optimizer->stream);
    int n_lanes = pass->u->n_block_lanes;
    lanes l = {pass, n_blocks, (n_blocks + n_lanes - 1) / n_lanes};
    optim_notify(pass->u, "shard");
    tess_threads_run(threads, update_lanes, &l, (n_blocks + l.per_lane - 1) / l.per_lane, 1);
    optim_notify(pass->u, "shard-done");
    pass->u->number++;
}

int64_t optim_blocks_count(const optim_param *p)
{
    return p->n == 0 ? 0 : p->n / p->run * ((p->run + OPTIM_BLOCK - 1) / OPTIM_BLOCK);
}

tess_status optim_blocks_run(const optim_pass *pass)
{
    int64_t n_blocks = optim_blocks_count(pass->param);
    TESS_CHECK(pass->span->grad != NULL, TESS_E_INVALID,
               "optimizer: '%s' has no gradient; end the step's sums first (tess_fsdp_step_end)", pass->span->name);
    if (n_blocks == 0)
        return TESS_OK;
    if (pass->u->optimizer->block_journal != NULL)
        run_with_journal(pass, n_blocks);
    else
        tess_threads_run(tess_stream_threads(pass->u->optimizer->stream), update_blocks, (void *)pass, n_blocks,
                         tess_loop_grain(OPTIM_BLOCK));
    return TESS_OK;
}
