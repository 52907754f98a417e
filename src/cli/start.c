#include "cli/start.h"

#include "cli/cli.h"
#include "comm/agent/agent.h"
#include "comm/hosts/environment.h"
#include "comm/job/job.h"

tess_status cli_count_ranks(const char *text, cli_ranks *ranks)
{
    tess_environment environment;
    int64_t n = 1;
    TESS_TRY(cli_int("-n", text, 1, JOB_MAX_RANKS, &n));
    TESS_TRY(tess_environment_read(&environment));
    bool started = environment.starter != TESS_STARTER_NONE && environment.starter != TESS_STARTER_TESSERA &&
                   environment.world > 1;
    TESS_CHECK(
        !started || text == NULL, TESS_E_INVALID,
        "-n %s starts ranks on this machine, but %s has started %d already (%s): leave -n away, or start tessera "
        "without it",
        text, tess_starter_name(environment.starter), environment.world, environment.told_by);
    bool torchrun = started && environment.starter == TESS_STARTER_TORCHRUN;
    *ranks = (cli_ranks){.n = started ? environment.world : (int)n,
                         .guarded = started && !torchrun,
                         .joins = torchrun || (!started && n == 1)};
    return TESS_OK;
}

tess_status cli_start(const cli_ranks *ranks, char *const *argv, double grace_s, tess_launch_result *result)
{
    return ranks->guarded ? tess_guard_run(argv, grace_s, result) : tess_launch(ranks->n, argv, grace_s, result);
}
