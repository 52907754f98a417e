/* Prints the placements of parameters, for people and programs. */
#include <stdio.h>
#include <string.h>

#include "base/text/json.h"
#include "plan/placements.h"
#include "tessera/fsdp.h"

enum { NAME_SIZE = TESS_PARAM_NAME_SIZE + 16, PLACE_SIZE = 32 };

/* Describes the placement over an axis: "Shard(0)". An expert that one of the ranks that divide experts has is on "ep
 * 1", the second of them; a tensor of all experts is cut over "ep". Only the data ranks with the same experts share it.
 */
static const char *place_text(const tess_param_placements *p, const tess_param_placement *placement, int axis,
                              char text[PLACE_SIZE])
{
    const tess_place *place = &placement->place[axis];
    const int neighbours = tess_coordinates_of(&p->parallelism, 0).n_experts / p->degree[TESS_AXIS_TP];
    const bool divided = (placement->expert > 0 || placement->stacked) && axis != TESS_AXIS_REPLICATE;
    const int shards = axis == TESS_AXIS_SHARD ? p->degree[axis] * p->degree[TESS_AXIS_CP] : p->degree[axis];
    const bool cut = place->kind == TESS_SHARD && (!divided || shards > neighbours);
    char where[16] = "";
    if (divided && placement->stacked)
        snprintf(where, sizeof(where), "ep%s", cut ? ", " : "");
    else if (divided)
        snprintf(where, sizeof(where), "ep %d%s", placement->expert - 1, cut ? ", " : "");
    if (cut)
        snprintf(text, PLACE_SIZE, "%sShard(%d)", where, place->dim);
    else
        snprintf(text, PLACE_SIZE, "%s", divided ? where : "Replicate");
    return text;
}

/* Returns the width of the column of an axis. */
static int place_width(const tess_param_placements *p)
{
    return p->parallelism.expert_parallel_degree > 1 ? 14 : 12;
}

/* Returns the shape of the largest part that a rank holds: that of the first rank of the parameter's stage. */
static tess_shape largest_part(const tess_param_placements *p, const tess_param_placement *placement)
{
    tess_coordinates at = tess_coordinates_by(p->degree, 0);
    at.place[TESS_AXIS_PP] = placement->owner;
    at.n_experts = tess_coordinates_of(&p->parallelism, 0).n_experts;
    at.expert = placement->expert > 0 ? placement->expert - 1 : 0;
    const tess_box box = tess_param_placement_box(placement, &at);
    tess_shape shape = placement->shape;
    memcpy(shape.dim, box.size, sizeof(shape.dim[0]) * (size_t)shape.n_dims);
    return shape;
}

/* Whether two parameters of different layers differ only in the number of their layer. */
static bool is_alike(const tess_param_placements *p, const tess_param_placement *a, const tess_param_placement *b)
{
    const size_t prefix_a = strlen(tess_model_unit_name(p->model, a->param->unit)),
                 prefix_b = strlen(tess_model_unit_name(p->model, b->param->unit));
    return strcmp(a->param->name + prefix_a, b->param->name + prefix_b) == 0 &&
           tess_shape_equal(&a->shape, &b->shape) && a->owner == b->owner && a->copy == b->copy && a->unit == b->unit &&
           memcmp(a->place, b->place, sizeof(a->place)) == 0;
}

/* Returns the last of the layers from `unit` on whose parameters are alike. Other units are alone. */
static int last_alike(const tess_param_placements *p, int unit)
{
    int first, n, other, n_other;
    tess_model_unit_params(p->model, unit, &first, &n);
    for (int next = unit + 1; next < tess_model_n_units(p->model); next++) {
        tess_model_unit_params(p->model, next, &other, &n_other);
        bool alike = tess_model_unit_layer(p->model, unit) >= 0 && tess_model_unit_layer(p->model, next) >= 0;
        alike = alike && n == n_other;
        for (int i = 0; i < n && alike; i++)
            alike = is_alike(p, &p->list[first + i], &p->list[other + i]);
        if (!alike)
            return next - 1;
    }
    return tess_model_n_units(p->model) - 1;
}

/* Writes "model.layers.0-5.mlp.up_proj.weight", or the parameter's own name if it stands for one layer. */
static void name_layers(const tess_param_placements *p, const tess_param_placement *placement, int last,
                        char name[NAME_SIZE])
{
    const int unit = placement->param->unit;
    const int prefix = (int)strlen(tess_model_unit_name(p->model, unit));
    const char *full = placement->param->name;
    if (last == unit)
        snprintf(name, NAME_SIZE, "%s", full);
    else
        snprintf(name, NAME_SIZE, "%.*s-%lld%s", prefix, full, (long long)tess_model_unit_layer(p->model, last),
                 full + prefix);
}

static tess_status print_param(const tess_param_placements *p, const tess_param_placement *placement, const char *name,
                               int width, tess_buffer *out)
{
    tess_axis axes[TESS_MESH_MAX_AXES];
    const int n_axes = tess_axes_of(&p->parallelism, axes);
    char text[64], part[64], place[PLACE_SIZE];
    const tess_shape largest = largest_part(p, placement);
    TESS_TRY(
        tess_buffer_printf(out, "%-*s  %-16s", width, name, tess_shape_format(&placement->shape, text, sizeof(text))));
    for (int a = 0; a < n_axes; a++) {
        const int axis = tess_axis_find(axes[a].name);
        if (axis == TESS_AXIS_PP)
            snprintf(text, sizeof(text), placement->copy >= 0 ? "%d, copy %d" : "%d", placement->owner,
                     placement->copy);
        else
            snprintf(text, sizeof(text), "%s", place_text(p, placement, axis, place));
        TESS_TRY(tess_buffer_printf(out, "  %-*s", place_width(p), text));
    }
    return tess_buffer_printf(out, "  %s\n", tess_shape_format(&largest, part, sizeof(part)));
}

/* Calls print_param for each line. With `out` NULL, it only finds the width of the names. */
static tess_status print_params(const tess_param_placements *p, int *width, tess_buffer *out)
{
    for (int unit = 0, last; unit < tess_model_n_units(p->model); unit = last + 1) {
        int first, n;
        last = last_alike(p, unit);
        tess_model_unit_params(p->model, unit, &first, &n);
        for (int i = first; i < first + n; i++) {
            char name[NAME_SIZE];
            name_layers(p, &p->list[i], last, name);
            *width = (int)strlen(name) > *width ? (int)strlen(name) : *width;
            if (out != NULL)
                TESS_TRY(print_param(p, &p->list[i], name, *width, out));
        }
    }
    return TESS_OK;
}

/* Describes what the strategy does in addition to the placements of master weights. */
static const char *strategy_text(tess_strategy strategy)
{
    static const char *const texts[] = {
        [TESS_STRATEGY_NONE] = "none: weights, gradients and moments are whole on every rank",
        [TESS_STRATEGY_ZERO1] = "zero1: gathered weights and gradients are whole on every rank",
        [TESS_STRATEGY_ZERO2] = "zero2: gathered weights are whole on every rank; gradients are placed as weights",
        [TESS_STRATEGY_FULL] = "full: gradients are placed as weights; weights are gathered for their use",
        [TESS_STRATEGY_HYBRID] = "hybrid: gradients are placed as weights; each replica gathers weights for their use"};
    return texts[strategy];
}

tess_status tess_param_placements_print(const tess_param_placements *p, tess_buffer *out)
{
    tess_axis axes[TESS_MESH_MAX_AXES];
    const int n_axes = tess_axes_of(&p->parallelism, axes);
    int width = 0;
    TESS_TRY(print_params(p, &width, NULL));
    TESS_TRY(tess_buffer_printf(out, "\nparameters: where master weights and moments are (%s)\n%-*s  %-16s",
                                strategy_text((tess_strategy)p->parallelism.shard_strategy), width, "name", "shape"));
    for (int a = 0; a < n_axes; a++)
        TESS_TRY(tess_buffer_printf(out, "  %-*s", place_width(p), axes[a].name));
    TESS_TRY(tess_buffer_printf(out, "  largest part\n"));
    return print_params(p, &width, out);
}

static json_t *shape_json(const tess_shape *shape)
{
    json_t *dims = json_array();
    for (int d = 0; d < shape->n_dims; d++)
        json_array_append_new(dims, json_integer(shape->dim[d]));
    return dims;
}

json_t *tess_param_placements_json(const tess_param_placements *p)
{
    tess_axis axes[TESS_MESH_MAX_AXES];
    const int n_axes = tess_axes_of(&p->parallelism, axes);
    json_t *list = json_array();
    for (int i = 0; i < p->n; i++) {
        const tess_param_placement *placement = &p->list[i];
        const tess_shape largest = largest_part(p, placement);
        json_t *places = json_object();
        for (int a = 0; a < n_axes; a++) {
            const int axis = tess_axis_find(axes[a].name);
            char text[PLACE_SIZE];
            if (axis != TESS_AXIS_PP)
                json_object_set_new(places, axes[a].name, json_string(place_text(p, placement, axis, text)));
        }
        json_array_append_new(list, json_pack("{s:s, s:o, s:i, s:o, s:o, s:o}", "name", placement->param->name, "shape",
                                              shape_json(&placement->shape), "pp", placement->owner, "copy",
                                              placement->copy >= 0 ? json_integer(placement->copy) : json_null(),
                                              "largest_part", shape_json(&largest), "placements", places));
    }
    return list;
}
