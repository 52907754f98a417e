#include "cli/cli.h"

#include <signal.h>
#include <stdio.h>

#include "base/os/os.h"
#include "ckpt/async/async.h"
#include "cli/folder_lock.h"
#include "cli/cli_health.h"
#include "cli/persist_heir.h"
#include "cli/persist_config.h"
#include "cli/start.h"
#include "cli/stop_signals.h"
#include "cli/supervise.h"
#include "cli/train_view.h"
#include "comm/rejoin.h"
#include "job/environment.h"
#include "train/phases.h"
#include "train/timers.h"
#include "train/train.h"

static tess_runtime *stoppable; /* what a signal asks to stop, NULL: it kills */
/* A rank that was lost may be replaced, and a signal that came meanwhile: what is kept is saved once all have met. */
static volatile sig_atomic_t is_replaceable, asked_meanwhile;

/* Schedulers send what announces the end to every process of a job. Once a rank is lost for good there is nothing to be
 * saved. */
static void on_signal(int number)
{
    signal(number, SIG_DFL); /* a second one kills */
    if (stoppable != NULL && !tess_launch_has_lost(stoppable))
        tess_runtime_request_stop(stoppable);
    else if (is_replaceable)
        asked_meanwhile = 1;
    else
        raise(number);
}

/* At the deadline ranks give up, or wait on and the launcher says so. */
enum { ON_TIMEOUT_REPORT = 0 };
static const double for_ever_s = 1e9;

static tess_status check_timers(const tess_config *config, double grace_s)
{
    tess_timers timers;
    tess_timers_make(config, grace_s, &timers);
    return tess_timers_check(&timers);
}

/* One life of the job in this process. *lost: it ended because a peer was lost, and may begin anew. An error of its own
 * is none, even if all ranks have it and another has ended of it before. */
static int live(const tess_config *config, cli_train_view *view, bool *lost)
{
    bool waits_on = config->comm.on_timeout == ON_TIMEOUT_REPORT;
    tess_runtime *runtime = NULL;
    tess_train_result result;
    tess_runtime_options options = {.n_threads = (int)config->training.threads,
                                    .comm_timeout_s = waits_on ? for_ever_s : config->comm.timeout_s,
                                    .config_hash = tess_config_hash(config),
                                    .backend = (tess_backend)config->comm.backend,
                                    .tuning = config->comm.tuning,
                                    .native_reductions = config->comm.reduction == 1,
                                    .fault = config->fault.spec[0] != '\0' ? config->fault.spec : NULL,
                                    .fault_seed = (uint64_t)config->fault.seed,
                                    .phases = tess_train_phases};
    tess_status status = tess_runtime_create(&options, &runtime);
    *lost = status == TESS_E_PEER_LOST;
    if (*lost || (status == TESS_E_MISMATCH && tess_launch_is_rank()))
        return CLI_FAILED; /* whoever watches us tells it, once */
    if (status != TESS_OK)
        return cli_fail_once(status);
    int rank = tess_runtime_rank(runtime);
    stoppable = runtime;
    is_replaceable = tess_launch_recovers(runtime);
    if (asked_meanwhile)
        tess_runtime_request_stop(runtime);
    signal(SIGTERM, on_signal);
    signal(SIGUSR1, on_signal);
    if (!tess_launch_is_rank()) /* a terminal's ctrl-C is for the launcher */
        signal(SIGINT, on_signal);
    status = tess_train(runtime, config, &view->observer, &result);
    *lost = status == TESS_E_PEER_LOST;
    if (rank == 0)
        cli_train_view_close(view, status, &result);
    int code = result.interrupted ? CLI_INTERRUPTED : CLI_OK;
    if (status != TESS_OK)
        code = cli_end_rank(status, runtime);
    stoppable = NULL;
    tess_runtime_destroy(&runtime);
    return code;
}

static int run_rank(const tess_config *config)
{
    cli_train_view view;
    bool lost;
    int code;
    cli_train_view_open(&view, config);
    do
        code = live(config, &view, &lost);
    while (lost && tess_launch_await());
    return code;
}

/* The process that writes checkpoints beside training is there before the ranks, and before any thread: one a host. */
static tess_status start_saves(const tess_config *config, tess_async_service **saves)
{
    tess_environment environment;
    if (!config->checkpoint.enable || !config->checkpoint.async)
        return TESS_OK;
    TESS_TRY(tess_environment_read(&environment));
    return environment.local_rank > 0 ? TESS_OK : tess_async_service_start(saves);
}

/* Of the state that was just saved. */
static tess_status take_batch(tess_config *open, int n_ranks, tess_config *checked)
{
    tess_mem *mem = NULL;
    TESS_TRY(tess_mem_create(&mem));
    tess_train_take_batch(mem, open);
    tess_mem_destroy(&mem);
    *checked = *open;
    return tess_config_check(checked, n_ranks);
}

/* Ranks of this launcher, once what those of an earlier one keep is theirs. `open` is the configuration as it was
 * given, and becomes `checked`, with the batch that the run has. */
static int supervise(tess_config *open, tess_config *checked, const cli_ranks *ranks, int argc, char **words,
                     const tess_launch_options *options)
{
    static cli_arguments command;
    const cli_persist_heir heir = {checked, ranks->n, &command, options};
    bool saved = false;
    cli_stop_signals_hear();
    tess_status status = cli_arguments_of_self(argc, words, &command);
    int code = status == TESS_OK ? cli_persist_inherit(&heir, &saved) : cli_fail(status);
    if (code != CLI_OK)
        return code;
    status = saved ? take_batch(open, ranks->n, checked) : TESS_OK;
    if (status != TESS_OK)
        return cli_fail(status);
    open->training.global_batch_size = checked->training.global_batch_size; /* whatever becomes of the ranks */
    return cli_supervise(open, ranks, argc, words, options);
}

static int run(int argc, char **argv)
{
    static tess_config config;
    const char *n_ranks = NULL;
    cli_ranks ranks = {0};
    tess_mem *mem = NULL;
    char *words[256]; /* cli_parse reorders; ranks get the words as they were */
    for (int i = 0; i < argc && i < 256; i++)
        words[i] = argv[i];
    const cli_flag flags[] = {{"-n", "RANKS", "processes on this machine (1)", &n_ranks}};
    int n = cli_parse(argc, argv, &cli_train, flags, 1);
    if (n < 0)
        return n == -1 ? CLI_OK : CLI_BAD_INPUT;
    if (n == 0)
        return cli_misuse(&cli_train, "name a configuration file");
    bool is_rank = tess_launch_is_rank();
    tess_status status = is_rank ? TESS_OK : cli_count_ranks(n_ranks, &ranks);
    if (status == TESS_OK)
        status = tess_mem_create(&mem);
    if (status == TESS_OK) {
        status = tess_config_load(mem, cli_config_path(argv[1]), argv + 2, n - 1, &config);
        if (status == TESS_OK && !is_rank) {
            status = cli_config_keep(mem, argv[1]);
            tess_train_take_batch(mem, &config);
        }
        tess_mem_destroy(&mem);
    }
    if (status != TESS_OK)
        return cli_fail_once(status);
    tess_launch_options options = {.program = "/proc/self/exe", /* also once its name is another version's */
                                   .grace_s = TESS_LAUNCH_GRACE_S,
                                   .soft_timeout_s = config.comm.soft_timeout_s,
                                   .timeout_s = config.comm.timeout_s,
                                   .waits_on = config.comm.on_timeout == ON_TIMEOUT_REPORT,
                                   .usr1_stops = true,
                                   .stop_grace_s = config.checkpoint.emergency_grace_s,
                                   .notice = cli_notice};
    status = check_timers(&config, options.grace_s);
    if (status != TESS_OK)
        return cli_fail_once(status);
    if (is_rank)
        return run_rank(&config);
    tess_config checked = config; /* the ranks check again; here it spares starting them */
    status = ranks.guarded ? TESS_OK : tess_config_check(&checked, ranks.n);
    tess_async_service *saves = NULL;
    cli_folder folder = {.fd = -1};
    if (status == TESS_OK)
        status = start_saves(&config, &saves);
    if (status == TESS_OK) /* the writer of checkpoints is there already: it outlives a killed job, and holds nothing */
        status = cli_folder_hold(&config, &folder);
    if (status != TESS_OK) {
        tess_async_service_stop(&saves);
        return cli_fail(status);
    }
    if (n_ranks != NULL && (config.recovery.enable || config.checkpoint.memory_copies))
        ranks.joins = false; /* somebody has to be there when it is lost */
    tess_health_watcher watcher;
    cli_health_start(&config, &ranks, &watcher);
    int code = ranks.joins     ? run_rank(&config)
               : ranks.guarded ? cli_start_self(&ranks, argc, words, &options)
                               : supervise(&config, &checked, &ranks, argc, words, &options);
    tess_health_watcher_stop(&watcher);
    tess_async_service_stop(&saves);
    cli_folder_release(&config, &folder);
    return code;
}

const cli_command cli_train = {"train", "CONFIG.yaml [-n RANKS] [section.key=value ...]",
                               "train a model, fully sharded over RANKS processes\n"
                               "`tessera info` lists every section.key with its default.",
                               run};
