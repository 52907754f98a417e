#include "diagnosis/progress.h"

#include "diagnosis/majority.h"
#include "diagnosis/sentence.h"

static bool same_place(const tess_progress_of *a, const tess_progress_of *b)
{
    bool same_micro = a->micro == b->micro || a->micro < 0 || b->micro < 0;
    return a->step == b->step && a->ended == b->ended && same_micro;
}

static bool ranks_alike(const void *ranks_, int a, int b)
{
    const tess_progress_of *ranks = ranks_;
    return ranks[a].step >= 0 && ranks[b].step >= 0 && same_place(&ranks[a], &ranks[b]);
}

static void add_place(const tess_progress_of *p, tess_sentence *words)
{
    tess_sentence_add(words, p->ended ? "through after step %lld" : "at step %lld", (long long)p->step);
    if (!p->ended && p->micro >= 0)
        tess_sentence_add(words, ", micro-batch %lld", (long long)p->micro);
}

/* Appends how the rank broke the rule of equal batches: "it has had one batch less: ...". */
static void add_rule(const tess_progress_of *odd, const tess_progress_of *most, tess_sentence *words)
{
    int64_t steps = odd->step - most->step, n = steps != 0 ? steps : odd->micro - most->micro;
    const char *unit = steps != 0 ? "batch" : "micro-batch", *side = n < 0 ? "less" : "more";
    if (odd->ended != most->ended)
        tess_sentence_add(words, odd->ended ? "its data ended before the others'" : "it has more data than the others");
    else if (n == 1 || n == -1)
        tess_sentence_add(words, "it has had one %s %s", unit, side);
    else
        tess_sentence_add(words, "it has had %lld %ses %s", (long long)(n < 0 ? -n : n), unit, side);
    tess_sentence_add(words, ": give all ranks the same number of batches");
}

static void report_odd(const tess_progress_of *ranks, int n, int most, const bool *odd, tess_sentence *words)
{
    int n_odd = 0, first = -1;
    for (int r = n - 1; r >= 0; r--)
        if (odd[r]) {
            n_odd++;
            first = r;
        }
    tess_sentence_add(words, "rank %d is ", first);
    add_place(&ranks[first], words);
    if (n_odd > 1)
        tess_sentence_add(words, " (and %d more are elsewhere)", n_odd - 1);
    tess_sentence_add(words, ", the others ");
    add_place(&ranks[most], words);
    tess_sentence_add(words, ": ");
    add_rule(&ranks[first], &ranks[most], words);
}

static void report_tie(const tess_progress_of *ranks, int n, tess_sentence *words)
{
    for (int r = 0; r < n; r++) {
        if (ranks[r].step < 0)
            continue;
        tess_sentence_add(words, "%srank %d is ", words->at > 0 ? ", " : "", r);
        add_place(&ranks[r], words);
    }
    tess_sentence_add(words, ": they had different numbers of batches, and no majority says how many are right");
}

bool tess_progress_mismatch(const tess_progress_of *ranks, int n, bool *odd, char *text, size_t size)
{
    tess_majority place = tess_majority_find(ranks_alike, ranks, n);
    int most = place.tie ? -1 : place.first, n_odd = 0, n_known = 0;
    tess_sentence words = tess_sentence_begin(text, size);
    for (int r = 0; r < n; r++) {
        odd[r] = most >= 0 && ranks[r].step >= 0 && !same_place(&ranks[r], &ranks[most]);
        n_odd += odd[r];
        n_known += ranks[r].step >= 0;
    }
    if (n_odd > 0)
        report_odd(ranks, n, most, odd, &words);
    else if (most < 0 && n_known > 1)
        report_tie(ranks, n, &words);
    return n_odd > 0 || (most < 0 && n_known > 1);
}

bool tess_progress_behind(const int64_t *came, int n_known, int n_ranks, int64_t *most)
{
    int n_there = 0, n_unknown = 0;
    *most = 0;
    for (int r = 0; r < n_known; r++)
        *most = came[r] > *most ? came[r] : *most;
    for (int r = 0; r < n_ranks; r++) {
        int64_t at = r < n_known ? came[r] : 0;
        n_there += at == *most;
        n_unknown += at == 0;
    }
    int n_behind = n_ranks - n_there;
    return *most > 0 && n_behind > 0 && (n_behind < n_there || (n_behind == n_there && n_unknown == 0));
}
