/* The host's copy of the weights, in the compute dtype. */
#include <string.h>

#include "base/mem/dry_mem.h"
#include "comm/agree.h"
#include "comm/split.h"
#include "device/finite.h"
#include "rl/reference/reference_impl.h"
#include "tessera/comm.h"
#include "base/mem/scoped.h"

static int64_t count_of(const tess_reference *r, int i)
{
    return tess_shape_count(&tess_model_param(r->model, i)->shape);
}

tess_dtype reference_dtype(const tess_reference *r, int i)
{
    return tess_param_dtype(tess_model_param(r->model, i), r->dtype);
}

/* The first rank of each host is a leader. A tess_split_fn. */
static tess_split_place place_of(const void *team, int rank)
{
    bool leads = true;
    for (int i = 0; i < rank; i++)
        leads &= tess_team_host(team, i) != tess_team_host(team, rank);
    return (tess_split_place){leads ? 0 : -1, rank};
}

/* Finds this rank's number among the host's ranks, and creates a team with one rank of each host. */
static tess_status find_ranks(tess_reference *r)
{
    tess_team *team = r->engine->team;
    int me = tess_team_rank(team), host = tess_team_host(team, me);
    for (int i = 0; i < tess_team_size(team); i++) {
        bool here = tess_team_host(team, i) == host;
        r->copy.n_ranks += here;
        r->copy.rank += here && i < me;
    }
    return r->update_interval == 0 || tess_runtime_hosts(r->engine->runtime) == 1
               ? TESS_OK
               : tess_team_split_by(team, place_of, team, "reference", &r->copy.leaders);
}

/* ---- Places ---- */
static tess_status place(tess_reference *r)
{
    reference_copy *c = &r->copy;
    size_t n = (size_t)tess_model_n_params(r->model);
    TESS_TRY(TESS_PART(r, n, "reference", &c->w));
    TESS_TRY(TESS_PART(r, n, "reference", &c->offset));
    for (size_t i = 0; i < n; i++) {
        c->offset[i] = SIZE_MAX;
        if (r->update_interval == 0 && r->source.weights != NULL)
            TESS_TRY(tess_weights_map(r->source.weights, r->dtype, (int)i, &c->w[i]));
        if (c->w[i] != NULL)
            continue;
        c->offset[i] = c->bytes;
        c->bytes += ((size_t)count_of(r, (int)i) * tess_dtype_size(reference_dtype(r, (int)i)) + 63) & ~(size_t)63;
    }
    return TESS_OK;
}

static tess_status alloc_memory(tess_reference *r)
{
    static const char what[] = "reference model";
    tess_engine *e = r->engine;
    void *memory = NULL;
    if (r->copy.bytes == 0)
        return TESS_OK;
    TESS_TRY(e->at.world == 1 ? tess_mem_alloc(e->mem, TESS_POOL_PARAMS, r->copy.bytes, what, &memory)
                              : tess_shared_alloc(e->team, TESS_POOL_PARAMS, r->copy.bytes, what, &memory));
    r->copy.memory = memory;
    for (int i = 0; i < tess_model_n_params(r->model); i++)
        if (r->copy.offset[i] != SIZE_MAX)
            r->copy.w[i] = r->copy.memory + r->copy.offset[i];
    return TESS_OK;
}

char *reference_copy_at(const tess_reference *r, int i, int64_t first)
{
    return r->copy.memory + r->copy.offset[i] + (size_t)first * tess_dtype_size(reference_dtype(r, i));
}

/* ---- Content that never changes ---- */
/* Writes this rank's share of a parameter's rows, a block at a time. */
static tess_status fill_rows(tess_reference *r, int i, float *floats, int64_t room)
{
    const tess_param *param = tess_model_param(r->model, i);
    const tess_shape shape = tess_shape_atleast_1d(&param->shape);
    tess_stream *s = r->engine->stream;
    int64_t row = tess_shape_row_count(&shape), begin, count, most = room / row;
    tess_shard_rows(shape.dim[0], r->copy.n_ranks, r->copy.rank, &begin, &count);
    for (int64_t at = begin; at < begin + count; at += most) {
        tess_box box = tess_box_whole(&shape);
        box.begin[0] = at;
        box.size[0] = begin + count - at < most ? begin + count - at : most;
        TESS_TRY_CTX(r->source.fill(r->source.context, param->name, &shape, &box, floats), "parameter '%s'",
                     param->name);
        TESS_TRY(tess_stream_kernels(s)->convert(s, &(tess_convert_args){.x = floats,
                                                                         .from = TESS_F32,
                                                                         .y = reference_copy_at(r, i, at * row),
                                                                         .to = reference_dtype(r, i),
                                                                         .n = box.size[0] * row}));
    }
    return TESS_OK;
}

/* Reads this rank's share of the mapped tensors once, so that NaN is found at the beginning, as it is for tensors in
 * memory. */
static void check_rows(const tess_reference *r, int i)
{
    const tess_shape shape = tess_shape_atleast_1d(&tess_model_param(r->model, i)->shape);
    int64_t row = tess_shape_row_count(&shape), begin, count;
    tess_shard_rows(shape.dim[0], r->copy.n_ranks, r->copy.rank, &begin, &count);
    const tess_dtype dtype = reference_dtype(r, i);
    const char *first = (const char *)r->copy.w[i] + (size_t)(begin * row) * tess_dtype_size(dtype);
    if (!tess_all_finite(first, dtype, count * row))
        tess_weights_broken(r->source.weights)[i] = 1;
}

static int64_t longest_row(const tess_reference *r)
{
    int64_t most = REFERENCE_CHUNK;
    for (int i = 0; i < tess_model_n_params(r->model); i++) {
        int64_t row = tess_shape_row_count(&tess_model_param(r->model, i)->shape);
        most = row > most ? row : most;
    }
    return most;
}

static tess_status fill(tess_reference *r)
{
    TESS_AUTO(tess_mem_drop) float *floats = NULL;
    int64_t room = longest_row(r);
    TESS_TRY(tess_mem_alloc_array(r->engine->mem, TESS_POOL_MISC, (size_t)room, sizeof(float), "reference",
                                  (void **)&floats));
    for (int i = 0; i < tess_model_n_params(r->model); i++) {
        if (r->copy.offset[i] == SIZE_MAX)
            check_rows(r, i);
        else
            TESS_TRY(fill_rows(r, i, floats, room));
    }
    return TESS_OK;
}

/* ---- Content that changes ---- */
/* Each host has its own ranks' parts and zeros elsewhere, so the sum of the words is the whole copy. */
static tess_status add_hosts(const tess_reference *r)
{
    const reference_copy *c = &r->copy;
    size_t n = c->bytes / sizeof(int32_t);
    int32_t *words = (int32_t *)(void *)c->memory;
    for (size_t at = 0; c->leaders != NULL && at < n; at += REFERENCE_CHUNK) {
        size_t count = n - at < REFERENCE_CHUNK ? n - at : REFERENCE_CHUNK;
        TESS_TRY(tess_all_reduce(c->leaders, words + at, words + at, count, TESS_I32, TESS_SUM, NULL));
    }
    return TESS_OK;
}

tess_status reference_copy_rewrite(tess_reference *r, tess_status (*write)(tess_reference *r))
{
    tess_team *team = r->engine->team;
    bool several = tess_runtime_hosts(r->engine->runtime) > 1;
    if (tess_mem_is_dry(r->engine->mem))
        return TESS_OK;
    TESS_TRY(tess_barrier(team, NULL));
    if (several && r->copy.rank == 0)
        memset(r->copy.memory, 0, r->copy.bytes);
    if (several)
        TESS_TRY(tess_barrier(team, NULL));
    TESS_TRY(tess_team_agree(team, write(r)));
    return several ? tess_team_agree(team, add_hosts(r)) : TESS_OK;
}

/* ---- The whole ---- */
tess_status reference_copy_create(tess_reference *r)
{
    TESS_TRY(find_ranks(r));
    TESS_TRY(tess_team_agree(r->engine->team, place(r)));
    TESS_TRY(alloc_memory(r));
    const bool fills = r->update_interval == 0 && !tess_mem_is_dry(r->engine->mem);
    return fills ? tess_team_agree(r->engine->team, fill(r)) : TESS_OK;
}

void reference_copy_free(tess_reference *r)
{
    if (r->engine->at.world == 1)
        tess_mem_drop(&r->copy.memory);
    else if (r->copy.memory != NULL)
        tess_shared_free(r->engine->team, r->copy.memory);
    tess_team_destroy(&r->copy.leaders);
}
