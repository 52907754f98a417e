/* Softmax cross-entropy of rows of logits. A row is read from memory once, in chunks that stay in L1 for two passes:
 * one finds the chunk's largest element, the other computes exponentials relative to it. The exponentials are
 * stored, and scaled once the sum of the row is known, so each element needs only one exponential. If the gradient
 * is float32 they are stored in its place, otherwise in work space that stays in L2. The gradient of the entropy
 * also needs the logits again, so its rows always store exponentials in work space. Logits that are scaled or
 * soft-capped are first written to work space, chunk by chunk, and read there. */
#include <math.h>

#include "device/cpu/vec_rows.h"
#include "device/vmath.h"

typedef struct cross_entropy_loop {
    const tess_cross_entropy *rows;
    int64_t n_chunks;
    /* Work space of a worker: (V) exponentials and (V) changed logits if rows need them, then (n_chunks)
     * softmax_chunk */
    float *work;
    /* Offset of the logits and the chunks in a worker's work space; distance to the next worker's work space */
    int64_t work_logits, work_chunks, work_stride;
} cross_entropy_loop;

/* Sums over a chunk. Exponentials are relative to the chunk's own largest element. */
typedef struct softmax_chunk {
    float largest, e, ex; /* sums of e = exp(d), d = (x - largest) / T, and of e d */
} softmax_chunk;

/* The gradient is p (weight - dentropy (d - mean)) - [v == target] weight, since log p + entropy = d - mean. */
typedef struct softmax_row {
    const float *x;
    /* Values of the current chunk; largest: that of the row once its sums are known */
    float inv_temperature, largest, scale;
    float *e; /* (V) exponentials, or NULL */
    void *gradient;
    tess_dtype dtype;
    float mean, weight, dentropy; /* mean of d; -g / T and h / T, each times the logits' factor */
    float inverse_cap;            /* 1 / soft cap, or 0 */
} softmax_row;

TESS_INLINE float largest_of(const float *x, int64_t n)
{
    vec largest[4] = {v_set(-INFINITY), v_set(-INFINITY), v_set(-INFINITY), v_set(-INFINITY)};
    int64_t i = 0;
    for (; i + 64 <= n; i += 64)
        for (int k = 0; k < 4; k++)
            largest[k] = v_max(largest[k], v_load(x + i + 16 * k, 16));
    for (; i + 16 <= n; i += 16)
        largest[0] = v_max(largest[0], v_load(x + i, 16));
    float result = v_largest(v_max(v_max(largest[0], largest[1]), v_max(largest[2], largest[3])));
    for (; i < n; i++)
        result = result > x[i] ? result : x[i];
    return result;
}

TESS_INLINE pair exp_part(const softmax_row *r, int64_t i, int64_t n, pair *distance)
{
    /* Prefetches the next chunk while exponentials are computed: a third faster from L3 and from memory. */
    __builtin_prefetch(r->x + i + TESS_SOFTMAX_CHUNK);
    __builtin_prefetch(r->x + i + TESS_SOFTMAX_CHUNK + 16);
    *distance = p_scale(p_minus(p_get(r->x, i, n, TESS_F32), r->largest), r->inv_temperature);
    pair e = {v_exp_bounded(distance->a), v_exp_bounded(distance->b)};
    if (r->e != NULL)
        p_put(r->e, i, e, n, TESS_F32);
    return e;
}

TESS_INLINE void exp_terms(const void *context, int64_t i, int64_t n, pair *sums)
{
    pair distance, e = exp_part(context, i, n, &distance);
    sums[0] = p_add(sums[0], p_keep(e, n, TESS_F32));
}

/* Returns e * distance, but 0 where e is 0, so that masked logits (-inf) are fine. */
TESS_INLINE vec weighted(vec e, vec distance)
{
    vec zero = v_set(0);
    return v_select(v_equal(e, zero), zero, v_mul(e, distance));
}

TESS_INLINE void exp_and_weighted_terms(const void *context, int64_t i, int64_t n, pair *sums)
{
    pair distance, e = exp_part(context, i, n, &distance);
    pair ex = {weighted(e.a, distance.a), weighted(e.b, distance.b)};
    sums[0] = p_add(sums[0], p_keep(e, n, TESS_F32));
    sums[1] = p_add(sums[1], p_keep(ex, n, TESS_F32));
}

TESS_INLINE void chunk_sums(softmax_row r, float inv_temperature, int64_t begin, int64_t end, bool entropy, float *sums)
{
    r.inv_temperature = inv_temperature;
    if (entropy)
        row_sums(exp_and_weighted_terms, &r, begin, end, TESS_F32, 2, sums);
    else
        row_sums(exp_terms, &r, begin, end, TESS_F32, 1, sums);
}

static softmax_chunk sum_chunk(softmax_row r, int64_t begin, int64_t end, bool entropy)
{
    float sums[2] = {0, 0};
    float largest = largest_of(r.x + begin, end - begin);
    r.largest = largest == -INFINITY ? 0 : largest;
    if (r.inv_temperature == 1)
        chunk_sums(r, 1, begin, end, entropy, sums); /* a constant, so that the multiplication is optimised away */
    else
        chunk_sums(r, r.inv_temperature, begin, end, entropy, sums);
    return (softmax_chunk){largest, sums[0], sums[1]};
}

TESS_INLINE void gradient_part(const void *context, int64_t i, int64_t n)
{
    const softmax_row *r = context;
    v_put(r->gradient, i, v_mul(v_load(r->e + i, n), v_set(r->scale)), n, r->dtype);
}

/* If the gradient is written in place, it overwrites logits that were read before. */
TESS_INLINE void gradient_with_entropy_part(const void *context, int64_t i, int64_t n)
{
    const softmax_row *r = context;
    vec e = v_load(r->e + i, n), zero = v_set(0);
    vec d = v_mul(v_sub(v_load(r->x + i, n), v_set(r->largest)), v_set(r->inv_temperature));
    vec weight = v_fnma(v_set(r->dentropy), v_sub(d, v_set(r->mean)), v_set(r->weight));
    vec gradient = v_mul(v_mul(e, v_set(r->scale)), weight);
    v_put(r->gradient, i, v_select(v_equal(e, zero), zero, gradient), n, r->dtype);
}

static float exp_of(float x)
{
    float lanes[16];
    v_store(lanes, v_exp(v_set(x)), 16);
    return lanes[0];
}

static float log_of(float x)
{
    float lanes[16];
    v_store(lanes, v_log(v_set(x)), 16);
    return lanes[0];
}

static float slope_of(float x, float inverse_cap)
{
    float lanes[16];
    v_store(lanes, v_soft_cap_slope(v_set(x), inverse_cap), 16);
    return lanes[0];
}

/* Sums over the row, in double, relative to the row's largest element. */
typedef struct softmax_sums {
    double e, ex;
    float largest;
} softmax_sums;

static softmax_sums add_chunks(const softmax_chunk *chunks, int64_t n, float inv_temperature)
{
    softmax_sums sums = {0, 0, -INFINITY};
    for (int64_t c = 0; c < n; c++)
        sums.largest = sums.largest > chunks[c].largest ? sums.largest : chunks[c].largest;
    for (int64_t c = 0; c < n; c++) {
        float distance = (chunks[c].largest - sums.largest) * inv_temperature;
        double factor = (double)exp_of(distance);
        sums.e += factor * (double)chunks[c].e;
        if (factor > 0)
            sums.ex += factor * ((double)chunks[c].ex + (double)distance * (double)chunks[c].e);
    }
    return sums;
}

/* Writes scaled and soft-capped logits to z. */
static void bend_logits(const tess_cross_entropy *a, const float *x, float *z, int64_t begin, int64_t end)
{
    const vec factor = v_set(tess_factor_of(a->factor));
    const float inverse = a->soft_cap != 0 ? 1 / a->soft_cap : 0;
    for (int64_t i = begin; i < end; i += 16) {
        const int64_t n = end - i < 16 ? end - i : 16;
        vec value = v_mul(factor, v_load(x + i, n));
        v_store(z + i, a->soft_cap != 0 ? v_soft_cap(value, a->soft_cap, inverse) : value, n);
    }
}

/* Multiplies exponentials by the soft cap's derivative. */
static void bend_exponentials(const softmax_row *r, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i += 16) {
        const int64_t n = end - i < 16 ? end - i : 16;
        v_store(r->e + i, v_mul(v_load(r->e + i, n), v_soft_cap_slope(v_load(r->x + i, n), r->inverse_cap)), n);
    }
}

/* Calls `part` with a constant dtype, so that it is compiled for each dtype. */
TESS_INLINE void each_part(row_body part, softmax_row r, int64_t begin, int64_t end)
{
    if (r.dtype == TESS_F32) {
        r.dtype = TESS_F32;
        row_each(part, &r, begin, end);
    } else {
        r.dtype = TESS_BF16;
        row_each(part, &r, begin, end);
    }
}

static void write_gradient(softmax_row r, const softmax_chunk *chunks, int64_t V, float inverse)
{
    for (int64_t begin = 0; begin < V; begin += TESS_SOFTMAX_CHUNK) {
        int64_t end = begin + TESS_SOFTMAX_CHUNK < V ? begin + TESS_SOFTMAX_CHUNK : V;
        float distance = (chunks[begin / TESS_SOFTMAX_CHUNK].largest - r.largest) * r.inv_temperature;
        r.scale = exp_of(distance) * inverse;
        if (r.inverse_cap != 0)
            bend_exponentials(&r, begin, end);
        if (r.dentropy != 0) {
            each_part(gradient_with_entropy_part, r, begin, end);
        } else {
            r.scale *= r.weight;
            each_part(gradient_part, r, begin, end);
        }
    }
}

static float gradient_at_target(const softmax_row *r, float d, float inverse)
{
    float p = exp_of(d) * inverse, gradient = (p - 1.0f) * r->weight;
    return r->dentropy == 0 || p == 0 ? gradient : fmaf(-r->dentropy, p * (d - r->mean), gradient);
}

/* Sets everything that the row's gradient needs before its exponentials are computed. */
static softmax_row row_of(const tess_cross_entropy *a, int64_t row, float *work)
{
    softmax_row r = {.x = a->logits + row * a->ld, .dtype = a->dtype, .inv_temperature = a->inv_temperature};
    const float factor = tess_factor_of(a->factor);
    if (a->dlogits == NULL)
        return r;
    r.weight = (a->dlogprob != NULL ? -a->dlogprob[row] : 1.0f) * a->inv_temperature * factor;
    r.dentropy = a->dentropy != NULL ? a->dentropy[row] * a->inv_temperature * factor : 0;
    r.inverse_cap = a->soft_cap != 0 ? 1 / a->soft_cap : 0;
    r.gradient = (char *)a->dlogits + (size_t)(row * a->ldd) * tess_dtype_size(a->dtype);
    r.e = a->dtype == TESS_F32 && r.dentropy == 0 ? r.gradient : work;
    return r;
}

static void cross_entropy_row(const cross_entropy_loop *l, int64_t row, float *work, float *logprob, float *entropy)
{
    const tess_cross_entropy *a = l->rows;
    softmax_chunk *chunks = (softmax_chunk *)(work + l->work_chunks);
    softmax_row r = row_of(a, row, work);
    const bool bends = tess_bends_logits(a);
    const float *logits = r.x;
    int32_t target = a->targets[row];
    float x_target = logits[target];
    if (bends)
        r.x = work + l->work_logits;
    for (int64_t c = 0; c < l->n_chunks; c++) {
        int64_t begin = c * TESS_SOFTMAX_CHUNK, end = begin + TESS_SOFTMAX_CHUNK;
        end = end < a->V ? end : a->V;
        if (bends)
            bend_logits(a, logits, work + l->work_logits, begin, end);
        chunks[c] = sum_chunk(r, begin, end, a->entropy != NULL || r.dentropy != 0);
    }
    if (bends)
        x_target = r.x[target];
    softmax_sums sums = add_chunks(chunks, l->n_chunks, r.inv_temperature);
    float log_sum = log_of((float)sums.e), at_target = (x_target - sums.largest) * r.inv_temperature;
    float inverse = 1.0f / (float)sums.e;
    r.largest = sums.largest;
    r.mean = (float)(sums.ex / sums.e);
    *logprob = at_target - log_sum;
    *entropy = log_sum - r.mean;
    if (a->dlogits == NULL)
        return;
    write_gradient(r, chunks, a->V, inverse);
    float target_gradient = gradient_at_target(&r, at_target, inverse);
    if (r.inverse_cap != 0)
        target_gradient *= slope_of(x_target, r.inverse_cap);
    if (a->dtype == TESS_F32)
        ((float *)r.gradient)[target] = target_gradient;
    else
        ((uint16_t *)r.gradient)[target] = tess_float_to_bf16(target_gradient);
}

static void cross_entropy_part(void *context, int64_t begin, int64_t end, int worker)
{
    const cross_entropy_loop *l = context;
    const tess_cross_entropy *a = l->rows;
    size_t size = tess_dtype_size(a->dtype);
    for (int64_t row = begin; row < end; row++) {
        float logprob = 0, entropy = 0;
        if (a->targets[row] >= 0)
            cross_entropy_row(l, row, l->work + worker * l->work_stride, &logprob, &entropy);
        else if (a->dlogits != NULL)
            memset((char *)a->dlogits + (size_t)(row * a->ldd) * size, 0, (size_t)a->V * size);
        if (a->logprob != NULL)
            a->logprob[row] = logprob;
        if (a->entropy != NULL)
            a->entropy[row] = entropy;
    }
}

tess_status VEC_NAME(cross_entropy)(tess_stream *s, const tess_cross_entropy *a)
{
    enum { LINE = 16, CHUNK_FLOATS = sizeof(softmax_chunk) / sizeof(float) };
    TESS_TRY(tess_check_cross_entropy(a));
    cross_entropy_loop l = {.rows = a, .n_chunks = (a->V + TESS_SOFTMAX_CHUNK - 1) / TESS_SOFTMAX_CHUNK};
    bool keeps = a->dlogits != NULL && (a->dtype != TESS_F32 || a->dentropy != NULL);
    const int64_t row = (a->V + LINE - 1) / LINE * LINE;
    l.work_logits = keeps ? row : 0;
    l.work_chunks = l.work_logits + (tess_bends_logits(a) ? row : 0);
    l.work_stride = l.work_chunks + (l.n_chunks * CHUNK_FLOATS + LINE - 1) / LINE * LINE;
    size_t bytes = (size_t)(tess_threads_count(s->threads) * l.work_stride) * sizeof(float);
    TESS_TRY(tess_stream_scratch(s, bytes, (void **)&l.work));
    tess_threads_run(s->threads, cross_entropy_part, &l, a->n, tess_loop_grain(2 * a->V));
    return TESS_OK;
}
