#include "bench/ckpt_job.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/os/os.h"
#include "ckpt/async/async.h"
#include "ckpt/store/read.h"
#include "ckpt/store/store.h"
#include "comm/agree.h"
#include "launch/launcher.h"
#include "nn/model.h"

enum { KINDS = 3, DISK_BLOCK = 8 << 20, PAGE = 4096, STEPS = 2 /* of a round: beside training, and not */ };

/* What a rank finds in the memory that it shares with the command. */
typedef struct answer {
    ckpt_result result;
    int32_t status; /* of rank 0 */
    char message[1024];
} answer;

typedef struct job {
    const ckpt_plan *plan;
    answer *answer;
} job;

typedef struct rank {
    const ckpt_plan *plan;
    tess_runtime *runtime;
    tess_team *team;
    tess_mem *mem;
    tess_ckpt_hosts *hosts;
    tess_threads *threads;
    tess_model *model;
    tess_ckpt_tensor *tensors;
    int n;
    float *state, *copy; /* (values) */
    int64_t values;
    tess_saver *saver;
} rank;

/* ---- State
 * -------------------------------------------------------------------------------------------------------------- */
static void fill(void *context, int64_t begin, int64_t end, int worker)
{
    rank *r = context;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        uint32_t hash = (uint32_t)i * 2654435761u;
        r->state[i] = (float)(int32_t)(hash ^ hash >> 15) * 0x1p-36f;
        r->copy[i] = 0;
    }
}

/* Every parameter three times, cut by rows as training cuts them; returns how many values this rank has. */
static int64_t cut(rank *r, bool point)
{
    int64_t at = 0;
    for (int i = 0; i < r->n; i++) {
        const tess_param *p = tess_model_param(r->model, i / KINDS);
        tess_ckpt_tensor *t = &r->tensors[i];
        *t = (tess_ckpt_tensor){.name = p->name, .kind = (tess_ckpt_kind)(i % KINDS), .shape = p->shape};
        t->stored = t->kind == TESS_CKPT_WEIGHT ? r->plan->weights : TESS_F32;
        tess_shard_rows(tess_shape_rows(&p->shape), tess_team_size(r->team), tess_team_rank(r->team), &t->primary_begin,
                        &t->primary_rows);
        t->row_begin = t->primary_begin;
        t->n_rows = t->primary_rows;
        t->data = point ? r->state + at : NULL;
        at += t->n_rows * tess_shape_row_count(&p->shape);
    }
    return at;
}

static tess_status make_state(rank *r)
{
    TESS_TRY(tess_model_create(r->mem, &r->plan->model, &r->model));
    r->n = KINDS * tess_model_n_params(r->model);
    TESS_TRY(tess_mem_alloc_array(r->mem, TESS_POOL_MISC, (size_t)r->n, sizeof(r->tensors[0]), "tensors",
                                  (void **)&r->tensors));
    r->values = cut(r, false);
    size_t n = (size_t)r->values;
    TESS_TRY(tess_mem_alloc_array(r->mem, TESS_POOL_MISC, n, sizeof(float), "state", (void **)&r->state));
    TESS_TRY(tess_mem_alloc_array(r->mem, TESS_POOL_MISC, n, sizeof(float), "copy of it", (void **)&r->copy));
    cut(r, true);
    tess_threads_run(r->threads, fill, r, r->values, PAGE);
    return TESS_OK;
}

/* ---- What is measured
 * --------------------------------------------------------------------------------------------------- */
/* The slowest rank's time, from a moment at which all were there. */
static tess_status timed(rank *r, tess_status (*fn)(rank *), double *seconds)
{
    TESS_TRY(tess_barrier(r->team, NULL));
    double begin_s = tess_os_now_s();
    TESS_TRY(tess_team_agree(r->team, fn(r)));
    *seconds = tess_os_now_s() - begin_s;
    return TESS_OK;
}

static void copy_range(void *context, int64_t begin, int64_t end, int worker)
{
    const rank *r = context;
    (void)worker;
    memcpy(r->copy + begin, r->state + begin, (size_t)(end - begin) * sizeof(float));
}

static tess_status copy(rank *r)
{
    tess_threads_run(r->threads, copy_range, r, r->values, PAGE);
    return TESS_OK;
}

static tess_status write_blocks(int fd, const rank *r, uint64_t bytes, const char *path)
{
    const char *data = (const char *)r->state;
    uint64_t have = (uint64_t)r->values * sizeof(float) / DISK_BLOCK * DISK_BLOCK;
    for (uint64_t at = 0; at < bytes && have > 0; at += DISK_BLOCK)
        TESS_TRY(tess_os_write_at(fd, at, data + at % have, DISK_BLOCK, path));
    return TESS_OK;
}

/* What `dd bs=8M oflag=direct conv=fsync` does, with the bytes of all ranks. */
static tess_status write_plainly(rank *r)
{
    char path[4096];
    int64_t bytes = r->values * (int64_t)sizeof(float);
    TESS_TRY(tess_all_reduce(r->team, &bytes, &bytes, 1, TESS_I64, TESS_SUM, NULL));
    if (tess_team_rank(r->team) != 0)
        return TESS_OK;
    TESS_TRY(tess_os_join(path, sizeof(path), r->plan->folder, "plain.data"));
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | (r->plan->direct ? O_DIRECT : 0), 0666);
    if (fd < 0)
        return tess_os_error("create", path);
    tess_status status = write_blocks(fd, r, (uint64_t)bytes, path);
    if (status == TESS_OK)
        status = tess_os_sync_close(&fd, path);
    tess_os_close(&fd);
    tess_os_remove(path);
    return status;
}

static tess_status save_beside(rank *r, ckpt_round *round)
{
    tess_saver_times times;
    tess_saver_outcome outcome;
    double seconds[2];
    TESS_TRY(tess_barrier(r->team, NULL));
    TESS_TRY(tess_saver_save(r->saver, r->plan->folder, 1, NULL, r->tensors, r->n, &times));
    TESS_TRY(tess_saver_wait(r->saver));
    TESS_TRY(tess_barrier(r->team, NULL));
    TESS_TRY(tess_saver_hear(r->saver, &outcome));
    seconds[0] = times.staged_s;
    seconds[1] = outcome.seconds;
    for (int i = 0; i < 2; i++) {
        int64_t ns = (int64_t)(seconds[i] * 1e9);
        TESS_TRY(tess_all_reduce(r->team, &ns, &ns, 1, TESS_I64, TESS_MAX, NULL));
        seconds[i] = (double)ns * 1e-9;
    }
    round->staged = seconds[0];
    round->written = seconds[1];
    return TESS_OK;
}

static tess_status save(rank *r)
{
    tess_store_options options = {.codec = r->plan->codec, .direct = r->plan->direct};
    return tess_ckpt_save(r->mem, r->team, r->plan->folder, STEPS, NULL, r->tensors, r->n, &options);
}

static tess_status load(rank *r)
{
    tess_ckpt_load_options options = {.threads = r->threads, .hosts = r->hosts};
    return tess_ckpt_load(r->mem, r->team, r->plan->folder, STEPS, r->tensors, r->n, &options, NULL);
}

static tess_status measure(rank *r, ckpt_round *round)
{
    TESS_TRY(timed(r, copy, &round->copy));
    TESS_TRY(save_beside(r, round));
    TESS_TRY(timed(r, write_plainly, &round->disk));
    TESS_TRY(timed(r, save, &round->saved));
    return timed(r, load, &round->loaded);
}

/* ---- A rank
 * ------------------------------------------------------------------------------------------------------------- */
static tess_status open_saver(rank *r)
{
    tess_saver_options options = {.codec = r->plan->codec, .direct = r->plan->direct, .host_wait_s = 60};
    TESS_TRY(tess_saver_create(r->runtime, r->hosts, r->threads, &options, &r->saver));
    TESS_CHECK(r->saver != NULL, TESS_E_INTERNAL, "the ranks found no writer");
    return tess_saver_prepare(r->saver, r->tensors, r->n);
}

static uint64_t stored_bytes(const rank *r)
{
    uint64_t bytes = 0;
    for (int i = 0; i < r->n; i++)
        bytes += (uint64_t)tess_shape_count(&r->tensors[i].shape) * tess_dtype_size(r->tensors[i].stored);
    return bytes;
}

static tess_status run_rank(rank *r, ckpt_result *result)
{
    tess_runtime_options options = {.n_threads = r->plan->threads};
    TESS_TRY(tess_runtime_create(&options, &r->runtime));
    r->team = tess_runtime_team(r->runtime);
    r->mem = tess_runtime_mem(r->runtime);
    TESS_TRY(tess_threads_create(r->mem, tess_runtime_threads(r->runtime), &r->threads));
    TESS_TRY(tess_ckpt_hosts_create(r->mem, r->team, 0, "here", &r->hosts));
    TESS_TRY(make_state(r));
    TESS_TRY(open_saver(r));
    *result = (ckpt_result){.threads = tess_threads_count(r->threads),
                            .bytes = stored_bytes(r),
                            .n_params = (uint64_t)tess_model_count(r->model)};
    for (int i = 0; i < r->plan->rounds; i++)
        TESS_TRY(measure(r, &result->rounds[i]));
    return TESS_OK;
}

static void release(rank *r)
{
    tess_saver_destroy(&r->saver);
    tess_mem_free(r->mem, r->copy);
    tess_mem_free(r->mem, r->state);
    tess_mem_free(r->mem, r->tensors);
    tess_model_destroy(&r->model);
    tess_ckpt_hosts_destroy(&r->hosts);
    tess_threads_destroy(&r->threads);
    tess_runtime_destroy(&r->runtime);
}

static int rank_main(void *context)
{
    const job *j = context;
    static ckpt_result result;
    rank r = {.plan = j->plan};
    tess_status status = run_rank(&r, &result);
    if (r.team != NULL && tess_team_rank(r.team) == 0) {
        j->answer->result = result;
        j->answer->status = (int32_t)status;
        if (status != TESS_OK)
            snprintf(j->answer->message, sizeof(j->answer->message), "%s", tess_error_message());
    }
    if (r.mem != NULL)
        release(&r);
    return status == TESS_OK ? 0 : 1;
}

/* ---- The command
 * --------------------------------------------------------------------------------------------------------- */
static tess_status remove_steps(const ckpt_plan *plan)
{
    char path[TESS_CKPT_PATH];
    for (int step = 1; step <= STEPS && !plan->keep; step++) {
        TESS_TRY(tess_ckpt_folder(plan->folder, step, "", path));
        TESS_TRY(tess_os_remove_tree(path));
    }
    return TESS_OK;
}

static tess_status launch(const ckpt_plan *plan, answer *shared)
{
    tess_launch_result launched;
    job j = {plan, shared};
    TESS_TRY(tess_launch_function(plan->ranks, rank_main, &j, 5, 0, &launched));
    TESS_CHECK(shared->status == TESS_OK, (tess_status)shared->status, "%s", shared->message);
    TESS_CHECK(launched.exit_code == 0, TESS_E_PEER_LOST, "%s", launched.report);
    return TESS_OK;
}

tess_status ckpt_job_run(const ckpt_plan *plan, ckpt_result *result)
{
    void *memory;
    tess_async_service *service;
    TESS_TRY(tess_os_make_dirs(plan->folder));
    TESS_TRY(tess_os_share("answer", sizeof(answer), &memory));
    answer *shared = memory;
    tess_status status = tess_async_service_start(&service);
    if (status == TESS_OK) {
        status = launch(plan, shared);
        tess_async_service_stop(&service);
    }
    *result = shared->result;
    tess_os_unmap_shared(memory, sizeof(answer));
    tess_status removed = remove_steps(plan);
    return status != TESS_OK ? status : removed;
}
