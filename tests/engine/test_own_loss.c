/* Micro-batches with losses of their own, and a judge of the step: the same bits however ranks share the model, nothing
 * new where the loss is -log p, and no update where the judge refuses it. */
#include <math.h>

#include "base/text/json.h"
#include "support/rig.h"
#include "tessera/comm.h"
#include "engine/engine.h"
#include "engine/numbers/numbers.h"

enum { ROWS = 3, LENGTH = 8, TOKENS = ROWS * LENGTH, VOCABULARY = 61, MICRO = 6, STEPS = 4 };

static const char model_json[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 61, \"hidden_size\": 24,"
    "\"intermediate_size\": 36, \"num_hidden_layers\": 4, \"num_attention_heads\": 2, \"num_key_value_heads\": 2,"
    "\"head_dim\": 12, \"hidden_act\": \"silu\", \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-6,"
    "\"rope_theta\": 10000.0, \"tie_word_embeddings\": false}";

/* ---- A step's micro-batches and their losses ---- */
typedef enum loss_kind { NO_LOSS, PLAIN_LOSS, OWN_LOSS, COLD_LOSS, VALUE_LOSS, VALUES_UNASKED } loss_kind;

typedef struct graded {
    tess_token_loss loss;
    loss_kind kind;
    int32_t index;  /* index in the step */
    int64_t n_rows; /* graded in all runs of the step */
} graded;

typedef struct rig {
    tess_runtime *runtime;
    tess_config config;
    tess_model_config model;
    tess_engine *engine;
    loss_kind kind;
    int64_t n_judged, refused; /* how often; the call that is refused, 0: none */
    double seen[STEPS];        /* the loss in the report of each call */
    graded losses[MICRO];
    int32_t ids[TOKENS], pos[TOKENS], targets[TOKENS], cu_seqlens[ROWS + 1];
} rig;

static tess_status grade(void *self, int64_t begin, int64_t n, const float *logprob, const float *entropy,
                         float *dlogprob, float *dentropy)
{
    graded *g = self;
    g->n_rows += n;
    for (int64_t i = 0; i < n; i++) {
        float w = g->kind == PLAIN_LOSS ? 0 : (float)(g->index + 1) + 0.25f * (float)(begin + i);
        dlogprob[i] = w * (logprob[i] + 2) - (g->kind == PLAIN_LOSS);
        dentropy[i] = w * entropy[i] / 25;
    }
    return TESS_OK;
}

static tess_status grade_values(void *self, int64_t n, const float *value, float *dvalue)
{
    (void)self;
    memcpy(dvalue, value, (size_t)n * sizeof(*value));
    return TESS_OK;
}

static tess_status next(void *self, int64_t index, tess_batch *batch)
{
    rig *r = self;
    uint32_t x = 2654435761u * (uint32_t)(index + 1);
    graded *g = &r->losses[index % MICRO];
    *g = (graded){{g, r->kind == OWN_LOSS ? 0.8f : 1, index % 2 == 0, grade}, r->kind, (int32_t)(index % MICRO), 0};
    if (r->kind == COLD_LOSS)
        g->loss.inv_temperature = 0;
    if (r->kind == VALUE_LOSS)
        g->loss.grade_values = grade_values;
    for (int i = 0; i < TOKENS; i++) {
        x = x * 1103515245u + 12345u;
        r->ids[i] = (int32_t)(x >> 16) % VOCABULARY;
        r->targets[i] = i % LENGTH < 3 ? -1 : (int32_t)(x >> 8) % VOCABULARY;
        r->pos[i] = i % LENGTH;
    }
    for (int i = 0; i <= ROWS; i++)
        r->cu_seqlens[i] = i * LENGTH;
    *batch = (tess_batch){.n_tokens = TOKENS,
                          .n_seqs = ROWS,
                          .ids = r->ids,
                          .pos = r->pos,
                          .targets = r->targets,
                          .cu_seqlens = r->cu_seqlens,
                          .loss = r->kind != NO_LOSS ? &g->loss : NULL};
    return TESS_OK;
}

/* Says 100 and the number of the call, unless it refuses the step. */
static tess_status judge(void *self, tess_engine_report *report)
{
    rig *r = self;
    if (r->n_judged < STEPS)
        r->seen[r->n_judged] = report->loss;
    r->n_judged++;
    TESS_CHECK(r->n_judged != r->refused, TESS_E_MISMATCH, "the policy is not the one that drew the samples");
    report->loss = 100 + (double)r->n_judged;
    return TESS_OK;
}

/* ---- The engine ---- */
static void open_rig(rig *r, const char *overrides, loss_kind kind)
{
    *r = (rig){.runtime = test_stay_joined(), .kind = kind};
    test_configure(&r->config, tess_runtime_world(r->runtime),
                   "training.local_batch_size=3 training.global_batch_size=18 training.seq_len=8 training.steps=100 "
                   "lr_scheduler.warmup_steps=0 optimizer.lr=0.01 training.mixed_precision_param=float32 %s",
                   overrides);
    r->config.model.value_head = kind == VALUES_UNASKED;
    test_model(model_json, &r->model);
    r->model.value_head = r->config.model.value_head;
    EXPECT_OK(tess_engine_create(r->runtime, &r->config, &r->model, NULL, &r->engine));
}

static tess_status step(rig *r, bool judged, tess_engine_report *report)
{
    tess_batch_source source = tess_engine_source(r->engine, r, next);
    source.judge = judged ? judge : NULL;
    return tess_engine_step(r->engine, &source, report);
}

/* Loss and norm of each step: the norm sees every gradient, and from the second step on every update. */
typedef struct course {
    double loss[STEPS], norm[STEPS];
} course;

static course run(const char *overrides, loss_kind kind)
{
    rig r;
    course c;
    open_rig(&r, overrides, kind);
    for (int i = 0; i < STEPS; i++) {
        tess_engine_report report;
        EXPECT_OK(step(&r, false, &report));
        EXPECT_INT(report.n_tokens, MICRO * ROWS * (LENGTH - 3));
        c.loss[i] = report.loss;
        c.norm[i] = report.grad_norm;
    }
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);
    return c;
}

static void expect_course(const char *what, const course *got, const course *want)
{
    test_expect_same(__FILE__, __LINE__, what, got->loss, want->loss, STEPS, sizeof(double));
    test_expect_same(__FILE__, __LINE__, what, got->norm, want->norm, STEPS, sizeof(double));
}

/* ---- The cases ---- */
static void the_plain_loss_as_a_batch_s_own_changes_no_bit(void)
{
    course none = run("", NO_LOSS), plain = run("", PLAIN_LOSS), own = run("", OWN_LOSS);
    expect_course("the plain loss", &plain, &none);
    for (int i = 0; i < STEPS; i++)
        EXPECT(own.norm[i] != none.norm[i]);
    test_leave();
}

/* Several micro-batches are under way at once in a pipeline, and each has its own loss. */
static void a_batch_s_own_loss_gives_the_same_bits_however_ranks_share_the_model(void)
{
    static const char *const ways[] = {
        "parallelism.shard_strategy=full",
        "parallelism.tensor_parallel_degree=2",
        "parallelism.pipeline_parallel_degree=2",
        "parallelism.pipeline_parallel_degree=2 parallelism.pipeline_parallel_schedule=interleaved",
        "parallelism.pipeline_parallel_degree=2 parallelism.pipeline_parallel_schedule=ZBVZeroBubble",
    };
    course want = run("parallelism.shard_strategy=none", OWN_LOSS);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        course got = run(ways[i], OWN_LOSS);
        expect_course(ways[i], &got, &want);
    }
    test_leave();
}

/* The batch itself is refused, before anything meets; else the step. */
typedef struct refusal {
    const char *overrides;
    loss_kind kind;
    bool is_batch;
    tess_status status;
    const char *message;
} refusal;

static void losses_that_cannot_be_are_refused(void)
{
    static const refusal refusals[] = {
        {"training.passes=3", OWN_LOSS, false, TESS_E_INVALID,
         " has a loss of its own, which counts the rows of a whole micro-batch, but "
         "training.passes is 3: set training.passes=1"},
        {"parallelism.pipeline_parallel_degree=2 training.loss_scale=2", OWN_LOSS, true, TESS_E_UNSUPPORTED,
         "training.loss_scale: in a pipeline, which has several micro-batches under way, only the loss of text is "
         "scaled; set it to 1"},
        {"", COLD_LOSS, false, TESS_E_INVALID, "finite and above 0"},
        {"training.loss_scale=2", COLD_LOSS, false, TESS_E_INVALID, "finite and above 0"},
        {"", VALUE_LOSS, false, TESS_E_INVALID, "head: values need a score of one output; the model has 0"},
        {"", VALUES_UNASKED, false, TESS_E_INVALID, "the model has a value head, and the loss says nothing of values"},
    };
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        const refusal *c = &refusals[i];
        rig r;
        tess_engine_report report;
        tess_batch batch;
        open_rig(&r, c->overrides, c->kind);
        tess_batch_source source = tess_engine_source(r.engine, &r, next);
        EXPECT_FAILS(c->is_batch ? tess_engine_next_batch(r.engine, &source, 0, &batch) : step(&r, false, &report),
                     c->status, c->message);
        EXPECT_INT(r.engine->step, 0);
        tess_engine_destroy(&r.engine);
        tess_config_free(&r.config);
    }
    test_leave();
}

static void the_judge_says_what_the_loss_is_and_changes_nothing_else(void)
{
    rig r;
    course want = run("", OWN_LOSS);
    open_rig(&r, "", OWN_LOSS);
    for (int i = 0; i < STEPS; i++) {
        tess_engine_report report;
        EXPECT_OK(step(&r, true, &report));
        EXPECT(report.loss == 101 + i);
        EXPECT(r.seen[i] == want.loss[i]);
        EXPECT(report.grad_norm == want.norm[i]);
    }
    EXPECT_INT(r.n_judged, STEPS);
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);
    test_leave();
}

/* The refused step leaves the weights and the optimizer as they were: asked again, it gives what it would have. */
static void a_step_that_the_judge_refuses_leaves_no_trace(void)
{
    rig r;
    course want = run("parallelism.shard_strategy=full", OWN_LOSS);
    open_rig(&r, "parallelism.shard_strategy=full", OWN_LOSS);
    r.refused = 2;
    for (int i = 0; i < STEPS; i++) {
        tess_engine_report report;
        if (i == 1)
            EXPECT_FAILS(step(&r, true, &report), TESS_E_MISMATCH,
                         "step 2: the policy is not the one that drew the samples");
        EXPECT_INT(r.engine->step, i);
        EXPECT_OK(step(&r, true, &report));
        EXPECT(report.grad_norm == want.norm[i]);
    }
    EXPECT_INT(r.n_judged, STEPS + 1);
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);
    test_leave();
}

/* ---- A step that is computed again ---- */
typedef struct drill {
    const rig *r;
    int times;
} drill;

static void spoil(void *self, int unit, const char *what, void *data, tess_dtype dtype, int64_t first, int64_t n_rows,
                  int64_t row)
{
    drill *d = self;
    (void)unit, (void)dtype, (void)first, (void)n_rows, (void)row;
    if (d->times == 0 || strcmp(what, "gradient model.layers.1.mlp.up_proj.weight") != 0 || d->r->engine->step != 1)
        return;
    d->times--;
    ((float *)data)[5] = NAN;
}

/* Both runs ask the losses, both are judged, and the second one's bits are those of a run without the fault. */
static void a_second_run_asks_the_losses_and_the_judge_again(void)
{
    rig r;
    tess_engine_report report;
    course want = run("", OWN_LOSS);
    open_rig(&r, "numbers.on_nonfinite=skip", OWN_LOSS);
    drill d = {&r, tess_runtime_rank(r.runtime) == 0 ? 1 : 0};
    tess_numbers_set_drill(r.engine->numbers, &(tess_watch){&d, spoil});
    for (int i = 0; i < STEPS; i++) {
        EXPECT_OK(step(&r, true, &report));
        EXPECT(report.grad_norm == want.norm[i]);
        EXPECT(report.loss == (i == 0 ? 101 : 102 + i));
        for (int k = r.engine->at.data; k < MICRO; k += r.engine->at.n_data)
            EXPECT_INT(r.losses[k].n_rows, i == 1 ? 2 * TOKENS : TOKENS);
        if (i == 1)
            EXPECT_CONTAINS(report.note, "the run goes on with the second result");
    }
    EXPECT_INT(r.n_judged, STEPS + 1);
    EXPECT(r.seen[1] == want.loss[1] && r.seen[2] == want.loss[1] && r.seen[3] == want.loss[2]);
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);
    test_leave();
}

static const test_case cases[] = {
    CASE(the_plain_loss_as_a_batch_s_own_changes_no_bit, -1),
    CASE(a_batch_s_own_loss_gives_the_same_bits_however_ranks_share_the_model, 2),
    CASE(losses_that_cannot_be_are_refused, 2),
    CASE(the_judge_says_what_the_loss_is_and_changes_nothing_else, -1),
    CASE(a_step_that_the_judge_refuses_leaves_no_trace, -1),
    CASE(a_second_run_asks_the_losses_and_the_judge_again, -1),
};
TEST_MAIN(cases)
