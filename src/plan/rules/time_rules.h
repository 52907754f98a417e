/* Rules of thumb for the volume and the time of communication, as widely read texts state them. GB are 1e9 bytes and
 * GiB are 2^30. A function has no state. */
#ifndef TESS_PLAN_RULES_TIME_RULES_H
#define TESS_PLAN_RULES_TIME_RULES_H

#include <stddef.h>

/* Collectives, and how their volume and time depend on the ranks. */
typedef enum tess_rule_algorithm { TESS_RULE_RING, TESS_RULE_TREE, TESS_RULE_NAIVE } tess_rule_algorithm;

/* Returns seconds of an all-reduce of `bytes` bytes. `bandwidth`: bytes/s of a link, `latency`: seconds of a message.
 *   ring   2 (N-1)/N D/B + 2 (N-1) a
 *   tree   2 D/B + 2 log2(N) a
 *   naive  N D/B + (N-1) a: one rank receives all */
double tess_all_reduce_time(tess_rule_algorithm algorithm, double bytes, double ranks, double bandwidth,
                            double latency);

/* Returns bytes that a rank brings from others to turn one placement of a tensor of `bytes` bytes into another. */
typedef struct tess_move_rule {
    const char *from, *to, *operation;
    double factor; /* 1: (N-1)/N of the tensor; 2: twice that; 0: nothing */
} tess_move_rule;

extern const tess_move_rule tess_move_rules[];
extern const int tess_move_rules_n;
double tess_move_bytes(const tess_move_rule *rule, double bytes, double ranks);

/* A step of a sharded model. */
typedef struct tess_shard_volume {
    double gathered, scattered, sum; /* amounts in the unit of the model's size */
} tess_shard_volume;

/* Counts a gather of all weights and a scatter of all gradients, (N-1)/N of the model each. A run that frees the
 * weights after forward gathers them once more. */
tess_shard_volume tess_step_volume(double model, double ranks);

/* Returns seconds of `operations` messages with `volume` bytes together. */
double tess_volume_time(double volume, double bandwidth, double latency, double operations);

/* A step of a dense transformer that is sharded over dp ranks, and whose texts are divided over cp ranks: bytes of its
 * forward and its backward pass. A layer has 12 hidden x hidden weights in 16 bits. As the text has it, gradients count
 * whole and weights (dp-1)/dp. */
typedef struct tess_layer_case {
    double hidden, layers, batch, sequence, dp, cp;
} tess_layer_case;
typedef struct tess_layer_volume {
    double forward, backward, sum;
} tess_layer_volume;
tess_layer_volume tess_layers_volume(const tess_layer_case *of);

/* Context parallelism over `cp` ranks: bytes of a step and of activations of a rank. */
typedef struct tess_context_step {
    double local; /* tokens of a rank */
    double activations, ring, gather, sum;
} tess_context_step;
/* Counts Q, K, V and the output of each layer as activations; a ring that passes K and V on c - 1 times; a gather of
 * one tensor; and both again in backward. 16-bit numbers. */
tess_context_step tess_context_volume(const tess_layer_case *of, double cp);

/* Communication behind computation. */
typedef struct tess_overlap {
    double without, with, speedup, saved; /* times in the unit of the inputs; saved: share of `without` */
} tess_overlap;
/* Each layer computes for `compute` and communicates for `exchange`. With overlap the first and the last layer's
 * communication show, and so does what is longer than computation. */
tess_overlap tess_overlap_layers(double layers, double compute, double exchange);

/* Fills buckets with tensors of 4 * 1024 i bytes, i = 1 .. n, in order. Returns how many buckets fill up and are sent;
 * what is left at the end counts as one if nothing was sent before. *bytes: all tensors. */
int tess_bucket_flushes(int n, double bucket_bytes, double *bytes);

/* Efficiencies by which texts draw scaling: constants, not measured. */
typedef struct tess_scaling_rule {
    const char *strategy;
    double efficiency;
} tess_scaling_rule;
extern const tess_scaling_rule tess_scaling_rules[];
extern const int tess_scaling_rules_n;

#endif
