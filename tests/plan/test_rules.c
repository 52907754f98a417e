/* Rules of thumb, with the figures of their texts, and those that their own formulas give where a text has others. */
#include "support/test.h"

#include <math.h>

#include "plan/rules/layout_rules.h"
#include "plan/rules/memory_rules.h"
#include "plan/rules/time_rules.h"

static const double gib = 1 << 30;

static bool is_near(double value, double expected, double unit)
{
    return fabs(value - expected) <= unit / 2 * (1 + 1e-9);
}

static const tess_state_rule *state_rule(const char *name)
{
    for (int i = 0; i < tess_state_rules_n; i++)
        if (strcmp(tess_state_rules[i].name, name) == 0)
            return &tess_state_rules[i];
    return NULL;
}

static void state_of_seven_billion_parameters_on_eight_ranks(void)
{
    static const struct {
        const char *rule;
        double gb[TESS_ZERO_STAGES];
    } rows[] = {
        {"mixed", {112, 38.5, 26.25, 14}}, {"zero", {84, 35, 22.75, 10.5}}, {"compare", {42, 29.75, 17.5, 19.25}}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (int stage = 0; stage < TESS_ZERO_STAGES; stage++)
            EXPECT(is_near(7 * tess_state_bytes(state_rule(rows[i].rule), stage, 8), rows[i].gb[stage], 1e-9));
    const tess_state_rule *mixed = state_rule("mixed"), *hybrid = state_rule("hybrid");
    EXPECT(is_near(65 * tess_state_bytes(mixed, 3, 16) + 20, 85, 1e-9));      /* not safe in 80 GB */
    EXPECT(is_near(65 * tess_state_bytes(hybrid, 3, 16) + 20, 44.375, 1e-9)); /* the text's own figure */
}

static void one_gpu(void)
{
    const tess_single_memory eight = tess_single_gpu_memory(7e9, 2, 8, 2048);
    EXPECT(is_near(eight.weights / gib, 13.0, 0.1) && is_near(eight.grads / gib, 13.0, 0.1));
    EXPECT(is_near(eight.optimizer / gib, 78.2, 0.1) && is_near(eight.activations / gib, 40.0, 0.1));
    EXPECT(is_near(eight.sum / gib, 144.3, 0.1));
    EXPECT(is_near(tess_single_gpu_memory(7e9, 2, 1, 2048).sum / gib, 109.3, 0.1));
    EXPECT(is_near(tess_single_gpu_memory(7e9, 4, 8, 2048).sum / gib, 210.4, 0.1));
}

static void what_sharding_and_accumulation_save(void)
{
    EXPECT(is_near(tess_shard_saving(4, 0), 0.75, 1e-9) && is_near(tess_shard_saving(8, 0), 0.875, 1e-9));
    EXPECT(is_near(tess_shard_saving(16, 0), 0.9375, 1e-9));
    EXPECT(is_near(tess_shard_saving(4, 0.05), 0.7125, 1e-9) && is_near(tess_shard_saving(8, 0.05), 0.83125, 1e-9));
    EXPECT(tess_activation_bytes(32, 2048, 4096, 32, 2) == 16 * gib);
    EXPECT(tess_activation_bytes(4, 2048, 4096, 32, 2) == 2 * gib);
}

static void the_estimate_of_fsdp2(void)
{
    const tess_fsdp2_memory m = tess_fsdp2_estimate(7e9, 8, 4, 2048, 0, 0);
    EXPECT(m.state == 10.5e9 && m.buffers == 1.05e9); /* its own code, in the wrong unit, gives 0.38 GB in all */
    EXPECT(m.activations == 4.0 * 2048 * 6972 * 12 * 2);
    const tess_fsdp2_memory small = tess_fsdp2_estimate(7e9, 8, 4, 2048, 1, 1);
    EXPECT(is_near(small.activations, m.activations / 5, 1e-3) && is_near(small.state, m.state / 5, 1e-3));
    EXPECT(small.buffers == m.buffers);
}

static void axes(void)
{
    static const struct {
        double params_b, ranks, memory_gb, tp, pp, dp, weights_gb, batch;
        bool counts_tp;
    } rows[] = {{175, 512, 40, 8, 32, 2, 11.4, 128, false},
                {175, 512, 80, 8, 16, 4, 12.7, 128, false},
                {70, 64, 40, 8, 8, 1, 12.2, 16, false},
                {70, 64, 40, 8, 1, 8, 27.5, 16, true},
                {175, 512, 40, 8, 4, 16, 20.9, 128, true}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const tess_rule_case of = {
            .params_b = rows[i].params_b, .ranks = rows[i].ranks, .memory_gb = rows[i].memory_gb};
        const tess_axes_choice c = tess_choose_axes(&of, rows[i].counts_tp);
        EXPECT(c.tp == rows[i].tp && c.pp == rows[i].pp && c.dp == rows[i].dp);
        EXPECT(is_near(c.weights_gb, rows[i].weights_gb, 0.1) && c.global_batch == rows[i].batch);
        EXPECT(c.zero_stage == (c.pp > 1 ? 1 : 0));
    }
    EXPECT(tess_choose_axes(&(tess_rule_case){.params_b = 65, .ranks = 16, .memory_gb = 80}, false).dp == 1);
    EXPECT(tess_choose_axes(&(tess_rule_case){.params_b = 65, .ranks = 16, .memory_gb = 40}, false).dp == 0);
}

static const char *answer_of(const char *name, const tess_rule_case *of)
{
    static char answer[TESS_RULE_TEXT], why[TESS_RULE_TEXT];
    for (int i = 0; i < tess_strategy_rules_n; i++)
        if (strcmp(tess_strategy_rules[i].name, name) == 0) {
            tess_strategy_rules[i].choose(of, answer, why);
            return answer;
        }
    return "no such rule";
}

static void strategies(void)
{
    const tess_rule_case seven = {.params_b = 7, .layers = 32, .hidden = 4096, .ranks = 8, .memory_gb = 80};
    const tess_rule_case seventy = {.params_b = 70, .layers = 80, .hidden = 8192, .ranks = 64, .memory_gb = 80};
    EXPECT_TEXT(answer_of("memory", &seven), "FSDP2"); /* 56 GB of state are more than 48, and 7 are less */
    EXPECT_TEXT(answer_of("taxonomy", &seven), "DDP + FSDP");
    EXPECT_TEXT(answer_of("taxonomy", &seventy), "TP=4 + PP=4 + DP");
    EXPECT_TEXT(answer_of("scenarios", &seven), "DDP");
    EXPECT_TEXT(answer_of("scenarios", &(tess_rule_case){.params_b = 13}), "ZeRO-2");
    EXPECT_TEXT(answer_of("scenarios", &seventy), "ZeRO-3 + TP");
    EXPECT_TEXT(answer_of("summary", &seven), "DDP");
    EXPECT_TEXT(answer_of("summary", &(tess_rule_case){.params_b = 13}), "FSDP (ZeRO-3)");
    EXPECT_TEXT(answer_of("summary", &seventy), "3-D: TP + PP + DP");
    EXPECT_TEXT(answer_of("tree", &seven), "DDP"); /* 80 > 42 */
    EXPECT_TEXT(answer_of("tree", &seventy), "FSDP2");
    EXPECT_TEXT(answer_of("tree", &(tess_rule_case){.params_b = 0.9, .sequence = 1e6}), "DDP");
    EXPECT_TEXT(answer_of("tree", &(tess_rule_case){.params_b = 14, .memory_gb = 80, .sequence = 65536}),
                "FSDP2 with context parallel");
    EXPECT_TEXT(answer_of("tree", &(tess_rule_case){.params_b = 70, .memory_gb = 80, .needs_pipeline = true}),
                "Megatron");
    EXPECT_TEXT(answer_of("share", &seven), "DDP");
    EXPECT_TEXT(answer_of("share", &seventy), "FSDP2");
    EXPECT_TEXT(answer_of("memory", &(tess_rule_case){.params_b = 175, .memory_gb = 80, .ranks = 8}),
                "FSDP2 with offload, or more ranks");
}

static void volumes(void)
{
    const tess_shard_volume v = tess_step_volume(60, 8);
    EXPECT(v.gathered == 52.5 && v.scattered == 52.5 && v.sum == 105);
    EXPECT(is_near(tess_volume_time(105, 25, 0, 0), 4.2, 1e-9));
    EXPECT(is_near(tess_volume_time(11.2, 300, 0.05e-3, 100), 11.2 / 300 + 0.005, 1e-12));
    const tess_layer_case glm = {.hidden = 4096, .layers = 40, .batch = 4, .sequence = 8192, .dp = 8, .cp = 1};
    const tess_layer_volume step = tess_layers_volume(&glm);
    EXPECT(step.forward / gib == 13.125 && step.backward / gib == 15 && step.sum / gib == 28.125);
    /* Shard, Partial and Replicate on four ranks */
    EXPECT(tess_move_bytes(&tess_move_rules[0], 1, 4) == 0.75 && tess_move_bytes(&tess_move_rules[2], 1, 4) == 1.5);
    EXPECT(tess_move_bytes(&tess_move_rules[tess_move_rules_n - 1], 1, 4) == 0);
}

static void context(void)
{
    const tess_layer_case four = {.hidden = 4096, .layers = 32, .batch = 4, .sequence = 32768};
    tess_layer_case one = four;
    one.batch = 1;
    tess_context_step r = tess_context_volume(&four, 1);
    EXPECT(r.activations == 128 * gib && r.sum == 0);
    r = tess_context_volume(&four, 4);
    EXPECT(r.local == 8192 && r.activations == 32 * gib && r.ring == 48 * gib && r.gather == 24 * gib &&
           r.sum == 144 * gib);
    r = tess_context_volume(&one, 4);
    EXPECT(r.activations == 8 * gib && r.ring == 12 * gib && r.gather == 6 * gib && r.sum == 36 * gib);
    EXPECT(tess_context_ranks(128 * gib, 32 * gib) == 4 && tess_context_ranks(128 * gib, 31 * gib) == 8);
    EXPECT(tess_context_ranks(128 * gib, 128 * gib) == 1 && tess_context_ranks(2e6, 1e3) == 0);
}

static void overlap_and_buckets(void)
{
    tess_overlap o = tess_overlap_layers(12, 100, 50);
    EXPECT(o.without == 1800 && o.with == 1300 && is_near(o.speedup, 1.38, 0.01) && is_near(o.saved, 0.278, 0.001));
    o = tess_overlap_layers(4, 50, 100); /* communication longer than computation shows in each layer */
    EXPECT(o.without == 600 && o.with == 600);
    double bytes;
    EXPECT(tess_bucket_flushes(100, 10 << 20, &bytes) == 2 && is_near(bytes / (1 << 20), 19.73, 0.01));
    EXPECT(tess_bucket_flushes(100, 25 << 20, &bytes) == 1 && tess_bucket_flushes(100, 100 << 20, &bytes) == 1);
    EXPECT(tess_bucket_flushes(1, 1, &bytes) == 1); /* a tensor larger than a bucket goes alone */
}

static void all_reduces(void)
{
    EXPECT(is_near(tess_all_reduce_time(TESS_RULE_RING, 1e9, 4, 1e9, 0.01), 1.5 + 0.06, 1e-9));
    EXPECT(is_near(tess_all_reduce_time(TESS_RULE_TREE, 1e9, 4, 1e9, 0.01), 2 + 0.04, 1e-9));
    EXPECT(is_near(tess_all_reduce_time(TESS_RULE_NAIVE, 1e9, 4, 1e9, 0.01), 4 + 0.03, 1e-9));
    for (int i = 0; i < 3; i++)
        EXPECT(tess_all_reduce_time((tess_rule_algorithm)i, 1e9, 1, 1e9, 0.01) == 0); /* one rank asks nobody */
}

static const test_case cases[] = {
    CASE(state_of_seven_billion_parameters_on_eight_ranks),
    CASE(one_gpu),
    CASE(what_sharding_and_accumulation_save),
    CASE(the_estimate_of_fsdp2),
    CASE(axes),
    CASE(strategies),
    CASE(volumes),
    CASE(context),
    CASE(overlap_and_buckets),
    CASE(all_reduces),
};
TEST_MAIN(cases)
