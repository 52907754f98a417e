/* Computes from the placements which box of a tensor each rank holds. */
#include "base/text/text.h"
#include "dtensor/dtensor_impl.h"

tess_status tess_spec_check(const tess_spec *spec, const tess_mesh *mesh)
{
    TESS_CHECK(spec != NULL && mesh != NULL, TESS_E_INVALID, "tess_spec: a NULL argument");
    const tess_shape *shape = &spec->shape;
    TESS_CHECK(shape->n_dims >= 0 && shape->n_dims <= TESS_MAX_DIMS, TESS_E_INVALID,
               "tess_spec: %d dimensions are not 0 to %d", shape->n_dims, TESS_MAX_DIMS);
    TESS_CHECK(spec->n_axes == tess_mesh_axes(mesh), TESS_E_INVALID,
               "tess_spec: %d placements for a mesh of %d axes; each axis needs one", spec->n_axes,
               tess_mesh_axes(mesh));
    int64_t count = 1;
    for (int d = 0; d < shape->n_dims; d++)
        TESS_CHECK(shape->dim[d] >= 0 &&
                       !__builtin_mul_overflow(count, shape->dim[d] > 0 ? shape->dim[d] : 1, &count) &&
                       count <= INT64_MAX / 16,
                   TESS_E_INVALID, "tess_spec: dimension %d has %lld elements", d, (long long)shape->dim[d]);
    for (int a = 0; a < spec->n_axes; a++) {
        tess_place place = spec->place[a];
        const char *axis = tess_mesh_axis_name(mesh, a);
        TESS_CHECK(
            (unsigned)place.kind <= TESS_PARTIAL, TESS_E_INVALID,
            "tess_spec: axis '%s' has the unknown placement %d; choose TESS_REPLICATE, TESS_SHARD or TESS_PARTIAL",
            axis, (int)place.kind);
        TESS_CHECK(place.kind != TESS_SHARD || (place.dim >= 0 && place.dim < shape->n_dims), TESS_E_INVALID,
                   "tess_spec: axis '%s' cuts dimension %d of a tensor with %d dimensions", axis, place.dim,
                   shape->n_dims);
    }
    return TESS_OK;
}

int spec_stack(const tess_spec *spec, int dim, int stack[TESS_MESH_MAX_AXES])
{
    int n = 0;
    for (int a = 0; a < spec->n_axes; a++) {
        if (!place_is(spec->place[a], TESS_SHARD, dim))
            continue;
        int at = n++;
        for (; at > 0 && spec->order[stack[at - 1]] > spec->order[a]; at--)
            stack[at] = stack[at - 1];
        stack[at] = a;
    }
    return n;
}

tess_box tess_spec_box(const tess_spec *spec, const int *sizes, const int *at)
{
    tess_box box = {.begin = {0}};
    for (int d = 0; d < spec->shape.n_dims; d++) {
        int stack[TESS_MESH_MAX_AXES], n = spec_stack(spec, d, stack);
        box.size[d] = spec->shape.dim[d];
        for (int i = 0; i < n; i++) {
            int64_t begin, size;
            tess_shard_rows(box.size[d], sizes[stack[i]], at[stack[i]], &begin, &size);
            box.begin[d] += begin;
            box.size[d] = size;
        }
    }
    return box;
}

const char *tess_spec_format(const tess_spec *spec, char *text, size_t size)
{
    size_t at = tess_text_add(text, size, 0, "[");
    for (int a = 0; a < spec->n_axes; a++) {
        tess_place place = spec->place[a];
        at = tess_text_add(text, size, at, "%s", a > 0 ? ", " : "");
        if (place.kind == TESS_SHARD)
            at = tess_text_add(text, size, at, "Shard(%d)", place.dim);
        else
            at = tess_text_add(text, size, at, "%s", place.kind == TESS_PARTIAL ? "Partial" : "Replicate");
    }
    tess_text_add(text, size, at, "]");
    return text;
}
