#include "cli/doctor.h"

#include <stdio.h>

#include "launch/launcher.h"
#include "train/timers.h"

static const cli_command command = {"doctor timers", "[CONFIG.yaml [section.key=value ...]]",
                                    "every timer of a job, where its value comes from, and whether their order holds\n"
                                    "Exit codes: 0 it holds, 2 bad input or it does not.",
                                    cli_doctor_timers};

static tess_status print(tess_mem *mem, const tess_timers *timers)
{
    tess_buffer out = {.mem = mem};
    tess_status status = tess_timers_print(timers, &out);
    if (status == TESS_OK)
        fputs(out.data, stdout);
    tess_buffer_free(&out);
    return status;
}

int cli_doctor_timers(int argc, char **argv)
{
    static tess_config config;
    tess_timers timers;
    tess_mem *mem = NULL;
    int n = cli_parse(argc, argv, &command, NULL, 0);
    if (n < 0)
        return n == -1 ? TESS_EXIT_OK : TESS_EXIT_BAD_INPUT;
    tess_status status = tess_mem_create(&mem);
    if (status == TESS_OK)
        status = tess_config_load(mem, n > 0 ? argv[1] : NULL, argv + 2, n > 1 ? n - 1 : 0, &config);
    if (status == TESS_OK) {
        tess_timers_make(&config, TESS_LAUNCH_GRACE_S, &timers);
        status = print(mem, &timers);
    }
    if (status == TESS_OK)
        status = tess_timers_check(&timers);
    tess_mem_destroy(&mem);
    return status == TESS_OK ? TESS_EXIT_OK : cli_fail(status);
}
