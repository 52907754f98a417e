#include "cli/cli.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/os/os.h"
#include "cli/start.h"
#include "cli/train_view.h"
#include "train/train.h"

static tess_runtime
    *alone; /* the runtime that a signal handler may stop; ranks of a launcher have theirs stopped by it */

static void on_signal(int number)
{
    if (alone != NULL)
        tess_runtime_request_stop(alone);
    signal(number, SIG_DFL); /* a second one kills */
}

/* As a rule a refusal is the same on every rank, and rank 0 tells it. Everything else that ends a rank of a launcher is
 * the launcher's to tell, once, for the rank where it began. */
static bool is_refusal(tess_status status)
{
    return status == TESS_E_INVALID || status == TESS_E_NOT_FOUND || status == TESS_E_FORMAT ||
           status == TESS_E_UNSUPPORTED || status == TESS_E_NO_SPACE;
}

static int end_with(tess_status status, tess_runtime *runtime)
{
    if (!tess_launch_is_rank() || (tess_runtime_rank(runtime) == 0 && is_refusal(status)))
        return cli_fail(status);
    tess_runtime_report(runtime, tess_error_message());
    return is_refusal(status) ? CLI_BAD_INPUT : CLI_FAILED;
}

static int run_rank(const tess_config *config)
{
    tess_runtime *runtime = NULL;
    tess_train_result result;
    cli_train_view view;
    tess_runtime_options options = {.n_threads = (int)config->training.threads,
                                    .comm_timeout_s = config->comm.timeout_s,
                                    .config_hash = tess_config_hash(config)};
    tess_status status = tess_runtime_create(&options, &runtime);
    if (status == TESS_E_PEER_LOST)
        return CLI_FAILED;
    if (status != TESS_OK)
        return cli_fail(status);
    int rank = tess_runtime_rank(runtime);
    if (!tess_launch_is_rank()) {
        alone = runtime;
        signal(SIGINT, on_signal);
        signal(SIGTERM, on_signal);
    }
    cli_train_view_open(&view, config);
    status = tess_train(runtime, config, &view.observer, &result);
    if (rank == 0)
        cli_train_view_close(&view, status, &result);
    int code = result.interrupted ? CLI_INTERRUPTED : CLI_OK;
    if (status != TESS_OK)
        code = end_with(status, runtime);
    alone = NULL;
    tess_runtime_destroy(&runtime);
    return code;
}

static int launch(const cli_ranks *ranks, char **argv)
{
    tess_launch_result result;
    tess_status status = cli_start(ranks, argv, 5, &result);
    if (status != TESS_OK)
        return cli_fail(status);
    bool told = (result.exit_code == CLI_BAD_INPUT && result.rank0_code == CLI_BAD_INPUT) ||
                result.exit_code == CLI_INTERRUPTED;
    if (result.report[0] != '\0' && !told)
        fprintf(stderr, "tessera: %s\n", result.report);
    return result.exit_code;
}

/* The command line of a rank: this program, the same words. */
static int launch_self(const cli_ranks *ranks, int argc, char **argv)
{
    char program[4096];
    char *words[256];
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (n <= 0 || argc + 2 > 256)
        return cli_fail(TESS_FAIL(TESS_E_IO, "cannot start ranks: %s", n <= 0 ? "/proc/self/exe" : "too many words"));
    program[n] = '\0';
    words[0] = program;
    for (int i = 0; i < argc; i++)
        words[1 + i] = argv[i];
    words[argc + 1] = NULL;
    return launch(ranks, words);
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
        status = tess_config_load(mem, argv[1], argv + 2, n - 1, &config);
        tess_mem_destroy(&mem);
    }
    if (status != TESS_OK)
        return cli_fail(status);
    if (is_rank || ranks.guarded)
        return is_rank ? run_rank(&config) : launch_self(&ranks, argc, words);
    tess_config checked = config; /* the ranks check again; here it spares starting them */
    status = tess_config_check(&checked, ranks.n);
    if (status != TESS_OK)
        return cli_fail(status);
    return ranks.joins ? run_rank(&config) : launch_self(&ranks, argc, words);
}

const cli_command cli_train = {"train", "CONFIG.yaml [-n RANKS] [section.key=value ...]",
                               "train a model, fully sharded over RANKS processes\n"
                               "`tessera info` lists every section.key with its default.",
                               run};
