#include "infer/sampler.h"

#include <math.h>
#include <string.h>

#include "base/core/heap.h"
#include "base/core/rng.h"
#include "infer/sampler_weights.h"
#include "base/mem/scoped.h"

enum { CHUNK = 1024 };

typedef struct candidate {
    float logit;
    int32_t token;
} candidate;

typedef struct workspace {
    candidate *candidates;   /* (V) */
    float *penalized;        /* (V) logits after the repetition penalty */
    tess_weight_sum *chunks; /* (V / CHUNK, rounded up) sums of the chunks of a row */
} workspace;

struct tess_sampler {
    tess_mem *mem;
    tess_threads *threads;
    tess_weight_sum_fn sum;
    int64_t vocab_size;
    void *memory;
    workspace *spaces; /* (workers) work space of each thread */
};

static int64_t n_chunks(int64_t n)
{
    return (n + CHUNK - 1) / CHUNK;
}

tess_status tess_sampler_create(tess_mem *mem, tess_threads *threads, int64_t vocab_size, tess_sampler **out)
{
    TESS_AUTO(tess_sampler_destroy) tess_sampler *s = NULL;
    *out = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "sampler", &s));
    *s = (tess_sampler){.mem = mem, .threads = threads, .sum = tess_weight_sum_select(), .vocab_size = vocab_size};
    size_t V = (size_t)vocab_size, chunks = (size_t)n_chunks(vocab_size), n = (size_t)tess_threads_count(threads);
    size_t bytes = chunks * sizeof(tess_weight_sum) + V * (sizeof(candidate) + sizeof(float));
    bytes = (bytes + 63) / 64 * 64;
    TESS_TRY(TESS_PART(s, n, "sampler", &s->spaces));
    TESS_TRY(tess_scope_alloc(tess_scope_of(s), TESS_POOL_MISC, n, bytes, "sampler", &s->memory));
    for (size_t i = 0; i < n; i++) {
        workspace *w = &s->spaces[i];
        w->chunks = (void *)((char *)s->memory + i * bytes);
        w->candidates = (void *)(w->chunks + chunks);
        w->penalized = (void *)(w->candidates + V);
    }
    *out = TESS_GIVE(s);
    return TESS_OK;
}

void tess_sampler_destroy(tess_sampler **handle)
{
    tess_mem_drop(handle);
}

float tess_sampling_inv_temperature(const tess_sampling *options)
{
    return options->exact && options->temperature > 0 ? (float)(1 / options->temperature) : 1;
}

tess_status tess_sampling_check(const tess_sampling *o)
{
    TESS_CHECK(o->temperature >= 0 && (o->temperature == 0 || isfinite((float)(1 / o->temperature))) &&
                   isfinite(o->temperature),
               TESS_E_INVALID, "sampling: a temperature of %g; it is 0 (greedy) or above", o->temperature);
    TESS_CHECK(o->top_k >= 0 && o->top_p >= 0 && o->top_p <= 1 && o->min_p >= 0 && o->min_p <= 1, TESS_E_INVALID,
               "sampling: top_k %lld, top_p %g, min_p %g; top_k is 0 or more, the others are in [0, 1]",
               (long long)o->top_k, o->top_p, o->min_p);
    TESS_CHECK(o->repetition_penalty >= 0 && isfinite(o->repetition_penalty), TESS_E_INVALID,
               "sampling: a repetition penalty of %g; it is 0 (none) or above", o->repetition_penalty);
    bool limited =
        o->top_k > 0 || o->top_p < 1 || o->min_p > 0 || (o->repetition_penalty != 0 && o->repetition_penalty != 1);
    TESS_CHECK(
        !o->exact || !limited, TESS_E_INVALID,
        "sampling: top_k, top_p, min_p and a repetition penalty change the distribution, whose log-probabilities "
        "would not be those of training; leave them out (top_k 0, top_p 1), or ask for inexact sampling");
    return TESS_OK;
}

/* A row of logits with the results of look(). */
typedef struct row {
    const float *logits;
    int64_t n;
    const tess_weight_sum *chunks;
    float top;
    double inv_temperature, total; /* total: sum of the weights relative to `top` */
} row;

static double share_of(const row *r, int64_t c)
{
    return r->chunks[c].sum * tess_weight(r->chunks[c].largest, r->top, r->inv_temperature);
}

/* Reads a row once: sums its chunks and finds its largest logit. Returns whether all logits are valid (not NaN or
 * +inf). */
static bool look(row *r, tess_weight_sum_fn sum, tess_weight_sum *chunks, bool greedy)
{
    bool broken = false;
    r->chunks = chunks;
    r->top = -INFINITY;
    for (int64_t c = 0; c < n_chunks(r->n); c++) {
        const float *x = r->logits + c * CHUNK;
        int64_t n = r->n - c * CHUNK < CHUNK ? r->n - c * CHUNK : CHUNK;
        chunks[c] = sum(x, n, r->inv_temperature, !greedy, &broken);
        r->top = chunks[c].largest > r->top ? chunks[c].largest : r->top;
    }
    r->total = 0;
    for (int64_t c = 0; !greedy && !broken && r->top != -INFINITY && c < n_chunks(r->n); c++)
        r->total += share_of(r, c);
    return !broken;
}

static int32_t likeliest(const row *r)
{
    int64_t c = 0;
    while (r->chunks[c].largest != r->top)
        c++;
    int64_t i = c * CHUNK;
    while (r->logits[i] != r->top)
        i++;
    return (int32_t)i;
}

/* Draws a token by u in [0, 1). Skips whole chunks, then walks the tokens of one. */
static int32_t draw_any(const row *r, double u)
{
    double left = r->total * u;
    int64_t c = 0, last = n_chunks(r->n) - 1;
    while (c < last && (r->chunks[c].sum == 0 || left >= share_of(r, c)))
        left -= share_of(r, c++);
    while (r->chunks[c].sum == 0) /* rounding may leave a remainder after the last token */
        c--;
    int64_t end = c == last ? r->n : (c + 1) * CHUNK, token = -1;
    for (int64_t i = c * CHUNK; i < end && left >= 0; i++) {
        double w = tess_weight(r->logits[i], r->top, r->inv_temperature);
        if (w > 0) {
            token = i;
            left -= w;
        }
    }
    return (int32_t)(token >= 0 ? token : likeliest(r));
}

/* ---- Limits ---- */
/* Orders candidates: the most likely first, then by id, so that the order is total. */
static bool before(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    return x->logit > y->logit || (x->logit == y->logit && x->token < y->token);
}

static bool after(const void *a, const void *b)
{
    return before(b, a);
}

/* Lets heap[at] sink to its place. The heap's first is the most likely, or with `last` the least likely. */
static void sink(candidate *heap, int64_t n, int64_t at, bool last)
{
    const candidate moved = heap[at];
    if (last)
        tess_heap_sink(heap, (size_t)n, (size_t)at, &moved, sizeof(moved), after);
    else
        tess_heap_sink(heap, (size_t)n, (size_t)at, &moved, sizeof(moved), before);
}

static void make_heap(candidate *heap, int64_t n, bool last)
{
    for (int64_t i = n / 2 - 1; i >= 0; i--)
        sink(heap, n, i, last);
}

/* Finds the k likeliest tokens. During the search the heap's first element is the least likely of them. Skips chunks
 * that contain no candidate. */
static int64_t take_likeliest(const row *r, int64_t k, candidate *found)
{
    int64_t n = 0;
    for (int64_t c = 0; c < n_chunks(r->n); c++) {
        if (n == k && !(r->chunks[c].largest > found[0].logit))
            continue;
        int64_t end = c == n_chunks(r->n) - 1 ? r->n : (c + 1) * CHUNK;
        for (int64_t i = c * CHUNK; i < end; i++) {
            candidate here = {r->logits[i], (int32_t)i};
            if (n < k) {
                found[n++] = here;
                if (n == k)
                    make_heap(found, n, true);
            } else if (here.logit > found[0].logit) {
                found[0] = here;
                sink(found, n, 0, true);
            }
        }
    }
    return n;
}

/* Finds all tokens of at least this weight. */
static int64_t take_weighty(const row *r, double least, candidate *found)
{
    int64_t n = 0;
    for (int64_t c = 0; c < n_chunks(r->n); c++) {
        if (tess_weight(r->chunks[c].largest, r->top, r->inv_temperature) < least)
            continue;
        int64_t end = c == n_chunks(r->n) - 1 ? r->n : (c + 1) * CHUNK;
        for (int64_t i = c * CHUNK; i < end; i++)
            if (tess_weight(r->logits[i], r->top, r->inv_temperature) >= least)
                found[n++] = (candidate){r->logits[i], (int32_t)i};
    }
    return n;
}

/* A heap that is sorted on demand: candidates that are removed from it are stored after it, the first one last. */
typedef struct ranking {
    candidate *candidates;
    int64_t n, n_heap; /* number of all candidates, and of those still in the heap */
} ranking;

static const candidate *ranked(ranking *r, int64_t place)
{
    while (r->n - r->n_heap <= place) {
        candidate top = r->candidates[0];
        r->candidates[0] = r->candidates[--r->n_heap];
        r->candidates[r->n_heap] = top;
        sink(r->candidates, r->n_heap, 0, false);
    }
    return &r->candidates[r->n - 1 - place];
}

/* Selects the tokens that may be drawn. Without top_k, tokens of very small weight are left out: all together they
 * weigh no more than the share that top_p excludes anyway. */
static int64_t take_candidates(const row *r, const tess_sampling *o, candidate *found)
{
    if (o->top_k > 0 && o->top_k < r->n)
        return take_likeliest(r, o->top_k, found);
    double spare = (1 - o->top_p) * r->total / (double)r->n / 2;
    return take_weighty(r, spare > o->min_p ? spare : o->min_p, found);
}

/* Draws one of the candidates that top_k, top_p and min_p leave, by u in [0, 1). */
static int32_t draw_limited(const row *r, const tess_sampling *o, double u, candidate *found)
{
    int64_t n = take_candidates(r, o, found);
    make_heap(found, n, false);
    ranking ranks = {found, n, n};
    double total = r->total;
    if (o->top_k > 0 && o->top_k < r->n) {
        total = 0;
        for (int64_t i = 0; i < n; i++)
            total += tess_weight(ranked(&ranks, i)->logit, r->top, r->inv_temperature);
    }
    /* Keep the shortest prefix that reaches top_p; it is never empty */
    double kept = 1, enough = o->top_p < 1 ? o->top_p * total : INFINITY;
    int64_t left = 1;
    for (; left < n && kept < enough; left++) {
        double w = tess_weight(ranked(&ranks, left)->logit, r->top, r->inv_temperature);
        if (w < o->min_p || w == 0)
            break;
        kept += w;
    }
    kept *= u;
    for (int64_t place = 0;; place++) {
        const candidate *here = ranked(&ranks, place);
        kept -= tess_weight(here->logit, r->top, r->inv_temperature);
        if (kept < 0 || place == left - 1)
            return here->token;
    }
}

/* ---- Rows ---- */
typedef struct draw_job {
    const tess_sampler *sampler;
    const tess_sampling *options;
    tess_draw *draws;
} draw_job;

static const float *penalize(const tess_draw *d, float penalty, int64_t n, float *to)
{
    memcpy(to, d->logits, (size_t)n * sizeof(*to));
    for (int64_t i = 0; i < d->n_text; i++) {
        float logit = d->logits[d->text[i]];
        to[d->text[i]] = logit < 0 ? logit * penalty : logit / penalty;
    }
    return to;
}

/* Draws the token of one row. Returns -1 if a logit is invalid, -2 if no token is possible. */
static int32_t draw_row(const tess_sampler *s, const tess_sampling *o, const tess_draw *d, const workspace *w)
{
    int64_t n = s->vocab_size;
    bool greedy = o->temperature <= 0;
    float penalty = (float)o->repetition_penalty;
    row r = {.logits = d->logits, .n = n, .inv_temperature = greedy ? 1 : (double)(float)(1 / o->temperature)};
    if (penalty > 0 && penalty != 1)
        r.logits = penalize(d, penalty, n, w->penalized);
    if (!look(&r, s->sum, w->chunks, greedy))
        return -1;
    if (r.top == -INFINITY)
        return -2;
    if (greedy)
        return likeliest(&r);
    double u = tess_rng_uniform_double(o->seed, TESS_RNG_SAMPLE, d->id, d->position);
    bool limited = (o->top_k > 0 && o->top_k < n) || o->top_p < 1 || o->min_p > 0;
    return limited ? draw_limited(&r, o, u, w->candidates) : draw_any(&r, u);
}

static void draw_rows(void *context, int64_t begin, int64_t end, int worker)
{
    const draw_job *j = context;
    for (int64_t i = begin; i < end; i++)
        j->draws[i].token = draw_row(j->sampler, j->options, &j->draws[i], &j->sampler->spaces[worker]);
}

tess_status tess_sampler_draw(tess_sampler *s, const tess_sampling *options, tess_draw *draws, int64_t n)
{
    draw_job job = {s, options, draws};
    tess_threads_run(s->threads, draw_rows, &job, n, 1);
    for (int64_t i = 0; i < n; i++) {
        TESS_CHECK(draws[i].token != -2, TESS_E_INVALID, "no token is possible: all logits are -inf");
        for (int64_t v = 0; draws[i].token == -1 && v < s->vocab_size; v++)
            TESS_CHECK(draws[i].logits[v] < INFINITY, TESS_E_INVALID,
                       "the logit of token %lld is %g: the model's weights are broken", (long long)v,
                       (double)draws[i].logits[v]);
        TESS_CHECK(draws[i].token >= 0, TESS_E_INVALID, "a repetition penalty of %g makes a logit infinite",
                   options->repetition_penalty);
    }
    return TESS_OK;
}
