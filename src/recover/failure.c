#include "recover/failure.h"

#include <signal.h>

enum { EXIT_REFUSED = 2 }; /* of our commands: bad input */

typedef struct failure_row {
    const char *name;
    tess_action action;
    bool of_step;
    const char *advice;
} failure_row;

static const failure_row table[] = {
#define X(name, text, action, of_step, advice) {text, action, of_step, advice},
    TESS_FAILURE_LIST(X)
#undef X
};

/* Signals that a process causes itself. The others come from outside. */
static bool is_own_fault(int signal)
{
    return signal == SIGSEGV || signal == SIGBUS || signal == SIGABRT || signal == SIGILL || signal == SIGFPE ||
           signal == SIGSYS || signal == SIGTRAP;
}

/* Classifies a rank that ended by an error of its own. */
static tess_failure_class classify_status(tess_status status)
{
    switch (status) {
    case TESS_E_NOMEM:
        return TESS_FAILURE_NO_MEMORY;
    case TESS_E_IO:
        return TESS_FAILURE_IO;
    case TESS_E_NO_SPACE:
        return TESS_FAILURE_DISK_FULL;
    case TESS_E_MISMATCH:
        return TESS_FAILURE_MISMATCH;
    case TESS_E_NOT_FINITE:
        return TESS_FAILURE_NUMBERS;
    case TESS_E_TIMEOUT:
        return TESS_FAILURE_STUCK;
    case TESS_E_PEER_LOST:
        return TESS_FAILURE_LOST;
    case TESS_E_INTERRUPTED:
        return TESS_FAILURE_PREEMPTED;
    case TESS_E_INVALID:
    case TESS_E_NOT_FOUND:
    case TESS_E_FORMAT:
    case TESS_E_UNSUPPORTED:
        return TESS_FAILURE_REFUSED;
    default:
        return TESS_FAILURE_UNKNOWN;
    }
}

/* The end of the process counts before its message: an error that a dying rank left is usually a consequence. */
tess_failure_class tess_failure_classify(const tess_failure *failure)
{
    if (failure->asked)
        return TESS_FAILURE_PREEMPTED;
    if (failure->oom_killed)
        return TESS_FAILURE_OOM_KILLED;
    if (failure->host_lost)
        return TESS_FAILURE_LOST;
    if (failure->stuck)
        return TESS_FAILURE_STUCK;
    if (failure->signal != 0)
        return is_own_fault(failure->signal) ? TESS_FAILURE_CRASH : TESS_FAILURE_KILLED;
    if (failure->status == TESS_OK && failure->exit_code == EXIT_REFUSED)
        return TESS_FAILURE_REFUSED;
    return classify_status(failure->status);
}

static const failure_row *row_of(tess_failure_class class)
{
    return &table[(unsigned)class < TESS_FAILURE_CLASSES ? class : TESS_FAILURE_UNKNOWN];
}

const char *tess_failure_name(tess_failure_class class)
{
    return row_of(class)->name;
}

tess_action tess_failure_action(tess_failure_class class)
{
    return row_of(class)->action;
}

const char *tess_failure_advice(tess_failure_class class)
{
    return row_of(class)->advice;
}

bool tess_failure_is_of_step(tess_failure_class class)
{
    return row_of(class)->of_step;
}
