/* `tessera bench ckpt`: what a checkpoint of a named model costs, against copying in memory and writing to the disk. */
#include <stdio.h>

#include "base/text/text.h"
#include "bench/bench.h"
#include "bench/ckpt_job.h"
#include "bench/samples.h"
#include "bench/step_models.h"

enum { ROUNDS = 3 };

static tess_status make_plan(const tess_bench_options *options, ckpt_plan *plan)
{
    bool folder;
    TESS_TRY(step_model_config(options->ckpt.model, &plan->model, &folder));
    TESS_CHECK(options->common.repeat <= CKPT_JOB_MAX_ROUNDS, TESS_E_INVALID, "--repeat: at most %d",
               CKPT_JOB_MAX_ROUNDS);
    plan->ranks = (int)options->ckpt.ranks;
    plan->threads = (int)options->common.threads;
    plan->rounds = options->common.repeat > 0 ? (int)options->common.repeat : options->common.quick ? 1 : ROUNDS;
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

/* `limit`: seconds of what bounds it, round by round. */
typedef struct row {
    const char *name;
    size_t seconds, limit; /* offsets in ckpt_round */
} row;

static double at(const ckpt_round *round, size_t offset)
{
    return *(const double *)((const char *)round + offset);
}

static tess_status add_row(const ckpt_plan *plan, const ckpt_result *r, const row *what, tess_bench_report *report)
{
    tess_bench_samples seconds = {0}, ratio = {0};
    for (int i = 0; i < plan->rounds; i++) {
        const ckpt_round *round = &r->rounds[i];
        tess_bench_samples_add(&seconds, at(round, what->seconds));
        tess_bench_samples_add(&ratio, at(round, what->seconds) / at(round, what->limit));
    }
    double median_s = tess_bench_samples_median(&seconds);
    const double values[] = {median_s * 1e3, tess_bench_samples_min(&seconds) * 1e3, (double)r->bytes / median_s * 1e-9,
                             tess_bench_samples_median(&ratio)};
    return tess_bench_report_row(report, what->name, values);
}

static tess_status run(tess_mem *mem, const tess_bench_options *options, tess_bench_report *report)
{
#define FIELD(name) offsetof(ckpt_round, name)
    static const row rows[] = {{"copy in memory", FIELD(copy), FIELD(copy)},
                               {"stage: training stands still", FIELD(staged), FIELD(copy)},
                               {"plain write to the disk", FIELD(disk), FIELD(disk)},
                               {"write and commit beside training", FIELD(written), FIELD(disk)},
                               {"save while training stands still", FIELD(saved), FIELD(disk)},
                               {"load", FIELD(loaded), FIELD(disk)}};
#undef FIELD
    static const tess_bench_column columns[] = {{"time", "ms", TESS_BENCH_LOWER},
                                                {"best", "ms", TESS_BENCH_LOWER},
                                                {"rate", "GB/s", TESS_BENCH_HIGHER},
                                                {"of limit", "x", TESS_BENCH_LOWER}};
    static ckpt_plan plan;
    static ckpt_result result;
    (void)mem;
    TESS_TRY(make_plan(options, &plan));
    TESS_TRY(ckpt_job_run(&plan, &result));
    TESS_TRY(facts(options, &plan, &result, report));
    TESS_TRY(tess_bench_report_table(report, "checkpoint: medians; of limit: time by that of copy or plain write",
                                     columns, 4));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (tess_bench_wanted(options, rows[i].name))
            TESS_TRY(add_row(&plan, &result, &rows[i], report));
    return TESS_OK;
}

const tess_bench tess_bench_ckpt = {"ckpt", "saving and loading the training state of a named model", run, NULL};
