#include "job/failure.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { EXIT_REFUSED = 2 }; /* exit code of our commands for bad input */

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

/* Whether the process itself causes this signal. Other signals come from outside. */
static bool is_own_fault(int signal)
{
    return signal == SIGSEGV || signal == SIGBUS || signal == SIGABRT || signal == SIGILL || signal == SIGFPE ||
           signal == SIGSYS || signal == SIGTRAP || signal == SIGPIPE || signal == SIGXFSZ;
}

/* Classifies a rank that ended by an error of its own. */
static tess_failure_class classify_status(tess_status status)
{
    static const struct {
        tess_status status;
        tess_failure_class class;
    } classes[] = {
        {TESS_E_NOMEM, TESS_FAILURE_NO_MEMORY},       {TESS_E_IO, TESS_FAILURE_IO},
        {TESS_E_NO_SPACE, TESS_FAILURE_DISK_FULL},    {TESS_E_MISMATCH, TESS_FAILURE_MISMATCH},
        {TESS_E_NOT_FINITE, TESS_FAILURE_NUMBERS},    {TESS_E_DEVICE, TESS_FAILURE_DEVICE},
        {TESS_E_TIMEOUT, TESS_FAILURE_STUCK},         {TESS_E_PEER_LOST, TESS_FAILURE_LOST},
        {TESS_E_INTERRUPTED, TESS_FAILURE_PREEMPTED}, {TESS_E_INVALID, TESS_FAILURE_REFUSED},
        {TESS_E_NOT_FOUND, TESS_FAILURE_REFUSED},     {TESS_E_FORMAT, TESS_FAILURE_REFUSED},
        {TESS_E_UNSUPPORTED, TESS_FAILURE_REFUSED},
    };
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
        if (classes[i].status == status)
            return classes[i].class;
    return TESS_FAILURE_UNKNOWN;
}

/* Classifies a failure. The end of the process counts before its message, because an error that a dying rank left is
 * usually a consequence. */
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

/* ---- One line of text ---- */
static const char begins[] = "tessera-failure: ";

const char *tess_failure_line_write(const tess_failure *f, char line[TESS_FAILURE_LINE_BYTES])
{
    snprintf(line, TESS_FAILURE_LINE_BYTES,
             "%srank %d signal %d code %d status %d oom %d stuck %d lost %d stopping %d evaluating %d step %lld done "
             "%lld host "
             "%s: %s",
             begins, f->rank, f->signal, f->exit_code, (int)f->status, f->oom_killed, f->stuck, f->host_lost,
             f->stopping, f->evaluating, (long long)f->step, (long long)f->steps_done,
             f->host[0] != '\0' ? f->host : "-", f->text);
    for (char *c = line; *c != '\0'; c++)
        if (*c == '\n')
            *c = ' ';
    return line;
}

static bool is_flag(int value)
{
    return value == 0 || value == 1;
}

bool tess_failure_line_read(const char *line, tess_failure *failure)
{
    tess_failure f = {0};
    int status, oom, stuck, lost, stopping, evaluating, at = -1;
    long long step, done;
    const char *text = strstr(line, begins);
    if (text == NULL)
        return false;
    text += sizeof(begins) - 1;
    int n =
        sscanf(text,
               "rank %9d signal %9d code %9d status %9d oom %9d stuck %9d lost %9d stopping %9d evaluating %9d step "
               "%18lld done %18lld host %63[!-9;-~]: %n",
               &f.rank, &f.signal, &f.exit_code, &status, &oom, &stuck, &lost, &stopping, &evaluating, &step, &done,
               f.host, &at);
    if (n != 12 || at < 0 || f.rank < -1 || f.signal < 0 || f.exit_code < 0 || f.exit_code > 255 || !is_flag(oom) ||
        !is_flag(stuck) || !is_flag(lost) || !is_flag(stopping) || !is_flag(evaluating))
        return false;
    f.status = (tess_status)status;
    f.oom_killed = oom != 0;
    f.stuck = stuck != 0;
    f.host_lost = lost != 0;
    f.stopping = stopping != 0;
    f.evaluating = evaluating != 0;
    f.step = step;
    f.steps_done = done;
    if (strcmp(f.host, "-") == 0)
        f.host[0] = '\0';
    snprintf(f.text, sizeof(f.text), "%s", text + at);
    *failure = f;
    return true;
}
