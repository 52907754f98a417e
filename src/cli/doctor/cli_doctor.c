/* The command `tessera doctor`: its verbs. */
#include "cli/cli.h"

static const cli_command *const verbs[] = {&cli_doctor_log, &cli_doctor_env, &cli_doctor_timers, &cli_doctor_preflight};
const cli_command cli_doctor = {"doctor", "VERB ...",
                                "explain logs and environment variables, check machines before a run", .verbs = verbs,
                                .n_verbs = sizeof(verbs) / sizeof(verbs[0])};
