/* Moves a tensor to other placements, one axis at a time. */
#include <string.h>

#include "base/os/os.h"
#include "comm/box_move.h"
#include "device/bf16.h"
#include "dtensor/dtensor_impl.h"

/* The arguments and the result of one move. */
typedef struct mover {
    const tess_dtensor *from;
    tess_dtensor *to;
    const tess_move *move;
    tess_team *team; /* the team along the move's axis */
    size_t bytes;    /* bytes received from other ranks */
} mover;

static size_t elements_of(const tess_dtensor *tensor)
{
    return (size_t)tess_box_count(tensor->spec.shape.n_dims, &tensor->box);
}

/* Describes `full` as pieces along dimension `dim`: one piece for each index of the dimensions before it. */
static tess_status make_pieces(const tess_dtensor *full, const tess_dtensor *shard, int dim, tess_piece **out,
                               size_t *n)
{
    size_t row = 1, n_pieces = 1;
    for (int d = 0; d < dim; d++)
        n_pieces *= (size_t)full->box.size[d];
    for (int d = dim + 1; d < full->spec.shape.n_dims; d++)
        row *= (size_t)full->box.size[d];
    tess_piece *pieces;
    TESS_TRY(TESS_NEW(full->mem, n_pieces, "pieces of a redistribution", &pieces));
    size_t n_rows = (size_t)full->box.size[dim], own = (size_t)shard->box.size[dim];
    for (size_t i = 0; i < n_pieces; i++)
        pieces[i] =
            (tess_piece){.offset = i * n_rows * row, .n_rows = n_rows, .row = row, .shard_offset = i * own * row};
    *out = pieces;
    *n = n_pieces;
    return TESS_OK;
}

static tess_status gather(mover *m)
{
    TESS_AUTO(tess_mem_drop) tess_piece *pieces = NULL;
    size_t n;
    TESS_TRY(make_pieces(m->to, m->from, m->move->from.dim, &pieces, &n));
    tess_dtype dtype = m->from->dtype;
    tess_status st = tess_all_gather_pieces(m->team, m->from->data, dtype, m->to->data, dtype, pieces, n, NULL);
    m->bytes = (elements_of(m->to) - elements_of(m->from)) * tess_dtype_size(dtype);
    return st;
}

static tess_status all_reduce(mover *m)
{
    size_t n = elements_of(m->from), size = (size_t)tess_team_size(m->team);
    TESS_TRY(tess_all_reduce(m->team, m->from->data, m->to->data, n, m->from->dtype, TESS_SUM, NULL));
    m->bytes = 2 * n * (size - 1) / size * tess_dtype_size(m->from->dtype);
    return TESS_OK;
}

/* Reduces and scatters integers, for which there is no reduce-scatter on pieces: sums everything, then slices. */
static tess_status sum_and_slice(mover *m)
{
    tess_dtensor sum = *m->from;
    size_t n = elements_of(m->from);
    TESS_TRY(tess_mem_alloc_array(m->to->mem, TESS_POOL_MISC, n, tess_dtype_size(m->from->dtype), "sums", &sum.data));
    mover whole = {.from = m->from, .to = &sum, .team = m->team};
    tess_status st = all_reduce(&whole);
    m->bytes = whole.bytes;
    if (st == TESS_OK)
        dtensor_copy_common(&sum, m->to);
    tess_mem_free(m->to->mem, sum.data);
    return st;
}

static tess_status reduce_scatter(mover *m)
{
    tess_dtype dtype = m->from->dtype;
    if (dtype > TESS_F16)
        return sum_and_slice(m);
    size_t n_pieces, n = elements_of(m->to);
    TESS_AUTO(tess_mem_drop) tess_piece *pieces = NULL;
    TESS_AUTO(tess_mem_drop) float *narrow = NULL;
    TESS_TRY(make_pieces(m->from, m->to, m->move->to.dim, &pieces, &n_pieces));
    if (dtype != TESS_F32)
        TESS_TRY(TESS_NEW(m->to->mem, n, "sums", &narrow));
    m->bytes = n * (size_t)(tess_team_size(m->team) - 1) * tess_dtype_size(dtype);
    TESS_TRY(tess_reduce_scatter_pieces(m->team, m->from->data, dtype, narrow != NULL ? narrow : m->to->data, pieces,
                                        n_pieces, false, NULL));
    for (size_t i = 0; narrow != NULL && i < n; i++)
        tess_put_float(m->to->data, dtype, i, narrow[i]);
    return TESS_OK;
}

/* Moves a shard from one dimension to another. */
static tess_status exchange(mover *m)
{
    mesh_point point = mesh_point_of(m->from->mesh);
    int size = tess_team_size(m->team);
    TESS_AUTO(tess_mem_drop) void *memory = NULL;
    TESS_TRY(tess_mem_alloc_array(m->to->mem, TESS_POOL_MISC, 2 * (size_t)size, sizeof(tess_box), "boxes", &memory));
    tess_box *had = memory, *gets = had + size;
    for (int r = 0; r < size; r++) {
        point.at[m->move->axis] = r;
        had[r] = tess_spec_box(&m->from->spec, point.sizes, point.at);
        gets[r] = tess_spec_box(&m->to->spec, point.sizes, point.at);
    }
    const tess_box_move move = {.n_dims = m->to->spec.shape.n_dims,
                                .element = tess_dtype_size(m->to->dtype),
                                .had = had,
                                .gets = gets,
                                .in = m->from->data,
                                .out = m->to->data};
    return tess_move_boxes(m->team, NULL, &move, &m->bytes);
}

/* Makes a replica or shard a partial value: this rank's addend. Of equal replicas only the first rank's is used. */
static void pad(mover *m)
{
    if (m->move->from.kind == TESS_SHARD || tess_team_rank(m->team) == 0)
        dtensor_copy_common(m->from, m->to);
}

static tess_status make_move(mover *m)
{
    switch (m->move->kind) {
    case TESS_MOVE_GATHER:
        return gather(m);
    case TESS_MOVE_REDUCE:
        return all_reduce(m);
    case TESS_MOVE_REDUCE_SCATTER:
        return reduce_scatter(m);
    case TESS_MOVE_EXCHANGE:
        return exchange(m);
    case TESS_MOVE_PAD:
        pad(m);
        return TESS_OK;
    case TESS_MOVE_SLICE:
        dtensor_copy_common(m->from, m->to);
        return TESS_OK;
    }
    return TESS_OK;
}

/* Makes one move. *out: `from` after the move. *bytes: bytes received from other ranks. */
static tess_status move_once(const tess_dtensor *from, const tess_move *move, size_t *bytes, tess_dtensor **out)
{
    const char *axis = tess_mesh_axis_name(from->mesh, move->axis);
    mover m = {.from = from, .move = move, .team = tess_mesh_team(from->mesh, axis)};
    tess_spec after = spec_after(&from->spec, move);
    TESS_TRY(dtensor_new(from->mesh, &after, from->dtype, &m.to));
    tess_status st = make_move(&m);
    if (st != TESS_OK) {
        tess_dtensor_destroy(&m.to);
        TESS_TRY_CTX(st, "%s over axis '%s'", tess_move_name(move->kind), axis);
    }
    *bytes = m.bytes;
    *out = m.to;
    return TESS_OK;
}

tess_status tess_dtensor_redistribute(const tess_dtensor *tensor, const tess_spec *to, tess_redistribution *report,
                                      tess_dtensor **out)
{
    TESS_CHECK(tensor != NULL && to != NULL && out != NULL, TESS_E_INVALID,
               "tess_dtensor_redistribute: a NULL argument");
    TESS_TRY(tess_spec_check(to, tensor->mesh));
    char is[128], wanted[128];
    TESS_CHECK(tess_shape_equal(&to->shape, &tensor->spec.shape), TESS_E_INVALID,
               "tess_dtensor_redistribute: the tensor has shape %s, the target %s",
               tess_shape_format(&tensor->spec.shape, is, sizeof(is)),
               tess_shape_format(&to->shape, wanted, sizeof(wanted)));
    mesh_point point = mesh_point_of(tensor->mesh);
    tess_redistribution done = {.n_moves = 0};
    done.n_moves = tess_spec_moves(&tensor->spec, to, point.sizes, point.at, done.moves);

    tess_dtensor *now = NULL; /* NULL: still the caller's tensor */
    for (int i = 0; i < done.n_moves; i++) {
        tess_dtensor *next = NULL;
        double begin = tess_os_now_s();
        tess_status st = move_once(now != NULL ? now : tensor, &done.moves[i], &done.bytes[i], &next);
        done.seconds[i] = tess_os_now_s() - begin;
        tess_dtensor_destroy(&now);
        TESS_TRY(st);
        now = next;
    }
    if (now == NULL) {
        TESS_TRY(dtensor_new(tensor->mesh, &tensor->spec, tensor->dtype, &now));
        memcpy(now->data, tensor->data, dtensor_bytes(tensor));
    }
    memcpy(now->spec.order, to->order, sizeof(to->order));
    if (report != NULL)
        *report = done;
    *out = now;
    return TESS_OK;
}

tess_status tess_dtensor_full(const tess_dtensor *tensor, void *full)
{
    TESS_CHECK(tensor != NULL && full != NULL, TESS_E_INVALID, "tess_dtensor_full: a NULL argument");
    tess_spec whole = {.shape = tensor->spec.shape, .n_axes = tensor->spec.n_axes};
    tess_dtensor *gathered;
    TESS_TRY(tess_dtensor_redistribute(tensor, &whole, NULL, &gathered));
    memcpy(full, gathered->data, dtensor_bytes(gathered));
    tess_dtensor_destroy(&gathered);
    return TESS_OK;
}
