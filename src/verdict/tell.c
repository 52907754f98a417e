/* The verdict in sentences. */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "verdict/request.h"
#include "verdict/verdict_impl.h"

enum { WHAT_BYTES = 224, SITE_BYTES = TESS_HISTORY_TEXT + 8, PHASE_BYTES = 96 };

void verdict_add_line(tess_verdict *verdict, const char *format, ...)
{
    if (verdict->n_lines == TESS_VERDICT_MAX_LINES)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(verdict->lines[verdict->n_lines++], sizeof(verdict->lines[0]), format, arguments);
    va_end(arguments);
}

static bool has_several_hosts(const tess_history *history)
{
    const char *first = NULL;
    for (int r = 0; r < history->world; r++) {
        const char *host = history->ranks[r].host;
        if (host[0] == '\0')
            continue;
        if (first != NULL && strncmp(first, host, sizeof(history->ranks[r].host)) != 0)
            return true;
        first = host;
    }
    return false;
}

void verdict_name_rank(const tess_history *history, int rank, tess_words *words)
{
    tess_words_add(words, "rank %d", rank);
    if (has_several_hosts(history) && history->ranks[rank].host[0] != '\0')
        tess_words_add(words, " on host %.*s", TESS_HISTORY_TEXT - 1, history->ranks[rank].host);
}

static void name_ranks(const verdict_search *search, const int *ranks, int n, tess_words *words)
{
    if (n == 1)
        verdict_name_rank(search->history, ranks[0], words);
    else
        tess_words_ranks(words, ranks, n);
}

/* ---- What became of one rank ---------------------------------------------------------------------------------------
 */
static void say_signal(const tess_rank_history *rank, tess_words *words)
{
    const char *name = rank->signal > 0 ? sigabbrev_np(rank->signal) : NULL;
    if (rank->signal != 0)
        tess_words_add(words, " by signal %d (SIG%s)", rank->signal, name != NULL ? name : "?");
}

static void say_situation(const tess_rank_history *rank, tess_words *words)
{
    switch (verdict_situation(rank)) {
    case TESS_RANK_CRASHED:
    case TESS_RANK_KILLED:
        tess_words_add(words, " was killed");
        say_signal(rank, words);
        break;
    case TESS_RANK_OOM_KILLED:
        tess_words_add(words, " was killed by the system for lack of memory");
        break;
    case TESS_RANK_EXITED:
        tess_words_add(words, " exited with code %d", rank->exit_code);
        break;
    case TESS_RANK_HOST_LOST:
        tess_words_add(words, " was lost with its host");
        break;
    case TESS_RANK_LEFT:
        tess_words_add(words, " has left the job in good order");
        break;
    case TESS_RANK_STOPPED:
        tess_words_add(words, " is stopped (a signal such as SIGSTOP, or a debugger)");
        break;
    case TESS_RANK_BLOCKED_IN_IO:
        tess_words_add(words, " is blocked in input or output");
        break;
    case TESS_RANK_LOADING_DATA:
        tess_words_add(words, " still loads data");
        break;
    case TESS_RANK_SLEEPING:
        tess_words_add(words, " sleeps in its own code");
        break;
    case TESS_RANK_COMPUTING:
        tess_words_add(words, " computes");
        break;
    case TESS_RANK_NOT_JOINED:
        tess_words_add(words, " has not joined the job");
        break;
    default:
        tess_words_add(words, " broke off");
    }
}

/* "in X" while it goes on, "after X" when it is done, with the phase. */
static void say_last(const verdict_search *search, const tess_record *record, tess_words *words)
{
    char what[WHAT_BYTES], phase[PHASE_BYTES];
    if (record->op == TESS_TRACE_NONE)
        return;
    tess_words_add(words, " %s %s%s", record->state == TESS_TRACE_COMPLETED ? "after" : "in",
                   tess_request_format(search->history, record, what, sizeof(what)),
                   tess_request_phase(record, phase, sizeof(phase)));
}

static void say_waiters(const verdict_search *search, tess_words *words)
{
    const tess_verdict *verdict = search->verdict;
    char what[WHAT_BYTES];
    if (verdict->n_waiting == 0)
        return;
    tess_words_add(words, "; ");
    tess_words_ranks(words, verdict->waiting, verdict->n_waiting);
    tess_words_add(words, " wait%s for %s", verdict->n_waiting == 1 ? "s" : "", verdict->n_ranks == 1 ? "it" : "them");
    if (verdict->record.op != TESS_TRACE_NONE)
        tess_words_add(words, " in %s", tess_request_format(search->history, &verdict->record, what, sizeof(what)));
    if (verdict->waited_s >= 0.05)
        tess_words_add(words, ", for %.1f s", verdict->waited_s);
}

/* Of a rank that just does not come, the others' wait is what is known best. */
static void tell_missing(const verdict_search *search, tess_words *words)
{
    const tess_verdict *verdict = search->verdict;
    char what[WHAT_BYTES];
    name_ranks(search, verdict->ranks, verdict->n_ranks, words);
    if (verdict->n_waiting > 0) {
        tess_words_add(words, " keep%s ", verdict->n_ranks == 1 ? "s" : "");
        tess_words_ranks(words, verdict->waiting, verdict->n_waiting);
        tess_words_add(words, " waiting in %s",
                       tess_request_format(search->history, &verdict->record, what, sizeof(what)));
        if (verdict->waited_s >= 0.05)
            tess_words_add(words, " for %.1f s", verdict->waited_s);
        tess_words_add(words, verdict->n_ranks == 1 ? "; it" : "; the first of them");
    }
    if (!search->history->ranks[verdict->ranks[0]].present)
        tess_words_add(words, " has left no record of itself");
    else if (verdict->odd.op == TESS_TRACE_NONE)
        tess_words_add(words, " has done no operation yet");
    else
        tess_words_add(words, " is");
    say_last(search, &verdict->odd, words);
}

static void tell_absence(const verdict_search *search, tess_words *words)
{
    const tess_verdict *verdict = search->verdict;
    if (verdict->kind == TESS_VERDICT_MISSING) {
        tell_missing(search, words);
        return;
    }
    name_ranks(search, verdict->ranks, verdict->n_ranks, words);
    say_situation(&search->history->ranks[verdict->ranks[0]], words);
    say_last(search, &verdict->odd, words);
    say_waiters(search, words);
}

static void tell_error(const verdict_search *search, tess_words *words)
{
    const tess_verdict *verdict = search->verdict;
    const tess_rank_history *rank = &search->history->ranks[verdict->ranks[0]];
    name_ranks(search, verdict->ranks, verdict->n_ranks, words);
    if (verdict->kind == TESS_VERDICT_FAILED)
        tess_words_add(words, " ended by an error of its own");
    tess_words_add(words, ": %.300s", rank->error);
    say_waiters(search, words);
}

/* ---- What ranks asked for ------------------------------------------------------------------------------------------
 */
static void say_request(const verdict_search *search, const tess_record *record, tess_words *words)
{
    char what[WHAT_BYTES];
    tess_words_add(words, "%s", tess_request_format(search->history, record, what, sizeof(what)));
}

static void tell_slip(const verdict_search *search, tess_words *words)
{
    const tess_verdict *verdict = search->verdict;
    int n = verdict->n_operations;
    bool slipped = verdict->kind == TESS_VERDICT_SKIPPED || verdict->kind == TESS_VERDICT_EXTRA;
    if (slipped && n == 0) {
        tess_words_add(words, " %s at step %lld when ", verdict->n_ranks == 1 ? "was" : "were",
                       (long long)verdict->odd.step);
        tess_words_ranks(words, verdict->waiting, verdict->n_waiting);
        tess_words_add(words, " %s at step %lld, first in ", verdict->n_waiting == 1 ? "was" : "were",
                       (long long)verdict->record.step);
        say_request(search, &verdict->odd, words);
        tess_words_add(words, verdict->kind == TESS_VERDICT_SKIPPED ? ": it skipped the operations of a step"
                                                                    : ": it did the operations of a step twice");
    } else if (verdict->kind == TESS_VERDICT_SKIPPED) {
        tess_words_add(words, " skipped ");
        if (n > 1)
            tess_words_add(words, "%d operations from ", n);
        say_request(search, &verdict->record, words);
        tess_words_add(words, n > 1 ? " on" : "");
    } else if (verdict->kind == TESS_VERDICT_EXTRA) {
        tess_words_add(words, " called ");
        say_request(search, &verdict->odd, words);
        tess_words_add(words, n > 1 ? " and %d more, which nobody else did" : ", which nobody else did", n - 1);
    } else if (verdict->kind == TESS_VERDICT_ORDER) {
        tess_words_add(words, " swapped two operations: it called ");
        say_request(search, &verdict->odd, words);
        tess_words_add(words, " before ");
        say_request(search, &verdict->record, words);
    } else {
        tess_words_add(words, " called ");
        say_request(search, &verdict->odd, words);
        tess_words_add(words, verdict->kind == TESS_VERDICT_MISMATCH_TEAM ? ", on the wrong team: " : ", but ");
        tess_words_ranks(words, verdict->waiting, verdict->n_waiting);
        tess_words_add(words, " called ");
        say_request(search, &verdict->record, words);
    }
}

static void say_both(const verdict_search *search, tess_words *words)
{
    const tess_verdict *verdict = search->verdict;
    tess_words_ranks(words, verdict->ranks, verdict->n_ranks);
    tess_words_add(words, " called ");
    say_request(search, &verdict->odd, words);
    tess_words_add(words, ", ");
    tess_words_ranks(words, verdict->waiting, verdict->n_waiting);
    tess_words_add(words, " called ");
    say_request(search, &verdict->record, words);
}

static const char *slip_in_words(tess_verdict_kind kind)
{
    switch (kind) {
    case TESS_VERDICT_SKIPPED:
        return " (one of them skipped an operation, or the other did one too many)";
    case TESS_VERDICT_EXTRA:
        return " (one of them did an operation too many, or the other skipped it)";
    case TESS_VERDICT_ORDER:
        return " (one of them swapped two operations)";
    case TESS_VERDICT_MISMATCH_TEAM:
        return " (one of them took the wrong team)";
    default:
        return "";
    }
}

static void tell_disagreement(const verdict_search *search, tess_words *words)
{
    const tess_verdict *verdict = search->verdict;
    char phase[PHASE_BYTES];
    if (verdict->tie) {
        tess_words_add(words, "ranks disagree, a tie: ");
        say_both(search, words);
        tess_words_add(words, "%s", slip_in_words(verdict->kind));
        return;
    }
    name_ranks(search, verdict->ranks, verdict->n_ranks, words);
    tell_slip(search, words);
    tess_words_add(words, "%s", tess_request_phase(&verdict->odd, phase, sizeof(phase)));
}

static void tell_message(const verdict_search *search, tess_words *words)
{
    const tess_verdict *verdict = search->verdict;
    bool lacks = verdict->odd.op == TESS_TRACE_NONE || verdict->record.op == verdict->odd.op;
    if (verdict->tie)
        tess_words_add(words, "rank %d and rank %d disagree about a message, a tie: ", verdict->ranks[0],
                       verdict->waiting[0]);
    else
        name_ranks(search, verdict->ranks, 1, words);
    if (!verdict->tie && !lacks) {
        tess_words_add(words, " called ");
        say_request(search, &verdict->odd, words);
        tess_words_add(words, ", but rank %d called ", verdict->waiting[0]);
        say_request(search, &verdict->record, words);
    } else if (!verdict->tie && verdict->odd.op == TESS_TRACE_NONE) {
        tess_words_add(words, " lacks the other side of ");
        say_request(search, &verdict->record, words);
        tess_words_add(words, " of rank %d", verdict->waiting[0]);
    } else if (lacks) {
        tess_words_add(words, verdict->tie ? "" : " called ");
        say_request(search, &verdict->record, words);
        tess_words_add(words, " has no other side");
    } else {
        say_both(search, words);
    }
}

static void tell_circle(const verdict_search *search, tess_words *words)
{
    const tess_verdict *verdict = search->verdict;
    name_ranks(search, verdict->ranks, verdict->n_ranks, words);
    if (verdict->n_waiting == 0) {
        tess_words_add(words, " wait for each other in a circle, for %.1f s", verdict->waited_s);
        return;
    }
    tess_words_add(words, " went to ");
    say_request(search, &verdict->odd, words);
    tess_words_add(words, " first, ");
    tess_words_ranks(words, verdict->waiting, verdict->n_waiting);
    tess_words_add(words, " to ");
    say_request(search, &verdict->record, words);
    tess_words_add(words, ": they wait for each other%s", verdict->tie ? " (a tie)" : "");
}

/* ---- Evidence ------------------------------------------------------------------------------------------------------
 */
static bool is_absence(tess_verdict_kind kind)
{
    return kind >= TESS_VERDICT_LOST && kind <= TESS_VERDICT_MISSING;
}

static void add_site_line(tess_verdict *verdict, const char *who, const tess_record *record)
{
    char site[SITE_BYTES];
    if (record->op != TESS_TRACE_NONE && tess_request_site(record, site, sizeof(site))[0] != '\0')
        verdict_add_line(verdict, "%s called %s #%llu at %s", who, tess_trace_op_name(record->op),
                         (unsigned long long)record->sequence, site);
}

static void add_absence_lines(verdict_search *search)
{
    enum { MOST_TOLD = 4 };
    tess_verdict *verdict = search->verdict;
    for (int i = 0; i < verdict->n_ranks && i < MOST_TOLD; i++) {
        const tess_rank_history *rank = &search->history->ranks[verdict->ranks[i]];
        if (rank->why[0] != '\0')
            verdict_add_line(verdict, "rank %d: %.*s", verdict->ranks[i], TESS_HISTORY_LONG_TEXT - 1, rank->why);
        if (rank->error[0] != '\0')
            verdict_add_line(verdict, "rank %d says: %.200s", verdict->ranks[i], rank->error);
        if (rank->n_spans > 0) {
            const tess_span *span = &rank->spans[rank->n_spans - 1];
            verdict_add_line(verdict, "rank %d was last seen in phase '%.*s' of step %lld", verdict->ranks[i],
                             TESS_TRACE_PHASE_BYTES, span->phase, (long long)span->step);
        }
    }
    add_site_line(verdict, "who waits", &verdict->record);
    add_site_line(verdict, verdict->n_ranks == 1 ? "it last" : "the first of them last", &verdict->odd);
}

/* Equal requests from different lines of the program: honest under `if rank == 0`, or the way to a mistake. */
static void add_site_hint(verdict_search *search)
{
    tess_verdict *verdict = search->verdict;
    const tess_team_view *team = tess_view_team(&search->view, verdict->record.team);
    if (team == NULL || !is_absence(verdict->kind) || verdict->record.op == TESS_TRACE_NONE)
        return;
    for (int i = 0; i < team->team->n_ranks; i++) {
        const tess_record *other = tess_member_at(&team->members[i], verdict->record.sequence);
        char site[SITE_BYTES];
        if (other == NULL || tess_request_same_site(other, &verdict->record))
            continue;
        verdict_add_line(verdict, "hint: rank %d came there from another line of the program, %s",
                         team->members[i].rank, tess_request_site(other, site, sizeof(site)));
        return;
    }
}

static void tell_undecided(const verdict_search *search, tess_words *words)
{
    int n_open = 0, n_stuck = 0, n_absent = 0;
    for (int r = 0; r < search->history->world; r++) {
        n_absent += !search->history->ranks[r].present;
        n_open += verdict_waits_for_somebody(search, r);
        n_stuck += verdict_is_stuck(search, r);
    }
    tess_words_add(words, "the records do not say who is to blame");
    if (n_absent > 0)
        tess_words_add(words, "; %d rank%s left none", n_absent, n_absent == 1 ? "" : "s");
    if (n_stuck > 0)
        tess_words_add(words, "; %d rank%s in an operation for longer than %.2g s, to which all have come", n_stuck,
                       n_stuck == 1 ? " is" : "s are", search->patience_s);
    else if (n_open > 0)
        tess_words_add(words, "; %d rank%s waited for others, for less than %.2g s", n_open, n_open == 1 ? "" : "s",
                       search->patience_s);
}

void verdict_tell(verdict_search *search)
{
    tess_verdict *verdict = search->verdict;
    tess_words words = tess_words_begin(verdict->headline, sizeof(verdict->headline));
    if (is_absence(verdict->kind))
        tell_absence(search, &words);
    else if (verdict->kind == TESS_VERDICT_NUMBERS || verdict->kind == TESS_VERDICT_FAILED)
        tell_error(search, &words);
    else if (verdict->kind == TESS_VERDICT_MESSAGE)
        tell_message(search, &words);
    else if (verdict->kind == TESS_VERDICT_DEADLOCK)
        tell_circle(search, &words);
    else if (verdict->kind == TESS_VERDICT_UNDECIDED)
        tell_undecided(search, &words);
    else if (verdict->kind == TESS_VERDICT_FINISHED)
        tess_words_add(&words, "all ranks ended in good order");
    else if (verdict->kind == TESS_VERDICT_HEALTHY)
        tess_words_add(&words, "no rank keeps others waiting for longer than %.2g s", search->patience_s);
    else
        tell_disagreement(search, &words);
    if (is_absence(verdict->kind))
        add_absence_lines(search);
    add_site_hint(search);
    snprintf(verdict->fix, sizeof(verdict->fix), "%s", verdict_advice(search));
}
