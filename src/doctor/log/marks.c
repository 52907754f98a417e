/* Reads marks, which every rank prints at the same place of the program, and finds the ranks that are not where most
 * others are. */
#include "doctor/log/log_impl.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "diagnosis/progress.h"

#define LOG_MARK_RANK "{rank}"

bool log_mark_is_list(const char *words)
{
    size_t n = strlen(words);
    return n > 0 && words[n - 1] == '[';
}

/* Skips blanks, then reads a number of up to 15 digits. Returns false if there is none. */
static bool take_number(const char *line, size_t size, size_t *at, int64_t *number)
{
    while (*at < size && (line[*at] == ' ' || line[*at] == '='))
        ++*at;
    size_t begin = *at;
    for (*number = 0; *at < size && *at < begin + 15 && isdigit((unsigned char)line[*at]); ++*at)
        *number = *number * 10 + (line[*at] - '0');
    return *at > begin;
}

/* Reads a list of numbers. A list that does not end is ignored, because a number's index is its rank. */
static int take_list(const char *line, size_t size, size_t at, int64_t *numbers)
{
    for (int n = 0; n < LOG_MOST_LISTED; at++) {
        if (!take_number(line, size, &at, &numbers[n]) || at == size)
            return 0;
        n++;
        if (line[at] == ']')
            return n;
        if (line[at] != ',')
            return 0;
    }
    return 0;
}

int log_parse_mark(const char *words, const char *line, size_t size, int64_t *numbers, int *rank)
{
    const char *place = strstr(words, LOG_MARK_RANK);
    size_t n = place != NULL ? (size_t)(place - words) : strlen(words), at = 0;
    while (at + n <= size && strncasecmp(line + at, words, n) != 0)
        at++;
    if (at + n > size)
        return -1;
    at += n;
    if (place != NULL) {
        int64_t number;
        const char *rest = place + strlen(LOG_MARK_RANK);
        n = strlen(rest);
        if (!take_number(line, size, &at, &number) || number >= LOG_MOST_RANKS || at + n > size ||
            strncasecmp(line + at, rest, n) != 0)
            return -1;
        *rank = *rank < 0 ? (int)number : *rank;
        at += n;
    }
    if (log_mark_is_list(words))
        return take_list(line, size, at, numbers);
    return take_number(line, size, &at, numbers);
}

/* ---- Ranks that are behind ---- */
typedef struct log_mark {
    const tess_survey *survey;
    const log_match *match;
    int64_t most; /* largest element of came[] */
} log_mark;

static int64_t came_to(const log_mark *m, int rank)
{
    return rank < m->match->n_came ? m->match->came[rank] : 0;
}

static bool is_there(const void *mark_, int rank)
{
    const log_mark *m = mark_;
    return came_to(m, rank) == m->most;
}

static bool is_behind(const void *mark_, int rank)
{
    return !is_there(mark_, rank);
}

static bool is_unseen(const void *mark_, int rank)
{
    const log_mark *m = mark_;
    return came_to(m, rank) == 0 && (rank >= m->survey->n_ranks || !m->survey->ranks[rank].seen);
}

/* Describes the mark that `rank` reached: "\"Entering barrier at step 120\"", "100 (\"Progress mismatch\")",
 * "\"Entering barrier\" for the 3rd time". */
static void name_mark(const log_mark *m, const char *words, int rank, char *text, size_t size)
{
    char said[160];
    const char *place = strstr(words, LOG_MARK_RANK);
    if (place != NULL) {
        snprintf(said, sizeof(said), "%.*s%d%s", (int)(place - words), words, rank, place + strlen(LOG_MARK_RANK));
        words = said;
    }
    size_t n = strlen(words);
    while (n > 0 && strchr(" :=[", words[n - 1]) != NULL)
        n--;
    if (log_mark_is_list(words))
        snprintf(text, size, "%" PRId64 " (\"%.*s\")", m->most - 1, (int)n, words);
    else if (m->match->n_counted > 0)
        snprintf(text, size, "\"%.*s\" number %" PRId64, (int)n, words, m->most);
    else
        snprintf(text, size, "\"%.*s %" PRId64 "\"", (int)n, words, m->most - 1);
}

static void report_behind(const log_mark *m, int n_ranks, const char *words, log_behind *out)
{
    char who[120], others[120], mark[160];
    tess_fields fields = {.n = 0};
    bool unseen = log_count_ranks(is_unseen, m, n_ranks) > 0;
    name_mark(m, words, out->culprit[0], mark, sizeof(mark));
    int64_t own = came_to(m, out->culprit[0]);
    tess_fields_put(&fields, "culprits", 1, "%s", log_name_ranks(is_behind, m, n_ranks, who, sizeof(who)));
    tess_fields_put(&fields, "mark", 1, "%s", mark);
    tess_fields_put(&fields, "others", 1, "%s", log_name_ranks(is_there, m, n_ranks, others, sizeof(others)));
    if (out->n_culprits == 1 && own > 0)
        tess_fields_put(&fields, "last", 1, "%" PRId64, m->match->n_counted > 0 ? own : own - 1);
    tess_fields_put(&fields, "doubt", 1, "%s", unseen ? " (unless its log was not given)" : "");
    tess_sentence text = tess_sentence_begin(out->text, sizeof(out->text));
    tess_sentence_report(&text, TESS_REPORT_BEHIND, &fields);
}

static bool find_in(const tess_survey *s, int entry, int n_ranks, log_behind *out)
{
    log_mark m = {.survey = s, .match = &s->matches[entry]};
    if (!tess_progress_behind(m.match->came, m.match->n_came, n_ranks, &m.most))
        return false;
    *out = (log_behind){.entry = entry};
    for (int r = 0; r < n_ranks && out->n_culprits < TESS_LOG_MOST_CULPRITS; r++)
        if (is_behind(&m, r))
            out->culprit[out->n_culprits++] = r;
    report_behind(&m, n_ranks, tess_knowledge_at(s->knowledge, entry)->reached, out);
    return true;
}

bool log_find_behind(const tess_survey *survey, int n_ranks, log_behind *behind)
{
    for (int i = 0; i < tess_knowledge_n(survey->knowledge); i++)
        if (survey->matches[i].n_came > 0 && find_in(survey, i, n_ranks, behind))
            return true;
    return false;
}
