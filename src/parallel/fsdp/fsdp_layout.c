/* Where the rows of a unit's parameters live: in the shard that this rank owns, in the gathered copy, in the gradient
 * window.
 *
 * Shards are packed without gaps, so that the shards of all ranks hold exactly the elements of the model. In gathered
 * copies and windows each parameter begins on a cache line, for the kernels that read it. */
#include "parallel/fsdp/fsdp_impl.h"

#include <string.h>

enum { LINE_ELEMENTS = 64 / 2 }; /* of the narrowest dtype */

static size_t align_up(size_t n)
{
    return (n + LINE_ELEMENTS - 1) / LINE_ELEMENTS * LINE_ELEMENTS;
}

/* Sizes within a factor of two share memory: few slots, and none more than twice too large. */
static int size_class_of(size_t bytes)
{
    return bytes > 0 ? 63 - __builtin_clzll(bytes) : 0;
}

static void place_param(const tess_fsdp *fsdp, tess_unit *unit, tess_fsdp_param *p)
{
    tess_shard_rows(p->rows, fsdp->n_shards, fsdp->shard, &p->own_begin, &p->own_rows);
    p->held_begin = fsdp->replicated ? 0 : p->own_begin;
    p->held_rows = fsdp->replicated ? p->rows : p->own_rows;
    tess_shard_rows(p->own_rows, fsdp->n_replicas, fsdp->replica, &p->primary_begin, &p->primary_rows);
    p->primary_begin += p->own_begin;

    p->full_offset = unit->full_elements;
    unit->full_elements += align_up((size_t)(p->rows * p->row));
    p->master_offset = unit->master_elements;
    unit->master_elements += (size_t)(p->held_rows * p->row);
    if (!p->trainable)
        return;
    p->window_offset = unit->window_elements;
    unit->window_elements += align_up((size_t)(p->rows * p->row));
    p->accumulator_offset = unit->accumulator_elements;
    unit->accumulator_elements += (size_t)(p->own_rows * p->row);
    p->gradient_offset = unit->gradient_elements;
    unit->gradient_elements += (size_t)(p->held_rows * p->row);
}

tess_status tess_fsdp_layout(tess_unit *unit)
{
    tess_fsdp *fsdp = unit->fsdp;
    for (int i = 0; i < unit->n_params; i++)
        place_param(fsdp, unit, &unit->params[i]);

    TESS_TRY(tess_mem_alloc_array(fsdp->mem, TESS_POOL_MISC, (size_t)unit->n_params, sizeof(tess_piece),
                                  "gather pieces", (void **)&unit->gather_pieces));
    TESS_TRY(tess_mem_alloc_array(fsdp->mem, TESS_POOL_MISC, (size_t)unit->n_trainable, sizeof(tess_piece),
                                  "reduce pieces", (void **)&unit->reduce_pieces));
    TESS_TRY(tess_mem_alloc_array(fsdp->mem, TESS_POOL_MISC, (size_t)unit->n_trainable, sizeof(tess_piece),
                                  "gradient pieces", (void **)&unit->gradient_pieces));
    for (int i = 0, k = 0; i < unit->n_params; i++) {
        const tess_fsdp_param *p = &unit->params[i];
        size_t rows = (size_t)p->rows, row = (size_t)p->row;
        size_t before_own = (size_t)(p->own_begin - p->held_begin) * row;
        unit->gather_pieces[i] = (tess_piece){
            .offset = p->full_offset, .n_rows = rows, .row = row, .shard_offset = p->master_offset + before_own};
        if (!p->trainable)
            continue;
        unit->reduce_pieces[k] =
            (tess_piece){.offset = p->window_offset, .n_rows = rows, .row = row, .shard_offset = p->accumulator_offset};
        unit->gradient_pieces[k] = (tess_piece){
            .offset = p->gradient_offset, .n_rows = rows, .row = row, .shard_offset = p->accumulator_offset};
        k++;
    }
    unit->full_class = size_class_of(unit->full_elements * tess_dtype_size(fsdp->policy.param_dtype));
    unit->window_class = size_class_of(unit->window_elements * sizeof(float));
    return TESS_OK;
}
