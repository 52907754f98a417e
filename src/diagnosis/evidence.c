/* Formats situations of ranks, lists of ranks with their names, and lines of evidence. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "diagnosis/request.h"
#include "diagnosis/diagnosis_impl.h"

tess_situation diagnosis_situation(const tess_rank_history *rank)
{
    if (rank->asked && (tess_end_is_bad(rank->situation) || rank->situation == TESS_RANK_LEFT))
        return TESS_RANK_UNKNOWN;
    if (rank->situation != TESS_RANK_WELL && rank->situation != TESS_RANK_UNKNOWN)
        return rank->situation;
    if (!rank->ended || rank->asked)
        return rank->situation;
    return tess_end_how(rank->signal, rank->exit_code);
}

int diagnosis_take_marked(diagnosis_search *search, int *list)
{
    int n = 0;
    for (int r = 0; r < search->history->world; r++) {
        if (search->mark[r])
            list[n++] = r;
        search->mark[r] = false;
    }
    return n;
}

bool diagnosis_is_absence(tess_diagnosis_kind kind)
{
    return kind >= TESS_DIAGNOSIS_LOST && kind <= TESS_DIAGNOSIS_MISSING;
}

void diagnosis_add_line(tess_diagnosis *diagnosis, const char *format, ...)
{
    if (diagnosis->n_lines == TESS_DIAGNOSIS_MAX_LINES)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(diagnosis->lines[diagnosis->n_lines++], sizeof(diagnosis->lines[0]), format, arguments);
    va_end(arguments);
}

void diagnosis_add_call(const diagnosis_search *search, const char *who, const tess_record *record)
{
    char what[192], site[TESS_REQUEST_SITE_BYTES];
    tess_request_format_whole(search->history, record, what, sizeof(what));
    tess_request_site(record, site, sizeof(site));
    diagnosis_add_line(search->diagnosis, "%s %s%s%s", who, what, site[0] != '\0' ? ", at " : "", site);
}

bool diagnosis_has_several_hosts(const tess_history *history)
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

void diagnosis_name_ranks(const diagnosis_search *search, const int *ranks, int n, tess_sentence *words)
{
    const char *host = search->history->ranks[ranks[0]].host;
    tess_sentence_ranks(words, ranks, n);
    if (n == 1 && host[0] != '\0' && diagnosis_has_several_hosts(search->history))
        tess_sentence_add(words, " on host %.*s", TESS_HISTORY_TEXT - 1, host);
}
