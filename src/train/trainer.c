/* Builds a trainer from a configuration, and runs the loop around its steps. */
#include "engine/model/model_file.h"
#include "train/trainer_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "comm/agree.h"
#include "comm/rejoin.h"
#include "comm/seat.h"
#include "device/peak.h"
#include "inject/inject.h"
#include "tessera/fsdp.h"
#include "tessera/loop_program.h"
#include "tessera/comm.h"
#include "engine/model/adapter.h"
#include "plan/memory_need.h"
#include "train/memory_report.h"
#include "train/run_record.h"
#include "engine/model/tied_head.h"
#include "engine/stages/rank_stage.h"

static void report_line(void *self, const char *text)
{
    tess_trainer_note(self, "%s", text);
}

/* Whether hosts may have other places of the mesh than those by number, which the check of memory assumes. */
static bool are_moved(const tess_trainer *t)
{
    const tess_parallelism_section *p = &t->config.parallelism;
    return tess_team_size(t->hosts->mine) < tess_team_size(t->team) && (p->rank_order.n > 0 || p->inside_hosts > 0);
}

/* Checked at the first start only; after a restart, the job's own memory would count as used. */
tess_status tess_trainer_check_memory(const tess_trainer *t)
{
    tess_status status = TESS_OK;
    if (t->goes_on || t->is_aside || tess_runtime_life(t->runtime) > 1)
        return TESS_OK;
    tess_mem *apart = NULL; /* a separate counter: the prediction must not raise the run's peaks */
    const tess_memory_plan plan = tess_trainer_plan(t);
    const tess_reporter reporter = {report_line, (void *)(uintptr_t)t};
    if (tess_ckpt_hosts_is_first(t->hosts))
        status = tess_mem_create(&apart);
    if (apart != NULL)
        status = tess_memory_check_here(apart, &t->model_config, &plan, &reporter);
    tess_mem_destroy(&apart);
    if (are_moved(t) && (status == TESS_E_INVALID || status == TESS_E_NO_SPACE)) {
        tess_trainer_warn(t, "memory may be too little, by an estimate for ranks in the order of their numbers: %s",
                          tess_error_message());
        tess_error_clear();
        status = TESS_OK;
    }
    return tess_team_agree(t->team, status);
}

/* Opens the trace. If the disk is full, a run that continues from memory does so without a trace, because its state
 * is worth more. */
static tess_status open_trace(const tess_trainer *t)
{
    char folder[TESS_TEXT_SIZE + 8];
    if (!t->config.debug.trace)
        return TESS_OK;
    snprintf(folder, sizeof(folder), "%s/trace", t->config.job.dump_folder);
    tess_status status = tess_runtime_keep_trace(t->runtime, folder);
    if (!t->goes_on || (status != TESS_E_IO && status != TESS_E_NO_SPACE))
        return status == TESS_OK ? TESS_OK
                                 : tess_fail_context(status, "the trace of this job (debug.trace=false: none)");
    tess_trainer_note(t, "warning: there is no trace of this job from here on: %s", tess_error_message());
    tess_error_clear();
    return TESS_OK;
}

tess_status tess_trainer_load_model(tess_trainer *t, const tess_reporter *reporter)
{
    TESS_TRY(tess_config_read_model(&t->config, &t->model_config));
    if (!t->model_config.tied)
        return TESS_OK;
    if (t->rank == 0)
        tess_config_untie_head(&t->config, reporter, &t->model_config);
    int64_t tied = t->model_config.tied;
    TESS_TRY(tess_broadcast(t->team, &tied, 1, TESS_I64, 0, NULL));
    t->model_config.tied = tied != 0;
    return TESS_OK;
}

static tess_status open_model(tess_trainer *t, const tess_reporter *reporter)
{
    TESS_TRY(tess_trainer_load_model(t, reporter));
    TESS_TRY(tess_config_check_leaves(&t->config, &t->model_config));
    TESS_TRY(tess_config_check_trainable(t->mem, &t->config, &t->model_config));
    TESS_TRY(tess_trainer_find_persistent(t));
    return tess_trainer_check_memory(t);
}

/* Opens what training and serving ranks both need. */
static tess_status open_task(tess_trainer *t, const tess_reporter *reporter)
{
    TESS_TRY(tess_trainer_join_hosts(t));
    if (t->kind->check != NULL)
        TESS_TRY(t->kind->check(&t->config));
    TESS_TRY(tess_trainer_check_hosts(t));
    TESS_TRY(t->kind->create(t, &t->task));
    if (t->kind->program == NULL)
        TESS_TRY(open_model(t, reporter));
    return t->kind->open(t->task.self, &t->model_config);
}

static tess_status build(tess_trainer *t)
{
    tess_reporter reporter = {report_line, t};
    TESS_TRY(open_task(t, &reporter));
    const tess_engine_options options = {
        .reporter = &reporter, .device_need = tess_memory_device_need, .program = t->kind->program};
    TESS_TRY(tess_engine_create_over(tess_trainer_team(t), &t->config, &t->model_config, &options, &t->engine));
    if (t->kind->ready != NULL)
        TESS_TRY(t->kind->ready(t->task.self, t->engine));
    TESS_TRY(tess_os_make_dirs(t->config.job.dump_folder));
    TESS_TRY(open_trace(t));
    if (t->kind->write != NULL)
        TESS_TRY(t->kind->write(t->task.self));
    if (!t->goes_on)
        TESS_TRY(tess_trainer_describe(t));
    TESS_TRY(tess_trainer_open_saver(t));
    TESS_TRY(t->goes_on ? tess_trainer_go_on(t) : tess_trainer_resume(t));
    if (!t->goes_on)
        TESS_TRY(tess_trainer_begin_book(t));
    t->engine->recorder = tess_logbook_recorder(t->book);
    TESS_TRY(tess_trainer_rehearse(t));
    t->first_step = t->engine->step;
    if (t->rank == 0)
        TESS_TRY(tess_metrics_open(t->mem, &t->config, t->engine->step, &t->metrics));
    if (t->rank == 0)
        TESS_TRY(tess_metrics_open_lines(t->mem, &t->config, "memory.jsonl", t->engine->step, &t->watch.lines));
    if (!t->goes_on)
        tess_trainer_record_run(t);
    if (t->rank == 0 && t->config.metrics.samples > 0)
        TESS_TRY(tess_metrics_open_lines(t->mem, &t->config, "samples.jsonl", t->engine->step, &t->samples));
    TESS_TRY(tess_trainer_begin_board(t));
    if (t->rank == 0)
        tess_launch_resumed(t->runtime, t->engine->step);
    return t->kind->begin != NULL ? t->kind->begin(t->task.self) : TESS_OK;
}

tess_status tess_trainer_begin(tess_trainer *t, tess_runtime *runtime, const tess_task_kind *kind,
                               const tess_config *config, const tess_train_observer *observer)
{
    *t = (tess_trainer){.kind = kind,
                        .observer = observer,
                        .runtime = runtime,
                        .team = tess_runtime_team(runtime),
                        .mem = tess_runtime_mem(runtime),
                        .rank = tess_runtime_rank(runtime)};
    return tess_config_copy(config, &t->config);
}

tess_status tess_trainer_end(tess_trainer *t, tess_status status)
{
    if (status != TESS_OK)
        tess_runtime_report(t->runtime, tess_error_message());
    if (status != TESS_OK)
        tess_trainer_end_board(t, false);
    tess_metrics_close(&t->metrics);
    tess_metrics_close(&t->samples);
    tess_metrics_close(&t->watch.lines);
    tess_saver_destroy(&t->saver);
    if (t->task.self != NULL)
        t->kind->close(t->task.self);
    tess_engine_destroy(&t->engine);
    tess_mem_drop(&t->book);
    tess_ckpt_hosts_destroy(&t->hosts);
    tess_team_destroy(&t->ordered);
    if (t->team != tess_runtime_team(t->runtime))
        tess_team_destroy(&t->team);
    tess_config_free(&t->config);
    return status;
}

/* Measures speed since the last log line. */
typedef struct speedometer {
    double since_s;
    int64_t tokens, step;
} speedometer;

static double flops_per_token(const tess_trainer *t)
{
    return t->kind->program != NULL ? t->kind->program->flops_per_item
                                    : tess_model_flops_per_token(t->engine->whole, t->config.training.seq_len);
}

static void fill_speed(const tess_trainer *t, speedometer *meter, tess_step_report *report)
{
    double elapsed = tess_os_now_s() - meter->since_s;
    report->tps = elapsed > 0 ? (double)(t->engine->n_tokens - meter->tokens) / elapsed : 0;
    report->tflops = report->tps * flops_per_token(t) * 1e-12;
    report->mfu = t->engine->compute.team_flops > 0 ? report->tflops * 1e12 / t->engine->compute.team_flops : 0;
    report->eta_s =
        elapsed / (double)(t->engine->step - meter->step) * (double)(t->config.training.steps - t->engine->step);
    if (report->log_line)
        *meter = (speedometer){tess_os_now_s(), t->engine->n_tokens, t->engine->step};
}

/* Warns of a leaking pool, once for each pool. Every rank adds the warning to the job's records; rank 0 prints its
 * own. */
static void look_for_leaks(tess_trainer *t)
{
    char text[256];
    if (!tess_memory_watch_step(&t->watch, t->mem, text, sizeof(text)))
        return;
    if (t->rank == 0)
        tess_trainer_warn(t, "%s", text);
    else
        tess_runtime_warn(t->runtime, text);
}

/* Fills in memory use of this rank. For a log line, also sums use and peaks over all ranks. */
static tess_status fill_memory(tess_trainer *t, tess_step_report *report)
{
    tess_pool_numbers now = {.name = "in_use"};
    int64_t all[TESS_POOL_COUNT + 1] = {0}; /* bytes in use by pool, then the sum of the peaks */
    look_for_leaks(t);
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        tess_pool_stats stats = tess_mem_stats(t->mem, (tess_pool)pool);
        report->peak_bytes[pool] = stats.peak_bytes;
        all[pool] = (int64_t)stats.bytes;
        all[TESS_POOL_COUNT] += (int64_t)stats.peak_bytes;
    }
    if (report->log_line)
        TESS_TRY(tess_all_reduce(t->team, all, all, TESS_POOL_COUNT + 1, TESS_I64, TESS_SUM, NULL));
    report->total_peak_bytes = (size_t)all[TESS_POOL_COUNT];
    memcpy(now.bytes, all, sizeof(now.bytes));
    if (report->log_line && t->rank == 0 && tess_metrics_pools(t->watch.lines, t->engine->step, &now, 1) != TESS_OK)
        tess_error_clear(); /* the disk is full: check_metrics reports it, and these lines wait too */
    return TESS_OK;
}

static void fill_report(const tess_trainer *t, const tess_engine_report *done, tess_step_report *report)
{
    *report = (tess_step_report){.step = t->engine->step,
                                 .steps = t->config.training.steps,
                                 .loss = done->loss,
                                 .grad_norm = done->grad_norm,
                                 .lr = done->lr,
                                 .zloss = done->zloss,
                                 .zgrad = done->zgrad,
                                 .loss_scale = done->loss_scale,
                                 .load = done->load,
                                 .skipped = done->skipped,
                                 .n_tokens = t->engine->n_tokens,
                                 .n_ranks = tess_runtime_world(t->runtime),
                                 .times = done->times};
}

static void tell(const tess_trainer *t, const tess_metrics_news *news)
{
    if (news->text[0] != '\0' && news->is_warning)
        tess_trainer_warn(t, "%s", news->text);
    else if (news->text[0] != '\0')
        tess_trainer_note(t, "%s", news->text);
}

/* Reports when metrics begin to wait for a full disk, and when they are written again. */
static void check_metrics(const tess_trainer *t, tess_status written)
{
    const tess_metrics_news news = tess_metrics_see(t->metrics, t->engine->step, written);
    tell(t, &news);
}

/* Writes the metrics that still wait at the end of the run, and warns of lost lines. */
static void finish_metrics(const tess_trainer *t)
{
    char why[512];
    if (!tess_metrics_is_behind(t->metrics))
        return;
    tess_status written = tess_metrics_flush(t->metrics);
    snprintf(why, sizeof(why), "%s", tess_error_message());
    check_metrics(t, written);
    const tess_metrics_news news = tess_metrics_see_end(t->metrics, why);
    tell(t, &news);
}

static void show_step(tess_trainer *t, const tess_step_report *report)
{
    if (t->observer != NULL && t->observer->step != NULL)
        t->observer->step(t->observer->self, report);
    check_metrics(t, tess_metrics_step(t->metrics, report));
}

/* Warns once, after the first step: by then the engine has tried to pin all memory that it copies from and to. */
static void report_refused_pins(tess_trainer *t)
{
    char bytes[32];
    const tess_staging *staging = t->engine->compute.staging;
    if (staging == NULL || t->engine->step != t->first_step + 1)
        return;
    const tess_staging_pins *pins = tess_staging_pinned(staging);
    if (pins->refused_bytes > 0)
        tess_trainer_warn(t, "copies to and from the GPU are slower: %s of this rank's memory cannot be pinned: %s",
                          tess_format_bytes((double)pins->refused_bytes, bytes, sizeof(bytes)), pins->refusal);
}

static tess_status run_step(tess_trainer *t, speedometer *meter)
{
    tess_engine_report done;
    tess_step_report report;
    tess_batch_source source;
    TESS_TRY(tess_trainer_next_step(t, &source));
    source.has_news = t->saver != NULL && tess_saver_has_news(t->saver);
    TESS_TRY(tess_engine_step(t->engine, &source, &done));
    t->stopping = done.stop;
    t->leaving = done.leave;
    if (done.news)
        TESS_TRY(tess_trainer_report_saves(t));
    if (done.note[0] != '\0')
        tess_trainer_warn(t, "%s", done.note);
    for (int phase = 0; phase < TESS_PHASE_COUNT; phase++)
        t->phase_s[phase] += done.times.phase_s[phase];
    fill_report(t, &done, &report);
    report.log_line = t->engine->step % t->config.metrics.log_freq == 0 || t->engine->step == t->first_step + 1 ||
                      t->engine->step == report.steps;
    fill_speed(t, meter, &report);
    TESS_TRY(fill_memory(t, &report));
    report_refused_pins(t);
    TESS_TRY(tess_trainer_show_histograms(t, &done));
    if (t->rank != 0)
        return TESS_OK;
    if (t->task.report != NULL)
        t->task.report(t->task.self, &report);
    tess_runtime_phase(t->runtime, "log", t->engine->step, -1);
    show_step(t, &report);
    tess_trainer_draw_timeline(t);
    return TESS_OK;
}

void tess_trainer_add_metrics(tess_trainer *t, const tess_metric *metrics, int n)
{
    if (t->rank == 0 && !tess_metrics_has_validation(t->metrics, t->engine->step))
        check_metrics(t, tess_metrics_add(t->metrics, t->engine->step, metrics, n));
}

/* Whether the newest step is the last. A resumed run may have done more steps than training.steps. */
static bool is_last(const tess_trainer *t)
{
    return t->engine->step >= t->config.training.steps;
}

/* Shows an evaluation. One that was cut off will be repeated, and enters the metrics only then. */
static void show_validation(tess_trainer *t, const tess_validation_report *report)
{
    if (t->rank != 0 || tess_metrics_has_validation(t->metrics, t->engine->step))
        return;
    if (t->observer != NULL && t->observer->validation != NULL)
        t->observer->validation(t->observer->self, report);
    if (!t->evaluation_due)
        check_metrics(t, tess_metrics_validation(t->metrics, report));
}

/* Runs the task's work after the newest step, unless the run stops there. An evaluation that a stop skipped or cut
 * off is due when the run continues. */
static tess_status after_step(tess_trainer *t, speedometer *meter, tess_train_result *result)
{
    tess_validation_report report = {.step = -1};
    bool last = is_last(t);
    t->evaluation_due = t->stopping && t->task.evaluates(t->task.self, last);
    if (!t->stopping)
        TESS_TRY(t->task.after_step(t->task.self, last, &report));
    t->evaluation_due = t->evaluation_due || report.cut_off;
    meter->since_s += report.seconds; /* the evaluation is not training time */
    if (report.step >= 0 && report.outcome != TESS_VALIDATION_MISSING)
        result->last = report;
    if (report.step >= 0)
        show_validation(t, &report);
    if (!t->evaluation_due)
        tess_logbook_validated(t->book, t->engine->step);
    t->stopping = t->stopping || t->evaluation_due;
    return TESS_OK;
}

/* Whether the task ends the run at the newest step. */
static bool ends_early(const tess_trainer *t)
{
    return t->task.is_done != NULL && t->task.is_done(t->task.self);
}

static const logbook_marks nothing_done = {.done = -1, .committed = -1, .validated = -1, .saved = -1};

static tess_status save_if_due(tess_trainer *t, const logbook_marks *so_far)
{
    const tess_config *c = &t->config;
    int64_t step = t->engine->step;
    bool last = is_last(t) || ends_early(t);
    if (c->checkpoint.enable && so_far->saved < step && (last || t->stopping || step % c->checkpoint.interval == 0)) {
        t->stopping = t->stopping || t->leaving;
        TESS_TRY_CTX(tess_trainer_save(t, last || t->stopping), "checkpoint of step %lld", (long long)step);
    }
    tess_logbook_saved(t->book, step);
    return TESS_OK;
}

/* Runs the task's work after the step, and saves if a checkpoint is due. `so_far`: what has been done already. */
static tess_status follow_up(tess_trainer *t, const logbook_marks *so_far, speedometer *meter,
                             tess_train_result *result)
{
    bool done = so_far->validated >= t->engine->step;
    if (t->task.settle != NULL && !done)
        TESS_TRY(t->task.settle(t->task.self));
    if (!done)
        TESS_TRY(after_step(t, meter, result));
    return save_if_due(t, so_far);
}

/* Repeats the evaluation that the loaded checkpoint lacks. It may end the run. */
static tess_status make_up_evaluation(tess_trainer *t, speedometer *meter, tess_train_result *result)
{
    if (t->goes_on || !t->evaluation_due || t->stopping || t->ends_here)
        return TESS_OK;
    TESS_TRY(after_step(t, meter, result));
    return save_if_due(t, &nothing_done);
}

/* Completes the newest step of an earlier process: its metrics line, validation and save. An earlier save may not
 * have finished, so a run that stops or ends now saves again. */
static tess_status end_persistent_step(tess_trainer *t, speedometer *meter, tess_train_result *result)
{
    tess_step_report report;
    if (!t->goes_on || t->engine->step == 0)
        return TESS_OK;
    const logbook_step *last = tess_logbook_last(t->book);
    fill_report(t, &last->report, &report);
    if (t->rank == 0 && last->step == t->engine->step && !tess_metrics_has_step(t->metrics, t->engine->step))
        show_step(t, &report);
    if (t->stopping || is_last(t))
        t->marks.saved = -1;
    return follow_up(t, &t->marks, meter, result);
}

static tess_status run(tess_trainer *t, tess_train_result *result)
{
    const tess_config *c = &t->config;
    speedometer meter = {tess_os_now_s(), t->engine->n_tokens, t->engine->step};
    int64_t stop = tess_runtime_stop_requested(t->runtime); /* ranks see a stop request at different times */
    TESS_TRY(tess_all_reduce(t->team, &stop, &stop, 1, TESS_I64, TESS_MAX, NULL));
    t->stopping = stop != 0 && t->engine->step < c->training.steps;
    TESS_TRY(end_persistent_step(t, &meter, result));
    TESS_TRY(make_up_evaluation(t, &meter, result));
    while (t->engine->step < c->training.steps && !t->stopping && !t->ends_here && !ends_early(t) &&
           !tess_inject_stops(t->runtime, t->engine->step + 1)) {
        TESS_TRY(run_step(t, &meter));
        TESS_TRY(follow_up(t, &nothing_done, &meter, result));
    }
    TESS_TRY(tess_engine_kept(t->engine));
    TESS_TRY(tess_trainer_finish_saves(t));
    finish_metrics(t);
    result->steps = t->engine->step;
    bool unfinished = !is_last(t) || (t->evaluation_due && c->checkpoint.enable);
    result->interrupted = t->stopping && !ends_early(t) && unfinished;
    if (t->task.finish != NULL)
        TESS_TRY(t->task.finish(t->task.self, result->interrupted));
    if (!result->interrupted && !t->ends_here)
        tess_trainer_end_board(t, true);
    if (result->interrupted || t->ends_here)
        return TESS_OK;
    TESS_TRY(tess_trainer_describe_end(t));
    TESS_TRY_CTX(tess_trainer_export(t, NULL, result->model_folder, sizeof(result->model_folder)), "write the model");
    if (t->rank == 0 && t->task.conclude != NULL)
        TESS_TRY(t->task.conclude(t->task.self, result->model_folder));
    return tess_barrier(t->team, NULL);
}

/* Splits the job: its first ranks train, the others serve them. Each role gets its own team and sets itself up.
 * Collective over the job. */
static tess_status take_role(tess_trainer *t)
{
    tess_team *all = tess_runtime_team(t->runtime), *team;
    const int world = tess_team_size(all);
    TESS_TRY(tess_config_check_trainers(&t->config, world));
    const int n_trainers = tess_config_trainers(&t->config, world);
    if (n_trainers == world || t->kind->serve == NULL)
        return TESS_OK;
    t->is_aside = t->rank >= n_trainers;
    TESS_TRY(tess_team_split(all, t->is_aside, t->rank, "role", &team));
    t->team = team;
    t->rank = tess_team_rank(team);
    return TESS_OK;
}

static tess_status train(tess_trainer *t, tess_train_result *result)
{
    TESS_TRY(build(t));
    return run(t, result);
}

static tess_status serve(tess_trainer *t, tess_train_result *result)
{
    const tess_train_observer *observer = t->observer;
    t->observer = NULL; /* the training ranks report the same setup */
    TESS_TRY(open_task(t, NULL));
    t->observer = observer;
    TESS_TRY(tess_os_make_dirs(t->config.job.dump_folder));
    TESS_TRY(open_trace(t));
    TESS_TRY(t->kind->serve(t->task.self, &result->interrupted));
    t->observer = NULL; /* the training ranks report the interruption */
    return result->interrupted ? TESS_OK : tess_trainer_describe_memory(t);
}

tess_status tess_train(tess_runtime *runtime, const tess_task_kind *kind, const tess_config *config,
                       const tess_train_observer *observer, tess_train_result *result)
{
    tess_trainer t;
    tess_status status = tess_trainer_begin(&t, runtime, kind, config, observer);
    memset(result, 0, sizeof(*result));
    tess_runtime_phase(runtime, "setup", -1, -1);
    if (status == TESS_OK)
        status = take_role(&t);
    if (status == TESS_OK)
        status = t.is_aside ? serve(&t, result) : train(&t, result);
    return tess_trainer_end(&t, status);
}
