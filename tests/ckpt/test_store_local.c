/* Checkpoints of which every host stores a part. Ranks with their own folders stand for hosts. */
#include <sys/stat.h>

#include "base/os/os.h"
#include "ckpt/store/read.h"
#include "ckpt/store/store.h"
#include "files.h"
#include "ranks.h"
#include "state.h"

static tess_ckpt_hosts *hosts;
static state now;

/* `per_host` ranks on every host; the last host has the rest. Returns the folder of this rank's host. */
static const char *join_hosts(int per_host)
{
    static char folder[512];
    char name[16];
    tess_team *team = join_job();
    int host = tess_team_rank(team) / per_host;
    snprintf(name, sizeof(name), "h%d", host + 1);
    EXPECT_OK(tess_ckpt_hosts_create(test_mem(), team, host, name, &hosts));
    snprintf(folder, sizeof(folder), "%s", path_in(common_folder(team), name));
    return folder;
}

static void leave_hosts(void)
{
    EXPECT_OK(tess_barrier(hosts->all, NULL));
    tess_ckpt_hosts_destroy(&hosts);
    leave_job();
}

static int rank_of(void)
{
    return tess_team_rank(hosts->all);
}

static int world_of(void)
{
    return tess_team_size(hosts->all);
}

static void save(const char *dir, int64_t step, bool whole)
{
    json_t *meta = some_meta();
    make_state(&now, world_of(), rank_of(), whole, step);
    EXPECT_OK(
        tess_ckpt_save(test_mem(), hosts->all, dir, step, meta, now.tensors, N, &(tess_store_options){.hosts = hosts}));
    json_decref(meta);
}

static tess_status load(const char *dir, int64_t step, bool whole)
{
    json_t *want = some_meta(), *meta = NULL;
    make_state(&now, world_of(), rank_of(), whole, step);
    blank(&now);
    tess_status status = tess_ckpt_load(test_mem(), hosts->all, dir, step, now.tensors, N,
                                        &(tess_ckpt_load_options){.hosts = hosts, .own_folders = true}, &meta);
    if (status == TESS_OK) {
        expect_state(&now, world_of(), rank_of(), whole, step);
        EXPECT(json_equal(want, meta));
    }
    json_decref(meta);
    json_decref(want);
    return status;
}

/* The content of the checkpoint of this rank's host. */
static const char *files_of_host(void)
{
    static char text[512];
    int n = snprintf(text, sizeof(text), "commit.json manifest.json");
    for (int rank = hosts->first[hosts->host]; rank <= hosts->last[hosts->host]; rank++)
        n += snprintf(text + n, sizeof(text) - (size_t)n, " rank-%05d.data", rank);
    return text;
}

static void every_host_keeps_its_rows_and_goes_on(void)
{
    int64_t step = -1, newest = -1;
    const char *dir = join_hosts(2);
    EXPECT_FAILS(tess_ckpt_latest_local(hosts, dir, INT64_MAX, NULL, &step, &newest), TESS_E_NOT_FOUND, "on any host");
    for (int whole = 0; whole < 2; whole++) {
        save(dir, 7 + whole, whole);
        EXPECT_OK(tess_ckpt_latest_local(hosts, dir, INT64_MAX, NULL, &step, &newest));
        EXPECT_INT(step, 7 + whole);
        EXPECT_INT(newest, step);
        EXPECT_OK(load(dir, step, whole));
    }
    EXPECT_TEXT(names_in(dir), "step-00000007 step-00000008");
    EXPECT_TEXT(names_in(path_in(dir, "step-00000007")), files_of_host());
    /* every host has all rows: any ranks resume from each folder, sharded or alone */
    EXPECT_OK(load(dir, 8, false));
    make_state(&now, 1, 0, false, 8);
    blank(&now);
    EXPECT_OK(tess_ckpt_load(test_mem(), NULL, dir, 8, now.tensors, N, NULL, NULL));
    expect_state(&now, 1, 0, false, 8);
    leave_hosts();
}

/* Replicas on different hosts: the mesh is (hosts, ranks of a host); every host holds everything, sharded inside. */
static void replicas_across_hosts_are_kept_by_each(void)
{
    const char *dir = join_hosts(2);
    int n = tess_team_size(hosts->mine), me = tess_team_rank(hosts->mine);
    make_state(&now, n, me, false, 3);
    for (int i = 0; i < N; i++) { /* fsdp does so: each replica counts a part of its rows */
        tess_ckpt_tensor *t = &now.tensors[i];
        tess_shard_rows(t->box.size[0], hosts->n, hosts->host, &t->primary.begin[0], &t->primary.size[0]);
        t->primary.begin[0] += t->box.begin[0];
    }
    EXPECT_OK(
        tess_ckpt_save(test_mem(), hosts->all, dir, 3, NULL, now.tensors, N, &(tess_store_options){.hosts = hosts}));
    blank(&now);
    EXPECT_OK(tess_ckpt_load(test_mem(), hosts->all, dir, 3, now.tensors, N,
                             &(tess_ckpt_load_options){.hosts = hosts, .own_folders = true}, NULL));
    expect_state(&now, n, me, false, 3);
    leave_hosts();
}

/* Hosts of 2 and 1 ranks: saved on 3, then read as if each rank held everything. */
static void rows_that_another_host_has_are_named(void)
{
    const char *dir = join_hosts(2);
    save(dir, 5, false);
    EXPECT_OK(load(dir, 5, false));
    EXPECT_FAILS(
        load(dir, 5, true), TESS_E_INVALID,
        "host h2 (rank 2) needs row 0 of 'model.embed.weight', which its folder does not hold; host h1 (ranks 0-1) "
        "has it");
    EXPECT_CONTAINS(tess_error_message(), "that its save had (host h1 (ranks 0-1), host h2 (rank 2))");
    if (hosts->host == 1) { /* one alone from one host's part */
        make_state(&now, 1, 0, false, 5);
        EXPECT_FAILS(tess_ckpt_load(test_mem(), NULL, dir, 5, now.tensors, N, NULL, NULL), TESS_E_INVALID,
                     "without row 0 of 'model.embed.weight'");
    }
    leave_hosts();
}

static void the_newest_step_is_one_that_all_hosts_have(void)
{
    int64_t step = -1, newest = -1;
    const char *dir = join_hosts(1);
    for (int64_t s = 10; s <= 40; s += 10)
        save(dir, s, false);
    /* h1 lost 40, h2 lost 30: 20 is common */
    if (hosts->host == 0)
        EXPECT_OK(tess_os_remove_tree(path_in(dir, "step-00000040")));
    if (hosts->host == 1)
        EXPECT_OK(tess_os_remove_tree(path_in(dir, "step-00000030/manifest.json")));
    EXPECT_OK(tess_barrier(hosts->all, NULL));
    EXPECT_OK(tess_ckpt_latest_local(hosts, dir, INT64_MAX, NULL, &step, &newest));
    EXPECT_INT(step, 20);
    EXPECT_INT(newest, 40);
    EXPECT_OK(load(dir, step, false));
    EXPECT_FAILS(load(dir, 40, false), TESS_E_NOT_FOUND, "step-00000040");
    if (hosts->host == hosts->n - 1)
        EXPECT_OK(tess_os_remove_tree(dir));
    EXPECT_OK(tess_barrier(hosts->all, NULL));
    EXPECT_FAILS(tess_ckpt_latest_local(hosts, dir, INT64_MAX, NULL, &step, &newest), TESS_E_INVALID,
                 "host h3 (rank 2) has no complete checkpoint there, but host h2 (rank 1) has one of step 40");
    leave_hosts();
}

static void damage_on_one_host_fails_all(void)
{
    const char *dir = join_hosts(2), *path = path_in(dir, "step-00000006/rank-00002.data");
    save(dir, 6, true); /* rows that nobody counts here are verified, too */
    if (hosts->host == 1 && tess_ckpt_hosts_is_first(hosts)) {
        char *data;
        size_t size;
        EXPECT_OK(tess_os_read(test_mem(), path, 1 << 20, &data, &size));
        data[size - 4096] ^= 16; /* a byte of its last piece */
        put_file(path, data, size);
        tess_mem_free(test_mem(), data);
    }
    EXPECT_OK(tess_barrier(hosts->all, NULL));
    EXPECT_FAILS(load(dir, 6, true), TESS_E_FORMAT, "rank-00002.data");
    EXPECT_CONTAINS(tess_error_message(), "h2/step-00000006");
    leave_hosts();
}

static void a_host_that_cannot_save_spoils_it_for_all(void)
{
    int64_t step = -1, newest = -1;
    const char *dir = join_hosts(2);
    save(dir, 6, false);
    const char *target = hosts->host == 1 ? path_in(dir, "step-00000006/commit.json/none") : dir;
    make_state(&now, world_of(), rank_of(), false, 7);
    EXPECT(tess_ckpt_save(test_mem(), hosts->all, target, 7, NULL, now.tensors, N,
                          &(tess_store_options){.hosts = hosts}) != TESS_OK);
    EXPECT_CONTAINS(tess_error_message(), "save checkpoint of step 7");
    EXPECT_OK(tess_barrier(hosts->all, NULL));
    EXPECT_OK(tess_ckpt_latest_local(hosts, dir, INT64_MAX, NULL, &step, &newest));
    EXPECT_INT(newest, 6);
    save(dir, 7, false);
    EXPECT_OK(load(dir, 7, false));
    leave_hosts();
}

static void the_files_of_a_host_are_of_its_rows_alone(void)
{
    enum { ROWS = 64, ROW = 1 << 14 };
    static float values[ROWS * ROW];
    char name[64];
    const char *dir = join_hosts(1);
    tess_ckpt_tensor big = {.name = "big", .shape = {2, {ROWS, ROW}}, .data = values};
    big.box = big.primary = chunk_of(&big.shape, world_of(), rank_of());
    memset(values, 1, sizeof(values));
    EXPECT_OK(tess_ckpt_save(test_mem(), hosts->all, dir, 1, NULL, &big, 1, &(tess_store_options){.hosts = hosts}));
    struct stat info;
    snprintf(name, sizeof(name), "step-00000001/rank-%05d.data", rank_of());
    EXPECT(stat(path_in(dir, name), &info) == 0);
    EXPECT_INT(info.st_size, sizeof(values) / (size_t)world_of());
    leave_hosts();
}

/* Two ranks each hold the same columns: they share them, and another host's rank has none of their part. */
static void ranks_that_hold_the_same_columns_share_them(void)
{
    enum { ROWS = 5, COLUMNS = 7 };
    float values[ROWS * COLUMNS];
    const char *dir = join_hosts(2);
    int pairs = (world_of() + 1) / 2;
    tess_ckpt_tensor t = {.name = "w", .shape = {2, {ROWS, COLUMNS}}, .box = {{0, 0}, {ROWS, 0}}, .data = values};
    tess_shard_rows(COLUMNS, pairs, rank_of() / 2, &t.box.begin[1], &t.box.size[1]);
    for (int64_t i = 0, n = t.box.size[1]; i < ROWS * n; i++)
        values[i] = (float)(i / n * COLUMNS + t.box.begin[1] + i % n);
    t.primary = t.box;
    EXPECT_OK(tess_ckpt_save(test_mem(), hosts->all, dir, 1, NULL, &t, 1, &(tess_store_options){.hosts = hosts}));
    memset(values, 0, sizeof(values));
    EXPECT_OK(tess_ckpt_load(test_mem(), hosts->all, dir, 1, &t, 1,
                             &(tess_ckpt_load_options){.hosts = hosts, .own_folders = true}, NULL));
    for (int64_t i = 0, n = t.box.size[1]; i < ROWS * n; i++)
        EXPECT(values[i] == (float)(i / n * COLUMNS + t.box.begin[1] + i % n));
    t.box = (tess_box){{3, 0}, {1, COLUMNS}}; /* a row of both hosts' columns */
    EXPECT_FAILS(tess_ckpt_load(test_mem(), hosts->all, dir, 1, &t, 1,
                                &(tess_ckpt_load_options){.hosts = hosts, .own_folders = true}, NULL),
                 TESS_E_INVALID, "needs row 3 of 'model.w', which its folder does not hold; host h");
    leave_hosts();
}

/* ---- Pruning when all hosts have newer checkpoints */
static void flip_byte(const char *path)
{
    char *data;
    size_t size;
    EXPECT_OK(tess_os_read(test_mem(), path, 1 << 20, &data, &size));
    data[70] ^= 4;
    put_file(path, data, size);
    tess_mem_free(test_mem(), data);
}

static void prune(const char *dir, int keep)
{
    const tess_ckpt_pruner pruner = {.mem = test_mem()};
    EXPECT_OK(tess_ckpt_prune_local(&pruner, hosts, dir, keep, INT64_MAX));
}

/* h1 loses its newest step, h2 the one before. If each host kept its own two newest, losing one more would leave no
 * common step. */
static void what_one_host_has_lost_does_not_count_on_the_others(void)
{
    int64_t step = -1, newest = -1;
    const char *dir = join_hosts(1);
    for (int64_t s = 10; s <= 40; s += 10)
        save(dir, s, false);
    if (hosts->host == 0)
        flip_byte(path_in(dir, "step-00000040/rank-00000.data"));
    if (hosts->host == 1)
        EXPECT_OK(tess_os_remove_tree(path_in(dir, "step-00000030")));
    EXPECT_OK(tess_barrier(hosts->all, NULL));
    prune(dir, 2); /* 20 and 10 are the newest two that all have */
    EXPECT_TEXT(names_in(dir), hosts->host == 1 ? "step-00000010 step-00000020 step-00000040"
                                                : "step-00000010 step-00000020 step-00000030 step-00000040");
    save(dir, 50, false);
    prune(dir, 2); /* 50 and 20 */
    EXPECT_TEXT(names_in(dir), hosts->host == 1 ? "step-00000020 step-00000040 step-00000050"
                                                : "step-00000020 step-00000030 step-00000040 step-00000050");
    if (hosts->host == hosts->n - 1)
        EXPECT_OK(tess_os_remove_tree(path_in(dir, "step-00000050")));
    EXPECT_OK(tess_barrier(hosts->all, NULL));
    EXPECT_OK(tess_ckpt_latest_local(hosts, dir, 39, NULL, &step, &newest));
    EXPECT_INT(step, 20);
    EXPECT_OK(load(dir, step, false));
    leave_hosts();
}

static void the_last_step_that_all_hosts_hold_never_goes(void)
{
    const char *dir = join_hosts(2);
    for (int64_t s = 10; s <= 40; s += 10)
        save(dir, s, false);
    if (tess_ckpt_hosts_is_first(hosts) && hosts->host == 1)
        for (int64_t s = 20; s <= 40; s += 10) {
            char name[32];
            snprintf(name, sizeof(name), "step-%08d", (int)s);
            EXPECT_OK(tess_os_remove_tree(path_in(dir, name)));
        }
    EXPECT_OK(tess_barrier(hosts->all, NULL));
    prune(dir, 1);
    EXPECT_TEXT(names_in(dir),
                hosts->host == 1 ? "step-00000010" : "step-00000010 step-00000020 step-00000030 step-00000040");
    prune(dir, 0);
    EXPECT_OK(load(dir, 10, false));
    if (tess_ckpt_hosts_is_first(hosts) && hosts->host == 1)
        EXPECT_OK(tess_os_remove_tree(path_in(dir, "step-00000010")));
    EXPECT_OK(tess_barrier(hosts->all, NULL));
    prune(dir, 1); /* nothing in common: nothing goes */
    EXPECT_TEXT(names_in(dir), hosts->host == 1 ? "" : "step-00000010 step-00000020 step-00000030 step-00000040");
    save(dir, 50, false);
    prune(dir, 1);
    EXPECT_TEXT(names_in(dir), "step-00000050");
    leave_hosts();
}

static const test_case cases[] = {
    CASE(every_host_keeps_its_rows_and_goes_on, 3),
    {"every_host_of_four_keeps_its_rows", every_host_keeps_its_rows_and_goes_on, 8, 0},
    CASE(replicas_across_hosts_are_kept_by_each, 4),
    CASE(rows_that_another_host_has_are_named, 3),
    CASE(the_newest_step_is_one_that_all_hosts_have, 3),
    CASE(damage_on_one_host_fails_all, 4),
    CASE(a_host_that_cannot_save_spoils_it_for_all, 4),
    CASE(ranks_that_hold_the_same_columns_share_them, 4),
    CASE(the_files_of_a_host_are_of_its_rows_alone, 4),
    CASE(what_one_host_has_lost_does_not_count_on_the_others, 3),
    CASE(the_last_step_that_all_hosts_hold_never_goes, 4),
};
TEST_MAIN(cases)
