/* Checks every tensor of a run over the micro-batches, in the order of execution. */
#include <stdio.h>
#include <string.h>

#include "base/core/flat.h"
#include "device/finite.h"
#include "tessera/comm.h"
#include "engine/numbers/numbers_impl.h"

void tess_bad_clear(const tess_numbers *n, tess_bad_number *bad)
{
    *bad = (tess_bad_number){.stage = TESS_BAD_NONE, .rank = tess_runtime_rank(n->engine->runtime)};
}

/* Sets *bad to the first bad value of rows [first, first + n_rows) of a tensor, if there is one and *bad is empty. */
static void look(tess_numbers *n, tess_bad_stage stage, const char *what, const char *of, const void *data,
                 tess_dtype dtype, int64_t first, int64_t n_rows, int64_t row, tess_bad_number *bad)
{
    tess_engine *e = n->engine;
    int64_t count = n_rows * row, at = -1;
    if (bad->stage != TESS_BAD_NONE ||
        tess_stream_kernels(e->stream)->find_not_finite(
            e->stream, &(tess_find_not_finite_args){.x = data, .dtype = dtype, .n = count, .first = &at}) != TESS_OK ||
        at < 0)
        return;
    *bad = (tess_bad_number){.stage = stage,
                             .rank = tess_runtime_rank(e->runtime),
                             .local = n->local,
                             .micro = tess_coordinates_micro(&e->at, n->local),
                             .pass = n->pass,
                             .order = n->order,
                             .row = first + at / row,
                             .column = at % row,
                             .n_bad = tess_count_not_finite(data, dtype, count),
                             .n_values = count,
                             .value = tess_value_at(data, dtype, at)};
    snprintf(bad->tensor, sizeof(bad->tensor), "%s '%s'", what, of);
}

static void see(tess_numbers *n, int unit, const char *what, const char *of, void *data, tess_dtype dtype,
                int64_t first, int64_t n_rows, int64_t row)
{
    char name[128];
    n->order++;
    if (n->drill.see != NULL) {
        snprintf(name, sizeof(name), "%s %s", what, of);
        n->drill.see(n->drill.self, unit, name, data, dtype, first, n_rows, row);
    }
    if (n->checking)
        look(n, TESS_BAD_COMPUTED, what, of, data, dtype, first, n_rows, row, &n->first);
}

static void see_computed(void *self, int unit, const char *what, void *data, tess_dtype dtype, int64_t first,
                         int64_t n_rows, int64_t row)
{
    tess_numbers *n = self;
    const tess_engine *e = n->engine;
    const bool was_well = n->first.stage == TESS_BAD_NONE;
    see(n, unit, what, tess_model_unit_name(e->model, unit), data, dtype, first, n_rows, row);
    const bool of_tokens = strncmp(what, "output of expert", strlen("output of expert")) != 0;
    if (was_well && of_tokens && n->first.stage != TESS_BAD_NONE)
        n->first.row = tess_pieces_token(&e->pieces, tess_pieces_set(&e->pieces, n->local), n->first.row);
}

void tess_numbers_watch(tess_numbers *n)
{
    tess_watch watch = {n, see_computed};
    bool wanted = n->checking || n->drill.see != NULL;
    if (n->engine->executor != NULL)
        tess_executor_set_watch(n->engine->executor, wanted ? &watch : NULL);
}

/* Exactly one rank is primary for a row: it writes the row to disk. */
static bool is_primary(const tess_shard *shard, int64_t row)
{
    return row >= shard->primary.begin[0] && row < shard->primary.begin[0] + shard->primary.size[0];
}

/* Shows memory of the hooks to the checks on the host, which may change it. */
static tess_status see_whole(tess_numbers *n, int unit, const char *what, const tess_param *p, void *data,
                             tess_dtype dtype)
{
    tess_engine *e = n->engine;
    size_t bytes = (size_t)tess_shape_count(&p->shape) * tess_dtype_size(dtype);
    TESS_AUTO(tess_mem_drop) void *room = NULL;
    const void *seen;
    if (e->compute.resident)
        TESS_TRY(tess_mem_alloc(e->mem, TESS_POOL_MISC, bytes, "what the checks see", &room));
    if (room != NULL)
        TESS_TRY(tess_view(e->compute.stream, data, bytes, room, &seen));
    see(n, unit, what, p->name, room != NULL ? room : data, dtype, 0, tess_shape_rows(&p->shape),
        tess_shape_row_count(&p->shape));
    return room != NULL ? tess_upload(e->compute.stream, data, room, bytes) : TESS_OK;
}

/* Checks this rank's part of a parameter or of its gradient. *first: whether it has the first bad value. The place
 * of that value is then converted to its place in the whole parameter. */
static tess_status see_part(tess_numbers *n, int unit, const char *what, const tess_param *p, void *data,
                            tess_dtype dtype, bool *first)
{
    const tess_coordinates *at = &n->engine->at;
    bool was_well = n->first.stage == TESS_BAD_NONE;
    int64_t begin, size;
    *first = false;
    TESS_TRY(see_whole(n, unit, what, p, data, dtype));
    if (!was_well || n->first.stage == TESS_BAD_NONE)
        return TESS_OK;
    const bool divided = p->stacked && at->n_experts > 1;
    tess_cut_range((tess_cut){p->slice.whole.dim[p->slice.dim], p->slice.unit},
                   divided ? at->n_experts : at->degree[TESS_AXIS_TP], divided ? at->expert : at->place[TESS_AXIS_TP],
                   &begin, &size);
    *(p->slice.dim == 0 ? &n->first.row : &n->first.column) += begin;
    *first = true;
    return TESS_OK;
}

tess_status tess_numbers_see_params(tess_numbers *n, int unit)
{
    tess_engine *e = n->engine;
    int first, count;
    tess_model_unit_params(e->model, unit, &first, &count);
    for (int i = first; i < first + count && (n->checking || n->drill.see != NULL); i++) {
        const tess_param *p = tess_model_param(e->model, i);
        tess_shard shard;
        const int number = tess_block_unit_number(&e->units[unit], i - first);
        if (tess_fsdp_is_coded(e->fsdp,
                               number)) /* a parameter gathered as codes: its master weights are checked instead */
            continue;
        bool is_first;
        TESS_TRY(
            see_part(n, unit, "parameter", p, (void *)e->gathered.w[i], tess_fsdp_param_dtype(e->fsdp), &is_first));
        if (is_first && tess_fsdp_shard(e->fsdp, number, &shard) == TESS_OK)
            n->first.owner = is_primary(&shard, n->first.row);
    }
    return TESS_OK;
}

tess_status tess_numbers_see_gradients(tess_numbers *n, int unit)
{
    tess_engine *e = n->engine;
    int first, count;
    TESS_TRY(tess_numbers_drill_gradients(n, unit));
    tess_model_unit_params(e->model, unit, &first, &count);
    for (int i = first; i < first + count && (n->checking || n->drill.see != NULL); i++) {
        bool is_first;
        TESS_TRY(see_part(n, unit, "gradient", tess_model_param(e->model, i), e->gathered.dw[i], TESS_F32, &is_first));
    }
    return TESS_OK;
}

/* Checks a shard. Reports the place of a bad value in the whole parameter. */
static void look_at_shard(tess_numbers *n, tess_bad_stage stage, const char *what, const tess_shard *shard,
                          const void *data, tess_dtype dtype, tess_bad_number *bad)
{
    bool was_well = bad->stage == TESS_BAD_NONE;
    const tess_shape shape = tess_shape_atleast_1d(&shard->shape);
    const tess_box whole = tess_box_whole(&shape);
    int64_t own_row = tess_shard_row(shard), row = tess_shape_row_count(&shape);
    tess_box element;
    look(n, stage, what, shard->name, data, dtype, 0, shard->box.size[0], own_row, bad);
    if (!was_well || bad->stage == TESS_BAD_NONE)
        return;
    tess_flat_slice(shape.n_dims, &shard->box, bad->row * own_row + bad->column, 1, &element);
    int64_t number = tess_flat_offset(shape.n_dims, &whole, &element);
    bad->row = number / row;
    bad->column = number % row;
    bad->owner = is_primary(shard, bad->row);
}

tess_status tess_bad_weights(tess_numbers *n, tess_bad_number *bad)
{
    tess_shard shard;
    for (int i = 0; i < tess_fsdp_shards(n->engine->fsdp); i++) {
        TESS_TRY(tess_fsdp_shard(n->engine->fsdp, i, &shard));
        const void *narrow = tess_fsdp_narrow(n->engine->fsdp, i);
        look_at_shard(n, TESS_BAD_WEIGHT, "weight", &shard, narrow != NULL ? narrow : shard.master,
                      narrow != NULL ? tess_fsdp_param_dtype(n->engine->fsdp) : TESS_F32, bad);
    }
    return TESS_OK;
}

static tess_status look_at_addends(const tess_numbers *n, tess_bad_number *bad)
{
    const tess_team *team = n->engine->team;
    tess_fsdp_bad_gradient found;
    if (bad->stage != TESS_BAD_NONE || !tess_fsdp_find_bad_gradient(n->engine->fsdp, &found))
        return TESS_OK;
    int place = 0;
    while (place < tess_team_size(team) && tess_team_global_rank(team, place) != found.rank)
        place++;
    TESS_CHECK(place < tess_team_size(team), TESS_E_INTERNAL, "rank %d, which has a bad gradient, is not in the mesh",
               found.rank);
    const tess_coordinates at = tess_coordinates_by(n->engine->at.degree, place);
    *bad = (tess_bad_number){.stage = TESS_BAD_GRADIENT,
                             .rank = found.rank,
                             .n_ranks = found.n_ranks,
                             .local = found.micro,
                             .micro = tess_coordinates_micro(&at, found.micro),
                             .order = found.order,
                             .row = found.row,
                             .column = found.column,
                             .n_bad = found.n_bad,
                             .n_values = found.n_values,
                             .value = found.value};
    snprintf(bad->tensor, sizeof(bad->tensor), "gradient '%s'", found.param);
    return TESS_OK;
}

tess_status tess_bad_sums(tess_numbers *n, tess_bad_number *bad)
{
    tess_shard shard;
    TESS_TRY(look_at_addends(n, bad));
    TESS_TRY(tess_fsdp_see_gradients(n->engine->fsdp));
    for (int i = 0; i < tess_fsdp_shards(n->engine->fsdp); i++) {
        TESS_TRY(tess_fsdp_shard(n->engine->fsdp, i, &shard));
        if (shard.grad != NULL)
            look_at_shard(n, TESS_BAD_SUM, "summed gradient", &shard, shard.grad, TESS_F32, bad);
    }
    return TESS_OK;
}

void tess_numbers_run_begin(tess_numbers *n)
{
    n->local = -1;
    tess_bad_clear(n, &n->first);
}

void tess_numbers_pass_begin(tess_numbers *n, int pass)
{
    n->pass = pass;
}

tess_status tess_numbers_micro_begin(tess_numbers *n, int64_t local, int part)
{
    bool first = n->local < 0; /* first micro-batch of the run */
    n->local = local;
    n->order = (int64_t)part << 32;
    return first ? tess_numbers_drill_weights(n) : TESS_OK;
}

tess_status tess_numbers_gather(const tess_engine *e, const char *label, const void *own, size_t bytes, void **all)
{
    TESS_TRY(tess_mem_alloc_array(e->mem, TESS_POOL_MISC, (size_t)e->at.world, bytes, "findings of ranks", all));
    tess_team_label(e->team, label, -1);
    tess_status status = tess_all_gather(e->team, own, *all, bytes, TESS_U8, NULL);
    tess_team_label(e->team, NULL, -1);
    if (status != TESS_OK)
        tess_mem_free(e->mem, *all);
    return status;
}
