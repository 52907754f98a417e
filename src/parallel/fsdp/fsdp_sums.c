/* Partial sums of gradients: what the counter of fsdp_reduce.c holds. Each unit keeps the largest number of sums
 * that were ever in use at the same time. A step of fewer micro-batches leaves some of them unused, so that steps of
 * changing size allocate nothing. */
#include "base/mem/make_room.h"
#include "parallel/fsdp/fsdp_impl.h"

/* Returns the team of ranks that read a sum in place: the replicas, or all ranks that get the whole gradient. NULL:
 * no other rank reads it. */
static tess_team *reader_of_sums(const tess_fsdp_family *family)
{
    if (family->fsdp->place.device != NULL &&
        tess_fsdp_is_on_disk(family->fsdp, TESS_POOL_GRADS)) /* they go through the host */
        return NULL;
    return family->teams.n_replicas > 1 ? family->teams.replicate_team
           : family->facts.replicated   ? family->teams.shard_team
                                        : NULL;
}

static tess_status add_accumulator(tess_unit *unit, int k)
{
    bool found;
    tess_team *reader = reader_of_sums(unit->family);
    float **sum = &unit->sums.memory[k];
    TESS_TRY(tess_fsdp_persist_alloc(unit, TESS_POOL_GRADS, "sum", k, unit->sums.elements, sum, &found));
    tess_status status =
        reader != NULL ? tess_fsdp_show(unit->family, reader, *sum, unit->sums.elements, "sum of gradients") : TESS_OK;
    if (status != TESS_OK)
        tess_fsdp_persist_free(unit, *sum);
    return status;
}

void tess_fsdp_sums_free(tess_unit *unit)
{
    tess_mem *mem = unit->fsdp->place.mem;
    tess_team *reader = reader_of_sums(unit->family);
    for (int k = 0; k < unit->sums.counter.n_memory; k++) {
        if (reader != NULL)
            tess_fsdp_hide(unit->family, reader, unit->sums.memory[k]);
        tess_fsdp_persist_free(unit, unit->sums.memory[k]);
    }
    tess_mem_free(mem, unit->sums.memory);
}

/* Allocates accumulators until the unit has `n`. After a failure it keeps those that it got. */
static tess_status grow(tess_unit *unit, int n)
{
    TESS_TRY(tess_mem_reserve(unit->fsdp->place.mem, TESS_POOL_MISC, (size_t)n, sizeof(float *), "accumulators",
                              &unit->sums.room, &unit->sums.memory));
    unit->sums.counter.memory = unit->sums.memory;
    for (; unit->sums.counter.n_memory < n; unit->sums.counter.n_memory++)
        TESS_TRY(add_accumulator(unit, unit->sums.counter.n_memory));
    return TESS_OK;
}

int tess_fsdp_sums_needed(const tess_fsdp_teams *teams, int leaf, int64_t n_leaves)
{
    const int portion = teams->n_shards * teams->n_replicas * teams->parts / leaf;
    return tess_leaf_memory((n_leaves + leaf - 1) / leaf, portion, teams->n_replicas > 1 && portion == 1);
}

tess_status tess_fsdp_sums_grow(tess_fsdp *fsdp, int64_t n_leaves)
{
    for (int u = 0; u < fsdp->n_units; u++)
        if (fsdp->units[u]->n_trainable > 0)
            TESS_TRY(grow(fsdp->units[u], tess_fsdp_sums_needed(&fsdp->units[u]->family->teams,
                                                                fsdp->units[u]->family->facts.leaf, n_leaves)));
    return TESS_OK;
}

void tess_fsdp_sums_push(tess_fsdp_sums *sums, int n)
{
    tess_leaf_push(&sums->counter, n, sums->steps, &sums->n_steps);
    sums->n_sent = sums->n_steps;
    while (sums->steps[sums->n_sent - 1].n == 0)
        sums->n_sent--;
}

void tess_fsdp_sums_place(tess_fsdp_sums *sums, float *leaf)
{
    tess_leaf_place(&sums->counter, leaf, sums->steps, &sums->n_steps);
}

tess_status tess_fsdp_sums_add(tess_fsdp_sums *sums, tess_stream *stream)
{
    for (int i = sums->n_sent; i < sums->n_steps; i++) {
        const tess_leaf_step *step = &sums->steps[i];
        const tess_add_args sum = {
            .a = step->y, .b = step->x, .y = step->y, .n = (int64_t)sums->elements, .dtype = TESS_F32};
        TESS_TRY(tess_stream_kernels(stream)->add(stream, &sum));
    }
    sums->n_steps = sums->n_sent = 0;
    return TESS_OK;
}
