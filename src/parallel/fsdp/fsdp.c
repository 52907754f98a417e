/* tess_fsdp and its units: creation, the policy, the table of parameters. */
#include "parallel/fsdp/fsdp_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/abi.h"
#include "base/mem/named.h"
#include "base/mem/scoped.h"

static tess_status check_policy(const tess_fsdp_policy *policy)
{
    TESS_CHECK(policy->strategy >= TESS_STRATEGY_NONE && policy->strategy <= TESS_STRATEGY_HYBRID, TESS_E_INVALID,
               "fsdp: %d is no sharding strategy", (int)policy->strategy);
    TESS_CHECK(tess_wire_form_of(policy->param_dtype, 0) != NULL, TESS_E_INVALID,
               "fsdp: param_dtype is %s; choose float32, bfloat16 or float16", tess_dtype_name(policy->param_dtype));
    const tess_wire_form *reduce = tess_wire_form_of(policy->reduce_dtype, 0);
    TESS_CHECK(reduce != NULL && reduce->sum != NULL, TESS_E_INVALID,
               "fsdp: reduce_dtype is %s; choose float32, bfloat16 or float16", tess_dtype_name(policy->reduce_dtype));
    TESS_CHECK(policy->reshard_after_forward >= 0, TESS_E_INVALID,
               "fsdp: reshard_after_forward is %d; choose 1 (free), 0 (keep) or a number of ranks",
               policy->reshard_after_forward);
    TESS_CHECK(policy->prefetch >= 0, TESS_E_INVALID, "fsdp: prefetch is %d units; choose 0 or more", policy->prefetch);
    return TESS_OK;
}

static tess_status check_groups(const tess_fsdp *fsdp, int n_shards)
{
    const tess_fsdp_policy *policy = &fsdp->policy;
    const bool shards = policy->strategy == TESS_STRATEGY_FULL || policy->strategy == TESS_STRATEGY_HYBRID;
    TESS_CHECK(!shards || n_shards == 1 || policy->reshard_after_forward <= 1 ||
                   n_shards % policy->reshard_after_forward == 0,
               TESS_E_INVALID,
               "fsdp: reshard_after_forward is %d; choose 1 (free), 0 (keep) or a number that divides the %d ranks "
               "that share a copy of the parameters",
               policy->reshard_after_forward, n_shards);
    return TESS_OK;
}

tess_status tess_fsdp_add_family(tess_fsdp *fsdp, const char *name, int n_shards, int parts, tess_fsdp_family **out)
{
    tess_fsdp_family *family = NULL;
    *out = NULL;
    TESS_CHECK(fsdp->state == TESS_FSDP_BUILDING, TESS_E_INVALID, "fsdp: add_family '%s' after materialize", name);
    TESS_TRY(tess_mem_grow(fsdp->place.mem, TESS_POOL_MISC, sizeof(family) * (size_t)(fsdp->n_families + 1), "families",
                           (void **)&fsdp->families));
    TESS_TRY(TESS_NEW(fsdp->place.mem, 1, "family", &family));
    *family = (tess_fsdp_family){.fsdp = fsdp, .name = name, .index = fsdp->n_families, .bad_micro = -1};
    fsdp->families[fsdp->n_families++] = family;
    TESS_TRY_CTX(tess_fsdp_teams_open(&fsdp->topology, n_shards, parts, &family->teams), "fsdp: family '%s'", name);
    TESS_TRY(check_groups(fsdp, n_shards));
    *out = family;
    return TESS_OK;
}

static tess_status open_all(tess_fsdp *fsdp, tess_mesh *mesh)
{
    tess_fsdp_family *dense;
    TESS_TRY(tess_fsdp_topology_open(mesh, &fsdp->topology));
    fsdp->step.shares = tess_shares_equal(fsdp->topology.n_data);
    return tess_fsdp_add_family(fsdp, "dense", fsdp->topology.n_shards, 0, &dense);
}

tess_status tess_fsdp_create(tess_mesh *mesh, const tess_fsdp_policy *policy, tess_fsdp **out)
{
    TESS_CHECK(mesh != NULL && policy != NULL && out != NULL, TESS_E_INVALID, "tess_fsdp_create: a NULL argument");
    *out = NULL;
    TESS_TRY(TESS_CHECK_SIZE(tess_fsdp_policy, policy));
    TESS_TRY(check_policy(policy));
    tess_runtime *runtime = tess_team_runtime(tess_mesh_all(mesh));
    tess_mem *mem = tess_runtime_mem(runtime);
    TESS_AUTO(tess_fsdp_destroy) tess_fsdp *fsdp = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "fsdp", &fsdp));
    *fsdp = (tess_fsdp){.place = {.runtime = runtime, .mem = mem},
                        .policy = *policy,
                        .reduce_form = tess_wire_form_of(policy->reduce_dtype, 0),
                        .step_size = 1,
                        .step = {.n_passes = 1, .micro = -1}};
    fsdp->clock = &fsdp->own_clock;
    tess_phase_start(fsdp->clock);
    TESS_TRY(open_all(fsdp, mesh));
    *out = TESS_GIVE(fsdp);
    return TESS_OK;
}

tess_status tess_fsdp_set_passes(tess_fsdp *fsdp, int n_passes)
{
    TESS_CHECK(n_passes >= 1, TESS_E_INVALID, "fsdp: %d passes; a micro-batch runs as 1 or more", n_passes);
    TESS_CHECK(fsdp->state == TESS_FSDP_BUILDING, TESS_E_INVALID,
               "fsdp: set_passes after materialize; the number of passes belongs to the layout");
    fsdp->step.n_passes = n_passes;
    return TESS_OK;
}

void tess_fsdp_set_offload(tess_fsdp *fsdp, unsigned pools)
{
    fsdp->on_disk = pools;
}

tess_status tess_fsdp_set_step_size(tess_fsdp *fsdp, int64_t n_micro_batches)
{
    TESS_CHECK(n_micro_batches > 0, TESS_E_INVALID, "fsdp: a step of %lld micro-batches; it has 1 or more",
               (long long)n_micro_batches);
    TESS_CHECK(fsdp->n_units == 0, TESS_E_INVALID, "fsdp: set_step_size after the first unit");
    fsdp->step_size = n_micro_batches;
    return TESS_OK;
}

tess_status tess_fsdp_set_private(tess_fsdp *fsdp)
{
    TESS_CHECK(fsdp->n_units == 0, TESS_E_INVALID, "fsdp: set_private after the first unit");
    fsdp->place.is_private = true;
    return TESS_OK;
}

tess_status tess_fsdp_set_stream(tess_fsdp *fsdp, tess_stream *stream)
{
    TESS_CHECK(fsdp->n_units == 0, TESS_E_INVALID, "fsdp: set_stream after the first unit");
    tess_device *device = tess_stream_device(stream);
    fsdp->place.stream = stream;
    fsdp->place.device = tess_device_get_properties(device)->host_memory ? NULL : device;
    return TESS_OK;
}

static void free_unit(tess_unit *unit)
{
    tess_fsdp_sums_free(unit);
    tess_fsdp_shards_free(unit);
    tess_mem_drop(&unit);
}

static void free_family(tess_fsdp_family *family)
{
    tess_fsdp_exchange_free(family);
    tess_fsdp_slots_free(family);
    tess_fsdp_windows_free(family, &family->windows);
    tess_fsdp_windows_free(family, &family->fsdp->scratch);
    tess_fsdp_stamps_free(family);
}

void tess_fsdp_destroy(tess_fsdp **handle)
{
    tess_fsdp *fsdp = *handle;
    if (fsdp == NULL)
        return;
    /* Waits until operations under way complete or fail, because their buffers are freed next. */
    for (int i = 0; i < fsdp->n_units; i++)
        tess_fsdp_reduction_drop(&fsdp->units[i]->reduction);
    tess_mem *mem = fsdp->place.mem;
    for (int i = 0; i < fsdp->n_families; i++)
        free_family(fsdp->families[i]);
    tess_fsdp_stashes_free(fsdp);
    if (fsdp->place.device != NULL)
        tess_device_free(fsdp->place.device, fsdp->row_sums);
    for (int i = 0; i < fsdp->n_units; i++)
        free_unit(fsdp->units[i]);
    tess_home_destroy(&fsdp->home);
    for (int i = 0; i < fsdp->n_families; i++) {
        tess_fsdp_teams_close(&fsdp->families[i]->teams);
        tess_mem_free(mem, fsdp->families[i]);
    }
    tess_mem_free(mem, fsdp->families);
    tess_mem_free(mem, fsdp->units);
    tess_mem_free(mem, fsdp->params);
    tess_name_index_free(&fsdp->names, mem);
    tess_mem_free(mem, fsdp->hooks);
    tess_mem_free_named(mem, TESS_POOL_MISC, (size_t)fsdp->n_units * sizeof(int32_t), fsdp->persist_totals);
    tess_fsdp_order_free(&fsdp->order, mem);
    tess_stream_destroy(&fsdp->place.own_stream);
    tess_fsdp_topology_close(&fsdp->topology);
    tess_mem_drop(handle);
}

const char *tess_strategy_name(tess_strategy strategy)
{
    static const char *const names[] = {"none", "zero1", "zero2", "full", "hybrid"};
    return names[strategy];
}

int tess_fsdp_units(const tess_fsdp *fsdp, int64_t *largest)
{
    int64_t most = 0;
    for (int u = 0; u < fsdp->n_units; u++)
        if ((int64_t)fsdp->units[u]->layout.full_bytes > most)
            most = (int64_t)fsdp->units[u]->layout.full_bytes;
    if (largest != NULL)
        *largest = most;
    return fsdp->n_units;
}

tess_runtime *tess_fsdp_runtime(const tess_fsdp *fsdp)
{
    return fsdp->place.runtime;
}

tess_dtype tess_fsdp_param_dtype(const tess_fsdp *fsdp)
{
    return fsdp->policy.param_dtype;
}

bool tess_fsdp_reads_masters(const tess_fsdp *fsdp)
{
    return tess_fsdp_choose(fsdp->families[0]).direct;
}

tess_status tess_fsdp_set_norm_team(tess_fsdp *fsdp, tess_team *team)
{
    TESS_CHECK(fsdp->state == TESS_FSDP_BUILDING, TESS_E_INVALID, "fsdp: set_norm_team after materialize");
    fsdp->topology.norm_team = team;
    return TESS_OK;
}

static tess_status copy_text(tess_unit *unit, const char *text, char **copy)
{
    size_t size = strlen(text) + 1;
    TESS_TRY(TESS_PART(unit, size, "name", copy));
    memcpy(*copy, text, size);
    return TESS_OK;
}

/* Copies the name of the fsdp's parameter `number`, which must be new. */
static tess_status take_name(tess_unit *unit, const char *name, int number, char **copy)
{
    int first;
    TESS_TRY(copy_text(unit, name, copy));
    TESS_TRY(tess_name_index_add(&unit->fsdp->names, unit->fsdp->place.mem, *copy, &first));
    TESS_CHECK(first == number, TESS_E_INVALID,
               "fsdp: parameter '%s' was added twice; a tied weight belongs to one unit", name);
    return TESS_OK;
}

static bool is_narrow(const tess_fsdp *fsdp, const tess_param_desc *param)
{
    return param->narrow && !param->trainable && fsdp->policy.param_dtype != TESS_F32;
}

/* Float32 needs no codes if the whole unit is gathered as float32. */
static int codes_of(const tess_fsdp *fsdp, const tess_param_desc *param)
{
    return param->codes == TESS_CODES_F32 && fsdp->policy.param_dtype == TESS_F32 ? 0 : param->codes;
}

static tess_status check_params(const tess_fsdp_family *family, const char *unit, const tess_param_desc *params,
                                int n_params)
{
    char text[96];
    const tess_fsdp *fsdp = family->fsdp;
    TESS_CHECK(n_params > 0, TESS_E_INVALID, "fsdp: unit '%s' has no parameters", unit);
    for (int i = 0; i < n_params; i++) {
        const tess_shape *shape = &params[i].shape;
        TESS_CHECK(params[i].name != NULL && params[i].name[0] != '\0', TESS_E_INVALID,
                   "fsdp: unit '%s': parameter %d has no name", unit, i);
        TESS_CHECK(shape->n_dims >= 0 && shape->n_dims <= TESS_MAX_DIMS, TESS_E_INVALID,
                   "fsdp: parameter '%s' has %d dimensions; at most %d are possible", params[i].name, shape->n_dims,
                   TESS_MAX_DIMS);
        double count = 1;
        for (int d = 0; d < shape->n_dims; d++) {
            TESS_CHECK(shape->dim[d] > 0, TESS_E_INVALID, "fsdp: parameter '%s' has the empty shape %s", params[i].name,
                       tess_shape_format(shape, text, sizeof(text)));
            count *= (double)shape->dim[d];
        }
        TESS_CHECK(count < 0x1p48, TESS_E_INVALID, "fsdp: parameter '%s' of shape %s has too many elements",
                   params[i].name, tess_shape_format(shape, text, sizeof(text)));
        const tess_param_cut *tp = &params[i].tp;
        TESS_CHECK(
            tp->kind == TESS_REPLICATE ||
                (tp->kind == TESS_SHARD && tp->dim >= 0 && tp->dim < tess_shape_atleast_1d(shape).n_dims),
            TESS_E_INVALID,
            "fsdp: parameter '%s' of shape %s on the axis \"tp\": choose TESS_REPLICATE, or TESS_SHARD of one of "
            "its dimensions (kind %d of dimension %d was given)",
            params[i].name, tess_shape_format(shape, text, sizeof(text)), (int)tp->kind, tp->dim);
        TESS_CHECK(tp->kind == TESS_REPLICATE || tp->unit <= 1 ||
                       tess_shape_atleast_1d(shape).dim[tp->dim] % tp->unit == 0,
                   TESS_E_INVALID, "fsdp: parameter '%s' of shape %s: units of %lld do not divide dimension %d",
                   params[i].name, tess_shape_format(shape, text, sizeof(text)), (long long)tp->unit, tp->dim);
        const int codes = codes_of(fsdp, &params[i]);
        TESS_CHECK(codes == 0 || tess_wire_form_of(fsdp->policy.param_dtype, codes) != NULL, TESS_E_UNSUPPORTED,
                   "fsdp: parameter '%s': no codes have the number %d for %s", params[i].name, codes,
                   tess_dtype_name(fsdp->policy.param_dtype));
        TESS_CHECK(codes != TESS_CODES_F32 || !params[i].narrow, TESS_E_INVALID,
                   "fsdp: parameter '%s' is gathered as float32, and cannot be narrow", params[i].name);
        TESS_CHECK(codes != TESS_CODES_FP8 || (shape->n_dims == 2 && fsdp->topology.n_tp == 1 && !family->facts.direct),
                   TESS_E_UNSUPPORTED,
                   "fsdp: parameter '%s' as codes: a matrix can be, of which no rank has columns, and which is not "
                   "read as float16 or in place",
                   params[i].name);
        TESS_CHECK(fsdp->place.device == NULL || !is_narrow(fsdp, &params[i]), TESS_E_UNSUPPORTED,
                   "fsdp: the narrow parameter '%s' on a device: its shards have float32 weights only; leave `narrow` "
                   "out",
                   params[i].name);
    }
    return TESS_OK;
}

static tess_status fill_unit(tess_unit *unit, const char *name, const tess_param_desc *params, int n_params)
{
    tess_fsdp *fsdp = unit->fsdp;
    TESS_TRY(copy_text(unit, name, &unit->name));
    const char *dot = unit->name; /* "model.layers.12" gives "layer" 12, "model.layers.12.experts" "experts" 12 */
    while ((dot = strchr(dot + 1, '.')) != NULL && !(dot[1] >= '0' && dot[1] <= '9'))
        ;
    const bool numbered = dot != NULL, dense = unit->family == fsdp->families[0];
    snprintf(unit->label, sizeof(unit->label), "%s", !dense ? unit->family->name : numbered ? "layer" : unit->name);
    unit->number = numbered ? strtoll(dot + 1, NULL, 10) : -1;
    TESS_TRY(TESS_PART(unit, n_params, "parameter table", &unit->params));
    unit->n_params = n_params;
    for (int i = 0; i < n_params; i++) {
        tess_fsdp_param *p = &unit->params[i];
        p->shape = params[i].shape;
        p->trainable = params[i].trainable;
        p->decay = params[i].decay;
        p->hidden = params[i].hidden;
        p->elsewhere = params[i].elsewhere;
        p->form = tess_wire_form_of(fsdp->policy.param_dtype, codes_of(fsdp, &params[i]));
        p->narrow = is_narrow(fsdp, &params[i]);
        unit->layout.plain = unit->layout.plain && tess_wire_form_is_plain(p->form);
        unit->layout.narrow = unit->layout.narrow || p->narrow;
        unit->layout.coded = !unit->layout.plain || unit->layout.narrow || tess_fsdp_gathers_codes(unit->family);
        p->tp = params[i].tp;
        p->tp.unit = p->tp.unit > 0 ? p->tp.unit : 1;
        unit->n_trainable += p->trainable;
        TESS_TRY(take_name(unit, params[i].name, fsdp->n_params + i, &p->name));
    }
    return tess_fsdp_layout_make(unit);
}

tess_status tess_fsdp_add_unit_to(tess_fsdp_family *family, const char *name, const tess_param_desc *params,
                                  int n_params, tess_unit **out)
{
    tess_fsdp *fsdp = family->fsdp;
    *out = NULL;
    TESS_CHECK(fsdp->state == TESS_FSDP_BUILDING, TESS_E_INVALID,
               "fsdp: add_unit '%s' after materialize; add every unit before it", name);
    if (!family->has_units)
        family->facts = tess_fsdp_choose(family);
    family->has_units = true;
    TESS_TRY(check_params(family, name, params, n_params));
    TESS_TRY(tess_mem_grow(fsdp->place.mem, TESS_POOL_MISC, sizeof(tess_unit *) * (size_t)(fsdp->n_units + 1), "units",
                           (void **)&fsdp->units));
    TESS_TRY(tess_mem_grow(fsdp->place.mem, TESS_POOL_MISC, sizeof(*fsdp->params) * (size_t)(fsdp->n_params + n_params),
                           "parameters", (void **)&fsdp->params));
    tess_unit *unit = NULL;
    TESS_TRY(TESS_NEW(fsdp->place.mem, 1, "unit", &unit));
    *unit = (tess_unit){.fsdp = fsdp,
                        .family = family,
                        .index = fsdp->n_units,
                        .first = fsdp->n_params,
                        .layout = {.plain = true},
                        .uses = {.n_blocks = 1},
                        .way = tess_fsdp_way_of(family)};
    tess_status status = fill_unit(unit, name, params, n_params);
    if (status != TESS_OK) {
        tess_name_index_cut(&fsdp->names, fsdp->n_params);
        free_unit(unit);
        return tess_fail_context(status, "fsdp: unit '%s'", name);
    }
    fsdp->units[fsdp->n_units++] = unit;
    for (int i = 0; i < n_params; i++) {
        fsdp->params[fsdp->n_params].unit = unit;
        fsdp->params[fsdp->n_params++].index = i;
    }
    *out = unit;
    return TESS_OK;
}

tess_status tess_fsdp_add_unit(tess_fsdp *fsdp, const char *name, const tess_param_desc *params, int n_params,
                               tess_unit **unit)
{
    return tess_fsdp_add_unit_to(fsdp->families[0], name, params, n_params, unit);
}
