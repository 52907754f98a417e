/* `tessera run`: starts a program that uses libtessera as N ranks. */
#include "cli/cli.h"

#include <stdio.h>

#include "control/supervise/stderr_lines.h"

static void look_after_saves(void *service)
{
    tess_async_service_look(service);
}

static int run(TESS_UNUSED tess_mem *mem, int argc, char **argv)
{
    const char *n_ranks = NULL, *trace = NULL;
    tess_ranks ranks = {0};
    tess_launch_options options = {
        .grace_s = TESS_LAUNCH_GRACE_S, .soft_timeout_s = 0.75, .reporter = tess_stderr_lines};
    const cli_flag flags[] = {
        {"-n", "RANKS", "processes to start (1)", .text = &n_ranks},
        {"--grace", "SECONDS", "time for the others to end once a rank is lost (5)", .number = &options.grace_s,
         .most = 1e6},
        {"--trace", "FOLDER", "keep each rank's last events there, for `tessera trace FOLDER`", .text = &trace}};
    int n = cli_parse(argc, argv, &cli_run, flags, 3);
    if (n == 0)
        return cli_misuse(&cli_run, "name the program to run");
    tess_status status = cli_count_ranks(n_ranks, &ranks);
    if (status != TESS_OK)
        return cli_end(status);
    argv[n + 1] = NULL;
    tess_launch_result result;
    tess_async_service *saves; /* writes the checkpoints of programs that use tess_checkpoint_saver */
    status = tess_ranks_start_saves(&saves);
    if (status != TESS_OK)
        return cli_end(status);
    options.trace_folder = trace;
    options.look = look_after_saves;
    options.helpers = saves;
    status = tess_ranks_start(&ranks, argv + 1, &options, &result);
    tess_async_service_stop(&saves);
    if (status != TESS_OK)
        return cli_end(status);
    if (result.report[0] != '\0' && !result.reported)
        fprintf(stderr, "tessera: %s\n", result.report);
    return result.exit_code;
}

const cli_command cli_run = {"run", "[-n RANKS] -- PROGRAM [ARGUMENTS ...]",
                             "start a program that uses libtessera as N ranks",
                             .examples = "tessera run -n 4 -- ./trainer --steps 10\n"
                                         "tessera run -n 2 -- python3 train.py\n"
                                         "tessera run -n 3 -- build/examples/embed_fsdp",
                             .run = run};
