/* `tessera bench ckpt` measures what a checkpoint of a named model costs, compared with copying in memory and
 * writing to the disk. Ranks save and load an artificial training state of the model. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "bench/bench.h"
#include "bench/measuring_ranks.h"
#include "bench/samples.h"
#include "bench/step/step_models.h"
#include "ckpt/async/async.h"
#include "ckpt/catalog/catalog.h"
#include "ckpt/store/read.h"
#include "ckpt/store/store.h"
#include "comm/agree.h"
#include "nn/model.h"

enum { MAX_ROUNDS = 100, KINDS = 3, DISK_BLOCK = 8 << 20, PAGE = 4096 };
enum { STEPS = 2 }; /* steps per round: one during a save, and one without a save */

typedef struct ckpt_plan {
    tess_model_config model;
    int ranks, threads; /* threads per rank; 0: cores divided by ranks */
    int rounds;
    bool direct;
    tess_codec codec;
    tess_dtype weights;
    const char *folder; /* folder to write to */
    bool keep;          /* the checkpoints are not removed */
} ckpt_plan;

/* The times that a round measures. */
typedef enum ckpt_time {
    COPY,  /* copy of the state in memory, with all threads */
    STAGE, /* time in which training stands still: the first part of an asynchronous save */
    DISK,  /* write of as many bytes with one thread: 8 MiB at a time with O_DIRECT, then fsync */
    WRITE, /* time between the end of staging and the commit */
    SAVE,  /* a synchronous save */
    LOAD,
    N_TIMES
} ckpt_time;

typedef struct ckpt_result {
    int threads;    /* threads per rank */
    uint64_t bytes; /* bytes of the state: weights as they are stored, and two moments */
    uint64_t n_params;
    double seconds[N_TIMES][MAX_ROUNDS];
} ckpt_result;

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

/* ---- State ---- */

static void fill(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    rank *r = context;
    for (int64_t i = begin; i < end; i++) {
        uint32_t hash = (uint32_t)i * 2654435761u;
        r->state[i] = (float)(int32_t)(hash ^ hash >> 15) * 0x1p-36f;
        r->copy[i] = 0;
    }
}

/* Describes weights and moments of every parameter, sharded by rows as in training. Returns the number of values of
 * this rank. */
static int64_t shard(rank *r, bool point)
{
    static const char *const states[KINDS] = {NULL, "exp_avg", "exp_avg_sq"};
    int64_t at = 0;
    for (int i = 0; i < r->n; i++) {
        const tess_param *p = tess_model_param(r->model, i / KINDS);
        tess_ckpt_tensor *t = &r->tensors[i];
        *t = (tess_ckpt_tensor){.name = p->name, .state = states[i % KINDS], .shape = p->shape};
        t->stored = t->state == NULL ? r->plan->weights : TESS_F32;
        const tess_shape shape = tess_shape_atleast_1d(&p->shape);
        t->box = tess_box_whole(&shape);
        tess_shard_rows(shape.dim[0], tess_team_size(r->team), tess_team_rank(r->team), &t->box.begin[0],
                        &t->box.size[0]);
        t->primary = t->box;
        t->data = point ? r->state + at : NULL;
        at += tess_box_count(shape.n_dims, &t->box);
    }
    return at;
}

static tess_status make_state(rank *r)
{
    TESS_TRY(tess_model_create(r->mem, &r->plan->model, &r->model));
    r->n = KINDS * tess_model_n_params(r->model);
    TESS_TRY(TESS_NEW(r->mem, r->n, "tensors", &r->tensors));
    r->values = shard(r, false);
    size_t n = (size_t)r->values;
    TESS_TRY(TESS_NEW(r->mem, n, "state", &r->state));
    TESS_TRY(TESS_NEW(r->mem, n, "copy of it", &r->copy));
    shard(r, true);
    tess_threads_run(r->threads, fill, r, r->values, PAGE);
    return TESS_OK;
}

/* ---- Measurements ---- */

/* Measures the time of the slowest rank, starting at a barrier. */
static tess_status timed(rank *r, tess_status (*fn)(rank *), double *seconds)
{
    TESS_TRY(tess_barrier(r->team, NULL));
    double begin_s = tess_os_now_s();
    TESS_TRY(tess_team_agree(r->team, fn(r)));
    *seconds = tess_os_now_s() - begin_s;
    return TESS_OK;
}

static void copy_range(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const rank *r = context;
    memcpy(r->copy + begin, r->state + begin, (size_t)(end - begin) * sizeof(float));
}

static tess_status copy(rank *r)
{
    tess_threads_run(r->threads, copy_range, r, r->values, PAGE);
    return TESS_OK;
}

/* Does the same as `dd bs=8M oflag=direct conv=fsync`: rank 0 writes as many bytes as all ranks together have. */
static tess_status write_plainly(rank *r)
{
    char path[4096];
    int64_t bytes = r->values * (int64_t)sizeof(float), own = bytes / DISK_BLOCK * DISK_BLOCK;
    TESS_TRY(tess_all_reduce(r->team, &bytes, &bytes, 1, TESS_I64, TESS_SUM, NULL));
    if (tess_team_rank(r->team) != 0)
        return TESS_OK;
    TESS_TRY(tess_os_join(path, sizeof(path), r->plan->folder, "plain.data"));
    TESS_AUTO(tess_os_close)
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | (r->plan->direct ? O_DIRECT : 0), 0666);
    if (fd < 0)
        return tess_os_error("create", path);
    tess_status status = TESS_OK;
    for (int64_t at = 0; at < bytes && own > 0 && status == TESS_OK; at += DISK_BLOCK)
        status = tess_os_write_at(fd, (uint64_t)at, (const char *)r->state + at % own, DISK_BLOCK, path);
    if (status == TESS_OK)
        status = tess_os_sync_close(&fd, path);
    tess_os_remove(path);
    return status;
}

static tess_status save_beside_training(rank *r, double *staged_s, double *written_s)
{
    tess_saver_times times;
    tess_saver_outcome outcome;
    TESS_TRY(tess_barrier(r->team, NULL));
    TESS_TRY(tess_saver_save(r->saver, r->plan->folder, 1, NULL, r->tensors, r->n, &times));
    TESS_TRY(tess_saver_wait(r->saver));
    TESS_TRY(tess_barrier(r->team, NULL));
    TESS_TRY(tess_saver_hear(r->saver, &outcome));
    *staged_s = times.staged_s;
    *written_s = outcome.seconds;
    TESS_TRY(tess_bench_reduce_s(r->team, TESS_MAX, staged_s));
    return tess_bench_reduce_s(r->team, TESS_MAX, written_s);
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

/* ---- A rank ---- */

static tess_status measure_rounds(rank *r, ckpt_result *result)
{
    TESS_TRY(tess_threads_create(r->mem, tess_runtime_threads(r->runtime), &r->threads));
    TESS_TRY(tess_ckpt_hosts_create(r->mem, r->team, 0, "here", &r->hosts));
    TESS_TRY(make_state(r));
    tess_saver_options options = {.codec = r->plan->codec, .direct = r->plan->direct, .host_wait_s = 60};
    TESS_TRY(tess_saver_create(r->runtime, r->hosts, r->threads, &options, &r->saver));
    TESS_CHECK(r->saver != NULL, TESS_E_INTERNAL, "the ranks found no writer");
    TESS_TRY(tess_saver_prepare(r->saver, r->tensors, r->n));
    *result =
        (ckpt_result){.threads = tess_threads_count(r->threads), .n_params = (uint64_t)tess_model_count(r->model)};
    for (int i = 0; i < r->n; i++)
        result->bytes += (uint64_t)tess_shape_count(&r->tensors[i].shape) * tess_dtype_size(r->tensors[i].stored);
    for (int i = 0; i < r->plan->rounds; i++) {
        TESS_TRY(timed(r, copy, &result->seconds[COPY][i]));
        TESS_TRY(save_beside_training(r, &result->seconds[STAGE][i], &result->seconds[WRITE][i]));
        TESS_TRY(timed(r, write_plainly, &result->seconds[DISK][i]));
        TESS_TRY(timed(r, save, &result->seconds[SAVE][i]));
        TESS_TRY(timed(r, load, &result->seconds[LOAD][i]));
    }
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
}

static tess_status run_rank(tess_runtime *runtime, const void *plan, void *result)
{
    TESS_AUTO(release)
    rank r = {.plan = plan, .runtime = runtime, .team = tess_runtime_team(runtime), .mem = tess_runtime_mem(runtime)};
    return measure_rounds(&r, result);
}

/* ---- The command ---- */

static tess_status remove_steps(const ckpt_plan *plan)
{
    char path[TESS_CKPT_PATH];
    for (int step = 1; step <= STEPS && !plan->keep; step++) {
        TESS_TRY(tess_ckpt_folder(plan->folder, step, "", path));
        TESS_TRY(tess_os_remove_tree(path));
    }
    return TESS_OK;
}

/* Starts the ranks and a separate writer process, as `tessera train -n` does. */
static tess_status run_job(const ckpt_plan *plan, ckpt_result *result)
{
    const tess_bench_ranks ranks = {
        .n = plan->ranks, .options = {.n_threads = plan->threads}, .run = run_rank, .plan = plan};
    tess_async_service *service;
    TESS_TRY(tess_os_make_dirs(plan->folder));
    tess_status status = tess_async_service_start(&service);
    if (status == TESS_OK) {
        status = tess_bench_ranks_run(&ranks, result, sizeof(*result));
        tess_async_service_stop(&service);
    }
    tess_status removed = remove_steps(plan);
    return status != TESS_OK ? status : removed;
}

static tess_status make_plan(const tess_bench_options *options, ckpt_plan *plan)
{
    bool folder;
    TESS_TRY(step_model_config(options->ckpt.model, &plan->model, &folder));
    TESS_CHECK(options->common.repeat <= MAX_ROUNDS, TESS_E_INVALID, "--repeat: at most %d", MAX_ROUNDS);
    plan->ranks = (int)options->ckpt.ranks;
    plan->threads = (int)options->common.threads;
    plan->rounds = tess_bench_rounds(options, 3, 1);
    plan->direct = !options->ckpt.buffered;
    plan->codec = options->ckpt.zstd ? TESS_CODEC_ZSTD : TESS_CODEC_NONE;
    plan->weights = options->ckpt.bf16 ? TESS_BF16 : TESS_F32;
    plan->folder = options->ckpt.folder;
    plan->keep = options->ckpt.keep;
    return TESS_OK;
}

static tess_status facts(const tess_bench_options *options, const ckpt_plan *plan, const ckpt_result *r,
                         tess_bench_report *report)
{
    char params[32], bytes[32];
    TESS_TRY(tess_bench_report_fact(report, "model", "%s, %s parameters", options->ckpt.model,
                                    tess_format_count((double)r->n_params, params, sizeof(params))));
    TESS_TRY(tess_bench_report_fact(report, "job", "%d rank%s x %d thread%s", plan->ranks, plan->ranks > 1 ? "s" : "",
                                    r->threads, r->threads > 1 ? "s" : ""));
    return tess_bench_report_fact(report, "state", "%s: weights as %s, two moments as float32%s%s",
                                  tess_format_bytes((double)r->bytes, bytes, sizeof(bytes)),
                                  tess_dtype_name(plan->weights), plan->codec != TESS_CODEC_NONE ? ", zstd" : "",
                                  plan->direct ? "" : ", through the page cache");
}

static tess_status run(TESS_UNUSED tess_mem *mem, const tess_bench_options *options, tess_bench_report *report)
{
    static const struct {
        const char *name;
        ckpt_time limit; /* measurement that bounds this time */
    } rows[N_TIMES] = {[COPY] = {"copy in memory", COPY},
                       [STAGE] = {"stage: training stands still", COPY},
                       [DISK] = {"plain write to the disk", DISK},
                       [WRITE] = {"write and commit beside training", DISK},
                       [SAVE] = {"save while training stands still", DISK},
                       [LOAD] = {"load", DISK}};
    ckpt_plan plan = {0};
    ckpt_result result = {0};
    TESS_TRY(make_plan(options, &plan));
    TESS_TRY(run_job(&plan, &result));
    TESS_TRY(facts(options, &plan, &result, report));
    TESS_TRY(tess_bench_report_table(report, "checkpoint: medians; of limit: time by that of copy or plain write",
                                     "<time[ms], <best[ms], >rate[GB/s], <of limit[x]"));
    for (int i = 0; i < N_TIMES; i++) {
        const double *seconds = result.seconds[i];
        double median_s = tess_bench_median(seconds, plan.rounds);
        const double values[] = {median_s * 1e3, tess_bench_min(seconds, plan.rounds) * 1e3,
                                 (double)result.bytes / median_s * 1e-9,
                                 tess_bench_median_ratio(seconds, result.seconds[rows[i].limit], plan.rounds)};
        if (tess_bench_wanted(options, rows[i].name))
            TESS_TRY(tess_bench_report_row(report, rows[i].name, values));
    }
    return TESS_OK;
}

const tess_bench tess_bench_ckpt = {"ckpt", "saving and loading the training state of a named model", run, NULL};
