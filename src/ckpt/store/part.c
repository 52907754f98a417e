#include "ckpt/store/part.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text/json.h"
#include "ckpt/catalog/cover.h"
#include "ckpt/store/dims.h"
#include "ckpt/store/store_impl.h"

static tess_status no_memory(void)
{
    return TESS_FAIL(TESS_E_NOMEM, "no memory to describe what a checkpoint holds");
}

tess_status tess_part_create(json_t **part)
{
    *part = json_pack("{s:{}, s:{}}", "files", "tensors");
    return *part != NULL ? TESS_OK : no_memory();
}

tess_status tess_part_add_file(json_t *part, const char *file, uint64_t bytes)
{
    json_t *files = json_object_get(part, "files");
    return json_object_set_new(files, file, json_integer((json_int_t)bytes)) == 0 ? TESS_OK : no_memory();
}

/* Adds `tensor`, and takes over its reference. If there is one with that name, it must have the same dtype and shape;
 * it then gets the pieces of `tensor`. */
static tess_status add_tensor(json_t *tensors, const char *name, json_t *tensor)
{
    json_t *there = json_object_get(tensors, name); /* the tensor in another part */
    if (there == NULL)
        return json_object_set_new(tensors, name, tensor) == 0 ? TESS_OK : no_memory();
    bool same = json_equal(json_object_get(there, "dtype"), json_object_get(tensor, "dtype")) &&
                json_equal(json_object_get(there, "shape"), json_object_get(tensor, "shape"));
    bool added = same && json_array_extend(json_object_get(there, "pieces"), json_object_get(tensor, "pieces")) == 0;
    json_decref(tensor);
    TESS_CHECK(same, TESS_E_MISMATCH, "checkpoint: '%s' is of one dtype and shape here and of another there", name);
    return added ? TESS_OK : no_memory();
}

tess_status tess_part_add_tensor(json_t *part, const char *name, const char *dtype, int n_dims, const int64_t *dim)
{
    json_t *tensor = json_pack("{s:s, s:o, s:[]}", "dtype", dtype, "shape", tess_dims_to_json(n_dims, dim), "pieces");
    return tensor != NULL ? add_tensor(json_object_get(part, "tensors"), name, tensor) : no_memory();
}

tess_status tess_part_add_piece(json_t *part, const char *name, int n_dims, const tess_part_piece *p)
{
    char sum[24];
    snprintf(sum, sizeof(sum), "%016" PRIx64, p->xxh3);
    json_t *piece = json_pack("{s:s, s:I, s:I, s:I, s:s, s:s, s:o, s:o, s:i}", "file", p->file, "offset",
                              (json_int_t)p->offset, "stored", (json_int_t)p->stored, "bytes", (json_int_t)p->bytes,
                              "codec", p->codec == TESS_CODEC_ZSTD ? "zstd" : "none", "xxh3", sum, "begin",
                              tess_dims_to_json(n_dims, p->box.begin), "size", tess_dims_to_json(n_dims, p->box.size),
                              "rank", p->rank);
    json_t *pieces = json_object_get(json_object_get(json_object_get(part, "tensors"), name), "pieces");
    return json_array_append_new(pieces, piece) == 0 ? TESS_OK : no_memory();
}

/* ---- Merging parts ---- */
static tess_status merge_files(json_t *files, const json_t *more)
{
    const char *name;
    json_t *bytes;
    json_object_foreach ((json_t *)more, name, bytes) {
        TESS_CHECK(json_object_get(files, name) == NULL, TESS_E_MISMATCH, "checkpoint: two writers wrote %s", name);
        if (json_object_set(files, name, bytes) != 0)
            return no_memory();
    }
    return TESS_OK;
}

tess_status tess_part_merge(json_t *part, const json_t *more)
{
    const char *name;
    json_t *tensor;
    const json_t *tensors = json_object_get(more, "tensors"), *files = json_object_get(more, "files");
    TESS_CHECK(json_is_object(tensors) && json_is_object(files), TESS_E_FORMAT,
               "checkpoint: what a writer wrote is not described by 'files' and 'tensors'");
    TESS_TRY(merge_files(json_object_get(part, "files"), files));
    json_object_foreach ((json_t *)tensors, name, tensor) {
        TESS_CHECK(json_is_array(json_object_get(tensor, "pieces")), TESS_E_FORMAT, "checkpoint: no pieces of '%s'",
                   name);
        json_t *copy = json_copy(tensor);
        if (copy == NULL || json_object_set_new(copy, "pieces", json_copy(json_object_get(tensor, "pieces"))) != 0) {
            json_decref(copy);
            return no_memory();
        }
        TESS_TRY(add_tensor(json_object_get(part, "tensors"), name, copy));
    }
    return TESS_OK;
}

/* ---- Completeness ---- */
typedef struct cover {
    const char *name;
    tess_shape shape;
    tess_catalog_piece *pieces; /* (n) the box and the rank of each piece */
    int n;
} cover;

static tess_status list_pieces(tess_mem *mem, const json_t *tensor, cover *c)
{
    const json_t *list = json_object_get(tensor, "pieces");
    int n_begin, n_size;
    size_t i;
    json_t *piece;
    TESS_TRY(tess_dims_from_json(tensor, "shape", c->name, c->shape.dim, &c->shape.n_dims));
    TESS_TRY(TESS_NEW(mem, json_array_size(list), "boxes of a tensor", &c->pieces));
    json_array_foreach (list, i, piece) {
        tess_catalog_piece *p = &c->pieces[c->n++];
        TESS_TRY(tess_dims_from_json(piece, "begin", c->name, p->box.begin, &n_begin));
        TESS_TRY(tess_dims_from_json(piece, "size", c->name, p->box.size, &n_size));
        TESS_CHECK(n_begin == c->shape.n_dims && n_size == n_begin, TESS_E_FORMAT,
                   "checkpoint: a piece of %d dimensions of '%s', which has %d", n_begin, c->name, c->shape.n_dims);
        p->rank = (int)json_integer_value(json_object_get(piece, "rank"));
    }
    return TESS_OK;
}

static tess_status check_boxes(tess_mem *mem, const cover *c)
{
    char one[300], other[300];
    int n_dims = c->shape.n_dims, a, b;
    long long rows = tess_shape_rows(&c->shape);
    bool missing;
    int64_t at[TESS_CATALOG_DIMS] = {0};
    tess_box whole = tess_box_whole(&c->shape), both;
    for (int i = 0; i < c->n; i++)
        TESS_CHECK(tess_box_contains(n_dims, &whole, &c->pieces[i].box), TESS_E_INVALID,
                   "checkpoint: '%s': rank %d wrote %s, which is not inside %s", c->name, c->pieces[i].rank,
                   tess_box_format(n_dims, &c->pieces[i].box, one, sizeof(one)),
                   tess_shape_format(&c->shape, other, sizeof(other)));
    TESS_TRY_CTX(tess_boxes_overlap(mem, n_dims, c->pieces, c->n, &a, &b), "checkpoint: '%s'", c->name);
    if (a >= 0)
        tess_box_meet(n_dims, &c->pieces[a].box, &c->pieces[b].box, &both);
    TESS_CHECK(a < 0, TESS_E_INVALID,
               "checkpoint: '%s' of %lld rows: some rows were written twice: those at %lld: rank %d wrote %s, rank %d "
               "wrote %s",
               c->name, rows, (long long)(n_dims > 0 ? both.begin[0] : 0), c->pieces[a].rank,
               tess_box_format(n_dims, &c->pieces[a].box, one, sizeof(one)), c->pieces[b].rank,
               tess_box_format(n_dims, &c->pieces[b].box, other, sizeof(other)));
    TESS_TRY(tess_boxes_first_missing(mem, n_dims, c->pieces, c->n, &whole, &missing, at));
    TESS_CHECK(!missing, TESS_E_INVALID,
               "checkpoint: '%s' of %lld rows: some rows were left out: those at %lld: no rank wrote element %s",
               c->name, rows, (long long)at[0], tess_dims_format(n_dims, at, one, sizeof(one)));
    return TESS_OK;
}

tess_status tess_part_check_complete(const json_t *part)
{
    const char *name;
    json_t *tensor;
    tess_mem *mem;
    TESS_TRY(tess_mem_create(&mem));
    tess_status status = TESS_OK;
    json_object_foreach (json_object_get(part, "tensors"), name, tensor) {
        cover c = {.name = name};
        if (status == TESS_OK)
            status = list_pieces(mem, tensor, &c);
        if (status == TESS_OK)
            status = check_boxes(mem, &c);
        tess_mem_free(mem, c.pieces);
    }
    tess_mem_destroy(&mem);
    return status;
}

/* ---- Text ---- */
tess_status tess_part_format(const json_t *part, char **text)
{
    *text = json_dumps(part, JSON_COMPACT);
    return *text != NULL ? TESS_OK : no_memory();
}
