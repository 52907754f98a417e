#include "control/supervise/train_job.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/variables.h"
#include "base/os/machine.h"
#include "base/os/os.h"
#include "comm/tcp/tcp_busy.h"
#include "control/helper.h"
#include "control/reload/kept_text.h"
#include "control/reload/reload.h"
#include "job/environment.h"
#include "control/supervise/end_page.h"
#include "control/record/error_record.h"
#include "control/supervise/exit.h"
#include "control/supervise/folder_lock.h"
#include "control/supervise/kept.h"
#include "control/supervise/persist_handover.h"
#include "control/supervise/run_copies.h"
#include "control/feed/run_feed.h"
#include "control/supervise/run_health.h"
#include "control/metrics/run_metrics.h"
#include "control/launch/output/run_output.h"
#include "control/supervise/stderr_lines.h"
#include "control/supervise/stop_signals.h"
#include "control/supervise/supervise.h"
#include "control/timers.h"
#include "train/auto_batch.h"

/* Whether this process becomes a rank. Recovery and output that is kept need a process that is the parent of the
 * rank. */
static bool joins(const tess_train_job *job, const tess_config *config)
{
    const bool recovers = config->recovery.enable || config->checkpoint.memory_copies;
    return job->ranks.joins && !(job->counts_ranks && recovers) &&
           !(job->ranks.n == 1 && tess_run_output_is_asked(config));
}

/* Chooses an open training.local_batch_size. Ranks that this process does not start choose by themselves, and then the
 * check does not depend on the number. */
static tess_status settle_micro_batch(const tess_train_job *job, const tess_reporter *reporter, tess_config *checked)
{
    TESS_AUTO(tess_mem_destroy) tess_mem *mem = NULL;
    if (!tess_config_batch_is_open(checked))
        return TESS_OK;
    if (joins(job, checked) || job->ranks.is_warden || job->kind->program != NULL) {
        tess_config_assume_batch(checked);
        return TESS_OK;
    }
    TESS_TRY(tess_mem_create(&mem));
    return tess_train_choose_batch(mem, job->kind, job->ranks.n, reporter, checked);
}

/* Takes the batch from the checkpoint that was just saved. */
static tess_status take_batch(const tess_train_job *job, const tess_reporter *reporter, tess_config *open,
                              tess_config *checked)
{
    tess_mem *mem = NULL;
    TESS_TRY(tess_mem_create(&mem));
    tess_train_take_batch(mem, open);
    tess_mem_destroy(&mem);
    tess_config_free(checked);
    TESS_TRY(tess_config_copy(open, checked));
    TESS_TRY(settle_micro_batch(job, reporter, checked));
    return tess_config_check(checked, job->ranks.n);
}

static tess_config_source source_of(const tess_train_job *job)
{
    return (tess_config_source){job->config, job->kind->defaults, job->overrides, job->n_overrides};
}

/* Reads the configuration. *kept: it is the one before a change at a step that the job has not reached. */
static tess_status load(const tess_train_job *job, bool is_rank, tess_config *config, tess_config_text **text,
                        bool *kept)
{
    TESS_AUTO(tess_mem_destroy) tess_mem *mem = NULL;
    const tess_config_source source = source_of(job);
    const char *copy = is_rank ? tess_variable_value(TESS_VAR_CONFIG) : NULL;
    TESS_TRY(tess_mem_create(&mem));
    TESS_TRY(tess_config_text_read(&source, copy != NULL ? copy : job->config, text));
    if (!is_rank && job->config != NULL) {
        TESS_TRY(tess_kept_text_choose(&source, text, kept));
        TESS_TRY(tess_config_text_share(*text));
    }
    TESS_TRY(tess_config_copy(&(*text)->config, config));
    const bool chooses = tess_config_batch_is_open(config);
    if (!is_rank)
        tess_train_take_batch(mem, config);
    if (chooses && joins(job, config))
        config->training.local_batch_size = 0; /* the rank reads it again, and notes where it is from */
    return TESS_OK;
}

/* The helper processes of the ranks. */
typedef struct train_helpers {
    const tess_config *config;
    bool keeps_steps;          /* memory holds the newest step if the ranks are killed */
    tess_async_service *saves; /* writer of checkpoints; NULL: none */
    tess_run_health health;
    tess_run_metrics metrics;
    tess_ranks ranks;
    tess_run_copies copies;
    tess_run_feed feed;
    bool feeds;             /* this process holds the lock of the run's folder, so `feed` is its own */
    tess_config_text *text; /* the configuration as it was read, until `reload` has it */
    bool kept;              /* `text` is not that of the file: the job has not reached the step of a change */
    tess_reload reload;
    tess_reporter reporter;
} train_helpers;

/* Starts again what was made of the configuration. */
static void begin_again(train_helpers *helpers)
{
    tess_run_health_stop(&helpers->health);
    tess_run_health_start(helpers->config, &helpers->ranks, &helpers->reporter, &helpers->health);
    tess_run_metrics_stop(&helpers->metrics);
    tess_run_metrics_start(helpers->config, &helpers->ranks, &helpers->reporter, &helpers->metrics);
    tess_run_copies_kill(&helpers->copies);
    tess_run_copies_start(helpers->config, &helpers->reporter, &helpers->copies);
    if (helpers->feeds)
        tess_run_feed_change(helpers->config, &helpers->reporter, &helpers->feed);
}

static int64_t change_due(void *self, int64_t step)
{
    train_helpers *helpers = self;
    return tess_reload_due(&helpers->reload, step);
}

/* All ranks have left after the step at which the configuration changes. */
static tess_status change(void *self)
{
    train_helpers *helpers = self;
    TESS_TRY(tess_reload_change(&helpers->reload));
    begin_again(helpers);
    return TESS_OK;
}

/* The ranks do not start with the changed configuration. */
static tess_status change_back(void *self)
{
    train_helpers *helpers = self;
    TESS_TRY(tess_reload_undo(&helpers->reload));
    begin_again(helpers);
    return TESS_OK;
}

static void look_after_helpers(void *self)
{
    train_helpers *helpers = self;
    tess_async_service_look(helpers->saves);
    tess_run_health_look(&helpers->health);
    tess_run_metrics_look(&helpers->metrics);
    if (tess_reload_look(&helpers->reload))
        begin_again(helpers);
}

/* Appends what is kept of the run. A checkpoint that is still being written counts. */
static void describe_kept(void *self, int64_t steps, char *text, size_t size)
{
    train_helpers *helpers = self;
    tess_async_service_stop(&helpers->saves);
    tess_kept_describe(helpers->config, helpers->keeps_steps ? -1 : steps, text, size);
}

/* Takes over a planned change whose step an earlier launch has saved, before ranks start. */
static void take_reached(train_helpers *helpers)
{
    const tess_reload *reload = &helpers->reload;
    if (reload->due == NULL || tess_kept_text_begin(helpers->config) < reload->due_step)
        return;
    const long long step = (long long)reload->due_step;
    if (change(helpers) == TESS_OK)
        tess_report_line(&helpers->reporter,
                         "job.reload: step %lld was saved before: the job goes on with the changed configuration",
                         step);
    else
        tess_report_line(&helpers->reporter, "job.reload: nothing is changed: %s", tess_error_message());
    tess_error_clear();
}

/* Starts the ranks, after saving the state that an earlier launch left in memory. `open` is the configuration as
 * given; it gets the batch of the run from `checked`, and the ranks a micro-batch that was chosen. */
static int supervise(const tess_train_job *job, tess_config *open, tess_config *checked, const tess_ranks *ranks,
                     const tess_launch_options *options)
{
    const tess_persist_heir heir = {checked, ranks->n, job->command, options};
    const bool chooses = tess_config_batch_is_open(open);
    tess_own_command command = *job->command;
    char rows[64];
    bool saved = false;
    tess_stop_signals_hear();
    int code = tess_persist_inherit(&heir, &saved);
    if (code != TESS_EXIT_OK)
        return code;
    tess_status status = saved ? take_batch(job, &options->reporter, open, checked) : TESS_OK;
    if (status != TESS_OK)
        return tess_exit_report(&options->reporter, status);
    take_reached(options->helpers);
    /* the global batch stays the same with fewer ranks, too */
    open->training.global_batch_size = checked->training.global_batch_size;
    open->training.local_batch_size = checked->training.local_batch_size;
    snprintf(rows, sizeof(rows), "training.local_batch_size=%lld", (long long)open->training.local_batch_size);
    if (chooses)
        tess_own_command_add(&command, rows);
    return tess_supervise(open, ranks, &command, options);
}

/* Begins to look at the configuration's file. */
static void begin_reload(const tess_train_job *job, tess_config *config, train_helpers *helpers)
{
    const tess_config_source source = source_of(job);
    tess_reload *reload = &helpers->reload;
    tess_reload_begin(reload, &source, helpers->text, config, &helpers->reporter);
    helpers->text = NULL;
    reload->n_ranks = helpers->ranks.n;
    reload->check = job->kind->check;
    if (tess_reload_look(reload))
        begin_again(helpers);
    take_reached(helpers);
}

/* Runs the job while the folder is locked. The writer of checkpoints was started before that. It outlives a killed
 * job, so it must not inherit the lock. */
static int run_locked(const tess_train_job *job, tess_config *config, tess_config *checked,
                      const tess_launch_options *options, train_helpers *helpers)
{
    tess_ranks ranks = job->ranks;
    ranks.joins = joins(job, config);
    helpers->ranks = ranks;
    if (helpers->kept && (ranks.joins || ranks.is_warden))
        return tess_exit_report(
            &options->reporter,
            TESS_FAIL(TESS_E_INVALID,
                      "job.reload_step: the values of %s count after a step that the job has not reached, and only the "
                      "launcher of `tessera train -n` takes them over there: start it with -n, or set "
                      "job.reload_step=0 to let them count at once",
                      job->config));
    if (!config->job.reload)
        tess_kept_text_remove(config);
    if (!helpers->kept && (!ranks.joins || ranks.n == 1) && config->job.reload_step > tess_kept_text_begin(config))
        tess_report_line(&options->reporter,
                         "job.reload: the given values count at once: the job has not noted a change after step %lld",
                         (long long)config->job.reload_step);
    tess_run_health_start(config, &ranks, &options->reporter, &helpers->health);
    tess_run_metrics_start(config, &ranks, &options->reporter, &helpers->metrics);
    if (!ranks.joins && !ranks.is_warden)
        begin_reload(job, config, helpers);
    int code = ranks.joins       ? tess_train_rank(job->kind, config, &job->view)
               : ranks.is_warden ? tess_ranks_start_self(&ranks, job->command, options)
                                 : supervise(job, config, checked, &ranks, options);
    tess_run_health_stop(&helpers->health);
    tess_run_metrics_stop(&helpers->metrics);
    tess_reload_end(&helpers->reload);
    return code;
}

/* Checks a copy of the configuration. The ranks check again; this check avoids starting them for nothing. */
static tess_status check(const tess_train_job *job, const tess_reporter *reporter, tess_config *config,
                         tess_config *checked)
{
    TESS_TRY(tess_config_copy(config, checked));
    TESS_CHECK(!job->ranks.is_warden || config->job.reload_step == 0, TESS_E_INVALID,
               "job.reload_step=%lld: only the launcher of `tessera train -n` takes over a change at a step: leave "
               "job.reload_step out",
               (long long)config->job.reload_step);
    TESS_TRY(settle_micro_batch(job, reporter, checked));
    if (!job->ranks.is_warden)
        TESS_TRY(tess_config_check(checked, job->ranks.n));
    if (job->kind->check != NULL)
        TESS_TRY(job->kind->check(checked));
    TESS_TRY(tess_run_copies_check(checked));
    TESS_TRY(tess_run_metrics_check(checked));
    config->recovery.hot &= checked->recovery.hot; /* a task may have state that a replacement would lack */
    return TESS_OK;
}

/* Starts a process that asks the ranks of other hosts for patience while this host verifies checkpoints, if they meet
 * over TCP. Returns its pid; 0: none. */
static int ask_for_patience(const tess_config *config)
{
    tess_environment e;
    tess_helper helper;
    bool meets = tess_environment_read(&e) == TESS_OK && e.starter == TESS_STARTER_TORCHRUN && e.uses_wire &&
                 e.rank == 0 && e.master_port > 0;
    pid_t pid = meets ? tess_helper_fork("tessera-busy", &helper) : -1;
    tess_error_clear();
    if (pid == 0)
        _exit(tess_tcp_answer_busy(config->comm.tls, "it verifies checkpoints") == TESS_OK ? 0 : 1);
    return pid > 0 ? pid : 0;
}

/* Brings the newest good checkpoint home, and starts to make copies. */
static tess_status begin_copies(const tess_train_job *job, tess_config *config, tess_config *checked,
                                const tess_reporter *reporter, tess_run_copies *copies)
{
    bool brought;
    int busy = ask_for_patience(config);
    tess_status status = tess_run_copies_bring(config, reporter, &brought);
    if (busy > 0 && kill(busy, SIGKILL) == 0)
        waitpid(busy, NULL, 0); /* rank 0 listens at that port next */
    TESS_TRY(status);
    if (brought && !job->ranks.is_warden)
        TESS_TRY(take_batch(job, reporter, config, checked));
    tess_run_copies_start(config, reporter, copies);
    return TESS_OK;
}

/* Runs the process that starts the ranks, or that becomes the only rank. */
static int run_parent(const tess_train_job *job, tess_config *config, tess_config_text **text, bool kept,
                      tess_launch_options *options)
{
    tess_config checked;
    const double begun_s = (double)tess_os_wall_ns() * 1e-9;
    tess_status status = check(job, &options->reporter, config, &checked);
    train_helpers helpers = {.config = config,
                             .text = *text,
                             .kept = kept,
                             .reporter = options->reporter,
                             .keeps_steps = config->checkpoint.memory_copies && !job->ranks.is_warden};
    options->look = look_after_helpers;
    options->kept = describe_kept;
    options->change_due = change_due;
    options->change = change;
    options->change_back = change_back;
    options->helpers = &helpers;
    tess_folder_lock folder = {.fd = -1};
    if (status == TESS_OK && config->checkpoint.enable && config->checkpoint.async)
        status = tess_ranks_start_saves(&helpers.saves);
    if (status == TESS_OK)
        status = tess_folder_lock_take(config, &options->reporter, &folder);
    const bool locked = status == TESS_OK;
    if (locked)
        tess_error_record_begin_host(config->job.dump_folder);
    if (locked && folder.is_first)
        status = tess_run_feed_check(config);
    if (locked && folder.is_first && status == TESS_OK)
        status = begin_copies(job, config, &checked, &options->reporter, &helpers.copies);
    helpers.feeds = locked && folder.is_first && status == TESS_OK;
    if (helpers.feeds)
        tess_run_feed_start(config, &options->reporter, &helpers.feed);
    int code = status == TESS_OK ? run_locked(job, config, &checked, options, &helpers)
                                 : tess_exit_report(&options->reporter, status);
    if (helpers.feeds)
        tess_run_feed_stop(&helpers.feed, code);
    tess_async_service_stop(&helpers.saves);
    tess_run_copies_stop(&helpers.copies);
    *text = helpers.text;
    if (locked && folder.is_first)
        tess_end_page_write(config, job->kind, begun_s, code, &options->reporter);
    if (locked)
        tess_folder_lock_release(config, &folder);
    tess_config_free(&checked);
    return code;
}

static int run(const tess_train_job *job, tess_config *config, tess_config_text **text, bool kept)
{
    tess_timers timers;
    /* this names the running program even if its file was replaced by another version */
    tess_launch_options options = {.program = "/proc/self/exe",
                                   .grace_s = TESS_LAUNCH_GRACE_S,
                                   .soft_timeout_s = config->comm.soft_timeout_s,
                                   .timeout_s = config->comm.timeout_s,
                                   .waits_on = tess_train_waits_on(config),
                                   .usr1_stops = true,
                                   .heeds_stop = true,
                                   .stop_grace_s = config->checkpoint.emergency_grace_s,
                                   .record_folder = config->job.dump_folder,
                                   .reporter = tess_stderr_lines};
    tess_run_output output = {0};
    options.output = &output.plan;
    tess_timers_make(config, options.grace_s, &timers);
    tess_status status = tess_timers_check(&timers);
    if (status == TESS_OK && !tess_launch_is_rank())
        status = tess_run_output_plan(config, job->ranks.joins && job->ranks.n > 1, &output);
    if (status != TESS_OK)
        return tess_exit_fail_once(status);
    return tess_launch_is_rank() ? tess_train_rank(job->kind, config, &job->view)
                                 : run_parent(job, config, text, kept, &options);
}

int tess_train_job_run(const tess_train_job *job)
{
    tess_config config = {0};
    tess_config_text *text = NULL;
    bool kept = false;
    signal(SIGPIPE, SIG_IGN); /* a closed standard output must not end a run (console.h) */
    tess_status status = load(job, tess_launch_is_rank(), &config, &text, &kept);
    int code = status == TESS_OK ? run(job, &config, &text, kept) : tess_exit_fail_once(status);
    tess_config_text_free(&text);
    tess_config_free(&config);
    return code;
}
