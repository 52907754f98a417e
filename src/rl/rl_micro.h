/* Micro-batches and their loss, private to src/rl: rl_micro.c builds them, rl_loss.c computes the loss. */
#ifndef TESS_RL_RL_MICRO_H
#define TESS_RL_RL_MICRO_H

#include "rl/rl_impl.h"

/* One micro-batch of this rank. Arrays are (n_rows), in the order of its rows. */
typedef struct rl_micro_batch {
    rl *r;
    int32_t *ids, *pos, *targets, *cu; /* cu (n_seqs + 1) */
    int64_t *place;                    /* index of each row among the rollout's rows */
    uint8_t *mask;
    float *advantage, *old, *drawn, *reference, *scale; /* scale (n_seqs) */
    float *value, *returns;                             /* PPO's values and returns */
    uint8_t *valued; /* 1: PPO's values learn the row, because its sample has a reward */
    tess_batch batch;
    tess_policy_rows rows;
    tess_token_loss loss;
    /* Sums of the newest pass over the micro-batch. */
    tess_policy_sums sums;
    tess_dpo_sums pair_sums;
    tess_token_loss value_loss;
    tess_value_sums value_sums;
    int64_t first_begin; /* the row at which the loss begins a pass; -1: it was not called yet */
    int64_t n_checked, n_differ,
        first_differs; /* rows drawn by the present weights; first: the first row that differs, or INT64_MAX */
} rl_micro_batch;

struct rl_micro_batches {
    int64_t n;             /* over all ranks */
    int64_t first, n_seqs; /* sequences of the rollout */
    int32_t *bin;          /* (n_seqs) */
    float *scale;          /* (n_seqs) */
    double divisor;
    int64_t n_valued;    /* number of rows whose value is learned */
    rl_micro_batch *own; /* (n_own) every n_data-th micro-batch, built when it is first used */
    int64_t n_own;
};

/* Returns the micro-batch with this index, which must belong to this rank. */
tess_status rl_micro_take(rl *r, int64_t index, rl_micro_batch **batch);

/* rl_loss.c: the loss of a micro-batch whose arrays are filled, and the judge of tess_batch_source, which computes a
 * step's metrics after all micro-batches. */
tess_token_loss rl_loss_of(rl_micro_batch *b);
/* A token loss's grade_values for a micro-batch, and the sum of r->value_sums after all micro-batches. The sum is
 * collective. */
tess_status rl_grade_values(void *self, int64_t n, const float *value, float *dvalue);
tess_status rl_values_sum(rl *r);
tess_status rl_judge(void *self, tess_engine_report *report);

#endif
