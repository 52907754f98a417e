#include "control/supervise/exit.h"

#include <time.h>

#include "control/supervise/stderr_lines.h"
#include "job/environment.h"

int tess_exit_code(tess_status status)
{
    switch (status) {
    case TESS_E_INVALID:
    case TESS_E_NOT_FOUND:
    case TESS_E_FORMAT:
    case TESS_E_UNSUPPORTED:
    case TESS_E_NO_SPACE:
    case TESS_E_NOT_FINITE:
        return TESS_EXIT_BAD_INPUT;
    case TESS_E_INTERRUPTED:
        return TESS_EXIT_INTERRUPTED;
    default:
        return TESS_EXIT_FAILED;
    }
}

int tess_exit_report(const tess_reporter *reporter, tess_status status)
{
    const char *message = tess_error_message();
    tess_report_line(reporter, "%s", message[0] != '\0' ? message : tess_status_text(status));
    return tess_exit_code(status);
}

int tess_exit_fail(tess_status status)
{
    return tess_exit_report(&tess_stderr_lines, status);
}

int tess_exit_fail_once(tess_status status)
{
    tess_environment environment;
    bool first = tess_environment_read(&environment) != TESS_OK || environment.rank == 0 ||
                 environment.starter == TESS_STARTER_NONE || environment.starter == TESS_STARTER_TESSERA;
    if (!first)
        nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
    return tess_exit_fail(status);
}

/* Reports why a rank fails. A refusal is mostly the same on every rank (and so is a NaN, which comes from data or
 * settings), so only rank 0 prints it. The launcher reports any other failure once, for the rank where it began. */
int tess_exit_rank(tess_status status, tess_runtime *runtime)
{
    bool is_refusal = tess_exit_code(status) == TESS_EXIT_BAD_INPUT;
    tess_runtime_report_status(runtime, status);
    if (!tess_launch_is_rank() || (tess_runtime_rank(runtime) == 0 && is_refusal))
        return tess_exit_fail(status);
    tess_runtime_report(runtime, tess_error_message());
    return is_refusal ? TESS_EXIT_BAD_INPUT : TESS_EXIT_FAILED;
}
