#include "recover/failure_line.h"

#include <stdio.h>
#include <string.h>

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
