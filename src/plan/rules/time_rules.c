#include "plan/rules/time_rules.h"

#include <math.h>

double tess_all_reduce_time(tess_rule_algorithm algorithm, double bytes, double ranks, double bandwidth, double latency)
{
    if (algorithm == TESS_RULE_RING)
        return 2 * (ranks - 1) / ranks * bytes / bandwidth + 2 * (ranks - 1) * latency;
    if (algorithm == TESS_RULE_TREE)
        return ranks > 1 ? 2 * bytes / bandwidth + 2 * log2(ranks) * latency : 0;
    return ranks > 1 ? ranks * bytes / bandwidth + (ranks - 1) * latency : 0;
}

const tess_move_rule tess_move_rules[] = {
    {"Shard", "Replicate", "all-gather", 1},       {"Partial", "Shard", "reduce-scatter", 1},
    {"Partial", "Replicate", "all-reduce", 2},     {"Shard(0)", "Shard(1)", "all-to-all", 1},
    {"Replicate", "Shard", "nothing: a slice", 0},
};
const int tess_move_rules_n = sizeof(tess_move_rules) / sizeof(tess_move_rules[0]);

double tess_move_bytes(const tess_move_rule *rule, double bytes, double ranks)
{
    return rule->factor * bytes * (ranks - 1) / ranks;
}

tess_shard_volume tess_step_volume(double model, double ranks)
{
    const double half = model * (ranks - 1) / ranks;
    return (tess_shard_volume){half, half, 2 * half};
}

double tess_volume_time(double volume, double bandwidth, double latency, double operations)
{
    return volume / bandwidth + latency * operations;
}

static const double number_bytes = 2;

tess_layer_volume tess_layers_volume(const tess_layer_case *of)
{
    static const double matrices = 12, passed = 2; /* matrices of a layer; tensors that are passed on: K and V */
    const double weights = of->layers * matrices * of->hidden * of->hidden * number_bytes;
    const double ring =
        of->layers * of->batch * of->sequence * of->hidden * passed * number_bytes / of->cp * (of->cp - 1);
    tess_layer_volume v = {.forward = weights * (of->dp - 1) / of->dp + ring, .backward = weights + ring};
    v.sum = v.forward + v.backward;
    return v;
}

tess_context_step tess_context_volume(const tess_layer_case *of, double cp)
{
    static const double kept = 4, passed = 2, passes = 2; /* Q, K, V and output; K and V; forward and backward */
    tess_context_step r = {.local = floor(of->sequence / cp)};
    const double tensor = of->batch * r.local * of->hidden * number_bytes;
    r.ring = tensor * passed * (cp - 1) * of->layers;
    r.gather = tensor * (cp - 1) * of->layers;
    r.sum = passes * (r.ring + r.gather);
    r.activations = floor(of->batch * of->sequence * of->hidden * kept * number_bytes * of->layers / cp);
    return r;
}

tess_overlap tess_overlap_layers(double layers, double compute, double exchange)
{
    tess_overlap o = {.without = layers * (compute + exchange), .with = layers * compute + 2 * exchange};
    if (exchange > compute)
        o.with += (exchange - compute) * layers;
    o.speedup = o.without / o.with;
    o.saved = 1 - 1 / o.speedup;
    return o;
}

int tess_bucket_flushes(int n, double bucket_bytes, double *bytes)
{
    static const double first = 4 * 1024;
    int flushes = 0;
    double filled = 0;
    *bytes = 0;
    for (int i = 1; i <= n; i++) {
        const double tensor = first * i;
        if (filled > 0 && filled + tensor > bucket_bytes) {
            flushes++;
            filled = 0;
        }
        filled += tensor;
        *bytes += tensor;
    }
    return flushes + (filled > 0);
}

const tess_scaling_rule tess_scaling_rules[] = {
    {"data parallel", 0.95}, {"DDP", 0.92}, {"FSDP, ZeRO-3", 0.88}, {"pipeline", 0.70}};
const int tess_scaling_rules_n = sizeof(tess_scaling_rules) / sizeof(tess_scaling_rules[0]);
