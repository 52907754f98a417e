/* Builds a catalog. Its numbers come from untrusted files, so everything that is added is checked. */
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem/make_room.h"
#include "base/text/text.h"
#include "ckpt/catalog/catalog_impl.h"
#include "ckpt/safetensors/safetensors.h"

/* A node of the search tree that finds a tensor by name while the catalog is built. */
typedef struct catalog_name {
    int tensor;
    char text[];
} catalog_name;

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const catalog_name *)a)->text, ((const catalog_name *)b)->text);
}

/* The catalog's tensors own the nodes. */
static void leave_node(TESS_UNUSED void *node)
{
}

static tess_status copy_text(tess_catalog *c, const char *text, const char **out)
{
    char *copy;
    size_t n = strlen(text) + 1;
    TESS_TRY(TESS_PART(c, n, "catalog", &copy));
    memcpy(copy, text, n);
    *out = copy;
    return TESS_OK;
}

tess_status tess_catalog_create(tess_mem *mem, const char *format, const char *path, tess_catalog **catalog)
{
    TESS_AUTO(tess_catalog_destroy) tess_catalog *c = NULL;
    *catalog = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "catalog", &c));
    c->mem = mem;
    TESS_TRY(TESS_PART(c, 1, "catalog", &c->impl));
    TESS_TRY(copy_text(c, format, &c->format));
    TESS_TRY(copy_text(c, path, &c->path));
    c->meta = json_object();
    TESS_CHECK(c->meta != NULL, TESS_E_NOMEM, "%s: no memory for a catalog", path);
    *catalog = TESS_GIVE(c);
    return TESS_OK;
}

void tess_catalog_destroy(tess_catalog **catalog)
{
    tess_catalog *c = *catalog;
    if (c == NULL)
        return;
    for (int i = 0; c->impl != NULL && c->impl->mappings != NULL && i < c->n_files; i++)
        tess_os_unmap(&c->impl->mappings[i]);
    if (c->impl != NULL)
        tdestroy(c->impl->names, leave_node);
    json_decref(c->meta);
    tess_mem_drop(catalog);
}

tess_status tess_catalog_add_file(tess_catalog *c, const char *path, uint64_t bytes, int *file)
{
    TESS_CHECK(c->n_files < INT32_MAX, TESS_E_FORMAT, "%s: too many files", c->path);
    TESS_TRY(tess_scope_make_room(tess_scope_of(c), (size_t)c->n_files, sizeof(c->files[0]), "catalog",
                                  &c->impl->file_capacity, &c->files));
    TESS_TRY(copy_text(c, path, &c->files[c->n_files].path));
    c->files[c->n_files].bytes = bytes;
    *file = c->n_files++;
    return TESS_OK;
}

static tess_status describe(const tess_catalog *c, const char *name, const char *dtype, int n_dims, const int64_t *dim,
                            tess_catalog_tensor *t)
{
    *t = (tess_catalog_tensor){.name = name, .element_bytes = tess_st_dtype_bytes(dtype), .n_dims = n_dims};
    TESS_CHECK(t->element_bytes > 0 && strlen(dtype) < sizeof(t->dtype), TESS_E_FORMAT,
               "%s: tensor '%s': no such dtype: '%.32s'", c->path, name, dtype);
    TESS_CHECK(n_dims >= 0 && n_dims <= TESS_CATALOG_DIMS, TESS_E_FORMAT,
               "%s: tensor '%s' has %d dimensions, not 0..%d", c->path, name, n_dims, TESS_CATALOG_DIMS);
    snprintf(t->dtype, sizeof(t->dtype), "%s", dtype);
    /* The product must fit 63 bits even if empty dimensions are ignored. */
    int64_t bytes = t->element_bytes;
    for (int d = 0; d < n_dims; d++) {
        TESS_CHECK(dim[d] >= 0, TESS_E_FORMAT, "%s: tensor '%s' has a negative dimension", c->path, name);
        TESS_CHECK(!__builtin_mul_overflow(bytes, dim[d] > 0 ? dim[d] : 1, &bytes), TESS_E_FORMAT,
                   "%s: tensor '%s' is larger than any memory: its description is damaged", c->path, name);
        t->dim[d] = dim[d];
    }
    return TESS_OK;
}

/* Finds the name's node in the tree. If there is none, adds one with tensor -1. */
static tess_status find_name(tess_catalog *c, const char *name, catalog_name **node)
{
    size_t n = strlen(name) + 1;
    catalog_name *new;
    TESS_TRY(tess_scope_alloc(tess_scope_of(c), TESS_POOL_MISC, sizeof(*new) + n, 1, "catalog", (void **)&new));
    memcpy(new->text, name, n);
    new->tensor = -1;
    catalog_name **found = tsearch(new, &c->impl->names, compare_names);
    if (found == NULL || *found != new)
        tess_mem_free(c->mem, new);
    TESS_CHECK(found != NULL, TESS_E_NOMEM, "no memory for the names of %s", c->path);
    *node = *found;
    return TESS_OK;
}

tess_status tess_catalog_add_tensor(tess_catalog *c, const char *name, const char *dtype, int n_dims,
                                    const int64_t *dim, int *tensor)
{
    tess_catalog_tensor t;
    catalog_name *node = NULL;
    TESS_TRY(describe(c, name, dtype, n_dims, dim, &t));
    TESS_CHECK(c->n_tensors < INT32_MAX, TESS_E_FORMAT, "%s: too many tensors", c->path);
    TESS_TRY(tess_scope_make_room(tess_scope_of(c), (size_t)c->n_tensors, sizeof(t), "catalog",
                                  &c->impl->tensor_capacity, &c->tensors));
    TESS_TRY(find_name(c, name, &node));
    if (node->tensor < 0) {
        node->tensor = c->n_tensors;
        t.name = node->text;
        c->tensors[c->n_tensors++] = t;
    }
    *tensor = node->tensor;
    const tess_catalog_tensor *known = &c->tensors[node->tensor];
    bool same =
        strcmp(known->dtype, t.dtype) == 0 && known->n_dims == n_dims && memcmp(known->dim, t.dim, sizeof(t.dim)) == 0;
    TESS_CHECK(same, TESS_E_FORMAT, "%s: tensor '%s' is described in two ways: dtypes or shapes differ", c->path, name);
    return TESS_OK;
}

/* Computes the bytes from the first element of a piece to the end of its last element. False: they do not fit 63
 * bits. */
static bool extent(const tess_catalog_tensor *t, const tess_catalog_piece *p, int64_t *bytes)
{
    int64_t elements = 1;
    if (!p->strided) {
        *bytes = tess_box_count(t->n_dims, &p->box) * t->element_bytes;
        return true;
    }
    for (int d = 0; d < t->n_dims; d++) {
        int64_t step;
        if (p->stride[d] < 0 || __builtin_mul_overflow(p->stride[d], p->box.size[d] - 1, &step) ||
            __builtin_add_overflow(elements, step, &elements))
            return false;
    }
    return !__builtin_mul_overflow(elements, t->element_bytes, bytes);
}

static tess_status check_box(const tess_catalog *c, const tess_catalog_tensor *t, const tess_catalog_piece *p)
{
    for (int d = 0; d < t->n_dims; d++) {
        int64_t begin = p->box.begin[d], size = p->box.size[d];
        TESS_CHECK(begin >= 0 && size >= 0 && size <= t->dim[d] && begin <= t->dim[d] - size, TESS_E_FORMAT,
                   "%s: tensor '%s': a piece of [%" PRId64 ", +%" PRId64 ") in dimension %d, which has %" PRId64
                   " (rank %d wrote it)",
                   c->path, t->name, begin, size, d, t->dim[d], p->rank);
    }
    return TESS_OK;
}

static tess_status check_bytes(const tess_catalog *c, const tess_catalog_tensor *t, const tess_catalog_piece *p)
{
    int64_t needed;
    uint64_t end, file_bytes = c->files[p->file].bytes;
    bool known = extent(t, p, &needed);
    TESS_CHECK(known && p->bytes >= (uint64_t)needed && p->bytes <= INT64_MAX, TESS_E_FORMAT,
               "%s: tensor '%s': a piece of %" PRIu64 " bytes is not of the size of its elements", c->path, t->name,
               p->bytes);
    /* The stated size must be exact, since a few zstd bytes can unpack to any size. */
    TESS_CHECK(p->codec != TESS_CODEC_ZSTD || p->bytes == (uint64_t)needed, TESS_E_FORMAT,
               "%s: tensor '%s': a piece unpacks to %" PRIu64 " bytes, its elements have %" PRId64, c->path, t->name,
               p->bytes, needed);
    TESS_CHECK(p->codec != TESS_CODEC_NONE || p->stored == p->bytes, TESS_E_FORMAT,
               "%s: tensor '%s': a piece of %" PRIu64 " bytes takes %" PRIu64 " without being packed", c->path, t->name,
               p->bytes, p->stored);
    bool inside = !__builtin_add_overflow(p->offset, p->stored, &end) && end <= INT64_MAX;
    TESS_CHECK(inside && (file_bytes == 0 || end <= file_bytes), TESS_E_FORMAT,
               "%s: tensor '%s': a piece at [%" PRIu64 ", +%" PRIu64 ") does not lie inside %s", c->path, t->name,
               p->offset, p->stored, c->files[p->file].path);
    return TESS_OK;
}

tess_status tess_catalog_add_piece(tess_catalog *c, int tensor, const tess_catalog_piece *piece)
{
    TESS_CHECK(tensor >= 0 && tensor < c->n_tensors && piece->file >= 0 && piece->file < c->n_files, TESS_E_INVALID,
               "%s: a piece of tensor %d in file %d", c->path, tensor, piece->file);
    tess_catalog_tensor *t = &c->tensors[tensor];
    TESS_TRY(check_box(c, t, piece));
    if (tess_box_count(t->n_dims, &piece->box) == 0)
        return TESS_OK;
    TESS_TRY(check_bytes(c, t, piece));
    TESS_CHECK(c->n_pieces < INT32_MAX, TESS_E_FORMAT, "%s: too many pieces", c->path);
    TESS_TRY(tess_scope_make_room(tess_scope_of(c), (size_t)c->n_pieces, sizeof(*piece), "catalog",
                                  &c->impl->piece_capacity, &c->pieces));
    TESS_TRY(tess_scope_make_room(tess_scope_of(c), (size_t)c->n_pieces, sizeof(int), "catalog",
                                  &c->impl->owner_capacity, &c->impl->owner));
    if (t->n_pieces++ == 0)
        t->first_piece = c->n_pieces;
    c->pieces[c->n_pieces] = *piece;
    c->impl->owner[c->n_pieces++] = tensor;
    return TESS_OK;
}

tess_status tess_catalog_add_range(tess_catalog *c, const tess_catalog_range *range)
{
    uint64_t end;
    TESS_CHECK(range->file >= 0 && range->file < c->n_files, TESS_E_INVALID, "%s: bytes of file %d", c->path,
               range->file);
    uint64_t bytes = c->files[range->file].bytes;
    TESS_CHECK(!__builtin_add_overflow(range->offset, range->bytes, &end) && (bytes == 0 || end <= bytes),
               TESS_E_FORMAT, "%s: bytes [%" PRIu64 ", +%" PRIu64 ") do not lie inside %s", c->path, range->offset,
               range->bytes, c->files[range->file].path);
    TESS_CHECK(c->n_ranges < INT32_MAX, TESS_E_FORMAT, "%s: too many checksums", c->path);
    TESS_TRY(tess_scope_make_room(tess_scope_of(c), (size_t)c->n_ranges, sizeof(*range), "catalog",
                                  &c->impl->range_capacity, &c->ranges));
    c->ranges[c->n_ranges++] = *range;
    return TESS_OK;
}
