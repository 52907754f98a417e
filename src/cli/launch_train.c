/* `tessera launch ... -- train CONFIG.yaml`: the job is started again after a failure, as on one host. What failed is
 * said by the guard that names the root cause, in a line among those that mpirun forwards. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/launch.h"
#include "cli/supervise.h"
#include "recover/failure_line.h"
#include "train/train.h"
#include "verdict/history.h"

static const char reports_to_launch[] = "TESSERA_LAUNCH_REPORTS"; /* carried to the guards by mpirun */

/* ---- In a guard
 * --------------------------------------------------------------------------------------------------------- */
static void write_line(const tess_failure *facts)
{
    char line[TESS_FAILURE_LINE_BYTES + 2];
    tess_failure_line_write(facts, line);
    strcat(line, "\n");
    fputs(line, stderr); /* whole, or lines of other ranks could come in between */
}

static void report(void *self, const tess_launch_failure *failure, tess_launch_decision *decision)
{
    (void)self;
    tess_failure facts;
    cli_failure_facts(failure, &facts);
    write_line(&facts);
    decision->told = true;
}

void cli_guard_reports(tess_launch_options *options)
{
    if (getenv(reports_to_launch) != NULL)
        options->decide = report;
}

void cli_guard_reports_end(tess_launch_result *result)
{
    if (getenv(reports_to_launch) == NULL || result->failed_rank >= 0)
        return;
    if (result->asked_to_stop)
        result->told = true; /* mpirun may end this guard before it has said so */
    if (result->exit_code == CLI_INTERRUPTED)
        write_line(&(tess_failure){.rank = -1, .exit_code = CLI_INTERRUPTED, .step = -1, .steps_done = -1});
}

/* ---- In the launcher
 * ------------------------------------------------------------------------------------------------------- */
typedef struct launch_job {
    cli_hosts *hosts;
    bool heard;           /* in this life */
    tess_failure failure; /* then: the last that was heard; a host that is lost stays so until another is */
    char lost_host[64];
} launch_job;

static void hear(void *self, const char *line)
{
    launch_job *j = self;
    if (!tess_failure_line_read(line, &j->failure)) {
        fprintf(stderr, "%s\n", line);
        return;
    }
    j->heard = true;
    if (j->failure.host_lost)
        snprintf(j->lost_host, sizeof(j->lost_host), "%s", j->failure.host);
}

/* Those that have ranks now. */
static void choose_hosts(const launch_job *j, const tess_slots *slots, tess_launch_hosts *now)
{
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
    static tess_launch_line line;
    static tess_launch_hosts now;
    char n_before[16];
    tess_launch_watch watch = {.usr1_stops = true, .hear = hear, .self = j};
    j->heard = false;
    snprintf(n_before, sizeof(n_before), "%d", options->n_before);
    setenv("TESSERA_LIVES_BEFORE", n_before, 1);
    setenv(reports_to_launch, "1", 1);
    choose_hosts(j, slots, &now);
    TESS_TRY(cli_hosts_line(&now, &j->hosts->mpi, (char **)words + 1, &line));
    watch.mpi = j->hosts->mpi;
    return cli_hosts_run(&line, &watch, end);
}

/* mpirun has failed and no guard has said why. Once the job has run, a host that cannot be reached does that: the one
 * that was lost before. */
static void guess(launch_job *j, const tess_launch_line_end *end)
{
    j->failure = (tess_failure){.rank = -1,
                                .exit_code = end->exit_code,
                                .host_lost = end->exit_code != CLI_BAD_INPUT, /* a rank has said what it refuses */
                                .step = -1,
                                .steps_done = -1};
    snprintf(j->failure.host, sizeof(j->failure.host), "%s", j->lost_host);
    snprintf(j->failure.text, sizeof(j->failure.text), "mpirun ended with code %d, and no rank has said why%s%s",
             end->exit_code, j->lost_host[0] != '\0' ? "; the host that was lost before is " : "", j->lost_host);
}

static void decide(launch_job *j, const tess_launch_options *options, tess_launch_result *result)
{
    const tess_failure *f = &j->failure;
    tess_situation situation = f->oom_killed  ? TESS_RANK_OOM_KILLED
                               : f->host_lost ? TESS_RANK_HOST_LOST
                                              : TESS_RANK_WELL;
    tess_launch_failure failure = {.rank = f->rank,
                                   .host = f->host,
                                   .signal = f->signal,
                                   .exit_code = f->exit_code,
                                   .status = f->status,
                                   .stuck = f->stuck,
                                   .stopping = f->stopping || result->asked_to_stop,
                                   .step = f->step,
                                   .situation = (int)situation,
                                   .steps = f->steps_done,
                                   .report = f->text};
    tess_launch_decision decision = {.action = TESS_LAUNCH_END};
    result->failed_rank = f->rank;
    options->decide(options->self, &failure, &decision);
    result->action = decision.action;
    result->told = decision.told;
}

static tess_status start(void *self, const tess_slots *slots, char *const *words, const tess_launch_options *options,
                         tess_launch_result *result)
{
    launch_job *j = self;
    tess_launch_line_end end;
    *result = (tess_launch_result){.failed_rank = -1};
    TESS_TRY(run_life(j, slots, words, options, &end));
    bool saved = j->heard && j->failure.exit_code == CLI_INTERRUPTED && j->failure.rank < 0;
    result->asked_to_stop = end.stop_signal != 0 || saved;
    result->exit_code = saved ? CLI_INTERRUPTED : end.exit_code; /* hydra forgets it where a host has one rank */
    result->rank0_code = result->exit_code;
    if (result->exit_code == CLI_OK || result->exit_code == CLI_INTERRUPTED)
        return TESS_OK;
    if (j->heard)
        snprintf(result->report, sizeof(result->report), "%s", j->failure.text);
    else if (end.twice)
        snprintf(result->report, sizeof(result->report), "asked to stop twice: the ranks were killed");
    if (result->asked_to_stop && !j->heard)
        return TESS_OK;
    if (options->decide == NULL)
        return TESS_OK;
    if (!j->heard && options->n_before > 0)
        guess(j, &end);
    else if (!j->heard)
        return TESS_OK;
    if (end.in_touch) {
        decide(j, options, result);
        return TESS_OK;
    }
    fprintf(stderr, "tessera: mpirun was out of touch with a host: ranks may be left there, and the job does not start "
                    "again; see that they have ended, then give the same command\n");
    return TESS_OK;
}

bool cli_launch_trains(int argc, char **argv, tess_config *config)
{
    tess_mem *mem = NULL;
    bool plain = argc >= 2 && strcmp(argv[0], "train") == 0;
    for (int i = 1; i < argc; i++)
        plain = plain && argv[i][0] != '-';
    if (!plain || tess_mem_create(&mem) != TESS_OK)
        return false;
    tess_status status = tess_config_load(mem, argv[1], argv + 2, argc - 2, config);
    if (status == TESS_OK)
        tess_train_take_batch(mem, config);
    tess_mem_destroy(&mem);
    tess_error_clear();
    return status == TESS_OK;
}

int cli_launch_train(cli_hosts *hosts, const tess_config *config, int argc, char **argv)
{
    static tess_slots slots;
    static tess_config with_batch;
    launch_job job = {.hosts = hosts};
    tess_launch_options options = {.usr1_stops = true};
    tess_slots_begin_hosts(&slots, (int)config->elastic.min_ranks);
    for (int h = 0; h < hosts->hosts.n; h++)
        tess_slots_add_host(&slots, hosts->hosts.hosts[h].name, hosts->hosts.hosts[h].slots);
    with_batch = *config;
    tess_config checked = with_batch; /* the ranks check again, and say what is wrong */
    if (tess_config_check_step(&checked, slots.n_ranks) == TESS_OK)
        with_batch.training.global_batch_size = checked.training.global_batch_size;
    else
        with_batch.recovery.enable = false;
    tess_error_clear();
    return cli_supervise_with(&(cli_starter){start, &job}, &slots, &with_batch, argc, argv, &options);
}
