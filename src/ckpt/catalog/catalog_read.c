/* Reads boxes of tensors from pieces. If the bytes of a piece already have the wanted layout, they are read directly to
 * their place; others are read through a block of memory. */
#include <inttypes.h>
#include <string.h>

#include "base/core/flat.h"
#include "ckpt/catalog/catalog_impl.h"
#include "ckpt/safetensors/safetensors.h"

typedef struct box_read {
    const tess_catalog *catalog;
    const tess_catalog_tensor *tensor;
    int index; /* index of the piece */
    const tess_catalog_piece *piece;
    const tess_box *box; /* the box to read */
    tess_box common;     /* the intersection of the box and the piece */
    const char *decode;
    uint8_t *dst; /* destination of the box's first element */
} box_read;

/* Returns the number of elements before the first common one. */
static int64_t elements_before(const box_read *r, const int64_t *origin, const int64_t *stride)
{
    int64_t n = 0;
    for (int d = 0; d < r->tensor->n_dims; d++)
        n += (r->common.begin[d] - origin[d]) * stride[d];
    return n;
}

/* Row-major strides of a box. */
static void set_strides(int n_dims, const int64_t *size, int64_t stride[TESS_CATALOG_DIMS])
{
    int64_t n = 1;
    for (int d = n_dims - 1; d >= 0; d--) {
        stride[d] = n;
        n *= size[d];
    }
}

static void piece_strides(const box_read *r, int64_t stride[TESS_CATALOG_DIMS])
{
    if (r->piece->strided)
        memcpy(stride, r->piece->stride, sizeof(r->piece->stride));
    else
        set_strides(r->tensor->n_dims, r->piece->box.size, stride);
}

/* Finds bytes [begin, end) of the unpacked piece that contain all common elements. */
static void span(const box_read *r, uint64_t *begin, uint64_t *end)
{
    int64_t stride[TESS_CATALOG_DIMS], last = 0, bytes = r->tensor->element_bytes;
    piece_strides(r, stride);
    int64_t first = elements_before(r, r->piece->box.begin, stride);
    for (int d = 0; d < r->tensor->n_dims; d++)
        last += (r->common.size[d] - 1) * stride[d];
    *begin = (uint64_t)(first * bytes);
    *end = (uint64_t)((first + last + 1) * bytes);
}

static uint8_t *place_in_box(const box_read *r, int64_t stride[TESS_CATALOG_DIMS])
{
    int64_t bytes = r->decode != NULL ? (int64_t)sizeof(float) : r->tensor->element_bytes;
    set_strides(r->tensor->n_dims, r->box->size, stride);
    return r->dst + elements_before(r, r->box->begin, stride) * bytes;
}

/* ---- Copies between two strided layouts, in the longest runs that both allow */
typedef struct box_copy {
    int n_dims;
    int64_t size[TESS_CATALOG_DIMS];
    int64_t from_stride[TESS_CATALOG_DIMS], to_stride[TESS_CATALOG_DIMS]; /* in elements */
    int element_bytes;
    const char *decode; /* dtype of the source if the target is float32; NULL: bytes are copied */
} box_copy;

static void copy_run(const box_copy *c, const uint8_t *from, uint8_t *to, int64_t n)
{
    if (c->decode != NULL)
        tess_st_decode(c->decode, from, n, (float *)to);
    else
        memcpy(to, from, (size_t)(n * c->element_bytes));
}

static void copy_from(const box_copy *c, int dim, const uint8_t *from, uint8_t *to)
{
    int64_t to_bytes = c->decode != NULL ? (int64_t)sizeof(float) : c->element_bytes;
    if (dim == c->n_dims) {
        copy_run(c, from, to, 1);
        return;
    }
    if (dim == c->n_dims - 1 && c->from_stride[dim] == 1 && c->to_stride[dim] == 1) {
        copy_run(c, from, to, c->size[dim]);
        return;
    }
    for (int64_t i = 0; i < c->size[dim]; i++)
        copy_from(c, dim + 1, from + i * c->from_stride[dim] * c->element_bytes, to + i * c->to_stride[dim] * to_bytes);
}

/* Copies the common elements to their place. `from` points at the first of them. */
static void copy_common(const box_read *r, const uint8_t *from)
{
    int64_t from_stride[TESS_CATALOG_DIMS], to_stride[TESS_CATALOG_DIMS];
    box_copy c = {.element_bytes = r->tensor->element_bytes, .decode = r->decode};
    piece_strides(r, from_stride);
    uint8_t *to = place_in_box(r, to_stride);
    /* Dimensions of size one are dropped. Neighbouring dimensions that are contiguous in both layouts are merged. */
    for (int d = 0; d < r->tensor->n_dims; d++) {
        int64_t size = r->common.size[d];
        int last = c.n_dims - 1;
        if (size == 1)
            continue;
        if (last >= 0 && c.from_stride[last] == from_stride[d] * size && c.to_stride[last] == to_stride[d] * size) {
            c.size[last] *= size;
        } else {
            last = c.n_dims++;
            c.size[last] = size;
        }
        c.from_stride[last] = from_stride[d];
        c.to_stride[last] = to_stride[d];
    }
    copy_from(&c, 0, from, to);
}

/* ---- Pieces */
static tess_status read_straight(const box_read *r, uint64_t begin, uint64_t end)
{
    int64_t stride[TESS_CATALOG_DIMS];
    tess_piece_sink sink = {.begin = begin,
                            .end = end,
                            .dst = place_in_box(r, stride),
                            .decode = r->decode,
                            .element_bytes = r->tensor->element_bytes};
    return tess_piece_fetch(r->catalog, r->tensor, r->index, &sink);
}

static tess_status read_block(const box_read *r, uint64_t begin, uint64_t end)
{
    tess_mem *mem = r->catalog->mem;
    tess_piece_sink sink = {.begin = begin, .end = end};
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, (size_t)(end - begin), "checkpoint read", (void **)&sink.dst));
    tess_status status = tess_piece_fetch(r->catalog, r->tensor, r->index, &sink);
    if (status == TESS_OK)
        copy_common(r, sink.dst);
    tess_mem_free(mem, sink.dst);
    return status;
}

static tess_status read_packed(const box_read *r, uint64_t begin)
{
    uint8_t *data;
    TESS_TRY(tess_piece_unpack(r->catalog, r->tensor, r->index, false, &data));
    copy_common(r, data + begin);
    tess_mem_free(r->catalog->mem, data);
    return TESS_OK;
}

tess_status tess_catalog_read_piece(const tess_catalog *catalog, int piece, const tess_catalog_request *request)
{
    uint64_t begin, end;
    const tess_catalog_tensor *t = request->tensor;
    box_read r = {.catalog = catalog, .tensor = t, .index = piece, .box = &request->box, .dst = request->dst};
    r.piece = &catalog->pieces[piece];
    if (!tess_box_meet(t->n_dims, &r.piece->box, r.box, &r.common))
        return TESS_OK;
    r.decode = request->floats && strcmp(t->dtype, "F32") != 0 ? t->dtype : NULL;
    span(&r, &begin, &end);
    if (r.piece->codec != TESS_CODEC_NONE)
        return read_packed(&r, begin);
    bool straight = !r.piece->strided && tess_flat_is_run(t->n_dims, r.piece->box.size, r.common.size) &&
                    tess_flat_is_run(t->n_dims, r.box->size, r.common.size);
    return straight ? read_straight(&r, begin, end) : read_block(&r, begin, end);
}

static tess_status check_inside(const tess_catalog *c, const tess_catalog_tensor *t, const tess_box *box)
{
    char text[300];
    const tess_box whole = tess_catalog_whole(t);
    TESS_CHECK(tess_box_contains(t->n_dims, &whole, box), TESS_E_INVALID, "%s: tensor '%s' has no elements %s", c->path,
               t->name, tess_box_format(t->n_dims, box, text, sizeof(text)));
    return TESS_OK;
}

tess_status tess_catalog_first_missing(const tess_catalog *c, const tess_catalog_tensor *t, const tess_box *box,
                                       bool *missing, int64_t at[TESS_CATALOG_DIMS])
{
    TESS_TRY(check_inside(c, t, box));
    return tess_boxes_first_missing(c->mem, t->n_dims, tess_catalog_pieces_of(c, t), t->n_pieces, box, missing, at);
}

tess_status tess_catalog_check_box(const tess_catalog *c, const tess_catalog_tensor *t, const tess_box *box)
{
    bool missing;
    char text[200];
    int64_t at[TESS_CATALOG_DIMS] = {0};
    TESS_TRY(tess_catalog_first_missing(c, t, box, &missing, at));
    TESS_CHECK(!missing, TESS_E_FORMAT, "%s: element %s of tensor '%s' is in none of its files: it is incomplete",
               c->path, tess_dims_format(t->n_dims, at, text, sizeof(text)), t->name);
    return TESS_OK;
}

tess_status tess_catalog_check_request(const tess_catalog *c, const tess_catalog_request *request)
{
    const tess_catalog_tensor *t = request->tensor;
    TESS_CHECK(!request->floats || tess_st_dtype_is_float(t->dtype), TESS_E_UNSUPPORTED,
               "%s: tensor '%s' is %s, which is not read as numbers (F32, BF16, F16 and F64 are)", c->path, t->name,
               t->dtype);
    return request->dst != NULL ? tess_catalog_check_box(c, t, &request->box) : TESS_OK;
}

static tess_status read_box(const tess_catalog *c, const tess_catalog_request *request)
{
    const tess_catalog_tensor *t = request->tensor;
    TESS_TRY(tess_catalog_check_request(c, request));
    for (int i = 0; i < t->n_pieces; i++)
        TESS_TRY(tess_catalog_read_piece(c, t->first_piece + i, request));
    return TESS_OK;
}

tess_status tess_catalog_read(const tess_catalog *catalog, const tess_catalog_tensor *tensor, const tess_box *box,
                              void *dst)
{
    const tess_catalog_request request = {tensor, *box, false, dst};
    return read_box(catalog, &request);
}

tess_status tess_catalog_read_floats(const tess_catalog *catalog, const tess_catalog_tensor *tensor,
                                     const tess_box *box, float *dst)
{
    const tess_catalog_request request = {tensor, *box, true, dst};
    return read_box(catalog, &request);
}
