/* Finds the ranks that died or ended with an error, and which of them was the first. */
#include <ctype.h>
#include <string.h>

#include "diagnosis/diagnosis_impl.h"

tess_end diagnosis_end_of(const tess_history *history, int rank)
{
    const tess_rank_history *r = &history->ranks[rank];
    const tess_record *newest = r->n_records > 0 ? &r->records[r->n_records - 1] : NULL;
    int blamed = r->first_error - 1;
    tess_situation how = diagnosis_situation(r);
    return (tess_end){.how = how,
                      .signal = r->signal,
                      .blames = blamed < history->world ? blamed : -1,
                      .gave_up = newest != NULL && newest->state == TESS_TRACE_FAILED,
                      /* the loss of a host is noticed later than it happens */
                      .at_ns = how == TESS_RANK_HOST_LOST ? 0 : r->ended_ns,
                      .last_ns = r->last_ns + (uint64_t)r->clock_offset_ns};
}

static int cause_of(const diagnosis_search *search, int rank)
{
    return tess_ends_cause(search->ends, search->history->world, rank);
}

static bool blames_itself(const diagnosis_search *search, int rank)
{
    return search->ends[rank].blames == rank;
}

static bool blames_another(const diagnosis_search *search, int rank)
{
    return search->ends[rank].blames >= 0 && !blames_itself(search, rank);
}

/* Returns the rank whose bad end came first. Also fills in search->suspect. */
static int find_root(diagnosis_search *search)
{
    for (int r = 0; r < search->history->world; r++) {
        int root = tess_end_is_bad(search->ends[r].how) ? cause_of(search, r) : r;
        if (root != r && !tess_end_is_bad(search->ends[root].how))
            search->suspect = root;
    }
    return tess_ends_first(search->ends, search->history->world, -1);
}

/* Reports the ranks that failed because of the root cause, with the error of the first of them. */
static void report_consequences(diagnosis_search *search, int root)
{
    char who[128];
    int n = 0;
    for (int r = 0; r < search->history->world; r++)
        if (r != root && search->history->ranks[r].error[0] != '\0' && cause_of(search, r) == root)
            search->queue[n++] = r;
    if (n == 0)
        return;
    tess_sentence words = tess_sentence_begin(who, sizeof(who));
    tess_sentence_ranks(&words, search->queue, n);
    diagnosis_add_line(search->diagnosis, "%s failed because of it: %.150s", who,
                       search->history->ranks[search->queue[0]].error);
}

static bool says_the_same(const diagnosis_search *search, int a, int b)
{
    return strcmp(search->history->ranks[a].error, search->history->ranks[b].error) == 0;
}

/* Whether the rank shares the failure of `root`. All ranks of a lost host do, and so do ranks that report the same
 * error and each blame themselves. */
static bool fell_alike(const diagnosis_search *search, int root, int rank)
{
    const tess_rank_history *a = &search->history->ranks[root], *b = &search->history->ranks[rank];
    if (diagnosis_situation(a) == TESS_RANK_HOST_LOST)
        return diagnosis_situation(b) == TESS_RANK_HOST_LOST && strncmp(a->host, b->host, sizeof(a->host)) == 0;
    return a->error[0] != '\0' && blames_itself(search, root) && blames_itself(search, rank) &&
           says_the_same(search, root, rank);
}

/* Whether several ranks report the same error and blame no rank. It then means nothing which of them ended first. */
static bool has_no_culprit(const diagnosis_search *search, int root)
{
    bool shared = false;
    if (search->history->ranks[root].error[0] == '\0' || blames_itself(search, root))
        return false;
    for (int r = 0; r < search->history->world; r++) {
        if (r == root)
            continue;
        if (search->ends[r].blames == root)
            return false;
        shared |= says_the_same(search, r, root);
    }
    return shared;
}

static void blame_nobody(diagnosis_search *search, int witness, tess_diagnosis_kind kind)
{
    search->diagnosis->kind = kind;
    search->diagnosis->tie = true;
    search->witness = witness;
}

static void blame_root(diagnosis_search *search, int root, tess_diagnosis_kind kind)
{
    search->diagnosis->kind = kind;
    for (int r = 0; r < search->history->world; r++)
        search->mark[r] = r == root || fell_alike(search, root, r);
    search->diagnosis->n_ranks = diagnosis_take_marked(search, search->diagnosis->ranks);
    diagnosis_attach_waiters(search);
    report_consequences(search, root);
}

bool diagnosis_find_ending(diagnosis_search *search, bool sure)
{
    int root = find_root(search);
    if (root < 0)
        return false;
    const tess_rank_history *rank = &search->history->ranks[root];
    bool exited = diagnosis_situation(rank) == TESS_RANK_EXITED;
    if (sure && exited && diagnosis_waits_for_somebody(search, root))
        return false;
    tess_diagnosis_kind kind = exited && rank->error[0] != '\0' ? TESS_DIAGNOSIS_FAILED : TESS_DIAGNOSIS_LOST;
    if (exited && has_no_culprit(search, root))
        blame_nobody(search, root, kind);
    else
        blame_root(search, root, kind);
    return true;
}

bool diagnosis_find_suspect(diagnosis_search *search)
{
    if (search->suspect < 0)
        return false;
    blame_root(search, search->suspect, TESS_DIAGNOSIS_MISSING);
    return true;
}

/* ---- Bad numbers ---- */
static bool has_word(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = strcasestr(text, word); at != NULL; at = strcasestr(at + 1, word))
        if ((at == text || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[n]))
            return true;
    return false;
}

static bool is_about_numbers(const char *error)
{
    return has_word(error, "nan") || has_word(error, "inf") || has_word(error, "infinity") ||
           strstr(error, "not finite") != NULL || strstr(error, "non-finite") != NULL ||
           strstr(error, "diverge") != NULL;
}

/* Finds the first rank that reported bad numbers and blamed no other rank. */
bool diagnosis_find_numbers(diagnosis_search *search)
{
    const tess_rank_history *ranks = search->history->ranks;
    int best = -1;
    for (int r = 0; r < search->history->world; r++)
        if (is_about_numbers(ranks[r].error) && !blames_another(search, r) &&
            (best < 0 || tess_end_comes_before(&search->ends[r], &search->ends[best])))
            best = r;
    if (best < 0)
        return false;
    if (has_no_culprit(search, best))
        blame_nobody(search, best, TESS_DIAGNOSIS_NUMBERS);
    else
        blame_root(search, best, TESS_DIAGNOSIS_NUMBERS);
    return true;
}
