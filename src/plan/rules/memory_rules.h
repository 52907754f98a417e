/* Rules of thumb for the memory of training, as widely read texts state them. They disagree, because each counts other
 * things. A rule of thumb serves who has no configuration yet; a dry rank (plan/dry_rank.h) counts every byte of a run.
 * GB are 1e9 bytes and GiB are 2^30. A function has no state. */
#ifndef TESS_PLAN_RULES_MEMORY_RULES_H
#define TESS_PLAN_RULES_MEMORY_RULES_H

enum { TESS_ZERO_STAGES = 4 };

/* A convention: the bytes of a parameter that a rank keeps. */
typedef struct tess_state_rule {
    const char *name;
    double weights, grads, optimizer; /* bytes per parameter */
    double gathered;                  /* bytes per parameter that a rank gathers besides with stage 3 */
    const char *counts;               /* the things that it counts */
    const char *note;                 /* a contradiction in its text; NULL: there is none */
} tess_state_rule;

extern const tess_state_rule tess_state_rules[];
extern const int tess_state_rules_n;

/* Returns bytes of a rank for each parameter of the model. Stage 0 keeps everything on each of `ranks` ranks; 1 shards
 * the optimizer, 2 also gradients, 3 also weights (ZeRO, arXiv 1910.02054). */
double tess_state_bytes(const tess_state_rule *rule, int stage, double ranks);

/* Parts of the memory of one GPU, in bytes. */
typedef struct tess_single_memory {
    double weights, grads, optimizer, activations, sum;
} tess_single_memory;

/* Estimates training on one GPU: 12 bytes a parameter for Adam, and 10 tensors of activations for each of 32 layers of
 * width 4096, whatever the model is. `size`: bytes of a number, 2 or 4. */
tess_single_memory tess_single_gpu_memory(double params, double size, double batch, double sequence);

/* Parts of the memory of a rank that shards with FSDP2, in bytes. */
typedef struct tess_fsdp2_memory {
    double state, activations, buffers, sum;
} tess_fsdp2_memory;

/* Estimates a rank of FSDP2: 12 bytes a parameter over the ranks, one tensor of activations for each of 12 layers whose
 * width follows from the parameters, and buffers of a tenth of the state. With recomputation a fifth of the activations
 * stays, and with offload a fifth of the state. The text's code divides gigabytes by 1024 and so gets a
 * thousandth of the state; this function does not. */
tess_fsdp2_memory tess_fsdp2_estimate(double params, double ranks, double batch, double sequence, int recompute,
                                      int offload);

/* Returns the share of memory that sharding over ranks saves, if the share `kept` of it (activations) is not sharded.
 */
double tess_shard_saving(double ranks, double kept);

/* Returns bytes of activations of a model: one tensor (batch, sequence, hidden) a layer, `size` bytes a number. */
double tess_activation_bytes(double batch, double sequence, double hidden, double layers, double size);

#endif
