/* The notices that keep the watchdog's lines for later (trace/notice.h). A stall has one notice, however often it was
 * reported: how long it lasted, or had lasted at the last report. */
#include <stdio.h>

#include "launch/watchdog/watchdog_impl.h"

static int64_t step_of(const tess_watchdog *w, int rank)
{
    return atomic_load(&w->job->rows[rank].step);
}

void watchdog_note_stall(const tess_watchdog *w, int rank, double waited_s, bool has_come)
{
    char text[3 * TESS_NOTICE_TEXT];
    watchdog_stall *stall = &w->stalls[rank];
    tess_notices *notices = &w->job->header->notices;
    snprintf(text, sizeof(text), "%s for %.1f s%s %s%s%s", stall->who, waited_s, has_come ? "" : " and more", stall->in,
             stall->stack[0] != '\0' ? "; its stack: " : "", stall->stack);
    if (stall->notice != 0)
        tess_notices_replace(notices, stall->notice - 1, text);
    else
        stall->notice = 1 + tess_notices_add(notices, TESS_NOTICE_WAIT, rank, step_of(w, rank), text);
}

void watchdog_note_pace(const tess_watchdog *w, int rank, const char *line)
{
    int64_t step = (int64_t)atomic_load(&w->job->rows[rank].n_steps);
    tess_notices_add(&w->job->header->notices, TESS_NOTICE_SLOW, rank, step, line);
}
