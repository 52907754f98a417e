/* Building a trainer from a configuration, and the loop around its steps. */
#include "train/trainer_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/mem/named.h"
#include "base/mem/pager.h"
#include "base/os/os.h"
#include "base/text/text.h"
#include "comm/agree.h"
#include "comm/rejoin.h"
#include "comm/seat.h"
#include "device/peak.h"
#include "inject/inject.h"
#include "optim/optim_internal.h"
#include "parallel/fsdp/fsdp_engine.h"
#include "tessera/comm.h"
#include "train/adapter.h"
#include "train/memory_need.h"
#include "train/memory_report.h"
#include "train/model_folder.h"
#include "train/train_stage.h"

static void report_line(void *self, const char *text)
{
    tess_trainer_note(self, "%s", text);
}

/* Ranks of this host that only draw: the job's last ones. */
static int count_drawing(const tess_trainer *t)
{
    const tess_team *all = tess_runtime_team(t->runtime);
    int n = 0;
    for (int rank = t->kind->serve != NULL ? t->world : tess_team_size(all); rank < tess_team_size(all); rank++)
        n += tess_team_host(all, rank) == tess_runtime_host(t->runtime);
    return n;
}

/* Of the first life alone: later ones, and one that goes on from memory, find memory that is already theirs in use. */
tess_status tess_trainer_check_memory(const tess_trainer *t)
{
    tess_status status = TESS_OK;
    if (t->goes_on || t->is_aside || tess_runtime_life(t->runtime) > 1)
        return TESS_OK;
    if (tess_ckpt_hosts_is_first(t->hosts))
        status = tess_memory_check_here(t->mem, &t->model_config, &t->config, tess_team_size(t->hosts->mine),
                                        count_drawing(t));
    return tess_team_agree(t->team, status);
}

/* The first two lines of the mesh: its shape, and which ranks are on which host. */
static void describe_mesh(const tess_trainer *t)
{
    char text[800], *end = text;
    tess_mesh_format(t->engine->mesh, text, sizeof(text));
    for (int line = 0; line < 2 && end != NULL; line++) {
        char *begin = end + strspn(end, "\n ");
        end = strchr(begin, '\n');
        if (end != NULL)
            *end++ = '\0';
        tess_trainer_note(t, "%s", begin);
    }
}

static tess_status describe_stages(const tess_trainer *t, int64_t n_local)
{
    const tess_engine *e = t->engine;
    tess_buffer text = {.mem = t->mem};
    if (e->stage == NULL && t->config.metrics.pipeline_timeline > 0)
        tess_trainer_note(t, "warning: metrics.pipeline_timeline: there is no pipeline to draw; see "
                             "parallelism.pipeline_parallel_degree");
    if (e->stage == NULL || t->rank != 0)
        return TESS_OK;
    TESS_TRY(
        tess_stage_plan_describe(t->mem, e->stage_plan, e->whole, t->config.training.seq_len, (int)n_local, &text));
    tess_trainer_note(t, "%s", text.data);
    tess_buffer_free(&text);
    return TESS_OK;
}

/* Of n, what the last of n_ranks gets: the least. */
static int64_t least_share(int64_t n, int n_ranks)
{
    int64_t begin, least;
    tess_shard_rows(n, n_ranks, n_ranks - 1, &begin, &least);
    return least;
}

/* "2 to 3 of 8" */
static const char *share_text(int64_t n, int n_ranks, char text[48])
{
    long long most = (long long)((n + n_ranks - 1) / n_ranks), least = (long long)least_share(n, n_ranks);
    if (most == least)
        snprintf(text, 48, "%lld of %lld", most, (long long)n);
    else
        snprintf(text, 48, "%lld to %lld of %lld", least, most, (long long)n);
    return text;
}

static void describe_tensor(const tess_trainer *t)
{
    int n_tp = t->engine->at.n_tp, all = n_tp;
    char heads[48], channels[48];
    const tess_model_config *m = &t->model_config;
    if (n_tp == 1)
        return;
    tess_trainer_note(t, "tensor: %d ranks share every layer; each has %s key heads with their queries, %s channels%s",
                      n_tp, share_text(m->n_kv_heads, n_tp, heads), share_text(m->intermediate_size, n_tp, channels),
                      t->config.parallelism.enable_sequence_parallel ? ", and its rows of the stream" : "");
    while (least_share(m->n_kv_heads, all) == 0)
        all--;
    if (all < n_tp)
        tess_trainer_note(t,
                          "warning: parallelism.tensor_parallel_degree=%d leaves ranks without heads, which wait while "
                          "others attend; with %d each would have some",
                          n_tp, all);
}

static void describe_batch(const tess_trainer *t)
{
    const tess_config *c = &t->config;
    tess_trainer_note(t, "batch: %lld rows of %lld tokens a step, in micro-batches of %lld",
                      (long long)c->training.global_batch_size, (long long)c->training.seq_len,
                      (long long)c->training.local_batch_size);
    int64_t n_micro = tess_config_micro_batches(c), n_data = t->engine->at.n_data, last = n_micro % n_data;
    if (last != 0)
        tess_trainer_note(t, "%lld micro-batches over %d ranks: %lld rank%s without one at the end of each step",
                          (long long)n_micro, (int)n_data, (long long)(n_data - last),
                          n_data - last == 1 ? " is" : "s are");
}

static void describe_activations(const tess_trainer *t)
{
    char bytes[32], again[TESS_ACTIVATIONS_TEXT];
    const tess_engine *e = t->engine;
    const tess_executor_options *o = tess_executor_get_options(e->executor);
    if (t->config.activation_checkpoint.mode == TESS_RECOMPUTE_SELECTIVE)
        tess_trainer_note(t, "activations: %s a rank; computed again: %s",
                          tess_format_bytes((double)tess_executor_bytes(e->model, o), bytes, sizeof(bytes)),
                          tess_activations_describe(e->model, o, again));
}

static void describe_trainable(const tess_trainer *t)
{
    char trains[32];
    const tess_lora *lora = &t->model_config.lora;
    int64_t n = tess_model_count_trainable(t->engine->whole), all = tess_model_count(t->engine->whole);
    if (lora->rank > 0)
        tess_trainer_note(t, "adapter: rank %lld, counted %g times", (long long)lora->rank, tess_lora_scale(lora));
    if (n < all)
        tess_trainer_note(t, "%s parameters train (%.2f%%): the others have neither gradients nor moments",
                          tess_format_count((double)n, trains, sizeof(trains)), 100 * (double)n / (double)all);
}

static tess_status describe(const tess_trainer *t)
{
    char params[32];
    const tess_config *c = &t->config;
    const int64_t n_micro = tess_config_micro_batches(c), n_data = t->engine->at.n_data;
    tess_trainer_note(t, "model: %s, %s parameters, %lld layers, vocabulary %lld",
                      tess_family_name(t->model_config.family),
                      tess_format_count((double)tess_model_count(t->engine->whole), params, sizeof(params)),
                      (long long)t->model_config.n_layers, (long long)t->model_config.vocab_size);
    describe_trainable(t);
    describe_activations(t);
    tess_trainer_note(t, "ranks: %d (%s), %d thread%s each, sharding %s, %s, kernels %s, peak %.2f TFLOP/s", t->world,
                      tess_runtime_backend(t->runtime), tess_threads_count(tess_stream_threads(t->engine->stream)),
                      tess_threads_count(tess_stream_threads(t->engine->stream)) > 1 ? "s" : "",
                      tess_strategy_name((tess_strategy)c->parallelism.shard_strategy),
                      tess_dtype_name(tess_precision_dtype(c->training.mixed_precision_param)),
                      tess_stream_kernels(t->engine->stream)->name, t->engine->peak_flops * 1e-12);
    const tess_compute *compute = &t->engine->compute;
    if (compute->apart)
        tess_trainer_note(t, "device %s: kernels %s", tess_device_get_properties(compute->device)->name,
                          tess_stream_kernels(compute->stream)->name);
    if (t->engine->shards_note[0] != '\0')
        tess_trainer_note(t, "%s", t->engine->shards_note);
    if (t->hosts->n > 1)
        describe_mesh(t);
    if (t->hosts->n > 1 && c->comm.reduction == 1)
        tess_trainer_note(t,
                          "comm.reduction=native: MPI adds between hosts in an order of its own; results depend on the "
                          "number of ranks and hosts");
    if (!t->kind->has_own_batches)
        describe_batch(t);
    describe_tensor(t);
    return describe_stages(t, (n_micro + n_data - 1) / n_data);
}

/* Opens the trace. A run that goes on from memory does without if the disk is full: its state is worth more. */
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

/* What ranks need whether they train or not. */
static tess_status open_task(tess_trainer *t)
{
    TESS_TRY(tess_trainer_join_hosts(t));
    if (t->kind->check != NULL)
        TESS_TRY(t->kind->check(&t->config));
    TESS_CHECK(!t->kind->has_own_batches || t->config.data.weights.n == 0, TESS_E_INVALID,
               "data.weights: the prompts of all files are one list: leave the weights out");
    TESS_CHECK(!t->kind->has_own_batches || t->config.validation.patience == 0, TESS_E_INVALID,
               "validation.patience: answers are graded, an evaluation has no loss: leave it out");
    TESS_TRY(tess_trainer_check_hosts(t));
    TESS_TRY(tess_config_load_model(&t->config, &t->model_config));
    TESS_TRY(tess_config_check_trainable(t->mem, &t->config, &t->model_config));
    TESS_TRY(tess_trainer_list_data(t));
    TESS_TRY(tess_trainer_find_persistent(t));
    TESS_TRY(tess_trainer_check_memory(t));
    TESS_TRY(tess_trainer_tokenizer(t));
    TESS_TRY(tess_chat_setup_open(t->mem, t->config.data.chat_template, t->config.model.path, t->tokenizer, &t->chat));
    TESS_TRY(tess_trainer_describe_data(t));
    return t->kind->open(t, &t->task);
}

static tess_status build(tess_trainer *t)
{
    tess_reporter reporter = {report_line, t};
    TESS_TRY(open_task(t));
    TESS_TRY(tess_engine_create_over(t->team, &t->config, &t->model_config, &reporter, &t->engine));
    if (t->kind->ready != NULL)
        TESS_TRY(t->kind->ready(t->task.self, t->engine));
    TESS_TRY(tess_os_make_dirs(t->config.job.dump_folder));
    TESS_TRY(open_trace(t));
    TESS_TRY(tess_trainer_write_tokenizer(t));
    if (!t->goes_on)
        TESS_TRY(describe(t));
    TESS_TRY(tess_trainer_open_saver(t));
    TESS_TRY(t->goes_on ? tess_trainer_go_on(t) : tess_trainer_resume(t));
    if (!t->goes_on)
        TESS_TRY(tess_trainer_begin_book(t));
    t->engine->book = t->book;
    TESS_TRY(tess_engine_rehearse(t->engine, tess_config_micro_batches(&t->config)));
    t->first_step = t->engine->step;
    if (t->rank == 0)
        TESS_TRY(tess_metrics_open(t->mem, &t->config, t->engine->step, &t->metrics));
    if (t->rank == 0)
        TESS_TRY(tess_metrics_open_lines(t->mem, &t->config, "memory.jsonl", t->engine->step, &t->memory));
    if (t->rank == 0)
        tess_launch_resumed(t->runtime, t->engine->step);
    return t->kind->begin != NULL ? t->kind->begin(t->task.self) : TESS_OK;
}

void tess_trainer_begin(tess_trainer *t, tess_runtime *runtime, const tess_task_kind *kind, const tess_config *config,
                        const tess_train_observer *observer)
{
    *t = (tess_trainer){.config = *config,
                        .kind = kind,
                        .observer = observer,
                        .runtime = runtime,
                        .team = tess_runtime_team(runtime),
                        .mem = tess_runtime_mem(runtime),
                        .rank = tess_runtime_rank(runtime),
                        .world = tess_runtime_world(runtime)};
}

tess_status tess_trainer_end(tess_trainer *t, tess_status status)
{
    if (status != TESS_OK)
        tess_runtime_report(t->runtime, tess_error_message());
    tess_metrics_close(&t->metrics);
    tess_metrics_close(&t->memory);
    tess_saver_destroy(&t->saver);
    if (t->task.self != NULL)
        t->kind->close(t->task.self);
    tess_engine_destroy(&t->engine);
    tess_data_files_close(&t->files);
    tess_data_files_close(&t->held_files);
    json_decref(t->data_files);
    json_decref(t->data);
    tess_chat_setup_close(&t->chat);
    tess_tokenizer_destroy(&t->tokenizer);
    if (t->trained_tokenizer.mem != NULL)
        tess_buffer_free(&t->trained_tokenizer);
    tess_logbook_close(t->mem, &t->book);
    tess_ckpt_hosts_destroy(&t->hosts);
    if (t->team != tess_runtime_team(t->runtime))
        tess_team_destroy(&t->team);
    return status;
}

/* Speed since the last log line. */
typedef struct speedometer {
    double since_s;
    int64_t tokens, step;
} speedometer;

static void fill_speed(const tess_trainer *t, speedometer *meter, tess_step_report *report)
{
    double elapsed = tess_os_now_s() - meter->since_s;
    report->tps = elapsed > 0 ? (double)(t->engine->n_tokens - meter->tokens) / elapsed : 0;
    report->tflops = report->tps * tess_model_flops_per_token(t->engine->whole, t->config.training.seq_len) * 1e-12;
    report->mfu = t->engine->peak_flops > 0 ? report->tflops * 1e12 / t->engine->peak_flops : 0;
    report->eta_s =
        elapsed / (double)(t->engine->step - meter->step) * (double)(t->config.training.steps - t->engine->step);
    if (report->log_line)
        *meter = (speedometer){tess_os_now_s(), t->engine->n_tokens, t->engine->step};
}

/* Once a pool. Every rank has a warning in the job's records; rank 0 prints its own. */
static void look_for_leaks(tess_trainer *t)
{
    char text[256];
    if (!tess_memory_watch_step(&t->leaks, t->mem, text, sizeof(text)))
        return;
    if (t->rank == 0)
        tess_trainer_warn(t, "%s", text);
    else
        tess_runtime_warn(t->runtime, text);
}

/* With a line of the log all ranks say what they have, and what they had at most. */
static tess_status fill_memory(tess_trainer *t, tess_step_report *report)
{
    tess_pool_numbers now = {.name = "in_use"};
    int64_t all[TESS_POOL_COUNT + 1] = {0}; /* in use, and the sum of the peaks */
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
    if (report->log_line && t->rank == 0 && tess_metrics_pools(t->memory, t->engine->step, &now, 1) != TESS_OK)
        tess_error_clear(); /* a full disk: metrics say so, and these lines wait as theirs do */
    return TESS_OK;
}

/* One line: bytes of each pool, all ranks of the team together. */
static tess_status describe_pools(const tess_trainer *t, tess_team *team, const char *what,
                                  int64_t peaks[TESS_POOL_COUNT])
{
    char line[512] = "", bytes[32];
    size_t used = 0;
    TESS_TRY(tess_all_reduce(team, peaks, peaks, TESS_POOL_COUNT, TESS_I64, TESS_SUM, NULL));
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        if (peaks[pool] > 0)
            used = tess_text_add(line, sizeof(line), used, "%s%s %s", used > 0 ? ", " : "",
                                 tess_pool_name((tess_pool)pool),
                                 tess_format_bytes((double)peaks[pool], bytes, sizeof(bytes)));
    tess_trainer_note(t, "%s: %s", what, line);
    return TESS_OK;
}

/* One line: what all ranks have moved to and from disk, at what speed, and how long the first waited for it. */
static tess_status describe_transfers(const tess_trainer *t)
{
    char read[32], written[32];
    tess_pager_stats s = tess_pager_get_stats(tess_mem_pager(t->mem));
    int64_t bytes[] = {(int64_t)s.read_bytes, (int64_t)s.written_bytes};
    TESS_TRY(tess_all_reduce(tess_runtime_team(t->runtime), bytes, bytes, 2, TESS_I64, TESS_SUM, NULL));
    tess_trainer_note(
        t,
        "disk: all ranks read %s and wrote %s; rank 0 read for %.1f s, wrote for %.1f s, and waited %.1f s "
        "for it",
        tess_format_bytes((double)bytes[0], read, sizeof(read)),
        tess_format_bytes((double)bytes[1], written, sizeof(written)), (double)s.read_ns * 1e-9,
        (double)s.write_ns * 1e-9, (double)s.waited_ns * 1e-9);
    return TESS_OK;
}

/* Collective over the job. */
static tess_status describe_host_memory(const tess_trainer *t)
{
    int64_t peaks[TESS_POOL_COUNT], on_disk[TESS_POOL_COUNT];
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        peaks[pool] = (int64_t)tess_mem_stats(t->mem, (tess_pool)pool).peak_bytes;
        on_disk[pool] = (int64_t)tess_mem_disk_bytes(t->mem, (tess_pool)pool);
    }
    TESS_TRY(describe_pools(t, tess_runtime_team(t->runtime), "memory of all ranks at the peak", peaks));
    if (!tess_config_offloads(&t->config))
        return TESS_OK;
    TESS_TRY(describe_pools(t, tess_runtime_team(t->runtime), "state of all ranks on disk", on_disk));
    return describe_transfers(t);
}

static tess_status describe_memory(tess_trainer *t)
{
    const tess_compute *compute = &t->engine->compute;
    int64_t peaks[TESS_POOL_COUNT];
    TESS_TRY(describe_host_memory(t));
    if (!t->kind->has_own_batches && !compute->apart)
        TESS_TRY(tess_trainer_compare_memory(t));
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        peaks[pool] = (int64_t)tess_device_mem_stats(compute->device, (tess_pool)pool).peak_bytes;
    return compute->apart ? describe_pools(t, t->team, "memory of all devices at the peak", peaks) : TESS_OK;
}

/* One line: where rank 0 spent the time of all steps. */
static void describe_time(const tess_trainer *t)
{
    char line[512];
    double total = 0;
    size_t used = 0;
    for (int phase = 0; phase < TESS_PHASE_COUNT; phase++)
        total += t->phase_s[phase];
    for (int phase = 0; phase < TESS_PHASE_COUNT && total > 0; phase++)
        used = tess_text_add(line, sizeof(line), used, "%s%s %.1f%%", used > 0 ? ", " : "",
                             tess_phase_name((tess_phase)phase), 100 * t->phase_s[phase] / total);
    if (used > 0)
        tess_trainer_note(t, "time of the steps: %s", line);
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
                                 .skipped = done->skipped,
                                 .n_tokens = t->engine->n_tokens,
                                 .times = done->times};
}

/* A full disk delays lines, and costs none as long as memory holds them; it never costs the run. Reports when that
 * begins and when it ends. */
static void check_metrics(tess_trainer *t, tess_status written)
{
    bool fail = written != TESS_OK;
    tess_metrics_backlog now = tess_metrics_waiting(t->metrics);
    if (fail && !t->metrics_fail) {
        t->metrics_lost = now.n_lost;
        tess_trainer_warn(t, "metrics wait in memory until they can be written, and the run goes on: %s",
                          tess_error_message());
    } else if (!fail && t->metrics_fail) {
        tess_trainer_note(t, "metrics of step %lld and on are written again, after %lld line%s that waited; %lld lost",
                          (long long)t->engine->step, (long long)t->n_waiting, t->n_waiting == 1 ? "" : "s",
                          (long long)(now.n_lost - t->metrics_lost));
    }
    t->metrics_fail = fail;
    t->n_waiting = now.n_lines;
    tess_error_clear();
}

/* At the end of the run. */
static void finish_metrics(tess_trainer *t)
{
    if (!t->metrics_fail)
        return;
    check_metrics(t, tess_metrics_flush(t->metrics));
    tess_metrics_backlog left = tess_metrics_waiting(t->metrics);
    int64_t n = left.n_lines + left.n_lost - t->metrics_lost;
    if (n > 0 && t->metrics_fail)
        tess_trainer_warn(t, "%lld line%s of metrics could not be written and %s lost", (long long)n, n == 1 ? "" : "s",
                          n == 1 ? "is" : "are");
}

static void show_step(tess_trainer *t, const tess_step_report *report)
{
    if (t->observer != NULL && t->observer->step != NULL)
        t->observer->step(t->observer->self, report);
    check_metrics(t, tess_metrics_step(t->metrics, report));
}

static tess_status run_step(tess_trainer *t, speedometer *meter)
{
    tess_engine_report done;
    tess_step_report report;
    tess_batch_source source;
    TESS_TRY(tess_trainer_next_step(t, &source));
    t->engine->has_news = t->saver != NULL && tess_saver_has_news(t->saver);
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

static void show_validation(tess_trainer *t, const tess_validation_report *report)
{
    if (t->rank != 0 || tess_metrics_has_validation(t->metrics, t->engine->step))
        return;
    if (t->observer != NULL && t->observer->validation != NULL)
        t->observer->validation(t->observer->self, report);
    check_metrics(t, tess_metrics_validation(t->metrics, report));
}

static tess_status after_step(tess_trainer *t, bool last, speedometer *meter, tess_train_result *result)
{
    tess_validation_report report = {.step = -1};
    TESS_TRY(t->task.after_step(t->task.self, last, &report));
    meter->since_s += report.seconds; /* not training time */
    if (report.step >= 0 && report.outcome != TESS_VALIDATION_MISSING)
        result->last = report;
    if (report.step >= 0)
        show_validation(t, &report);
    return TESS_OK;
}

/* What came of validation.patience. */
static void describe_best(const tess_trainer *t)
{
    const tess_early_stop *stop = &t->early_stop;
    char folder[TESS_TEXT_SIZE];
    if (t->config.validation.patience == 0 || stop->best_step < 0)
        return;
    if (t->ends_early)
        tess_trainer_note(t,
                          "the run ends at step %lld of %lld: %lld evaluation%s without a better loss "
                          "(validation.patience)",
                          (long long)t->engine->step, (long long)t->config.training.steps, (long long)stop->n_worse,
                          stop->n_worse == 1 ? "" : "s");
    if (tess_trainer_path(t, "best", folder, sizeof(folder)) == TESS_OK)
        tess_trainer_note(t, "best: step %lld, validation loss %.4f: %s", (long long)stop->best_step, stop->best_loss,
                          folder);
}

static const logbook_marks nothing_done = {.done = -1, .committed = -1, .validated = -1, .saved = -1};

/* Does what the task wants after the step, and saves if that is due. `so_far`: what was done already. */
static tess_status follow_up(tess_trainer *t, const logbook_marks *so_far, speedometer *meter,
                             tess_train_result *result)
{
    const tess_config *c = &t->config;
    int64_t step = t->engine->step;
    bool last = step == c->training.steps;
    if (!t->stopping && so_far->validated < step)
        TESS_TRY(after_step(t, last, meter, result));
    tess_logbook_validated(t->book, step);
    last = last || t->ends_early;
    if (c->checkpoint.enable && so_far->saved < step && (last || t->stopping || step % c->checkpoint.interval == 0)) {
        t->stopping = t->stopping || t->leaving;
        TESS_TRY_CTX(tess_trainer_save(t, last || t->stopping), "checkpoint of step %lld", (long long)step);
    }
    tess_logbook_saved(t->book, step);
    return TESS_OK;
}

/* Finishes the newest step of an earlier process: its metrics line, validation and save. A save that was under way may
 * not have completed, so a run that stops now saves once more. */
static tess_status end_persistent_step(tess_trainer *t, speedometer *meter, tess_train_result *result)
{
    tess_step_report report;
    if (!t->goes_on || t->engine->step == 0)
        return TESS_OK;
    fill_report(t, &t->last_step.report, &report);
    if (t->rank == 0 && t->last_step.step == t->engine->step && !tess_metrics_has_step(t->metrics, t->engine->step))
        show_step(t, &report);
    if (t->stopping)
        t->marks.saved = -1;
    return follow_up(t, &t->marks, meter, result);
}

static tess_status run(tess_trainer *t, tess_train_result *result)
{
    const tess_config *c = &t->config;
    speedometer meter = {tess_os_now_s(), t->engine->n_tokens, t->engine->step};
    int64_t stop = tess_runtime_stop_requested(t->runtime); /* ranks see it at different times */
    TESS_TRY(tess_all_reduce(t->team, &stop, &stop, 1, TESS_I64, TESS_MAX, NULL));
    t->stopping = stop != 0 && t->engine->step < c->training.steps;
    TESS_TRY(end_persistent_step(t, &meter, result));
    while (t->engine->step < c->training.steps && !t->stopping && !t->ends_here && !t->ends_early &&
           !tess_inject_stops(t->runtime, t->engine->step + 1)) {
        TESS_TRY(run_step(t, &meter));
        TESS_TRY(follow_up(t, &nothing_done, &meter, result));
    }
    TESS_TRY(tess_engine_kept(t->engine));
    TESS_TRY(tess_trainer_finish_saves(t));
    finish_metrics(t);
    result->steps = t->engine->step;
    result->interrupted = t->stopping && !t->ends_early && t->engine->step < c->training.steps;
    if (t->task.finish != NULL)
        TESS_TRY(t->task.finish(t->task.self, result->interrupted));
    if (result->interrupted || t->ends_here)
        return TESS_OK;
    TESS_TRY(describe_memory(t));
    describe_time(t);
    TESS_TRY_CTX(tess_trainer_export(t, NULL, result->model_folder, sizeof(result->model_folder)), "write the model");
    describe_best(t);
    if (c->sample.prompt[0] != '\0' && t->rank == 0)
        TESS_TRY_CTX(tess_trainer_sample(t, result->model_folder), "sample");
    return tess_barrier(t->team, NULL);
}

/* The job's first ranks train. Each role is a team of its own, and sets itself up alone. Collective over the job. */
static tess_status take_role(tess_trainer *t)
{
    tess_team *all = tess_runtime_team(t->runtime), *team;
    TESS_TRY(tess_config_check_trainers(&t->config, t->world));
    const int n_trainers = tess_config_trainers(&t->config, t->world);
    if (n_trainers == t->world || t->kind->serve == NULL)
        return TESS_OK;
    t->is_aside = t->rank >= n_trainers;
    TESS_TRY(tess_team_split(all, t->is_aside, t->rank, "role", &team));
    t->team = team;
    t->rank = tess_team_rank(team);
    t->world = tess_team_size(team);
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
    t->observer = NULL; /* those that train say the same of their setup */
    TESS_TRY(open_task(t));
    t->observer = observer;
    TESS_TRY(tess_os_make_dirs(t->config.job.dump_folder));
    TESS_TRY(open_trace(t));
    TESS_TRY(t->kind->serve(t->task.self, &result->interrupted));
    t->observer = NULL; /* they say that, too */
    return result->interrupted ? TESS_OK : describe_host_memory(t);
}

tess_status tess_train(tess_runtime *runtime, const tess_task_kind *kind, const tess_config *config,
                       const tess_train_observer *observer, tess_train_result *result)
{
    tess_trainer t;
    tess_trainer_begin(&t, runtime, kind, config, observer);
    memset(result, 0, sizeof(*result));
    tess_runtime_phase(runtime, "setup", -1, -1);
    tess_status status = take_role(&t);
    if (status == TESS_OK)
        status = t.is_aside ? serve(&t, result) : train(&t, result);
    return tess_trainer_end(&t, status);
}
