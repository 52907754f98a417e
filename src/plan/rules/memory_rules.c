#include "plan/rules/memory_rules.h"

#include <math.h>
#include <stddef.h>

const tess_state_rule tess_state_rules[] = {
    {"mixed", 2, 2, 12, 0, "bf16 weights and gradients; float32 weights and two moments of Adam",
     "the rule to use: the others leave something out"},
    {"zero", 2, 2, 8, 0, "16-bit weights and gradients; two moments, without the float32 weights",
     "its text prints 70.0, 19.8 and 8.8 GB for 7 billion parameters on 8 ranks; its formula gives 84.0, 22.75, 10.5"},
    {"compare", 2, 2, 2, 2, "everything in 16 bits, once more the gathered weights",
     "its text prints 19.3 GB for 19.25"},
    {"offload", 2, 2, 4, 0, "everything in 16 bits, with two moments", NULL},
    {"hybrid", 2, 0, 4, 0, "16-bit weights and two moments; no gradients",
     "calls 65 billion parameters on 16 GPUs with 20 GB of activations safe at 44 GB; they take 85"},
};
const int tess_state_rules_n = sizeof(tess_state_rules) / sizeof(tess_state_rules[0]);

double tess_state_bytes(const tess_state_rule *rule, int stage, double ranks)
{
    return rule->weights / (stage >= 3 ? ranks : 1) + rule->grads / (stage >= 2 ? ranks : 1) +
           rule->optimizer / (stage >= 1 ? ranks : 1) + (stage >= 3 ? rule->gathered : 0);
}

tess_single_memory tess_single_gpu_memory(double params, double size, double batch, double sequence)
{
    static const double layers = 32, hidden = 4096, tensors = 10, adam = 12;
    tess_single_memory m = {.weights = params * size,
                            .grads = params * size,
                            .optimizer = params * adam,
                            .activations = tensors * tess_activation_bytes(batch, sequence, hidden, layers, size)};
    m.sum = m.weights + m.grads + m.optimizer + m.activations;
    return m;
}

tess_fsdp2_memory tess_fsdp2_estimate(double params, double ranks, double batch, double sequence, int recompute,
                                      int offload)
{
    static const double layers = 12, state = 12, size = 2, recomputed = 0.2, offloaded = 0.2, buffers = 0.1;
    const double sharded = params * state / ranks, hidden = floor(sqrt(params / layers / 12));
    tess_fsdp2_memory m = {.state = offload ? sharded * offloaded : sharded,
                           .activations = tess_activation_bytes(batch, sequence, hidden, layers, size),
                           .buffers = sharded * buffers};
    if (recompute)
        m.activations *= recomputed;
    m.sum = m.state + m.activations + m.buffers;
    return m;
}

double tess_shard_saving(double ranks, double kept)
{
    return (1 - kept) * (1 - 1 / ranks);
}

double tess_activation_bytes(double batch, double sequence, double hidden, double layers, double size)
{
    return batch * sequence * hidden * layers * size;
}
