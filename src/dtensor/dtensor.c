/* Creates distributed tensors from parts, from a whole tensor, or of zeros, and answers questions about them. */
#include <string.h>

#include "base/mem/scoped.h"
#include "comm/box_move.h"
#include "dtensor/dtensor_impl.h"

mesh_point mesh_point_of(const tess_mesh *mesh)
{
    mesh_point point = {.sizes = {0}};
    for (int a = 0; a < tess_mesh_axes(mesh); a++) {
        point.sizes[a] = tess_mesh_axis_size(mesh, a);
        point.at[a] = tess_mesh_coordinate(mesh, a);
    }
    return point;
}

size_t dtensor_bytes(const tess_dtensor *tensor)
{
    return (size_t)tess_box_count(tensor->spec.shape.n_dims, &tensor->box) * tess_dtype_size(tensor->dtype);
}

void dtensor_copy_common(const tess_dtensor *from, tess_dtensor *to)
{
    int n_dims = from->spec.shape.n_dims;
    tess_box common;
    if (tess_box_meet(n_dims, &from->box, &to->box, &common))
        tess_box_copy(n_dims, tess_dtype_size(from->dtype), &common, &from->box, from->data, &to->box, to->data);
}

tess_status dtensor_new(tess_mesh *mesh, const tess_spec *spec, tess_dtype dtype, tess_dtensor **out)
{
    tess_mem *mem = tess_runtime_mem(tess_team_runtime(tess_mesh_all(mesh)));
    mesh_point point = mesh_point_of(mesh);
    TESS_AUTO(tess_dtensor_destroy) tess_dtensor *tensor = NULL;
    *out = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "dtensor", &tensor));
    *tensor = (tess_dtensor){.mesh = mesh, .mem = mem, .spec = *spec, .dtype = dtype};
    tensor->box = tess_spec_box(spec, point.sizes, point.at);
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, dtensor_bytes(tensor), "elements of a dtensor", &tensor->data));
    *out = TESS_GIVE(tensor);
    return TESS_OK;
}

void tess_dtensor_destroy(tess_dtensor **tensor)
{
    if (tensor == NULL || *tensor == NULL)
        return;
    tess_mem_free((*tensor)->mem, (*tensor)->data);
    tess_mem_drop(tensor);
}

tess_status tess_dtensor_create(tess_mesh *mesh, const tess_spec *spec, tess_dtype dtype, tess_dtensor **out)
{
    TESS_CHECK(out != NULL, TESS_E_INVALID, "tess_dtensor_create: a NULL argument");
    TESS_TRY(tess_spec_check(spec, mesh));
    TESS_CHECK((unsigned)dtype < TESS_DTYPE_COUNT, TESS_E_INVALID, "tess_dtensor_create: %d is no dtype", (int)dtype);
    return dtensor_new(mesh, spec, dtype, out);
}

/* ---- Creation from each rank's part ---- */

/* Computes the whole shape from all ranks' parts. In dimension d it adds the extents of ranks that hold different
 * chunks of d: those whose coordinates on all other axes are 0. */
static tess_shape infer_shape(const tess_mesh *mesh, const tess_spec *spec, const tess_shape *shapes, int n_ranks)
{
    tess_shape whole = {.n_dims = shapes[0].n_dims};
    for (int rank = 0; rank < n_ranks; rank++) {
        int at[TESS_MESH_MAX_AXES];
        tess_mesh_coordinates(mesh, rank, at);
        for (int d = 0; d < whole.n_dims; d++) {
            bool counts = true;
            for (int a = 0; a < spec->n_axes; a++)
                counts &= at[a] == 0 || place_is(spec->place[a], TESS_SHARD, d);
            whole.dim[d] += counts ? shapes[rank].dim[d] : 0;
        }
    }
    return whole;
}

static tess_status check_locals(const tess_mesh *mesh, const tess_spec *spec, const tess_shape *shapes, int n_ranks)
{
    mesh_point point = mesh_point_of(mesh);
    char whole[128], is[128], wanted[128], placements[256];
    for (int rank = 0; rank < n_ranks; rank++) {
        TESS_TRY(tess_mesh_coordinates(mesh, rank, point.at));
        tess_box box = tess_spec_box(spec, point.sizes, point.at);
        tess_shape chunk = {.n_dims = spec->shape.n_dims};
        memcpy(chunk.dim, box.size, sizeof(chunk.dim));
        TESS_CHECK(
            tess_shape_equal(&shapes[rank], &chunk), TESS_E_INVALID,
            "tess_dtensor_from_local: rank %d has shape %s, but of a tensor %s with %s its chunk is %s", rank,
            tess_shape_format(&shapes[rank], is, sizeof(is)), tess_shape_format(&spec->shape, whole, sizeof(whole)),
            tess_spec_format(spec, placements, sizeof(placements)), tess_shape_format(&chunk, wanted, sizeof(wanted)));
    }
    return TESS_OK;
}

tess_status tess_dtensor_from_local(tess_mesh *mesh, const tess_shape *shape, const tess_place *place, tess_dtype dtype,
                                    const void *local, tess_dtensor **out)
{
    TESS_CHECK(mesh != NULL && shape != NULL && place != NULL && out != NULL, TESS_E_INVALID,
               "tess_dtensor_from_local: a NULL argument");
    TESS_CHECK((unsigned)dtype < TESS_DTYPE_COUNT, TESS_E_INVALID, "tess_dtensor_from_local: %d is no dtype",
               (int)dtype);
    tess_team *all = tess_mesh_all(mesh);
    int n_ranks = tess_team_size(all);
    tess_mem *mem = tess_runtime_mem(tess_team_runtime(all));
    tess_spec spec = {.shape = *shape, .n_axes = tess_mesh_axes(mesh)};
    memcpy(spec.place, place, (size_t)spec.n_axes * sizeof(place[0]));
    TESS_TRY(tess_spec_check(&spec, mesh));

    tess_shape *shapes;
    TESS_TRY(TESS_NEW(mem, n_ranks, "local shapes", &shapes));
    tess_status st = tess_all_gather(all, shape, shapes, sizeof(*shape), TESS_U8, NULL);
    if (st == TESS_OK) {
        spec.shape = infer_shape(mesh, &spec, shapes, n_ranks);
        st = check_locals(mesh, &spec, shapes, n_ranks);
    }
    tess_mem_free(mem, shapes);
    TESS_TRY(st);
    TESS_TRY(dtensor_new(mesh, &spec, dtype, out));
    if (dtensor_bytes(*out) > 0)
        memcpy((*out)->data, local, dtensor_bytes(*out));
    return TESS_OK;
}

/* ---- Creation from a whole tensor ---- */

/* Distributes the whole tensor. The first rank sends chunks to the ranks that are first on every axis that does not
 * cut. These broadcast them along those axes. */
static tess_status send_chunks(tess_dtensor *tensor, const void *full)
{
    const tess_spec *spec = &tensor->spec;
    tess_team *all = tess_mesh_all(tensor->mesh);
    int n_ranks = tess_team_size(all);
    mesh_point point = mesh_point_of(tensor->mesh);
    TESS_AUTO(tess_mem_drop) void *memory = NULL;
    TESS_TRY(
        tess_mem_alloc_array(tensor->mem, TESS_POOL_MISC, 2 * (size_t)n_ranks, sizeof(tess_box), "boxes", &memory));
    /* A scalar is sent as a row of one element, since a box without dimensions could not be empty. */
    int n_dims = spec->shape.n_dims > 0 ? spec->shape.n_dims : 1;
    tess_box *had = memory, *gets = had + n_ranks;
    for (int rank = 0; rank < n_ranks; rank++) {
        TESS_TRY(tess_mesh_coordinates(tensor->mesh, rank, point.at));
        bool first = true;
        for (int a = 0; a < spec->n_axes; a++)
            first &= spec->place[a].kind == TESS_SHARD || point.at[a] == 0;
        if (first)
            gets[rank] = tess_spec_box(spec, point.sizes, point.at);
        if (first && spec->shape.n_dims == 0)
            gets[rank].size[0] = 1;
    }
    memcpy(had[0].size, spec->shape.dim, sizeof(had[0].size));
    if (spec->shape.n_dims == 0)
        had[0].size[0] = 1;
    const tess_box_move move = {.n_dims = n_dims,
                                .element = tess_dtype_size(tensor->dtype),
                                .had = had,
                                .gets = gets,
                                .in = full,
                                .out = tensor->data};
    size_t bytes;
    return tess_move_boxes(all, NULL, &move, &bytes);
}

tess_status tess_dtensor_distribute(tess_mesh *mesh, const tess_spec *spec, tess_dtype dtype, const void *full,
                                    tess_dtensor **out)
{
    TESS_AUTO(tess_dtensor_destroy) tess_dtensor *tensor = NULL;
    *out = NULL;
    TESS_TRY(tess_dtensor_create(mesh, spec, dtype, &tensor));
    TESS_TRY(send_chunks(tensor, full));
    for (int a = 0; a < spec->n_axes; a++)
        if (spec->place[a].kind == TESS_REPLICATE)
            TESS_TRY(tess_broadcast(tess_mesh_team(mesh, tess_mesh_axis_name(mesh, a)), tensor->data,
                                    dtensor_bytes(tensor), TESS_U8, 0, NULL));
    *out = TESS_GIVE(tensor);
    return TESS_OK;
}

/* ---- Properties ---- */
void *tess_dtensor_local(tess_dtensor *tensor)
{
    return tensor->data;
}

const tess_box *tess_dtensor_box(const tess_dtensor *tensor)
{
    return &tensor->box;
}

const tess_spec *tess_dtensor_spec(const tess_dtensor *tensor)
{
    return &tensor->spec;
}

tess_dtype tess_dtensor_dtype(const tess_dtensor *tensor)
{
    return tensor->dtype;
}
