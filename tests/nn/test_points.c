/* Ranks that share the layers of a model, as threads with points over plain memory: each has the bits of one rank. */
#include <pthread.h>

#include "fixture.h"

enum { MAX_RANKS = 8, MAX_T = 128 };

/* What may go wrong between ranks; the bits must tell. */
typedef enum fault {
    NO_FAULT,
    STALE_GATHER,  /* rank 1 misses what others give in one exchange */
    ROTATED_ORDER, /* sums over feed-forward channels start at the second rank's: the same addends in another order */
} fault;

typedef struct team {
    int degree;
    pthread_barrier_t barrier;
    const tess_exchange *at[MAX_RANKS];
    fault fault;
    int64_t mlp;     /* feed-forward channels */
    int64_t n_stale; /* the exchange that STALE_GATHER hits */
} team;

typedef struct rank_of {
    team *team;
    tess_points points;
    rig rig;
    tess_executor *executor;
    const fixture *fixture;
    bool split;
    int64_t n_exchanges;
    tess_status status;
    float logprob[MAX_T];
    float *logits; /* (2, V) */
} rank_of;

/* Where the holder's `begin` lies in a rotated order of the same pieces. */
static int64_t rotated(const team *t, tess_cut cut, int rank)
{
    int64_t at = 0, begin, size;
    for (int i = 1; i <= t->degree; i++) {
        if (i % t->degree == rank)
            return at;
        tess_cut_range(cut, t->degree, i % t->degree, &begin, &size);
        at += size;
    }
    return at;
}

/* The part of what rank `from` holds that `rank` wants. */
static void copy_part(const team *t, const tess_exchange *x, int rank, int from)
{
    const tess_exchange *other = t->at[from];
    int64_t first[2], last[2], held[2], wanted[2], shift[2] = {0, 0};
    for (int d = 0; d < 2; d++) {
        int64_t size, end;
        tess_cut_range(x->held[d], t->degree, from, &held[d], &size);
        if (t->fault == ROTATED_ORDER && x->held[d].unit > 0 && x->held[d].size == t->mlp)
            shift[d] = rotated(t, x->held[d], from) - held[d];
        end = held[d] + size;
        tess_cut_range(x->wanted[d], t->degree, rank, &wanted[d], &size);
        first[d] = held[d] > wanted[d] ? held[d] : wanted[d];
        last[d] = end < wanted[d] + size ? end : wanted[d] + size;
    }
    for (int64_t i = first[0]; i < last[0] && first[1] < last[1]; i++) {
        const char *source = other->mine;
        char *target = x->into;
        int64_t to = (i + shift[0] - wanted[0]) * x->into_ld + first[1] + shift[1] - wanted[1];
        memcpy(target + to * (int64_t)x->element,
               source + ((i - held[0]) * other->ld + first[1] - held[1]) * (int64_t)x->element,
               (size_t)(last[1] - first[1]) * x->element);
    }
}

static tess_status exchange(void *self, const tess_exchange *x)
{
    rank_of *me = self;
    team *t = me->team;
    t->at[me->points.rank] = x;
    pthread_barrier_wait(&t->barrier);
    bool stale = t->fault == STALE_GATHER && me->points.rank == 1 && me->n_exchanges == t->n_stale;
    for (int from = 0; from < t->degree; from++) {
        EXPECT(memcmp(x->held, t->at[from]->held, sizeof(x->held)) == 0 && x->element == t->at[from]->element);
        if (!stale || from == 1)
            copy_part(t, x, me->points.rank, from);
    }
    me->n_exchanges++;
    pthread_barrier_wait(&t->barrier);
    return TESS_OK;
}

static tess_status train(tess_executor *executor, const fixture *f, const rig *r, bool split, float *logprob)
{
    if (!split)
        return tess_executor_train(executor, &f->batch, NULL, logprob);
    tess_range all = {0, 0, tess_model_n_units(r->model), &f->batch};
    TESS_TRY(tess_executor_forward(executor, &all, NULL, NULL));
    TESS_TRY(tess_executor_backward(executor, &all, &(tess_backward){.part = TESS_BACKWARD_INPUT, .logprob = logprob}));
    return tess_executor_backward(executor, &all, &(tess_backward){.part = TESS_BACKWARD_WEIGHTS});
}

static const int32_t picked[2] = {0, 3};

static void *run_rank(void *argument)
{
    rank_of *me = argument;
    me->status = train(me->executor, me->fixture, &me->rig, me->split, me->logprob);
    if (me->status == TESS_OK)
        me->status = tess_executor_logits(me->executor, &me->fixture->batch, picked, 2, me->logits);
    return NULL;
}

static size_t count_of(const tess_param *param)
{
    return (size_t)tess_shape_count(&param->shape);
}

/* This rank's part of the whole parameter, element by element. */
static void take_slice(const tess_points *points, const tess_param *param, const float *whole, float *mine)
{
    const tess_param_slice *s = &param->slice;
    int64_t columns = param->shape.n_dims == 2 ? param->shape.dim[1] : 1, begin, size;
    int64_t all = s->whole.n_dims == 2 ? s->whole.dim[1] : 1;
    tess_cut_range((tess_cut){s->whole.dim[s->dim], s->unit}, points->degree, points->rank, &begin, &size);
    EXPECT_INT(param->shape.dim[s->dim], size);
    for (int64_t i = 0; i < (int64_t)count_of(param); i++) {
        int64_t at[2] = {i / columns, i % columns};
        at[s->dim] += begin;
        mine[i] = whole[at[0] * all + at[1]];
    }
}

static void give_weights(const tess_points *points, rig *mine, const rig *whole)
{
    EXPECT_INT(mine->n_params, whole->n_params);
    for (int i = 0; i < mine->n_params; i++) {
        const tess_param *param = tess_model_param(mine->model, i), *full = tess_model_param(whole->model, i);
        EXPECT_TEXT(param->name, full->name);
        EXPECT_SAME(&param->slice.whole, &full->shape, 1);
        take_slice(points, param, whole->w32[i], mine->w32[i]);
    }
    rig_refresh(mine);
}

/* Elements of gradients whose bits are not those of the whole's. */
static int64_t differing(const tess_points *points, const rig *mine, const rig *whole, bool fail)
{
    int64_t n = 0;
    for (int i = 0; i < mine->n_params; i++) {
        const tess_param *param = tess_model_param(mine->model, i);
        float *expected = test_alloc(count_of(param) * sizeof(float) + 1);
        take_slice(points, param, whole->dw[i], expected);
        if (fail)
            test_expect_same(__FILE__, __LINE__, param->name, mine->dw[i], expected, count_of(param), sizeof(float));
        for (size_t j = 0; j < count_of(param); j++)
            n += memcmp(&mine->dw[i][j], &expected[j], sizeof(float)) != 0;
        test_free(expected);
    }
    return n;
}

/* Every element of a cut parameter is held once, and of another by all. */
static void check_cover(const rank_of *ranks, int degree, const rig *whole)
{
    for (int i = 0; i < whole->n_params; i++) {
        const tess_param *full = tess_model_param(whole->model, i);
        int64_t held = 0;
        for (int r = 0; r < degree; r++)
            held += (int64_t)count_of(tess_model_param(ranks[r].rig.model, i));
        bool whole_everywhere = strstr(full->name, "norm") != NULL || strstr(full->name, "ln_") != NULL ||
                                strstr(full->name, "embed") != NULL || strstr(full->name, "lm_head") != NULL ||
                                strstr(full->name, "transformer.w") != NULL || strstr(full->name, "o_proj.bias") ||
                                strstr(full->name, "down_proj.bias") || strstr(full->name, "c_proj.bias") ||
                                strstr(full->name, "c_attn");
        EXPECT_INT(held, (int64_t)count_of(full) * (whole_everywhere ? degree : 1));
    }
}

typedef struct layout {
    int degree;
    tess_dtype dtype;
    const char *level;
    bool split;
    tess_recompute recompute;
} layout;

typedef struct outcome {
    int64_t n_differing, n_exchanges;
} outcome;

/* Trains and evaluates on the ranks of a layout. Without a fault every bit must be that of `whole`. */
static outcome run(const fixture *f, rig *whole, const float *logprob, const float *logits, const layout *l,
                   fault planted, int64_t n_stale)
{
    static rank_of ranks[MAX_RANKS];
    pthread_t threads[MAX_RANKS];
    team t = {.degree = l->degree, .fault = planted, .mlp = f->config.intermediate_size, .n_stale = n_stale};
    outcome found = {0, 0};
    int64_t V = f->config.vocab_size;
    EXPECT_INT(pthread_barrier_init(&t.barrier, NULL, (unsigned)l->degree), 0);
    for (int r = 0; r < l->degree; r++) {
        rank_of *me = &ranks[r];
        *me = (rank_of){.team = &t, .points = {me, r, l->degree, exchange}, .fixture = f, .split = l->split};
        tess_model_part part = {0, f->config.n_layers, true, true, NULL, r, l->degree};
        rig_open_part(&me->rig, &f->config, &part, l->dtype, l->level, 1);
        give_weights(&me->points, &me->rig, whole);
        me->executor = rig_executor(&me->rig, (tess_executor_options){.max_tokens = MAX_T,
                                                                      .max_position = f->max_position,
                                                                      .train = true,
                                                                      .recompute = l->recompute,
                                                                      .split_backward = l->split,
                                                                      .points = &me->points});
        me->logits = test_alloc((size_t)(2 * V) * sizeof(float));
    }
    check_cover(ranks, l->degree, whole);
    for (int r = 0; r < l->degree; r++)
        EXPECT_INT(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
    for (int r = 0; r < l->degree; r++)
        EXPECT_INT(pthread_join(threads[r], NULL), 0);
    for (int r = 0; r < l->degree; r++) {
        EXPECT_OK(ranks[r].status);
        if (planted == NO_FAULT) {
            EXPECT_SAME(ranks[r].logprob, logprob, (size_t)f->batch.n_tokens);
            EXPECT_SAME(ranks[r].logits, logits, (size_t)(2 * V));
        }
        found.n_differing += differing(&ranks[r].points, &ranks[r].rig, whole, planted == NO_FAULT);
        found.n_exchanges = ranks[r].n_exchanges;
        tess_executor_destroy(&ranks[r].executor);
        rig_close(&ranks[r].rig);
        test_free(ranks[r].logits);
    }
    pthread_barrier_destroy(&t.barrier);
    return found;
}

/* One rank's log-probabilities, logits (2, V; to be freed) and, in whole->dw, gradients. */
static float *run_whole(const fixture *f, rig *whole, tess_dtype dtype, const char *level, float *logprob)
{
    rig_open(whole, &f->config, dtype, level, 1);
    tess_executor *executor = rig_executor(
        whole, (tess_executor_options){.max_tokens = MAX_T, .max_position = f->max_position, .train = true});
    float *logits = test_alloc((size_t)(2 * f->config.vocab_size) * sizeof(float));
    EXPECT_OK(tess_executor_train(executor, &f->batch, NULL, logprob));
    EXPECT_OK(tess_executor_logits(executor, &f->batch, picked, 2, logits));
    tess_executor_destroy(&executor);
    return logits;
}

static void ranks_give_the_bits_of_one(void)
{
    static const int degrees[] = {1, 2, 3, 4, 8};
    for (int i = 0; i < N_FIXTURES * 2 * N_LEVELS; i++) {
        const char *level = kernel_levels[i / 2 % N_LEVELS];
        tess_dtype dtype = i % 2 == 0 ? TESS_F32 : TESS_BF16;
        if (!have_level(level))
            continue;
        fixture f;
        rig whole;
        float logprob[MAX_T];
        fixture_open(&f, fixture_names[i / 2 / N_LEVELS]);
        float *logits = run_whole(&f, &whole, dtype, level, logprob);
        for (int d = 0; d < 5; d++)
            for (int way = 0; way < 3; way++) {
                const layout l = {degrees[d], dtype, level, way == 1,
                                  way == 2 ? TESS_RECOMPUTE_FULL : TESS_RECOMPUTE_NONE};
                run(&f, &whole, logprob, logits, &l, NO_FAULT, 0);
            }
        test_free(logits);
        rig_close(&whole);
        fixture_close(&f);
    }
}

/* Sizes past the kernels' blocks, and none a multiple of another. */
static void grow(fixture *f, int32_t numbers[3][MAX_T])
{
    static int32_t cu_seqlens[] = {0, 37, MAX_T};
    bool gpt2 = f->config.family == TESS_FAMILY_GPT2;
    f->config.hidden_size = 6 * 16;
    f->config.intermediate_size = 331;
    f->config.n_heads = 6;
    f->config.n_kv_heads = gpt2 ? 6 : 3;
    f->config.head_size = 16;
    f->config.vocab_size = 201;
    f->config.max_position = f->max_position = MAX_T;
    for (int32_t t = 0; t < MAX_T; t++) {
        numbers[0][t] = t * 7 % 201;
        numbers[1][t] = t < cu_seqlens[1] ? t : t - cu_seqlens[1];
        numbers[2][t] = t % 5 == 0 ? -1 : (t * 11 + 1) % 201;
    }
    f->batch = (tess_batch){.n_tokens = MAX_T,
                            .n_seqs = 2,
                            .ids = numbers[0],
                            .pos = numbers[1],
                            .targets = numbers[2],
                            .cu_seqlens = cu_seqlens};
}

static void larger_layers_give_the_bits_of_one(void)
{
    static const char *const names[] = {"llama", "qwen3", "gpt2"};
    for (int i = 0; i < 3 * 2 * N_LEVELS; i++) {
        const char *level = kernel_levels[i / 2 % N_LEVELS];
        tess_dtype dtype = i % 2 == 0 ? TESS_F32 : TESS_BF16;
        if (strcmp(level, "ref") == 0 || !have_level(level)) /* ref has no blocks */
            continue;
        fixture f;
        rig whole;
        float logprob[MAX_T];
        int32_t numbers[3][MAX_T];
        fixture_open(&f, names[i / 2 / N_LEVELS]);
        grow(&f, numbers);
        float *logits = run_whole(&f, &whole, dtype, level, logprob);
        for (int degree = 2; degree <= 4; degree++) {
            const layout l = {degree, dtype, level, degree == 2, TESS_RECOMPUTE_NONE};
            run(&f, &whole, logprob, logits, &l, NO_FAULT, 0);
        }
        test_free(logits);
        rig_close(&whole);
        fixture_close(&f);
    }
}

static void faults_between_ranks_change_bits(void)
{
    fixture f;
    rig whole;
    float logprob[MAX_T];
    fixture_open(&f, "qwen3");
    float *logits = run_whole(&f, &whole, TESS_F32, "ref", logprob);
    const layout l = {2, TESS_F32, "ref", false, TESS_RECOMPUTE_NONE};
    EXPECT(f.config.intermediate_size != f.config.hidden_size);
    outcome right = run(&f, &whole, logprob, logits, &l, NO_FAULT, 0);
    EXPECT(right.n_exchanges > 0);
    EXPECT(run(&f, &whole, logprob, logits, &l, ROTATED_ORDER, 0).n_differing > 0);
    EXPECT(run(&f, &whole, logprob, logits, &l, STALE_GATHER, 1).n_differing > 0);
    test_free(logits);
    rig_close(&whole);
    fixture_close(&f);
}

static void points_of_other_ranks_are_refused(void)
{
    fixture f;
    rig r;
    tess_model *model;
    tess_executor *executor;
    fixture_open(&f, "llama");
    tess_model_part part = {0, f.config.n_layers, true, true, NULL, 2, 2};
    EXPECT_FAILS(tess_model_create_part(test_mem(), &f.config, &part, &model), TESS_E_INVALID,
                 "tensor-parallel rank 2 of 2");
    part.tp_rank = 1;
    rig_open_part(&r, &f.config, &part, TESS_F32, NULL, 1);
    tess_executor_options options = {.dtype = TESS_F32, .max_tokens = 4, .max_position = 4};
    EXPECT_FAILS(tess_executor_create(r.stream, r.model, &r.hooks, &options, &executor), TESS_E_INVALID,
                 "points are those of rank 0 of 1, but the model is the part of rank 1 of 2");
    rig_close(&r);
    fixture_close(&f);
}

static const test_case cases[] = {
    {"ranks_that_share_layers_give_the_bits_of_one", ranks_give_the_bits_of_one, 0, 0},
    {"larger_layers_give_the_bits_of_one", larger_layers_give_the_bits_of_one, 0, 0},
    {"a_stale_gather_or_another_order_of_sums_changes_bits", faults_between_ranks_change_bits, 0, 0},
    {"points_of_other_ranks_are_refused", points_of_other_ranks_are_refused, 0, 0},
};
TEST_MAIN(cases)
