/* Checkpoints: any world size reads what any other wrote, and nothing half-written is ever seen. */
#include <inttypes.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/os/os.h"
#include "ckpt/store/read.h"
#include "ckpt/store/store.h"
#include "ckpt/store/store_impl.h"
#include "files.h"
#include "ranks.h"
#include "state.h"

static void save_alone(const char *dir, int64_t step)
{
    static state s;
    json_t *meta = some_meta();
    make_state(&s, 1, 0, false, step);
    EXPECT_OK(tess_ckpt_save(test_mem(), NULL, dir, step, meta, s.tensors, N, NULL));
    json_decref(meta);
}

static tess_status load_alone(const char *dir, int64_t step)
{
    static state s;
    make_state(&s, 1, 0, false, step);
    blank(&s);
    TESS_TRY(tess_ckpt_load(test_mem(), NULL, dir, step, s.tensors, N, NULL, NULL));
    expect_state(&s, 1, 0, false, step);
    return TESS_OK;
}

static void what_is_saved_is_loaded(void)
{
    static state s;
    json_t *meta = some_meta(), *back;
    int64_t step = -1;
    const char *dir = path_in(test_folder(), "runs/checkpoint");
    save_alone(dir, 12);
    EXPECT_TEXT(names_in(dir), "step-00000012");
    EXPECT_TEXT(names_in(path_in(dir, "step-00000012")), "commit.json manifest.json rank-00000.data");
    EXPECT_OK(tess_ckpt_latest(dir, NULL, &step));
    EXPECT_INT(step, 12);
    make_state(&s, 1, 0, false, 12);
    blank(&s);
    EXPECT_OK(tess_ckpt_load(test_mem(), NULL, dir, 12, s.tensors, N, NULL, &back));
    expect_state(&s, 1, 0, false, 12);
    EXPECT(json_equal(meta, back));
    json_decref(meta);
    json_decref(back);
    /* a part, for evaluation: weights only, two rows, nothing owned */
    tess_ckpt_tensor part = s.tensors[0];
    part.box = rows_of(&part.shape, 4, 2), part.primary = rows_of(&part.shape, 0, 0);
    EXPECT_OK(tess_ckpt_load(test_mem(), NULL, dir, 12, &part, 1, NULL, NULL));
    for (int k = 0; k < 10; k++)
        EXPECT(s.data[0][k] == value_at(0, 20 + k, 12));
    EXPECT_OK(tess_ckpt_load(test_mem(), NULL, dir, 12, NULL, 0, NULL, NULL));
}

static void the_newest_complete_one_is_found(void)
{
    int64_t step;
    const char *dir = test_folder();
    EXPECT_FAILS(tess_ckpt_latest(path_in(dir, "none"), NULL, &step), TESS_E_NOT_FOUND, "none");
    EXPECT_FAILS(tess_ckpt_latest(dir, NULL, &step), TESS_E_NOT_FOUND, "no complete checkpoint");
    save_alone(dir, 9);
    save_alone(dir, 100);
    save_alone(dir, 123456789);
    EXPECT_OK(tess_ckpt_latest(dir, NULL, &step));
    EXPECT_INT(step, 123456789);
    /* names that resemble a checkpoint's */
    static const char *const others[] = {
        "step-", "step-00000x", "step-999", "step-00999999999", "step-00000999.bak", "other", "step-00000500.tmp"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        EXPECT_OK(tess_os_make_dir(path_in(dir, others[i])));
    EXPECT_OK(tess_ckpt_latest(dir, NULL, &step));
    EXPECT_INT(step, 123456789);
    EXPECT_FAILS(load_alone(dir, 10), TESS_E_NOT_FOUND, "step-00000010");
    EXPECT_FAILS(load_alone(dir, -1), TESS_E_INVALID, "-1");
}

/* The note of the last checkpoint that was passed over. */
static void keep_note(void *self, const char *text)
{
    snprintf(self, 1024, "%s", text);
}

/* Damage to the newest checkpoint, and the note that it gives. */
static void a_damaged_one_is_passed_over_by_name(void)
{
    static const struct {
        const char *file, *content; /* NULL: the file is gone */
        const char *note;
    } damages[] = {
        {"rank-00000.data", NULL, "rank-00000.data is missing"},
        {"rank-00000.data", "short", "rank-00000.data has 5 bytes"},
        {"manifest.json", NULL, "manifest.json is missing"},
        {"manifest.json", "{}", "manifest.json has 2 bytes"},
        {"commit.json", NULL, "has no commit.json: its save was never finished"},
        {"commit.json", "", "commit.json"},
        {"commit.json", "{", "commit.json"},
        {"commit.json", "{\"format\": 3, \"step\": 8}", "says step 8: the folder was renamed"},
        {"commit.json", "{\"format\": 3, \"step\": 9}", "no checksum of the manifest"},
    };
    const char *dir = test_folder(), *folder = path_in(dir, "step-00000009");
    char note[1024];
    const tess_ckpt_listener listener = {note, keep_note};
    save_alone(dir, 5);
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        int64_t step;
        const char *path = path_in(folder, damages[i].file);
        save_alone(dir, 9);
        note[0] = '\0';
        EXPECT_OK(tess_ckpt_latest(dir, &listener, &step));
        EXPECT_INT(step, 9);
        EXPECT_TEXT(note, "");
        EXPECT_OK(tess_os_remove_tree(path));
        if (damages[i].content != NULL)
            put_file(path, damages[i].content, strlen(damages[i].content));
        EXPECT_OK(tess_ckpt_latest(dir, &listener, &step));
        EXPECT_INT(step, 5);
        EXPECT_CONTAINS(note, "step-00000009");
        EXPECT_CONTAINS(note, damages[i].note);
        EXPECT_FAILS(load_alone(dir, 9), TESS_E_FORMAT, damages[i].note);
        EXPECT_OK(tess_ckpt_prune(&(tess_ckpt_pruner){.mem = test_mem()}, dir, 1,
                                  INT64_MAX)); /* nor does it count for that */
        EXPECT_OK(load_alone(dir, 5));
    }
}

/* Falling back would silently lose its work. */
static void one_of_another_format_is_not_passed_over(void)
{
    int64_t step;
    const char *dir = test_folder(), *folder = path_in(dir, "step-00000009");
    save_alone(dir, 5);
    save_alone(dir, 9);
    put_file(path_in(folder, "commit.json"), "{\"format\": 4}", 13);
    EXPECT_FAILS(tess_ckpt_latest(dir, NULL, &step), TESS_E_UNSUPPORTED, "newer than this version's 3");
    EXPECT_FAILS(load_alone(dir, 9), TESS_E_UNSUPPORTED, "newer than this version's 3");
    EXPECT_OK(tess_os_remove_tree(path_in(folder, "commit.json")));
    put_file(path_in(folder, "meta.json"), "{\"format\": 1}", 13);
    EXPECT_FAILS(tess_ckpt_latest(dir, NULL, &step), TESS_E_UNSUPPORTED, "format before 3 (safetensors and meta.json)");
}

static void a_killed_save_is_never_seen(void)
{
    int64_t step;
    const char *dir = test_folder(), *leftover = path_in(dir, "step-00000020.tmp");
    save_alone(dir, 10);
    save_alone(dir, 20);
    EXPECT_OK(tess_os_rename(path_in(dir, "step-00000020"), leftover)); /* all written, not yet renamed */
    EXPECT_OK(tess_ckpt_latest(dir, NULL, &step));
    EXPECT_INT(step, 10);
    EXPECT_FAILS(load_alone(dir, 20), TESS_E_NOT_FOUND, "step-00000020");
    EXPECT_OK(load_alone(dir, 10));
    save_alone(dir, 20); /* over the leftover */
    EXPECT_TEXT(names_in(dir), "step-00000010 step-00000020");
    EXPECT_OK(tess_os_make_dir(leftover));
    put_file(path_in(leftover, "rank-00000.data"), "x", 1);
    EXPECT_OK(tess_ckpt_prune(&(tess_ckpt_pruner){.mem = test_mem()}, dir, 0, INT64_MAX));
    EXPECT_TEXT(names_in(dir), "step-00000010 step-00000020");
}

static void the_same_step_is_replaced(void)
{
    static state s;
    const char *dir = test_folder();
    save_alone(dir, 5);
    make_state(&s, 1, 0, false, 6); /* other values */
    EXPECT_OK(tess_ckpt_save(test_mem(), NULL, dir, 5, NULL, s.tensors, N, NULL));
    EXPECT_TEXT(names_in(dir), "step-00000005");
    blank(&s);
    json_t *meta = NULL;
    EXPECT_OK(tess_ckpt_load(test_mem(), NULL, dir, 5, s.tensors, N, NULL, &meta));
    EXPECT(meta == NULL || json_is_null(meta));
    expect_state(&s, 1, 0, false, 6);
}

static void pruning_keeps_the_newest(void)
{
    const char *dir = test_folder();
    for (int64_t step = 10; step <= 50; step += 10)
        save_alone(dir, step);
    put_file(path_in(dir, "step-00000050/rank-00000.data"), "short", 5); /* the newest is damaged: it does not count */
    EXPECT_OK(tess_ckpt_prune(&(tess_ckpt_pruner){.mem = test_mem()}, dir, 0, INT64_MAX));
    EXPECT_OK(tess_ckpt_prune(&(tess_ckpt_pruner){.mem = test_mem()}, dir, 3, INT64_MAX));
    EXPECT_TEXT(names_in(dir), "step-00000020 step-00000030 step-00000040 step-00000050");
    EXPECT_OK(tess_ckpt_prune(&(tess_ckpt_pruner){.mem = test_mem()}, dir, 1, INT64_MAX));
    EXPECT_TEXT(names_in(dir), "step-00000040 step-00000050");
    EXPECT_OK(load_alone(dir, 40));
    save_alone(dir, 60); /* saved by a run that had come further */
    save_alone(dir, 30);
    EXPECT_OK(tess_ckpt_prune(&(tess_ckpt_pruner){.mem = test_mem()}, dir, 1, 30));
    EXPECT_TEXT(names_in(dir), "step-00000030 step-00000040 step-00000050 step-00000060");
    EXPECT_FAILS(tess_ckpt_prune(&(tess_ckpt_pruner){.mem = test_mem()}, dir, -1, INT64_MAX), TESS_E_INVALID, "-1");
    EXPECT_FAILS(tess_ckpt_prune(&(tess_ckpt_pruner){.mem = test_mem()}, path_in(dir, "none"), 1, INT64_MAX),
                 TESS_E_NOT_FOUND, "none");
}

/* ---- Only checkpoints that were read count for keep_latest_k */
typedef struct notes {
    int n;
    char last[2048];
} notes;

static void count_note(void *self, const char *text)
{
    notes *found = self;
    found->n++;
    snprintf(found->last, sizeof(found->last), "%s", text);
}

static void flip_byte(const char *path)
{
    char *data;
    size_t size;
    EXPECT_OK(tess_os_read(test_mem(), path, 1 << 20, &data, &size));
    data[70] ^= 4;
    put_file(path, data, size);
    tess_mem_free(test_mem(), data);
}

static void a_damaged_one_does_not_count_for_those_that_are_kept(void)
{
    const char *dir = test_folder();
    notes found = {0};
    tess_ckpt_findings findings = {0};
    const tess_ckpt_pruner pruner = {.mem = test_mem(), .findings = &findings, .self = &found, .note = count_note};
    save_alone(dir, 300);
    save_alone(dir, 600);
    EXPECT_OK(tess_ckpt_prune(&pruner, dir, 2, INT64_MAX));
    EXPECT_INT(findings.n, 0); /* nothing to remove: nothing is read */
    flip_byte(path_in(dir, "step-00000600/rank-00000.data"));
    save_alone(dir, 900);
    EXPECT_OK(tess_ckpt_prune(&pruner, dir, 2, INT64_MAX));
    EXPECT_TEXT(names_in(dir), "step-00000300 step-00000600 step-00000900");
    EXPECT_INT(found.n, 1);
    EXPECT_CONTAINS(found.last, "step-00000600/rank-00000.data: bytes [0, ");
    EXPECT_CONTAINS(found.last, "its checksum is");
    EXPECT_INT(findings.n, 3);
    save_alone(dir, 1200);
    EXPECT_OK(tess_ckpt_prune(&pruner, dir, 3, INT64_MAX));
    EXPECT_TEXT(names_in(dir), "step-00000300 step-00000600 step-00000900 step-00001200");
    EXPECT_INT(findings.n, 4); /* only the new one was read, */
    EXPECT_INT(found.n, 1);    /* and what is known is not reported again */
    EXPECT_OK(tess_ckpt_prune(&pruner, dir, 2, INT64_MAX));
    EXPECT_TEXT(names_in(dir), "step-00000900 step-00001200");
}

static void of_several_that_do_not_count_the_newest_is_told_and_how_many_more(void)
{
    const char *dir = test_folder();
    char text[2048] = "";
    tess_ckpt_notes reported = {.text = text, .size = sizeof(text)};
    const tess_ckpt_pruner pruner = {.mem = test_mem(), .self = &reported, .note = tess_ckpt_keep_note};
    for (int step = 1; step <= 5; step++)
        save_alone(dir, step);
    flip_byte(path_in(dir, "step-00000004/rank-00000.data"));
    flip_byte(path_in(dir, "step-00000003/rank-00000.data"));
    EXPECT_OK(tess_ckpt_prune(&pruner, dir, 2, INT64_MAX));
    EXPECT_CONTAINS(text, "step-00000004/rank-00000.data: bytes [0, ");
    EXPECT_CONTAINS(text, "an older one stays; and 1 more does not count");
    flip_byte(path_in(dir, "step-00000002/rank-00000.data"));
    reported.n = 0;
    EXPECT_OK(tess_ckpt_prune(&pruner, dir, 2, INT64_MAX));
    EXPECT_CONTAINS(text, "an older one stays; and 2 more do not count");
    EXPECT_TEXT(names_in(dir), "step-00000002 step-00000003 step-00000004 step-00000005");
}

static void the_last_good_one_never_goes(void)
{
    const char *dir = test_folder();
    const tess_ckpt_pruner pruner = {.mem = test_mem()};
    for (int64_t step = 1; step <= 4; step++)
        save_alone(dir, step);
    for (int step = 2; step <= 4; step++) {
        char name[64];
        snprintf(name, sizeof(name), "step-%08d/rank-00000.data", step);
        flip_byte(path_in(dir, name));
    }
    EXPECT_OK(tess_ckpt_prune(&pruner, dir, 1, INT64_MAX));
    EXPECT_TEXT(names_in(dir), "step-00000001 step-00000002 step-00000003 step-00000004");
    EXPECT_OK(load_alone(dir, 1));
}

/* A checkpoint that changed since it was found good is read again. */
static void a_good_one_that_changes_is_read_again(void)
{
    const char *dir = test_folder();
    notes found = {0};
    tess_ckpt_findings findings = {0};
    const tess_ckpt_pruner pruner = {.mem = test_mem(), .findings = &findings, .self = &found, .note = count_note};
    for (int64_t step = 1; step <= 3; step++)
        save_alone(dir, step);
    EXPECT_OK(tess_ckpt_prune(&pruner, dir, 2, INT64_MAX));
    EXPECT_TEXT(names_in(dir), "step-00000002 step-00000003");
    flip_byte(path_in(dir, "step-00000003/rank-00000.data"));
    EXPECT_OK(tess_ckpt_prune(&pruner, dir, 1, INT64_MAX));
    EXPECT_TEXT(names_in(dir), "step-00000002 step-00000003");
    EXPECT_INT(found.n, 1);
}

static void damage_is_found_by_checksum(void)
{
    const char *dir = test_folder();
    static const char *const files[] = {"rank-00000.data", "manifest.json", "commit.json"};
    save_alone(dir, 3);
    for (int f = 0; f < 3; f++) {
        char *data;
        size_t size;
        const char *path = path_in(path_in(dir, "step-00000003"), files[f]);
        EXPECT_OK(tess_os_read(test_mem(), path, 1 << 20, &data, &size));
        for (size_t at = 0; at < size; at += size / 97 + 1) { /* a bit */
            data[at] ^= 4;
            put_file(path, data, size);
            EXPECT(load_alone(dir, 3) != TESS_OK);
            EXPECT_CONTAINS(tess_error_message(), "step-00000003");
            data[at] ^= 4;
        }
        put_file(path, data, size);
        EXPECT_OK(load_alone(dir, 3));
        tess_mem_free(test_mem(), data);
    }
}

static void another_model_is_refused(void)
{
    static state s;
    const char *dir = test_folder();
    save_alone(dir, 3);
    make_state(&s, 1, 0, false, 3);
    s.tensors[0].shape.dim[1] = 4;
    EXPECT_FAILS(tess_ckpt_load(test_mem(), NULL, dir, 3, s.tensors, N, NULL, NULL), TESS_E_INVALID,
                 "'model.embed.weight' has shape [13, 5] but this model's is [13, 4]");
    make_state(&s, 1, 0, false, 3);
    s.tensors[1].name = "nobody";
    EXPECT_FAILS(tess_ckpt_load(test_mem(), NULL, dir, 3, s.tensors, N, NULL, NULL), TESS_E_INVALID,
                 "no tensor 'optimizer.nobody.exp_avg'");
    make_state(&s, 1, 0, false, 3);
    s.tensors[0].primary.size[0]--;
    EXPECT_FAILS(tess_ckpt_save(test_mem(), NULL, dir, 4, NULL, s.tensors, N, NULL), TESS_E_INVALID,
                 "some rows were left out");
    s.tensors[0].primary.size[0] = 14;
    EXPECT_FAILS(tess_ckpt_save(test_mem(), NULL, dir, 4, NULL, s.tensors, N, NULL), TESS_E_INVALID, "embed.weight");
    EXPECT_TEXT(names_in(dir), "step-00000003");
}

static void limit_file_size(size_t bytes)
{
    struct rlimit limit = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static void a_full_disk_leaves_the_old_checkpoint(void)
{
    static state s;
    const char *dir = test_folder();
    int64_t step;
    uint64_t size;
    save_alone(dir, 10);
    EXPECT_OK(tess_os_file_size(path_in(dir, "step-00000010/rank-00000.data"), &size));
    make_state(&s, 1, 0, false, 20);
    for (size_t limit = size - 1; limit > 10; limit = limit * 4 / 5) {
        limit_file_size(limit);
        EXPECT_FAILS(tess_ckpt_save(test_mem(), NULL, dir, 20, NULL, s.tensors, N, NULL), TESS_E_NO_SPACE,
                     "step-00000020.tmp");
        EXPECT_TEXT(names_in(dir), "step-00000010");
    }
    EXPECT_OK(tess_ckpt_latest(dir, NULL, &step));
    EXPECT_INT(step, 10);
    EXPECT_OK(load_alone(dir, 10));
    limit_file_size(RLIM_INFINITY);
    save_alone(dir, 20);
    EXPECT_OK(load_alone(dir, 20));
}

static void a_folder_that_is_only_to_be_read_is_named(void)
{
    static state s;
    int64_t step;
    bool root = geteuid() == 0;
    const char *dir = test_folder();
    save_alone(dir, 5);
    EXPECT(chmod(dir, root ? 0755 : 0555) == 0);
    EXPECT(!root || seteuid(65534) == 0); /* whom root's rights do not concern */
    make_state(&s, 1, 0, false, 6);
    EXPECT_FAILS(tess_ckpt_save(test_mem(), NULL, dir, 6, NULL, s.tensors, N, NULL), TESS_E_IO, "step-00000006.tmp");
    EXPECT_CONTAINS(tess_error_message(), "Permission denied");
    EXPECT_OK(tess_ckpt_latest(dir, NULL, &step));
    EXPECT_INT(step, 5);
    EXPECT_OK(load_alone(dir, 5));
    EXPECT(!root || seteuid(0) == 0);
    EXPECT(chmod(dir, 0755) == 0);
    EXPECT_TEXT(names_in(dir), "step-00000005");
}

/* ---- Ranks ---- */
static void any_world_size_reads_what_any_wrote(void)
{
    static state s;
    tess_team *team = join_job();
    const char *dir = common_folder(team), *alone = path_in(dir, "alone"), *many = path_in(dir, "many");
    int world = tess_team_size(team), rank = tess_team_rank(team);
    if (rank == 0)
        save_alone(alone, 8);
    EXPECT_OK(tess_barrier(team, NULL));
    for (int whole = 0; whole < 2; whole++) {
        json_t *meta = some_meta(), *back;
        make_state(&s, world, rank, whole, 8);
        blank(&s);
        EXPECT_OK(tess_ckpt_load(test_mem(), team, alone, 8, s.tensors, N, NULL, &back)); /* 1 -> world */
        expect_state(&s, world, rank, whole, 8);
        EXPECT(json_equal(meta, back));
        json_decref(back);
        EXPECT_OK(tess_ckpt_save(test_mem(), team, many, 8 + whole, rank == 0 ? meta : NULL, s.tensors, N, NULL));
        json_decref(meta);
        make_state(&s, 1, 0, false, 8);
        blank(&s);
        EXPECT_OK(
            tess_ckpt_load(test_mem(), NULL, many, 8 + whole, s.tensors, N, NULL, NULL)); /* world -> 1, by each */
        expect_state(&s, 1, 0, false, 8);
    }
    leave_job();
}

static void a_rank_without_space_spoils_the_save_for_all(void)
{
    static state s;
    tess_team *team = join_job();
    const char *dir = common_folder(team);
    int world = tess_team_size(team), rank = tess_team_rank(team),
        last = last_owner(13, world); /* owner of the last row of embed.weight */
    int64_t step;
    make_state(&s, world, rank, false, 8);
    EXPECT_OK(tess_ckpt_save(test_mem(), team, dir, 8, NULL, s.tensors, N, NULL));
    if (rank == last)
        limit_file_size(64);
    EXPECT_FAILS(tess_ckpt_save(test_mem(), team, dir, 9, NULL, s.tensors, N, NULL), TESS_E_NO_SPACE,
                 "save checkpoint of step 9");
    if (rank != last)
        EXPECT_CONTAINS(tess_error_message(), "rank ");
    EXPECT_OK(tess_barrier(team, NULL));
    EXPECT_TEXT(names_in(dir), "step-00000008");
    EXPECT_OK(tess_ckpt_latest(dir, NULL, &step));
    EXPECT_INT(step, 8);
    EXPECT_OK(tess_ckpt_load(test_mem(), team, dir, 8, s.tensors, N, NULL, NULL));
    leave_job();
}

static void ranks_of_different_models_are_told(void)
{
    static state s;
    tess_team *team = join_job();
    const char *dir = common_folder(team);
    int rank = tess_team_rank(team);
    make_state(&s, tess_team_size(team), rank, false, 8);
    if (rank == 1)
        s.tensors[4].name = "layers.0.other";
    EXPECT_FAILS(tess_ckpt_save(test_mem(), team, dir, 8, NULL, s.tensors, N, NULL), TESS_E_MISMATCH,
                 "different names");
    EXPECT_FAILS(tess_ckpt_save(test_mem(), team, dir, rank == 1 ? -8 : 8, NULL, s.tensors, N, NULL), TESS_E_INVALID,
                 "-8");
    EXPECT_FAILS(tess_ckpt_load(test_mem(), team, dir, 8, s.tensors, N, NULL, NULL), TESS_E_NOT_FOUND, "step-00000008");
    leave_job();
}

/* Writes a manifest, and a marker of step 9 with the manifest's checksum: what a save cannot leave, but a tool can. */
static void seal(const char *folder, json_t *manifest)
{
    char *text = json_dumps(manifest, 0), marker[TESS_STORE_MARKER_BYTES];
    size_t size = strlen(text), n = tess_store_format_marker(9, size, XXH3_64bits(text, size), marker);
    put_file(path_in(folder, "manifest.json"), text, size);
    put_file(path_in(folder, "commit.json"), marker, n);
    free(text);
}

static void a_manifest_that_says_other_than_its_marker_or_folder_is_refused(void)
{
    tess_catalog *catalog;
    const char *dir = test_folder(), *folder = path_in(dir, "step-00000009"), *other = path_in(dir, "step-00000007");
    save_alone(dir, 9);
    json_t *manifest = json_load_file(path_in(folder, "manifest.json"), 0, NULL);
    json_object_set_new(manifest, "format", json_integer(99));
    seal(folder, manifest);
    EXPECT_FAILS(tess_catalog_open(test_mem(), folder, &catalog), TESS_E_FORMAT,
                 "step-00000009/manifest.json says format 99, commit.json beside it 3: they are not of one save; copy");
    EXPECT_FAILS(load_alone(dir, 9), TESS_E_FORMAT, "says format 99");
    json_object_set_new(manifest, "format", json_integer(TESS_STORE_FORMAT));
    json_object_set_new(manifest, "step", json_integer(8));
    seal(folder, manifest);
    EXPECT_FAILS(tess_catalog_open(test_mem(), folder, &catalog), TESS_E_FORMAT,
                 "step-00000009/manifest.json says step 8, commit.json beside it 9: they are not of one save; copy");
    json_object_set_new(manifest, "step", json_integer(9));
    seal(folder, manifest);
    EXPECT_OK(load_alone(dir, 9));
    EXPECT_OK(rename(folder, other) == 0 ? TESS_OK : TESS_E_IO);
    EXPECT_FAILS(tess_catalog_open(test_mem(), other, &catalog), TESS_E_FORMAT,
                 "says step 9: the folder was renamed, its name says step 7; name it step-00000009 again");
    json_decref(manifest);
}

static const test_case cases[] = {
    CASE(what_is_saved_is_loaded),
    CASE(the_newest_complete_one_is_found),
    CASE(a_damaged_one_is_passed_over_by_name),
    CASE(one_of_another_format_is_not_passed_over),
    CASE(a_killed_save_is_never_seen),
    CASE(the_same_step_is_replaced),
    CASE(pruning_keeps_the_newest),
    CASE(a_damaged_one_does_not_count_for_those_that_are_kept),
    CASE(of_several_that_do_not_count_the_newest_is_told_and_how_many_more),
    CASE(the_last_good_one_never_goes),
    CASE(a_good_one_that_changes_is_read_again),
    CASE(damage_is_found_by_checksum),
    CASE(a_manifest_that_says_other_than_its_marker_or_folder_is_refused),
    CASE(another_model_is_refused),
    CASE(a_full_disk_leaves_the_old_checkpoint),
    CASE(a_folder_that_is_only_to_be_read_is_named),
    CASE(any_world_size_reads_what_any_wrote, -1),
    CASE(a_rank_without_space_spoils_the_save_for_all, -1),
    CASE(ranks_of_different_models_are_told, 2),
};
TEST_MAIN(cases)
