#include "ckpt/store/part.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text/json.h"
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

static json_t *list_dims(int n_dims, const int64_t *dim)
{
    json_t *list = json_array();
    for (int d = 0; d < n_dims; d++)
        json_array_append_new(list, json_integer((json_int_t)dim[d]));
    return list;
}

/* Takes `tensor`. An existing one of that name must have the same dtype and shape, and gets its pieces. */
static tess_status add_tensor(json_t *tensors, const char *name, json_t *tensor)
{
    json_t *there = json_object_get(tensors, name); /* from another part */
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
    json_t *tensor = json_pack("{s:s, s:o, s:[]}", "dtype", dtype, "shape", list_dims(n_dims, dim), "pieces");
    return tensor != NULL ? add_tensor(json_object_get(part, "tensors"), name, tensor) : no_memory();
}

tess_status tess_part_add_piece(json_t *part, const char *name, int n_dims, const int64_t *dim,
                                const tess_part_piece *p)
{
    char sum[24];
    tess_box box = {.begin = {p->row_begin}, .size = {p->n_rows}};
    for (int d = 1; d < n_dims; d++)
        box.size[d] = dim[d];
    snprintf(sum, sizeof(sum), "%016" PRIx64, p->xxh3);
    json_t *piece = json_pack("{s:s, s:I, s:I, s:I, s:s, s:s, s:o, s:o, s:i}", "file", p->file, "offset",
                              (json_int_t)p->offset, "stored", (json_int_t)p->stored, "bytes", (json_int_t)p->bytes,
                              "codec", p->codec == TESS_CODEC_ZSTD ? "zstd" : "none", "xxh3", sum, "begin",
                              list_dims(n_dims, box.begin), "size", list_dims(n_dims, box.size), "rank", p->rank);
    json_t *pieces = json_object_get(json_object_get(json_object_get(part, "tensors"), name), "pieces");
    return json_array_append_new(pieces, piece) == 0 ? TESS_OK : no_memory();
}

/* ---- Adding parts up ---- */
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
typedef struct row_range {
    json_int_t begin, end;
} row_range;

static int by_begin(const void *a, const void *b)
{
    json_int_t x = ((const row_range *)a)->begin, y = ((const row_range *)b)->begin;
    return x < y ? -1 : x > y;
}

/* Rows of dimension 0; a scalar is one row. */
static json_int_t rows_of(const json_t *dims)
{
    return json_array_size(dims) == 0 ? 1 : json_integer_value(json_array_get(dims, 0));
}

static bool is_empty(const json_t *dims)
{
    for (size_t d = 0; d < json_array_size(dims); d++)
        if (json_integer_value(json_array_get(dims, d)) == 0)
            return true;
    return false;
}

/* `ranges` has room for all pieces. */
static tess_status check_rows(const char *name, const json_t *tensor, row_range *ranges)
{
    size_t i, n = 0;
    json_t *piece;
    json_int_t next = 0, rows = rows_of(json_object_get(tensor, "shape"));
    json_array_foreach (json_object_get(tensor, "pieces"), i, piece) {
        json_int_t begin = json_integer_value(json_array_get(json_object_get(piece, "begin"), 0));
        ranges[n++] = (row_range){begin, begin + rows_of(json_object_get(piece, "size"))};
    }
    if (n > 1)
        qsort(ranges, n, sizeof(ranges[0]), by_begin);
    for (i = 0; i < n && ranges[i].begin == next; i++)
        next = ranges[i].end;
    TESS_CHECK(i == n && next == rows, TESS_E_INVALID,
               "checkpoint: '%s' of %lld rows: some rows were %s: those at %lld", name, (long long)rows,
               i < n && ranges[i].begin < next ? "written twice" : "left out",
               (long long)(i < n && ranges[i].begin < next ? ranges[i].begin : next));
    return TESS_OK;
}

tess_status tess_part_check_complete(const json_t *part)
{
    const char *name;
    json_t *tensor;
    json_object_foreach (json_object_get(part, "tensors"), name, tensor) {
        if (is_empty(json_object_get(tensor, "shape")))
            continue;
        size_t n = json_array_size(json_object_get(tensor, "pieces"));
        row_range *ranges = calloc(n + 1, sizeof(ranges[0]));
        if (ranges == NULL)
            return no_memory();
        tess_status status = check_rows(name, tensor, ranges);
        free(ranges);
        TESS_TRY(status);
    }
    return TESS_OK;
}

/* ---- Text ---- */
tess_status tess_part_format(const json_t *part, char **text)
{
    *text = json_dumps(part, JSON_COMPACT);
    return *text != NULL ? TESS_OK : no_memory();
}

tess_status tess_part_parse(const char *text, size_t size, const char *what, json_t **part)
{
    return tess_json_parse(text, size, what, true, part);
}
