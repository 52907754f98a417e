/* Checkpoints that the writer makes from stages, on one host and on several. */
#include <fcntl.h>
#include <stdlib.h>

#include "async_job.h"
#include "ckpt/catalog/catalog.h"
#include "ckpt/store/read.h"
#include "files.h"
#include "state.h"

static const char *the_folder;
static tess_saver_options the_options = {.direct = true, .host_wait_s = PATIENCE_S};
static bool as_bf16, by_column;
static int ranks_of_host; /* 0: one host */
static int fds[2];        /* descriptors of the services of two hosts */

static const char *step_folder(const char *dir, int64_t step)
{
    static char path[TESS_CKPT_PATH];
    EXPECT_OK(tess_ckpt_folder(dir, step, "", path));
    return path;
}

static async_rank join_host(void)
{
    async_rank r = {0};
    char number[16];
    EXPECT_OK(tess_runtime_create(NULL, &r.runtime));
    r.team = tess_runtime_team(r.runtime);
    int rank = tess_team_rank(r.team), host = ranks_of_host > 0 ? rank / ranks_of_host : 0;
    if (ranks_of_host > 0) {
        snprintf(number, sizeof(number), "%d", fds[host]);
        setenv(tess_variable_name(TESS_VAR_SAVES), number, 1);
    }
    EXPECT_OK(tess_ckpt_hosts_create(tess_runtime_mem(r.runtime), r.team, host, host == 0 ? "h1" : "h2", &r.hosts));
    EXPECT_OK(tess_threads_create(tess_runtime_mem(r.runtime), 1, &r.threads));
    EXPECT_OK(tess_saver_create(r.runtime, r.hosts, r.threads, &the_options, &r.saver));
    EXPECT(r.saver != NULL);
    return r;
}

/* Every rank holds all, and writes its columns of tensors that have any. */
static void cut_columns(state *s, int world, int rank, int64_t step)
{
    make_state(s, world, rank, true, step);
    for (int i = 0; i < N; i++) {
        tess_ckpt_tensor *t = &s->tensors[i];
        if (t->shape.n_dims < 2)
            continue;
        t->primary = t->box;
        tess_shard_rows(t->shape.dim[1], world, rank, &t->primary.begin[1], &t->primary.size[1]);
    }
}

/* TESS_OK, or how the save failed: the same on all ranks. */
static tess_status save_step(async_rank *r, int64_t step, tess_saver_outcome *outcome)
{
    static state s;
    char dir[1024];
    tess_saver_times times;
    json_t *meta = some_meta();
    make_state(&s, tess_team_size(r->team), tess_team_rank(r->team), false, step);
    if (by_column)
        cut_columns(&s, tess_team_size(r->team), tess_team_rank(r->team), step);
    for (int i = 0; i < N; i++)
        s.tensors[i].stored = as_bf16 && s.tensors[i].state == NULL ? TESS_BF16 : TESS_F32;
    snprintf(dir, sizeof(dir), "%s%s", the_folder, the_options.host_local && r->hosts->host == 1 ? "/h2" : "");
    EXPECT_OK(tess_saver_save(r->saver, dir, step, meta, s.tensors, N, &times));
    json_decref(meta);
    EXPECT_OK(tess_saver_wait(r->saver));
    EXPECT_OK(tess_barrier(r->team, NULL));
    return tess_saver_hear(r->saver, outcome);
}

static void expect_tensor(const tess_catalog *catalog, int i, int64_t step)
{
    char name[TESS_STORE_NAME];
    float values[LARGEST], want[LARGEST];
    tess_store_tensor_name(states[i % 3], params[i / 3].name, name);
    const tess_catalog_tensor *tensor = tess_catalog_find(catalog, name);
    EXPECT(tensor != NULL);
    tess_box box = {{0}};
    for (int d = 0; d < tensor->n_dims; d++)
        box.size[d] = tensor->dim[d];
    EXPECT_OK(tess_catalog_read_floats(catalog, tensor, &box, values));
    int64_t n = tess_shape_count(&params[i / 3].shape);
    bool rounded = as_bf16 && i % 3 == 0;
    EXPECT_TEXT(tensor->dtype, rounded ? "BF16" : "F32");
    for (int64_t k = 0; k < n; k++)
        want[k] = value_at(i, k, step);
    if (rounded)
        EXPECT_CLOSE(values, want, (size_t)n, 0, 0.002);
    else
        EXPECT_SAME(values, want, (size_t)n);
}

static void expect_checkpoint(const char *dir, int64_t step)
{
    tess_catalog *catalog;
    json_t *manifest, *meta = some_meta();
    const char *folder = step_folder(dir, step);
    EXPECT_OK(tess_store_open_manifest(folder, step, &manifest));
    EXPECT(json_equal(json_object_get(manifest, "meta"), meta));
    EXPECT_OK(tess_store_catalog(test_mem(), folder, manifest, &catalog));
    EXPECT_OK(tess_catalog_check(catalog));
    EXPECT_OK(tess_catalog_verify(catalog, NULL));
    for (int i = 0; i < N; i++)
        expect_tensor(catalog, i, step);
    json_decref(meta);
    json_decref(manifest);
    tess_catalog_destroy(&catalog);
}

static void save_two_steps(void)
{
    tess_saver_outcome outcome;
    async_rank r = join_host();
    for (int64_t step = 100; step <= 200; step += 100) {
        EXPECT_OK(save_step(&r, step, &outcome));
        EXPECT(outcome.committed == (r.saver != NULL && tess_team_rank(r.hosts->mine) == 0));
        if (outcome.committed)
            EXPECT_INT(outcome.step, step);
    }
    leave_with_saver(&r);
}

static void begin(void)
{
    the_folder = test_folder();
    EXPECT_OK(tess_async_service_start(&the_service));
}

static void run_on_one_host(int n_ranks)
{
    begin();
    EXPECT_INT(run_job(n_ranks, save_two_steps), 0);
    tess_async_service_stop(&the_service);
    EXPECT_TEXT(names_in(the_folder), "step-00000100 step-00000200");
    expect_checkpoint(the_folder, 100);
    expect_checkpoint(the_folder, 200);
}

static void what_is_staged_becomes_a_checkpoint(void)
{
    run_on_one_host(3);
    EXPECT_TEXT(names_in(step_folder(the_folder, 200)),
                "commit.json manifest.json rank-00000.data rank-00001.data rank-00002.data");
}

static void weights_are_rounded_when_that_is_asked_for(void)
{
    as_bf16 = true;
    run_on_one_host(2);
}

static void boxes_that_lie_in_many_runs_are_gathered(void)
{
    by_column = true;
    run_on_one_host(3);
    as_bf16 = true;
    run_on_one_host(2);
}

static void pieces_are_packed_when_that_is_asked_for(void)
{
    the_options.codec = TESS_CODEC_ZSTD;
    run_on_one_host(2);
}

/* ---- Failures of the disk ---- */
static void save_a_good_and_a_bad_one(void)
{
    tess_saver_outcome outcome;
    async_rank r = join_host();
    EXPECT_OK(save_step(&r, 100, &outcome));
    EXPECT_FAILS(save_step(&r, 200, &outcome), TESS_E_NO_SPACE, "rank-00001.data");
    EXPECT_CONTAINS(tess_error_message(), "checkpoint of step 200");
    EXPECT_OK(save_step(&r, 300, &outcome));
    leave_with_saver(&r);
}

static void a_full_disk_fails_one_save_and_the_one_before_stands(void)
{
    the_options.fault = "rank=1 step=200 point=save:write kind=enospc";
    begin();
    EXPECT_INT(run_job(2, save_a_good_and_a_bad_one), 0);
    tess_async_service_stop(&the_service);
    EXPECT_TEXT(names_in(the_folder), "step-00000100 step-00000300");
    expect_checkpoint(the_folder, 100);
    expect_checkpoint(the_folder, 300);
}

/* The folder is locked, as by another job's writer, when the second save begins. */
static void save_while_the_folder_is_in_use(void)
{
    tess_saver_outcome outcome;
    async_rank r = join_host();
    int fd = -1;
    EXPECT_OK(save_step(&r, 100, &outcome));
    if (tess_team_rank(r.team) == 0) {
        fd = open(the_folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        EXPECT(tess_os_lock(fd));
    }
    EXPECT_OK(tess_barrier(r.team, NULL));
    EXPECT_FAILS(save_step(&r, 200, &outcome), TESS_E_IO, "another job's writer");
    tess_os_close(&fd);
    EXPECT_OK(tess_barrier(r.team, NULL));
    EXPECT_OK(save_step(&r, 300, &outcome));
    leave_with_saver(&r);
}

static void one_writer_at_a_time_makes_checkpoints_in_a_folder(void)
{
    the_options.host_wait_s = 0.1;
    begin();
    EXPECT_INT(run_job(2, save_while_the_folder_is_in_use), 0);
    tess_async_service_stop(&the_service);
    EXPECT_TEXT(names_in(the_folder), "step-00000100 step-00000300");
    expect_checkpoint(the_folder, 300);
}

/* ---- Several hosts ---- */
static void begin_two_hosts(tess_async_service *services[2])
{
    the_folder = test_folder();
    ranks_of_host = 2;
    for (int host = 0; host < 2; host++) {
        EXPECT_OK(tess_async_service_start(&services[host]));
        EXPECT_OK(tess_environment_number(TESS_VAR_SAVES, 0, INT32_MAX, &fds[host]));
    }
}

static void end_two_hosts(tess_async_service *services[2])
{
    for (int host = 0; host < 2; host++)
        tess_async_service_stop(&services[host]);
}

static void writers_of_two_hosts_make_one_checkpoint(void)
{
    tess_async_service *services[2];
    begin_two_hosts(services);
    EXPECT_INT(run_job(4, save_two_steps), 0);
    end_two_hosts(services);
    EXPECT_TEXT(names_in(the_folder), "step-00000100 step-00000200");
    EXPECT_TEXT(names_in(step_folder(the_folder, 200)),
                "commit.json manifest.json rank-00000.data rank-00001.data rank-00002.data rank-00003.data");
    expect_checkpoint(the_folder, 100);
    expect_checkpoint(the_folder, 200);
}

/* Each host's writer has read its own files back, so the first one knows that the new checkpoint is good. */
static void writers_of_two_hosts_remove_what_is_older(void)
{
    tess_async_service *services[2];
    the_options.keep_latest_k = 1;
    begin_two_hosts(services);
    EXPECT_INT(run_job(4, save_two_steps), 0);
    end_two_hosts(services);
    EXPECT_TEXT(names_in(the_folder), "step-00000200");
    expect_checkpoint(the_folder, 200);
}

static void a_part_that_does_not_read_back_is_told(void)
{
    static const float values[6] = {1, 2, 3, 4, 5, 6};
    tess_store_piece rows = {
        "model.w", "F32", false, 2, {4, 3}, .box = {{1}, {2, 3}}, .data = values, .held = {{1}, {2, 3}}};
    char folder[TESS_CKPT_PATH], *data;
    size_t size;
    json_t *part;
    EXPECT_OK(tess_store_begin(NULL, test_folder(), 7, folder));
    EXPECT_OK(tess_store_write_part(test_mem(), NULL, folder, "rank-00001.data", &rows, 1, &part));
    EXPECT_OK(tess_store_verify_part(test_mem(), folder, part));
    const char *path = path_in(folder, "rank-00001.data");
    EXPECT_OK(tess_os_read(test_mem(), path, 1 << 20, &data, &size));
    data[5] ^= 4;
    put_file(path, data, size);
    EXPECT_FAILS(tess_store_verify_part(test_mem(), folder, part), TESS_E_FORMAT, "rank-00001.data");
    EXPECT_CONTAINS(tess_error_message(), "its checksum is");
    tess_mem_free(test_mem(), data);
    json_decref(part);
}

static void save_with_a_fault_on_the_other_host(void)
{
    tess_saver_outcome outcome;
    async_rank r = join_host();
    EXPECT_OK(save_step(&r, 100, &outcome));
    EXPECT_FAILS(save_step(&r, 200, &outcome), TESS_E_NO_SPACE, "rank-00003.data");
    EXPECT_OK(save_step(&r, 300, &outcome));
    leave_with_saver(&r);
}

static void a_failure_on_one_host_is_heard_on_all_and_nothing_is_committed(void)
{
    tess_async_service *services[2];
    the_options.fault = "rank=3 step=200 point=save:sync kind=enospc";
    begin_two_hosts(services);
    EXPECT_INT(run_job(4, save_with_a_fault_on_the_other_host), 0);
    end_two_hosts(services);
    EXPECT_TEXT(names_in(the_folder), "step-00000100 step-00000300");
    expect_checkpoint(the_folder, 300);
}

static void hosts_keep_folders_of_their_own(void)
{
    tess_async_service *services[2];
    the_options.host_local = true;
    begin_two_hosts(services);
    EXPECT_INT(run_job(4, save_two_steps), 0);
    end_two_hosts(services);
    EXPECT_TEXT(names_in(step_folder(the_folder, 200)), "commit.json manifest.json rank-00000.data rank-00001.data");
    EXPECT_TEXT(names_in(step_folder(path_in(the_folder, "h2"), 200)),
                "commit.json manifest.json rank-00002.data rank-00003.data");
}

/* Between saves each host loses another step. */
static void save_and_lose(void)
{
    tess_saver_outcome outcome;
    async_rank r = join_host();
    int rank = tess_team_rank(r.team);
    for (int64_t step = 10; step <= 40; step += 10) {
        EXPECT_OK(save_step(&r, step, &outcome));
        if (step == 30 && rank == 0)
            EXPECT_OK(tess_os_remove_tree(step_folder(the_folder, 30)));
        if (step == 30 && rank == 2)
            EXPECT_OK(tess_os_remove_tree(step_folder(path_in(the_folder, "h2"), 20)));
        EXPECT_OK(tess_barrier(r.team, NULL));
    }
    leave_with_saver(&r);
}

static void save_to_60(void)
{
    tess_saver_outcome outcome;
    async_rank r = join_host();
    for (int64_t step = 50; step <= 60; step += 10)
        EXPECT_OK(save_step(&r, step, &outcome));
    leave_with_saver(&r);
}

/* The writers never meet: the ranks agree on which older steps may be removed. */
static void what_one_host_has_lost_does_not_count_on_the_other(void)
{
    tess_async_service *services[2];
    the_options.host_local = true;
    the_options.keep_latest_k = 2;
    begin_two_hosts(services);
    EXPECT_INT(run_job(4, save_and_lose), 0);
    EXPECT_TEXT(names_in(the_folder), "h2 step-00000010 step-00000020 step-00000040");
    EXPECT_TEXT(names_in(path_in(the_folder, "h2")), "step-00000010 step-00000030 step-00000040");
    EXPECT_INT(run_job(4, save_to_60), 0); /* both have 60, 50 and 40; 60 is known to the next save only */
    EXPECT_TEXT(names_in(the_folder), "h2 step-00000040 step-00000050 step-00000060");
    EXPECT_TEXT(names_in(path_in(the_folder, "h2")), "step-00000040 step-00000050 step-00000060");
    end_two_hosts(services);
}

static const test_case cases[] = {
    CASE(what_is_staged_becomes_a_checkpoint),
    CASE(weights_are_rounded_when_that_is_asked_for),
    CASE(boxes_that_lie_in_many_runs_are_gathered),
    CASE(pieces_are_packed_when_that_is_asked_for),
    CASE(a_full_disk_fails_one_save_and_the_one_before_stands),
    CASE(one_writer_at_a_time_makes_checkpoints_in_a_folder),
    CASE(writers_of_two_hosts_make_one_checkpoint),
    CASE(writers_of_two_hosts_remove_what_is_older),
    CASE(a_part_that_does_not_read_back_is_told),
    CASE(a_failure_on_one_host_is_heard_on_all_and_nothing_is_committed),
    CASE(hosts_keep_folders_of_their_own),
    CASE(what_one_host_has_lost_does_not_count_on_the_other),
};

TEST_MAIN(cases)
