/* Writing a checkpoint without collectives: the files have the content that the manifest states. */
#include <errno.h>

#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zstd.h>

#include "base/os/os.h"
#include "ckpt/store/store_write.h"
#include "device/bf16.h"
#include "files.h"

enum { ROWS = 70, ROW = 1 << 18, SMALL = 5 }; /* sizes of the large tensor: 70 MiB, so two pieces */

static float *large;
static float small[SMALL] = {1, -2.5f, 3e-9f, 4, 1e20f};

static void make_data(void)
{
    EXPECT_OK(tess_mem_alloc(test_mem(), TESS_POOL_MISC, (size_t)ROWS * ROW * 4 + 64, "large", (void **)&large));
    for (size_t i = 0; i < (size_t)ROWS * ROW; i++)
        large[i] = (float)(i * 2654435761u % 1000) - 500;
}

static void list_pieces(tess_store_piece pieces[4], tess_dtype stored)
{
    const char *dtype = stored == TESS_F32 ? "F32" : "BF16";
    bool rounds = stored != TESS_F32;
    pieces[0] = (tess_store_piece){"model.small", "F32", false, 1, {SMALL}, {{0}, {SMALL}}, 3, small};
    pieces[1] = (tess_store_piece){"model.large", dtype, rounds, 2, {ROWS, ROW}, {{0}, {ROWS, ROW}}, 3, large};
    pieces[2] = (tess_store_piece){"model.scalar", dtype, rounds, 0, {0}, {{0}, {1}}, 3, small + 1};
    pieces[3] = (tess_store_piece){"model.none", dtype, rounds, 2, {0, 4}, {{0}, {0, 4}}, 3, NULL};
    for (int i = 0; i < 4; i++)
        pieces[i].held = pieces[i].box;
}

static tess_status save(const char *dir, int64_t step, const tess_store_options *options, tess_dtype stored)
{
    char folder[TESS_CKPT_PATH];
    tess_store_piece pieces[4];
    json_t *part = NULL;
    const tess_store_facts facts = {.world_size = 4};
    list_pieces(pieces, stored);
    TESS_TRY(tess_store_begin(options->io, dir, step, folder));
    TESS_TRY(tess_store_write_part(test_mem(), options, folder, "rank-00003.data", pieces, 4, &part));
    tess_status status = tess_store_commit(options->io, dir, step, &part, 1, &facts);
    json_decref(part);
    return status;
}

/* ---- Reading by the documented format alone ---- */
static json_int_t number(const json_t *object, const char *key)
{
    EXPECT(json_is_integer(json_object_get(object, key)));
    return json_integer_value(json_object_get(object, key));
}

static json_int_t item(const json_t *object, const char *key, size_t i)
{
    return json_integer_value(json_array_get(json_object_get(object, key), i));
}

/* The bytes of the piece, verified and unpacked. */
static void *take_piece(const char *file, size_t file_bytes, const json_t *piece)
{
    void *out;
    char sum[24];
    size_t offset = (size_t)number(piece, "offset"), stored = (size_t)number(piece, "stored");
    size_t bytes = (size_t)number(piece, "bytes");
    EXPECT_INT(offset % 4096, 0);
    EXPECT(offset + stored <= file_bytes);
    snprintf(sum, sizeof(sum), "%016llx", (unsigned long long)XXH3_64bits(file + offset, stored));
    EXPECT_TEXT(json_string_value(json_object_get(piece, "xxh3")), sum);
    EXPECT_OK(tess_mem_alloc(test_mem(), TESS_POOL_MISC, bytes, "piece", &out));
    if (strcmp(json_string_value(json_object_get(piece, "codec")), "zstd") == 0) {
        EXPECT_INT(ZSTD_getFrameContentSize(file + offset, stored), bytes);
        EXPECT_INT(ZSTD_decompress(out, bytes, file + offset, stored), bytes);
    } else {
        EXPECT_INT(stored, bytes);
        memcpy(out, file + offset, bytes);
    }
    return out;
}

static void expect_values(const void *got, tess_dtype dtype, const float *want, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float x = dtype == TESS_F32 ? ((const float *)got)[i] : tess_bf16_to_float(((const uint16_t *)got)[i]);
        float y = dtype == TESS_F32 ? want[i] : tess_bf16_to_float(tess_float_to_bf16(want[i]));
        EXPECT(x == y);
    }
}

static void expect_tensor(const json_t *manifest, const char *file, size_t file_bytes, const tess_store_piece *p)
{
    json_t *piece, *tensor = json_object_get(json_object_get(manifest, "tensors"), p->name);
    size_t i, row = p->n_dims > 1 ? (size_t)p->dim[1] : 1;
    json_int_t next = 0;
    EXPECT_TEXT(json_string_value(json_object_get(tensor, "dtype")), p->dtype);
    EXPECT_INT(json_array_size(json_object_get(tensor, "shape")), p->n_dims);
    json_array_foreach (json_object_get(tensor, "pieces"), i, piece) {
        json_int_t rows = p->n_dims > 0 ? item(piece, "size", 0) : 1;
        void *data = take_piece(file, file_bytes, piece);
        EXPECT_INT(item(piece, "begin", 0), next);
        EXPECT_INT(number(piece, "rank"), 3);
        EXPECT(number(piece, "bytes") <= TESS_STORE_PIECE_BYTES);
        expect_values(data, p->rounds ? TESS_BF16 : TESS_F32, (const float *)p->data + (size_t)next * row,
                      (size_t)rows * row);
        tess_mem_free(test_mem(), data);
        next += rows;
    }
    EXPECT_INT(next, p->box.size[0]);
}

static void expect_saved(const char *dir, const char *name, int64_t step, tess_dtype stored)
{
    json_t *manifest;
    tess_mapping file;
    tess_store_piece pieces[4];
    const char *folder = path_in(dir, name);
    list_pieces(pieces, stored);
    EXPECT_TEXT(names_in(folder), "commit.json manifest.json rank-00003.data");
    EXPECT_OK(tess_store_open_manifest(folder, step, &manifest));
    EXPECT_OK(tess_os_map(path_in(folder, "rank-00003.data"), &file));
    EXPECT_INT(number(json_object_get(manifest, "files"), "rank-00003.data"), file.size);
    EXPECT_INT(json_object_size(json_object_get(manifest, "tensors")), 4);
    for (int i = 0; i < 4; i++)
        expect_tensor(manifest, (const char *)file.data, file.size, &pieces[i]);
    tess_os_unmap(&file);
    json_decref(manifest);
}

/* ---- Tests ---- */
static void what_is_written_lies_where_the_manifest_says(void)
{
    const char *dir = path_in(test_folder(), "runs/checkpoint");
    make_data();
    for (int i = 0; i < 8; i++) {
        char name[32];
        tess_dtype stored = i & 1 ? TESS_BF16 : TESS_F32;
        tess_store_options options = {.codec = i & 2 ? TESS_CODEC_ZSTD : TESS_CODEC_NONE, .direct = i & 4};
        snprintf(name, sizeof(name), "step-%08d", i);
        EXPECT_OK(save(dir, i, &options, stored));
        expect_saved(dir, name, i, stored);
        EXPECT_OK(tess_os_remove_tree(path_in(dir, name)));
    }
    tess_mem_free(test_mem(), large);
}

static void large_rows_that_do_not_lie_at_a_page_are_written_directly(void)
{
    tess_store_options options = {.direct = true};
    make_data();
    memmove(large + 1, large, (size_t)ROWS * ROW * 4);
    float *begin = large++;
    EXPECT_OK(save(test_folder(), 1, &options, TESS_F32));
    expect_saved(test_folder(), "step-00000001", 1, TESS_F32);
    tess_mem_free(test_mem(), begin);
}

static int make_short(void *self, tess_save_point point)
{
    int *n = self;
    return point == TESS_SAVE_WRITE || point == TESS_SAVE_WRITE_MANIFEST ? ((*n)++, TESS_IO_SHORT) : 0;
}

static void short_writes_go_on(void)
{
    int n_writes = 0;
    tess_io io = {make_short, &n_writes};
    make_data();
    for (int direct = 0; direct < 2; direct++) {
        tess_store_options options = {.io = &io, .direct = direct == 1};
        EXPECT_OK(save(test_folder(), 1, &options, TESS_F32));
        expect_saved(test_folder(), "step-00000001", 1, TESS_F32);
    }
    EXPECT(n_writes > 100);
    tess_mem_free(test_mem(), large);
}

static int fail_to_reserve(void *self, tess_save_point point)
{
    (void)self;
    return point == TESS_SAVE_RESERVE ? ENOSPC : 0;
}

static void a_full_disk_is_met_before_anything_is_written(void)
{
    tess_io io = {fail_to_reserve, NULL};
    const tess_store_options options = {.io = &io};
    make_data();
    tess_status status = save(test_folder(), 1, &options, TESS_F32);
    EXPECT_INT(status, TESS_E_NO_SPACE);
    EXPECT_CONTAINS(tess_error_message(), "step-00000001.tmp/rank-00003.data");
    EXPECT_INT(tess_store_abandon(NULL, test_folder(), 1, status), TESS_E_NO_SPACE);
    EXPECT_CONTAINS(tess_error_message(), "step-00000001.tmp/rank-00003.data");
    EXPECT_TEXT(names_in(test_folder()), "");
    tess_mem_free(test_mem(), large);
}

static void rows_that_nobody_writes_are_named(void)
{
    char folder[TESS_CKPT_PATH];
    json_t *parts[2];
    const tess_store_facts facts = {.world_size = 2};
    tess_store_piece piece = {"model.small", "F32", false, 1, {SMALL}, {{0}, {3}}, 0, small, {{0}, {SMALL}}};
    EXPECT_OK(tess_store_begin(NULL, test_folder(), 7, folder));
    EXPECT_OK(tess_store_write_part(test_mem(), NULL, folder, "rank-00000.data", &piece, 1, &parts[0]));
    EXPECT_FAILS(tess_store_commit(NULL, test_folder(), 7, parts, 1, &facts), TESS_E_INVALID,
                 "'model.small' of 5 rows: some rows were left out: those at 3");
    piece.box.begin[0] = 2;
    EXPECT_OK(tess_store_write_part(test_mem(), NULL, folder, "rank-00001.data", &piece, 1, &parts[1]));
    EXPECT_FAILS(tess_store_commit(NULL, test_folder(), 7, parts, 2, &facts), TESS_E_INVALID,
                 "some rows were written twice: those at 2");
    json_decref(parts[1]);
    piece.box = (tess_box){{0}, {2}}; /* the right number of elements, but not the right ones */
    EXPECT_OK(tess_store_write_part(test_mem(), NULL, folder, "rank-00001.data", &piece, 1, &parts[1]));
    EXPECT_FAILS(tess_store_commit(NULL, test_folder(), 7, parts, 2, &facts), TESS_E_INVALID, "written twice");
    json_decref(parts[1]);
    piece.box = (tess_box){{2}, {3}};
    piece.dim[0] = 6;
    EXPECT_OK(tess_store_write_part(test_mem(), NULL, folder, "rank-00001.data", &piece, 1, &parts[1]));
    EXPECT_FAILS(tess_store_commit(NULL, test_folder(), 7, parts, 2, &facts), TESS_E_MISMATCH, "model.small");
    piece.box.begin[0] = 4;
    EXPECT_FAILS(tess_store_write_part(test_mem(), NULL, folder, "x.data", &piece, 1, &parts[1]), TESS_E_INVALID,
                 "rank 0 writes [4, 7) of 'model.small', which is not inside [6]");
    json_decref(parts[0]);
}

static const test_case cases[] = {
    CASE(what_is_written_lies_where_the_manifest_says),
    CASE(large_rows_that_do_not_lie_at_a_page_are_written_directly),
    CASE(short_writes_go_on),
    CASE(a_full_disk_is_met_before_anything_is_written),
    CASE(rows_that_nobody_writes_are_named),
};
TEST_MAIN(cases)
