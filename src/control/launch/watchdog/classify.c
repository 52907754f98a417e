/* Classifies what a late rank is doing, from two readings of its process at least a tenth of a second apart. */
#include <stdio.h>
#include <string.h>

#include "control/launch/watchdog/watchdog_impl.h"

/* Share of a core from which on a thread is busy. Below it, the thread only wakes up now and then. */
static const double busy_share = 0.1;

/* Returns the share of a core that all threads used, limited to their number: the two clocks are not read at the
 * same moment. */
static double share_used(const tess_process_facts *before, const tess_process_facts *after)
{
    double s = (double)(after->time_ns - before->time_ns), most = after->n_threads > 1 ? after->n_threads : 1;
    double share = s > 0 ? (double)(after->cpu_ns - before->cpu_ns) / s : 0;
    return share < most ? share : most;
}

/* Returns that share plus the time in which threads were ready but waited for a core. */
static double share_wanted(const tess_process_facts *before, const tess_process_facts *after)
{
    double s = (double)(after->time_ns - before->time_ns);
    double queued = s > 0 ? (double)(after->main.waiting_ns - before->main.waiting_ns) / s : 0;
    return share_used(before, after) + queued;
}

/* Whether the process is blocked in I/O: it is in the same call on the same file as before, and transferred no byte. */
static bool is_blocked_in_io(const tess_process_facts *before, const tess_process_facts *after)
{
    const tess_thread_facts *a = &before->thread, *b = &after->thread;
    if (b->state == 'D')
        return true;
    bool waits = (b->kind == TESS_CALL_FILE || b->kind == TESS_CALL_POLL) && b->state == 'S';
    return waits && a->call == b->call && a->arguments[0] == b->arguments[0] && before->io_bytes == after->io_bytes;
}

static tess_situation find(const watchdog_row *of, const tess_process_facts *before, const tess_process_facts *after)
{
    const tess_board_copy *row = &of->copy;
    char state = after->main.state;
    uint64_t missing = 0;
    for (size_t i = 0; i < tess_bits_words(of->world); i++)
        missing |= of->awaited[i];
    if (!after->here || state == 'Z' || state == 'X')
        return TESS_RANK_UNKNOWN;
    if (state == 'T' || (state == 't' && after->tracer != 0))
        return TESS_RANK_STOPPED;
    if (row->state == JOB_RANK_ABSENT)
        return TESS_RANK_NOT_JOINED;
    if (row->wait_age_ns > 0 && missing != 0)
        return TESS_RANK_IN_OTHER_COLLECTIVE;
    if (is_blocked_in_io(before, after))
        return TESS_RANK_BLOCKED_IN_IO;
    if (after->thread.kind == TESS_CALL_SLEEP && before->thread.kind == TESS_CALL_SLEEP)
        return TESS_RANK_SLEEPING;
    if (strcmp(row->phase, "data") == 0)
        return TESS_RANK_LOADING_DATA;
    return after->thread.state == 'R' || share_wanted(before, after) >= busy_share ? TESS_RANK_COMPUTING
                                                                                   : TESS_RANK_SLEEPING;
}

/* Formats the ranks of a set: "rank 1", "ranks 1 2 3 ...". */
static void list(const watchdog_row *row, char *text, size_t size)
{
    int n = 0;
    size_t at = 0;
    for (int r = 0; r < row->world; r++)
        n += tess_bits_has(row->awaited, r);
    at += (size_t)snprintf(text, size, n == 1 ? "rank" : "ranks");
    for (int r = 0; r < row->world && at + 12 < size; r++)
        if (tess_bits_has(row->awaited, r))
            at += (size_t)snprintf(text + at, size - at, " %d", r);
}

static void report_activity(const tess_process_facts *before, const tess_process_facts *after, const char *word,
                            watchdog_finding *f)
{
    char text[400];
    double share = share_used(before, after);
    bool is_ready = after->thread.state == 'R' || share_wanted(before, after) >= busy_share;
    if (after->thread.call_name[0] != '\0')
        snprintf(f->why, sizeof(f->why), "%s, %s", word, tess_os_facts_report(after, text, sizeof(text)));
    else if (is_ready && share < busy_share)
        snprintf(f->why, sizeof(f->why), "%s: ready to run, but it gets no core (state %c, %.0f%% of one)", word,
                 after->thread.state, share * 100);
    else
        snprintf(f->why, sizeof(f->why), "%s (state %c, %.0f%% of a core)", word, after->thread.state, share * 100);
}

static void report(const watchdog_row *row, const tess_process_facts *before, const tess_process_facts *after,
                   watchdog_finding *f)
{
    char text[400], who[80];
    switch (f->situation) {
    case TESS_RANK_STOPPED:
        if (after->main.state == 'T')
            snprintf(f->why, sizeof(f->why), WATCHDOG_STOPPED);
        else
            snprintf(f->why, sizeof(f->why), "stopped by a debugger (state t, process %d)", after->tracer);
        break;
    case TESS_RANK_IN_OTHER_COLLECTIVE:
        list(row, who, sizeof(who));
        snprintf(f->why, sizeof(f->why), "waiting for %s in %s", who,
                 tess_fingerprint_format(&row->copy.wait_op, row->copy.wait_team, text, sizeof(text)));
        break;
    case TESS_RANK_BLOCKED_IN_IO:
        snprintf(f->why, sizeof(f->why), "blocked %s", tess_os_facts_report(after, text, sizeof(text)));
        break;
    case TESS_RANK_LOADING_DATA:
        report_activity(before, after, "loading data", f);
        break;
    case TESS_RANK_SLEEPING:
        report_activity(before, after, "asleep", f);
        break;
    case TESS_RANK_COMPUTING:
        report_activity(before, after, "computing", f);
        break;
    case TESS_RANK_NOT_JOINED:
        report_activity(before, after, "not in the job yet", f);
        break;
    default:
        snprintf(f->why, sizeof(f->why), "ending: its process is gone or a zombie");
        break;
    }
}

void watchdog_classify(const watchdog_row *row, const tess_process_facts *before, const tess_process_facts *after,
                       watchdog_finding *finding)
{
    *finding = (watchdog_finding){.situation = find(row, before, after)};
    report(row, before, after, finding);
}
