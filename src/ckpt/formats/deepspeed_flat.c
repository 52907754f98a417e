/* Maps parameters to elements of DeepSpeed's flat tensors. */
#include <stdlib.h>
#include <string.h>

#include "base/mem/make_room.h"
#include "ckpt/formats/deepspeed_impl.h"
#include "base/core/flat.h"

/* ---- Parameters ---- */
static tess_status add_param(ds_params *params, const char *name, const tess_pickle_value *shape, int64_t offset)
{
    TESS_TRY(tess_mem_make_room(params->mem, TESS_POOL_MISC, params->n, sizeof(ds_param), "parameters of DeepSpeed",
                                &params->room, &params->params));
    ds_param *param = &params->params[params->n];
    *param = (ds_param){.name = name, .group = params->n_groups, .offset = offset, .count = 1};
    TESS_TRY_CTX(torch_read_ints(shape, param->dim, TESS_CATALOG_DIMS, &param->n_dims), "'%s'", name);
    for (int d = 0; d < param->n_dims; d++)
        TESS_CHECK(param->dim[d] > 0 && !__builtin_mul_overflow(param->count, param->dim[d], &param->count),
                   TESS_E_FORMAT, "'%s': an invalid shape", name);
    TESS_CHECK(offset <= INT64_MAX / 16 - param->count, TESS_E_FORMAT, "'%s': an invalid shape", name);
    if (params->names == NULL)
        params->names = json_object();
    TESS_CHECK(json_object_set_new_nocheck(params->names, name, json_true()) == 0, TESS_E_NOMEM,
               "no memory for the names of parameters");
    params->n++;
    return TESS_OK;
}

static tess_status add_group(ds_params *params, const tess_pickle_value *group, const char *key)
{
    int64_t offset = 0;
    TESS_CHECK(group->kind == TESS_PICKLE_DICT, TESS_E_FORMAT, "%s: a dict expected, not %s", key,
               tess_pickle_kind_name(group->kind));
    for (size_t i = 0; i + 1 < group->n; i += 2) {
        const char *name = tess_pickle_text(group->items[i]);
        TESS_CHECK(name != NULL, TESS_E_FORMAT, "%s: a name expected", key);
        TESS_TRY(add_param(params, name, group->items[i + 1], offset));
        offset += params->params[params->n - 1].count;
    }
    params->n_groups++;
    return TESS_OK;
}

tess_status ds_add_shapes(ds_params *params, const tess_pickle_value *root, const char *key)
{
    const tess_pickle_value *shapes = tess_pickle_get(root, key);
    if (shapes == NULL || shapes->kind == TESS_PICKLE_NONE)
        return TESS_OK;
    if (shapes->kind != TESS_PICKLE_LIST)
        return add_group(params, shapes, key);
    for (size_t i = 0; i < shapes->n; i++)
        TESS_TRY(add_group(params, shapes->items[i], key));
    return TESS_OK;
}

void ds_params_free(ds_params *params)
{
    json_decref(params->names);
    tess_mem_free(params->mem, params->params);
    *params = (ds_params){0};
}

int64_t ds_group_count(const ds_params *params, int group)
{
    int64_t count = 0;
    for (size_t i = 0; i < params->n; i++)
        if (params->params[i].group == group)
            count += params->params[i].count;
    return count;
}

/* ---- Flat tensors ---- */
/* Adds elements [first, +count) of the parameter, which are elements [at, +count) of the flat tensor. */
static tess_status add_run(const ds_flat *flat, const ds_param *param, int64_t first, int64_t at, int64_t count)
{
    char name[1024];
    int number;
    torch_tensor part = flat->tensor;
    int n = snprintf(name, sizeof(name), "%s%s%s", flat->prefix, param->name, flat->suffix);
    TESS_CHECK(n < (int)sizeof(name), TESS_E_UNSUPPORTED, "a name of more than %zu bytes", sizeof(name));
    TESS_TRY(tess_catalog_add_tensor(flat->from.catalog, name, part.dtype, param->n_dims, param->dim, &number));
    for (int64_t taken; count > 0; first += taken, at += taken, count -= taken) {
        tess_box box;
        taken = tess_flat_box(param->n_dims, param->dim, first, count, &box);
        part.first = flat->tensor.first + at;
        part.dim[0] = taken;
        TESS_TRY(torch_add_piece(&flat->from, &part, &box, number));
    }
    return TESS_OK;
}

/* Elements [first, +length) of the parameter are numbers [begin, +length) in the numbering of flat->begin. Adds those
 * that are inside the flat tensor. */
static tess_status add_overlap(const ds_flat *flat, const ds_param *param, int64_t begin, int64_t length, int64_t first)
{
    int64_t end = flat->begin + flat->tensor.dim[0];
    int64_t from = begin > flat->begin ? begin : flat->begin, to = begin + length < end ? begin + length : end;
    if (from >= to)
        return TESS_OK;
    return add_run(flat, param, first + (from - begin), from - flat->begin, to - from);
}

/* Returns the size of one part of a parameter: ZeRO 3 cuts every parameter into parts of equal size and pads the last
 * ones. */
static int64_t part_size(const ds_flat *flat, const ds_param *param)
{
    return (param->count + flat->n_ranks - 1) / flat->n_ranks;
}

static tess_status add_part_at(const ds_flat *flat, const ds_param *param, int64_t begin)
{
    int64_t part = part_size(flat, param), first = part * flat->from.rank, left = param->count - first;
    return left <= 0 ? TESS_OK : add_overlap(flat, param, begin, left < part ? left : part, first);
}

static tess_status check_flat(const ds_flat *flat)
{
    const torch_tensor *tensor = &flat->tensor;
    TESS_CHECK(tensor->n_dims == 1 && (tensor->stride[0] == 1 || tensor->dim[0] <= 1), TESS_E_FORMAT,
               "a flat tensor of one dimension expected, not of %d", tensor->n_dims);
    TESS_CHECK(!tensor->record->deflated, TESS_E_UNSUPPORTED, "'%s' is packed", tensor->record->name);
    return TESS_OK;
}

tess_status ds_add_part(const ds_flat *flat, const ds_param *param)
{
    TESS_TRY(check_flat(flat));
    return add_part_at(flat, param, 0);
}

tess_status ds_add_flat(const ds_flat *flat, const ds_params *params)
{
    int64_t begin = 0;
    TESS_TRY(check_flat(flat));
    for (size_t i = 0; i < params->n; i++) {
        const ds_param *param = &params->params[i];
        if (flat->n_ranks > 0) {
            TESS_TRY(add_part_at(flat, param, begin));
            begin += part_size(flat, param);
        } else if (param->group == flat->group) {
            TESS_TRY(add_overlap(flat, param, param->offset, param->count, 0));
        }
    }
    return TESS_OK;
}
