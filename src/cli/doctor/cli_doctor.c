/* The command `tessera doctor`: its verbs. */
#include "cli/cli.h"

static const cli_command *const verbs[] = {&cli_doctor_log, &cli_doctor_env, &cli_doctor_timers, &cli_doctor_preflight};
const cli_command cli_doctor = {"doctor",
                                "VERB ...",
                                "explain logs and environment variables, check machines before a run",
                                .examples = "tessera doctor log train.log\n"
                                            "tessera doctor env --pid 4711\n"
                                            "tessera doctor preflight -n 2 run.yaml",
                                .verbs = verbs,
                                .n_verbs = sizeof(verbs) / sizeof(verbs[0])};
