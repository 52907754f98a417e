/* Ranks that died or ended by an error: of those that fell one after the other, the first. */
#include <ctype.h>
#include <string.h>

#include "diagnosis/diagnosis_impl.h"

static bool ended_badly(const diagnosis_search *search, int rank)
{
    return diagnosis_is_death(diagnosis_situation(&search->history->ranks[rank]));
}

/* The rank that its own error blames, -1: none. */
static int blames(const diagnosis_search *search, int rank)
{
    int blamed = search->history->ranks[rank].first_error - 1;
    return blamed >= 0 && blamed < search->history->world && blamed != rank ? blamed : -1;
}

/* Where blame leads from `rank`. In a circle: the first of it on the way. */
static int end_of_blame(diagnosis_search *search, int rank)
{
    int at = rank, n = 0;
    while (!search->mark[at]) {
        search->mark[at] = true;
        search->queue[n++] = at;
        if (blames(search, at) < 0)
            break;
        at = blames(search, at);
    }
    while (n > 0)
        search->mark[search->queue[--n]] = false;
    return at;
}

/* What is told first: the kind of death, then who died first, as far as that is known. */
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
        int root = end_of_blame(search, r);
        if (!ended_badly(search, root))
            search->suspect = root;
        else if (best < 0 || (root != best && comes_before(&ranks[root], &ranks[best])))
            best = root;
    }
    return best;
}

/* Who fell because of the root, in the words of the first of them. */
static void report_consequences(diagnosis_search *search, int root)
{
    char who[128];
    int n = 0, first = -1;
    for (int r = 0; r < search->history->world; r++) {
        const tess_rank_history *rank = &search->history->ranks[r];
        search->right[r] = r != root && rank->error[0] != '\0' && end_of_blame(search, r) == root;
    }
    for (int r = 0; r < search->history->world; r++) {
        if (!search->right[r])
            continue;
        search->queue[n++] = r;
        first = first < 0 ? r : first;
    }
    if (n == 0)
        return;
    tess_sentence words = tess_sentence_begin(who, sizeof(who));
    tess_sentence_ranks(&words, search->queue, n);
    diagnosis_add_line(search->diagnosis, "%s failed because of it: %.150s", who, search->history->ranks[first].error);
}

static bool blames_itself(const diagnosis_search *search, int rank)
{
    return search->history->ranks[rank].first_error == 1 + rank;
}

static bool says_the_same(const diagnosis_search *search, int a, int b)
{
    return strcmp(search->history->ranks[a].error, search->history->ranks[b].error) == 0;
}

/* A host takes all its ranks along; of those that failed alike, each by itself, none is more to blame. */
static bool fell_alike(const diagnosis_search *search, int root, int rank)
{
    const tess_rank_history *a = &search->history->ranks[root], *b = &search->history->ranks[rank];
    if (diagnosis_situation(a) == TESS_RANK_HOST_LOST)
        return diagnosis_situation(b) == TESS_RANK_HOST_LOST && strncmp(a->host, b->host, sizeof(a->host)) == 0;
    return a->error[0] != '\0' && blames_itself(search, root) && blames_itself(search, rank) &&
           says_the_same(search, root, rank);
}

static void mark_culprit(diagnosis_search *search, int root)
{
    for (int r = 0; r < search->history->world; r++)
        search->mark[r] = r == root || fell_alike(search, root, r);
}

/* Ranks found together that something is wrong, and none of them says who: who ended first is no more to blame. */
static bool is_finding(const diagnosis_search *search, int root)
{
    bool shared = false;
    if (search->history->ranks[root].error[0] == '\0' || blames_itself(search, root))
        return false;
    for (int r = 0; r < search->history->world; r++) {
        if (r == root)
            continue;
        if (blames(search, r) == root)
            return false;
        shared |= says_the_same(search, r, root);
    }
    return shared;
}

static void name_nobody(diagnosis_search *search, int witness, tess_diagnosis_kind kind)
{
    search->diagnosis->kind = kind;
    search->diagnosis->tie = true;
    search->witness = witness;
}

static void name_root(diagnosis_search *search, int root, tess_diagnosis_kind kind)
{
    search->diagnosis->kind = kind;
    mark_culprit(search, root);
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
    if (exited && is_finding(search, root))
        name_nobody(search, root, kind);
    else
        name_root(search, root, kind);
    return true;
}

bool diagnosis_find_suspect(diagnosis_search *search)
{
    if (search->suspect < 0)
        return false;
    name_root(search, search->suspect, TESS_DIAGNOSIS_MISSING);
    return true;
}

/* ---- Numbers -------------------------------------------------------------------------------------------------------
 */
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

/* Of ranks that met bad numbers, each by itself, the one that was first. */
bool diagnosis_find_numbers(diagnosis_search *search)
{
    const tess_rank_history *ranks = search->history->ranks;
    int best = -1;
    for (int r = 0; r < search->history->world; r++)
        if (is_about_numbers(ranks[r].error) && blames(search, r) < 0 &&
            (best < 0 || comes_before(&ranks[r], &ranks[best])))
            best = r;
    if (best < 0)
        return false;
    if (is_finding(search, best))
        name_nobody(search, best, TESS_DIAGNOSIS_NUMBERS);
    else
        name_root(search, best, TESS_DIAGNOSIS_NUMBERS);
    return true;
}
