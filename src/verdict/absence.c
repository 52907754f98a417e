/* The sentences about ranks that do not come: what became of them, what they did last and where they are. */
#include <signal.h>
#include <string.h>

#include "verdict/request.h"
#include "verdict/verdict_impl.h"

enum { WHAT_BYTES = 224, SITE_BYTES = TESS_HISTORY_TEXT + 8, PHASE_BYTES = 96 };

bool verdict_is_absence(tess_verdict_kind kind)
{
    return kind >= TESS_VERDICT_LOST && kind <= TESS_VERDICT_MISSING;
}

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

static bool is_elsewhere(tess_situation situation)
{
    return situation == TESS_RANK_SLEEPING || situation == TESS_RANK_COMPUTING || situation == TESS_RANK_LOADING_DATA;
}

/* "after X" when it is done, "in X" while it goes on; "after asking for X" of one that goes on while its rank has gone
 * on to something else. */
static const char *where_in(const tess_rank_history *rank, const tess_record *record)
{
    const tess_span *last = rank->n_spans > 0 ? &rank->spans[rank->n_spans - 1] : NULL;
    if (record->state == TESS_TRACE_COMPLETED)
        return "after";
    bool went_on = last != NULL && last->begin_ns > record->enqueued_ns;
    return went_on || is_elsewhere(verdict_situation(rank)) ? "after asking for" : "in";
}

/* Where the rank is: the phase that it went to last, not that in which it asked for its last operation. */
static const char *own_phase(const tess_rank_history *rank, const tess_record *record, char *text, size_t size)
{
    if (rank->n_spans == 0)
        return tess_request_phase(record, text, size);
    const tess_span *last = &rank->spans[rank->n_spans - 1];
    tess_record here = {.step = last->step, .detail = last->detail};
    memcpy(here.phase, last->phase, sizeof(here.phase));
    return tess_request_phase(&here, text, size);
}

/* What the first of the guilty did last, and its phase. */
static void say_last(const verdict_search *search, tess_words *words)
{
    const tess_record *record = &search->verdict->odd;
    const tess_rank_history *rank = &search->history->ranks[search->verdict->ranks[0]];
    char what[WHAT_BYTES], phase[PHASE_BYTES];
    if (record->op != TESS_TRACE_NONE)
        tess_words_add(words, " %s %s", where_in(rank, record),
                       tess_request_format(search->history, record, what, sizeof(what)));
    tess_words_add(words, "%s", own_phase(rank, record, phase, sizeof(phase)));
}

void verdict_say_waiters(const verdict_search *search, tess_words *words)
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
    verdict_name_ranks(search, verdict->ranks, verdict->n_ranks, words);
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
    say_last(search, words);
}

void verdict_tell_absence(const verdict_search *search, tess_words *words)
{
    const tess_verdict *verdict = search->verdict;
    if (verdict->kind == TESS_VERDICT_MISSING) {
        tell_missing(search, words);
        return;
    }
    verdict_name_ranks(search, verdict->ranks, verdict->n_ranks, words);
    say_situation(&search->history->ranks[verdict->ranks[0]], words);
    say_last(search, words);
    verdict_say_waiters(search, words);
}

static void add_site_line(tess_verdict *verdict, const char *who, const tess_record *record)
{
    char site[SITE_BYTES];
    if (record->op != TESS_TRACE_NONE && tess_request_site(record, site, sizeof(site))[0] != '\0')
        verdict_add_line(verdict, "%s called %s #%llu at %s", who, tess_trace_op_name(record->op),
                         (unsigned long long)record->sequence, site);
}

void verdict_add_absence_lines(verdict_search *search)
{
    enum { MOST_TOLD = 4 };
    tess_verdict *verdict = search->verdict;
    for (int i = 0; i < verdict->n_ranks && i < MOST_TOLD; i++) {
        const tess_rank_history *rank = &search->history->ranks[verdict->ranks[i]];
        if (rank->why[0] != '\0')
            verdict_add_line(verdict, "rank %d: %.*s", verdict->ranks[i], TESS_HISTORY_LONG_TEXT - 1, rank->why);
        if (rank->error[0] != '\0')
            verdict_add_line(verdict, "rank %d says: %.200s", verdict->ranks[i], rank->error);
        if (i > 0 && rank->n_spans > 0) { /* the headline says it of the first */
            const tess_span *span = &rank->spans[rank->n_spans - 1];
            verdict_add_line(verdict, "rank %d was last seen in phase '%.*s' of step %lld", verdict->ranks[i],
                             TESS_TRACE_PHASE_BYTES, span->phase, (long long)span->step);
        }
    }
    add_site_line(verdict, "who waits", &verdict->record);
    add_site_line(verdict, verdict->n_ranks == 1 ? "it last" : "the first of them last", &verdict->odd);
}
