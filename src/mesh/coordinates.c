#include "mesh/coordinates.h"

#include "mesh/mesh_impl.h"

/* Computes the places that follow from those along the axes. */
static void count_places(tess_coordinates *at)
{
    at->n_data = at->n_parts = 1;
    for (int axis = 0; axis < TESS_AXES; axis++) {
        const bool is_data = tess_axis_kind_of(axis) == TESS_AXIS_OF_BATCH;
        int *number = is_data ? &at->data : &at->part, *n = is_data ? &at->n_data : &at->n_parts;
        *number = *number * at->degree[axis] + at->place[axis];
        *n *= at->degree[axis];
    }
}

tess_coordinates tess_coordinates_in(const tess_mesh_layout *layout, int rank)
{
    tess_coordinates at = {.rank = rank, .world = layout->size};
    int place[TESS_MESH_MAX_AXES] = {0};
    tess_mesh_layout_coordinates(layout, rank, place);
    for (int axis = 0; axis < TESS_AXES; axis++) {
        int a = 0;
        while (a < layout->n_axes && tess_axis_find(layout->names[a]) != axis)
            a++;
        at.place[axis] = a < layout->n_axes ? place[a] : 0;
        at.degree[axis] = a < layout->n_axes ? layout->sizes[a] : 1;
    }
    count_places(&at);
    return at;
}

tess_coordinates tess_coordinates_of(const tess_mesh *mesh, int rank)
{
    return tess_coordinates_in(&mesh->grid, rank);
}

tess_coordinates tess_coordinates_by(const int degrees[TESS_AXES], int rank)
{
    tess_coordinates at = {.rank = rank};
    int64_t world =
        (int64_t)tess_axes_ranks(degrees, TESS_AXIS_OF_BATCH) * tess_axes_ranks(degrees, TESS_AXIS_OF_MODEL);
    at.world = (int)(world < INT32_MAX ? world : INT32_MAX);
    for (int axis = TESS_AXES - 1, left = rank; axis >= 0; axis--) {
        at.degree[axis] = degrees[axis];
        at.place[axis] = left % degrees[axis];
        left /= degrees[axis];
    }
    count_places(&at);
    return at;
}

bool tess_coordinates_counts(const tess_coordinates *at)
{
    for (int axis = 0; axis < TESS_AXES; axis++)
        if (axis != TESS_AXIS_PP && tess_axis_kind_of(axis) == TESS_AXIS_OF_MODEL && at->place[axis] > 0)
            return false;
    return true;
}

int64_t tess_coordinates_micro(const tess_coordinates *at, int64_t k)
{
    const tess_shares shares = tess_axes_shares(at->degree);
    return tess_shares_index(&shares, at->data, k);
}

int64_t tess_coordinates_rounds(const tess_coordinates *at, int64_t n)
{
    const tess_shares shares = tess_axes_shares(at->degree);
    return tess_shares_rounds(&shares, n);
}

int tess_coordinates_first(const tess_mesh *mesh, int data)
{
    int rank = 0;
    while (rank < mesh->grid.size - 1 && tess_coordinates_of(mesh, rank).data != data)
        rank++;
    return rank;
}

int tess_axis_stride(const int degrees[TESS_AXES], int axis)
{
    int stride = 1;
    for (int a = axis + 1; a < TESS_AXES; a++)
        stride *= degrees[a];
    return stride;
}
