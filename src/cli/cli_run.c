/* `tessera run`: starts a program that uses libtessera as N ranks. */
#include "cli/cli.h"

#include <stdio.h>

#include "cli/flags/output_flags.h"
#include "control/record/error_record.h"
#include "control/supervise/stderr_lines.h"

static void look_after_saves(void *service)
{
    tess_async_service_look(service);
}

/* Bounds of the files, as a run's configuration has them by default. */
enum { MOST_BYTES = 16 << 20, MOST_KEPT = 2 };

static tess_status plan_output(const cli_output_flags *given, tess_output_plan *plan)
{
    *plan = (tess_output_plan){.folder = given->folder,
                               .redirects = given->redirects,
                               .tee = given->tee,
                               .filter = given->ranks,
                               .max_bytes = MOST_BYTES,
                               .n_kept = MOST_KEPT};
    return tess_output_plan_check(plan);
}

static int run(TESS_UNUSED tess_mem *mem, int argc, char **argv)
{
    const char *n_ranks = NULL, *trace = NULL;
    tess_ranks ranks = {0};
    tess_launch_options options = {
        .grace_s = TESS_LAUNCH_GRACE_S, .soft_timeout_s = 0.75, .reporter = tess_stderr_lines};
    tess_output_plan plan;
    cli_output_flags output;
    cli_flag flags[3 + CLI_OUTPUT_FLAGS] = {
        {"-n", "RANKS", "processes to start (1)", .text = &n_ranks},
        {"--grace", "SECONDS", "time for the others to end once a rank is lost (5)", .number = &options.grace_s,
         .most = 1e6},
        {"--trace", "FOLDER", "keep each rank's last events there, for `tessera trace FOLDER`", .text = &trace}};
    cli_output_flags_of(&output, flags + 3);
    int n = cli_parse(argc, argv, &cli_run, flags, sizeof(flags) / sizeof(flags[0]));
    if (n == 0)
        return cli_misuse(&cli_run, "name the program to run");
    if (output.folder == NULL && cli_output_is_given(&output))
        return cli_misuse(&cli_run, "-r, -t and --local-ranks-filter are about files: give --log-dir DIR, too");
    tess_status status = cli_count_ranks(n_ranks, &ranks);
    if (status == TESS_OK)
        status = plan_output(&output, &plan);
    if (status != TESS_OK)
        return cli_end(status);
    argv[n + 1] = NULL;
    tess_launch_result result;
    tess_async_service *saves; /* writes the checkpoints of programs that use tess_checkpoint_saver */
    status = tess_ranks_start_saves(&saves);
    if (status != TESS_OK)
        return cli_end(status);
    options.trace_folder = trace;
    options.record_folder = output.folder != NULL ? output.folder : trace;
    options.output = &plan;
    if (ranks.is_warden)
        tess_error_record_begin_host(options.record_folder);
    else
        tess_error_record_begin(options.record_folder);
    options.look = look_after_saves;
    options.helpers = saves;
    status = tess_ranks_start(&ranks, argv + 1, &options, &result);
    tess_async_service_stop(&saves);
    if (status != TESS_OK)
        return cli_end(status);
    if (ranks.is_warden)
        tess_error_record_end_warden(&options, &result);
    else
        tess_error_record_end(&options, &result, false);
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
