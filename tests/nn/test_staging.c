/* A model on the far device: with streams that lag at random, the bits of the host. Hooks lend their memory and spoil
 * it as soon as they have it back, so a copy that was not waited for is found. */
#include "nn/staging.h"

#include <stdlib.h>

#include "base/core/rng.h"
#include "device/device.h"
#include "fixture.h"

enum { MAX_T = FIXTURE_TOKENS };

/* ---- Hooks that lend ---- */
typedef struct lender {
    rig *r;
    void **w;
    float **dw;
    int *n_open; /* open hooks of each unit */
} lender;

static size_t size_of(const rig *r, int param, tess_dtype dtype)
{
    return (size_t)tess_shape_count(&tess_model_param(r->model, param)->shape) * tess_dtype_size(dtype);
}

static tess_status lend(void *self, int unit, const void *const **w)
{
    lender *l = self;
    int first, n;
    tess_model_unit_params(l->r->model, unit, &first, &n);
    for (int i = first; i < first + n && l->n_open[unit] == 0; i++)
        memcpy(l->w[i], l->r->w[i], size_of(l->r, i, l->r->dtype));
    l->n_open[unit]++;
    *w = (const void *const *)l->w + first;
    return TESS_OK;
}

static tess_status take_back(void *self, int unit)
{
    lender *l = self;
    int first, n;
    tess_model_unit_params(l->r->model, unit, &first, &n);
    l->n_open[unit]--;
    for (int i = first; i < first + n && l->n_open[unit] == 0; i++)
        memset(l->w[i], 0xff, size_of(l->r, i, l->r->dtype));
    return TESS_OK;
}

static tess_status lend_both(void *self, int unit, const void *const **w, float *const **dw)
{
    lender *l = self;
    int first, n;
    tess_model_unit_params(l->r->model, unit, &first, &n);
    for (int i = first; i < first + n; i++)
        memset(l->dw[i], 0xff, size_of(l->r, i, TESS_F32));
    *dw = l->dw + first;
    return lend(self, unit, w);
}

static tess_status take_both_back(void *self, int unit)
{
    lender *l = self;
    int first, n;
    tess_model_unit_params(l->r->model, unit, &first, &n);
    for (int i = first; i < first + n; i++)
        memcpy(l->r->dw[i], l->dw[i], size_of(l->r, i, TESS_F32));
    return take_back(self, unit);
}

static void lender_open(lender *l, rig *r)
{
    size_t pointers = (size_t)r->n_params * sizeof(void *);
    *l = (lender){r, test_alloc(pointers), test_alloc(pointers),
                  test_alloc((size_t)tess_model_n_units(r->model) * sizeof(int))};
    for (int i = 0; i < r->n_params; i++) {
        l->w[i] = test_alloc(size_of(r, i, TESS_F32));
        l->dw[i] = test_alloc(size_of(r, i, TESS_F32));
    }
}

static void lender_close(lender *l)
{
    for (int i = 0; i < l->r->n_params; i++) {
        test_free(l->w[i]);
        test_free(l->dw[i]);
    }
    test_free(l->w);
    test_free(l->dw);
    test_free(l->n_open);
}

/* ---- A rig on the far device ---- */
typedef struct far_rig {
    tess_device *device;
    tess_stream *stream;
    tess_staging *staging;
    lender lender;
    rig r;
} far_rig;

static void far_open(far_rig *f, const fixture *x, tess_dtype dtype, bool constant)
{
    EXPECT_INT(setenv("TESSERA_FAR_DELAYS", "5:400", 1), 0);
    rig_open(&f->r, &x->config, dtype, NULL, 1);
    lender_open(&f->lender, &f->r);
    EXPECT_OK(tess_device_open(test_mem(), "far", 0, &f->device));
    EXPECT_OK(tess_device_stream(f->device, 2, NULL, &f->stream));
    const tess_hooks hooks = {&f->lender, lend, take_back, lend_both, take_both_back};
    const tess_staging_options options = {dtype, constant};
    EXPECT_OK(tess_staging_create(f->stream, f->r.model, &hooks, &options, &f->staging));
}

static void far_close(far_rig *f)
{
    tess_staging_destroy(&f->staging);
    tess_stream_destroy(&f->stream);
    EXPECT_INT(tess_device_close(&f->device), 0);
    lender_close(&f->lender);
    rig_close(&f->r);
}

static tess_executor *far_executor(far_rig *f, tess_executor_options options)
{
    tess_hooks hooks = tess_staging_hooks(f->staging);
    tess_executor *executor;
    options.dtype = f->r.dtype;
    EXPECT_OK(tess_executor_create(f->stream, f->r.model, &hooks, &options, &executor));
    return executor;
}

static float *far_floats(far_rig *f, int64_t n)
{
    void *x;
    EXPECT_OK(tess_device_alloc(f->device, TESS_POOL_ACTIVATIONS, (size_t)n * sizeof(float), "values", &x));
    return x;
}

/* ---- Training ---- */
typedef struct seen {
    uint64_t hash;
    int n;
} seen;

static void see(void *self, int unit, const char *what, void *data, tess_dtype dtype, int64_t first, int64_t n_rows,
                int64_t row)
{
    seen *s = self;
    (void)unit;
    (void)first;
    s->hash = tess_hash_bytes(what, strlen(what), s->hash);
    s->hash = tess_hash_bytes(data, (size_t)(n_rows * row) * tess_dtype_size(dtype), s->hash);
    s->n++;
}

static tess_status grade(void *self, int64_t begin, int64_t n, const float *logprob, const float *entropy,
                         float *dlogprob, float *dentropy)
{
    (void)self;
    (void)begin;
    for (int64_t i = 0; i < n; i++) {
        dlogprob[i] = -1 - logprob[i] / 8;
        dentropy[i] = entropy[i] / 16;
    }
    return TESS_OK;
}

static void expect_same_training(const fixture *x, tess_dtype dtype, tess_recompute recompute,
                                 const tess_token_loss *loss, bool watched)
{
    rig host;
    far_rig far;
    rig_open(&host, &x->config, dtype, NULL, 1);
    far_open(&far, x, dtype, false);
    const tess_executor_options options = {.max_tokens = MAX_T,
                                           .max_position = x->max_position,
                                           .train = true,
                                           .recompute = recompute,
                                           .recompute_groups = TESS_GROUP_ATTENTION_INPUTS | TESS_GROUP_FEED_FORWARD};
    tess_executor *here = rig_executor(&host, options), *there = far_executor(&far, options);
    float want[MAX_T], got[MAX_T], *logprob = far_floats(&far, MAX_T);
    seen at_host = {0}, at_far = {0};
    if (watched) {
        tess_executor_set_watch(here, &(tess_watch){&at_host, see});
        tess_executor_set_watch(there, &(tess_watch){&at_far, see});
    }
    EXPECT_OK(tess_executor_train(here, &x->batch, loss, want));
    for (int again = 0; again < 2; again++) { /* places are reused */
        at_far = (seen){0};
        EXPECT_OK(tess_executor_train(there, &x->batch, loss, logprob));
        EXPECT_OK(tess_fetch(far.stream, got, logprob, sizeof(got)));
        EXPECT_SAME(got, want, (size_t)x->batch.n_tokens);
        for (int i = 0; i < host.n_params; i++)
            test_expect_same(__FILE__, __LINE__, tess_model_param(host.model, i)->name, far.r.dw[i], host.dw[i],
                             size_of(&host, i, TESS_F32), 1);
    }
    EXPECT(at_far.hash == at_host.hash && at_far.n == at_host.n && (at_far.n > 0) == watched);
    tess_device_free(far.device, logprob);
    tess_executor_destroy(&there);
    tess_executor_destroy(&here);
    far_close(&far);
    rig_close(&host);
}

static void training_has_the_bits_of_the_host(void)
{
    static const char *const names[] = {"ministral", "qwen2",
                                        "gpt2"}; /* ministral has the most layers, the others tie their tables */
    const tess_token_loss by_chunk = {NULL, 0.8f, false, grade}, by_batch = {NULL, 1.25f, true, grade};
    for (int i = 0; i < 6; i++) {
        fixture x;
        fixture_open(&x, names[i / 2]);
        tess_dtype dtype = i % 2 == 0 ? TESS_F32 : TESS_BF16;
        expect_same_training(&x, dtype, TESS_RECOMPUTE_NONE, NULL, false);
        expect_same_training(&x, dtype, TESS_RECOMPUTE_FULL, &by_chunk, true);
        expect_same_training(&x, dtype, TESS_RECOMPUTE_SELECTIVE, &by_batch, false);
        fixture_close(&x);
    }
}

/* ---- Evaluation ---- */
static void evaluation_has_the_bits_of_the_host(void)
{
    fixture x;
    rig host;
    far_rig far;
    fixture_open(&x, "qwen2");
    rig_open(&host, &x.config, TESS_BF16, NULL, 1);
    far_open(&far, &x, TESS_BF16, true);
    const tess_executor_options options = {.max_tokens = MAX_T, .max_position = x.max_position};
    tess_executor *here = rig_executor(&host, options), *there = far_executor(&far, options);
    int64_t V = x.config.vocab_size;
    const int32_t rows[] = {3, 0, 7};
    float *want = test_alloc((size_t)(3 * V) * sizeof(float)), *got = test_alloc((size_t)(3 * V) * sizeof(float));
    float *values = far_floats(&far, 3 * V > 2 * MAX_T ? 3 * V : 2 * MAX_T);
    EXPECT(3 * V >= 2 * MAX_T);
    for (int again = 0; again < 2; again++) { /* weights stay where they are */
        EXPECT_OK(tess_executor_logits(here, &x.batch, rows, 3, want));
        EXPECT_OK(tess_executor_logits(there, &x.batch, rows, 3, values));
        EXPECT_OK(tess_fetch(far.stream, got, values, (size_t)(3 * V) * sizeof(float)));
        EXPECT_SAME(got, want, (size_t)(3 * V));
        EXPECT_OK(tess_executor_logprobs(here, &x.batch, 0.7f, want, want + MAX_T));
        EXPECT_OK(tess_executor_logprobs(there, &x.batch, 0.7f, values, values + MAX_T));
        EXPECT_OK(tess_fetch(far.stream, got, values, 2 * MAX_T * sizeof(float)));
        EXPECT_SAME(got, want, (size_t)x.batch.n_tokens);
        EXPECT_SAME(got + MAX_T, want + MAX_T, (size_t)x.batch.n_tokens);
    }
    tess_device_free(far.device, values);
    test_free(got);
    test_free(want);
    tess_executor_destroy(&there);
    tess_executor_destroy(&here);
    far_close(&far);
    rig_close(&host);
    fixture_close(&x);
}

static const test_case cases[] = {
    CASE(training_has_the_bits_of_the_host),
    CASE(evaluation_has_the_bits_of_the_host),
};
TEST_MAIN(cases)
