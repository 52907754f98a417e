/* Runs a test case in processes of its own, as the ranks of a job. */
#include "support/test.h"

#include "control/launch/launcher.h"

static int call(void *context)
{
    void (*run)(void);
    memcpy(&run, context, sizeof(run));
    run();
    return 0;
}

int test_run_ranks(int n_ranks, void (*run)(void), double timeout_s)
{
    tess_launch_result result;
    if (tess_launch_function(n_ranks, call, &run, 60, timeout_s, &result) != TESS_OK) {
        fprintf(stderr, "    %s\n", tess_error_message());
        return 1;
    }
    if (result.exit_code != 0)
        fprintf(stderr, "    %s\n", result.report);
    return result.exit_code;
}
