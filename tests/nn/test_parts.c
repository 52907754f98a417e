/* Parts of a model, each with an executor of its own as on ranks of a pipeline: together they are the whole model. */
#include "fixture.h"

enum { MAX_PARTS = 5, MAX_T = FIXTURE_TOKENS };

static int cut(const tess_model_config *config, int way, tess_model_part parts[MAX_PARTS])
{
    int64_t L = config->n_layers;
    int n = 0;
    switch (way) {
    case 0: /* one part: the whole model */
        parts[n++] = (tess_model_part){0, L, true, true};
        return n;
    case 1: /* two stages */
        parts[n++] = (tess_model_part){0, 1, true, false};
        parts[n++] = (tess_model_part){1, L - 1, false, true};
        return n;
    default: /* embedding and head alone */
        parts[n++] = (tess_model_part){0, 0, true, false};
        parts[n++] = (tess_model_part){0, 1, false, false};
        parts[n++] = (tess_model_part){1, L - 1, false, false};
        parts[n++] = (tess_model_part){L, 0, false, true};
        return n;
    }
}

static size_t count_of(const tess_param *param)
{
    return (size_t)tess_shape_count(&param->shape);
}

/* Compares the gradient of each part's parameter with the whole model's. If two parts have a tied table, one of them
 * has a copy without a gradient. */
static void compare(const rig *whole, rig *parts, int n_parts)
{
    for (int i = 0; i < whole->n_params; i++) {
        const tess_param *param = tess_model_param(whole->model, i);
        const float *found = NULL;
        int n_found = 0, n_copies = 0;
        for (int k = 0; k < n_parts; k++)
            for (int p = 0; p < parts[k].n_params; p++) {
                const tess_param *mine = tess_model_param(parts[k].model, p);
                if (strcmp(mine->name, param->name) != 0)
                    continue;
                EXPECT(mine->init == param->init && mine->init_std == param->init_std && mine->decay == param->decay);
                EXPECT_INT(mine->shape.n_dims, param->shape.n_dims);
                EXPECT_SAME(mine->shape.dim, param->shape.dim, (size_t)param->shape.n_dims);
                n_copies += mine->copy;
                n_found += !mine->copy;
                found = mine->copy ? found : parts[k].dw[p];
            }
        EXPECT_INT(n_found, 1);
        EXPECT(n_copies == 0 || (whole->config.tied && i == 0));
        test_expect_same(__FILE__, __LINE__, param->name, found, whole->dw[i], count_of(param), sizeof(float));
    }
}

/* The units of a part that a range may have: not a table that only the head reads. */
static tess_range range_of(const rig *part, const tess_model_part *cut, const tess_batch *batch)
{
    return (tess_range){0, part->config.tied && cut->head && !cut->embedding, tess_model_n_units(part->model), batch};
}

static void run_parts(const fixture *f, rig *whole, const float *expected, const tess_model_part *cuts, int n_parts,
                      bool split)
{
    rig parts[MAX_PARTS];
    tess_executor *executors[MAX_PARTS];
    float h[MAX_PARTS][MAX_T * 64], dh[MAX_PARTS][MAX_T * 64], logprob[MAX_T] = {0};
    tess_range ranges[MAX_PARTS];
    tess_executor_options options = {.max_tokens = MAX_T,
                                     .max_position = f->max_position,
                                     .train = true,
                                     .recompute = TESS_RECOMPUTE_EVERY_N,
                                     .recompute_every = 2,
                                     .split_backward = split};
    int64_t n_params = 0;
    EXPECT(f->config.hidden_size <= 64);
    for (int k = 0; k < n_parts; k++) {
        rig_open_part(&parts[k], &f->config, &cuts[k], whole->dtype, NULL, 1);
        executors[k] = rig_executor(&parts[k], options);
        ranges[k] = range_of(&parts[k], &cuts[k], &f->batch);
        n_params += parts[k].n_params;
    }
    EXPECT_INT(n_params, whole->n_params + (n_parts > 1 && f->config.tied));
    for (int k = 0; k < n_parts; k++)
        EXPECT_OK(tess_executor_forward(executors[k], &ranges[k], cuts[k].embedding ? NULL : h[k],
                                        cuts[k].head ? NULL : h[k + 1]));
    for (int k = n_parts - 1; k >= 0; k--) {
        const bool hands = tess_model_copies_table(parts[k].model) && cuts[k].n_layers > 0;
        ranges[k].begin += hands;
        EXPECT_OK(tess_executor_backward(executors[k], &ranges[k],
                                         &(tess_backward){.part = split ? TESS_BACKWARD_INPUT : TESS_BACKWARD_WHOLE,
                                                          .dout = cuts[k].head ? NULL : dh[k + 1],
                                                          .din = cuts[k].embedding && !hands ? NULL : dh[k],
                                                          .logprob = logprob}));
        if (hands && tess_model_unit_trains(parts[k].model, 0))
            EXPECT_OK(tess_executor_backward(executors[k], &(tess_range){0, 0, 1, &f->batch},
                                             &(tess_backward){.dout = dh[k]}));
    }
    if (n_parts > 1 && f->config.tied) /* an embedding without layers has its gradient from above */
        EXPECT_OK(tess_executor_backward_table(executors[n_parts - 1], &f->batch, dh[cuts[0].n_layers > 0 ? 0 : 1]));
    for (int k = 0; k < n_parts && split; k++)
        EXPECT_OK(tess_executor_backward(executors[k], &ranges[k], &(tess_backward){.part = TESS_BACKWARD_WEIGHTS}));
    EXPECT_SAME(logprob, expected, (size_t)f->batch.n_tokens);
    compare(whole, parts, n_parts);
    for (int k = 0; k < n_parts; k++) {
        tess_executor_destroy(&executors[k]);
        rig_close(&parts[k]);
    }
}

static void parts_with_their_own_executors_give_the_bits_of_the_whole(void)
{
    for (int i = 0; i < N_FIXTURES; i++) {
        fixture f;
        fixture_open(&f, fixture_names[i]);
        for (int d = 0; d < 2; d++) {
            rig whole;
            float expected[MAX_T];
            rig_open(&whole, &f.config, d == 0 ? TESS_F32 : TESS_BF16, NULL, 1);
            tess_executor *executor = rig_executor(
                &whole, (tess_executor_options){.max_tokens = MAX_T, .max_position = f.max_position, .train = true});
            EXPECT_OK(tess_executor_train(executor, &f.batch, NULL, expected));
            tess_executor_destroy(&executor);
            for (int way = 0; way < 2 * 3; way++) {
                tess_model_part parts[MAX_PARTS];
                int n = cut(&f.config, way / 2, parts);
                run_parts(&f, &whole, expected, parts, n, way % 2 == 1);
            }
            rig_close(&whole);
        }
        fixture_close(&f);
    }
}

/* A rank with the first stage and the last one, and a rank between: each slot has memory for one stage alone. */
static void stages_of_a_v(const fixture *f, rig *whole, const float *expected, const float *scored, bool split)
{
    int64_t L = f->config.n_layers, outer[2] = {0, L - 1};
    const tess_model_part cuts[] = {{.n_layers = 2, .embedding = true, .head = true, .layers = outer},
                                    {.first_layer = 1, .n_layers = L - 2}};
    const tess_slot_units halves[] = {{0, 2}, {0, 2}, {2, 4}}, middle[] = {{0, (int)L - 2}};
    const struct {
        int rank, slot, begin, end;
    } stages[] = {{0, 1, 0, 2}, {1, 0, 0, (int)L - 2}, {0, 2, 2, 4}};
    enum { STAGES = 3 };
    rig ranks[2];
    tess_executor *executors[2];
    float h[STAGES][MAX_T * 64], dh[STAGES][MAX_T * 64], logprob[MAX_T] = {0};
    for (int r = 0; r < 2; r++) {
        tess_executor_options options = {.max_tokens = MAX_T,
                                         .max_position = f->max_position,
                                         .train = true,
                                         .split_backward = split,
                                         .n_slots = r == 0 ? 3 : 1,
                                         .n_tables = r == 0,
                                         .slot_units = r == 0 ? halves : middle};
        rig_open_part(&ranks[r], &f->config, &cuts[r], whole->dtype, NULL, 1);
        size_t before = tess_mem_stats(test_mem(), TESS_POOL_ACTIVATIONS).bytes;
        executors[r] = rig_executor(&ranks[r], options);
        size_t bytes = tess_mem_stats(test_mem(), TESS_POOL_ACTIVATIONS).bytes - before;
        options.dtype = whole->dtype;
        EXPECT_INT(bytes, tess_executor_bytes(ranks[r].model, &options));
        options.slot_units = NULL;
        EXPECT(r == 1 || bytes < tess_executor_bytes(ranks[r].model, &options));
    }
    const tess_head_task scoring = {.inv_temperature = 1, .logprob = logprob};
    for (int way = 0; way < 3; way++) /* forward, to score, and forward and backward */
        for (int k = 0; k < STAGES; k++) {
            int r = stages[k].rank;
            tess_range range = {stages[k].slot, stages[k].begin, stages[k].end, &f->batch};
            void *in = k > 0 ? h[k] : NULL, *out = k < STAGES - 1 ? h[k + 1] : NULL;
            EXPECT_OK(way == 1 ? tess_executor_score(executors[r], &range, in, out, &scoring)
                               : tess_executor_forward(executors[r], &range, in, out));
            if (way == 1 && k == STAGES - 1)
                EXPECT_SAME(logprob, scored, (size_t)f->batch.n_tokens);
        }
    for (int pass = 0; pass <= split; pass++)
        for (int k = STAGES - 1; k >= 0; k--) {
            tess_range range = {stages[k].slot, stages[k].begin, stages[k].end, &f->batch};
            tess_backward b = {.part = pass == 1 ? TESS_BACKWARD_WEIGHTS
                                       : split   ? TESS_BACKWARD_INPUT
                                                 : TESS_BACKWARD_WHOLE,
                               .dout = k < STAGES - 1 && pass == 0 ? dh[k + 1] : NULL,
                               .din = k > 0 && pass == 0 ? dh[k] : NULL,
                               .logprob = logprob};
            EXPECT_OK(tess_executor_backward(executors[stages[k].rank], &range, &b));
        }
    EXPECT_SAME(logprob, expected, (size_t)f->batch.n_tokens);
    compare(whole, ranks, 2);
    tess_range wrong = {0, 2, 4, &f->batch};
    EXPECT_FAILS(tess_executor_forward(executors[0], &wrong, h[2], NULL), TESS_E_INVALID,
                 "blocks 2 to 4 on slot 0, which has memory for 0 to 2");
    for (int r = 0; r < 2; r++) {
        tess_executor_destroy(&executors[r]);
        rig_close(&ranks[r]);
    }
}

static void a_rank_may_have_several_stages(void)
{
    int n_run = 0;
    for (int i = 0; i < N_FIXTURES; i++) {
        fixture f;
        fixture_open(&f, fixture_names[i]);
        for (int way = 0; way < 4 && f.config.n_layers > 2; way++, n_run++) {
            rig whole;
            float expected[MAX_T], scored[MAX_T];
            rig_open(&whole, &f.config, way / 2 == 0 ? TESS_F32 : TESS_BF16, NULL, 1);
            tess_executor *executor = rig_executor(
                &whole, (tess_executor_options){.max_tokens = MAX_T, .max_position = f.max_position, .train = true});
            EXPECT_OK(tess_executor_logprobs(executor, &f.batch, 1, scored, NULL));
            EXPECT_OK(tess_executor_train(executor, &f.batch, NULL, expected));
            tess_executor_destroy(&executor);
            stages_of_a_v(&f, &whole, expected, scored, way % 2 == 1);
            rig_close(&whole);
        }
        fixture_close(&f);
    }
    EXPECT(n_run >= 8);
}

static void operations_of_parts_add_up_to_those_of_the_whole(void)
{
    fixture f;
    fixture_open(&f, "qwen2_layers"); /* layers differ */
    tess_model_part parts[MAX_PARTS];
    tess_model *model;
    EXPECT_OK(tess_model_create(test_mem(), &f.config, &model));
    double whole = tess_model_flops_per_token(model, 20), sum = 0;
    tess_model_destroy(&model);
    int n = cut(&f.config, 2, parts);
    for (int k = 0; k < n; k++) {
        EXPECT_OK(tess_model_create_part(test_mem(), &f.config, &parts[k], &model));
        sum += tess_model_flops_per_token(model, 20);
        tess_model_destroy(&model);
    }
    EXPECT(sum == whole);
    fixture_close(&f);
}

static void bad_parts_are_refused(void)
{
    static const struct {
        tess_model_part part;
        const char *needle;
    } bad[] = {{{0, 3, true, true}, "3 layers from 0 on; the model has 2"},
               {{-1, 1, false, false}, "1 layers from -1 on"},
               {{3, 0, false, true}, "0 layers from 3 on"},
               {{1, INT64_MAX, false, true}, "the model has 2"},
               {{1, 0, false, false}, "0 layers from 1 on"},
               {{1, 1, true, true}, "layers 1 to 2 of 2; the embedding goes with the first"},
               {{0, 1, true, true}, "layers 0 to 1 of 2; the embedding goes with the first, the head with the last"}};
    fixture f;
    fixture_open(&f, "llama");
    tess_model *model;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        EXPECT_FAILS(tess_model_create_part(test_mem(), &f.config, &bad[i].part, &model), TESS_E_INVALID,
                     bad[i].needle);
    static const int64_t layers[] = {1, 0};
    EXPECT_FAILS(
        tess_model_create_part(test_mem(), &f.config, &(tess_model_part){.n_layers = 2, .layers = layers}, &model),
        TESS_E_INVALID, "layer 0 at place 1; the model has 2, and a part names them ascending");
    rig r;
    rig_open_part(&r, &f.config, &(tess_model_part){1, 1, false, true}, TESS_F32, NULL, 1);
    tess_executor *executor = rig_executor(&r, (tess_executor_options){.max_tokens = MAX_T, .max_position = 40});
    float logprob[MAX_T];
    EXPECT_FAILS(tess_executor_logprobs(executor, &f.batch, 1, logprob, NULL), TESS_E_INVALID, "its model is a part");
    tess_executor_destroy(&executor);
    rig_close(&r);
    fixture_close(&f);
}

static const test_case cases[] = {
    CASE(parts_with_their_own_executors_give_the_bits_of_the_whole),
    CASE(a_rank_may_have_several_stages),
    CASE(operations_of_parts_add_up_to_those_of_the_whole),
    CASE(bad_parts_are_refused),
};
TEST_MAIN(cases)
