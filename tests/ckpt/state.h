/* The tensors of a small model, for tests that save and load. Values are a pure function of the step. */
#ifndef TESS_TESTS_CKPT_STATE_H
#define TESS_TESTS_CKPT_STATE_H

#include "base/core/rng.h"
#include "ckpt/store/store.h"
#include "rows.h"
#include "support/test.h"

/* A model with awkward sizes: fewer rows than ranks, rows that no world size divides, none at all, a scalar. */
static const struct {
    const char *name;
    tess_shape shape;
} params[] = {
    {"embed.weight", {2, {13, 5}}}, {"layers.0.norm", {1, {7}}},    {"layers.0.w", {2, {3, 8}}},
    {"layers.0.none", {2, {0, 4}}}, {"layers.0.t", {3, {5, 2, 3}}}, {"temperature", {0, {0}}},
};
enum { PARAMS = sizeof(params) / sizeof(params[0]), N = 3 * PARAMS, LARGEST = 65 };

static const char *const states[] = {NULL, "exp_avg", "exp_avg_sq"};

typedef struct state {
    tess_ckpt_tensor tensors[N];
    float data[N][LARGEST];
} state;

static inline float value_at(int tensor, int64_t i, int64_t step)
{
    return tess_rng_uniform((uint64_t)step, TESS_RNG_TEST, (uint64_t)tensor, (uint64_t)i) - 0.5f;
}

/* The shards of `rank` of `world`, by torch.chunk's rows; whole: every rank holds all rows but owns its chunk (as DDP
 * does). */
static inline void make_state(state *s, int world, int rank, bool whole, int64_t step)
{
    for (int i = 0; i < N; i++) {
        tess_ckpt_tensor *t = &s->tensors[i];
        *t = (tess_ckpt_tensor){.name = params[i / 3].name, .state = states[i % 3], .shape = params[i / 3].shape};
        int64_t row = tess_shape_row_count(&t->shape);
        t->primary = chunk_of(&t->shape, world, rank);
        t->box = whole ? chunk_of(&t->shape, 1, 0) : t->primary;
        t->data = s->data[i];
        for (int64_t k = 0; k < LARGEST; k++)
            s->data[i][k] = k < t->box.size[0] * row ? value_at(i, t->box.begin[0] * row + k, step) : -77;
    }
}

static inline void expect_state(const state *got, int world, int rank, bool whole, int64_t step)
{
    static state want;
    make_state(&want, world, rank, whole, step);
    for (int i = 0; i < N; i++)
        EXPECT_SAME(got->data[i], want.data[i], LARGEST);
}

static inline void blank(state *s)
{
    for (int i = 0; i < N; i++) {
        int64_t n = s->tensors[i].box.size[0] * tess_shape_row_count(&s->tensors[i].shape);
        for (int64_t k = 0; k < n; k++)
            s->data[i][k] = 1e9f;
    }
}

static inline json_t *some_meta(void)
{
    return json_pack("{s:I, s:s, s:{s:i}}", "seed", (json_int_t)42, "config", "a: 1\n", "data", "cursor", 7);
}

#endif
