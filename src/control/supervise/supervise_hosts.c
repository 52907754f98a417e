#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/variables.h"
#include "base/os/os.h"
#include "control/supervise/supervise_hosts.h"
#include "control/supervise/console.h"
#include "control/record/error_record.h"
#include "control/supervise/exit.h"
#include "control/supervise/kept.h"
#include "control/supervise/supervise.h"
#include "control/supervise/warden_link.h"
#include "job/lives.h"
#include "control/launch/mpirun/launch_probe.h"
#include "train/train.h"

tess_status tess_mpirun_job_line(const tess_launch_hosts *hosts, tess_mpi *mpi, char **arguments,
                                 tess_launch_line *line)
{
    char mpirun[4096], program[4096];
    TESS_TRY(tess_launch_find_mpi(tess_variable_value(TESS_VAR_PATH), mpi, mpirun, sizeof(mpirun)));
    TESS_TRY(tess_os_own_path(program, sizeof(program)));
    tess_launch_request request = {.hosts = hosts,
                                   .mpi = *mpi,
                                   .mpirun = mpirun,
                                   .agent = tess_variable_value(TESS_VAR_LAUNCH_AGENT),
                                   .root = geteuid() == 0,
                                   .environment = environ,
                                   .program = program,
                                   .arguments = arguments};
    return tess_launch_line_make(&request, line);
}

static tess_status show_command(const tess_mpirun_job *job, const tess_launch_line *line)
{
    TESS_AUTO(tess_mem_destroy) tess_mem *mem = NULL;
    TESS_TRY(tess_mem_create(&mem));
    TESS_AUTO(tess_buffer_free) tess_buffer text = {.mem = mem};
    TESS_TRY(tess_launch_words_quote(line->words, line->n, &text));
    job->commands.line(job->commands.self, text.data);
    return TESS_OK;
}

tess_status tess_mpirun_job_run(const tess_mpirun_job *job, const tess_launch_line *line,
                                const tess_launch_watch *watch, tess_launch_line_end *end)
{
    TESS_TRY(show_command(job, line));
    TESS_TRY(tess_launch_line_run(line, watch, end));
    if (end->lost_host)
        tess_report_line(&job->reporter,
                         "mpirun has lost touch with a host and ended the job: it is down, or the link is cut");
    return TESS_OK;
}

typedef struct launch_job {
    tess_mpirun_job *hosts;
    const tess_config *config;
    tess_config *with_batch;   /* configuration with the batch that all ranks have together */
    tess_own_command *command; /* command of the ranks; it gets the micro-batch that they have chosen */
    char rows[64];             /* the word with the micro-batch; "": not known */
    tess_slots slots;          /* places of the ranks of the first life */
    tess_launch_hosts now;     /* hosts that have ranks in this life */
    tess_launch_line line;     /* command line of mpirun in this life */
    bool heard;                /* a warden has reported in this life */
    tess_failure failure;      /* its newest report */
    char lost_host[64];        /* newest host that was lost, in any life */
    tess_rank_past *past;      /* (n_past) past of the ranks, borrowed */
    int n_past;
    void *supervision; /* argument of tess_supervise_has_room */
    tess_launch_probe probe;
    int probed; /* group of the host that is being probed */
} launch_job;

/* Keeps the micro-batch that the ranks have chosen: later lives of the job must not choose another one. */
static void keep_rows(launch_job *j, int64_t rows)
{
    tess_training_section *training = &j->with_batch->training;
    if (!tess_config_batch_is_open(j->config) || j->rows[0] != '\0' || training->global_batch_size % rows != 0)
        return;
    training->local_batch_size = rows;
    snprintf(j->rows, sizeof(j->rows), "training.local_batch_size=%lld", (long long)rows);
    tess_own_command_add(j->command, j->rows);
}

static bool on_error_line(void *self, const char *line)
{
    launch_job *j = self;
    int64_t rows;
    if (tess_lives_rows_read(line, &rows)) {
        keep_rows(j, rows);
        return true;
    }
    if (tess_lives_line_read(line, j->past, j->n_past))
        return true;
    if (!tess_failure_line_read(line, &j->failure))
        return false;
    j->heard = true;
    if (j->failure.host_lost)
        snprintf(j->lost_host, sizeof(j->lost_host), "%s", j->failure.host);
    return true;
}

static void keep_output(void *self, FILE *stream)
{
    const launch_job *j = self;
    tess_console_keep(stream, j->config->job.dump_folder, &j->hosts->reporter);
}

static const char *next_request(void *self)
{
    const launch_job *j = self;
    keep_output(self, stderr); /* must come before the supervisor's own lines, too */
    return tess_supervise_has_room(j->supervision) ? TESS_WARDEN_LEAVE : NULL;
}

static tess_status start_probe(launch_job *j, int group)
{
    char program[4096];
    TESS_TRY(tess_os_own_path(program, sizeof(program)));
    j->probed = group;
    return tess_launch_probe_begin(&j->probe, tess_variable_value(TESS_VAR_LAUNCH_AGENT),
                                   j->hosts->hosts.hosts[group].name, program, tess_os_now_s());
}

static int answers(void *self, int group)
{
    launch_job *j = self;
    if (j->probed != group)
        tess_launch_probe_end(&j->probe);
    if (j->probe.pid == 0 && start_probe(j, group) != TESS_OK) {
        tess_error_clear(); /* no process can be started now; this is tried again later */
        return -1;
    }
    tess_probe_state state = tess_launch_probe_look(&j->probe, tess_os_now_s());
    if (state == TESS_PROBE_ANSWERED)
        tess_report_line(&j->hosts->reporter, "host %s answers: it is used again from the next checkpoint on",
                         j->hosts->hosts.hosts[group].name);
    return state == TESS_PROBE_RUNS ? 0 : state == TESS_PROBE_ANSWERED ? 1 : -1;
}

static void choose_hosts(launch_job *j, const tess_slots *slots)
{
    tess_launch_hosts *now = &j->now;
    now->n = 0;
    for (int h = 0; h < j->hosts->hosts.n; h++) {
        tess_launch_host *host = &now->hosts[now->n];
        *host = j->hosts->hosts.hosts[h];
        host->slots = tess_slots_ranks_of(slots, h);
        now->n += host->slots > 0;
    }
}

static tess_status run_life(launch_job *j, const tess_slots *slots, char *const *words,
                            const tess_launch_options *options, tess_launch_line_end *end)
{
    tess_launch_watch watch = {.usr1_stops = true,
                               .on_error_line = on_error_line,
                               .before_output = keep_output,
                               .next_input = next_request,
                               .self = j};
    j->heard = false;
    j->past = options->past;
    j->n_past = options->n_past;
    TESS_TRY(tess_lives_report(options->n_before, options->omitted, j->past, j->n_past));
    setenv(tess_variable_name(TESS_VAR_LAUNCH_REPORTS), "1", 1);
    choose_hosts(j, slots);
    TESS_TRY(tess_mpirun_job_line(&j->now, &j->hosts->mpi, (char **)words + 1, &j->line));
    watch.mpi = j->hosts->mpi;
    j->supervision = options->self;
    tess_status status = tess_mpirun_job_run(j->hosts, &j->line, &watch, end);
    tess_launch_probe_end(&j->probe);
    for (int r = 0; r < slots->n_ranks && r < j->n_past; r++)
        j->past[r].n_before++;
    return status;
}

/* Guesses the reason if mpirun has failed and no warden has reported one. After the first life, the likely reason is
 * a host that cannot be reached: the host that was lost before. */
static void guess_failure(launch_job *j, const tess_launch_line_end *end)
{
    j->failure = (tess_failure){.rank = -1,
                                .exit_code = end->exit_code,
                                /* a rank has printed what it refuses */
                                .host_lost = end->exit_code != TESS_EXIT_BAD_INPUT,
                                .step = -1,
                                .steps_done = -1};
    snprintf(j->failure.host, sizeof(j->failure.host), "%s", j->lost_host);
    snprintf(j->failure.text, sizeof(j->failure.text), "mpirun ended with code %d, and no rank has said why%s%s",
             end->exit_code, j->lost_host[0] != '\0' ? "; the host that was lost before is " : "", j->lost_host);
}

static void decide(launch_job *j, const tess_launch_options *options, tess_launch_result *result)
{
    tess_launch_decision decision = {.action = TESS_ACTION_STOP};
    j->failure.stopping = j->failure.stopping || result->asked_to_stop;
    result->failed_rank = j->failure.rank;
    options->decide(options->self, &j->failure, &decision);
    result->action = decision.action;
    result->reported = decision.reported;
}

static void report_killed(const launch_job *j, tess_launch_result *result)
{
    snprintf(result->report, sizeof(result->report), TESS_STOPPED_BY_OPERATOR, TESS_STOPPED_TWICE);
    tess_kept_describe(j->config, -1, result->report, sizeof(result->report));
}

static tess_status start(void *self, const tess_slots *slots, char *const *words, const tess_launch_options *options,
                         tess_launch_result *result)
{
    launch_job *j = self;
    tess_launch_line_end end;
    *result = (tess_launch_result){.failed_rank = -1};
    TESS_TRY(run_life(j, slots, words, options, &end));
    bool saved = j->heard && j->failure.exit_code == TESS_EXIT_INTERRUPTED && j->failure.rank < 0;
    result->asked_to_stop = end.stop_signal != 0 || (saved && j->failure.stopping);
    result->exit_code =
        saved ? TESS_EXIT_INTERRUPTED : end.exit_code; /* hydra loses the exit code if a host has only one rank */
    result->rank0_code = result->exit_code;
    if (result->exit_code == TESS_EXIT_OK || result->exit_code == TESS_EXIT_INTERRUPTED)
        return TESS_OK;
    if (j->heard)
        snprintf(result->report, sizeof(result->report), "%s", j->failure.text);
    else if (end.twice)
        report_killed(j, result);
    if (options->decide == NULL || (result->asked_to_stop && !j->heard))
        return TESS_OK;
    if (!j->heard && options->n_before > 0)
        guess_failure(j, &end);
    else if (!j->heard)
        return TESS_OK;
    if (end.in_touch) {
        decide(j, options, result);
        return TESS_OK;
    }
    tess_report_line(&j->hosts->reporter,
                     "mpirun was out of touch with a host: ranks may be left there, and the job does not start "
                     "again; see that they have ended, then give the same command");
    return TESS_OK;
}

bool tess_supervise_hosts_reads(int argc, char **argv, tess_config *config)
{
    TESS_AUTO(tess_mem_destroy) tess_mem *mem = NULL;
    bool plain = argc >= 2 && strcmp(argv[0], "train") == 0;
    for (int i = 1; i < argc; i++)
        plain = plain && argv[i][0] != '-';
    if (!plain || tess_mem_create(&mem) != TESS_OK)
        return false;
    char *const *words = argv + 1;
    int n_words = argc - 1;
    const char *path = tess_config_take_path(&words, &n_words);
    tess_status status = tess_config_load(mem, path, words, n_words, config);
    if (status == TESS_OK)
        tess_train_take_batch(mem, config);
    tess_error_clear();
    return status == TESS_OK;
}

/* Checks the number of places. `n`: slots of all hosts; as many ranks are started. */
static tess_status check_places(const tess_config *config, int n)
{
    int min = (int)config->elastic.min_ranks, max = (int)config->elastic.max_ranks;
    TESS_CHECK(min <= n, TESS_E_INVALID, "elastic.min_ranks: %d are more than the %d places of the hosts", min, n);
    TESS_CHECK(
        max == 0 || max == n, TESS_E_INVALID,
        "elastic.max_ranks: %d, but the hosts have %d places, all of them start, and there are no others to grow "
        "to: leave it away, or name other hosts",
        max, n);
    TESS_CHECK(
        min == 0 || min == n || !config->checkpoint.host_local, TESS_E_INVALID,
        "elastic.min_ranks: %d of %d, but with checkpoint.host_local=true every host keeps its own part, and none "
        "can be left out: leave it away, or use a folder that all hosts share",
        min, n);
    return TESS_OK;
}

/* Sets the global batch that all ranks have together in the configuration. */
static tess_status fix_batch(const tess_config *config, int n_ranks, tess_config *with_batch)
{
    TESS_AUTO(tess_config_free) tess_config checked = {0};
    const bool chooses = tess_config_batch_is_open(config); /* rank 0 chooses when all ranks have met */
    TESS_TRY(tess_config_copy(config, with_batch));
    TESS_CHECK(!chooses || config->training.global_batch_size > 0 || !config->recovery.enable, TESS_E_INVALID,
               "training.local_batch_size=auto over several hosts: set training.global_batch_size (the step must stay "
               "the same when hosts are lost), or recovery.enable=false");
    tess_config_assume_batch(with_batch);
    TESS_TRY(tess_config_copy(with_batch, &checked));
    if (tess_config_check_step(&checked, n_ranks) == TESS_OK)
        with_batch->training.global_batch_size = checked.training.global_batch_size;
    else /* the ranks check the batch again, and print what is wrong */
        with_batch->recovery.enable = false;
    tess_error_clear();
    return check_places(with_batch, n_ranks);
}

static int supervise(launch_job *job, int argc, char **argv)
{
    tess_config with_batch;
    const tess_launch_hosts *hosts = &job->hosts->hosts;
    tess_own_command command;
    tess_launch_options options = {
        .usr1_stops = true, .record_folder = job->config->job.dump_folder, .reporter = job->hosts->reporter};
    tess_error_record_begin(options.record_folder);
    tess_slots_begin_hosts(&job->slots, (int)job->config->elastic.min_ranks);
    tess_status added = TESS_OK;
    for (int h = 0; h < hosts->n && added == TESS_OK; h++)
        added = tess_slots_add_host(&job->slots, hosts->hosts[h].name, hosts->hosts[h].slots);
    tess_status status = fix_batch(job->config, job->slots.n_ranks, &with_batch);
    status = added != TESS_OK ? added : status;
    if (status == TESS_OK)
        status = tess_own_command_of(argc, argv, &command);
    job->with_batch = &with_batch;
    job->command = &command;
    const tess_supervise_starter starter = {start, answers, job};
    int code = status == TESS_OK ? tess_supervise_with(&starter, &job->slots, &with_batch, &command, &options)
                                 : tess_exit_report(&options.reporter, status);
    tess_config_free(&with_batch);
    tess_slots_free(&job->slots);
    return code;
}

int tess_supervise_hosts(tess_mpirun_job *hosts, const tess_config *config, int argc, char **argv)
{
    TESS_AUTO(tess_mem_destroy) tess_mem *mem = NULL;
    TESS_AUTO(tess_mem_drop) launch_job *job = NULL;
    tess_status status = tess_mem_create(&mem);
    if (status == TESS_OK)
        status = TESS_NEW(mem, 1, "a job on several hosts", &job);
    if (status != TESS_OK)
        return tess_exit_report(&hosts->reporter, status);
    job->hosts = hosts;
    job->config = config;
    return supervise(job, argc, argv);
}
