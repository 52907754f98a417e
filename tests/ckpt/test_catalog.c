/* Catalogs: a tensor cut in any way reads back by any box, and errors name damaged, missing and hostile parts. */
#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zlib.h>
#include <zstd.h>

#include "base/os/threads.h"
#include "ckpt/catalog/catalog.h"
#include "ckpt/safetensors/safetensors.h"
#include "files.h"
#include "rows.h"

enum { ROWS = 6, COLUMNS = 5, DEPTH = 4, ELEMENTS = ROWS * COLUMNS * DEPTH };

static const int64_t dims[3] = {ROWS, COLUMNS, DEPTH};

static float value_at(int64_t r, int64_t c, int64_t d)
{
    return (float)((r * COLUMNS + c) * DEPTH + d) + 0.5f;
}

/* A file to which pieces are appended. */
typedef struct piece_file {
    char path[512];
    uint8_t bytes[16384];
    size_t size;
} piece_file;

static piece_file begin_file(const char *name)
{
    piece_file f = {.size = 0};
    snprintf(f.path, sizeof(f.path), "%s", path_in(test_folder(), name));
    return f;
}

static tess_catalog *begin_catalog(const piece_file *f)
{
    tess_catalog *c;
    int file;
    EXPECT_OK(tess_catalog_create(test_mem(), "test", "somewhere", &c));
    EXPECT_OK(tess_catalog_add_file(c, f->path, 0, &file));
    EXPECT_INT(file, 0);
    return c;
}

static int add_cube(tess_catalog *c, const char *dtype)
{
    int tensor;
    EXPECT_OK(tess_catalog_add_tensor(c, "cube", dtype, 3, dims, &tensor));
    return tensor;
}

static tess_box box_of(int64_t r, int64_t nr, int64_t c, int64_t nc, int64_t d, int64_t nd)
{
    return (tess_box){.begin = {r, c, d}, .size = {nr, nc, nd}};
}

static size_t pack(tess_codec codec, const void *data, size_t size, uint8_t *out, size_t room)
{
    if (codec == TESS_CODEC_ZSTD)
        return ZSTD_compress(out, room, data, size, 3);
    if (codec == TESS_CODEC_NONE) {
        memcpy(out, data, size);
        return size;
    }
    z_stream z = {.next_in = (Bytef *)data, .avail_in = (uInt)size, .next_out = out, .avail_out = (uInt)room};
    EXPECT_INT(deflateInit2(&z, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    EXPECT_INT(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return room - z.avail_out;
}

/* Values of a box as they lie in a piece: row by row, or columns first. */
static size_t piece_values(const tess_box *box, bool turned, bool bf16, uint8_t *out)
{
    size_t n = 0;
    for (int64_t i = 0; i < box->size[0] * box->size[1]; i++) {
        int64_t r = turned ? i % box->size[0] : i / box->size[1], c = turned ? i / box->size[0] : i % box->size[1];
        for (int64_t d = 0; d < box->size[2]; d++) {
            float value = value_at(box->begin[0] + r, box->begin[1] + c, box->begin[2] + d);
            memcpy(out + n, (uint8_t *)&value + (bf16 ? 2 : 0), bf16 ? 2 : 4);
            n += bf16 ? 2 : 4;
        }
    }
    return n;
}

static void add_piece(tess_catalog *c, piece_file *f, int tensor, tess_box box, tess_codec codec, bool turned)
{
    static uint8_t values[8192];
    bool bf16 = c->tensors[tensor].element_bytes == 2;
    size_t bytes = piece_values(&box, turned, bf16, values);
    tess_catalog_piece p = {.rank = 3, .offset = f->size, .bytes = bytes, .codec = codec, .box = box};
    p.stored = pack(codec, values, bytes, f->bytes + f->size, sizeof(f->bytes) - f->size);
    p.sum = XXH3_64bits(f->bytes + f->size, p.stored);
    p.sum_kind = TESS_SUM_KIND_XXH3;
    if (codec == TESS_CODEC_DEFLATE) {
        p.sum = crc32(0, f->bytes + f->size, (uInt)p.stored);
        p.sum_kind = TESS_SUM_KIND_CRC32;
    }
    p.strided = turned;
    p.stride[0] = box.size[2];
    p.stride[1] = box.size[0] * box.size[2];
    p.stride[2] = 1;
    EXPECT_OK(tess_catalog_add_piece(c, tensor, &p));
    f->size += p.stored;
}

static void expect_box(const tess_catalog *c, tess_box box)
{
    static float got[ELEMENTS + 1];
    int64_t n = 0, all = tess_box_count(3, &box);
    for (int i = 0; i <= ELEMENTS; i++)
        got[i] = -77;
    EXPECT_OK(tess_catalog_read_floats(c, tess_catalog_find(c, "cube"), &box, got));
    for (int64_t r = 0; r < box.size[0]; r++)
        for (int64_t k = 0; k < box.size[1]; k++)
            for (int64_t d = 0; d < box.size[2]; d++, n++)
                if (got[n] != value_at(box.begin[0] + r, box.begin[1] + k, box.begin[2] + d))
                    test_fail(__FILE__, __LINE__, "element (%lld, %lld, %lld) is %g", (long long)(box.begin[0] + r),
                              (long long)(box.begin[1] + k), (long long)(box.begin[2] + d), (double)got[n]);
    EXPECT(got[all] == -77);
}

static void expect_boxes(const tess_catalog *c)
{
    expect_box(c, box_of(0, ROWS, 0, COLUMNS, 0, DEPTH));
    expect_box(c, box_of(2, 1, 3, 1, 1, 1));
    expect_box(c, box_of(1, 4, 0, COLUMNS, 0, DEPTH));
    expect_box(c, box_of(0, ROWS, 1, 3, 0, DEPTH));
    expect_box(c, box_of(1, 3, 2, 2, 1, 3));
    expect_box(c, box_of(5, 1, 4, 1, 0, DEPTH));
    expect_box(c, box_of(3, 0, 0, COLUMNS, 0, DEPTH));
}

typedef struct cut {
    int n;
    tess_box boxes[8];
} cut;

static const cut cuts[] = {
    {1, {{{0, 0, 0}, {6, 5, 4}}}},
    {3, {{{4, 0, 0}, {2, 5, 4}}, {{0, 0, 0}, {3, 5, 4}}, {{3, 0, 0}, {1, 5, 4}}}},
    {2, {{{0, 3, 0}, {6, 2, 4}}, {{0, 0, 0}, {6, 3, 4}}}},
    {4, {{{0, 0, 0}, {4, 2, 4}}, {{0, 2, 0}, {4, 3, 4}}, {{4, 0, 0}, {2, 2, 4}}, {{4, 2, 0}, {2, 3, 4}}}},
    /* no dimension separates the first four, which form a wheel around the last */
    {6,
     {{{0, 0, 0}, {2, 4, 4}},
      {{0, 4, 0}, {4, 1, 4}},
      {{4, 1, 0}, {2, 4, 4}},
      {{2, 0, 0}, {4, 1, 4}},
      {{2, 1, 0}, {2, 3, 1}},
      {{2, 1, 1}, {2, 3, 3}}}},
};

static void any_cut_reads_back_as_any_box(void)
{
    for (size_t k = 0; k < sizeof(cuts) / sizeof(cuts[0]); k++) {
        for (int way = 0; way < 12; way++) {
            tess_codec codec = (tess_codec)(way % 3);
            piece_file f = begin_file("data");
            tess_catalog *c = begin_catalog(&f);
            int tensor = add_cube(c, way / 3 % 2 ? "BF16" : "F32");
            for (int i = 0; i < cuts[k].n; i++)
                add_piece(c, &f, tensor, cuts[k].boxes[i], codec, way >= 6);
            EXPECT_OK(tess_catalog_finish(c));
            put_file(f.path, f.bytes, f.size);
            EXPECT_OK(tess_catalog_check(c));
            expect_boxes(c);
            EXPECT_OK(tess_catalog_verify(c, NULL));
            tess_catalog_destroy(&c);
        }
    }
}

static void other_dtypes_are_read_as_they_are(void)
{
    piece_file f = begin_file("data");
    tess_catalog *c = begin_catalog(&f);
    int64_t dim[1] = {3}, got[2];
    int tensor;
    static const int64_t values[3] = {7, -8, INT64_MAX};
    memcpy(f.bytes + 5, values, sizeof(values));
    put_file(f.path, f.bytes, 5 + sizeof(values));
    EXPECT_OK(tess_catalog_add_tensor(c, "ids", "I64", 1, dim, &tensor));
    tess_catalog_piece p = {.offset = 5, .stored = 24, .bytes = 24, .rank = -1, .box = {{0}, {3}}};
    EXPECT_OK(tess_catalog_add_piece(c, tensor, &p));
    EXPECT_OK(tess_catalog_add_tensor(c, "scalar", "I64", 0, NULL, &tensor));
    p.stored = p.bytes = 8;
    EXPECT_OK(tess_catalog_add_piece(c, tensor, &p));
    EXPECT_OK(tess_catalog_add_tensor(c, "empty", "I64", 2, (const int64_t[]){0, 4}, &tensor));
    EXPECT_OK(tess_catalog_finish(c));
    tess_box box = {.begin = {1}, .size = {2}};
    EXPECT_OK(tess_catalog_read(c, tess_catalog_find(c, "ids"), &box, got));
    EXPECT_SAME(got, values + 1, 2);
    EXPECT_FAILS(tess_catalog_read_floats(c, tess_catalog_find(c, "ids"), &box, (float *)got), TESS_E_UNSUPPORTED,
                 "'ids' is I64");
    box.size[0] = 3;
    EXPECT_FAILS(tess_catalog_read(c, tess_catalog_find(c, "ids"), &box, got), TESS_E_INVALID, "no elements [1, 4)");
    EXPECT_OK(tess_catalog_read(c, tess_catalog_find(c, "scalar"), &box, got));
    EXPECT_INT(got[0], 7);
    EXPECT(tess_catalog_find(c, "nobody") == NULL);
    EXPECT_OK(tess_catalog_check(c));
    tess_catalog_destroy(&c);
}

/* ---- Inconsistent pieces */
static void pieces_that_overlap_are_refused(void)
{
    for (size_t k = 0; k < sizeof(cuts) / sizeof(cuts[0]); k++) {
        piece_file f = begin_file("data");
        tess_catalog *c = begin_catalog(&f);
        int tensor = add_cube(c, "F32");
        for (int i = 0; i < cuts[k].n; i++)
            add_piece(c, &f, tensor, cuts[k].boxes[i], TESS_CODEC_NONE, false);
        add_piece(c, &f, tensor, box_of(3, 1, 2, 1, 2, 1), TESS_CODEC_NONE, false);
        EXPECT_FAILS(tess_catalog_finish(c), TESS_E_FORMAT, "[3, 4) x [2, 3) x [2, 3)");
        EXPECT_CONTAINS(tess_error_message(), "overlap");
        tess_catalog_destroy(&c);
    }
}

static void the_first_missing_element_is_named(void)
{
    static const char *const first[] = {"[0, 0, 0]", "[0, 0, 0]", "[0, 0, 0]", "[0, 0, 0]", "[0, 0, 0]"};
    static const char *const last[] = {"[0, 0, 0]", "[3, 0, 0]", "[0, 0, 0]", "[4, 2, 0]", "[2, 1, 1]"};
    for (size_t k = 0; k < sizeof(cuts) / sizeof(cuts[0]); k++) {
        for (int without_last = 0; without_last < 2; without_last++) {
            static float values[ELEMENTS];
            piece_file f = begin_file("data");
            tess_catalog *c = begin_catalog(&f);
            int tensor = add_cube(c, "F32"), n = without_last ? cuts[k].n - 1 : 0;
            for (int i = 0; i < n; i++)
                add_piece(c, &f, tensor, cuts[k].boxes[i], TESS_CODEC_NONE, false);
            EXPECT_OK(tess_catalog_finish(c));
            put_file(f.path, f.bytes, f.size);
            const char *element = without_last ? last[k] : first[k];
            EXPECT_FAILS(tess_catalog_check(c), TESS_E_FORMAT, element);
            EXPECT_CONTAINS(tess_error_message(), "'cube'");
            tess_box whole = tess_catalog_whole(&c->tensors[0]);
            EXPECT_FAILS(tess_catalog_read(c, &c->tensors[0], &whole, values), TESS_E_FORMAT, element);
            tess_catalog_destroy(&c);
        }
    }
}

static void expect_piece_refused(tess_catalog *c, int tensor, tess_catalog_piece p, const char *needle)
{
    EXPECT_FAILS(tess_catalog_add_piece(c, tensor, &p), TESS_E_FORMAT, needle);
}

static void hostile_numbers_are_refused(void)
{
    tess_catalog *c;
    int tensor, file;
    static const int64_t huge[] = {INT64_MAX, 2}, negative[] = {-1}, many[9] = {0}, cube[] = {ROWS, COLUMNS, DEPTH};
    EXPECT_OK(tess_catalog_create(test_mem(), "test", "somewhere", &c));
    EXPECT_OK(tess_catalog_add_file(c, "file", 1000, &file));
    EXPECT_FAILS(tess_catalog_add_tensor(c, "a", "F32", 2, huge, &tensor), TESS_E_FORMAT, "larger than any memory");
    EXPECT_FAILS(tess_catalog_add_tensor(c, "a", "F32", 1, negative, &tensor), TESS_E_FORMAT, "negative");
    EXPECT_FAILS(tess_catalog_add_tensor(c, "a", "F32", 9, many, &tensor), TESS_E_FORMAT, "9 dimensions");
    EXPECT_FAILS(tess_catalog_add_tensor(c, "a", "F31", 1, many, &tensor), TESS_E_FORMAT, "'F31'");
    EXPECT_FAILS(tess_catalog_add_tensor(c, "a", "F4", 1, many, &tensor), TESS_E_FORMAT, "'F4'");
    EXPECT_OK(tess_catalog_add_tensor(c, "a", "F32", 3, cube, &tensor));
    EXPECT_OK(tess_catalog_add_tensor(c, "a", "F32", 3, cube, &tensor));
    EXPECT_INT(c->n_tensors, 1);
    EXPECT_FAILS(tess_catalog_add_tensor(c, "a", "BF16", 3, cube, &tensor), TESS_E_FORMAT, "two ways");
    tess_catalog_piece good = {.stored = 480, .bytes = 480, .box = {{0, 0, 0}, {6, 5, 4}}}, p = good;
    p.box.begin[0] = 1;
    expect_piece_refused(c, tensor, p, "[1, +6) in dimension 0, which has 6");
    p.box.begin[0] = INT64_MAX;
    expect_piece_refused(c, tensor, p, "in dimension 0");
    p = good, p.box.size[1] = -1;
    expect_piece_refused(c, tensor, p, "in dimension 1");
    p = good, p.bytes = p.stored = 479;
    expect_piece_refused(c, tensor, p, "a piece of 479 bytes");
    p = good, p.stored = 481;
    expect_piece_refused(c, tensor, p, "without being packed");
    p = good, p.codec = TESS_CODEC_ZSTD, p.stored = 30, p.bytes = (uint64_t)1 << 40;
    expect_piece_refused(c, tensor, p, "a piece unpacks to 1099511627776 bytes, its elements have 480");
    p = good, p.offset = 521;
    expect_piece_refused(c, tensor, p, "does not lie inside file");
    p = good, p.offset = UINT64_MAX - 100;
    expect_piece_refused(c, tensor, p, "does not lie inside file");
    p = good, p.strided = true, p.stride[0] = -1;
    expect_piece_refused(c, tensor, p, "not of the size");
    p = good, p.strided = true, p.stride[0] = INT64_MAX / 2;
    expect_piece_refused(c, tensor, p, "not of the size");
    p = good, p.strided = true, p.stride[0] = 20, p.stride[1] = 5, p.stride[2] = 1;
    expect_piece_refused(c, tensor, p, "not of the size");
    p = good, p.file = 1;
    EXPECT_FAILS(tess_catalog_add_piece(c, tensor, &p), TESS_E_INVALID, "file 1");
    EXPECT_OK(tess_catalog_add_piece(c, tensor, &good));
    tess_catalog_destroy(&c);
}

/* Nested rings, each a wheel of four pieces: no line separates any two. */
static tess_status finish_rings(int64_t rings)
{
    tess_catalog *c;
    int tensor, file;
    int64_t side = 2 * rings, square[] = {side, side};
    EXPECT_OK(tess_catalog_create(test_mem(), "test", "somewhere", &c));
    EXPECT_OK(tess_catalog_add_file(c, "file", 0, &file));
    EXPECT_OK(tess_catalog_add_tensor(c, "a", "U8", 2, square, &tensor));
    for (int64_t i = 0; i < 4 * rings; i++) {
        int64_t k = i / 4, far = side - k - 1, arm = far - k;
        const tess_box arms[] = {
            {{k, k}, {1, arm}}, {{k, far}, {arm, 1}}, {{far, k + 1}, {1, arm}}, {{k + 1, k}, {arm, 1}}};
        tess_catalog_piece p = {.bytes = (uint64_t)arm, .stored = (uint64_t)arm, .box = arms[i % 4]};
        EXPECT_OK(tess_catalog_add_piece(c, tensor, &p));
    }
    tess_status status = tess_catalog_finish(c);
    tess_box whole = tess_catalog_whole(&c->tensors[0]);
    if (status == TESS_OK)
        EXPECT_OK(tess_catalog_check_box(c, &c->tensors[0], &whole));
    tess_catalog_destroy(&c);
    return status;
}

static void no_cut_makes_finishing_slow(void)
{
    EXPECT_OK(finish_rings(500));
    EXPECT_FAILS(finish_rings(20000), TESS_E_UNSUPPORTED, "too irregularly");
}

/* A grid of many pieces is checked in n log n. */
static void a_large_grid_is_finished(void)
{
    enum { SIDE = 300 };
    tess_catalog *c;
    int tensor, file;
    static const int64_t square[] = {SIDE, SIDE};
    EXPECT_OK(tess_catalog_create(test_mem(), "test", "somewhere", &c));
    EXPECT_OK(tess_catalog_add_file(c, "file", 0, &file));
    EXPECT_OK(tess_catalog_add_tensor(c, "a", "U8", 2, square, &tensor));
    for (int64_t i = 0; i < SIDE * SIDE; i++) {
        tess_catalog_piece p = {.bytes = 1, .stored = 1, .box = {{i % SIDE, i / SIDE}, {1, 1}}};
        if (i != 77 * SIDE + 33)
            EXPECT_OK(tess_catalog_add_piece(c, tensor, &p));
    }
    EXPECT_OK(tess_catalog_finish(c));
    tess_box whole = tess_catalog_whole(&c->tensors[0]);
    EXPECT_FAILS(tess_catalog_check_box(c, &c->tensors[0], &whole), TESS_E_FORMAT, "element [33, 77] of tensor 'a'");
    tess_catalog_destroy(&c);
}

/* ---- Damage */
/* Two pieces with zeros between and after them, as Tessera writes them. */
static tess_catalog *padded_catalog(piece_file *f, uint64_t bytes)
{
    tess_catalog *c;
    int file, tensor;
    f->size = 0;
    EXPECT_OK(tess_catalog_create(test_mem(), "test", "somewhere", &c));
    c->zero_padding = true;
    EXPECT_OK(tess_catalog_add_file(c, f->path, bytes, &file));
    tensor = add_cube(c, "F32");
    add_piece(c, f, tensor, box_of(0, 4, 0, COLUMNS, 0, DEPTH), TESS_CODEC_NONE, false);
    f->size = 512;
    add_piece(c, f, tensor, box_of(4, 2, 0, COLUMNS, 0, DEPTH), TESS_CODEC_ZSTD, false);
    EXPECT_OK(tess_catalog_finish(c));
    f->size = bytes;
    return c;
}

static tess_status read_cube(const tess_catalog *c)
{
    static float values[ELEMENTS];
    tess_box whole = tess_catalog_whole(&c->tensors[0]);
    return tess_catalog_read(c, &c->tensors[0], &whole, values);
}

static void any_flipped_byte_is_named(void)
{
    piece_file f = begin_file("data");
    for (int at = 0; at < 1024; at++) {
        tess_catalog *c = padded_catalog(&f, 1024);
        f.bytes[at] ^= (uint8_t)(1 << at % 8);
        put_file(f.path, f.bytes, f.size);
        EXPECT_FAILS(read_cube(c), TESS_E_FORMAT, f.path);
        EXPECT_CONTAINS(tess_error_message(), at < 512 ? "bytes [0, 320) of tensor 'cube', written by rank 3"
                                                       : "of tensor 'cube', written by rank 3");
        EXPECT_FAILS(tess_catalog_verify(c, NULL), TESS_E_FORMAT, "'cube'");
        f.bytes[at] ^= (uint8_t)(1 << at % 8);
        tess_catalog_destroy(&c);
    }
}

static void any_truncation_is_named(void)
{
    piece_file f = begin_file("data");
    for (int size = 0; size < 1030; size += size < 1000 ? 97 : 1) {
        tess_catalog *c = padded_catalog(&f, 1024);
        put_file(f.path, f.bytes, (size_t)size);
        if (size == 1024) {
            EXPECT_OK(read_cube(c));
            EXPECT_OK(tess_catalog_check(c));
        } else {
            const char *needle = size < 1024 ? "not 1024: it is cut short" : "something was added";
            EXPECT_FAILS(read_cube(c), TESS_E_FORMAT, needle);
            EXPECT_FAILS(tess_catalog_check(c), TESS_E_FORMAT, needle);
        }
        tess_catalog_destroy(&c);
    }
    tess_catalog *c = padded_catalog(&f, 1024);
    EXPECT_OK(tess_os_remove_tree(f.path));
    EXPECT_FAILS(read_cube(c), TESS_E_NOT_FOUND, f.path);
    EXPECT_FAILS(tess_catalog_check(c), TESS_E_NOT_FOUND, f.path);
    tess_catalog_destroy(&c);
}

typedef struct heard {
    int bad;
    uint64_t done, all;
} heard;

static void hear_bad(void *self, const char *message)
{
    EXPECT_CONTAINS(message, "'cube'");
    ((heard *)self)->bad++;
}

static void hear_progress(void *self, uint64_t done, uint64_t all)
{
    heard *h = self;
    EXPECT(done > h->done || h->done == 0);
    h->done = done;
    h->all = all;
}

static void verifying_tells_of_every_piece(void)
{
    piece_file f = begin_file("data");
    tess_catalog *c = padded_catalog(&f, 1024);
    heard h = {0};
    tess_catalog_visitor visitor = {&h, hear_progress, hear_bad};
    put_file(f.path, f.bytes, f.size);
    EXPECT_OK(tess_catalog_verify(c, &visitor));
    EXPECT_INT(h.bad, 0);
    EXPECT_INT(h.done, h.all);
    EXPECT_INT(h.all, c->pieces[0].stored + c->pieces[1].stored);
    h = (heard){0};
    f.bytes[7] ^= 1;
    f.bytes[520] ^= 1;
    put_file(f.path, f.bytes, f.size); /* a file that was verified before */
    EXPECT_FAILS(tess_catalog_verify(c, &visitor), TESS_E_FORMAT, "bytes [0, 320)");
    EXPECT_INT(h.bad, 2);
    tess_catalog_destroy(&c);
}

/* Its checksum is right: only unpacking tells. */
static void a_packed_piece_that_does_not_unpack_is_damage(void)
{
    static const tess_codec codecs[] = {TESS_CODEC_ZSTD, TESS_CODEC_DEFLATE};
    static const char text[] = "this was never packed by anything";
    for (size_t i = 0; i < 2; i++) {
        piece_file f = begin_file("packed");
        put_file(f.path, text, sizeof(text));
        tess_catalog *c = begin_catalog(&f);
        tess_catalog_piece piece = {.stored = sizeof(text), .bytes = ELEMENTS * 4, .rank = 3, .codec = codecs[i]};
        piece.sum_kind = TESS_SUM_KIND_XXH3;
        piece.sum = XXH3_64bits(text, sizeof(text));
        piece.box = box_of(0, ROWS, 0, COLUMNS, 0, DEPTH);
        EXPECT_OK(tess_catalog_add_piece(c, add_cube(c, "F32"), &piece));
        EXPECT_OK(tess_catalog_finish(c));
        EXPECT_FAILS(tess_catalog_verify(c, NULL), TESS_E_FORMAT, "cannot unpack");
        EXPECT_CONTAINS(tess_error_message(), "packed: bytes [0, 34) of tensor 'cube', written by rank 3");
        tess_catalog_destroy(&c);
    }
}

static void a_verified_piece_is_not_read_whole_again(void)
{
    piece_file f = begin_file("data");
    tess_catalog *c = padded_catalog(&f, 1024);
    put_file(f.path, f.bytes, f.size);
    expect_box(c, box_of(0, 1, 0, COLUMNS, 0, DEPTH));
    f.bytes[300] ^= 1;
    put_file(f.path, f.bytes, f.size);
    expect_box(c, box_of(1, 1, 0, COLUMNS, 0, DEPTH));
    tess_catalog_destroy(&c);
}

/* Bytes that this process has read from files; -1: the system does not count them. */
static long long bytes_read(void)
{
    long long n = -1;
    FILE *io = fopen("/proc/self/io", "r");
    if (io != NULL && fscanf(io, "rchar: %lld", &n) != 1)
        n = -1;
    if (io != NULL)
        fclose(io);
    return n;
}

static void a_range_is_verified_once_by_all_threads(void)
{
    enum { PARTS = 16, BYTES = 4 << 20, ALL = PARTS * BYTES, THREADS = 4 };
    piece_file f = begin_file("range");
    uint8_t *bytes = calloc(ALL, 1), *got = malloc(ALL);
    tess_catalog_request requests[PARTS];
    tess_threads *threads;
    put_file(f.path, bytes, ALL);
    tess_catalog *c = begin_catalog(&f);
    const tess_catalog_range range = {.bytes = ALL, .sum = crc32_z(0, bytes, ALL), .sum_kind = TESS_SUM_KIND_CRC32};
    EXPECT_OK(tess_catalog_add_range(c, &range));
    for (int i = 0; i < PARTS; i++) {
        int tensor;
        tess_catalog_piece piece = {.offset = (uint64_t)i * BYTES, .stored = BYTES, .bytes = BYTES};
        piece.box.size[0] = BYTES;
        EXPECT_OK(tess_catalog_add_tensor(c, (char[]){(char)('a' + i), '\0'}, "U8", 1, (int64_t[]){BYTES}, &tensor));
        EXPECT_OK(tess_catalog_add_piece(c, tensor, &piece));
    }
    EXPECT_OK(tess_catalog_finish(c));
    for (int i = 0; i < PARTS; i++)
        requests[i] =
            (tess_catalog_request){&c->tensors[i], tess_catalog_whole(&c->tensors[i]), false, got + i * BYTES};
    EXPECT_OK(tess_threads_create(test_mem(), THREADS, &threads));
    const long long before = bytes_read();
    EXPECT_OK(tess_catalog_read_all(c, threads, requests, PARTS));
    const long long n = bytes_read() - before;
    EXPECT(memcmp(got, bytes, ALL) == 0);
    if (before >= 0 && n >= 2LL * ALL + BYTES) /* once for the checksum, once for the values */
        test_fail(__FILE__, __LINE__, "%lld bytes were read, of a file of %d", n, ALL);
    tess_threads_destroy(&threads);
    tess_catalog_destroy(&c);
    free(bytes);
    free(got);
}

/* ---- Opening */
static void safetensors_open_as_catalogs(void)
{
    tess_catalog *c;
    static const tess_st_entry entries[] = {{"b", TESS_F32, {2, {3, 2}}}, {"a", TESS_BF16, {1, {4}}}};
    tess_st_tensor described[2];
    tess_st_writer *writer;
    static const float b[6] = {1, 2, 3, 4, 5, 6}, a[4] = {-1, 0.5f, 2, -3};
    uint16_t packed[4];
    float got[6];
    const char *folder = test_folder();
    EXPECT_OK(tess_st_encode(a, 4, TESS_BF16, packed));
    for (size_t shard = 0; shard < 100; shard += 20) { /* one file; more than one */
        for (int i = 0; i < 2; i++)
            EXPECT_OK(tess_st_describe(&entries[i], &described[i]));
        EXPECT_OK(tess_st_write_begin(test_mem(), NULL, folder, "model", described, 2, shard, NULL, &writer));
        EXPECT_OK(tess_st_write_bytes(writer, 0, 0, sizeof(b), b));
        EXPECT_OK(tess_st_write_bytes(writer, 1, 0, sizeof(packed), packed));
        EXPECT_OK(tess_st_write_finish(&writer, TESS_OK));
        EXPECT_OK(tess_catalog_open(test_mem(), folder, &c));
        EXPECT_TEXT(c->format, "safetensors");
        EXPECT_INT(c->n_tensors, 2);
        EXPECT_TEXT(c->tensors[0].name, "a");
        EXPECT_TEXT(c->tensors[0].dtype, "BF16");
        EXPECT_OK(tess_catalog_check(c));
        tess_box box = tess_catalog_whole(&c->tensors[0]);
        EXPECT_OK(tess_catalog_read_floats(c, &c->tensors[0], &box, got));
        EXPECT_SAME(got, a, 4);
        box = tensor_rows(&c->tensors[1], 1, 2);
        EXPECT_OK(tess_catalog_read_floats(c, &c->tensors[1], &box, got));
        EXPECT_SAME(got, b + 2, 4);
        tess_catalog_destroy(&c);
    }
    EXPECT_FAILS(tess_catalog_open(test_mem(), path_in(folder, "none"), &c), TESS_E_NOT_FOUND, "none");
    EXPECT_OK(tess_os_make_dir(path_in(folder, "empty")));
    EXPECT_FAILS(tess_catalog_open(test_mem(), path_in(folder, "empty"), &c), TESS_E_UNSUPPORTED, "a safetensors file");
}

static const test_case cases[] = {
    CASE(any_cut_reads_back_as_any_box),
    CASE(other_dtypes_are_read_as_they_are),
    CASE(pieces_that_overlap_are_refused),
    CASE(the_first_missing_element_is_named),
    CASE(hostile_numbers_are_refused),
    CASE(no_cut_makes_finishing_slow),
    CASE(a_large_grid_is_finished),
    CASE(any_flipped_byte_is_named),
    CASE(any_truncation_is_named),
    CASE(verifying_tells_of_every_piece),
    CASE(a_packed_piece_that_does_not_unpack_is_damage),
    CASE(a_range_is_verified_once_by_all_threads),
    CASE(a_verified_piece_is_not_read_whole_again),
    CASE(safetensors_open_as_catalogs),
};
TEST_MAIN(cases)
