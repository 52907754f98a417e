/* Finds the tokens that differ, and the first tensor of a layer that differs.
 *
 * Every row of every layer's tensors is hashed in both runs. A row's bits depend only on its text up to that row. So
 * all hashes of the reference must occur in the other run, however that run was batched. The first hash that is
 * missing there, in the order of execution, shows where the two runs diverge. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verify/on_policy_impl.h"

/* ---- Tokens ---- */
static bool same_bits(float a, float b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

/* Returns the first token of text i that differs; -1: none. */
static int64_t first_difference(const on_policy_texts *got, const on_policy_texts *want, int i)
{
    int64_t n = want->length[i] > got->length[i] ? want->length[i] : got->length[i];
    for (int64_t p = got->scored[i]; p < n; p++)
        if (p >= got->length[i] || p >= want->length[i] || on_policy_ids(got, i)[p] != on_policy_ids(want, i)[p] ||
            !same_bits(on_policy_logprob(got, i)[p], on_policy_logprob(want, i)[p]))
            return p;
    return -1;
}

static void note_first(const on_policy_texts *got, const on_policy_texts *want, int i, int64_t at,
                       tess_on_policy_case *c)
{
    c->sequence = i;
    c->position = at;
    c->other_token = at < got->length[i] ? on_policy_ids(got, i)[at] : -1;
    c->token = at < want->length[i] ? on_policy_ids(want, i)[at] : -1;
    c->here = at < got->length[i] ? on_policy_logprob(got, i)[at] : 0;
    c->there = at < want->length[i] ? on_policy_logprob(want, i)[at] : 0;
}

/* After a token that was drawn differently nothing can be compared, so all further tokens count as different. */
void on_policy_compare(const on_policy_texts *got, const on_policy_texts *want, tess_on_policy_case *c)
{
    for (int i = 0; i < want->n; i++) {
        int64_t n = want->length[i];
        bool parted = false;
        int64_t first = first_difference(got, want, i);
        c->n_tokens += n - got->scored[i];
        if (first < 0)
            continue;
        if (c->n_different == 0)
            note_first(got, want, i, first, c);
        for (int64_t p = first; p < n; p++) {
            float here = on_policy_logprob(got, i)[p], there = on_policy_logprob(want, i)[p];
            parted = parted || p >= got->length[i] || on_policy_ids(got, i)[p] != on_policy_ids(want, i)[p];
            c->n_different += parted || !same_bits(here, there);
            if (!parted && !same_bits(here, there))
                c->max_abs =
                    isfinite(here) && isfinite(there) ? fmax(c->max_abs, fabs((double)here - (double)there)) : INFINITY;
        }
    }
}

/* ---- Layers ---- */
static int by_hash(const void *x, const void *y)
{
    const on_policy_row *a = x, *b = y;
    if (a->stage != b->stage)
        return a->stage < b->stage ? -1 : 1;
    return a->hash < b->hash ? -1 : a->hash > b->hash;
}

static int by_place(const void *x, const void *y)
{
    const on_policy_row *a = x, *b = y;
    if (a->stage != b->stage)
        return a->stage < b->stage ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* One of the two runs of a search. */
typedef struct located_run {
    on_policy_watch watch;
    on_policy_texts texts;
} located_run;

static tess_status compute(tess_mem *mem, const tess_on_policy_plan *plan, const on_policy_setting *setting,
                           const on_policy_texts *given, located_run *run)
{
    bool faulty = plan->fault.what[0] != '\0' && plan->fault.engine == setting->engine;
    run->watch = (on_policy_watch){.mem = mem, .fault = faulty ? &plan->fault : NULL, .collects = true};
    TESS_TRY(on_policy_texts_make(mem, given->n, given->room, &run->texts));
    if (setting->engine == TESS_ENGINE_GENERATION)
        return on_policy_generate(mem, plan, setting, &run->watch, &run->texts);
    memcpy(run->texts.length, given->length, (size_t)given->n * sizeof(int64_t));
    memcpy(run->texts.ids, given->ids, (size_t)given->n * (size_t)given->room * sizeof(int32_t));
    return on_policy_score(mem, plan, setting, &run->watch, &run->texts);
}

/* Returns the text and position of a row of the reference. The reference has one micro-batch with all texts in
 * order. */
static int place_of(const on_policy_texts *texts, int64_t row, int64_t *position)
{
    int i = 0;
    while (i + 1 < texts->n && row >= texts->length[i])
        row -= texts->length[i++];
    *position = row;
    return i;
}

/* Returns how many rows of a text matter: those on which its first different token, or an equal token, depends. The
 * last row of a text predicts nothing, and generation need not compute it. */
static int64_t rows_that_matter(const located_run *reference, const located_run *run, int text)
{
    int64_t first = first_difference(&run->texts, &reference->texts, text);
    return first >= 0 ? first : reference->texts.length[text] - 1;
}

static const on_policy_row *first_missing(located_run *reference, located_run *run, int *text, int64_t *position)
{
    int looked_at = -1; /* text of the previous row: a stage has its texts in order */
    int64_t limit = 0;
    qsort(reference->watch.rows, reference->watch.n, sizeof(on_policy_row), by_place);
    qsort(run->watch.rows, run->watch.n, sizeof(on_policy_row), by_hash);
    for (size_t i = 0; i < reference->watch.n; i++) {
        const on_policy_row *row = &reference->watch.rows[i];
        *text = place_of(&reference->texts, row->row, position);
        if (*text != looked_at)
            limit = rows_that_matter(reference, run, *text);
        looked_at = *text;
        if (*position < limit && bsearch(row, run->watch.rows, run->watch.n, sizeof(*row), by_hash) == NULL)
            return row;
    }
    return NULL;
}

static void name_layer(const tess_on_policy_plan *plan, located_run *reference, located_run *run,
                       char layer[TESS_ON_POLICY_TEXT])
{
    int text;
    int64_t position;
    bool again = false;
    for (int i = 0; i < reference->texts.n; i++)
        again = again || first_difference(&run->texts, &reference->texts, i) >= 0;
    const on_policy_row *row = again ? first_missing(reference, run, &text, &position) : NULL;
    if (row != NULL)
        snprintf(layer, TESS_ON_POLICY_TEXT, "%s, %s (text %d, token %lld)",
                 tess_model_unit_name(plan->model, on_policy_unit(row->stage)), on_policy_shown(row->stage), text,
                 (long long)position);
    else
        snprintf(layer, TESS_ON_POLICY_TEXT, "%s",
                 again ? "the log-probabilities (all layers are the same)" : "no layer (made again, it was the same)");
}

tess_status on_policy_locate(tess_mem *mem, const tess_on_policy_plan *plan, const on_policy_setting *reference,
                             const on_policy_setting *setting, const on_policy_texts *texts,
                             char layer[TESS_ON_POLICY_TEXT])
{
    located_run runs[2] = {0};
    tess_status status = compute(mem, plan, reference, texts, &runs[0]);
    if (status == TESS_OK)
        status = compute(mem, plan, setting, texts, &runs[1]);
    if (status == TESS_OK)
        name_layer(plan, &runs[0], &runs[1], layer);
    for (int i = 0; i < 2; i++) {
        tess_mem_free(mem, runs[i].watch.rows);
        on_policy_texts_free(&runs[i].texts);
    }
    return status;
}
