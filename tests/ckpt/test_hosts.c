/* Checks between hosts when a job starts. Groups of ranks with folders of their own stand for hosts. */
#include "ckpt/ckpt_hosts.h"
#include "ckpt/same_files.h"
#include "ckpt/shared_folder.h"
#include "files.h"
#include "ranks.h"

static tess_ckpt_hosts *hosts;

/* Ranks in hosts of two: h1 has ranks 0 and 1. */
static const char *join_hosts(void)
{
    static const char *const names[] = {"h1", "h2", "h3", "h4"};
    tess_team *team = join_job();
    int host = tess_team_rank(team) / 2;
    EXPECT_OK(tess_ckpt_hosts_create(test_mem(), team, 10 - host, names[host], &hosts));
    return common_folder(team);
}

static void leave_hosts(void)
{
    tess_ckpt_hosts_destroy(&hosts);
    leave_job();
}

/* A folder of this rank's host. */
static const char *own_folder(const char *common)
{
    const char *folder = path_in(common, hosts->names[hosts->host]);
    EXPECT_OK(tess_os_make_dirs(folder));
    EXPECT_OK(tess_barrier(hosts->all, NULL));
    return folder;
}

static void hosts_are_numbered_by_their_first_ranks(void)
{
    char text[TESS_CKPT_HOST_TEXT];
    join_hosts();
    int rank = tess_team_rank(hosts->all), world = tess_team_size(hosts->all);
    EXPECT_INT(hosts->n, (world + 1) / 2);
    EXPECT_INT(hosts->host, rank / 2);
    EXPECT_INT(tess_team_size(hosts->mine), world % 2 == 1 && rank == world - 1 ? 1 : 2);
    EXPECT(tess_ckpt_hosts_is_first(hosts) == (rank % 2 == 0));
    EXPECT_TEXT(tess_ckpt_hosts_format(hosts, 0, text), "host h1 (ranks 0-1)");
    if (world == 3)
        EXPECT_TEXT(tess_ckpt_hosts_format(hosts, 1, text), "host h2 (rank 2)");
    leave_hosts();
}

static void hosts_that_interleave_are_refused(void)
{
    tess_team *team = join_job();
    EXPECT_FAILS(tess_ckpt_hosts_create(test_mem(), team, tess_team_rank(team) % 2, "h", &hosts), TESS_E_INVALID,
                 "ranks 0 and 2 are on host h, but not those between them");
    leave_job();
}

static void a_shared_folder_is_found_to_be_one(void)
{
    const char *common = join_hosts(), *folder = path_in(common, "new/out");
    EXPECT_OK(tess_ckpt_check_shared_folder(hosts, folder, "job.dump_folder"));
    EXPECT_OK(tess_barrier(hosts->all, NULL));
    EXPECT_TEXT(names_in(folder), "");
    leave_hosts();
}

static void a_folder_of_every_host_is_named_with_its_hosts(void)
{
    const char *folder = own_folder(join_hosts());
    EXPECT_FAILS(tess_ckpt_check_shared_folder(hosts, folder, "job.dump_folder"), TESS_E_INVALID,
                 "is not one folder on all hosts: host h2 (ranks 2-3) does not see what host h1 (ranks 0-1) writes");
    EXPECT_CONTAINS(tess_error_message(), "job.dump_folder: '");
    EXPECT_CONTAINS(tess_error_message(), "checkpoint.host_local=true");
    EXPECT_OK(tess_barrier(hosts->all, NULL));
    EXPECT_TEXT(names_in(folder), "");
    leave_hosts();
}

/* Only the last host has another folder under the path. */
static void the_one_host_that_differs_is_named(void)
{
    const char *common = join_hosts(), *own = own_folder(common);
    const char *folder = hosts->host == hosts->n - 1 ? own : common;
    EXPECT_FAILS(tess_ckpt_check_shared_folder(hosts, folder, "job.dump_folder"), TESS_E_INVALID,
                 "host h4 (ranks 6-7) does not see what host h1 (ranks 0-1) writes");
    leave_hosts();
}

static void a_folder_that_cannot_be_written_fails_all_ranks(void)
{
    const char *common = join_hosts();
    put_file(path_in(common, "file"), "x", 1);
    EXPECT_OK(tess_barrier(hosts->all, NULL));
    EXPECT(tess_ckpt_check_shared_folder(hosts, path_in(common, "file/out"), "job.dump_folder") != TESS_OK);
    EXPECT_CONTAINS(tess_error_message(), "file");
    leave_hosts();
}

static void files_that_differ_are_named(void)
{
    const char *common = join_hosts(), *own = own_folder(common);
    const char *same = path_in(common, "same.txt"), *text = path_in(own, "text.txt"), *paths[] = {same, text};
    static char big[200000];
    if (tess_team_rank(hosts->all) == 0)
        put_file(same, "common", 6);
    if (tess_ckpt_hosts_is_first(hosts))
        put_file(text, big, sizeof(big));
    EXPECT_OK(tess_barrier(hosts->all, NULL));
    EXPECT_OK(tess_ckpt_check_same_files(hosts, paths, 2, "data.files"));
    EXPECT_OK(tess_ckpt_check_same_files(hosts, paths, 0, "data.files"));
    for (int k = 0; k < 2; k++) { /* other bytes at the beginning, at the end */
        big[k * (sizeof(big) - 1)] = 'x';
        if (hosts->host == 1 && tess_ckpt_hosts_is_first(hosts))
            put_file(text, big, sizeof(big));
        big[k * (sizeof(big) - 1)] = 0;
        EXPECT_FAILS(tess_ckpt_check_same_files(hosts, paths, 2, "data.files"), TESS_E_INVALID,
                     "host h1 (ranks 0-1) and host h2 (ranks 2-3) have other bytes");
        EXPECT_CONTAINS(tess_error_message(), "text.txt");
        EXPECT_OK(tess_barrier(hosts->all, NULL));
    }
    if (hosts->host == 1)
        put_file(text, big, 1000);
    EXPECT_FAILS(tess_ckpt_check_same_files(hosts, paths, 2, "data.files"), TESS_E_INVALID,
                 "200000 bytes on host h1 (ranks 0-1), 1000 on host h2 (ranks 2-3)");
    EXPECT_OK(tess_barrier(hosts->all, NULL));
    if (hosts->host == 1)
        tess_os_remove(text);
    EXPECT_FAILS(tess_ckpt_check_same_files(hosts, paths, 2, "data.files"), TESS_E_NOT_FOUND,
                 "cannot be read on host h2 (ranks 2-3)");
    EXPECT_OK(tess_barrier(hosts->all, NULL));
    if (hosts->host == 0)
        tess_os_remove(text);
    EXPECT_FAILS(tess_ckpt_check_same_files(hosts, paths, 2, "data.files"), TESS_E_NOT_FOUND,
                 "cannot be read on host h1 (ranks 0-1)");
    leave_hosts();
}

static void model_folders_that_differ_are_named(void)
{
    const char *folder = own_folder(join_hosts());
    if (tess_ckpt_hosts_is_first(hosts)) {
        put_file(path_in(folder, "config.json"), "{}", 2);
        put_file(path_in(folder, "model-00001-of-00002.safetensors"), "one", 3);
        put_file(path_in(folder, "model-00002-of-00002.safetensors"), "two", 3);
        put_file(path_in(folder, hosts->host == 0 ? "README.md" : "notes"), "other", 5);
    }
    EXPECT_OK(tess_barrier(hosts->all, NULL));
    EXPECT_OK(tess_ckpt_check_same_files(hosts, &folder, 1, "model.path"));
    if (hosts->host == 1 && tess_ckpt_hosts_is_first(hosts)) { /* the same bytes under exchanged names */
        put_file(path_in(folder, "model-00001-of-00002.safetensors"), "two", 3);
        put_file(path_in(folder, "model-00002-of-00002.safetensors"), "one", 3);
    }
    EXPECT_FAILS(tess_ckpt_check_same_files(hosts, &folder, 1, "model.path"), TESS_E_INVALID, "have other bytes");
    leave_hosts();
}

static const test_case cases[] = {
    CASE(hosts_are_numbered_by_their_first_ranks, 3),
    {"hosts_of_even_jobs_are_numbered_too", hosts_are_numbered_by_their_first_ranks, 8, 0},
    CASE(hosts_that_interleave_are_refused, 4),
    CASE(a_shared_folder_is_found_to_be_one, 4),
    CASE(a_folder_of_every_host_is_named_with_its_hosts, 4),
    CASE(the_one_host_that_differs_is_named, 8),
    CASE(a_folder_that_cannot_be_written_fails_all_ranks, 4),
    CASE(files_that_differ_are_named, 4),
    CASE(model_folders_that_differ_are_named, 4),
};
TEST_MAIN(cases)
