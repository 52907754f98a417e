/* Checkpoints of tensors cut in any way: what one layout saves, any other loads, element by element. */
#include <inttypes.h>

#include "base/core/rng.h"
#include "ckpt/store/read.h"
#include "ckpt/store/store.h"
#include "ckpt/tools/diff.h"
#include "ckpt/tools/rewrite.h"
#include "files.h"
#include "ranks.h"
#include "rows.h"
#include "tessera/dtensor.h"

enum { TENSORS = 5, MOST = 2048, TRIALS = 200, STEP = 3, RANKS = 8 };

/* ---- Random layouts ---- */
static uint64_t drawn;

static int64_t draw(int64_t n)
{
    return (int64_t)(tess_rng_u64(15, TESS_RNG_TEST, 0, drawn++) % (uint64_t)n);
}

/* A mesh, and for each tensor who holds what and who writes what of it. */
typedef struct layout {
    int n_axes, sizes[3], world;
    tess_spec held[TENSORS], written[TENSORS];
} layout;

static const tess_shape *shapes_of(int world)
{
    static tess_shape shapes[TENSORS];
    const int64_t sizes[] = {0, 1, world - 1, world, world + 1, 7, 11};
    for (int i = 0; i < TENSORS; i++) {
        shapes[i].n_dims = i == 0 ? 0 : (int)draw(3) + 1;
        for (int d = 0; d < shapes[i].n_dims; d++)
            shapes[i].dim[d] = sizes[draw(7)];
    }
    return shapes;
}

/* Ranks that hold the same divide it, after all axes that cut: then each element is written once. */
static tess_spec written_of(const tess_spec *held)
{
    tess_spec spec = *held;
    for (int a = 0; a < spec.n_axes; a++)
        if (spec.place[a].kind == TESS_REPLICATE) {
            spec.place[a] = (tess_place){.kind = TESS_SHARD, .dim = a % spec.shape.n_dims};
            spec.order[a] = 10;
        }
    return spec;
}

static layout draw_layout(const tess_shape *shapes)
{
    layout l = {.n_axes = (int)draw(3) + 1, .world = 1};
    for (int a = 0; a < l.n_axes; a++) {
        l.sizes[a] = (int)draw(RANKS / l.world) + 1;
        l.world *= l.sizes[a];
    }
    for (int i = 0; i < TENSORS; i++) {
        l.held[i] = (tess_spec){.shape = tess_shape_atleast_1d(&shapes[i]), .n_axes = l.n_axes};
        for (int a = 0; a < l.n_axes; a++) {
            if (draw(4) > 0)
                l.held[i].place[a] = (tess_place){TESS_SHARD, (int)draw(l.held[i].shape.n_dims)};
            l.held[i].order[a] = (uint8_t)draw(3);
        }
        l.written[i] = written_of(&l.held[i]);
    }
    return l;
}

static void point_of(const layout *l, int rank, int at[3])
{
    for (int a = l->n_axes; a-- > 0; rank /= l->sizes[a])
        at[a] = rank % l->sizes[a];
}

/* ---- Values ---- */
static const char *const names[TENSORS] = {"scalar", "b", "c", "d", "e"};

static float value_at(int tensor, int64_t place)
{
    return (float)(tensor * MOST + place) * 0.25f;
}

/* The place in the whole tensor of element `i` of a box, by counting. */
static int64_t place_of(const tess_shape *shape, const tess_box *box, int64_t i)
{
    int64_t place = 0, step = 1;
    for (int d = shape->n_dims; d-- > 0; i /= box->size[d]) {
        place += (box->begin[d] + i % box->size[d]) * step;
        step *= shape->dim[d];
    }
    return place;
}

typedef struct holder {
    tess_ckpt_tensor tensors[TENSORS];
    float data[TENSORS][MOST];
} holder;

static void hold(holder *h, const layout *l, const tess_shape *shapes, int rank, bool filled)
{
    int at[3];
    point_of(l, rank, at);
    for (int i = 0; i < TENSORS; i++) {
        tess_ckpt_tensor *t = &h->tensors[i];
        *t = (tess_ckpt_tensor){.name = names[i], .shape = shapes[i]};
        t->box = tess_spec_box(&l->held[i], l->sizes, at);
        t->primary = tess_spec_box(&l->written[i], l->sizes, at);
        t->data = h->data[i];
        for (int64_t k = 0; k < MOST; k++)
            h->data[i][k] =
                filled && k < tess_ckpt_count(t, &t->box) ? value_at(i, place_of(&l->held[i].shape, &t->box, k)) : -1;
    }
}

static void expect_held(const holder *h, const layout *l)
{
    for (int i = 0; i < TENSORS; i++) {
        const tess_ckpt_tensor *t = &h->tensors[i];
        for (int64_t k = 0; k < MOST; k++) {
            bool inside = k < tess_ckpt_count(t, &t->box);
            float want = inside ? value_at(i, place_of(&l->held[i].shape, &t->box, k)) : -1;
            if (h->data[i][k] != want)
                test_fail(__FILE__, __LINE__,
                          "trial %" PRIu64 ", tensor %d: element %" PRId64 " of its box is %g, not %g", drawn, i, k,
                          (double)h->data[i][k], (double)want);
        }
    }
}

/* ---- Saving as many ranks in one process ---- */
static json_t *write_rank(const char *folder, const holder *h, int rank, tess_codec codec)
{
    static char full[TENSORS][TESS_STORE_NAME];
    tess_store_piece pieces[TENSORS];
    char file[32];
    json_t *part;
    const tess_store_options options = {.codec = codec};
    for (int i = 0; i < TENSORS; i++) {
        const tess_ckpt_tensor *t = &h->tensors[i];
        tess_store_tensor_name(t->state, t->name, full[i]);
        pieces[i] = (tess_store_piece){full[i], "F32", false, t->shape.n_dims};
        memcpy(pieces[i].dim, t->shape.dim, sizeof(t->shape.dim));
        pieces[i].box = t->primary, pieces[i].held = t->box;
        pieces[i].rank = rank, pieces[i].data = t->data;
    }
    snprintf(file, sizeof(file), "rank-%05d.data", rank);
    EXPECT_OK(tess_store_write_part(test_mem(), &options, folder, file, pieces, TENSORS, &part));
    return part;
}

static void save_as(const char *dir, const layout *l, const tess_shape *shapes, tess_codec codec)
{
    static holder h;
    char folder[TESS_CKPT_PATH];
    json_t *parts[RANKS];
    const tess_store_facts facts = {.world_size = l->world};
    EXPECT_OK(tess_store_begin(NULL, dir, STEP, folder));
    for (int rank = 0; rank < l->world; rank++) {
        hold(&h, l, shapes, rank, true);
        parts[rank] = write_rank(folder, &h, rank, codec);
    }
    EXPECT_OK(tess_store_commit(NULL, dir, STEP, parts, l->world, &facts));
    for (int rank = 0; rank < l->world; rank++)
        json_decref(parts[rank]);
}

static void load_as(const char *dir, const layout *l, const tess_shape *shapes)
{
    static holder h;
    for (int rank = 0; rank < l->world; rank++) {
        hold(&h, l, shapes, rank, false);
        EXPECT_OK(tess_ckpt_load(test_mem(), NULL, dir, STEP, h.tensors, TENSORS, NULL, NULL));
        expect_held(&h, l);
    }
}

static void expect_verified(const char *dir)
{
    tess_catalog *catalog;
    EXPECT_OK(tess_catalog_open(test_mem(), dir, &catalog));
    EXPECT_OK(tess_catalog_verify(catalog, NULL));
    tess_catalog_destroy(&catalog);
}

static void any_layout_reads_what_any_other_wrote(void)
{
    for (int trial = 0; trial < TRIALS; trial++) {
        const tess_shape *shapes = shapes_of((int)draw(RANKS) + 1);
        layout from = draw_layout(shapes), to = draw_layout(shapes);
        save_as(test_folder(), &from, shapes, trial % 2 == 0 ? TESS_CODEC_NONE : TESS_CODEC_ZSTD);
        expect_verified(test_folder());
        load_as(test_folder(), &to, shapes);
    }
}

static void each_element_is_written_by_one_rank(void)
{
    for (int trial = 0; trial < 20000; trial++) {
        const tess_shape *shapes = shapes_of((int)draw(RANKS) + 1);
        layout l = draw_layout(shapes);
        for (int i = 0; i < TENSORS; i++) {
            static uint8_t n_writers[MOST];
            const tess_shape *shape = &l.held[i].shape;
            memset(n_writers, 0, sizeof(n_writers));
            for (int rank = 0; rank < l.world; rank++) {
                int at[3];
                point_of(&l, rank, at);
                tess_box held = tess_spec_box(&l.held[i], l.sizes, at), own = tess_spec_box(&l.written[i], l.sizes, at);
                int64_t n = tess_box_count(shape->n_dims, &own);
                EXPECT(n == 0 || tess_box_contains(shape->n_dims, &held, &own));
                for (int64_t k = 0; k < n; k++)
                    n_writers[place_of(shape, &own, k)]++;
            }
            for (int64_t k = 0; k < tess_shape_count(shape); k++)
                EXPECT_INT(n_writers[k], 1);
        }
    }
}

/* ---- Fixed cuts ---- */
static layout grid_layout(const tess_shape *shapes, int rows, int columns)
{
    layout l = {.n_axes = 2, .sizes = {rows, columns}, .world = rows * columns};
    for (int i = 0; i < TENSORS; i++) {
        l.held[i] = (tess_spec){.shape = tess_shape_atleast_1d(&shapes[i]), .n_axes = 2};
        l.held[i].place[0] = (tess_place){TESS_SHARD, 0};
        if (l.held[i].shape.n_dims > 1)
            l.held[i].place[1] = (tess_place){TESS_SHARD, 1};
        l.written[i] = written_of(&l.held[i]);
    }
    return l;
}

static const tess_shape grid_shapes[TENSORS] = {{0, {0}}, {1, {9}}, {2, {7, 10}}, {3, {5, 3, 4}}, {2, {2, 13}}};

static void all_ranks_save_and_load_boxes(void)
{
    static holder h;
    tess_team *team = join_job();
    const char *dir = common_folder(team);
    int world = tess_team_size(team), rank = tess_team_rank(team);
    int columns = world % 2 == 0 ? 2 : 1;
    layout from = grid_layout(grid_shapes, world / columns, columns), to = grid_layout(grid_shapes, 1, world);
    hold(&h, &from, grid_shapes, rank, true);
    EXPECT_OK(tess_ckpt_save(test_mem(), team, dir, STEP, NULL, h.tensors, TENSORS, NULL));
    hold(&h, &to, grid_shapes, rank, false);
    EXPECT_OK(tess_ckpt_load(test_mem(), team, dir, STEP, h.tensors, TENSORS, NULL, NULL));
    expect_held(&h, &to);
    leave_job();
}

static tess_status rewrite(const char *in, const char *out, tess_target target)
{
    tess_rewrite_result unseen;
    return tess_ckpt_rewrite(test_mem(), in, out, &(tess_rewrite_options){.target = target, .step = -1}, &unseen);
}

static tess_diff_summary diff(const char *path_a, const char *path_b)
{
    tess_catalog *a, *b;
    tess_diff_summary summary;
    EXPECT_OK(tess_catalog_open(test_mem(), path_a, &a));
    EXPECT_OK(tess_catalog_open(test_mem(), path_b, &b));
    EXPECT_OK(tess_ckpt_diff(a, b, NULL, &summary));
    tess_catalog_destroy(&a);
    tess_catalog_destroy(&b);
    return summary;
}

/* All tensors are there, whatever the format puts before their names. */
static void expect_values(const char *path)
{
    tess_catalog *c;
    EXPECT_OK(tess_catalog_open(test_mem(), path, &c));
    for (int i = 0; i < TENSORS; i++) {
        float values[MOST];
        const tess_catalog_tensor *found = NULL;
        for (int k = 0; k < c->n_tensors; k++) {
            const char *last = strrchr(c->tensors[k].name, '.');
            if (strcmp(last != NULL ? last + 1 : c->tensors[k].name, names[i]) == 0)
                found = &c->tensors[k];
        }
        EXPECT(found != NULL && tess_catalog_has_shape(found, &grid_shapes[i]));
        const tess_box whole = tess_catalog_whole(found);
        EXPECT_OK(tess_catalog_read_floats(c, found, &whole, values));
        for (int64_t k = 0; k < tess_shape_count(&grid_shapes[i]); k++)
            EXPECT(values[k] == value_at(i, k));
    }
    tess_catalog_destroy(&c);
}

/* The tools see the same tensors however they are cut. */
static void a_grid_converts_and_compares_like_rows(void)
{
    const layout grid = grid_layout(grid_shapes, 2, 3), rows = grid_layout(grid_shapes, 4, 1);
    const char *dir = path_in(test_folder(), "grid");
    char grids[512], cut[512];
    snprintf(grids, sizeof(grids), "%s", dir);
    snprintf(cut, sizeof(cut), "%s", path_in(test_folder(), "rows"));
    save_as(grids, &grid, grid_shapes, TESS_CODEC_NONE);
    save_as(cut, &rows, grid_shapes, TESS_CODEC_NONE);
    tess_diff_summary summary = diff(grids, cut);
    EXPECT_INT(summary.n_tensors[TESS_DIFF_SAME], TENSORS);
    static const struct {
        tess_target target;
        const char *name;
    } outs[] = {{TESS_TO_SAFETENSORS, "a.safetensors"},
                {TESS_TO_TORCH, "a.pt"},
                {TESS_TO_DCP, "dcp"},
                {TESS_TO_TESSERA, "tessera"}};
    for (size_t i = 0; i < sizeof(outs) / sizeof(outs[0]); i++) {
        const char *out = path_in(test_folder(), outs[i].name);
        EXPECT_OK(rewrite(grids, out, outs[i].target));
        expect_values(out);
    }
}

/* ---- Bytes that are read ---- */
static int64_t bytes_read(void)
{
    long long n = -1;
    FILE *f = fopen("/proc/self/io", "r");
    EXPECT(f != NULL && fscanf(f, "rchar: %lld", &n) == 1);
    fclose(f);
    return n;
}

static void a_reader_reads_the_pieces_of_its_boxes_alone(void)
{
    enum { SIDE = 1024, PARTS = 4 };
    static float data[SIDE * SIDE];
    const tess_shape shape = {2, {SIDE, SIDE}};
    char folder[TESS_CKPT_PATH];
    json_t *parts[PARTS];
    const tess_store_facts facts = {.world_size = PARTS};
    const tess_box whole = tess_box_whole(&shape);
    EXPECT_OK(tess_store_begin(NULL, test_folder(), STEP, folder));
    for (int rank = 0; rank < PARTS; rank++) {
        char file[32];
        tess_store_piece piece = {"model.w", "F32", false, 2, {SIDE, SIDE}, .rank = rank, .data = data, .held = whole};
        piece.box = whole;
        tess_shard_rows(SIDE, PARTS, rank, &piece.box.begin[1], &piece.box.size[1]);
        snprintf(file, sizeof(file), "rank-%05d.data", rank);
        EXPECT_OK(tess_store_write_part(test_mem(), NULL, folder, file, &piece, 1, &parts[rank]));
    }
    EXPECT_OK(tess_store_commit(NULL, test_folder(), STEP, parts, PARTS, &facts));
    for (int rank = 0; rank < PARTS; rank++)
        json_decref(parts[rank]);
    tess_ckpt_tensor tensor = {.name = "w", .shape = shape, .box = {{100, 256}, {900, 256}}, .data = data};
    int64_t before = bytes_read();
    EXPECT_OK(tess_ckpt_load(test_mem(), NULL, test_folder(), STEP, &tensor, 1, NULL, NULL));
    int64_t read = bytes_read() - before, needed = (int64_t)sizeof(data) / PARTS;
    if (read < needed || read > needed + 65536) /* the second column of pieces, and the manifest */
        test_fail(__FILE__, __LINE__, "%" PRId64 " bytes were read, %" PRId64 " are in the piece", read, needed);
}

/* ---- Refusals ---- */
static tess_status commit_two(tess_box a, tess_box b)
{
    static float data[64];
    char folder[TESS_CKPT_PATH];
    json_t *parts[2] = {NULL, NULL};
    const tess_store_facts facts = {.world_size = 2};
    tess_store_piece piece = {"model.w", "F32", false, 2, {4, 6}, .data = data};
    tess_status status = tess_store_begin(NULL, test_folder(), STEP, folder);
    for (int rank = 0; rank < 2 && status == TESS_OK; rank++) {
        piece.rank = rank;
        piece.box = piece.held = rank == 0 ? a : b;
        status =
            tess_store_write_part(test_mem(), NULL, folder, rank == 0 ? "0.data" : "1.data", &piece, 1, &parts[rank]);
    }
    if (status == TESS_OK)
        status = tess_store_commit(NULL, test_folder(), STEP, parts, 2, &facts);
    json_decref(parts[0]);
    json_decref(parts[1]);
    return status;
}

static void boxes_that_overlap_or_leave_a_gap_or_stand_out_are_named(void)
{
    EXPECT_OK(commit_two((tess_box){{0, 0}, {4, 4}}, (tess_box){{0, 4}, {4, 2}}));
    EXPECT_FAILS(commit_two((tess_box){{0, 0}, {4, 4}}, (tess_box){{1, 3}, {3, 3}}), TESS_E_INVALID, "'model.w'");
    EXPECT_CONTAINS(tess_error_message(), "rank 0 wrote [0, 4) x [0, 4)");
    EXPECT_CONTAINS(tess_error_message(), "rank 1 wrote [1, 4) x [3, 6)");
    EXPECT_FAILS(commit_two((tess_box){{0, 0}, {4, 4}}, (tess_box){{0, 4}, {3, 2}}), TESS_E_INVALID,
                 "no rank wrote element [3, 4]");
    EXPECT_FAILS(commit_two((tess_box){{0, 0}, {4, 4}}, (tess_box){{0, 4}, {4, 3}}), TESS_E_INVALID,
                 "rank 1 writes [0, 4) x [4, 7) of 'model.w', which is not inside [4, 6]");
    EXPECT_FAILS(commit_two((tess_box){{0, 0}, {4, 4}}, (tess_box){{0, 7}, {4, -1}}), TESS_E_INVALID, "rank 1");
    static float data[24];
    tess_ckpt_tensor tensor = {.name = "w", .shape = {2, {4, 6}}, .box = {{0, 0}, {4, 6}}, .data = data};
    tensor.primary = tensor.box;
    EXPECT_OK(tess_ckpt_save(test_mem(), NULL, test_folder(), STEP, NULL, &tensor, 1, NULL));
    tensor.box.begin[1] = 1;
    EXPECT_FAILS(tess_ckpt_load(test_mem(), NULL, test_folder(), STEP, &tensor, 1, NULL, NULL), TESS_E_INVALID,
                 "'w' of shape [4, 6]: rank 0 holds [0, 4) x [1, 7)");
    tensor.box.size[1] = 3;
    EXPECT_FAILS(tess_ckpt_save(test_mem(), NULL, test_folder(), STEP, NULL, &tensor, 1, NULL), TESS_E_INVALID,
                 "holds [0, 4) x [1, 4) and writes [0, 4) x [0, 6)");
}

static const test_case cases[] = {
    CASE(any_layout_reads_what_any_other_wrote),
    CASE(each_element_is_written_by_one_rank),
    CASE(all_ranks_save_and_load_boxes, -1),
    CASE(a_grid_converts_and_compares_like_rows),
    CASE(a_reader_reads_the_pieces_of_its_boxes_alone),
    CASE(boxes_that_overlap_or_leave_a_gap_or_stand_out_are_named),
};
TEST_MAIN(cases)
