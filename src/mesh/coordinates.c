#include "mesh/coordinates.h"

tess_coordinates tess_coordinates_by(const int degrees[TESS_AXES], int rank)
{
    tess_coordinates at = {.rank = rank,
                           .n_data = tess_axes_ranks(degrees, TESS_AXIS_OF_BATCH),
                           .n_parts = tess_axes_ranks(degrees, TESS_AXIS_OF_MODEL)};
    at.n_experts = 1;
    at.n_shards = degrees[TESS_AXIS_SHARD] * degrees[TESS_AXIS_CP];
    const int64_t world = (int64_t)at.n_data * at.n_parts;
    at.world = (int)(world < INT32_MAX ? world : INT32_MAX);
    for (int axis = TESS_AXES - 1, left = rank; axis >= 0; axis--) {
        at.degree[axis] = degrees[axis];
        at.place[axis] = left % degrees[axis];
        left /= degrees[axis];
    }
    at.shard = at.place[TESS_AXIS_SHARD] * at.degree[TESS_AXIS_CP] + at.place[TESS_AXIS_CP];
    for (int axis = 0; axis < TESS_AXES; axis++) {
        int *number = tess_axis_kind_of(axis) == TESS_AXIS_OF_BATCH ? &at.data : &at.part;
        *number = *number * at.degree[axis] + at.place[axis];
    }
    return at;
}

tess_coordinates tess_coordinates_of(const tess_parallelism_section *parallelism, int rank)
{
    int degrees[TESS_AXES];
    tess_axes_degrees(parallelism, degrees);
    tess_coordinates at = tess_coordinates_by(degrees, rank);
    if (parallelism->expert_parallel_degree > 1)
        at.n_experts = (int)parallelism->expert_parallel_degree;
    at.expert = rank % at.n_experts;
    return at;
}

bool tess_coordinates_counts(const tess_coordinates *at)
{
    for (int axis = 0; axis < TESS_AXES; axis++)
        if (axis != TESS_AXIS_PP && axis != TESS_AXIS_CP && tess_axis_kind_of(axis) == TESS_AXIS_OF_MODEL &&
            at->place[axis] > 0)
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

int tess_coordinates_first(const tess_coordinates *at, int data)
{
    return data * tess_axis_stride(at->degree, TESS_AXIS_SHARD);
}

int tess_axis_stride(const int degrees[TESS_AXES], int axis)
{
    int stride = 1;
    for (int a = axis + 1; a < TESS_AXES; a++)
        stride *= degrees[a];
    return stride;
}
