/* Decides which part of a parameter belongs to which rank, and where its rows lie: in the shard that this rank owns, in
 * the gathered copy, in the gradient window.
 *
 * Shards are packed without gaps, so that the shards of all ranks hold exactly the elements of the model. In gathered
 * copies and windows each parameter begins on a cache line, for the kernels that read it. */
#include "base/core/round_up.h"
#include "parallel/fsdp/fsdp_impl.h"

#include <string.h>

#include "base/core/flat.h"
#include "base/mem/scoped.h"

enum { LINE_ELEMENTS = 64 / 2 }; /* elements of the narrowest dtype in a cache line */

/* Returns the bytes of rows in the gathered copy, rounded up to the place where the next parameter may begin. */
static size_t copy_bytes(const tess_fsdp_param *p, int64_t rows)
{
    return tess_round_up((size_t)rows * tess_fsdp_row_bytes(p), LINE_ELEMENTS * tess_dtype_size(p->form->reads));
}

/* Units of a family whose sizes are within a factor of two share memory: this needs few slots, and none is more than
 * twice as large as necessary. */
static int size_class_of(const tess_fsdp_family *family, size_t bytes)
{
    return 64 * family->index + (bytes > 0 ? 63 - __builtin_clzll(bytes) : 0);
}

/* Returns the part of a parameter that one of n ranks has, if ranks cut it. */
static tess_box cut_part(const tess_fsdp_param *p, int n, int rank)
{
    const tess_shape shape = tess_shape_atleast_1d(&p->shape);
    tess_box box = tess_box_whole(&shape);
    if (p->tp.kind != TESS_SHARD)
        return box;
    const tess_shares shares = tess_shares_equal(n);
    int64_t *begin = &box.begin[p->tp.dim], *size = &box.size[p->tp.dim];
    tess_shares_rows(&shares, *size / p->tp.unit, rank, begin, size);
    *begin *= p->tp.unit;
    *size *= p->tp.unit;
    return box;
}

tess_box tess_fsdp_part(const tess_fsdp *fsdp, const tess_fsdp_param *p, int tp)
{
    return cut_part(p, fsdp->topology.n_tp, tp);
}

/* Returns this rank's part. In a family apart, neighbouring data ranks have other parts, too. */
static tess_box own_part(const tess_fsdp *fsdp, const tess_fsdp_family *family, const tess_fsdp_param *p)
{
    const tess_fsdp_topology *t = &fsdp->topology;
    const int parts = family->teams.apart ? family->teams.parts : 1;
    return cut_part(p, parts * t->n_tp, t->data % parts * t->n_tp + t->tp);
}

/* Reduces the box to the rows that rank `rank` of n holds. */
static void divide(tess_box *box, int n, int rank)
{
    const tess_shares shares = tess_shares_equal(n);
    int64_t begin;
    tess_shares_rows(&shares, box->size[0], rank, &begin, &box->size[0]);
    box->begin[0] += begin;
}

/* Returns this rank's rows of its part. The shard axis splits the part if the strategy shards it; then the replicas
 * split the result. */
static tess_box box_of(const tess_fsdp_teams *teams, const tess_fsdp_param *p, tess_place_kind shards,
                       tess_place_kind replicas)
{
    tess_box box = p->part;
    if (shards == TESS_SHARD)
        divide(&box, teams->n_shards, teams->shard);
    if (replicas == TESS_SHARD)
        divide(&box, teams->n_replicas, teams->replica);
    return box;
}

int64_t tess_fsdp_element(const tess_fsdp_param *p, const tess_box *box, int64_t index)
{
    const tess_shape shape = tess_shape_atleast_1d(&p->shape);
    const tess_box whole = tess_box_whole(&shape);
    tess_box element;
    tess_flat_slice(shape.n_dims, box, index, 1, &element);
    return tess_flat_offset(shape.n_dims, &whole, &element);
}

/* Returns the box that this rank is primary for. If all tp ranks hold the same parameter, each of them is primary
 * for some rows. */
static tess_box primary_of(const tess_unit *unit, const tess_fsdp_param *p)
{
    tess_box box = box_of(&unit->family->teams, p, TESS_SHARD, TESS_SHARD);
    if (p->elsewhere)
        box.size[0] = 0;
    if (p->tp.kind != TESS_SHARD && !unit->family->teams.apart)
        divide(&box, unit->fsdp->topology.n_tp, unit->fsdp->topology.tp);
    return box;
}

static void place_param(const tess_fsdp *fsdp, tess_unit *unit, tess_fsdp_param *p)
{
    p->part = own_part(fsdp, unit->family, p);
    p->rows = p->part.size[0];
    p->row = 1;
    for (int d = 1; d < p->shape.n_dims; d++)
        p->row *= p->part.size[d];
    p->own = box_of(&unit->family->teams, p, TESS_SHARD, TESS_REPLICATE);
    p->held = unit->family->facts.replicated && !p->narrow ? p->part : p->own;
    p->primary = primary_of(unit, p);

    p->full_at = unit->layout.full_bytes;
    unit->layout.full_bytes += copy_bytes(p, p->rows);
    p->codes_at = unit->layout.codes_bytes;
    unit->layout.codes_bytes += unit->layout.coded ? copy_bytes(p, p->own.size[0]) : 0;
    p->master_offset = unit->layout.master_elements;
    unit->layout.master_elements += p->narrow ? 0 : (size_t)(p->held.size[0] * p->row);
    if (!p->trainable)
        return;
    p->window_offset = unit->layout.window_elements;
    unit->layout.window_elements += tess_round_up((size_t)(p->rows * p->row), LINE_ELEMENTS);
    p->accumulator_offset = unit->layout.own_elements;
    unit->layout.own_elements += (size_t)(p->own.size[0] * p->row);
    p->gradient_offset = unit->layout.gradient_elements;
    unit->layout.gradient_elements += (size_t)(p->held.size[0] * p->row);
}

/* Sums are whole, or the replicas divide them as rows of one element. */
static void divide_sums(tess_unit *unit)
{
    const tess_fsdp_teams *teams = &unit->family->teams;
    const int64_t n = (int64_t)unit->layout.own_elements;
    int64_t begin = 0, size = n;
    unit->layout.n_gradient_pieces = unit->n_trainable;
    if (unit->family->facts.divides && unit->n_trainable > 0) {
        tess_shard_rows(n, teams->n_replicas, teams->replica, &begin, &size);
        unit->layout.gradient_pieces[0] = (tess_piece){.n_rows = (size_t)n, .row = 1};
        unit->layout.n_gradient_pieces = 1;
    }
    unit->sums.begin = (size_t)begin;
    unit->sums.elements = (size_t)size;
}

tess_status tess_fsdp_layout_make(tess_unit *unit)
{
    tess_fsdp *fsdp = unit->fsdp;
    for (int i = 0; i < unit->n_params; i++)
        place_param(fsdp, unit, &unit->params[i]);

    TESS_TRY(TESS_PART(unit, unit->n_params, "gather pieces", &unit->layout.gather_pieces));
    TESS_TRY(TESS_PART(unit, unit->n_trainable, "reduce pieces", &unit->layout.reduce_pieces));
    TESS_TRY(TESS_PART(unit, unit->n_trainable, "gradient pieces", &unit->layout.gradient_pieces));
    for (int i = 0, k = 0; i < unit->n_params; i++) {
        const tess_fsdp_param *p = &unit->params[i];
        size_t rows = (size_t)p->rows, row = (size_t)p->row;
        size_t before_own = (size_t)(p->own.begin[0] - p->held.begin[0]) * row;
        unit->layout.gather_pieces[i] =
            unit->layout.coded ? (tess_piece){.offset = p->full_at,
                                              .n_rows = rows,
                                              .row = tess_fsdp_row_bytes(p),
                                              .shard_offset = p->codes_at}
                               : (tess_piece){.offset = p->full_at / tess_dtype_size(fsdp->policy.param_dtype),
                                              .n_rows = rows,
                                              .row = row,
                                              .shard_offset = p->master_offset + before_own};
        if (!p->trainable)
            continue;
        unit->layout.reduce_pieces[k] =
            (tess_piece){.offset = p->window_offset, .n_rows = rows, .row = row, .shard_offset = p->accumulator_offset};
        unit->layout.gradient_pieces[k] = (tess_piece){
            .offset = p->gradient_offset, .n_rows = rows, .row = row, .shard_offset = p->accumulator_offset};
        k++;
    }
    divide_sums(unit);
    unit->layout.full_class = size_class_of(unit->family, unit->layout.full_bytes);
    unit->layout.window_class = size_class_of(unit->family, unit->layout.window_elements * sizeof(float));
    return TESS_OK;
}

tess_fsdp_class tess_fsdp_windows_of(const tess_fsdp *fsdp, int size_class)
{
    tess_fsdp_class c = {0};
    for (int u = 0; u < fsdp->n_units; u++) {
        const tess_fsdp_layout *layout = &fsdp->units[u]->layout;
        c.n += layout->window_class == size_class;
        if (layout->window_class == size_class && layout->window_elements > c.largest)
            c.largest = layout->window_elements;
    }
    return c;
}

tess_fsdp_class tess_fsdp_copies_of(const tess_fsdp *fsdp, int size_class)
{
    tess_fsdp_class c = {0};
    for (int u = 0; u < fsdp->n_units; u++) {
        const tess_fsdp_layout *layout = &fsdp->units[u]->layout;
        c.n += layout->full_class == size_class;
        if (layout->full_class == size_class && layout->full_bytes > c.largest)
            c.largest = layout->full_bytes;
    }
    return c;
}
