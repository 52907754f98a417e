/* Formats parts of a snapshot as texts of `tessera top`. */
#include "doctor/top/top_facts.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "trace/label.h"

const char *tess_top_bytes(double bytes, char *text, size_t size)
{
    static const char units[] = "BKMGTP";
    int unit = 0;
    while (bytes >= 1000 && unit < 5) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, size, unit > 0 && bytes < 9.95 ? "%.1f%c" : "%.0f%c", bytes, units[unit]);
    return text;
}

const char *tess_top_seconds(double seconds, char *text, size_t size)
{
    double s = fmin(fmax(seconds, 0), 99.0 * 86400);
    long whole = (long)s;
    if (s < 9.995)
        snprintf(text, size, "%.2fs", s);
    else if (s < 99.95)
        snprintf(text, size, "%.1fs", s);
    else if (whole < 3600)
        snprintf(text, size, "%ldm%02lds", whole / 60, whole % 60);
    else if (whole < 100 * 3600)
        snprintf(text, size, "%ldh%02ldm", whole / 3600, whole / 60 % 60);
    else
        snprintf(text, size, "%ldd%02ldh", whole / 86400, whole / 3600 % 24);
    return text;
}

static const char *process_word(char state)
{
    static const char states[] = "RSDTtZX";
    static const char *const words[] = {"runs", "sleeps", "in I/O", "stopped", "stopped", "zombie", "zombie"};
    const char *at = state != '\0' ? strchr(states, state) : NULL;
    return at != NULL ? words[at - states] : "?";
}

const char *tess_top_state(const tess_top_rank *rank, char *text, size_t size)
{
    const tess_board_copy *b = &rank->board;
    char process = rank->process != '\0' ? rank->process : (char)b->run_state;
    const char *signal_name = b->signal > 0 ? sigabbrev_np(b->signal) : NULL;
    if (b->state == JOB_RANK_ABSENT)
        snprintf(text, size, "absent");
    else if (b->state == JOB_RANK_LEFT)
        snprintf(text, size, "left");
    else if (b->state == JOB_RANK_GONE)
        snprintf(text, size, "exited");
    else if (b->state == JOB_RANK_LOST && signal_name != NULL)
        snprintf(text, size, "SIG%s", signal_name);
    else if (b->state == JOB_RANK_LOST && b->exit_code != 0)
        snprintf(text, size, "exit %d", b->exit_code);
    else if (b->state != JOB_RANK_JOINED)
        snprintf(text, size, "lost");
    else if ((process == 'S' || process == 'R') && b->wait_age_ns > 0)
        snprintf(text, size, "waits");
    else
        snprintf(text, size, "%s", process_word(process));
    return text;
}

const char *tess_top_phase(const tess_top_rank *rank, char *text, size_t size)
{
    if (rank->board.detail >= 0)
        snprintf(text, size, "%s %lld", rank->board.phase, (long long)rank->board.detail);
    else
        snprintf(text, size, "%s", rank->board.phase);
    return text;
}

const char *tess_top_pools(const tess_top_rank *rank, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        char bytes[16];
        if (rank->board.pool_bytes[pool] == 0 || at + 16 > size)
            continue;
        at = tess_text_add(text, size, at, "%s%.3s %s", at > 0 ? " " : "", tess_pool_name((tess_pool)pool),
                           tess_top_bytes((double)rank->board.pool_bytes[pool], bytes, sizeof(bytes)));
    }
    char bytes[16];
    if (rank->board.disk_bytes > 0 && at + 24 <= size)
        tess_text_add(text, size, at, "%son disk %s", at > 0 ? "; " : "",
                      tess_top_bytes((double)rank->board.disk_bytes, bytes, sizeof(bytes)));
    return text;
}

const char *tess_top_operation(const tess_fingerprint *op, const char *team, char *text, size_t size)
{
    char label[32];
    tess_label_text(op->label, label, sizeof(label));
    snprintf(text, size, "%s #%llu of '%s'%s%s", tess_trace_op_name(op->kind), (unsigned long long)op->sequence, team,
             label[0] != '\0' ? ", " : "", label);
    return text;
}

const char *tess_top_why(const tess_top_rank *rank, char *text, size_t size)
{
    char state[32], phase[64];
    if (rank->board.why[0] != '\0')
        snprintf(text, size, "%s", rank->board.why);
    else
        snprintf(text, size, "%s%s%s", tess_top_state(rank, state, sizeof(state)),
                 rank->board.phase[0] != '\0' ? ", in " : "", tess_top_phase(rank, phase, sizeof(phase)));
    return text;
}

static void describe_loss(const tess_top_snapshot *s, int number, char *text, size_t size)
{
    const tess_top_rank *rank = &s->ranks[number];
    char state[32], where[160] = "", phase[64] = "";
    tess_top_state(rank, state, sizeof(state));
    if (rank->board.op.kind != TESS_TRACE_NONE)
        tess_top_operation(&rank->board.op, rank->board.op_team, where, sizeof(where));
    if (rank->board.phase[0] != '\0')
        snprintf(phase, sizeof(phase), ", in phase '%s' of step %lld", rank->board.phase, (long long)rank->board.step);
    snprintf(text, size, "rank %d: %s%s%s%s%s%s", number, state,
             where[0] == '\0'                               ? ""
             : rank->board.op_state == TESS_TRACE_COMPLETED ? " after "
                                                            : " in ",
             where, phase, rank->board.error[0] != '\0' ? ": " : "", rank->board.error);
}

const char *tess_top_ending(const tess_top_snapshot *s, char *text, size_t size)
{
    int n_left = 0;
    text[0] = '\0';
    for (int r = 0; r < s->world; r++)
        n_left += s->ranks[r].board.state == JOB_RANK_LEFT;
    if (s->cause >= 0)
        describe_loss(s, s->cause, text, size);
    else if (!s->running && n_left == s->world)
        snprintf(text, size, "the job has ended in good order");
    else if (!s->running)
        snprintf(text, size, "the job is gone: process %d ended while %d of %d ranks had not left it", s->pid,
                 s->world - n_left, s->world);
    return text;
}
