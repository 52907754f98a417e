#include "infer/sampler.h"

#include <math.h>
#include <string.h>

#include "base/core/rng.h"

enum { CHUNK = 1024, LANES = 8 };

typedef struct candidate {
    float logit;
    int32_t token;
} candidate;

/* Weights of a chunk are relative to its own largest logit, so that a row is read once. */
typedef struct chunk {
    float largest;
    double sum;
} chunk;

typedef struct workspace {
    candidate *candidates; /* (V) */
    float *penalized;      /* (V) logits after the repetition penalty */
    chunk *chunks;         /* (V / CHUNK, up) */
} workspace;

struct tess_sampler {
    tess_mem *mem;
    tess_threads *threads;
    int64_t vocab_size;
    void *memory;
    workspace *spaces; /* (workers) */
};

static int64_t n_chunks(int64_t n)
{
    return (n + CHUNK - 1) / CHUNK;
}

tess_status tess_sampler_create(tess_mem *mem, tess_threads *threads, int64_t vocab_size, tess_sampler **out)
{
    tess_sampler *s;
    *out = NULL;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(*s), "sampler", (void **)&s));
    *s = (tess_sampler){.mem = mem, .threads = threads, .vocab_size = vocab_size};
    size_t V = (size_t)vocab_size, chunks = (size_t)n_chunks(vocab_size), n = (size_t)tess_threads_count(threads);
    size_t bytes = chunks * sizeof(chunk) + V * (sizeof(candidate) + sizeof(float));
    bytes = (bytes + 63) / 64 * 64;
    tess_status status =
        tess_mem_alloc_array(mem, TESS_POOL_MISC, n, sizeof(workspace), "sampler", (void **)&s->spaces);
    if (status == TESS_OK)
        status = tess_mem_alloc_array(mem, TESS_POOL_MISC, n, bytes, "sampler", &s->memory);
    if (status != TESS_OK) {
        tess_sampler_destroy(&s);
        return status;
    }
    for (size_t i = 0; i < n; i++) {
        workspace *w = &s->spaces[i];
        w->chunks = (void *)((char *)s->memory + i * bytes);
        w->candidates = (void *)(w->chunks + chunks);
        w->penalized = (void *)(w->candidates + V);
    }
    *out = s;
    return TESS_OK;
}

void tess_sampler_destroy(tess_sampler **handle)
{
    tess_sampler *s = *handle;
    if (s == NULL)
        return;
    tess_mem_free(s->mem, s->memory);
    tess_mem_free(s->mem, s->spaces);
    tess_mem_free(s->mem, s);
    *handle = NULL;
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

/* ---- Weights ---- */
/* exp(x), x <= 0, with a relative error below 1e-12; 0 from -700 on. Additions and multiplications, each rounded alone,
 * in an order that vectors keep: the same bits on every machine. */
static inline double exp_of(double x)
{
    const double magic = 0x1.8p52; /* adding it rounds to an integer, which lies in the lowest bits */
    double bounded = x < -700 ? -700 : x, shifted = bounded * 0x1.71547652b82fep0 + magic, n = shifted - magic;
    double r = bounded - n * 0x1.62e42fefa0000p-1 - n * 0x1.cf79abc9e3b3ap-40;
    double p = 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1;
    p = p * r + 1;
    uint64_t bits, power;
    memcpy(&bits, &p, sizeof(bits));
    memcpy(&power, &shifted, sizeof(power));
    bits += power << 52;
    memcpy(&p, &bits, sizeof(p));
    return x < -700 ? 0 : p;
}

/* Relative to a logit that is not smaller. */
static inline double weight(float logit, float top, double inv_temperature)
{
    return exp_of(((double)logit - (double)top) * inv_temperature);
}

static float largest_of(const float *x, int64_t n, bool *broken)
{
    float largest[LANES];
    int bad[LANES] = {0}, any = 0;
    for (int k = 0; k < LANES; k++)
        largest[k] = -INFINITY;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            largest[k] = x[i + k] > largest[k] ? x[i + k] : largest[k];
            bad[k] |= !(x[i + k] < INFINITY);
        }
    for (; i < n; i++) {
        largest[0] = x[i] > largest[0] ? x[i] : largest[0];
        bad[0] |= !(x[i] < INFINITY);
    }
    for (int k = 0; k < LANES; k++) {
        largest[0] = largest[k] > largest[0] ? largest[k] : largest[0];
        any |= bad[k];
    }
    *broken |= any != 0;
    return largest[0];
}

/* Element i in sum i % LANES, then the sums in order. */
static double sum_of(const float *x, int64_t n, float top, double inv_temperature)
{
    double sum[LANES] = {0}, total = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            sum[k] += weight(x[i + k], top, inv_temperature);
    for (int k = 0; i < n; i++, k++)
        sum[k] += weight(x[i], top, inv_temperature);
    for (int k = 0; k < LANES; k++)
        total += sum[k];
    return total;
}

/* A row that has been looked at. */
typedef struct row {
    const float *logits;
    int64_t n;
    const chunk *chunks;
    float top;
    double inv_temperature, total; /* total: of weights relative to `top` */
} row;

static double share_of(const row *r, int64_t c)
{
    return r->chunks[c].sum * weight(r->chunks[c].largest, r->top, r->inv_temperature);
}

/* Returns whether all logits are possible ones. */
static bool look(row *r, chunk *chunks, bool greedy)
{
    bool broken = false;
    r->chunks = chunks;
    r->top = -INFINITY;
    for (int64_t c = 0; c < n_chunks(r->n); c++) {
        const float *x = r->logits + c * CHUNK;
        int64_t n = r->n - c * CHUNK < CHUNK ? r->n - c * CHUNK : CHUNK;
        chunks[c].largest = largest_of(x, n, &broken);
        r->top = chunks[c].largest > r->top ? chunks[c].largest : r->top;
        chunks[c].sum =
            greedy || chunks[c].largest == -INFINITY ? 0 : sum_of(x, n, chunks[c].largest, r->inv_temperature);
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

/* u in [0, 1) selects a token; a chunk is passed over, or walked. */
static int32_t draw_any(const row *r, double u)
{
    double left = r->total * u;
    int64_t c = 0, last = n_chunks(r->n) - 1;
    while (c < last && (r->chunks[c].sum == 0 || left >= share_of(r, c)))
        left -= share_of(r, c++);
    while (r->chunks[c].sum == 0) /* what is left is rounding */
        c--;
    int64_t end = c == last ? r->n : (c + 1) * CHUNK, token = -1;
    for (int64_t i = c * CHUNK; i < end && left >= 0; i++) {
        double w = weight(r->logits[i], r->top, r->inv_temperature);
        if (w > 0) {
            token = i;
            left -= w;
        }
    }
    return (int32_t)(token >= 0 ? token : likeliest(r));
}

/* ---- Limits ---- */
/* The most likely first, then by id, so that the order is total. */
static bool before(const candidate *x, const candidate *y)
{
    return x->logit > y->logit || (x->logit == y->logit && x->token < y->token);
}

/* Lets heap[at] sink to its place: no child comes before its parent, or with `last` no parent before its child. */
static void sink(candidate *heap, int64_t n, int64_t at, bool last)
{
    candidate moved = heap[at];
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(&heap[child + 1], &heap[child]) != last)
            child++;
        if (before(&heap[child], &moved) == last)
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static void make_heap(candidate *heap, int64_t n, bool last)
{
    for (int64_t i = n / 2 - 1; i >= 0; i--)
        sink(heap, n, i, last);
}

/* The k likeliest; the last of them is the heap's first while they are looked for. Chunks without one are passed over.
 */
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

/* Those of at least this weight. */
static int64_t take_weighty(const row *r, double least, candidate *found)
{
    int64_t n = 0;
    for (int64_t c = 0; c < n_chunks(r->n); c++) {
        if (weight(r->chunks[c].largest, r->top, r->inv_temperature) < least)
            continue;
        int64_t end = c == n_chunks(r->n) - 1 ? r->n : (c + 1) * CHUNK;
        for (int64_t i = c * CHUNK; i < end; i++)
            if (weight(r->logits[i], r->top, r->inv_temperature) >= least)
                found[n++] = (candidate){r->logits[i], (int32_t)i};
    }
    return n;
}

/* A heap that is sorted on demand: candidates that leave it are stored behind it, the first one last. */
typedef struct ranking {
    candidate *candidates;
    int64_t n, n_heap; /* all candidates; those in the heap */
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

/* Without top_k, tokens below a share of what top_p leaves out cannot, all together, be worth more than that. */
static int64_t take_candidates(const row *r, const tess_sampling *o, candidate *found)
{
    if (o->top_k > 0 && o->top_k < r->n)
        return take_likeliest(r, o->top_k, found);
    double spare = (1 - o->top_p) * r->total / (double)r->n / 2;
    return take_weighty(r, spare > o->min_p ? spare : o->min_p, found);
}

/* u in [0, 1) selects one of the candidates that top_k, top_p and min_p leave. */
static int32_t draw_limited(const row *r, const tess_sampling *o, double u, candidate *found)
{
    int64_t n = take_candidates(r, o, found);
    make_heap(found, n, false);
    ranking ranks = {found, n, n};
    double total = r->total;
    if (o->top_k > 0 && o->top_k < r->n) {
        total = 0;
        for (int64_t i = 0; i < n; i++)
            total += weight(ranked(&ranks, i)->logit, r->top, r->inv_temperature);
    }
    double kept = 1, enough = o->top_p < 1 ? o->top_p * total : INFINITY; /* the shortest prefix, never empty */
    int64_t left = 1;
    for (; left < n && kept < enough; left++) {
        double w = weight(ranked(&ranks, left)->logit, r->top, r->inv_temperature);
        if (w < o->min_p || w == 0)
            break;
        kept += w;
    }
    kept *= u;
    for (int64_t place = 0;; place++) {
        const candidate *here = ranked(&ranks, place);
        kept -= weight(here->logit, r->top, r->inv_temperature);
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

/* -1: a logit is not possible; -2: no token is. */
static int32_t draw_row(const tess_sampling *o, const tess_draw *d, int64_t n, const workspace *w)
{
    bool greedy = o->temperature <= 0;
    float penalty = (float)o->repetition_penalty;
    row r = {.logits = d->logits, .n = n, .inv_temperature = greedy ? 1 : (double)(float)(1 / o->temperature)};
    if (penalty > 0 && penalty != 1)
        r.logits = penalize(d, penalty, n, w->penalized);
    if (!look(&r, w->chunks, greedy))
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
        j->draws[i].token = draw_row(j->options, &j->draws[i], j->sampler->vocab_size, &j->sampler->spaces[worker]);
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
