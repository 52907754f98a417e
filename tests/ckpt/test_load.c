/* Loading: any world size reads what any other wrote, every byte is compared with what was saved, and all ranks get the
 * same error. */
#include <fcntl.h>
#include <unistd.h>

#include "ckpt/store/read.h"
#include "ckpt/store/store_write.h"
#include "files.h"
#include "ranks.h"
#include "state.h"

enum { STEP = 12 };

static tess_store_piece piece_of(const tess_ckpt_tensor *t, const char *name, tess_dtype stored, int rank)
{
    tess_store_piece piece = {name, tess_store_dtype_text(stored), stored != TESS_F32, t->shape.n_dims};
    memcpy(piece.dim, t->shape.dim, sizeof(t->shape.dim));
    piece.box = piece.held = t->box;
    piece.rank = rank, piece.data = t->data;
    return piece;
}

/* The pieces that rank `rank` of `world` writes. */
static json_t *write_part(const char *folder, int world, int rank, const tess_store_options *options, tess_dtype stored)
{
    static state s;
    static char names[N][TESS_STORE_NAME];
    tess_store_piece pieces[N];
    char file[32];
    json_t *part;
    make_state(&s, world, rank, false, STEP);
    for (int i = 0; i < N; i++) {
        const tess_ckpt_tensor *t = &s.tensors[i];
        tess_store_tensor_name(t->state, t->name, names[i]);
        tess_dtype dtype = t->state == NULL ? stored : TESS_F32;
        pieces[i] = piece_of(t, names[i], dtype, rank);
    }
    snprintf(file, sizeof(file), "rank-%05d.data", rank);
    EXPECT_OK(tess_store_write_part(test_mem(), options, folder, file, pieces, N, &part));
    return part;
}

/* Makes the checkpoint of `world` ranks in this process. */
static void save_as(const char *dir, int world, tess_codec codec, tess_dtype stored)
{
    char folder[TESS_CKPT_PATH];
    json_t *parts[8], *meta = some_meta();
    const tess_store_options options = {.codec = codec};
    const tess_store_facts facts = {.meta = meta, .world_size = world};
    EXPECT_OK(tess_store_begin(NULL, dir, STEP, folder));
    for (int rank = 0; rank < world; rank++)
        parts[rank] = write_part(folder, world, rank, &options, stored);
    EXPECT_OK(tess_store_commit(NULL, dir, STEP, parts, world, &facts));
    for (int rank = 0; rank < world; rank++)
        json_decref(parts[rank]);
    json_decref(meta);
}

static tess_status load_alone(const char *dir)
{
    static state s;
    make_state(&s, 1, 0, false, STEP);
    blank(&s);
    TESS_TRY(tess_ckpt_load(test_mem(), NULL, dir, STEP, s.tensors, N, NULL, NULL));
    expect_state(&s, 1, 0, false, STEP);
    return TESS_OK;
}

static void what_was_written_is_read(void)
{
    static state s;
    static const int worlds[] = {1, 2, 3, 4, 8};
    const char *dir = test_folder();
    for (int i = 0; i < 10; i++) {
        json_t *meta = some_meta(), *back;
        save_as(dir, worlds[i / 2], i % 2 ? TESS_CODEC_ZSTD : TESS_CODEC_NONE, TESS_F32);
        EXPECT_OK(load_alone(dir));
        make_state(&s, 1, 0, false, STEP);
        EXPECT_OK(tess_ckpt_load(test_mem(), NULL, dir, STEP, NULL, 0, NULL, &back));
        EXPECT(json_equal(meta, back));
        json_decref(meta);
        json_decref(back);
        /* a part, for evaluation: weights only, two rows, nothing owned */
        tess_ckpt_tensor part = s.tensors[0];
        part.box = rows_of(&part.shape, 4, 2), part.primary = rows_of(&part.shape, 0, 0);
        EXPECT_OK(tess_ckpt_load(test_mem(), NULL, dir, STEP, &part, 1, NULL, NULL));
        for (int k = 0; k < 10; k++)
            EXPECT(s.data[0][k] == value_at(0, 20 + k, STEP));
    }
}

static void weights_stored_as_bf16_are_widened(void)
{
    static state s;
    save_as(test_folder(), 3, TESS_CODEC_NONE, TESS_BF16);
    make_state(&s, 1, 0, false, STEP);
    blank(&s);
    EXPECT_OK(tess_ckpt_load(test_mem(), NULL, test_folder(), STEP, s.tensors, N, NULL, NULL));
    for (int i = 0; i < 65; i++) {
        uint32_t bits;
        memcpy(&bits, &s.data[0][i], 4);
        EXPECT_INT(bits & 0xffff, 0);
        EXPECT_CLOSE(&s.data[0][i], &(float){value_at(0, i, STEP)}, 1, 1e-2, 1e-3);
        EXPECT(s.data[1][i] == value_at(1, i, STEP)); /* a moment */
    }
}

/* ---- Damage */
/* One parameter with its moments, by two writers: small enough to damage every byte. */
static void save_little(const char *dir)
{
    static state s;
    char folder[TESS_CKPT_PATH], names[3][TESS_STORE_NAME];
    json_t *parts[2];
    const tess_store_options options = {.codec = TESS_CODEC_NONE};
    const tess_store_facts facts = {.world_size = 2};
    EXPECT_OK(tess_store_begin(NULL, dir, STEP, folder));
    for (int rank = 0; rank < 2; rank++) {
        tess_store_piece pieces[3];
        make_state(&s, 2, rank, false, STEP);
        for (int i = 0; i < 3; i++) {
            const tess_ckpt_tensor *t = &s.tensors[3 + i];
            tess_store_tensor_name(t->state, t->name, names[i]);
            pieces[i] = piece_of(t, names[i], TESS_F32, rank);
        }
        const char *file = rank == 0 ? "rank-00000.data" : "rank-00001.data";
        EXPECT_OK(tess_store_write_part(test_mem(), &options, folder, file, pieces, 3, &parts[rank]));
    }
    EXPECT_OK(tess_store_commit(NULL, dir, STEP, parts, 2, &facts));
    json_decref(parts[0]);
    json_decref(parts[1]);
}

static tess_status load_little(const char *dir)
{
    static state s, want;
    make_state(&s, 1, 0, false, STEP);
    make_state(&want, 1, 0, false, STEP);
    blank(&s);
    TESS_TRY(tess_ckpt_load(test_mem(), NULL, dir, STEP, s.tensors + 3, 3, NULL, NULL));
    for (int i = 3; i < 6; i++)
        EXPECT_SAME(s.data[i], want.data[i], 7);
    return TESS_OK;
}

static const char *const files[] = {"rank-00000.data", "rank-00001.data", "manifest.json", "commit.json"};

static void flip(int fd, off_t at, uint8_t bits)
{
    uint8_t byte;
    EXPECT(pread(fd, &byte, 1, at) == 1);
    byte ^= bits;
    EXPECT(pwrite(fd, &byte, 1, at) == 1);
}

static void any_flipped_byte_of_a_checkpoint_is_found(void)
{
    const char *dir = test_folder();
    save_little(dir);
    for (int f = 0; f < 4; f++) {
        const char *path = path_in(path_in(dir, "step-00000012"), files[f]);
        uint64_t size;
        int fd = open(path, O_RDWR);
        EXPECT_OK(tess_os_file_size(path, &size));
        for (uint64_t at = 0; at < size; at += f < 2 && at % 4096 > 64 ? 7 : 1) { /* only every seventh of the zeroes */
            flip(fd, (off_t)at, (uint8_t)(1 << at % 8));
            tess_status status = load_little(dir);
            if (status != TESS_E_FORMAT && status != TESS_E_UNSUPPORTED)
                test_fail(__FILE__, __LINE__, "byte %llu of %s: status %d", (unsigned long long)at, files[f], status);
            const char *needle = status != TESS_E_FORMAT ? "format" : f < 3 ? files[f] : ".json";
            EXPECT_CONTAINS(tess_error_message(), needle);
            if (f < 2 && at % 4096 < 16)
                EXPECT_CONTAINS(tess_error_message(), f == 0 ? "written by rank 0" : "written by rank 1");
            flip(fd, (off_t)at, (uint8_t)(1 << at % 8));
        }
        close(fd);
        EXPECT_OK(load_little(dir));
    }
}

static void any_truncation_of_a_checkpoint_is_found(void)
{
    const char *dir = test_folder();
    for (int f = 0; f < 4; f++) {
        save_little(dir);
        const char *path = path_in(path_in(dir, "step-00000012"), files[f]);
        uint64_t size;
        EXPECT_OK(tess_os_file_size(path, &size));
        EXPECT(truncate(path, (off_t)size + 1) == 0);
        for (uint64_t cut = 1; cut <= size; cut += cut < 40 || cut + 200 > size ? 1 : 61) {
            EXPECT_FAILS(load_little(dir), TESS_E_FORMAT, files[f]);
            EXPECT(truncate(path, (off_t)(size - cut)) == 0);
        }
        EXPECT_FAILS(load_little(dir), TESS_E_FORMAT, files[f]);
        EXPECT(unlink(path) == 0);
        tess_status status = load_little(dir);
        EXPECT(status == TESS_E_NOT_FOUND || status == TESS_E_FORMAT);
        EXPECT_CONTAINS(tess_error_message(), files[f]);
    }
}

static void what_is_not_a_checkpoint_of_this_model_is_told(void)
{
    static state s;
    const char *dir = test_folder(), *step = path_in(dir, "step-00000012");
    const tess_ckpt_load_options whole = {.whole = true};
    save_as(dir, 2, TESS_CODEC_NONE, TESS_F32);
    make_state(&s, 1, 0, false, STEP);
    EXPECT_OK(tess_ckpt_load(test_mem(), NULL, dir, STEP, s.tensors, N, &whole, NULL));
    EXPECT_FAILS(tess_ckpt_load(test_mem(), NULL, dir, STEP, s.tensors, N - 1, &whole, NULL), TESS_E_INVALID,
                 "'optimizer.temperature.exp_avg_sq' is not of this model");
    s.tensors[0].shape.dim[1] = 4;
    EXPECT_FAILS(tess_ckpt_load(test_mem(), NULL, dir, STEP, s.tensors, N, NULL, NULL), TESS_E_INVALID,
                 "'model.embed.weight' has shape [13, 5] but this model's is [13, 4]");
    make_state(&s, 1, 0, false, STEP);
    s.tensors[1].name = "nobody";
    EXPECT_FAILS(tess_ckpt_load(test_mem(), NULL, dir, STEP, s.tensors, N, NULL, NULL), TESS_E_INVALID,
                 "no tensor 'optimizer.nobody.exp_avg': the checkpoint is of another optimizer");
    EXPECT_FAILS(tess_ckpt_load(test_mem(), NULL, dir, 13, s.tensors, N, NULL, NULL), TESS_E_NOT_FOUND,
                 "step-00000013");
    EXPECT_OK(tess_os_rename(step, path_in(dir, "step-00000013")));
    EXPECT_FAILS(tess_ckpt_load(test_mem(), NULL, dir, 13, s.tensors, N, NULL, NULL), TESS_E_FORMAT, "says step 12");
    EXPECT_OK(tess_os_make_dir(step));
    put_file(path_in(step, "meta.json"), "{\"format\": 1}", 13);
    EXPECT_FAILS(load_alone(dir), TESS_E_UNSUPPORTED, "of the format before 3");
    static const char future[] = "{\"format\": 4, \"step\": 12, \"manifest\": \"elsewhere\"}\n";
    put_file(path_in(step, "commit.json"), future, sizeof(future) - 1);
    EXPECT_FAILS(load_alone(dir), TESS_E_UNSUPPORTED, "format 4 is newer than this version's 3");
}

/* ---- Catalogs */
static void checkpoints_open_as_catalogs(void)
{
    tess_catalog *c;
    const char *dir = test_folder(), *step = path_in(dir, "step-00000012"), *renamed = path_in(dir, "best");
    save_as(dir, 3, TESS_CODEC_NONE, TESS_F32);
    for (int i = 0; i < 3; i++) { /* the folder, the step, under another name */
        if (i == 2)
            EXPECT_OK(tess_os_rename(step, renamed));
        EXPECT_OK(tess_catalog_open(test_mem(), i == 0 ? dir : i == 1 ? step : renamed, &c));
        EXPECT_TEXT(c->format, "tessera");
        EXPECT_INT(c->n_tensors, N);
        EXPECT_INT(json_integer_value(json_object_get(c->meta, "step")), STEP);
        EXPECT_INT(json_integer_value(json_object_get(json_object_get(c->meta, "meta"), "seed")), 42);
        EXPECT(json_object_get(c->meta, "tensors") == NULL);
        const tess_catalog_tensor *embed = tess_catalog_find(c, "model.embed.weight");
        EXPECT_INT(embed->n_pieces, 3);
        EXPECT_INT(c->pieces[embed->first_piece + 2].rank, 2);
        EXPECT_OK(tess_catalog_verify(c, NULL));
        tess_catalog_destroy(&c);
    }
}

/* ---- Ranks */
static tess_ckpt_hosts *one_host(tess_team *team)
{
    tess_ckpt_hosts *hosts;
    EXPECT_OK(tess_ckpt_hosts_create(test_mem(), team, 0, "h1", &hosts));
    return hosts;
}

static void any_world_size_reads_what_any_wrote(void)
{
    static state s;
    tess_team *team = join_job();
    tess_threads *threads;
    tess_ckpt_hosts *hosts = one_host(team);
    const char *dir = common_folder(team);
    int world = tess_team_size(team), rank = tess_team_rank(team);
    EXPECT_OK(tess_threads_create(test_mem(), 2, &threads));
    for (int writers = 1; writers <= 8; writers += writers < 4 ? 1 : 4) {
        if (rank == 0)
            save_as(dir, writers, writers % 2 ? TESS_CODEC_NONE : TESS_CODEC_ZSTD, TESS_F32);
        EXPECT_OK(tess_barrier(team, NULL));
        for (int way = 0; way < 4; way++) {
            const tess_ckpt_load_options options = {way > 1 ? threads : NULL, way > 1 ? hosts : NULL, true};
            make_state(&s, world, rank, way % 2, STEP);
            blank(&s);
            EXPECT_OK(tess_ckpt_load(test_mem(), team, dir, STEP, s.tensors, N, &options, NULL));
            expect_state(&s, world, rank, way % 2, STEP);
        }
        EXPECT_OK(tess_barrier(team, NULL));
    }
    tess_threads_destroy(&threads);
    tess_ckpt_hosts_destroy(&hosts);
    leave_job();
}

/* Ranks share the verification of a piece that all read; damage in a piece that few read is reported to all. */
static void every_rank_hears_of_damage_that_one_has_read(void)
{
    static state s;
    tess_team *team = join_job();
    tess_ckpt_hosts *hosts = one_host(team);
    const char *dir = common_folder(team);
    int world = tess_team_size(team), rank = tess_team_rank(team);
    for (int writers = 1; writers <= 4; writers += 3) {
        if (rank == 0)
            save_as(dir, writers, TESS_CODEC_NONE, TESS_F32);
        EXPECT_OK(tess_barrier(team, NULL));
        const char *file = writers == 1 ? "rank-00000.data" : "rank-00002.data";
        int fd = open(path_in(path_in(dir, "step-00000012"), file), O_RDWR);
        for (off_t at = 0; at < 9000; at += 501) {
            const tess_ckpt_load_options options = {NULL, hosts, true};
            EXPECT_OK(tess_barrier(team, NULL));
            if (rank == 0)
                flip(fd, at, 1);
            EXPECT_OK(tess_barrier(team, NULL));
            make_state(&s, world, rank, false, STEP);
            EXPECT_FAILS(tess_ckpt_load(test_mem(), team, dir, STEP, s.tensors, N, &options, NULL), TESS_E_FORMAT,
                         file);
            EXPECT_CONTAINS(tess_error_message(), "embed.weight");
            EXPECT_CONTAINS(tess_error_message(), writers == 1 ? "written by rank 0" : "written by rank 2");
            EXPECT_OK(tess_barrier(team, NULL));
            if (rank == 0)
                flip(fd, at, 1);
        }
        close(fd);
        EXPECT_OK(tess_barrier(team, NULL));
    }
    tess_ckpt_hosts_destroy(&hosts);
    leave_job();
}

static const test_case cases[] = {
    CASE(what_was_written_is_read),
    CASE(weights_stored_as_bf16_are_widened),
    CASE(any_flipped_byte_of_a_checkpoint_is_found),
    CASE(any_truncation_of_a_checkpoint_is_found),
    CASE(what_is_not_a_checkpoint_of_this_model_is_told),
    CASE(checkpoints_open_as_catalogs),
    CASE(any_world_size_reads_what_any_wrote, .ranks = -1),
    CASE(every_rank_hears_of_damage_that_one_has_read, .ranks = 3),
};
TEST_MAIN(cases)
