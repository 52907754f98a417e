#include "control/supervise/supervise.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/variables.h"
#include "base/os/disk_files.h"
#include "base/os/os.h"
#include "control/supervise/console.h"
#include "control/record/error_record.h"
#include "control/supervise/exit.h"
#include "control/supervise/run_health.h"
#include "control/supervise/persist_handover.h"
#include "control/supervise/run_memory.h"
#include "control/supervise/stop_signals.h"
#include "job/job_memory.h"
#include "nn/model.h"
#include "control/recover/policy.h"

typedef struct supervision {
    const tess_config *config;
    tess_ranks ranks;
    tess_recover recover;
    tess_recovery next; /* newest decision */
    tess_reporter reporter;
    bool stopped;                 /* the job was asked to stop between two lives */
    bool growing;                 /* the ranks were asked to leave, because more ranks can run */
    bool changing;                /* the ranks were asked to leave after a step, for another configuration */
    bool resized;                 /* the number of ranks has changed since the job began */
    bool stepped;                 /* a life has done a step, so the checkpoints belong to this job */
    int64_t steps_done;           /* newest step that an earlier life has done; -1: none is known */
    int n_lives;                  /* number of lives of the job so far */
    int n_omitted;                /* number of evaluations left out so far; the newest are in `omitted` */
    int64_t omitted[JOB_OMITTED]; /* steps whose evaluation ended ranks, and is left out now */
    tess_launch_options options;
    tess_supervise_starter starter; /* all members zero: ranks are started by tess_ranks_start */
    tess_run_memory memory;
    tess_run_alerts alerts;
    tess_notices notices; /* notices of all lives */
    tess_rank_past *past; /* (n_past) past of the ranks, for all places */
    int n_past;
    char reported[2304]; /* report of the newest failure */
    char summary[16384]; /* report of all failures */
} supervision;

/* ---- Questions that the policy asks ---- */

/* Whether the configuration can run on n_ranks ranks with the run's global batch: the number of ranks must not
 * change the result. */
static bool admits(const void *self, int n_ranks)
{
    const supervision *s = self;
    tess_config trial;
    bool fits = tess_config_copy(s->config, &trial) == TESS_OK && tess_config_check_step(&trial, n_ranks) == TESS_OK;
    tess_config_free(&trial);
    tess_error_clear();
    return fits;
}

/* Sends an alert, without waiting for the alert's program. */
static void alert(supervision *s, const tess_failure *failure)
{
    static const char *const states[] = {
        [TESS_ACTION_STOP] = "stopped", [TESS_ACTION_RESPAWN] = "replaced", [TESS_ACTION_RESTART] = "restarted"};
    char text[1600];
    snprintf(text, sizeof(text), "%.800s; %s", failure->text, s->next.what);
    if (tess_run_alerts_open(s->config, &s->alerts) != TESS_OK) /* job.reload may have changed it */
        tess_error_clear();
    tess_alert_send_aside(&s->alerts.channel,
                          &(tess_alert){.event = "recovery", .state = states[s->next.action], .text = text});
}

static const char *offload_folder(const supervision *s)
{
    return s->config->offload.folder[0] != '\0' ? s->config->offload.folder : s->config->job.dump_folder;
}

/* Returns the data that the ladder may move to disk. State in memory that outlives ranks reaches the disk only
 * through a checkpoint. */
static unsigned may_offload(const supervision *s)
{
    const tess_config *c = s->config;
    bool on_host = c->job.device == TESS_DEVICE_CPU ||
                   (c->job.device == TESS_DEVICE_AUTO && tess_variable_value(TESS_VAR_DEVICE) == NULL);
    bool keeps_state = c->checkpoint.enable && !c->checkpoint.memory_copies && c->job.shards != TESS_SHARDS_DEVICE;
    unsigned what = on_host && !c->offload.activations ? TESS_LADDER_ACTIVATIONS : 0;
    if (keeps_state && !c->offload.optimizer)
        what |= TESS_LADDER_OPTIMIZER;
    if (keeps_state && !(c->offload.params && c->offload.grads))
        what |= TESS_LADDER_PARAMS;
    bool usable = tess_os_check_disk(offload_folder(s), "offload.folder") == TESS_OK;
    tess_error_clear();
    return usable ? what : 0;
}

/* Builds the configuration of the next life. The caller frees it. */
static tess_status configure_next(const supervision *s, tess_config *next)
{
    const tess_ladder *ladder = &s->recover.ladder;
    TESS_TRY(tess_config_copy(s->config, next));
    next->training.local_batch_size = ladder->local_batch;
    next->checkpoint.resume = next->checkpoint.resume || s->stepped;
    snprintf(next->offload.folder, sizeof(next->offload.folder), "%s", offload_folder(s));
    next->offload.optimizer |= (ladder->offloaded & TESS_LADDER_OPTIMIZER) != 0;
    next->offload.params |= (ladder->offloaded & TESS_LADDER_PARAMS) != 0;
    next->offload.grads |= (ladder->offloaded & TESS_LADDER_PARAMS) != 0;
    return TESS_OK;
}

/* Sets the limits of recovery as they are now: job.reload may have changed them. */
static void take_limits(const tess_config *config, tess_recover_settings *settings)
{
    settings->rolls_back = config->recovery.on_nan == TESS_NAN_ROLLBACK;
    settings->max_failures = (int)config->recovery.max_failures;
    settings->window_s = config->recovery.window_s;
    settings->backoff_s = config->recovery.backoff_s;
    settings->backoff_max_s = config->recovery.backoff_max_s;
    settings->retry_s = config->elastic.retry_s;
}

/* Called by the launcher to decide about a failure. The launcher reports a replaced rank once all ranks have joined.
 * A rank that refuses reports that itself. */
static void decide(void *self, const tess_failure *failure, tess_launch_decision *decision)
{
    supervision *s = self;
    s->stepped = s->stepped || failure->steps_done > 0;
    s->steps_done = failure->steps_done > s->steps_done ? failure->steps_done : s->steps_done;
    s->recover.ladder.may_offload = may_offload(s);
    if (s->recover.ladder.same_bits) /* ranks of several hosts choose it after the job has begun */
        s->recover.ladder.local_batch = s->config->training.local_batch_size;
    take_limits(s->config, &s->recover.settings);
    tess_recover_decide(&s->recover, failure, tess_os_now_s(), &s->next);
    if (s->next.omits)
        s->omitted[s->n_omitted++ % JOB_OMITTED] = failure->step;
    if (s->next.class != TESS_FAILURE_REFUSED)
        alert(s, failure);
    decision->action = s->next.action;
    decision->reported = s->next.action != TESS_ACTION_RESPAWN && s->next.class != TESS_FAILURE_REFUSED;
    if (!decision->reported)
        return;
    bool by_rank = s->next.class == TESS_FAILURE_NUMBERS ||
                   s->next.class == TESS_FAILURE_DISK_FULL; /* rank 0 has already printed the failure */
    snprintf(s->reported, sizeof(s->reported), "%s; %s", failure->text, s->next.what);
    decision->line = s->reported;
    tess_report_line(&s->reporter, "%s", by_rank ? s->next.what : s->reported);
}

/* Whether more ranks can run than are running. A lost host counts again once it answers. */
static bool has_room(supervision *s)
{
    tess_recover *r = &s->recover;
    double now_s = tess_os_now_s();
    if (!s->config->recovery.enable || s->growing || !s->config->checkpoint.enable || !s->config->checkpoint.resume)
        return false;
    int group = s->starter.answers != NULL ? tess_slots_to_ask(&r->slots, r->settings.retry_s, now_s) : -1;
    int answer = group >= 0 ? s->starter.answers(s->starter.self, group) : 0;
    if (answer != 0)
        tess_slots_asked(&r->slots, group, answer > 0, now_s);
    return tess_slots_possible(&r->slots, &r->worlds, r->settings.retry_s, now_s) > r->slots.n_ranks;
}

/* Asks the ranks to leave after the step at which the configuration changes. */
static void ask_for_change(supervision *s, const tess_job *job)
{
    int64_t newest = -1;
    uint32_t before = JOB_STOP_NO;
    for (int r = 0; r < (int)job->header->world; r++) {
        int64_t step = atomic_load(&job->rows[r].step);
        newest = step > newest ? step : newest;
    }
    int64_t due = s->options.change_due != NULL ? s->options.change_due(s->options.helpers, newest) : 0;
    if (due > 0) {
        atomic_store(&job->header->stop_step, due);
        s->changing |= atomic_compare_exchange_strong(&job->header->stop, &before, JOB_STOP_AT_STEP);
    } else if (s->changing) {
        before = JOB_STOP_AT_STEP;
        s->changing = !atomic_compare_exchange_strong(&job->header->stop, &before, JOB_STOP_NO);
    }
}

/* Called regularly by the launcher. If more ranks can run, asks the present ones to leave after their next save. */
static void tick(void *self, const tess_job *job, TESS_UNUSED const pid_t *pids)
{
    supervision *s = self;
    uint32_t no = JOB_STOP_NO;
    tess_console_keep(stderr, s->config->job.dump_folder, &s->reporter);
    tess_stop_signals_pass_on();
    ask_for_change(s, job);
    if (has_room(s))
        s->growing = atomic_compare_exchange_strong(&job->header->stop, &no, JOB_STOP_AFTER_SAVE);
}

bool tess_supervise_has_room(void *self)
{
    supervision *s = self;
    tess_stop_signals_pass_on();
    if (!has_room(s))
        return false;
    s->growing = true;
    return true;
}

static void begin(const tess_config *config, const tess_slots *slots, const tess_launch_options *options,
                  supervision *s)
{
    static const tess_ladder_recompute rungs[] = {[TESS_RECOMPUTE_NONE] = TESS_LADDER_NONE,
                                                  [TESS_RECOMPUTE_SELECTIVE] = TESS_LADDER_SELECTIVE,
                                                  [TESS_RECOMPUTE_EVERY_N] = TESS_LADDER_EVERY_N,
                                                  [TESS_RECOMPUTE_FULL] = TESS_LADDER_FULL};
    bool here = s->starter.start == NULL;
    tess_recover_settings settings = {.respawns = config->recovery.hot && here,
                                      .remembers = (config->recovery.hot || config->checkpoint.memory_copies) && here,
                                      .seed = tess_os_now_ns()};
    take_limits(config, &settings);
    s->config = config;
    s->steps_done = -1;
    s->options = *options;
    s->reporter = options->reporter;
    if (tess_run_alerts_open(config, &s->alerts) != TESS_OK)
        tess_error_clear(); /* the path is too long; the ranks will refuse it */
    s->options.self = s;
    s->options.omitted = s->omitted;
    s->options.notices = &s->notices;
    s->options.past = s->past;
    s->options.n_past = s->n_past;
    s->options.tick = tick;
    if (config->recovery.enable)
        s->options.decide = decide;
    tess_recover_begin(&s->recover, &settings, &(tess_worlds){admits, s});
    s->recover.slots = *slots;
    tess_ladder_begin(&s->recover.ladder, rungs[config->activation_checkpoint.mode],
                      config->activation_checkpoint.every_n, config->training.local_batch_size,
                      config->training.global_batch_size);
    s->recover.ladder.least_batch = config->training.passes; /* each rank needs one row or more */
}

/* ---- Lives ---- */

/* Settings that have changed. They are appended to the words of the command. */
typedef struct changes {
    char rungs[TESS_LADDER_OVERRIDES][TESS_LADDER_TEXT], global[TESS_LADDER_TEXT], folder[TESS_TEXT_SIZE + 16];
} changes;

static void add_changes(const supervision *s, changes *c, tess_own_command *words)
{
    int n = tess_ladder_overrides(&s->recover.ladder, c->rungs);
    for (int i = 0; i < n; i++)
        tess_own_command_add(words, c->rungs[i]);
    if (s->recover.ladder.offloaded != 0) {
        snprintf(c->folder, sizeof(c->folder), "offload.folder=%s", offload_folder(s));
        tess_own_command_add(words, c->folder);
    }
    if (s->resized) {
        snprintf(c->global, sizeof(c->global), "training.global_batch_size=%lld",
                 (long long)s->config->training.global_batch_size);
        tess_own_command_add(words, c->global);
    }
    if (s->stepped) /* also if checkpoint.resume=false, which applied to the first life only */
        tess_own_command_add(words, "checkpoint.resume=true");
}

/* Removes the previous life's memory if the next life cannot use it. */
static tess_status hand_over_memory(supervision *s, const tess_own_command *words)
{
    TESS_AUTO(tess_config_free) tess_config next = {0};
    bool usable = false;
    if (s->memory.mem == NULL)
        return TESS_OK;
    const tess_persist_heir heir = {&next, s->ranks.n, words, &s->options};
    TESS_TRY(configure_next(s, &next));
    TESS_TRY(tess_config_check_step(&next, s->ranks.n));
    TESS_TRY(tess_persist_hand_on(&heir, &s->memory.persist, &usable));
    if (!usable)
        tess_run_memory_end(&s->memory, true, &s->reporter);
    return TESS_OK;
}

static tess_status begin_memory(supervision *s)
{
    TESS_AUTO(tess_config_free) tess_config next = {0};
    TESS_TRY(configure_next(s, &next));
    return tess_run_memory_begin(&next, s->ranks.n, &s->options, &s->memory);
}

/* Whether the memory holds a step. Ranks that were killed before their first step have left none. */
static bool has_step(const supervision *s)
{
    return s->memory.mem != NULL && tess_persist_step(s->config, &s->memory.persist) > 0;
}

static tess_status run_life(supervision *s, const tess_own_command *command, tess_launch_result *result)
{
    changes changed;
    tess_own_command words = *command;
    add_changes(s, &changed, &words);
    s->growing = s->changing = false;
    s->options.n_before = s->n_lives;
    if (s->starter.start == NULL) {
        TESS_TRY(hand_over_memory(s, &words));
        TESS_TRY(begin_memory(s));
    }
    tess_status status = s->starter.start != NULL
                             ? s->starter.start(s->starter.self, &s->recover.slots, words.word, &s->options, result)
                             : tess_ranks_start(&s->ranks, words.word, &s->options, result);
    s->n_lives += 1 + result->n_recovered;
    bool saved = result->exit_code == TESS_EXIT_INTERRUPTED && result->left && s->config->checkpoint.enable;
    bool restarts = status == TESS_OK && result->action == TESS_ACTION_RESTART;
    bool ended = status == TESS_OK && (result->exit_code == TESS_EXIT_OK || saved), over = ended || restarts;
    if (ended && s->memory.folder[0] != '\0' && s->config->checkpoint.enable) {
        status = tess_persist_read_back(s->config, &s->memory.persist);
        over = status == TESS_OK;
    }
    if (!restarts || !s->next.from_memory) /* no life could continue from the memory */
        tess_run_memory_end(&s->memory, over || !has_step(s), &s->reporter);
    return status;
}

/* Reports what happens between two lives, and adds it to the notices of the next life. */
static void note(supervision *s, tess_notice_kind kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void note(supervision *s, tess_notice_kind kind, const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    tess_notices_add(&s->notices, kind, -1, -1, line);
    tess_report_line(&s->reporter, "%s", line);
}

/* Reports with which configuration the ranks go on after the step at which it was to change. */
static void note_change(supervision *s, tess_status changed)
{
    if (changed == TESS_OK)
        note(s, TESS_NOTICE_RESTARTED, "all ranks go on from this checkpoint with the changed configuration");
    else
        note(s, TESS_NOTICE_RESTARTED, "all ranks go on from this checkpoint with the same configuration as before: %s",
             tess_error_message());
    tess_error_clear();
}

/* Restores the configuration before a change, if no rank has begun a step since: the change is the reason why the job
 * does not start. `reason`: what failed; "": that was reported. Returns whether there was such a change. */
static bool goes_back(supervision *s, const char *reason)
{
    if (s->options.change_back == NULL || s->options.change_back(s->options.helpers) != TESS_OK) {
        tess_error_clear();
        return false;
    }
    if (reason[0] != '\0')
        tess_report_line(&s->reporter, "%s", reason);
    note(s, TESS_NOTICE_RESTARTED,
         "the job does not start with the changed configuration (job.reload_step): all ranks go on from this "
         "checkpoint with the one before");
    return true;
}

/* Whether the job starts again after its ranks have ended with bad input. */
static bool refused(supervision *s, const tess_launch_result *result)
{
    const bool by_rank0 = result->rank0_code == TESS_EXIT_BAD_INPUT; /* it has said why */
    const bool numbers = s->config->recovery.enable && s->next.class == TESS_FAILURE_NUMBERS;
    return result->exit_code == TESS_EXIT_BAD_INPUT && !numbers && goes_back(s, by_rank0 ? "" : result->report);
}

/* The same for a job whose ranks could not be started. */
static bool starts_without(supervision *s, tess_status *status)
{
    char reason[1024];
    snprintf(reason, sizeof(reason), "%s", tess_error_message());
    if (goes_back(s, reason)) {
        *status = TESS_OK;
        return true;
    }
    *status = TESS_FAIL(*status, "%s", reason);
    return false;
}

/* Whether the job starts again. If so, sets s->ranks. */
static bool starts_again(supervision *s, const tess_launch_result *result)
{
    tess_slots *slots = &s->recover.slots;
    int before = s->ranks.n;
    if (result->asked_to_stop)
        return false;
    if (s->growing && result->exit_code == TESS_EXIT_INTERRUPTED && result->failed_rank < 0) {
        tess_slots_return(slots, &s->recover.worlds, s->recover.settings.retry_s, tess_os_now_s());
        note(s, TESS_NOTICE_RESTARTED, "there is room for more ranks: %d instead of %d go on from this checkpoint",
             slots->n_ranks, before);
    } else if (s->changing && result->exit_code == TESS_EXIT_INTERRUPTED && result->failed_rank < 0) {
        s->stepped = true;
        note_change(s, s->options.change(s->options.helpers));
    } else if (result->action == TESS_ACTION_RESTART) {
        int number = tess_stop_signals_pause(s->next.delay_s);
        s->stopped = number != 0;
        if (s->stopped)
            note(s, TESS_NOTICE_STOP, "asked to stop (SIG%s): the job does not start again; what was saved stands",
                 sigabbrev_np(number));
    } else if (!refused(s, result)) {
        return false;
    }
    s->ranks.n = slots->n_ranks;
    s->resized = s->resized || s->ranks.n != before;
    return !s->stopped;
}

/* Warns at the start if elastic.min_ranks asks for something impossible. */
static void tell_of_places(const supervision *s)
{
    const tess_slots *slots = &s->recover.slots;
    const int min = (int)s->config->elastic.min_ranks;
    if (min == 0 || slots->n_ranks <= 1 || !admits(s, slots->n_ranks))
        return;
    if (!s->config->recovery.enable) {
        tess_report_line(&s->reporter, "warning: elastic.min_ranks=%d leaves no rank out: set recovery.enable=true",
                         min);
        return;
    }
    if (tess_slots_after_loss(slots, &s->recover.worlds, min) > 0)
        return;
    const int most = tess_slots_after_loss(slots, &s->recover.worlds, 1);
    if (most > 0)
        tess_report_line(&s->reporter,
                         "warning: elastic.min_ranks=%d leaves no place out: after the loss of one of %d places at "
                         "most %d rank%s can go on: set elastic.min_ranks=%d, or start more ranks",
                         min, slots->n_groups, most, most == 1 ? "" : "s", most);
    else
        tess_report_line(&s->reporter,
                         "warning: elastic.min_ranks=%d leaves no place out: this layout runs on no fewer than %d "
                         "ranks: start more ranks, or set elastic.min_ranks=0",
                         min, slots->n_ranks);
}

/* Keeps the steps that were done. A life that ends before its first step has those of the lives before. */
static void note_steps(supervision *s, tess_launch_result *result)
{
    if (!result->has_record)
        return;
    if (result->record.steps_done > s->steps_done)
        s->steps_done = result->record.steps_done;
    result->record.steps_done = s->steps_done;
}

/* Leaves a record of an end that is not a success. Over several hosts, a warden may have written a better one. */
static void record_end(const supervision *s, tess_status status, const tess_launch_result *result)
{
    const bool over_hosts = s->starter.start != NULL;
    const bool well = status == TESS_OK && !s->stopped && result->exit_code == TESS_EXIT_OK;
    if (well)
        tess_error_record_begin(s->options.record_folder);
    else if (status != TESS_OK)
        tess_error_record_plain(&s->options, tess_exit_code(status), false, tess_error_message(), s->steps_done,
                                over_hosts);
    else if (s->stopped)
        tess_error_record_plain(&s->options, TESS_EXIT_INTERRUPTED, true,
                                "asked to stop before the job started again; what was saved stands", s->steps_done,
                                over_hosts);
    else if (!result->has_record)
        tess_error_record_plain(&s->options, result->exit_code, result->asked_to_stop, result->report, s->steps_done,
                                over_hosts);
    else
        tess_error_record_end(&s->options, result, over_hosts);
}

static int run(supervision *s, const tess_config *config, const tess_slots *slots, const tess_own_command *command,
               const tess_launch_options *options)
{
    tess_launch_result result;
    tess_status status;
    begin(config, slots, options, s);
    tell_of_places(s);
    tess_stop_signals_hear();
    do {
        status = run_life(s, command, &result);
        if (status == TESS_OK)
            note_steps(s, &result);
    } while (status == TESS_OK ? starts_again(s, &result) : starts_without(s, &status));
    tess_run_memory_end(&s->memory, false, &s->reporter);
    /* Signals stay heard and have no effect: what follows is the end of the process. A closed terminal sends several
     * SIGHUP, and one of them would replace the exit code of the run. */
    record_end(s, status, &result);
    if (status != TESS_OK)
        return tess_exit_report(&s->reporter, status);
    if (s->stopped)
        return TESS_EXIT_INTERRUPTED;
    int code = tess_ranks_report_end(&s->ranks, &result, &s->reporter);
    if (code != TESS_EXIT_OK && code != TESS_EXIT_INTERRUPTED &&
        tess_recover_report(&s->recover, tess_os_now_s(), s->summary, sizeof(s->summary))[0] != '\0')
        tess_report_line(&s->reporter, "%s", s->summary);
    return code;
}

/* Runs all lives of a job, from its begin to its end. */
static int supervise(const tess_supervise_starter *starter, const tess_ranks *ranks, const tess_slots *slots,
                     const tess_config *config, const tess_own_command *command, const tess_launch_options *options)
{
    tess_mem *mem = NULL;
    supervision *s = NULL;
    void *past = NULL;
    int code;
    tess_status status = tess_mem_create(&mem);
    if (status == TESS_OK)
        status = TESS_NEW(mem, 1, "the supervision of a job", &s);
    if (status == TESS_OK)
        status = tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)slots->n, sizeof(tess_rank_past),
                                      "the past of the ranks", &past);
    if (status == TESS_OK) {
        s->past = past;
        s->n_past = slots->n;
        s->starter = *starter;
        s->ranks = *ranks;
        code = run(s, config, slots, command, options);
    } else {
        code = tess_exit_report(&options->reporter, status);
    }
    tess_mem_free(mem, past);
    tess_mem_free(mem, s);
    tess_mem_destroy(&mem);
    return code;
}

static tess_status check_places(const tess_config *config, int n)
{
    int min = (int)config->elastic.min_ranks, max = (int)config->elastic.max_ranks;
    TESS_CHECK(min <= n, TESS_E_INVALID, "elastic.min_ranks: %d are more than the %d that start (-n)", min, n);
    TESS_CHECK(max == 0 || max >= n, TESS_E_INVALID, "elastic.max_ranks: %d are fewer than the %d that start (-n)", max,
               n);
    return TESS_OK;
}

int tess_supervise(const tess_config *config, const tess_ranks *ranks, const tess_own_command *command,
                   const tess_launch_options *options)
{
    tess_slots slots = {0};
    tess_status status = check_places(config, ranks->n);
    if (status == TESS_OK)
        status = tess_slots_begin(&slots, ranks->n, (int)config->elastic.min_ranks, (int)config->elastic.max_ranks,
                                  tess_os_now_s());
    int code = status == TESS_OK ? supervise(&(tess_supervise_starter){0}, ranks, &slots, config, command, options)
                                 : tess_exit_report(&options->reporter, status);
    tess_slots_free(&slots);
    return code;
}

int tess_supervise_with(const tess_supervise_starter *starter, const tess_slots *slots, const tess_config *config,
                        const tess_own_command *command, const tess_launch_options *options)
{
    return supervise(starter, &(tess_ranks){.n = slots->n_ranks}, slots, config, command, options);
}
