/* Ranks that share the layers of a model, as threads with points over plain memory: each has the bits of one rank. */
#include "nn/layers/layers.h"
#include "nn/layers/model_ends.h"
#include "points_rig.h"

enum { LONG = 128, MAX_T = 1100 }; /* past a chunk of the head */

typedef enum loss { LOSS_PLAIN, LOSS_OF_ROWS, LOSS_OF_ALL } loss;

/* A computation, by one rank or by all of a team. */
typedef struct layout {
    int degree;
    tess_dtype dtype;
    const char *level;
    bool rows; /* rows of the stream are shared, too */
    bool split;
    tess_recompute recompute;
    unsigned groups; /* SELECTIVE */
    bool partition;
    loss loss;
    bool frozen;       /* tables have no gradients */
    bool two_slots;    /* another micro-batch is under way */
    bool forward_only; /* an executor without memory for backward */
    size_t logit_bytes;
} layout;

/* The values of a rank for a fixture, besides gradients. */
typedef struct values {
    float logprob[MAX_T]; /* log-probabilities of training */
    float scored[MAX_T], entropy[MAX_T];
    float *logits; /* (T, V) */
} values;

typedef struct rank_of {
    points_rank at;
    rig rig;
    tess_executor *executor;
    const fixture *fixture;
    const layout *layout;
    int64_t n_in_training;
    tess_status status;
    values values;
} rank_of;

/* Every derivative is another function of both, of the row and of one that another rank may have scored. */
static tess_status grade(void *self, int64_t begin, int64_t n, const float *logprob, const float *entropy,
                         float *dlogprob, float *dentropy)
{
    (void)self;
    for (int64_t i = 0; i < n; i++) {
        dlogprob[i] = (logprob[i] + logprob[n - 1 - i]) * (float)((begin + i) % 3 + 1);
        dentropy[i] = entropy[i] + entropy[n - 1 - i] - 0.5f;
    }
    return TESS_OK;
}

static const int32_t first_only[2] = {0, 1};

static tess_status train(tess_executor *executor, const fixture *f, const rig *r, const layout *l, float *logprob)
{
    const tess_token_loss graded = {NULL, 0.8f, l->loss == LOSS_OF_ALL, grade},
                          *loss = l->loss == LOSS_PLAIN ? NULL : &graded;
    tess_batch one = f->batch;
    one.n_tokens = one.n_seqs = 1;
    one.cu_seqlens = first_only;
    int n_units = tess_model_n_units(r->model);
    tess_range all = {0, 0, n_units, &f->batch}, other = {1, 0, n_units, &one};
    float other_logprob;
    if (!l->split && !l->two_slots)
        return tess_executor_train(executor, &f->batch, loss, logprob);
    TESS_TRY(tess_executor_forward(executor, &all, NULL, NULL));
    if (l->two_slots) {
        TESS_TRY(tess_executor_forward(executor, &other, NULL, NULL));
        TESS_TRY(tess_executor_backward(executor, &other, &(tess_backward){.logprob = &other_logprob}));
    }
    if (!l->split)
        return tess_executor_backward(executor, &all, &(tess_backward){.loss = loss, .logprob = logprob});
    TESS_TRY(tess_executor_backward(executor, &all,
                                    &(tess_backward){.part = TESS_BACKWARD_INPUT, .loss = loss, .logprob = logprob}));
    return tess_executor_backward(executor, &all, &(tess_backward){.part = TESS_BACKWARD_WEIGHTS});
}

/* Log-probabilities, entropies and logits of all rows, the last first. */
static tess_status score(tess_executor *executor, const fixture *f, values *v)
{
    int32_t picked[MAX_T];
    for (int32_t t = 0; t < (int32_t)f->batch.n_tokens; t++)
        picked[t] = (int32_t)f->batch.n_tokens - 1 - t;
    TESS_TRY(tess_executor_logprobs(executor, &f->batch, 1.25f, v->scored, v->entropy));
    return tess_executor_logits(executor, &f->batch, picked, f->batch.n_tokens, v->logits);
}

static void *run_rank(void *argument)
{
    rank_of *me = argument;
    me->status =
        me->layout->forward_only ? TESS_OK : train(me->executor, me->fixture, &me->rig, me->layout, me->values.logprob);
    me->n_in_training = me->at.n_exchanges;
    if (me->status == TESS_OK)
        me->status = score(me->executor, me->fixture, &me->values);
    return NULL;
}

static bool is_table(const tess_param *param)
{
    return strstr(param->name, "embed_tokens") || strstr(param->name, "lm_head") ||
           strstr(param->name, "transformer.w");
}

static void freeze_tables(rig *r)
{
    for (int i = 0; i < r->n_params; i++)
        if (is_table(tess_model_param(r->model, i))) {
            test_free(r->dw[i]);
            r->dw[i] = NULL;
        }
}

static tess_executor *executor_of(rig *r, const fixture *f, const layout *l, const tess_points *points)
{
    if (l->frozen)
        freeze_tables(r);
    return rig_executor(r, (tess_executor_options){.max_tokens = f->batch.n_tokens,
                                                   .max_position = f->max_position,
                                                   .train = !l->forward_only,
                                                   .recompute = l->recompute,
                                                   .recompute_groups = l->groups,
                                                   .partition_inputs = l->partition,
                                                   .n_slots = l->two_slots ? 2 : 1,
                                                   .split_backward = l->split,
                                                   .sequence_parallel = l->rows && l->degree > 1,
                                                   .points = points,
                                                   .logit_bytes = l->logit_bytes});
}

/* Elements of gradients whose bits are not those of the whole's. */
static int64_t differing(const tess_points *points, const rig *mine, const rig *whole, bool fail)
{
    int64_t n = 0;
    for (int i = 0; i < mine->n_params; i++) {
        const tess_param *param = tess_model_param(mine->model, i);
        EXPECT((mine->dw[i] == NULL) == (whole->dw[i] == NULL));
        if (whole->dw[i] == NULL)
            continue;
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
        bool whole_everywhere =
            strstr(full->name, "norm") != NULL || strstr(full->name, "ln_") != NULL ||
            strstr(full->name, "o_proj.bias") || strstr(full->name, "down_proj.bias") ||
            strstr(full->name, "down_proj_bias") || strstr(full->name, "c_proj.bias") || strstr(full->name, "c_attn") ||
            strstr(full->name, "dense.bias") || strstr(full->name, "4h_to_h.bias") || strstr(full->name, "moe.gate.") ||
            strstr(full->name, "mlp.router.") || strstr(full->name, "mlp.gate.") ||
            strstr(full->name, "shared_expert_gate") || strstr(full->name, "qkv_proj") ||
            strstr(full->name, "_a_proj") || (strstr(full->name, "gate_up_proj") && !strstr(full->name, "experts."));
        EXPECT_INT(held, (int64_t)count_of(full) * (whole_everywhere ? degree : 1));
    }
}

typedef struct outcome {
    int64_t n_differing, n_in_training; /* elements of gradients, exchanges */
} outcome;

static void expect_values(const fixture *f, const values *mine, const values *whole, bool trained)
{
    size_t T = (size_t)f->batch.n_tokens;
    if (trained)
        EXPECT_SAME(mine->logprob, whole->logprob, T);
    EXPECT_SAME(mine->scored, whole->scored, T);
    EXPECT_SAME(mine->entropy, whole->entropy, T);
    EXPECT_SAME(mine->logits, whole->logits, T * (size_t)f->config.vocab_size);
}

static float *alloc_logits(const fixture *f)
{
    return test_alloc((size_t)(f->batch.n_tokens * f->config.vocab_size) * sizeof(float));
}

/* Trains and evaluates on the ranks of a layout. Without a fault every bit must be that of `whole`. */
static outcome run(const fixture *f, rig *whole, const values *expected, const layout *l, fault planted,
                   int64_t n_stale)
{
    static rank_of ranks[MAX_RANKS];
    pthread_t threads[MAX_RANKS];
    team t = {.degree = l->degree, .fault = planted, .mlp = f->config.intermediate_size, .n_stale = n_stale};
    outcome found = {0, 0};
    EXPECT_INT(pthread_barrier_init(&t.barrier, NULL, (unsigned)l->degree), 0);
    for (int r = 0; r < l->degree; r++) {
        rank_of *me = &ranks[r];
        *me = (rank_of){.at = {&t, {&me->at, r, l->degree, exchange}, 0}, .fixture = f, .layout = l};
        tess_model_part part = {0, f->config.n_layers, true, true, NULL, r, l->degree};
        rig_open_part(&me->rig, &f->config, &part, l->dtype, l->level, 1);
        give_weights(&me->at.points, &me->rig, whole);
        me->executor = executor_of(&me->rig, f, l, &me->at.points);
        me->values.logits = alloc_logits(f);
    }
    check_cover(ranks, l->degree, whole);
    for (int r = 0; r < l->degree; r++)
        EXPECT_INT(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
    for (int r = 0; r < l->degree; r++)
        EXPECT_INT(pthread_join(threads[r], NULL), 0);
    for (int r = 0; r < l->degree; r++) {
        EXPECT_OK(ranks[r].status);
        if (planted == NO_FAULT)
            expect_values(f, &ranks[r].values, expected, !l->forward_only);
        if (!l->forward_only)
            found.n_differing += differing(&ranks[r].at.points, &ranks[r].rig, whole, planted == NO_FAULT);
        found.n_in_training = ranks[r].n_in_training;
        tess_executor_destroy(&ranks[r].executor);
        rig_close(&ranks[r].rig);
        test_free(ranks[r].values.logits);
    }
    pthread_barrier_destroy(&t.barrier);
    return found;
}

/* Computes a layout on one rank alone: without its degree, and without choices that must not matter. */
static void run_whole(const fixture *f, rig *whole, const layout *l, values *v)
{
    const layout plain = {.dtype = l->dtype, .level = l->level, .loss = l->loss, .frozen = l->frozen};
    rig_open(whole, &f->config, l->dtype, l->level, 1);
    tess_executor *executor = executor_of(whole, f, &plain, NULL);
    v->logits = alloc_logits(f);
    EXPECT_OK(train(executor, f, whole, &plain, v->logprob));
    EXPECT_OK(score(executor, f, v));
    tess_executor_destroy(&executor);
}

static void close_whole(rig *whole, values *v)
{
    test_free(v->logits);
    rig_close(whole);
}

/* Tables differ in products alone, so one of them has every degree, and the others one that divides nothing. */
static void ranks_that_share_layers_give_the_bits_of_one(void)
{
    static const int degrees[] = {1, 2, 3, 4, 8};
    for (int i = 0; i < N_FIXTURES * 2 * N_LEVELS; i++) {
        const char *level = kernel_levels[i / 2 % N_LEVELS];
        tess_dtype dtype = i % 2 == 0 ? TESS_F32 : TESS_BF16;
        if (!have_level(level))
            continue;
        fixture f;
        rig whole;
        values v;
        fixture_open(&f, fixture_names[i / 2 / N_LEVELS]);
        run_whole(&f, &whole, &(layout){.dtype = dtype, .level = level}, &v);
        bool all = strcmp(level, have_level("avx2") ? "avx2" : "ref") == 0;
        for (int d = 0; d < 5; d++)
            for (int way = 0; way < 6 && (all || degrees[d] == 3); way++) {
                if (!test_takes())
                    continue;
                static const tess_recompute recompute[] = {
                    [2] = TESS_RECOMPUTE_FULL, [4] = TESS_RECOMPUTE_FULL, [5] = TESS_RECOMPUTE_SELECTIVE};
                const layout l = {.degree = degrees[d],
                                  .dtype = dtype,
                                  .level = level,
                                  .rows = way == 2 || way == 3,
                                  .split = way % 2 == 1,
                                  .recompute = recompute[way],
                                  .groups = (unsigned)(1 + (i + d) % TESS_GROUP_ALL),
                                  .partition = way >= 4};
                run(&f, &whole, &v, &l, NO_FAULT, 0);
            }
        close_whole(&whole, &v);
        fixture_close(&f);
    }
}

/* T tokens in sequences of 37, 91 and so on, ids below V. */
static void take_tokens(fixture *f, int32_t numbers[4][MAX_T], int32_t T, int32_t V)
{
    int32_t n_seqs = 0, *cu_seqlens = numbers[3];
    for (int32_t t = 0; t < T; t++) {
        if (t % LONG == 0 || t % LONG == 37)
            cu_seqlens[n_seqs++] = t;
        numbers[0][t] = t * 7 % V;
        numbers[1][t] = t - cu_seqlens[n_seqs - 1];
        numbers[2][t] = t % 5 == 0 ? -1 : (t * 11 + 1) % V;
    }
    cu_seqlens[n_seqs] = T;
    f->config.vocab_size = V;
    f->config.max_position = f->max_position = LONG;
    f->batch = (tess_batch){.n_tokens = T,
                            .n_seqs = n_seqs,
                            .ids = numbers[0],
                            .pos = numbers[1],
                            .targets = numbers[2],
                            .cu_seqlens = cu_seqlens};
}

/* Sizes past the kernels' blocks, and none a multiple of another; more tokens than channels. */
static void grow(fixture *f, int32_t numbers[4][MAX_T])
{
    bool gpt2 = f->config.family == TESS_FAMILY_GPT2;
    f->config.hidden_size = 6 * 16;
    f->config.intermediate_size = 331;
    f->config.n_heads = 6;
    f->config.n_kv_heads = gpt2 ? 6 : 3;
    f->config.head_size = 16;
    take_tokens(f, numbers, LONG, 201);
}

static void larger_layers(int32_t n_tokens)
{
    static const char *const names[] = {"llama", "qwen3", "gpt2"};
    for (int i = 0; i < 3 * 2 * N_LEVELS; i++) {
        const char *level = kernel_levels[i / 2 % N_LEVELS];
        tess_dtype dtype = i % 2 == 0 ? TESS_F32 : TESS_BF16;
        if (strcmp(level, "ref") == 0 || !have_level(level)) /* ref has no blocks */
            continue;
        fixture f;
        rig whole;
        values v;
        int32_t numbers[4][MAX_T];
        fixture_open(&f, names[i / 2 / N_LEVELS]);
        grow(&f, numbers);
        take_tokens(&f, numbers, n_tokens, 201);
        run_whole(&f, &whole, &(layout){.dtype = dtype, .level = level}, &v);
        for (int way = 0; way < 6; way++) {
            if (!test_takes())
                continue;
            int degree = 2 + way / 2;
            const layout l = {
                .degree = degree, .dtype = dtype, .level = level, .rows = way % 2 == 1, .split = degree == 2};
            run(&f, &whole, &v, &l, NO_FAULT, 0);
        }
        close_whole(&whole, &v);
        fixture_close(&f);
    }
}

static void larger_layers_give_the_bits_of_one(void)
{
    larger_layers(LONG);
    larger_layers(91); /* fewer than channels: products are cut by columns */
}

/* Leaves of the sums over feed-forward channels: where they are whole subtrees of each rank, partial sums are
 * exchanged, and elsewhere operands. */
static void sums_of_leaves_give_the_bits_of_one(void)
{
    static const struct {
        int64_t channels, leaves;
        int degree;
        bool sums;
    } sizes[] = {{256, 8, 2, true},  {255, 8, 4, true},  {192, 4, 3, true}, {256, 8, 8, true},
                 {256, 8, 3, false}, {256, 4, 8, false}, {331, 8, 2, false}};
    static const char *const names[] = {"llama_biases", "gpt2"};
    for (int i = 0; i < 2 * 2 * N_LEVELS; i++) {
        const char *level = kernel_levels[i / 2 % N_LEVELS];
        tess_dtype dtype = i % 2 == 0 ? TESS_F32 : TESS_BF16;
        for (size_t z = 0; z < sizeof(sizes) / sizeof(sizes[0]) && have_level(level) && strcmp(level, "ref") != 0;
             z++) {
            if (!test_takes())
                continue;
            fixture f;
            rig whole;
            values v;
            int32_t numbers[4][MAX_T];
            fixture_open(&f, names[i / 2 / N_LEVELS]);
            grow(&f, numbers);
            f.config.intermediate_size = sizes[z].channels;
            f.config.sum_leaves = sizes[z].leaves;
            tess_cut channels = {sizes[z].channels, 1};
            EXPECT_INT(tess_exchanges_sums(channels, tess_leaf_of(channels.size, sizes[z].leaves), sizes[z].degree),
                       sizes[z].sums);
            run_whole(&f, &whole, &(layout){.dtype = dtype, .level = level}, &v);
            for (int way = 0; way < 2; way++)
                run(&f, &whole, &v,
                    &(layout){.degree = sizes[z].degree,
                              .dtype = dtype,
                              .level = level,
                              .rows = way == 1,
                              .split = z % 2 == 1,
                              .recompute = z % 3 == 2 ? TESS_RECOMPUTE_FULL : TESS_RECOMPUTE_NONE},
                    NO_FAULT, 0);
            close_whole(&whole, &v);
            fixture_close(&f);
        }
    }
}

/* A layout on the ranks, with the stream whole and shared, and on one rank. */
static void compare(const fixture *f, const layout *l)
{
    rig whole;
    values v;
    layout rows = *l;
    rows.rows = true;
    run_whole(f, &whole, l, &v);
    run(f, &whole, &v, l, NO_FAULT, 0);
    run(f, &whole, &v, &rows, NO_FAULT, 0);
    close_whole(&whole, &v);
}

/* Untied, tied, and tied with a table of positions. */
static const char *const kinds_of_tables[] = {"llama", "llama_biases", "gpt2"};

static void every_use_of_shared_tables_gives_the_bits_of_one(void)
{
    static const layout uses[] = {
        {.degree = 2, .loss = LOSS_OF_ROWS},
        {.degree = 5, .loss = LOSS_OF_ALL},
        {.degree = 3, .loss = LOSS_OF_ALL, .split = true},
        {.degree = 2, .frozen = true},
        {.degree = 3, .frozen = true, .loss = LOSS_OF_ROWS, .recompute = TESS_RECOMPUTE_FULL},
        {.degree = 2, .two_slots = true},
        {.degree = 7, .two_slots = true, .split = true},
        {.degree = 5, .two_slots = true, .recompute = TESS_RECOMPUTE_FULL, .partition = true},
        {.degree = 3, .split = true, .recompute = TESS_RECOMPUTE_SELECTIVE, .groups = TESS_GROUP_RESIDUAL},
        {.degree = 3, .forward_only = true},
        {.degree = 8, .forward_only = true},
    };
    for (int i = 0; i < 3 * 2 * N_LEVELS; i++) {
        fixture f;
        const char *level = kernel_levels[i / 2 % N_LEVELS];
        if (!have_level(level))
            continue;
        fixture_open(&f, kinds_of_tables[i / 2 / N_LEVELS]);
        for (size_t u = 0; u < sizeof(uses) / sizeof(uses[0]); u++) {
            if (!test_takes())
                continue;
            layout l = uses[u];
            l.dtype = i % 2 == 0 ? TESS_F32 : TESS_BF16;
            l.level = level;
            compare(&f, &l);
        }
        fixture_close(&f);
    }
}

/* More logits at a time take no more memory for exchanges. */
static void heads_exchange_their_rows_in_pieces(void)
{
    fixture f;
    tess_model *model;
    fixture_open(&f, "llama");
    f.config.vocab_size = 20011;
    const tess_model_part part = {
        .n_layers = f.config.n_layers, .embedding = true, .head = true, .tp_degree = 3, .tp_rank = 1};
    tess_executor_options few = {.dtype = TESS_F32, .max_tokens = 4096, .max_position = 4096, .train = true};
    tess_executor_options many = few;
    many.logit_bytes = TESS_DEVICE_LOGIT_BYTES;
    EXPECT_OK(tess_model_create_part(test_mem(), &f.config, &part, &model));
    EXPECT(tess_executor_bytes(model, &many) > tess_executor_bytes(model, &few));
    EXPECT(tess_executor_exchange_bytes(model, &many) == tess_executor_exchange_bytes(model, &few));
    tess_model_destroy(&model);
    fixture_close(&f);
}

/* The ranks of the last kind have all logits at the same time, as GPUs do; one rank does not. A loss that is called
 * for each chunk is called with other rows then. */
static void heads_of_several_chunks_give_the_bits_of_one(void)
{
    EXPECT(MAX_T > tess_head_chunk(201, 0) && MAX_T < tess_head_chunk(201, TESS_DEVICE_LOGIT_BYTES));
    EXPECT_INT(tess_head_chunk(50257, TESS_DEVICE_LOGIT_BYTES), 16384);
    EXPECT_INT(tess_head_chunk(128256, TESS_DEVICE_LOGIT_BYTES), 8192);
    for (int i = 0; i < 3 * 2; i++) {
        fixture f;
        int32_t numbers[4][MAX_T];
        fixture_open(&f, kinds_of_tables[i / 2]);
        take_tokens(&f, numbers, MAX_T, 201);
        for (loss loss = LOSS_PLAIN; loss <= LOSS_OF_ALL; loss++)
            if (test_takes())
                compare(&f, &(layout){.degree = 3,
                                      .dtype = i % 2 == 0 ? TESS_F32 : TESS_BF16,
                                      .loss = loss,
                                      .logit_bytes = i / 2 == 2 && loss != LOSS_OF_ROWS ? TESS_DEVICE_LOGIT_BYTES : 0});
        fixture_close(&f);
    }
}

/* Eight ranks have one or none of five channels and six tokens. */
static void ranks_without_a_part_of_a_table_give_the_bits_of_one(void)
{
    for (int i = 0; i < 2 * 2 * N_LEVELS; i++) {
        fixture f;
        int32_t numbers[4][MAX_T];
        const char *level = kernel_levels[i / 2 % N_LEVELS];
        if (!have_level(level))
            continue;
        fixture_open(&f, kinds_of_tables[i / 2 / N_LEVELS]);
        f.config.hidden_size = 5;
        take_tokens(&f, numbers, 50, 6);
        compare(&f, &(layout){.degree = 8, .dtype = i % 2 == 0 ? TESS_F32 : TESS_BF16, .level = level});
        fixture_close(&f);
    }
}

static void a_stale_gather_or_another_order_of_sums_changes_bits(void)
{
    fixture f;
    rig whole;
    values v;
    const layout l = {.degree = 2, .dtype = TESS_F32, .level = "ref"};
    fixture_open(&f, "qwen3");
    run_whole(&f, &whole, &l, &v);
    EXPECT(f.config.intermediate_size != f.config.hidden_size);
    outcome right = run(&f, &whole, &v, &l, NO_FAULT, 0);
    EXPECT(right.n_in_training > 0);
    EXPECT(run(&f, &whole, &v, &l, ROTATED_ORDER, 0).n_differing > 0);
    EXPECT(run(&f, &whole, &v, &l, STALE_GATHER, 1).n_differing > 0);
    close_whole(&whole, &v);
    fixture_close(&f);
}

/* Not so with norms of heads: what is gathered for them may lie where it is gathered again. */
static void every_exchange_of_training_matters(void)
{
    for (int i = 0; i < 2 * 3 + 1; i++) { /* the last one: partial sums are exchanged */
        fixture f;
        rig whole;
        values v;
        const layout l = {.degree = 2, .dtype = TESS_F32, .level = "ref", .rows = i % 2 == 1, .loss = LOSS_OF_ROWS};
        fixture_open(&f, kinds_of_tables[i / 2 % 3]);
        f.config.sum_leaves = i == 6 ? 2 : 1;
        f.config.intermediate_size = i == 6 ? 64 : f.config.intermediate_size;
        f.config.n_kv_heads = f.config.n_heads; /* a rank without heads does not mind what it misses for them */
        run_whole(&f, &whole, &l, &v);
        outcome right = run(&f, &whole, &v, &l, NO_FAULT, 0);
        EXPECT(right.n_in_training > 0);
        for (int64_t stale = 0; stale < right.n_in_training; stale++)
            if (test_takes())
                EXPECT(run(&f, &whole, &v, &l, STALE_GATHER, stale).n_differing > 0);
        close_whole(&whole, &v);
        fixture_close(&f);
    }
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
    options.sequence_parallel = true;
    tess_model_destroy(&r.model);
    EXPECT_OK(tess_model_create(test_mem(), &f.config, &r.model));
    EXPECT_FAILS(tess_executor_create(r.stream, r.model, &r.hooks, &options, &executor), TESS_E_INVALID,
                 "sequence_parallel is for ranks that share a model; there is one");
    rig_close(&r);
    fixture_close(&f);
}

/* GLM's gate and up, and q, k and v of Phi-3 and GPT-2, have rows of one B and share A, which every rank has whole. One
 * rank computes q, k and v as one product. */
static void an_adapter_of_a_fused_map_gives_the_bits_of_one(void)
{
    static const struct {
        const char *family, *target;
        int degree;
        tess_dtype dtype;
    } rows[] = {{"glm", "gate_up_proj", 2, TESS_F32}, {"glm", "gate_up_proj", 3, TESS_BF16},
                {"glm", "gate_up_proj", 8, TESS_F32}, {"phi3", "qkv_proj", 2, TESS_BF16},
                {"phi3", "qkv_proj", 3, TESS_F32},    {"phi4", "qkv_proj", 8, TESS_BF16},
                {"gpt2", "c_attn", 2, TESS_F32},      {"gpt2", "c_attn", 3, TESS_BF16}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fixture f;
        rig whole;
        values v;
        const tess_dtype dtype = rows[i].dtype;
        fixture_open(&f, rows[i].family);
        f.config.lora = (tess_lora){.rank = 3, .alpha = 5};
        EXPECT_OK(tess_lora_add_target(&f.config.lora, rows[i].target, "test"));
        run_whole(&f, &whole, &(layout){.dtype = dtype}, &v);
        for (int way = 0; way < 3; way++)
            run(&f, &whole, &v,
                &(layout){.degree = rows[i].degree, .dtype = dtype, .rows = way == 1, .split = way == 2}, NO_FAULT, 0);
        close_whole(&whole, &v);
        fixture_close(&f);
    }
}

/* A rank whose memory were that of its rows of the largest batch would have too little for a smaller one: of 10 rows
 * over 4 the last has 1, of 8 it has 2. */
static void ranks_have_room_for_their_rows_of_any_batch(void)
{
    fixture f;
    fixture_open(&f, "llama");
    for (int degree = 2; degree <= MAX_RANKS; degree++)
        for (int rank = 0; rank < degree; rank++) {
            rig r;
            tess_model_part part = {0, f.config.n_layers, true, true, NULL, rank, degree};
            rig_open_part(&r, &f.config, &part, TESS_F32, NULL, 1);
            for (int64_t most = 1; most < 20; most++) {
                const tess_executor_options options = {.max_tokens = most, .sequence_parallel = true};
                int64_t room = tess_executor_stream_room(r.model, &options), rows = 0;
                for (int64_t n = 0; n <= most; n++) {
                    int64_t own = tess_executor_stream_rows(r.model, &options, n);
                    rows = own > rows ? own : rows;
                }
                EXPECT(rows <= room);
                EXPECT_INT(room, (most + degree - 1) / degree);
            }
            rig_close(&r);
        }
    fixture_close(&f);
}

static const test_case cases[] = {
    CASE(ranks_that_share_layers_give_the_bits_of_one),
    CASE(larger_layers_give_the_bits_of_one),
    CASE(sums_of_leaves_give_the_bits_of_one),
    CASE(every_use_of_shared_tables_gives_the_bits_of_one),
    CASE(heads_exchange_their_rows_in_pieces),
    CASE(heads_of_several_chunks_give_the_bits_of_one),
    CASE(ranks_without_a_part_of_a_table_give_the_bits_of_one),
    CASE(a_stale_gather_or_another_order_of_sums_changes_bits),
    CASE(every_exchange_of_training_matters),
    CASE(an_adapter_of_a_fused_map_gives_the_bits_of_one),
    CASE(ranks_have_room_for_their_rows_of_any_batch),
    CASE(points_of_other_ranks_are_refused),
};
TEST_MAIN(cases)
