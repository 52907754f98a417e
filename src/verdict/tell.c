/* The verdict in sentences. */
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

void verdict_name_ranks(const verdict_search *search, const int *ranks, int n, tess_words *words)
{
    if (n == 1)
        verdict_name_rank(search->history, ranks[0], words);
    else
        tess_words_ranks(words, ranks, n);
}

/* ---- Errors ---------------------------------------------------------------------------------------------------------
 */
/* In the words of one of those who found it. */
static void tell_finding(const verdict_search *search, tess_words *words)
{
    const char *error = search->history->ranks[search->witness].error;
    int n = 0;
    for (int r = 0; r < search->history->world; r++)
        if (strcmp(search->history->ranks[r].error, error) == 0)
            search->queue[n++] = r;
    tess_words_ranks(words, search->queue, n);
    tess_words_add(words, " found together, and it is not known whose fault it is: %.300s", error);
}

static void tell_error(const verdict_search *search, tess_words *words)
{
    const tess_verdict *verdict = search->verdict;
    if (verdict->n_ranks == 0) {
        tell_finding(search, words);
        return;
    }
    verdict_name_ranks(search, verdict->ranks, verdict->n_ranks, words);
    if (verdict->kind == TESS_VERDICT_FAILED)
        tess_words_add(words, verdict->n_ranks == 1 ? " ended by an error of its own" : " ended by the same error");
    tess_words_add(words, ": %.300s", search->history->ranks[verdict->ranks[0]].error);
    verdict_say_waiters(search, words);
}

/* ---- What ranks asked for ------------------------------------------------------------------------------------------
 */
static void say_request(const verdict_search *search, const tess_record *record, tess_words *words)
{
    char what[WHAT_BYTES];
    tess_words_add(words, "%s", tess_request_format(search->history, record, what, sizeof(what)));
}

/* Two that are alike: which is which only the places tell. */
static void say_places(const verdict_search *search, tess_words *words)
{
    const tess_verdict *verdict = search->verdict;
    char site[SITE_BYTES];
    tess_words_add(words, " swapped two operations that are alike: it called ");
    say_request(search, &verdict->odd, words);
    tess_words_add(words, ", at %s, where ", tess_request_site(&verdict->odd, site, sizeof(site)));
    tess_words_ranks(words, verdict->waiting, verdict->n_waiting);
    tess_words_add(words, " called one at %s", tess_request_site(&verdict->record, site, sizeof(site)));
}

/* Nothing came after it that would show whether the operation was left out or put off. */
static bool may_come_later(const verdict_search *search)
{
    const tess_verdict *verdict = search->verdict;
    const tess_team_view *team = tess_view_team(&search->view, verdict->team);
    const tess_member_view *member = team != NULL ? tess_view_member(team, verdict->ranks[0]) : NULL;
    const tess_record *newest = member != NULL ? tess_member_newest(member) : NULL;
    return verdict->n_operations == 1 && newest != NULL && newest->sequence <= verdict->odd.sequence;
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
        tess_words_add(words, "%s", n > 1 ? " on" : may_come_later(search) ? ", or has put it off" : "");
    } else if (verdict->kind == TESS_VERDICT_EXTRA) {
        tess_words_add(words, " called ");
        say_request(search, &verdict->odd, words);
        tess_words_add(words, n > 1 ? " and %d more, which nobody else did" : ", which nobody else did", n - 1);
    } else if (verdict->kind == TESS_VERDICT_ORDER && tess_request_same(&verdict->odd, &verdict->record)) {
        say_places(search, words);
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

/* Both sides read alike when what differs is how the elements are cut. */
static const char *cut_in_words(const tess_verdict *verdict)
{
    bool alike = verdict->kind == TESS_VERDICT_MISMATCH_COUNT && verdict->odd.count == verdict->record.count;
    return alike ? " (as many elements, in other pieces)" : "";
}

static void tell_disagreement(const verdict_search *search, tess_words *words)
{
    const tess_verdict *verdict = search->verdict;
    char phase[PHASE_BYTES];
    if (verdict->tie) {
        tess_words_add(words, "ranks disagree, a tie: ");
        say_both(search, words);
        tess_words_add(words, "%s%s%s%s", slip_in_words(verdict->kind), cut_in_words(verdict),
                       search->uneven[0] != '\0' ? "; " : "", search->uneven);
        return;
    }
    verdict_name_ranks(search, verdict->ranks, verdict->n_ranks, words);
    tell_slip(search, words);
    tess_words_add(words, "%s%s", cut_in_words(verdict), tess_request_phase(&verdict->odd, phase, sizeof(phase)));
    if (search->uneven[0] != '\0')
        tess_words_add(words, "; %s", search->uneven);
}

static void tell_message(const verdict_search *search, tess_words *words)
{
    const tess_verdict *verdict = search->verdict;
    bool lacks = verdict->odd.op == TESS_TRACE_NONE || verdict->record.op == verdict->odd.op;
    if (verdict->tie)
        tess_words_add(words, "rank %d and rank %d disagree about a message, a tie: ", verdict->ranks[0],
                       verdict->waiting[0]);
    else
        verdict_name_ranks(search, verdict->ranks, 1, words);
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
    verdict_name_ranks(search, verdict->ranks, verdict->n_ranks, words);
    if (verdict->n_waiting == 0) {
        tess_words_add(words, " wait for each other in a circle");
        if (verdict->waited_s >= 0.05)
            tess_words_add(words, ", for %.1f s", verdict->waited_s);
        return;
    }
    tess_words_add(words, " went to ");
    say_request(search, &verdict->odd, words);
    tess_words_add(words, " first, ");
    tess_words_ranks(words, verdict->waiting, verdict->n_waiting);
    tess_words_add(words, " to ");
    say_request(search, &verdict->record, words);
    tess_words_add(words, ": they wait for each other%s%s%s", verdict->tie ? " (a tie)" : "",
                   search->uneven[0] != '\0' ? "; " : "", search->uneven);
}

/* ---- Evidence ------------------------------------------------------------------------------------------------------
 */
/* Equal requests from different lines of the program: honest under `if rank == 0`, or the way to a mistake. */
static void add_site_hint(verdict_search *search)
{
    tess_verdict *verdict = search->verdict;
    const tess_team_view *team = tess_view_team(&search->view, verdict->record.team);
    if (team == NULL || !verdict_is_absence(verdict->kind) || verdict->record.op == TESS_TRACE_NONE)
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

/* In dumps of another framework every wait counts. */
static void tell_patience(const verdict_search *search, tess_words *words)
{
    if (search->patience_s > 0)
        tess_words_add(words, " for longer than %.2g s", search->patience_s);
}

static void tell_healthy(const verdict_search *search, tess_words *words)
{
    tess_words_add(words, "no rank keeps others waiting");
    tell_patience(search, words);
}

static void tell_undecided(const verdict_search *search, tess_words *words)
{
    int n_open = 0, n_stuck = 0, n_absent = 0;
    for (int r = 0; r < search->history->world; r++) {
        n_absent += !search->history->ranks[r].present;
        n_open += verdict_waits_for_somebody(search, r);
        n_stuck += verdict_is_stuck(search, r);
    }
    if (n_absent + n_open + n_stuck == 0 && search->history->source == TESS_HISTORY_RINGS) {
        tess_words_add(words, "the records end in the middle of the work and do not say why: killed with whoever "
                              "would have told of it (a crash of a job of one rank, kill -9, power), or the job still "
                              "runs, on another machine");
        return;
    }
    tess_words_add(words, "the records do not say who is to blame");
    if (n_absent > 0)
        tess_words_add(words, "; %d rank%s left none", n_absent, n_absent == 1 ? "" : "s");
    if (n_stuck > 0) {
        tess_words_add(words, "; %d rank%s in an operation", n_stuck, n_stuck == 1 ? " is" : "s are");
        tell_patience(search, words);
        tess_words_add(words, ", to which all have come");
    } else if (n_open > 0) {
        tess_words_add(words, "; %d rank%s waited for others, for less than %.2g s", n_open, n_open == 1 ? "" : "s",
                       search->patience_s);
    }
}

/* Who was asked to stop ends in good order too, but the job is not done. */
static void tell_finished(const verdict_search *search, tess_words *words)
{
    bool asked = false;
    int64_t step = -1;
    for (int r = 0; r < search->history->world; r++) {
        const tess_rank_history *rank = &search->history->ranks[r];
        int64_t last = rank->n_spans > 0 ? rank->spans[rank->n_spans - 1].step : -1;
        asked |= rank->asked;
        step = last > step ? last : step;
    }
    tess_words_add(words, asked ? "all ranks were asked to stop and did" : "all ranks ended in good order");
    if (asked && step >= 0)
        tess_words_add(words, ", at step %lld", (long long)step);
}

void verdict_tell(verdict_search *search)
{
    tess_verdict *verdict = search->verdict;
    tess_words words = tess_words_begin(verdict->headline, sizeof(verdict->headline));
    if (verdict_is_absence(verdict->kind))
        verdict_tell_absence(search, &words);
    else if (verdict->kind == TESS_VERDICT_NUMBERS || verdict->kind == TESS_VERDICT_FAILED)
        tell_error(search, &words);
    else if (verdict->kind == TESS_VERDICT_MESSAGE)
        tell_message(search, &words);
    else if (verdict->kind == TESS_VERDICT_DEADLOCK)
        tell_circle(search, &words);
    else if (verdict->kind == TESS_VERDICT_UNDECIDED)
        tell_undecided(search, &words);
    else if (verdict->kind == TESS_VERDICT_FINISHED)
        tell_finished(search, &words);
    else if (verdict->kind == TESS_VERDICT_HEALTHY)
        tell_healthy(search, &words);
    else
        tell_disagreement(search, &words);
    if (verdict_is_absence(verdict->kind))
        verdict_add_absence_lines(search);
    add_site_hint(search);
    snprintf(verdict->fix, sizeof(verdict->fix), "%s", verdict_advice(search));
}
