/* What is told with the verdict: the sentence, the evidence, what to do. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "verdict/request.h"
#include "verdict/verdict_impl.h"

enum { SITE_BYTES = TESS_HISTORY_TEXT + 8 };

void verdict_add_line(tess_verdict *verdict, const char *format, ...)
{
    if (verdict->n_lines == TESS_VERDICT_MAX_LINES)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(verdict->lines[verdict->n_lines++], sizeof(verdict->lines[0]), format, arguments);
    va_end(arguments);
}

bool verdict_is_absence(tess_verdict_kind kind)
{
    return kind >= TESS_VERDICT_LOST && kind <= TESS_VERDICT_MISSING;
}

void verdict_add_call(const verdict_search *search, const char *who, const tess_record *record)
{
    char what[192], site[SITE_BYTES];
    tess_request_format_whole(search->history, record, what, sizeof(what));
    tess_request_site(record, site, sizeof(site));
    verdict_add_line(search->verdict, "%s %s%s%s", who, what, site[0] != '\0' ? ", at " : "", site);
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
        if (i > 0 && rank->n_spans > 0) { /* the headline says it of the first */
            const tess_span *span = &rank->spans[rank->n_spans - 1];
            verdict_add_line(verdict, "rank %d was last seen in phase '%.*s' of step %lld", verdict->ranks[i],
                             TESS_TRACE_PHASE_BYTES, span->phase, (long long)span->step);
        }
    }
    add_site_line(verdict, "who waits", &verdict->record);
    add_site_line(verdict, verdict->n_ranks == 1 ? "it last" : "the first of them last", &verdict->odd);
}

void verdict_tell(verdict_search *search)
{
    tess_verdict *verdict = search->verdict;
    tess_words words = tess_words_begin(verdict->headline, sizeof(verdict->headline));
    verdict_say(search, &words);
    if (verdict_is_absence(verdict->kind))
        add_absence_lines(search);
    add_site_hint(search);
    snprintf(verdict->fix, sizeof(verdict->fix), "%s", verdict_advice(search));
}
