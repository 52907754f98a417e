#include "plan/rules/layout_rules.h"

#include <math.h>
#include <stdio.h>

static const double weight_bytes = 2; /* bytes of a parameter in 16 bits; billions of parameters give GB */

static void say(char text[TESS_RULE_TEXT], const char *words)
{
    snprintf(text, TESS_RULE_TEXT, "%s", words);
}

/* ---- Strategies ---- */
static void by_taxonomy(const tess_rule_case *of, char answer[TESS_RULE_TEXT], char why[TESS_RULE_TEXT])
{
    static const double holds_gb = 40, widest = 8192, deepest = 50;
    snprintf(why, TESS_RULE_TEXT, "%g GB of weights %s into %g GB%s%s", weight_bytes * of->params_b,
             weight_bytes * of->params_b < holds_gb ? "fit" : "do not fit", holds_gb,
             of->hidden > widest ? "; wider than 8192: tensor parallel" : "",
             of->layers > deepest ? "; deeper than 50 layers: pipeline" : "");
    say(answer, of->params_b <= 7 ? "DDP + FSDP" : of->params_b <= 70 ? "TP=4 + PP=4 + DP" : "3-D: TP + PP + DP");
}

static void by_scenario(const tess_rule_case *of, char answer[TESS_RULE_TEXT], char why[TESS_RULE_TEXT])
{
    say(answer, of->params_b <= 7 ? "DDP" : of->params_b <= 13 ? "ZeRO-2" : "ZeRO-3 + TP");
    say(why, "A100s: 7 B on 8 GPUs, 13 B on 8, 70 B on 64; the nearest case at least as large");
}

static void by_summary(const tess_rule_case *of, char answer[TESS_RULE_TEXT], char why[TESS_RULE_TEXT])
{
    say(answer, of->params_b < 13 ? "DDP" : of->params_b < 70 ? "FSDP (ZeRO-3)" : "3-D: TP + PP + DP");
    say(why, "by parameters alone: below 13 B, below 70 B, and above");
}

static void by_tree(const tess_rule_case *of, char answer[TESS_RULE_TEXT], char why[TESS_RULE_TEXT])
{
    static const double small_b = 1, times = 3, longest = 32768;
    const double size = weight_bytes * of->params_b;
    if (of->params_b < small_b) {
        say(answer, "DDP");
        say(why, "below 1 B parameters");
    } else if (of->memory_gb > times * size) {
        say(answer, "DDP");
        snprintf(why, TESS_RULE_TEXT, "%g GB of memory are more than three times the model's %g", of->memory_gb, size);
    } else if (of->sequence > longest) {
        say(answer, "FSDP2 with context parallel");
        say(why, "texts are longer than 32k tokens");
    } else if (of->needs_pipeline) {
        say(answer, "Megatron");
        say(why, "a pipeline is needed");
    } else {
        say(answer, "FSDP2");
        say(why, "large, short texts, no pipeline");
    }
}

static void by_memory(const tess_rule_case *of, char answer[TESS_RULE_TEXT], char why[TESS_RULE_TEXT])
{
    static const double states = 4, usable = 0.6; /* the rest is for activations */
    const double all = states * weight_bytes * of->params_b, limit = usable * of->memory_gb;
    const bool fits = all < limit, shards_fit = all / of->ranks < limit;
    say(answer, fits ? "DDP" : shards_fit ? "FSDP2" : "FSDP2 with offload, or more ranks");
    snprintf(why, TESS_RULE_TEXT, "%g GB of state, %g a rank if sharded; 60%% of the memory are %g GB", all,
             all / of->ranks, limit);
}

static void by_share(const tess_rule_case *of, char answer[TESS_RULE_TEXT], char why[TESS_RULE_TEXT])
{
    static const double share = 0.7;
    const double size = weight_bytes * of->params_b;
    say(answer, size > share * of->memory_gb ? "FSDP2" : "DDP");
    snprintf(why, TESS_RULE_TEXT, "%g GB of weights; 70%% of the memory are %g GB", size, share * of->memory_gb);
}

const tess_strategy_rule tess_strategy_rules[] = {
    {"taxonomy", by_taxonomy, "its last line looks at parameters only, whatever the lines before found"},
    {"scenarios", by_scenario, "7 B with DDP does not fit a GPU: 112 GB by the rule `mixed`"},
    {"summary", by_summary, "7 B with DDP does not fit a GPU: 112 GB by the rule `mixed`"},
    {"tree", by_tree, "three times the weights are less than Adam needs; its table says DDP below 10 B, its tree 1 B"},
    {"memory", by_memory, "counts Adam in 16 bits"},
    {"share", by_share, "counts weights only"},
};
const int tess_strategy_rules_n = sizeof(tess_strategy_rules) / sizeof(tess_strategy_rules[0]);

/* ---- Axes ---- */
tess_axes_choice tess_choose_axes(const tess_rule_case *of, bool counts_tp)
{
    static const double activations_gb = 10, micro = 2, half = 0.5, state_bytes = 4, optimizer_bytes = 12;
    tess_axes_choice c = {.tp = of->params_b >= 70 ? 8 : of->params_b >= 13 ? 4 : 1, .pp = 1};
    const double weights = weight_bytes * of->params_b / (counts_tp ? c.tp : 1);
    while (weights / c.pp > half * of->memory_gb && c.pp < of->ranks)
        c.pp *= 2;
    c.dp = floor(of->ranks / (c.tp * c.pp));
    c.weights_gb = weight_bytes * of->params_b / (c.tp * c.pp) + activations_gb;
    if (c.dp >= 1)
        c.state_gb = of->params_b * (state_bytes + optimizer_bytes / c.dp) / (c.tp * c.pp);
    c.global_batch = micro * c.dp * c.pp;
    c.zero_stage = c.tp > 1 && c.pp > 1 ? 1 : 0;
    return c;
}

/* ---- Precision ---- */
const tess_precision_rule tess_precision_rules[] = {
    {"P100", "float32", "its 16-bit units do not accumulate in float32"},
    {"V100", "float16", "with loss scaling"},
    {"T4", "float16", "with loss scaling"},
    {"RTX 3090", "bfloat16", "one text says float16; the GPU has bfloat16"},
    {"RTX 4090", "bfloat16", NULL},
    {"A100", "bfloat16", NULL},
    {"H100", "bfloat16", "also FP8"},
    {"H200", "bfloat16", "also FP8"},
    {"B200", "bfloat16", "also FP8 and FP4"},
    {"MI250X", "bfloat16", NULL},
    {"MI300X", "bfloat16", "also FP8"},
};
const int tess_precision_rules_n = sizeof(tess_precision_rules) / sizeof(tess_precision_rules[0]);

/* ---- Context ---- */
int tess_context_ranks(double bytes, double limit)
{
    static const int most = 1024;
    for (int ranks = 1; ranks <= most; ranks *= 2)
        if (bytes / ranks <= limit)
            return ranks;
    return 0;
}
