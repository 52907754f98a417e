/* Writing: the reference writer's bytes, shards and their index, many ranks, and full disks. */
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/os/os.h"
#include "ckpt/formats/formats.h"
#include "ckpt/safetensors/safetensors.h"
#include "files.h"
#include "ranks.h"
#include "rows.h"

/* Fills dst with rows of a tensor in the entry's dtype; called in file order. */
typedef tess_status (*source_fn)(void *context, int entry, int64_t row_begin, int64_t n_rows, void *dst);

static const size_t staging_bytes = 4 << 20;

static tess_status write_rows(tess_st_writer *writer, int entry, int64_t row, int64_t n, const void *rows)
{
    size_t bytes = tess_st_writer_plan(writer)->places[entry].row_bytes;
    return tess_st_write_bytes(writer, entry, (size_t)row * bytes, (size_t)n * bytes, rows);
}

/* The rows that fit the staging buffer, at least one. */
static size_t rows_at_a_time(const tess_st_place *place)
{
    size_t rows = place->row_bytes == 0 ? place->rows : staging_bytes / place->row_bytes;
    rows = rows == 0 ? 1 : rows;
    return rows < place->rows ? rows : place->rows;
}

static tess_status stream_tensor(tess_st_writer *writer, int entry, source_fn source, void *context, void *staging)
{
    const tess_st_place *place = &tess_st_writer_plan(writer)->places[entry];
    size_t step = rows_at_a_time(place);
    if (place->bytes == 0)
        return TESS_OK;
    for (size_t row = 0; row < place->rows; row += step) {
        int64_t n = (int64_t)(place->rows - row < step ? place->rows - row : step);
        TESS_TRY(source(context, entry, (int64_t)row, n, staging));
        TESS_TRY(write_rows(writer, entry, (int64_t)row, n, staging));
    }
    return TESS_OK;
}

static tess_status stream(tess_mem *mem, tess_st_writer *writer, source_fn source, void *context)
{
    const tess_st_plan *plan = tess_st_writer_plan(writer);
    void *staging;
    size_t largest = 0;
    for (int i = 0; i < plan->n_entries; i++) {
        size_t bytes = rows_at_a_time(&plan->places[i]) * plan->places[i].row_bytes;
        largest = bytes > largest ? bytes : largest;
    }
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, largest, "rows to write", &staging));
    tess_status status = TESS_OK;
    for (int i = 0; i < plan->n_entries && status == TESS_OK; i++)
        status = stream_tensor(writer, plan->order[i], source, context, staging);
    tess_mem_free(mem, staging);
    return status;
}

/* Writes a folder from one process in the order of its files, a few rows at a time. */
static tess_status write_model(tess_mem *mem, const char *folder, const tess_st_entry *entries, int n_entries,
                               size_t shard_bytes, source_fn source, void *context)
{
    tess_st_tensor *tensors;
    tess_st_writer *writer = NULL;
    tess_status status = TESS_OK;
    TESS_CHECK(n_entries >= 0, TESS_E_INVALID, "%d tensors to write", n_entries);
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)n_entries, sizeof(tensors[0]), "tensors to write",
                                  (void **)&tensors));
    for (int i = 0; i < n_entries && status == TESS_OK; i++)
        status = tess_st_describe(&entries[i], &tensors[i]);
    if (status == TESS_OK)
        status = tess_st_write_begin(mem, NULL, folder, "model", tensors, n_entries, shard_bytes, NULL, &writer);
    if (status == TESS_OK)
        status = tess_st_write_finish(&writer, stream(mem, writer, source, context));
    tess_mem_free(mem, tensors);
    return status;
}

/* Element i of tensor t: unique to its place. */
static float value_at(int t, int64_t i)
{
    return (float)(t * 1000 + i) * 0.37f - 5.0f;
}

static const tess_st_entry entries[] = {
    {"model.norm.weight", TESS_BF16, {1, {7}}},
    {"model.layers.1.w", TESS_F32, {2, {5, 3}}},
    {"model.layers.0.w", TESS_F32, {2, {11, 2}}},
    {"empty", TESS_F16, {2, {0, 4}}},
    {"lm_head.weight", TESS_F16, {3, {13, 2, 2}}},
    {"scalar", TESS_F32, {0, {0}}},
    {"few", TESS_BF16, {2, {2, 9}}},
};
enum { N = sizeof(entries) / sizeof(entries[0]) };

static tess_status source(void *context, int e, int64_t row_begin, int64_t n_rows, void *dst)
{
    float row[64];
    int64_t count = tess_shape_row_count(&entries[e].shape);
    int *calls = context;
    for (int64_t r = 0; r < n_rows; r++) {
        for (int64_t i = 0; i < count; i++)
            row[i] = value_at(e, (row_begin + r) * count + i);
        TESS_TRY(tess_st_encode(row, count, entries[e].dtype,
                                (char *)dst + (size_t)(r * count) * tess_dtype_size(entries[e].dtype)));
    }
    TESS_CHECK(calls == NULL || --*calls != 0, TESS_E_CANCELLED, "the source gave up");
    return TESS_OK;
}

static void expect_values(const char *folder)
{
    tess_catalog *c;
    EXPECT_OK(tess_catalog_open_safetensors(test_mem(), folder, &c));
    EXPECT_INT(c->n_tensors, N);
    for (int e = 0; e < N; e++) {
        const tess_catalog_tensor *t = tess_catalog_find(c, entries[e].name);
        EXPECT(t != NULL);
        EXPECT_INT(t->n_dims, entries[e].shape.n_dims);
        EXPECT(t->n_pieces == 0 || c->pieces[t->first_piece].offset % (uint64_t)t->element_bytes == 0);
        int64_t rows = tess_shape_rows(&entries[e].shape), count = tess_shape_row_count(&entries[e].shape);
        for (int64_t r = 0; r < rows; r++) {
            float got[64], want[64], exact[64];
            uint16_t half[64];
            tess_box row = tensor_rows(t, r, 1);
            EXPECT_OK(tess_catalog_read_floats(c, t, &row, got));
            for (int64_t i = 0; i < count; i++)
                exact[i] = value_at(e, r * count + i);
            EXPECT_CLOSE(got, exact, (size_t)count, 1.0 / 256, 0);
            memcpy(want, exact, sizeof(want));
            if (entries[e].dtype != TESS_F32) { /* encoding what was read gives what was written */
                uint16_t again[64];
                EXPECT_OK(tess_st_encode(exact, count, entries[e].dtype, half));
                EXPECT_OK(tess_st_encode(got, count, entries[e].dtype, again));
                EXPECT_SAME(again, half, (size_t)count);
            } else {
                EXPECT_SAME(got, want, (size_t)count);
            }
        }
    }
    tess_catalog_destroy(&c);
}

static tess_status six_floats(void *context, int e, int64_t row_begin, int64_t n_rows, void *dst)
{
    (void)context, (void)e, (void)row_begin, (void)n_rows;
    memcpy(dst, (float[]){0, 1, 2, 3, 4, 5}, 24);
    return TESS_OK;
}

/* The bytes that safetensors.torch.save_file writes for the same tensor with metadata {"format": "pt"}. */
static void a_file_has_the_reference_writers_bytes(void)
{
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},\"attn\\\"0\":{\"dtype\":\"F32\",\"shape\":[1,1,2,3],"
        "\"data_offsets\":[0,24]}}";
    static const float floats[] = {0, 1, 2, 3, 4, 5};
    uint8_t want[256] = {0};
    size_t length = (strlen(header) + 7) / 8 * 8;
    want[0] = (uint8_t)length;
    memset(want + 8, ' ', length);
    memcpy(want + 8, header, strlen(header));
    memcpy(want + 8 + length, floats, 24);
    tess_st_entry entry = {"attn\"0", TESS_F32, {4, {1, 1, 2, 3}}};
    EXPECT_OK(write_model(test_mem(), test_folder(), &entry, 1, 0, six_floats, NULL));
    EXPECT_TEXT(names_in(test_folder()), "model.safetensors");
    char *data;
    size_t size;
    EXPECT_OK(tess_os_read(test_mem(), path_in(test_folder(), "model.safetensors"), 4096, &data, &size));
    EXPECT_INT(size, 8 + length + 24);
    EXPECT_SAME((uint8_t *)data, want, size);
    tess_mem_free(test_mem(), data);
}

static void a_model_without_tensors_is_a_header(void)
{
    tess_catalog *c;
    EXPECT_OK(write_model(test_mem(), test_folder(), NULL, 0, 0, source, NULL));
    EXPECT_OK(tess_catalog_open_safetensors(test_mem(), test_folder(), &c));
    EXPECT_INT(c->n_tensors, 0);
    tess_catalog_destroy(&c);
}

static void tensors_are_ordered_by_dtype_then_name(void)
{
    static const char *const want[] = {
        "model.layers.0.w", "model.layers.1.w", "scalar", "few", "model.norm.weight", "empty", "lm_head.weight"};
    tess_st_header header;
    tess_mapping file;
    EXPECT_OK(write_model(test_mem(), test_folder(), entries, N, 0, source, NULL));
    EXPECT_OK(tess_os_map(path_in(test_folder(), "model.safetensors"), &file));
    EXPECT_OK(tess_st_header_parse(test_mem(), "model", file.data, file.size, &header));
    EXPECT_TEXT(tess_st_metadata(&header, "format"), "pt");
    for (int i = 0; i < N; i++) {
        const tess_st_tensor *t = &header.tensors[i];
        if (t->bytes > 0)
            EXPECT_TEXT(t->name, want[i]);
        EXPECT(i == 0 || t->offset >= t[-1].offset);
    }
    tess_st_header_free(&header);
    tess_os_unmap(&file);
    expect_values(test_folder());
}

static void shards_are_cut_by_size_and_indexed(void)
{
    static const char want[] = "{\n  \"metadata\": {\n    \"total_size\": 306\n  },\n  \"weight_map\": {\n"
                               "    \"empty\": \"model-00002-of-00004.safetensors\",\n"
                               "    \"few\": \"model-00004-of-00004.safetensors\",\n"
                               "    \"lm_head.weight\": \"model-00003-of-00004.safetensors\",\n"
                               "    \"model.layers.0.w\": \"model-00002-of-00004.safetensors\",\n"
                               "    \"model.layers.1.w\": \"model-00001-of-00004.safetensors\",\n"
                               "    \"model.norm.weight\": \"model-00001-of-00004.safetensors\",\n"
                               "    \"scalar\": \"model-00004-of-00004.safetensors\"\n  }\n}\n";
    char *text;
    size_t size;
    EXPECT_OK(write_model(test_mem(), test_folder(), entries, N, 100, source, NULL));
    EXPECT_TEXT(names_in(test_folder()),
                "model-00001-of-00004.safetensors model-00002-of-00004.safetensors model-00003-of-00004.safetensors "
                "model-00004-of-00004.safetensors model.safetensors.index.json");
    EXPECT_OK(tess_os_read(test_mem(), path_in(test_folder(), "model.safetensors.index.json"), 4096, &text, &size));
    EXPECT_TEXT(text, want);
    tess_mem_free(test_mem(), text);
    expect_values(test_folder());
}

static void a_new_cut_replaces_the_old_files(void)
{
    const char *folder = test_folder();
    put_file(path_in(folder, "model-notes.safetensors"), "mine", 4);
    put_file(path_in(folder, "config.json"), "{}", 2);
    EXPECT_OK(write_model(test_mem(), folder, entries, N, 1, source, NULL));
    EXPECT_OK(write_model(test_mem(), folder, entries, N, 150, source, NULL));
    EXPECT_TEXT(names_in(folder),
                "config.json model-00001-of-00003.safetensors model-00002-of-00003.safetensors "
                "model-00003-of-00003.safetensors model-notes.safetensors model.safetensors.index.json");
    expect_values(folder);
    EXPECT_OK(write_model(test_mem(), folder, entries, N, 0, source, NULL));
    EXPECT_TEXT(names_in(folder), "config.json model-notes.safetensors model.safetensors");
    expect_values(folder);
    EXPECT_OK(write_model(test_mem(), folder, entries, N, 1, source, NULL));
    expect_values(folder);
}

static tess_status copy_source(void *context, int e, int64_t row_begin, int64_t n_rows, void *dst)
{
    const tess_catalog_tensor *t = tess_catalog_find(context, entries[e].name);
    const tess_box rows = tensor_rows(t, row_begin, n_rows);
    return tess_catalog_read(context, t, &rows, dst);
}

static void reading_and_writing_again_gives_the_same_files(void)
{
    tess_catalog *c;
    const char *a = path_in(test_folder(), "a"), *b = path_in(test_folder(), "b/deep");
    EXPECT_OK(write_model(test_mem(), a, entries, N, 100, source, NULL));
    EXPECT_OK(tess_catalog_open_safetensors(test_mem(), a, &c));
    EXPECT_OK(write_model(test_mem(), b, entries, N, 100, copy_source, c));
    tess_catalog_destroy(&c);
    char names[4096];
    strcpy(names, names_in(a));
    EXPECT_TEXT(names_in(b), names);
    for (int i = 1; i <= 4; i++) {
        char name[64];
        sprintf(name, "model-%05d-of-00004.safetensors", i);
        expect_same_file(path_in(a, name), path_in(b, name));
    }
    expect_same_file(path_in(a, "model.safetensors.index.json"), path_in(b, "model.safetensors.index.json"));
}

static void bad_names_and_shapes_are_refused(void)
{
    static const struct {
        tess_st_entry e[2];
        const char *needle;
    } bad[] = {
        {{{"a", TESS_F32, {1, {1}}}, {"a", TESS_F32, {1, {1}}}}, "named 'a'"},
        {{{"a", TESS_F32, {1, {1}}}, {"", TESS_F32, {1, {1}}}}, "cannot be the name"},
        {{{"a", TESS_F32, {1, {1}}}, {"__metadata__", TESS_F32, {1, {1}}}}, "cannot be the name"},
        {{{"a", TESS_F32, {1, {1}}}, {"\xff", TESS_F32, {1, {1}}}}, "not UTF-8"},
        {{{"a", TESS_F32, {1, {1}}}, {"b", TESS_F32, {1, {-1}}}}, "negative size -1"},
        {{{"a", TESS_F32, {1, {1}}}, {"b", TESS_F32, {2, {1ll << 40, 1ll << 40}}}}, "too large"},
        {{{"a", TESS_F32, {1, {1}}}, {"b", (tess_dtype)77, {1, {1}}}}, "no such dtype"},
        {{{"a", TESS_F32, {1, {1}}}, {"b", TESS_F32, {TESS_MAX_DIMS + 1, {1}}}}, "shape"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        EXPECT_FAILS(write_model(test_mem(), path_in(test_folder(), "m"), bad[i].e, 2, 0, six_floats, NULL),
                     TESS_E_INVALID, bad[i].needle);
    EXPECT_TEXT(names_in(test_folder()), "");
}

static void a_failure_leaves_nothing_and_keeps_the_old_model(void)
{
    const char *old = path_in(test_folder(), "old"), *new = path_in(test_folder(), "new");
    int calls = 4;
    EXPECT_FAILS(write_model(test_mem(), new, entries, N, 100, source, &calls), TESS_E_CANCELLED, "gave up");
    EXPECT_TEXT(names_in(new), "-");
    EXPECT_OK(write_model(test_mem(), old, entries, N, 100, source, NULL));
    char before[4096];
    strcpy(before, names_in(old));
    calls = 4;
    EXPECT_FAILS(write_model(test_mem(), old, entries, N, 0, source, &calls), TESS_E_CANCELLED, "gave up");
    EXPECT_TEXT(names_in(old), before);
    expect_values(old);
    put_file(path_in(test_folder(), "file"), "x", 1);
    EXPECT_FAILS(write_model(test_mem(), path_in(test_folder(), "file"), entries, N, 0, source, NULL), TESS_E_IO,
                 "file");
    EXPECT_FAILS(write_model(test_mem(), path_in(test_folder(), "file/x"), entries, N, 0, source, NULL),
                 TESS_E_NOT_FOUND, "file/x");
}

/* Limits the size of files: a writer sees a full disk. */
static void limit_file_size(size_t bytes)
{
    struct rlimit limit = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static void a_full_disk_leaves_nothing(void)
{
    const char *m = path_in(test_folder(), "m"), *fits = path_in(test_folder(), "fits");
    uint64_t size;
    EXPECT_OK(write_model(test_mem(), fits, entries, N, 0, source, NULL));
    EXPECT_OK(tess_os_file_size(path_in(fits, "model.safetensors"), &size));
    EXPECT_OK(tess_os_remove_tree(fits));
    for (size_t limit = size - 1; limit > 0; limit /= 3) {
        limit_file_size(limit);
        EXPECT_FAILS(write_model(test_mem(), m, entries, N, 0, source, NULL), TESS_E_NO_SPACE, "model.safetensors");
        EXPECT_TEXT(names_in(m), "-");
    }
    limit_file_size(300); /* first shard fits, second does not */
    EXPECT_FAILS(write_model(test_mem(), m, entries, N, 100, source, NULL), TESS_E_NO_SPACE, "File too large");
    EXPECT_TEXT(names_in(test_folder()), "");
    int fd;
    EXPECT_OK(tess_os_open("/dev/full", &fd));
    EXPECT_FAILS(tess_os_write_at(fd, 0, "x", 1, "/dev/full"), TESS_E_NO_SPACE, "/dev/full");
    tess_os_close(&fd);
}

static void rows_left_out_are_noticed(void)
{
    tess_st_tensor tensors[N];
    tess_st_writer *writer;
    const char *m = path_in(test_folder(), "m");
    float zeros[64] = {0};
    for (int e = 0; e < N; e++)
        EXPECT_OK(tess_st_describe(&entries[e], &tensors[e]));
    EXPECT_OK(tess_st_write_begin(test_mem(), NULL, m, "model", tensors, N, 0, NULL, &writer));
    EXPECT_OK(write_rows(writer, 1, 0, 4, zeros));
    EXPECT_FAILS(write_rows(writer, 1, 4, 2, zeros), TESS_E_INVALID, "'model.layers.1.w' has 60 bytes");
    EXPECT_FAILS(write_rows(writer, 1, -1, 1, zeros), TESS_E_INVALID, "'model.layers.1.w'");
    EXPECT_FAILS(tess_st_write_bytes(writer, N, 0, 1, zeros), TESS_E_INVALID, "no tensor");
    EXPECT_FAILS(tess_st_write_bytes(writer, 1, 56, 8, zeros), TESS_E_INVALID, "60 bytes");
    EXPECT_OK(write_rows(writer, 3, 0, 0, NULL));
    EXPECT_FAILS(tess_st_write_finish(&writer, TESS_OK), TESS_E_INVALID, "48 of 306 bytes");
    EXPECT(writer == NULL);
    EXPECT_TEXT(names_in(test_folder()), "");
}

/* ---- Ranks ---- */
static void describe_all(tess_st_tensor tensors[N])
{
    for (int e = 0; e < N; e++)
        EXPECT_OK(tess_st_describe(&entries[e], &tensors[e]));
}

static tess_status write_shards(tess_team *team, tess_st_writer *writer)
{
    for (int e = 0; e < N; e++) {
        char rows[512];
        int64_t begin, count;
        tess_shard_rows(tess_shape_rows(&entries[e].shape), tess_team_size(team), tess_team_rank(team), &begin, &count);
        TESS_TRY(source(NULL, e, begin, count, rows));
        TESS_TRY(write_rows(writer, e, begin, count, rows));
    }
    return TESS_OK;
}

/* Part `index` of `n_parts` along a dimension. */
static void cut(tess_box *box, int dim, int n_parts, int index)
{
    int64_t begin;
    tess_shard_rows(box->size[dim], n_parts, index, &begin, &box->size[dim]);
    box->begin[dim] += begin;
}

/* The same in boxes of a grid, a few elements at a time. */
static tess_status write_grid(tess_team *team, tess_st_writer *writer)
{
    int n = tess_team_size(team), rank = tess_team_rank(team), columns = n % 2 == 0 ? 2 : n;
    for (int e = 0; e < N; e++) {
        const tess_shape shape = tess_shape_atleast_1d(&entries[e].shape);
        const tess_box whole = tess_box_whole(&shape);
        tess_box box = whole;
        cut(&box, 0, n / columns, rank / columns);
        cut(&box, shape.n_dims - 1, columns, rank % columns);
        char all[1024], part[1024];
        size_t size = tess_dtype_size(entries[e].dtype);
        TESS_TRY(source(NULL, e, 0, tess_shape_rows(&entries[e].shape), all));
        tess_box_copy(shape.n_dims, size, &box, &whole, all, &box, part);
        for (int64_t at = 0, most = 3 + e, left = tess_box_count(shape.n_dims, &box); left > 0;
             at += most, left -= most)
            TESS_TRY(tess_st_write_box(writer, e, &box, at, left < most ? left : most, part + (size_t)at * size));
    }
    return TESS_OK;
}

static void ranks_write_the_bytes_of_one_process(void)
{
    tess_team *team = join_job();
    const char *folder = common_folder(team);
    tess_st_tensor tensors[N];
    describe_all(tensors);
    for (int way = 0; way < 4; way++) {
        size_t shard_bytes = way % 2 == 0 ? 0 : 100;
        char together[300], alone[300];
        tess_st_writer *writer;
        sprintf(together, "%s/together%d", folder, way);
        sprintf(alone, "%s/alone%d", folder, way);
        EXPECT_OK(tess_st_write_begin(test_mem(), team, together, "model", tensors, N, shard_bytes, NULL, &writer));
        EXPECT_OK(tess_st_write_finish(&writer, (way < 2 ? write_shards : write_grid)(team, writer)));
        expect_values(together); /* visible to every rank as soon as finish returns */
        if (tess_team_rank(team) == 0) {
            char names[4096];
            EXPECT_OK(write_model(test_mem(), alone, entries, N, shard_bytes, source, NULL));
            strcpy(names, names_in(alone));
            EXPECT_TEXT(names_in(together), names);
            for (char *name = strtok(names, " "); name != NULL; name = strtok(NULL, " "))
                expect_same_file(path_in(together, name), path_in(alone, name));
        }
    }
    leave_job();
}

static void one_rank_without_space_fails_all(void)
{
    tess_team *team = join_job();
    const char *folder = common_folder(team);
    int last = last_owner(13, tess_team_size(team)); /* owner of the last row of lm_head.weight */
    tess_st_tensor tensors[N];
    tess_st_writer *writer;
    char m[300];
    sprintf(m, "%s/m", folder);
    describe_all(tensors);
    EXPECT_OK(tess_st_write_begin(test_mem(), team, m, "model", tensors, N, 0, NULL, &writer));
    if (tess_team_rank(team) == last)
        limit_file_size(16);
    tess_status mine = write_shards(team, writer);
    EXPECT_INT(mine, tess_team_rank(team) == last ? TESS_E_NO_SPACE : TESS_OK);
    EXPECT_FAILS(tess_st_write_finish(&writer, mine), TESS_E_NO_SPACE, "File too large");
    if (tess_team_rank(team) != last)
        EXPECT_CONTAINS(tess_error_message(), "rank ");
    EXPECT_OK(tess_barrier(team, NULL));
    if (tess_team_rank(team) == 0)
        EXPECT_TEXT(names_in(folder), "");
    leave_job();
}

static void ranks_that_disagree_all_fail(void)
{
    tess_team *team = join_job();
    const char *folder = common_folder(team);
    tess_st_tensor tensors[N];
    tess_st_writer *writer;
    describe_all(tensors);
    tensors[2].dim[0] += tess_team_rank(team) == 1;
    EXPECT_FAILS(tess_st_write_begin(test_mem(), team, folder, "model", tensors, N, 0, NULL, &writer), TESS_E_MISMATCH,
                 "shapes");
    describe_all(tensors);
    tensors[2].name = tess_team_rank(team) == 1 ? "few" : tensors[2].name;
    EXPECT_FAILS(tess_st_write_begin(test_mem(), team, folder, "model", tensors, N, 0, NULL, &writer), TESS_E_INVALID,
                 "named 'few'");
    leave_job();
}

static const test_case cases[] = {
    CASE(a_file_has_the_reference_writers_bytes),
    CASE(a_model_without_tensors_is_a_header),
    CASE(tensors_are_ordered_by_dtype_then_name),
    CASE(shards_are_cut_by_size_and_indexed),
    CASE(a_new_cut_replaces_the_old_files),
    CASE(reading_and_writing_again_gives_the_same_files),
    CASE(bad_names_and_shapes_are_refused),
    CASE(a_failure_leaves_nothing_and_keeps_the_old_model),
    CASE(a_full_disk_leaves_nothing),
    CASE(rows_left_out_are_noticed),
    CASE(ranks_write_the_bytes_of_one_process, -1),
    CASE(one_rank_without_space_fails_all, -1),
    CASE(ranks_that_disagree_all_fail, 3),
};
TEST_MAIN(cases)
