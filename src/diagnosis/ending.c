/* Ranks that died or ended with an error, and which of them was the first. */
#include <ctype.h>
#include <string.h>

#include "diagnosis/diagnosis_impl.h"
#include "diagnosis/missed.h"

static bool ended_badly(const diagnosis_search *search, int rank)
{
    return diagnosis_is_death(diagnosis_situation(&search->history->ranks[rank]));
}

/* A crash or kill comes before an exit, then the earlier death before the later, as far as times are known. */
static bool comes_before(const tess_rank_history *a, const tess_rank_history *b)
{
    tess_situation x = diagnosis_situation(a), y = diagnosis_situation(b);
    if ((x == TESS_RANK_EXITED) != (y == TESS_RANK_EXITED))
        return y == TESS_RANK_EXITED;
    if (a->ended_ns != b->ended_ns && a->ended_ns != 0 && b->ended_ns != 0)
        return a->ended_ns < b->ended_ns;
    if (x != y)
        return x < y;
    return a->last_ns + (uint64_t)a->clock_offset_ns < b->last_ns + (uint64_t)b->clock_offset_ns;
}

static int find_root(diagnosis_search *search)
{
    const tess_rank_history *ranks = search->history->ranks;
    int best = -1;
    for (int r = 0; r < search->history->world; r++) {
        if (!ended_badly(search, r))
            continue;
        int root = tess_blame_end(search->blames, r);
        if (!ended_badly(search, root))
            search->suspect = root;
        else if (best < 0 || (root != best && comes_before(&ranks[root], &ranks[best])))
            best = root;
    }
    return best;
}

/* The ranks that failed because of the root, with the error of the first. */
static void report_consequences(diagnosis_search *search, int root)
{
    char who[128];
    int n = 0;
    for (int r = 0; r < search->history->world; r++)
        if (r != root && search->history->ranks[r].error[0] != '\0' && tess_blame_end(search->blames, r) == root)
            search->queue[n++] = r;
    if (n == 0)
        return;
    tess_sentence words = tess_sentence_begin(who, sizeof(who));
    tess_sentence_ranks(&words, search->queue, n);
    diagnosis_add_line(search->diagnosis, "%s failed because of it: %.150s", who,
                       search->history->ranks[search->queue[0]].error);
}

static bool blames_itself(const diagnosis_search *search, int rank)
{
    return search->history->ranks[rank].first_error == 1 + rank;
}

static bool says_the_same(const diagnosis_search *search, int a, int b)
{
    return strcmp(search->history->ranks[a].error, search->history->ranks[b].error) == 0;
}

/* All ranks of a lost host share its failure, and so do ranks that report the same error, each of itself. */
static bool fell_alike(const diagnosis_search *search, int root, int rank)
{
    const tess_rank_history *a = &search->history->ranks[root], *b = &search->history->ranks[rank];
    if (diagnosis_situation(a) == TESS_RANK_HOST_LOST)
        return diagnosis_situation(b) == TESS_RANK_HOST_LOST && strncmp(a->host, b->host, sizeof(a->host)) == 0;
    return a->error[0] != '\0' && blames_itself(search, root) && blames_itself(search, rank) &&
           says_the_same(search, root, rank);
}

/* Several ranks report the same error and blame no rank: which of them ended first means nothing. */
static bool has_no_culprit(const diagnosis_search *search, int root)
{
    bool shared = false;
    if (search->history->ranks[root].error[0] == '\0' || blames_itself(search, root))
        return false;
    for (int r = 0; r < search->history->world; r++) {
        if (r == root)
            continue;
        if (search->blames[r] == root)
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

/* ---- Numbers ---- */
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

/* The first rank that reported bad numbers and blamed no other. */
bool diagnosis_find_numbers(diagnosis_search *search)
{
    const tess_rank_history *ranks = search->history->ranks;
    int best = -1;
    for (int r = 0; r < search->history->world; r++)
        if (is_about_numbers(ranks[r].error) && search->blames[r] < 0 &&
            (best < 0 || comes_before(&ranks[r], &ranks[best])))
            best = r;
    if (best < 0)
        return false;
    if (has_no_culprit(search, best))
        blame_nobody(search, best, TESS_DIAGNOSIS_NUMBERS);
    else
        blame_root(search, best, TESS_DIAGNOSIS_NUMBERS);
    return true;
}
