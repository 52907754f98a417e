/* Finishes a catalog: sorts tensors, pieces and ranges, and checks that no pieces overlap. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem/scoped.h"
#include "base/text/text.h"
#include "ckpt/catalog/catalog_impl.h"

/* An entry of the sort of pieces by tensor, then box. The arrays themselves are reordered afterwards. */
typedef struct finish_item {
    int tensor, piece;
} finish_item;

static int compare_tensors(const void *a, const void *b, void *context)
{
    const tess_catalog *c = context;
    return strcmp(c->tensors[*(const int *)a].name, c->tensors[*(const int *)b].name);
}

static int compare_pieces(const void *a, const void *b, void *context)
{
    const tess_catalog *c = context;
    const finish_item *x = a, *y = b;
    if (x->tensor != y->tensor)
        return x->tensor < y->tensor ? -1 : 1;
    const tess_box *p = &c->pieces[x->piece].box, *q = &c->pieces[y->piece].box;
    for (int d = 0; d < TESS_CATALOG_DIMS; d++)
        if (p->begin[d] != q->begin[d])
            return p->begin[d] < q->begin[d] ? -1 : 1;
    return x->piece < y->piece ? -1 : x->piece > y->piece;
}

/* Reorders an array: the new item i is the old item from[i * step]. */
static tess_status reorder(tess_catalog *c, void **array, size_t n, size_t size, const int *from, size_t step)
{
    char *sorted;
    TESS_TRY(tess_scope_alloc(tess_scope_of(c), TESS_POOL_MISC, n, size, "catalog", (void **)&sorted));
    for (size_t i = 0; i < n; i++)
        memcpy(sorted + i * size, (const char *)*array + (size_t)from[i * step] * size, size);
    tess_mem_free(c->mem, *array);
    *array = sorted;
    return TESS_OK;
}

/* Sorts tensors by name, and updates the tensor index of each piece. */
static tess_status sort_tensors(tess_catalog *c)
{
    int *place;
    TESS_AUTO(tess_mem_drop) int *order = NULL;
    size_t n = (size_t)c->n_tensors;
    TESS_TRY(TESS_NEW(c->mem, 2 * n, "catalog", &order));
    place = order + n;
    for (size_t i = 0; i < n; i++)
        order[i] = (int)i;
    if (n > 1)
        qsort_r(order, n, sizeof(order[0]), compare_tensors, c);
    for (size_t i = 0; i < n; i++)
        place[order[i]] = (int)i;
    TESS_TRY(reorder(c, (void **)&c->tensors, n, sizeof(c->tensors[0]), order, 1));
    for (int i = 0; i < c->n_pieces; i++)
        c->impl->owner[i] = place[c->impl->owner[i]];
    return TESS_OK;
}

static tess_status sort_pieces(tess_catalog *c)
{
    TESS_AUTO(tess_mem_drop) finish_item *items = NULL;
    size_t n = (size_t)c->n_pieces;
    TESS_TRY(TESS_NEW(c->mem, n, "catalog", &items));
    for (size_t i = 0; i < n; i++)
        items[i] = (finish_item){c->impl->owner[i], (int)i};
    for (int i = 0; i < c->n_tensors; i++)
        c->tensors[i].first_piece = 0;
    for (int i = 1; i < c->n_tensors; i++)
        c->tensors[i].first_piece = c->tensors[i - 1].first_piece + c->tensors[i - 1].n_pieces;
    if (n > 1)
        qsort_r(items, n, sizeof(items[0]), compare_pieces, c);
    if (n > 0)
        TESS_TRY(reorder(c, (void **)&c->pieces, n, sizeof(c->pieces[0]), &items[0].piece, 2));
    return TESS_OK;
}

static tess_status check_overlaps(const tess_catalog *c)
{
    for (int i = 0; i < c->n_tensors; i++) {
        int a, b;
        char one[300], other[300];
        const tess_catalog_tensor *t = &c->tensors[i];
        const tess_catalog_piece *pieces = tess_catalog_pieces_of(c, t);
        TESS_TRY_CTX(tess_boxes_overlap(c->mem, t->n_dims, pieces, t->n_pieces, &a, &b), "%s: tensor '%s'", c->path,
                     t->name);
        TESS_CHECK(a < 0, TESS_E_FORMAT, "%s: tensor '%s': the pieces %s of rank %d and %s of rank %d overlap", c->path,
                   t->name, tess_box_format(t->n_dims, &pieces[a].box, one, sizeof(one)), pieces[a].rank,
                   tess_box_format(t->n_dims, &pieces[b].box, other, sizeof(other)), pieces[b].rank);
    }
    return TESS_OK;
}

static int compare_places(const void *a, const void *b, void *context)
{
    const tess_catalog *c = context;
    int i = *(const int *)a, k = *(const int *)b;
    const tess_catalog_piece *x = &c->pieces[i], *y = &c->pieces[k];
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return i < k ? -1 : i > k;
}

tess_status tess_catalog_file_order(const tess_catalog *c, int **order)
{
    size_t n = (size_t)c->n_pieces;
    TESS_TRY(TESS_NEW(c->mem, n, "order of pieces", order));
    for (size_t i = 0; i < n; i++)
        (*order)[i] = (int)i;
    if (n > 1)
        qsort_r(*order, n, sizeof(int), compare_places, (void *)c);
    return TESS_OK;
}

/* Compares tensors by their first pieces; tensors without elements come last. */
static int compare_first_pieces(const void *a, const void *b, void *context)
{
    const tess_catalog_tensor *x = *(const tess_catalog_tensor *const *)a, *y = *(const tess_catalog_tensor *const *)b;
    if (x->n_pieces == 0 || y->n_pieces == 0)
        return x->n_pieces > 0 ? -1 : y->n_pieces > 0 ? 1 : strcmp(x->name, y->name);
    return compare_places(&x->first_piece, &y->first_piece, context);
}

tess_status tess_catalog_tensors_in_files(const tess_catalog *c, const tess_catalog_tensor ***list)
{
    size_t n = (size_t)c->n_tensors;
    TESS_TRY(TESS_NEW(c->mem, n, "order of tensors", list));
    for (size_t i = 0; i < n; i++)
        (*list)[i] = &c->tensors[i];
    if (n > 1)
        qsort_r(*list, n, sizeof((*list)[0]), compare_first_pieces, (void *)c);
    return TESS_OK;
}

/* Computes the number of bytes between each piece's end and the next piece of its file, or the file's end. */
static tess_status measure_padding(tess_catalog *c)
{
    int *order;
    TESS_TRY(tess_catalog_file_order(c, &order));
    for (int i = 0; i < c->n_pieces && c->zero_padding; i++) {
        const tess_catalog_piece *p = &c->pieces[order[i]],
                                 *next = i + 1 < c->n_pieces ? &c->pieces[order[i + 1]] : NULL;
        uint64_t begin = p->offset + p->stored;
        uint64_t end = next != NULL && next->file == p->file ? next->offset : c->files[p->file].bytes;
        c->impl->padding[order[i]] = end > begin ? end - begin : 0;
    }
    tess_mem_free(c->mem, order);
    return TESS_OK;
}

static int compare_ranges(const void *a, const void *b)
{
    const tess_catalog_range *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Sorts ranges by position and removes duplicates. */
static void sort_ranges(tess_catalog *c)
{
    int n = 0;
    if (c->n_ranges > 1)
        qsort(c->ranges, (size_t)c->n_ranges, sizeof(c->ranges[0]), compare_ranges);
    for (int i = 0; i < c->n_ranges; i++)
        if (n == 0 || compare_ranges(&c->ranges[n - 1], &c->ranges[i]) != 0)
            c->ranges[n++] = c->ranges[i];
    c->n_ranges = n;
}

/* Returns the range that contains all stored bytes of a piece; -1: none. */
static int find_range(const tess_catalog *c, const tess_catalog_piece *piece)
{
    int low = 0, high = c->n_ranges;
    while (low < high) {
        int middle = low + (high - low) / 2;
        const tess_catalog_range *r = &c->ranges[middle];
        if (r->file < piece->file || (r->file == piece->file && r->offset <= piece->offset))
            low = middle + 1;
        else
            high = middle;
    }
    const tess_catalog_range *r = low > 0 ? &c->ranges[low - 1] : NULL;
    bool inside = r != NULL && r->file == piece->file && piece->offset + piece->stored <= r->offset + r->bytes;
    return inside ? low - 1 : -1;
}

/* Finds the range of every piece without a checksum. use[i] says whether range i contains such pieces, is exactly one
 * piece with a checksum, or neither. */
enum { NO_PIECE, IS_PIECE, HOLDS_PIECES };

static void find_ranges(tess_catalog *c, uint8_t *use)
{
    for (int i = 0; i < c->n_pieces; i++) {
        const tess_catalog_piece *piece = &c->pieces[i];
        int found = find_range(c, piece);
        bool summed = piece->sum_kind != TESS_SUM_KIND_NONE;
        c->impl->range_of[i] = summed ? -1 : found;
        if (found >= 0 && !summed)
            use[found] = HOLDS_PIECES;
        else if (found >= 0 && use[found] == NO_PIECE && piece->offset == c->ranges[found].offset &&
                 piece->stored == c->ranges[found].bytes)
            use[found] = IS_PIECE;
    }
}

/* Removes the ranges that are exactly one piece with its own checksum, unless other pieces need them. Sets the range of
 * each piece. */
static tess_status link_ranges(tess_catalog *c)
{
    int *place, n = 0;
    /* Borrowed as scratch memory; its content is not needed before the end of this function */
    uint8_t *use = c->impl->range_good;
    TESS_TRY(TESS_NEW(c->mem, c->n_ranges, "catalog", &place));
    find_ranges(c, use);
    for (int i = 0; i < c->n_ranges; i++) {
        place[i] = n;
        if (use[i] != IS_PIECE)
            c->ranges[n++] = c->ranges[i];
        use[i] = 0;
    }
    c->n_ranges = n;
    for (int i = 0; i < c->n_pieces; i++)
        if (c->impl->range_of[i] >= 0)
            c->impl->range_of[i] = place[c->impl->range_of[i]];
    tess_mem_free(c->mem, place);
    return TESS_OK;
}

tess_status tess_catalog_finish(tess_catalog *c)
{
    size_t n = (size_t)c->n_pieces;
    TESS_TRY(TESS_PART(c, n, "catalog", &c->impl->verified));
    TESS_TRY(TESS_PART(c, n, "catalog", &c->impl->padding));
    TESS_TRY(TESS_PART(c, n, "catalog", &c->impl->range_of));
    TESS_TRY(TESS_PART(c, c->n_ranges, "catalog", &c->impl->range_good));
    TESS_TRY(TESS_PART(c, c->n_files, "catalog", &c->impl->mappings));
    TESS_TRY(sort_tensors(c));
    TESS_TRY(sort_pieces(c));
    tess_mem_drop(&c->impl->owner);
    TESS_TRY(measure_padding(c));
    sort_ranges(c);
    TESS_TRY(link_ranges(c));
    return check_overlaps(c);
}
