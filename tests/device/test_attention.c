/* Attention of every kernel level that this CPU has: against the definition in float64 within derived bounds, against
 * itself in other batches (bit for bit), and with bad input. */
#include "device/attention_naive.h"
#include "device/cuda_shim/cuda_shim_stream.h"
#include "device/dry_device.h"

typedef double real;
#define real_exp exp
#define real_fma fma
#define real_max fmax
#include "device/ref/online_softmax.h"

static const char *const levels[] = {"ref", "avx2", "avx512", "avx512_bf16", "amx", "cuda"};
enum { N_LEVELS = sizeof(levels) / sizeof(levels[0]) };

/* NULL when this CPU cannot run the level. "cuda": the rows for GPUs, run on the host; "cuda-tc": with tensor cores. */
static tess_stream *stream_create(const char *level, int n_threads)
{
    tess_stream *stream = NULL;
    if (strncmp(level, "cuda", 4) == 0) {
        if (!cuda_shim_is_slow())
            EXPECT_OK(cuda_shim_stream(test_mem(), strcmp(level, "cuda") != 0, &stream));
        return stream;
    }
    tess_status status = tess_stream_create(test_mem(), n_threads, level, &stream);
    if (status == TESS_E_UNSUPPORTED)
        return NULL;
    EXPECT_OK(status);
    return stream;
}

static void forward(tess_stream *stream, const tess_attention *a)
{
    EXPECT_OK(tess_stream_kernels(stream)->attention_forward(stream, a));
}

static tess_status try_backward(tess_stream *stream, const problem *p)
{
    tess_attention_grad g = p->g;
    g.forward = p->a;
    return tess_stream_kernels(stream)->attention_backward(stream, &g);
}

static void backward(tess_stream *stream, const problem *p)
{
    EXPECT_OK(try_backward(stream, p));
}

/* Element i of what the kernel gave. */
static void expect_within(const char *level, const char *what, const problem *p, int64_t i, double got, estimate want)
{
    const double error = fabs(got - want.value[i]);
    if (!(error <= want.error[i])) /* NaN, too */
        test_fail(__FILE__, __LINE__,
                  "%s, %s, head size %lld: %s[%lld] is %.9g, expected %.9g: error %.3g, allowed %.3g", level,
                  tess_dtype_name(p->dtype), (long long)p->s.D, what, (long long)i, got, want.value[i], error,
                  want.error[i]);
}

/* Compares rows with a stride to dense ones, and sees that nothing was written between the rows. */
static void expect_rows(const char *level, const char *what, const problem *p, const char *x, int64_t stride,
                        estimate want, int64_t width)
{
    for (int64_t r = 0; r < p->T; r++) {
        for (int64_t c = 0; c < width; c++)
            expect_within(level, what, p, r * width + c, get(p, x, r * stride + c), want);
        for (int64_t c = width; c < stride; c++)
            EXPECT(isnan(get(p, x, r * stride + c)));
    }
}

static const shape shapes[] = {
    {2, 2, 32, 0, 1, {64}, {0}},
    {1, 1, 8, 0, 3, {1, 2, 63}, {0}},
    {3, 1, 40, 0, 4, {65, 0, 127, 1}, {0}},
    {4, 2, 64, 0, 2, {130, 65}, {0}},
    {2, 1, 16, 33, 2, {200, 64}, {0}},
    {2, 2, 80, 1, 1, {70}, {0}},
    {6, 2, 128, 60, 2, {97, 66}, {0}},
    {1, 1, 256, 0, 1, {129}, {0}},
    {5, 5, 33, 7, 2, {31, 33}, {0}},
    {2, 1, 64, 0, 2, {64, 128}, {0}},
    {3, 1, 17, 0, 3, {95, 33, 7}, {0}},
    {2, 2, 97, 41, 1, {161}, {0}},
    {2, 1, 16, 0, 1, {540}, {0}},
    {1, 1, 32, 150, 1, {700}, {0}},
    /* Soft caps that matter, sinks, and both. */
    {4, 2, 64, 0, 2, {130, 65}, {0}, 0.7f, false},
    {3, 1, 40, 0, 4, {65, 0, 127, 1}, {0}, 0, true},
    {18, 2, 32, 33, 3, {70, 1, 45}, {0}, 2, true},
    {2, 1, 97, 0, 1, {140}, {0}, 1.5f, true},
    /* Sinks far from all scores, where a window moves over several blocks. */
    {4, 2, 16, 70, 2, {150, 40}, {0}, 0, true, true},
};
enum { N_SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static const shape cache_shapes[] = {
    {4, 2, 64, 0, 5, {1, 7, 33, 1, 0}, {200, 100, 31, 0, 12}},
    {8, 1, 40, 50, 4, {1, 1, 20, 64}, {130, 64, 300, 1}},
    {3, 3, 128, 0, 2, {5, 1}, {59, 255}},
    {8, 2, 64, 0, 4, {1, 2, 9, 33}, {200, 63, 70, 5}, 1.2f, true},
    {24, 2, 40, 50, 3, {1, 1, 20}, {130, 64, 300}, 0, true},
};
enum { N_CACHE_SHAPES = sizeof(cache_shapes) / sizeof(cache_shapes[0]) };

static const tess_dtype dtypes[] = {TESS_F32, TESS_BF16, TESS_F16}; /* float16 only where it has code of its own */

/* A level against the definition: the forward pass, and the backward pass where every query has its key. */
static void expect_level_agrees(const char *level, problem *p, const naive *n, int n_threads, bool gradients)
{
    const shape *s = &p->s;
    tess_stream *stream = stream_create(level, n_threads);
    if (stream == NULL)
        return;
    forward(stream, &p->a);
    expect_rows(level, "out", p, p->out, p->a.out_stride, n->out, s->H * s->D);
    for (int64_t i = 0; i < p->T * s->H; i++)
        expect_within(level, "lse", p, i, (double)p->lse[i], n->lse);
    if (gradients) {
        backward(stream, p);
        expect_rows(level, "dq", p, p->dq, p->g.dq_stride, n->dq, s->H * s->D);
        expect_rows(level, "dk", p, p->dk, p->g.dk_stride, n->dk, s->G * s->D);
        expect_rows(level, "dv", p, p->dv, p->g.dv_stride, n->dv, s->G * s->D);
        for (int64_t h = 0; h < s->H && s->sinks; h++)
            expect_within(level, "dsinks", p, h, (double)p->dsinks[h], n->dsinks);
    }
    tess_stream_destroy(&stream);
}

static void expect_agreement(const shape *s, tess_dtype dtype, int n_threads, bool gradients)
{
    problem *p = problem_create(s, dtype);
    naive n = naive_run(p);
    for (int l = 0; l < N_LEVELS; l++)
        if (!gradients || strcmp(levels[l], "cuda") != 0) /* slow here, and levels_agree_bit_for_bit has it */
            expect_level_agrees(levels[l], p, &n, n_threads, gradients);
    naive_free(&n);
    problem_destroy(p);
}

static void output_and_gradients_agree_with_float64(void)
{
    for (int i = 0; i < N_SHAPES; i++)
        for (int d = 0; d < 2; d++)
            if (test_takes())
                expect_agreement(&shapes[i], dtypes[d], 1 + i % 3, true);
}

static void output_agrees_with_float64_behind_cached_keys(void)
{
    for (int i = 0; i < N_CACHE_SHAPES; i++)
        for (int d = 0; d < 2; d++)
            expect_agreement(&cache_shapes[i], dtypes[d], 2, false);
}

/* d/dx of sum(out * dout), from the naive forward pass in steps of h. */
static double slope(problem *p, char *x, int64_t i)
{
    const float h = 0x1p-5f, x0 = ((float *)x)[i];
    double sum[2];
    for (int side = 0; side < 2; side++) {
        ((float *)x)[i] = side == 0 ? x0 - h : x0 + h;
        naive n = naive_run(p);
        sum[side] = 0;
        for (int64_t r = 0; r < p->T; r++)
            for (int64_t c = 0; c < p->s.H * p->s.D; c++)
                sum[side] += n.out.value[r * p->s.H * p->s.D + c] * get(p, p->dout, r * p->g.dout_stride + c);
        naive_free(&n);
    }
    ((float *)x)[i] = x0;
    return (sum[1] - sum[0]) / (2 * (double)h);
}

static void expect_slopes(shape s)
{
    problem *p = problem_create(&s, TESS_F32);
    for (int l = 0; l < N_LEVELS; l++) {
        tess_stream *stream = stream_create(levels[l], 1);
        if (stream == NULL)
            continue;
        forward(stream, &p->a);
        backward(stream, p);
        for (int64_t t = 0; t < p->T; t++)
            for (int64_t c = t % 3; c < s.G * s.D; c += 5) {
                const int64_t key_row = t < s.q_len[0] ? t : t + 3; /* three rows of NaN lie between the sequences */
                const float got[3] = {((float *)p->dq)[t * p->g.dq_stride + c],
                                      ((float *)p->dk)[t * p->g.dk_stride + c],
                                      ((float *)p->dv)[t * p->g.dv_stride + c]};
                const float want[3] = {(float)slope(p, p->q, t * p->a.q_stride + c),
                                       (float)slope(p, p->k, key_row * p->a.k_stride + c),
                                       (float)slope(p, p->v, key_row * p->a.v_stride + c)};
                test_expect_close(__FILE__, __LINE__, levels[l], got, want, 3, 2e-3, 2e-4);
            }
        for (int64_t h = 0; h < s.H && s.sinks; h++) {
            const float want = (float)slope(p, p->sinks, h);
            test_expect_close(__FILE__, __LINE__, levels[l], &p->dsinks[h], &want, 1, 2e-3, 2e-4);
        }
        tess_stream_destroy(&stream);
    }
    problem_destroy(p);
}

static void gradients_are_the_slopes_of_the_output(void)
{
    expect_slopes((shape){4, 2, 8, 5, 2, {9, 4}, {0}, 0, false});
    expect_slopes((shape){4, 2, 8, 5, 2, {9, 4}, {0}, 1.5f, true});
}

/* ---- The same bits -------------------------------------------------------------------------------------------------
 */
/* ref has no tiles that a row could fall into otherwise, and takes thirty times as long; a GPU's threads take turns on
 * the host: here they compute the smaller shapes only. */
static bool worth_computing(const char *level, const shape *s)
{
    int64_t pairs = 0;
    for (int i = 0; i < s->n_seqs; i++)
        pairs += s->q_len[i] * (s->q_len[i] + s->extra[i]);
    bool slow = strcmp(level, "ref") == 0 || strcmp(level, "cuda") == 0;
    return !slow || pairs * s->H * s->D < 2500000;
}

/* Runs query rows [begin, begin + n) of sequence i alone, their keys being all up to the last of them, and compares. */
static void expect_same_alone(tess_stream *stream, const problem *p, int i, int64_t begin, int64_t n)
{
    const int64_t row_bytes = (int64_t)p->size * p->a.out_stride, H = p->s.H;
    const tess_attention_seq *whole = &p->seqs[i];
    tess_attention_seq seq = *whole;
    seq.q_begin = 0;
    seq.q_len = n;
    seq.k_len = whole->k_len - whole->q_len + begin + n;
    tess_attention a = p->a;
    a.n_seqs = 1;
    a.seqs = &seq;
    a.q = p->q + (size_t)((whole->q_begin + begin) * a.q_stride) * p->size;
    char *out = take((size_t)(n * row_bytes)), *want = p->out + (whole->q_begin + begin) * row_bytes;
    float *lse = take(sizeof(float) * (size_t)(n * H));
    a.out = out;
    a.lse = lse;
    forward(stream, &a);
    for (int64_t r = 0; r < n; r++)
        EXPECT_SAME((const uint16_t *)(out + r * row_bytes), (const uint16_t *)(want + r * row_bytes),
                    (size_t)(H * p->s.D) * p->size / 2);
    EXPECT_SAME(lse, p->lse + (whole->q_begin + begin) * H, (size_t)(n * H));
    free(out);
    free(lse);
}

/* Whole batch at once, then each sequence alone, then cut into pieces of `step` rows. */
static void expect_pieces(const char *level, const shape *s, tess_dtype dtype, int64_t step)
{
    if (!worth_computing(level, s))
        return;
    tess_stream *batch_stream = stream_create(level, 2), *stream = stream_create(level, 1);
    if (stream == NULL)
        return;
    problem *p = problem_create(s, dtype);
    forward(batch_stream, &p->a);
    for (int i = 0; i < s->n_seqs; i++) {
        expect_same_alone(stream, p, i, 0, s->q_len[i]);
        for (int64_t begin = 0; begin < s->q_len[i]; begin += step)
            expect_same_alone(stream, p, i, begin, step < s->q_len[i] - begin ? step : s->q_len[i] - begin);
    }
    problem_destroy(p);
    tess_stream_destroy(&stream);
    tess_stream_destroy(&batch_stream);
}

static void a_row_has_the_same_bits_token_by_token(void)
{
    for (int l = 0; l < N_LEVELS; l++)
        for (int d = 0; d < 2; d++) {
            for (int i = 0; i < N_SHAPES; i++)
                if (test_takes())
                    expect_pieces(levels[l], &shapes[i], dtypes[d], 1);
            for (int i = 0; i < N_CACHE_SHAPES; i++)
                if (test_takes())
                    expect_pieces(levels[l], &cache_shapes[i], dtypes[d], 1);
        }
}

static void a_row_has_the_same_bits_in_pieces_of_any_length(void)
{
    static const int64_t steps[] = {2, 15, 16, 17, 32, 37, 64};
    for (int l = 0; l < N_LEVELS; l++)
        for (int d = 0; d < 2; d++)
            for (int i = 0; i < N_SHAPES; i++)
                if (test_takes())
                    expect_pieces(levels[l], &shapes[i], dtypes[d], steps[i % 7]);
}

static void expect_same_gradients(const problem *a, const problem *b, int64_t a_row, int64_t b_row, int64_t n)
{
    const size_t q_words = (size_t)(a->s.H * a->s.D) * a->size / 2, kv_words = (size_t)(a->s.G * a->s.D) * a->size / 2;
    const int64_t size = (int64_t)a->size;
    for (int64_t r = 0; r < n; r++) {
        const int64_t ra = (a_row + r) * size, rb = (b_row + r) * size;
        const uint16_t *dq = (const uint16_t *)(a->dq + ra * a->g.dq_stride),
                       *dq_b = (const uint16_t *)(b->dq + rb * b->g.dq_stride);
        const uint16_t *dk = (const uint16_t *)(a->dk + ra * a->g.dk_stride),
                       *dk_b = (const uint16_t *)(b->dk + rb * b->g.dk_stride);
        const uint16_t *dv = (const uint16_t *)(a->dv + ra * a->g.dv_stride),
                       *dv_b = (const uint16_t *)(b->dv + rb * b->g.dv_stride);
        EXPECT_SAME(dq, dq_b, q_words);
        EXPECT_SAME(dk, dk_b, kv_words);
        EXPECT_SAME(dv, dv_b, kv_words);
    }
}

static void forget_sinks(const problem *p)
{
    memset(p->dsinks, 0xff, sizeof(float) * (size_t)p->s.H);
}

/* Each third of the heads and of the rows by itself, whatever is written of the others. */
static void expect_gradients_in_parts(tess_stream *stream, const problem *p, problem *other)
{
    enum { PARTS = 3 };
    const int64_t D = p->s.D, size = (int64_t)p->size;
    for (int64_t part = 0; part < PARTS; part++) {
        tess_attention_grad *g = &other->g;
        g->in_part = true;
        g->head_begin = p->s.H * part / PARTS;
        g->head_end = p->s.H * (part + 1) / PARTS;
        g->query_begin = p->T * (PARTS - 1 - part) / PARTS;
        g->query_end = p->T * (PARTS - part) / PARTS;
        g->key_begin = p->T * part / PARTS;
        g->key_end = p->T * (part + 1) / PARTS;
        const int64_t n_heads = g->head_end - g->head_begin;
        for (int64_t r = 0; r < p->T; r++) {
            memset(other->dq + r * size * g->dq_stride, 0xff, (size_t)(p->s.H * D * size));
            memset(other->dk + r * size * g->dk_stride, 0xff, (size_t)(p->s.G * D * size));
            memset(other->dv + r * size * g->dv_stride, 0xff, (size_t)(p->s.G * D * size));
        }
        forget_sinks(other);
        backward(stream, other);
        for (int64_t r = g->query_begin; r < g->query_end; r++) {
            const int64_t at = (r * g->dq_stride + g->head_begin * D) * size;
            EXPECT_SAME((const uint16_t *)(other->dq + at), (const uint16_t *)(p->dq + at),
                        (size_t)(n_heads * D * size) / 2);
        }
        for (int64_t r = g->key_begin; r < g->key_end; r++) {
            const int64_t k = r * g->dk_stride * size, v = r * g->dv_stride * size;
            const size_t words = (size_t)(p->s.G * D * size) / 2;
            EXPECT_SAME((const uint16_t *)(other->dk + k), (const uint16_t *)(p->dk + k), words);
            EXPECT_SAME((const uint16_t *)(other->dv + v), (const uint16_t *)(p->dv + v), words);
        }
        if (p->s.sinks)
            EXPECT_SAME(other->dsinks + g->head_begin, p->dsinks + g->head_begin, (size_t)n_heads);
    }
    other->g.in_part = false;
}

/* The same problem with other threads (3 make the threads share a unit), and each sequence as a batch of its own. */
static void expect_gradients_in_any_batch(const char *level, const shape *s, tess_dtype dtype)
{
    tess_stream *one = stream_create(level, 1), *three = stream_create(level, 3);
    if (one == NULL)
        return;
    random_state = 7;
    problem *p = problem_create(s, dtype);
    random_state = 7;
    problem *other = problem_create(s, dtype);
    forward(one, &p->a);
    backward(one, p);
    forward(three, &other->a);
    forget_sinks(other);
    backward(three, other);
    expect_same_gradients(p, other, 0, 0, p->T);
    if (s->sinks)
        EXPECT_SAME(p->dsinks, other->dsinks, (size_t)s->H);
    expect_gradients_in_parts(one, p, other);
    expect_gradients_in_parts(three, p, other);
    for (int n = 0; s->n_seqs > 1 && n < s->n_seqs; n++) {
        other->a.n_seqs = 1;
        other->a.seqs = &other->seqs[n];
        backward(n % 2 == 0 ? three : one, other);
        expect_same_gradients(p, other, p->seqs[n].q_begin, p->seqs[n].q_begin, p->seqs[n].q_len);
    }
    problem_destroy(p);
    problem_destroy(other);
    tess_stream_destroy(&one);
    tess_stream_destroy(&three);
}

static void gradients_have_the_same_bits_in_any_batch(void)
{
    for (int l = 0; l < N_LEVELS; l++)
        for (int d = 0; d < 2; d++)
            for (int i = 0; i < N_SHAPES; i++)
                if (worth_computing(levels[l], &shapes[i]) && test_takes())
                    expect_gradients_in_any_batch(levels[l], &shapes[i], dtypes[d]);
}

/* AMX pairs its bf16 products, so it only shares float32; ref, AVX2 and AVX-512 share both. */
static void levels_agree_bit_for_bit(void)
{
    tess_stream *ref = stream_create("ref", 1);
    for (int d = 0; d < 2; d++)
        for (int i = 0; i < N_SHAPES; i++) {
            random_state = 3;
            problem *p = problem_create(&shapes[i], dtypes[d]);
            forward(ref, &p->a);
            backward(ref, p);
            for (int l = 1; l < N_LEVELS; l++) {
                tess_stream *stream = stream_create(levels[l], 1);
                if (stream == NULL || (dtypes[d] == TESS_BF16 && strcmp(levels[l], "amx") == 0)) {
                    tess_stream_destroy(&stream);
                    continue;
                }
                random_state = 3;
                problem *other = problem_create(&shapes[i], dtypes[d]);
                forward(stream, &other->a);
                backward(stream, other);
                EXPECT_SAME(other->lse, p->lse, (size_t)(p->T * p->s.H));
                EXPECT_SAME(other->dsinks, p->dsinks, (size_t)p->s.H);
                expect_same_gradients(p, other, 0, 0, p->T);
                problem_destroy(other);
                tess_stream_destroy(&stream);
            }
            problem_destroy(p);
        }
    tess_stream_destroy(&ref);
}

/* ---- Calls that each have a part of the keys ---- */
enum { MOST_RUNS = 40, MOST_PARTS = 16 };

/* Queries (or keys) [begin, end) of a sequence, and the rows of the other kind that they take. */
typedef struct run {
    int i;
    int64_t begin, end, need, need_end;
} run;

/* Cuts sequences into runs of `step` rows, which take whole parts of `unit` rows of the other kind. */
static int cut_runs(const problem *p, bool of_keys, int64_t step, int64_t unit, run *runs)
{
    int n = 0;
    const int64_t window = p->s.window;
    for (int i = 0; i < p->s.n_seqs; i++)
        for (int64_t begin = 0; begin < p->s.q_len[i]; begin += step) {
            const int64_t length = p->s.q_len[i], end = begin + step < length ? begin + step : length;
            const int64_t first = !of_keys ? begin : window > 0 && begin + 1 > window ? begin + 1 - window : 0;
            const int64_t last = of_keys ? end : window > 0 && end + window - 1 < length ? end + window - 1 : length;
            EXPECT(n < MOST_RUNS);
            runs[n++] = (run){i, begin, end, first / unit * unit, last};
        }
    return n;
}

/* Describes part `number` of each run that has it; parts have 1 or 2 times `unit` rows. `backwards`: the
 * last part comes first. Returns the number of descriptors. */
static int parts_of(const problem *p, bool of_keys, int64_t unit, const run *runs, int n_runs, int number,
                    bool backwards, tess_attention_seq *seqs)
{
    int n = 0;
    for (int r = 0; r < n_runs; r++) {
        const tess_attention_seq *s = &p->seqs[runs[r].i];
        const int64_t size = unit * (1 + r % 2), all = runs[r].need_end - runs[r].need;
        const int64_t n_parts = (all + size - 1) / size, place = backwards ? n_parts - 1 - number : number;
        if (number >= n_parts)
            continue;
        const int64_t begin = runs[r].need + place * size;
        const int64_t end = begin + size < runs[r].need_end ? begin + size : runs[r].need_end;
        const int64_t keys = of_keys ? begin : runs[r].begin, queries = of_keys ? runs[r].begin : begin;
        tess_attention_seq *to = &seqs[n++];
        *to = (tess_attention_seq){.q_begin = s->q_begin + queries,
                                   .q_len = of_keys ? runs[r].end - runs[r].begin : end - begin,
                                   .k_len = of_keys ? runs[r].end : end,
                                   .k = (const char *)s->k + (size_t)(keys * p->a.k_stride) * p->size,
                                   .v = (const char *)s->v + (size_t)(keys * p->a.v_stride) * p->size,
                                   .k_begin = keys,
                                   .k_end = of_keys ? end : runs[r].end,
                                   .k_row = s->q_begin + keys,
                                   .first = number == 0,
                                   .last = number == n_parts - 1};
    }
    return n;
}

static void forward_in_parts(tess_stream *stream, const problem *p, int64_t step, int64_t unit, bool backwards)
{
    run runs[MOST_RUNS];
    tess_attention_seq seqs[MOST_RUNS];
    tess_attention a = p->a;
    const int n_runs = cut_runs(p, true, step, unit, runs);
    const size_t bytes = sizeof(float) * (size_t)(p->T * p->s.H * (p->s.D + 2));
    a.seqs = seqs;
    a.state = take(bytes);
    memset(a.state, 0xff, bytes);
    for (int number = 0; number < MOST_PARTS; number++) {
        a.n_seqs = parts_of(p, true, unit, runs, n_runs, number, backwards, seqs);
        forward(stream, &a);
    }
    free(a.state);
}

static void queries_in_parts(tess_stream *stream, const problem *p, int64_t step, float *delta)
{
    run runs[MOST_RUNS];
    tess_attention_seq seqs[MOST_RUNS];
    tess_attention_grad g = p->g;
    const int n_runs = cut_runs(p, true, step, TESS_ATTENTION_PART, runs);
    const size_t bytes = sizeof(float) * (size_t)(p->T * p->s.H * p->s.D);
    g.forward = p->a;
    g.forward.seqs = seqs;
    g.forward.state = take(bytes);
    g.wanted = TESS_ATTENTION_QUERIES;
    g.delta = delta;
    g.dsinks = NULL;
    g.dk = g.dv = NULL;
    memset(g.forward.state, 0xff, bytes);
    for (int number = 0; number < MOST_PARTS; number++) {
        g.forward.n_seqs = parts_of(p, true, TESS_ATTENTION_PART, runs, n_runs, number, false, seqs);
        EXPECT_OK(tess_stream_kernels(stream)->attention_backward(stream, &g));
    }
    free(g.forward.state);
}

/* Copies query head `rep` of each key head: rows of q and dout, lse and delta. */
static void take_heads(const problem *p, const tess_attention_grad *all, int64_t rep, const tess_attention_grad *to)
{
    const int64_t G = p->s.G, D = p->s.D, H = p->s.H;
    for (int64_t t = 0; t < p->T; t++)
        for (int64_t kv = 0; kv < G; kv++) {
            const int64_t h = kv * (H / G) + rep;
            const size_t at = (size_t)((t * G + kv) * D) * p->size;
            memcpy((char *)(uintptr_t)to->forward.q + at,
                   (const char *)all->forward.q + (size_t)(t * p->a.q_stride + h * D) * p->size, (size_t)D * p->size);
            memcpy((char *)(uintptr_t)to->dout + at,
                   (const char *)all->dout + (size_t)(t * p->g.dout_stride + h * D) * p->size, (size_t)D * p->size);
            to->forward.lse[t * G + kv] = all->forward.lse[t * H + h];
            to->delta[t * G + kv] = all->delta[t * H + h];
        }
}

static void keys_in_parts(tess_stream *stream, const problem *p, int64_t step, float *delta)
{
    run runs[MOST_RUNS];
    tess_attention_seq seqs[MOST_RUNS];
    const int64_t G = p->s.G, D = p->s.D, n_rep = p->s.H / G;
    const int n_runs = cut_runs(p, false, step, TESS_ATTENTION_PART, runs);
    const size_t bytes = sizeof(float) * (size_t)(p->T * G * 2 * D), rows = (size_t)(p->T * G * D) * p->size;
    tess_attention_grad all = p->g, g = p->g;
    all.forward = g.forward = p->a;
    all.delta = delta;
    g.forward.n_heads = G;
    g.forward.seqs = seqs;
    g.forward.state = take(bytes);
    g.forward.q = take(rows);
    g.dout = take(rows);
    g.forward.q_stride = g.dout_stride = G * D;
    g.forward.lse = take(sizeof(float) * (size_t)(p->T * G));
    g.delta = take(sizeof(float) * (size_t)(p->T * G));
    g.forward.out = NULL;
    g.dq = g.dsinks = NULL;
    g.wanted = TESS_ATTENTION_KEYS;
    memset(g.forward.state, 0xff, bytes);
    for (int64_t rep = 0; rep < n_rep; rep++) {
        take_heads(p, &all, rep, &g);
        for (int number = 0; number < MOST_PARTS; number++) {
            g.forward.n_seqs = parts_of(p, false, TESS_ATTENTION_PART, runs, n_runs, number, false, seqs);
            for (int64_t i = 0; i < g.forward.n_seqs; i++) {
                seqs[i].first = seqs[i].first && rep == 0;
                seqs[i].last = seqs[i].last && rep == n_rep - 1;
            }
            EXPECT_OK(tess_stream_kernels(stream)->attention_backward(stream, &g));
        }
    }
    void *parts[] = {g.forward.state, (void *)(uintptr_t)g.forward.q, (void *)(uintptr_t)g.dout, g.forward.lse,
                     g.delta};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        free(parts[i]);
}

static void sinks_alone(tess_stream *stream, const problem *p, float *delta)
{
    tess_attention_grad g = p->g;
    g.forward = p->a;
    g.wanted = TESS_ATTENTION_SINKS;
    g.delta = delta;
    if (p->s.sinks)
        EXPECT_OK(tess_stream_kernels(stream)->attention_backward(stream, &g));
}

/* Overwrites what calls write; rows keep what is between them. */
static void forget_results(const problem *p)
{
    const size_t q = (size_t)(p->s.H * p->s.D) * p->size, kv = (size_t)(p->s.G * p->s.D) * p->size;
    for (int64_t t = 0; t < p->T; t++) {
        memset(p->out + (size_t)(t * p->a.out_stride) * p->size, 0xff, q);
        memset(p->dq + (size_t)(t * p->g.dq_stride) * p->size, 0xff, q);
        memset(p->dk + (size_t)(t * p->g.dk_stride) * p->size, 0xff, kv);
        memset(p->dv + (size_t)(t * p->g.dv_stride) * p->size, 0xff, kv);
    }
    memset(p->lse, 0xff, sizeof(float) * (size_t)(p->T * p->s.H));
    forget_sinks(p);
}

static void expect_same_outputs(const problem *a, const problem *b)
{
    for (int64_t t = 0; t < a->T; t++) {
        const uint16_t *x = (const uint16_t *)(a->out + (size_t)(t * a->a.out_stride) * a->size),
                       *y = (const uint16_t *)(b->out + (size_t)(t * a->a.out_stride) * a->size);
        EXPECT_SAME(x, y, (size_t)(a->s.H * a->s.D) * a->size / 2);
    }
    EXPECT_SAME(a->lse, b->lse, (size_t)(a->T * a->s.H));
}

static void expect_parts(const char *level, const shape *s, tess_dtype dtype, int64_t step)
{
    const int64_t unit = strcmp(level, "cuda-tc") == 0 ? TESS_ATTENTION_CHUNK : TESS_ATTENTION_PART;
    tess_stream *one = stream_create(level, 1), *two = stream_create(level, 2);
    if (one == NULL)
        return;
    random_state = 11;
    problem *p = problem_create(s, dtype);
    random_state = 11;
    problem *whole = problem_create(s, dtype);
    float *delta = take(sizeof(float) * (size_t)(p->T * s->H));
    forward(one, &whole->a);
    backward(one, whole);
    forget_results(p);
    forward_in_parts(one, p, step, unit, false);
    expect_same_outputs(p, whole);
    forward_in_parts(two, p, step + 19, unit, false);
    expect_same_outputs(p, whole);
    queries_in_parts(two, p, step, delta);
    keys_in_parts(two, p, step, delta);
    sinks_alone(two, p, delta);
    expect_same_gradients(p, whole, 0, 0, p->T);
    if (s->sinks)
        EXPECT_SAME(p->dsinks, whole->dsinks, (size_t)s->H);
    free(delta);
    problem_destroy(p);
    problem_destroy(whole);
    tess_stream_destroy(&one);
    tess_stream_destroy(&two);
}

static void parts_of_keys_in_their_order_give_the_bits_of_one_call(void)
{
    static const int64_t steps[] = {96, 32, 45, 128, 77, 160};
    for (int l = 0; l < N_LEVELS; l++)
        for (int d = 0; d < (strcmp(levels[l], "cuda") == 0 ? 2 : 3); d++) /* no float16 on GPUs */
            for (int i = 0; i < N_SHAPES; i++)
                if (worth_computing(levels[l], &shapes[i]) && test_takes())
                    expect_parts(levels[l], &shapes[i], dtypes[d], steps[i % 6]);
}

static void parts_in_another_order_give_other_bits(void)
{
    const shape s = {2, 1, 16, 0, 1, {540}, {0}};
    tess_stream *stream = stream_create("ref", 2);
    random_state = 5;
    problem *p = problem_create(&s, TESS_F32);
    random_state = 5;
    problem *other = problem_create(&s, TESS_F32);
    int64_t n_same = 0;
    forward_in_parts(stream, p, 540, TESS_ATTENTION_PART, false);
    forward_in_parts(stream, other, 540, TESS_ATTENTION_PART, true);
    for (int64_t t = 0; t < p->T; t++)
        n_same += memcmp(p->out + (size_t)(t * p->a.out_stride) * p->size,
                         other->out + (size_t)(t * p->a.out_stride) * p->size, (size_t)(s.H * s.D) * p->size) == 0;
    EXPECT(n_same >= TESS_ATTENTION_PART && n_same < p->T / 2); /* the first rows see one part alone */
    problem_destroy(p);
    problem_destroy(other);
    tess_stream_destroy(&stream);
}

static void parts_are_within_2e_6_of_float64(void)
{
    const shape large = {4, 1, 32, 0, 2, {512, 300}, {0}}, small = {2, 1, 32, 0, 2, {290, 40}, {0}};
    for (int l = 0; l < N_LEVELS; l++) {
        const shape s = strcmp(levels[l], "cuda") == 0 ? small : large;
        tess_stream *stream = stream_create(levels[l], 1);
        if (stream == NULL)
            continue;
        random_state = 9;
        problem *p = problem_create(&s, TESS_F32);
        naive n = naive_run(p);
        forward_in_parts(stream, p, 96, TESS_ATTENTION_PART, false);
        for (int64_t i = 0; i < p->T * s.H * s.D; i++) {
            const double got = get(p, p->out, i / (s.H * s.D) * p->a.out_stride + i % (s.H * s.D));
            EXPECT(fabs(got - n.out.value[i]) <= 2e-6);
        }
        naive_free(&n);
        problem_destroy(p);
        tess_stream_destroy(&stream);
    }
}

/* One head of 32 tokens on 4 ranks in double: the merge that `ref` uses, leaf by leaf, against all scores at once. */
static void the_merge_in_double_is_full_attention(void)
{
    enum { S = 32, CP = 4, D = 16, LEAF = S / CP };
    double q[S][D], k[S][D], v[S][D];
    random_state = 21;
    for (int i = 0; i < S * D; i++) {
        q[i / D][i % D] = (double)uniform();
        k[i / D][i % D] = (double)uniform();
        v[i / D][i % D] = (double)uniform();
    }
    for (int i = 0; i < S; i++) {
        double state[SOFTMAX_O + D], p[S], sum = 0, top = -INFINITY;
        softmax_begin(state, D, false, 0);
        for (int leaf = 0; leaf * LEAF <= i; leaf++) {
            double score[LEAF];
            const int begin = leaf * LEAF, n = i + 1 - begin < LEAF ? i + 1 - begin : LEAF;
            for (int j = 0; j < n; j++)
                p[begin + j] = score[j] = dot(q[i], k[begin + j], D) / sqrt(D);
            softmax_merge(state, D, score, 0, n);
            for (int j = 0; j < n; j++)
                for (int d = 0; d < D; d++)
                    softmax_add(state, d, score[j], v[begin + j][d]);
        }
        for (int j = 0; j <= i; j++)
            top = fmax(top, p[j]);
        for (int j = 0; j <= i; j++)
            sum += p[j] = exp(p[j] - top);
        for (int d = 0; d < D; d++) {
            double out = 0;
            for (int j = 0; j <= i; j++)
                out += p[j] * v[j][d];
            EXPECT(fabs(softmax_result(state, d) - out / sum) <= 4e-16);
        }
    }
}

/* A problem's keys and values in pages that lie across one another, from the end, with NaN in whatever no key has. */
typedef struct paged {
    tess_attention a;
    tess_attention_seq seqs[MAX_SEQS];
    int32_t tables[MAX_SEQS][16];
    char *k, *v;
} paged;

static void copy_into_pages(paged *g, const problem *p, int i, int64_t j)
{
    const int64_t page = g->tables[i][j / TESS_ATTENTION_BLOCK], row = j % TESS_ATTENTION_BLOCK;
    const size_t size = p->size, width = (size_t)(p->s.G * p->s.D) * size;
    memcpy(g->k + (size_t)(page * g->a.page_stride + row * p->a.k_stride) * size,
           (const char *)p->seqs[i].k + (size_t)(j * p->a.k_stride) * size, width);
    memcpy(g->v + (size_t)(page * g->a.page_stride + row * p->a.v_stride) * size,
           (const char *)p->seqs[i].v + (size_t)(j * p->a.v_stride) * size, width);
}

static void lay_out_in_pages(paged *g, const problem *p)
{
    int64_t n_pages = 0, next = 0;
    const int64_t stride = p->a.k_stride > p->a.v_stride ? p->a.k_stride : p->a.v_stride;
    for (int i = 0; i < p->s.n_seqs; i++)
        n_pages += (p->seqs[i].k_len + TESS_ATTENTION_BLOCK - 1) / TESS_ATTENTION_BLOCK;
    g->a = p->a;
    g->a.seqs = g->seqs;
    g->a.page_stride = TESS_ATTENTION_BLOCK * stride + 9;
    const size_t bytes = (size_t)((n_pages + 1) * g->a.page_stride) * p->size;
    g->k = take(bytes);
    g->v = take(bytes);
    memset(g->k, 0xff, bytes);
    memset(g->v, 0xff, bytes);
    for (int64_t j = 0; j < 16; j++) /* a page of each in turn */
        for (int i = 0; i < p->s.n_seqs; i++)
            g->tables[i][j] = j * TESS_ATTENTION_BLOCK < p->seqs[i].k_len ? (int32_t)(n_pages - next++) : INT32_MIN;
    for (int i = 0; i < p->s.n_seqs; i++) {
        g->seqs[i] = p->seqs[i];
        g->seqs[i].k = g->k;
        g->seqs[i].v = g->v;
        g->seqs[i].pages = g->tables[i];
        for (int64_t j = 0; j < p->seqs[i].k_len; j++)
            copy_into_pages(g, p, i, j);
    }
}

static void expect_same_in_pages(const char *level, const shape *s, tess_dtype dtype)
{
    if (!worth_computing(level, s))
        return;
    tess_stream *stream = stream_create(level, 2);
    if (stream == NULL)
        return;
    static paged g;
    problem *p = problem_create(s, dtype);
    forward(stream, &p->a);
    const size_t out_bytes = (size_t)(p->T * p->a.out_stride) * p->size, n_lse = (size_t)(p->T * s->H);
    char *out = take(out_bytes);
    float *lse = take(n_lse * sizeof(float));
    memcpy(out, p->out, out_bytes);
    memcpy(lse, p->lse, n_lse * sizeof(float));
    memset(p->out, 0xff, out_bytes);
    lay_out_in_pages(&g, p);
    forward(stream, &g.a);
    for (int64_t r = 0; r < p->T; r++)
        EXPECT_SAME((const uint16_t *)(p->out + (size_t)(r * p->a.out_stride) * p->size),
                    (const uint16_t *)(out + (size_t)(r * p->a.out_stride) * p->size),
                    (size_t)(s->H * s->D) * p->size / 2);
    EXPECT_SAME(p->lse, lse, n_lse);
    free(out);
    free(lse);
    free(g.k);
    free(g.v);
    problem_destroy(p);
    tess_stream_destroy(&stream);
}

static void keys_in_pages_give_the_bits_of_keys_in_a_row(void)
{
    for (int l = 0; l < N_LEVELS; l++)
        for (int d = 0; d < 2; d++) {
            for (int i = 0; i < N_SHAPES; i++)
                expect_same_in_pages(levels[l], &shapes[i], dtypes[d]);
            for (int i = 0; i < N_CACHE_SHAPES; i++)
                expect_same_in_pages(levels[l], &cache_shapes[i], dtypes[d]);
        }
}

/* ---- Tensor cores ---------------------------------------------------------------------------------------------------
 */
static const shape tensor_shapes[] = {
    {1, 1, 64, 0, 4, {1, 7, 17, 63}, {0}}, {3, 3, 64, 0, 2, {64, 65}, {0}},    {4, 1, 128, 0, 2, {33, 17}, {0}},
    {2, 1, 128, 20, 1, {130}, {0}},        {1, 1, 40, 5, 3, {31, 0, 70}, {0}}, {3, 1, 97, 0, 1, {30}, {0}},
};

/* Few queries in front of many keys: with more than 1024 of them, a row's chunks are computed separately and merged. */
static const shape tensor_cache_shapes[] = {
    {4, 1, 64, 0, 4, {1, 2, 4, 0}, {200, 63, 60, 9}},
    {8, 2, 128, 50, 3, {1, 1, 5}, {130, 1, 200}},
    {2, 1, 64, 0, 2, {1, 9}, {2100, 1020}},
    {2, 1, 128, 0, 1, {3}, {1100}},
    {66, 66, 8, 40, 4, {1, 1, 1, 1}, {1030, 2050, 20, 1080}},
};
enum {
    N_TENSOR_SHAPES = sizeof(tensor_shapes) / sizeof(tensor_shapes[0]),
    N_TENSOR_CACHE_SHAPES = sizeof(tensor_cache_shapes) / sizeof(tensor_cache_shapes[0])
};

static void expect_tensor_agreement(const shape *s, bool gradients)
{
    problem *p = problem_create(s, TESS_BF16);
    naive n = naive_run(p);
    expect_level_agrees("cuda-tc", p, &n, 1, gradients);
    naive_free(&n);
    problem_destroy(p);
}

static void tensor_cores_agree_with_float64(void)
{
    for (int i = 0; i < N_TENSOR_SHAPES; i++)
        expect_tensor_agreement(&tensor_shapes[i], true);
    for (int i = 0; i < N_TENSOR_CACHE_SHAPES; i++)
        expect_tensor_agreement(&tensor_cache_shapes[i], false);
}

/* Alone, in pieces, in pages: in training and in generation. */
static void tensor_cores_give_a_row_the_same_bits_everywhere(void)
{
    static const int64_t steps[] = {3, 16, 17, 37};
    for (int i = 0; i < N_TENSOR_SHAPES; i++)
        expect_pieces("cuda-tc", &tensor_shapes[i], TESS_BF16, steps[i % 4]);
    for (int i = 0; i < N_TENSOR_CACHE_SHAPES; i++) {
        expect_pieces("cuda-tc", &tensor_cache_shapes[i], TESS_BF16, 1);
        if (i < 2)
            expect_same_in_pages("cuda-tc", &tensor_cache_shapes[i], TESS_BF16);
    }
}

static void tensor_cores_give_gradients_the_same_bits_in_any_batch(void)
{
    for (int i = 0; i < N_TENSOR_SHAPES; i++)
        if (tensor_shapes[i].n_seqs > 1)
            expect_gradients_in_any_batch("cuda-tc", &tensor_shapes[i], TESS_BF16);
}

/* More than 1024 keys are several chunks. The first two see parts of 128 rows in backward alone; with sinks other
 * kernels compute all of it. */
static void tensor_cores_give_parts_the_bits_of_one_call(void)
{
    static const shape whole[] = {
        {2, 1, 64, 0, 2, {270, 33}, {0}}, {2, 2, 97, 40, 1, {200}, {0}},   {2, 1, 16, 0, 1, {150}, {0}, 0, true},
        {1, 1, 40, 90, 1, {1090}, {0}},   {1, 1, 128, 30, 1, {1060}, {0}},
    };
    static const int64_t steps[] = {96, 77, 64, 500, 1024};
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
        expect_parts("cuda-tc", &whole[i], TESS_BF16, steps[i]);
}

/* All keys of two chunks: the last rows have sums of an earlier call. */
static void tensor_cores_keep_sums_of_chunks(void)
{
    const shape s = {1, 1, 64, 0, 1, {1100}, {0}};
    tess_stream *stream = stream_create("cuda-tc", 1);
    if (stream == NULL)
        return;
    random_state = 13;
    problem *p = problem_create(&s, TESS_BF16), *whole;
    random_state = 13;
    whole = problem_create(&s, TESS_BF16);
    forward(stream, &whole->a);
    forward_in_parts(stream, p, 367, TESS_ATTENTION_CHUNK, false); /* the third run takes two calls */
    expect_same_outputs(p, whole);
    tess_attention_seq part = {
        .q_len = 64, .k_len = 640, .k = p->k, .v = p->v, .k_begin = 128, .k_end = 640, .first = true};
    tess_attention a = p->a;
    float state;
    a.state = &state;
    a.n_seqs = 1;
    a.seqs = &part;
    EXPECT_FAILS(tess_stream_kernels(stream)->attention_forward(stream, &a), TESS_E_INVALID,
                 "keys 128 to 640 of 640; tensor cores take multiples of 1024");
    problem_destroy(p);
    problem_destroy(whole);
    tess_stream_destroy(&stream);
}

/* Scores so far apart that all but one probability is 0, and some products underflow. */
static void extreme_scores_stay_finite(void)
{
    const shape s = {2, 1, 32, 0, 1, {130}, {0}};
    for (int l = 0; l <= N_LEVELS; l++)
        for (int d = 0; d < 2; d++) {
            tess_stream *stream = stream_create(l < N_LEVELS ? levels[l] : "cuda-tc", 1);
            if (stream == NULL)
                continue;
            problem *p = problem_create(&s, dtypes[d]);
            p->a.scale = 300;
            forward(stream, &p->a);
            backward(stream, p);
            for (int64_t r = 0; r < p->T; r++)
                for (int64_t c = 0; c < s.H * s.D; c++) {
                    EXPECT(fabs(get(p, p->out, r * p->a.out_stride + c)) <= 1);
                    EXPECT(isfinite(get(p, p->dq, r * p->g.dq_stride + c)));
                }
            EXPECT(get(p, p->out, 0) == get(p, p->v, 0)); /* one key: its value */
            problem_destroy(p);
            tess_stream_destroy(&stream);
        }
}

static void impossible_arguments_are_refused(void)
{
    const shape s = {4, 2, 8, 0, 2, {3, 4}, {0, 2}};
    for (int l = 0; l < N_LEVELS; l++) {
        tess_stream *stream = stream_create(levels[l], 1);
        if (stream == NULL)
            continue;
        problem *p = problem_create(&s, TESS_F32);
        EXPECT_FAILS(try_backward(stream, p), TESS_E_INVALID, "4 queries and 6 keys");
        p->a.lse = NULL;
        EXPECT_FAILS(try_backward(stream, p), TESS_E_INVALID, "lse");
        EXPECT_OK(tess_stream_kernels(stream)->attention_forward(stream, &p->a));
        p->a.n_seqs = 0;
        EXPECT_OK(tess_stream_kernels(stream)->attention_forward(stream, &p->a));
        p->a.n_seqs = 2;
        p->seqs[1].k_len = 3;
        EXPECT_FAILS(tess_stream_kernels(stream)->attention_forward(stream, &p->a), TESS_E_INVALID,
                     "sequence 1 has 4 queries and 3 keys");
        p->seqs[1].k_len = 4;
        p->seqs[1].pages = (const int32_t[]){0};
        EXPECT_FAILS(tess_stream_kernels(stream)->attention_forward(stream, &p->a), TESS_E_INVALID, "0 elements apart");
        p->a.lse = p->lse;
        EXPECT_FAILS(try_backward(stream, p), TESS_E_INVALID, "the keys of sequence 1 lie in pages");
        p->seqs[1].pages = NULL;
        p->a.n_kv_heads = 3;
        EXPECT_FAILS(tess_stream_kernels(stream)->attention_forward(stream, &p->a), TESS_E_INVALID, "do not share 3");
        p->a.n_kv_heads = 2;
        p->a.scale = 0;
        EXPECT_FAILS(tess_stream_kernels(stream)->attention_forward(stream, &p->a), TESS_E_INVALID, "scale");
        p->a.scale = 1;
        p->a.soft_cap = -1;
        EXPECT_FAILS(tess_stream_kernels(stream)->attention_forward(stream, &p->a), TESS_E_INVALID, "a soft cap of -1");
        p->a.soft_cap = 0;
        p->g.dsinks = p->dsinks;
        EXPECT_FAILS(try_backward(stream, p), TESS_E_INVALID, "without sinks");
        p->a.dtype = TESS_U8;
        EXPECT_FAILS(tess_stream_kernels(stream)->attention_forward(stream, &p->a), TESS_E_UNSUPPORTED, "uint8");
        problem_destroy(p);
        tess_stream_destroy(&stream);
    }
}

/* ---- Many short sequences ---- */
enum { SHORT_ROWS = 640, MOST_SHORT = SHORT_ROWS };

/* Describes a problem's only sequence as many of these lengths, in turns. Returns their number. */
static int64_t cut_rows(const problem *p, const int *lengths, int n_lengths, tess_attention_seq *seqs)
{
    int64_t n = 0;
    for (int64_t at = 0; at < p->T; n++) {
        const int64_t left = p->T - at, length = lengths[n % n_lengths] < left ? lengths[n % n_lengths] : left;
        seqs[n] = (tess_attention_seq){.q_begin = at,
                                       .q_len = length,
                                       .k_len = length,
                                       .k = (const char *)p->seqs[0].k + (size_t)(at * p->a.k_stride) * p->size,
                                       .v = (const char *)p->seqs[0].v + (size_t)(at * p->a.v_stride) * p->size,
                                       .k_end = length,
                                       .k_row = at,
                                       .first = true,
                                       .last = true};
        at += length;
    }
    return n;
}

/* Work space of a plan is that of long rows. */
static void expect_no_more_work_space(const char *level, int n_threads, const int *lengths, int n_lengths)
{
    static tess_attention_seq seqs[MOST_SHORT];
    const shape s = {4, 1, 32, 0, 1, {SHORT_ROWS}, {0}};
    tess_stream *full = stream_create(level, n_threads), *cut = stream_create(level, n_threads);
    if (full == NULL)
        return;
    problem *p = problem_create(&s, TESS_BF16);
    const tess_attention whole = p->a;
    /* Several threads without a limit take a sequence each. One whole row has work space for one. */
    p->a.most_keys = n_threads > 1 ? SHORT_ROWS : 0;
    forward(full, &p->a);
    backward(full, p);
    p->a.seqs = seqs;
    p->a.n_seqs = cut_rows(p, lengths, n_lengths, seqs);
    forward(cut, &p->a);
    backward(cut, p);
    EXPECT(tess_stream_work_bytes(cut) <= tess_stream_work_bytes(full));
    tess_stream_destroy(&cut);
    /* A ring: sequences that end in a call that keeps sums of others; a part of a long one; and most_keys of both. */
    cut = stream_create(level, n_threads);
    p->a.state = take(sizeof(float) * (size_t)(p->T * s.H * (s.D + 2)));
    p->a.most_keys = SHORT_ROWS + TESS_ATTENTION_PART;
    forward(cut, &p->a);
    tess_stream_destroy(&full);
    full = stream_create(level, n_threads);
    tess_attention_seq part = whole.seqs[0];
    part.k_end = part.k_len;
    part.first = true;
    p->a.seqs = &part;
    p->a.n_seqs = 1;
    forward(full, &p->a);
    EXPECT(tess_stream_work_bytes(cut) <= tess_stream_work_bytes(full));
    free(p->a.state);
    problem_destroy(p);
    tess_stream_destroy(&full);
    tess_stream_destroy(&cut);
}

static void short_sequences_take_no_more_work_space_than_one_row(void)
{
    static const int lengths[] = {33, 65, 5, 1, 129, 9};
    for (int l = 1; l < N_LEVELS; l++) /* the reference takes none */
        for (int n_threads = 1; n_threads <= 3; n_threads += 2)
            for (int i = 0; i < 7 && strcmp(levels[l], "cuda") != 0; i++)
                if (test_takes())
                    expect_no_more_work_space(levels[l], n_threads, i < 6 ? &lengths[i] : lengths, i < 6 ? 1 : 6);
}

static size_t backward_bytes(const char *level, const problem *p, int n_threads)
{
    tess_stream *s = stream_create(level, n_threads);
    backward(s, p);
    const size_t bytes = tess_stream_work_bytes(s);
    tess_stream_destroy(&s);
    return bytes;
}

/* Backward of one or two full rows of this many tokens, and of documents of 0.4 to 0.6 rows. Documents take the same
 * work space, and give the bits of any other limit. */
static void expect_work_space_of_rows(const char *level, int n_threads, int64_t n_kv, int64_t rows)
{
    static tess_attention_seq seqs[MOST_SHORT];
    const int row = SHORT_ROWS / (int)rows,
              lengths[][2] = {{row / 2, row / 2}, {2 * row / 5, 3 * row / 5}, {row / 8, row / 8}};
    const shape s = {2 * n_kv, n_kv, 32, 0, 1, {SHORT_ROWS}, {0}};
    problem *p = problem_create(&s, TESS_BF16);
    p->a.seqs = seqs;
    p->a.n_seqs = cut_rows(p, &row, 1, seqs);
    forget_results(p);
    tess_stream *stream = stream_create(level, n_threads);
    forward(stream, &p->a);
    const size_t free_bytes = backward_bytes(level, p, n_threads);
    p->a.row_keys = row;
    const size_t bytes = backward_bytes(level, p, n_threads);
    EXPECT(bytes == free_bytes); /* the limit costs full rows nothing */
    for (int i = 0; i < 3; i++) {
        const size_t size = (size_t)(p->T * p->g.dq_stride) * p->size;
        void *want = take(size);
        p->a.n_seqs = cut_rows(p, lengths[i], 2, seqs);
        forward(stream, &p->a);
        p->a.row_keys = 0;
        backward(stream, p);
        memcpy(want, p->g.dq, size);
        p->a.row_keys = row;
        EXPECT(backward_bytes(level, p, n_threads) <= bytes);
        EXPECT(memcmp(want, p->g.dq, size) == 0);
        free(want);
    }
    tess_stream_destroy(&stream);
    problem_destroy(p);
}

static void documents_take_the_backward_work_space_of_full_rows(void)
{
    for (int l = 1; l < N_LEVELS; l++)
        for (int n_threads = 1; n_threads <= 4; n_threads++)
            for (int i = 0; i < 6 && strcmp(levels[l], "cuda") != 0; i++) {
                tess_stream *s = stream_create(levels[l], 1);
                if (s != NULL && test_takes())
                    expect_work_space_of_rows(levels[l], n_threads, 1 + i % 3, 1 + i / 3);
                tess_stream_destroy(&s);
            }
}

/* Their keys are packed in several rounds. */
static void expect_cut_rows_alone(tess_stream *stream, problem *p, problem *other, const int *lengths, int n_lengths)
{
    static tess_attention_seq seqs[MOST_SHORT];
    p->a.seqs = other->a.seqs = seqs;
    p->a.n_seqs = cut_rows(p, lengths, n_lengths, seqs);
    forward(stream, &p->a);
    other->a.n_seqs = 1;
    for (int64_t i = 0; i < p->a.n_seqs; i++) {
        other->a.seqs = &seqs[i];
        forward(stream, &other->a);
    }
    expect_same_outputs(p, other);
}

/* Several runs of queries have the keys of one sequence, whose copy they share. */
static void expect_shared_keys(tess_stream *stream, problem *p, problem *other)
{
    const tess_attention_seq s = p->seqs[0];
    tess_attention_seq runs[3] = {s, s, s};
    static const int64_t ends[] = {100, 129, SHORT_ROWS};
    for (int64_t i = 0, begin = 0; i < 3; begin = ends[i++]) {
        runs[i].q_begin = begin;
        runs[i].q_len = ends[i] - begin;
        runs[i].k_len = ends[i];
    }
    p->a.seqs = p->seqs;
    p->a.n_seqs = 1;
    forward(stream, &p->a);
    other->a.seqs = runs;
    other->a.n_seqs = 3;
    forward(stream, &other->a);
    expect_same_outputs(p, other);
    tess_attention_seq swapped[] = {runs[2], runs[0], runs[1]};
    other->a.seqs = swapped;
    forward(stream, &other->a);
    expect_same_outputs(p, other);
}

static void sequences_of_one_call_have_the_bits_of_calls_of_their_own(void)
{
    static const int lengths[] = {33, 65, 200, 7};
    static const shape of[] = {{4, 2, 64, 0, 1, {SHORT_ROWS}, {0}}, {2, 1, 33, 40, 1, {SHORT_ROWS}, {0}}};
    for (int l = 1; l < N_LEVELS; l++)
        for (int i = 0; i < 2 && strcmp(levels[l], "cuda") != 0; i++) {
            tess_stream *stream = stream_create(levels[l], 2);
            if (stream == NULL)
                continue;
            random_state = 23;
            problem *p = problem_create(&of[i], TESS_BF16);
            random_state = 23;
            problem *other = problem_create(&of[i], TESS_BF16);
            const tess_attention_seq *own = p->a.seqs;
            for (int n = 1; n <= 4; n += 3) {
                forget_results(p);
                expect_cut_rows_alone(stream, p, other, lengths, n);
            }
            p->a.seqs = own;
            expect_shared_keys(stream, p, other);
            problem_destroy(p);
            problem_destroy(other);
            tess_stream_destroy(&stream);
        }
}

static const test_case cases[] = {
    CASE(output_and_gradients_agree_with_float64),
    CASE(output_agrees_with_float64_behind_cached_keys),
    CASE(gradients_are_the_slopes_of_the_output),
    CASE(a_row_has_the_same_bits_token_by_token),
    CASE(a_row_has_the_same_bits_in_pieces_of_any_length),
    CASE(gradients_have_the_same_bits_in_any_batch),
    CASE(levels_agree_bit_for_bit),
    CASE(parts_of_keys_in_their_order_give_the_bits_of_one_call),
    CASE(parts_in_another_order_give_other_bits),
    CASE(parts_are_within_2e_6_of_float64),
    CASE(the_merge_in_double_is_full_attention),
    CASE(short_sequences_take_no_more_work_space_than_one_row),
    CASE(sequences_of_one_call_have_the_bits_of_calls_of_their_own),
    CASE(documents_take_the_backward_work_space_of_full_rows),
    CASE(keys_in_pages_give_the_bits_of_keys_in_a_row),
    CASE(tensor_cores_agree_with_float64),
    CASE(tensor_cores_give_a_row_the_same_bits_everywhere),
    CASE(tensor_cores_give_gradients_the_same_bits_in_any_batch),
    CASE(tensor_cores_give_parts_the_bits_of_one_call),
    CASE(tensor_cores_keep_sums_of_chunks),
    CASE(extreme_scores_stay_finite),
    CASE(impossible_arguments_are_refused),
};

TEST_MAIN(cases)
