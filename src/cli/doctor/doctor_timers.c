/* `tessera doctor timers`: lists every timer of a job, and checks their order. */
#include "cli/cli.h"

#include <stdio.h>

#include "control/launch/launcher.h"
#include "control/timers.h"

static int run(tess_mem *mem, int argc, char **argv)
{
    TESS_AUTO(tess_config_free) tess_config config = {0};
    tess_timers timers;
    tess_form_style style = TESS_FORM_TEXT;
    tess_buffer out = {.mem = mem};
    const cli_flag flags[] = {CLI_STYLES(&style)};
    int n = cli_parse(argc, argv, &cli_doctor_timers, flags, sizeof(flags) / sizeof(flags[0]));
    char *const *words = argv + 1;
    const char *path = tess_config_take_path(&words, &n);
    tess_status status = tess_config_load(mem, path, words, n, &config);
    if (status != TESS_OK)
        return cli_end(status);
    tess_timers_make(&config, TESS_LAUNCH_GRACE_S, &timers);
    status = cli_print_text(tess_timers_put(&timers, style, &out), &out);
    return cli_end(status == TESS_OK ? tess_timers_check(&timers) : status);
}

const cli_command cli_doctor_timers = {
    "doctor timers",
    "[CONFIG.yaml] [section.key=value ...] [--json | --html | --prometheus]",
    "list every timer of a job and where its value comes from, and check their order",
    .exit_codes = "0 the order holds; 2 it does not, or bad input",
    .examples = "tessera doctor timers\n"
                "tessera doctor timers run.yaml\n"
                "tessera doctor timers run.yaml comm.timeout_s=60 --json",
    .run = run};
