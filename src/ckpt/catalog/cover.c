/* Finds overlaps of boxes and gaps between them, in n log n time for every regular cut: rows, columns, grids, ragged
 * chunks. */
#include <stdlib.h>
#include <string.h>

#include "ckpt/catalog/cover.h"

#include "base/mem/scoped.h"

/* Boxes that cannot be separated along any dimension are compared in pairs, up to a number that takes negligible
 * time. */
enum { PAIRS_MAX = 2048, DEPTH_MAX = 64 };

typedef struct overlap_search {
    int n_dims;
    const tess_catalog_piece *a, *b; /* the two pieces that overlap, once found */
} overlap_search;

static int compare_begin(const void *x, const void *y, void *context)
{
    const tess_catalog_piece *a = *(const tess_catalog_piece *const *)x, *b = *(const tess_catalog_piece *const *)y;
    int dim = *(const int *)context;
    return a->box.begin[dim] < b->box.begin[dim] ? -1 : a->box.begin[dim] > b->box.begin[dim];
}

static tess_status compare_pairs(overlap_search *s, const tess_catalog_piece **pieces, size_t n)
{
    TESS_CHECK(n <= PAIRS_MAX || s->n_dims == 0, TESS_E_UNSUPPORTED,
               "%zu pieces of a tensor are cut too irregularly to be sure that they do not overlap", n);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = i + 1; k < n; k++) {
            if (!tess_box_meet(s->n_dims, &pieces[i]->box, &pieces[k]->box, NULL))
                continue;
            s->a = pieces[i];
            s->b = pieces[k];
            return TESS_OK;
        }
    }
    return TESS_OK;
}

/* Sorts boxes along a dimension and splits them into groups that do not touch. Then searches each group along the next
 * dimension. `tried`: number of dimensions along which this group could not be split. */
static tess_status search_overlap(overlap_search *s, const tess_catalog_piece **pieces, size_t n, int dim, int tried,
                                  int depth)
{
    if (n < 2)
        return TESS_OK;
    if (tried == s->n_dims || depth == DEPTH_MAX)
        return compare_pairs(s, pieces, n);
    qsort_r(pieces, n, sizeof(pieces[0]), compare_begin, &dim);
    for (size_t first = 0, i = 0; first < n && s->a == NULL; first = i) {
        int64_t end = pieces[first]->box.begin[dim] + pieces[first]->box.size[dim];
        for (i = first + 1; i < n && pieces[i]->box.begin[dim] < end; i++) {
            int64_t other = pieces[i]->box.begin[dim] + pieces[i]->box.size[dim];
            end = other > end ? other : end;
        }
        bool whole = i - first == n;
        TESS_TRY(search_overlap(s, pieces + first, i - first, (dim + 1) % s->n_dims, whole ? tried + 1 : 1, depth + 1));
    }
    return TESS_OK;
}

static tess_status list_pieces(tess_mem *mem, const tess_catalog_piece *pieces, int n, const tess_catalog_piece ***list)
{
    TESS_TRY(TESS_NEW(mem, n, "pieces of a tensor", list));
    for (int i = 0; i < n; i++)
        (*list)[i] = &pieces[i];
    return TESS_OK;
}

tess_status tess_boxes_overlap(tess_mem *mem, int n_dims, const tess_catalog_piece *pieces, int n, int *a, int *b)
{
    overlap_search s = {.n_dims = n_dims};
    TESS_AUTO(tess_mem_drop) const tess_catalog_piece **list = NULL;
    *a = *b = -1;
    if (n < 2)
        return TESS_OK;
    TESS_TRY(list_pieces(mem, pieces, n, &list));
    TESS_TRY(search_overlap(&s, list, (size_t)n, 0, 0, 0));
    if (s.a != NULL) {
        *a = (int)(s.a - pieces);
        *b = (int)(s.b - pieces);
    }
    return TESS_OK;
}

/* A position along a dimension where a piece begins or ends, and by how much the number of covered elements changes
 * there. */
typedef struct cover_edge {
    int64_t at, change;
} cover_edge;

typedef struct gap_search {
    int n_dims;
    const tess_box *box;
    const tess_catalog_piece **pieces; /* the pieces that contain the coordinates of the missing element found so far */
    int n;
    cover_edge *edges;
} gap_search;

static int compare_edges(const void *x, const void *y)
{
    const cover_edge *a = x, *b = y;
    return a->at < b->at ? -1 : a->at > b->at;
}

static size_t list_edges(gap_search *s, int dim)
{
    size_t n = 0;
    for (int i = 0; i < s->n; i++) {
        tess_box common;
        int64_t section = 1;
        tess_box_meet(s->n_dims, &s->pieces[i]->box, s->box, &common);
        for (int d = dim + 1; d < s->n_dims; d++)
            section *= common.size[d];
        s->edges[n++] = (cover_edge){common.begin[dim], section};
        s->edges[n++] = (cover_edge){common.begin[dim] + common.size[dim], -section};
    }
    qsort(s->edges, n, sizeof(s->edges[0]), compare_edges);
    return n;
}

/* Returns the first position along the dimension where the pieces do not cover the box's cross-section. There must be
 * one. */
static int64_t first_thin_place(gap_search *s, int dim)
{
    size_t n = list_edges(s, dim), i = 0;
    int64_t at = s->box->begin[dim], present = 0, full = 1;
    for (int d = dim + 1; d < s->n_dims; d++)
        full *= s->box->size[d];
    for (;;) {
        while (i < n && s->edges[i].at == at)
            present += s->edges[i++].change;
        if (present < full || i == n)
            return at;
        at = s->edges[i].at;
    }
}

static void select_pieces_at(gap_search *s, int dim, int64_t at)
{
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        const tess_box *box = &s->pieces[i]->box;
        if (box->begin[dim] <= at && at < box->begin[dim] + box->size[dim])
            s->pieces[n++] = s->pieces[i];
    }
    s->n = n;
}

static int64_t count_present(int n_dims, const tess_catalog_piece *pieces, int n, const tess_box *box)
{
    int64_t present = 0;
    for (int i = 0; i < n; i++) {
        tess_box common;
        if (tess_box_meet(n_dims, &pieces[i].box, box, &common))
            present += tess_box_count(n_dims, &common);
    }
    return present;
}

/* Lists the pieces that intersect the box. */
static tess_status list_present(tess_mem *mem, gap_search *s, const tess_catalog_piece *pieces, int n)
{
    TESS_TRY(list_pieces(mem, pieces, n, &s->pieces));
    for (int i = 0; i < n; i++)
        if (tess_box_meet(s->n_dims, &pieces[i].box, s->box, NULL))
            s->pieces[s->n++] = &pieces[i];
    return TESS_NEW(mem, 2 * (size_t)s->n, "edges of pieces", &s->edges);
}

tess_status tess_boxes_first_missing(tess_mem *mem, int n_dims, const tess_catalog_piece *pieces, int n,
                                     const tess_box *box, bool *missing, int64_t at[TESS_CATALOG_DIMS])
{
    gap_search s = {.n_dims = n_dims, .box = box};
    *missing = count_present(n_dims, pieces, n, box) < tess_box_count(n_dims, box);
    if (!*missing)
        return TESS_OK;
    tess_status status = list_present(mem, &s, pieces, n);
    for (int d = 0; d < n_dims && status == TESS_OK; d++) {
        at[d] = first_thin_place(&s, d);
        select_pieces_at(&s, d, at[d]);
    }
    tess_mem_free(mem, s.edges);
    tess_mem_free(mem, s.pieces);
    return status;
}
