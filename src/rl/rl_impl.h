/* The parts of reinforcement learning, private to src/rl.
 *
 *   rl_task.c      the task that the trainer drives: rollouts, then the optimizer steps that learn from them
 *   rl_rollout.c   which samples a rollout has: prompts in order, filter, budget, what the journal knows
 *   rl_keep.c      what is kept on disk next to the journal, and what a full disk costs
 *   rl_draw.c      this rank's share of them drawn and graded
 *   rl_order.c     rollouts ordered from ranks that only draw (rollout.ranks), and what they get for it: weights
 *   rl_serve.c     such a rank
 *   rl_copy.c      its weights
 *   rl_text.c      text of ids
 *   rl_turns.c     an environment between the turns of a sample
 *   rl_exchange.c  what every rank has drawn becomes everybody's
 *   rl_rows.c      a rollout as rows to train on: log-probabilities of others, advantages
 *   rl_scores.c    what models said of them, kept for the rollout's later steps
 *   rl_micro.c     micro-batches of a step
 *   rl_loss.c      what a step minimises
 *   rl_values.c    values of PPO: of a critic, or of a head on the policy
 *   rl_options.c   from the configuration to what these parts want
 *   rl_report.c    what people and metrics.jsonl see of it
 *   rl_evaluate.c  held-out prompts */
/* clang-format off */
/* One step, on every rank:
 *
 *  rl_rollout   prompts in order -> samples 0, 1, ...      number = ordinal * n + k;
 *       |                                                  a draw = Philox(seed, number, position)
 *       |       samples in the journal are read; the rest is shared out by prompt
 *  rl_draw      all units gathered and held -> the generator (infer): passes of decode rows and prompt chunks
 *       |       grades; each finished sample into the rank's journal
 *  rl_exchange  every rank has every sample                   from here on all ranks compute the same
 *  rl_rows      a row a predicted token: as drawn, reference, values; rewards -> advantages
 *  rl_micro     whole sequences, first fit, dearest first     a function of their lengths alone
 *       |
 *  engine       forward, rl_loss at the head, backward, the canonical sum; judge: is every token as it was drawn?
 *
 * With rollout.ranks=K the last K ranks are a team of their own without an engine (tess_task_kind.serve). They do the
 * upper half on orders of the others, as a job of K ranks would:
 *
 *  rl_order    trainers   step k-1 | weights k ->        | take k | order k+1 | step k ...   lag 1: all that is
 *                                  |     |   (buckets)   |   ^    |     |                    ordered is in the journal
 *  rl_serve    the others  draws k with k-1 | 2nd copy   | samples |    draws k+1 with k . before a checkpoint is made
 *
 * A rollout is a function of the state that it begins with (the next prompt, and a digest of all samples before), the
 * weights and the data. Filters, budgets and lags work in the order of prompts, never of completion. */
/* clang-format on */
#ifndef TESS_RL_RL_IMPL_H
#define TESS_RL_RL_IMPL_H

#include "data/conversation/prompts.h"
#include "rl/algo/rl_dpo.h"
#include "rl/algo/rl_policy_loss.h"
#include "rl/algo/rl_tuner.h"
#include "rl/algo/rl_value.h"
#include "rl/critic/critic.h"
#include "rl/env/rl_environment.h"
#include "rl/reference/reference.h"
#include "rl/reward/reward.h"
#include "rl/rl_journal.h"
#include "engine/held_weights.h"
#include "plan/memory_need.h"
#include "train/text/run_text.h"
#include "train/trainer.h"

/* The samples of one prompt. */
typedef struct rl_group {
    int64_t ordinal;    /* number of the prompt, counted over all epochs */
    rl_sample *samples; /* (rollout.n) */
} rl_group;

typedef struct rl_groups {
    rl_group *group;
    size_t n, room;
} rl_groups;

enum {
    RL_METRIC_REWARD = 0, /* place of the mean reward among the metrics of a step */
    RL_PART_METRICS = 16  /* most names of parts of rewards that have a metric */
};

/* The state at which a rollout begins: all that it depends on besides the weights. */
typedef struct rl_state {
    int64_t rollout; /* its number */
    int64_t cursor;  /* ordinal of the first prompt that no rollout before has begun */
    int64_t carried; /* prompts before it that are still under way */
    uint64_t chain;  /* hash of all samples before */
    double kl_beta;
} rl_state;

/* The facts of a rollout, for metrics. */
typedef struct rl_rollout_facts {
    int64_t rounds, dropped[2]; /* dropped: prompts that the filter left out, all rewards alike: low, high */
    int64_t known_samples;
    double draw_s, grade_s, prepare_s;
} rl_rollout_facts;

/* Turns of an environment that failed on this rank, in a rollout or an evaluation. */
typedef struct rl_turn_failures {
    int64_t n_samples; /* samples of all ranks, of which reward.max_failures allows a share to fail */
    int64_t failed;
    char newest[512];
} rl_turn_failures;

/* Figures of the exchange with ranks that only draw, since the newest report. */
typedef struct rl_sync_facts {
    double send_s, wait_s; /* time that this trainer waited for weights to be sent, and for samples to come */
    int64_t sent_bytes;    /* bytes of all trainers */
} rl_sync_facts;

/* A rollout as rows to train on, the same on every rank: whole sequences, a row for each token but the last; row t
 * predicts the token after it. */
typedef struct rl_rows {
    const rl_sample **samples; /* (n_seqs) */
    int64_t n_seqs, n_rows;
    int64_t *begin;     /* (n_seqs + 1) */
    int64_t *n_targets; /* (n_seqs) rows that the policy drew */
    int64_t *group;     /* (n_groups + 1) first sequence of each */
    int64_t n_groups;
    uint8_t *mask;          /* (n_rows) 1: the policy drew the predicted token */
    int32_t *version;       /* (n_rows) */
    float *drawn;           /* (n_rows) log-probabilities as they were drawn */
    float *old;             /* before the first update; drawn, unless they were computed again */
    float *reference;       /* NULL: there is none */
    float *value, *returns; /* PPO alone, else NULL */
    float *advantage;
} rl_rows;

typedef struct rl_micro_batches rl_micro_batches; /* rl_micro.c */
typedef struct rl_orders rl_orders;               /* rl_order.c */
typedef struct rl_copy rl_copy;                   /* rl_copy.h */
typedef struct rl rl;

struct rl {
    tess_trainer *trainer;
    tess_run_text text; /* tokenizer, chat template, files */
    const tess_config *config;
    tess_mem *mem;
    tess_team *team;     /* those who train, or those who only draw */
    tess_engine *engine; /* once it is ready; NULL: this rank only draws */
    rl_orders *orders;   /* NULL: those who train draw too */
    rl_copy *copy;       /* the weights of a rank that only draws; NULL: this one trains */
    rl_sync_facts sync;
    tess_prompts *prompts, *held_out; /* held_out NULL: none */
    tess_rewarder *rewarder;
    tess_rl_environment *environment; /* NULL: answers have one turn */
    tess_reference *reference;        /* NULL: none */
    tess_critic *critic;              /* NULL: none, or the policy has the value head */
    tess_value_sums value_sums;       /* sums of its newest step, over all ranks */
    tess_policy_options policy;
    char folder[1024]; /* folder of journals */
    uint64_t identity; /* identity of all rollouts of this run */

    /* The newest rollout: its state, the state of the next one, the samples that it has chosen, and the prompts that go
     * on in the next one. */
    rl_state state, after;
    rl_groups chosen, under_way;
    rl_rollout_facts facts;
    rl_turn_failures turns;
    /* The states of the rollout that is trained on and of the next one. If rollout.lag is set, the newest is the next.
     */
    rl_state training, next;
    rl_groups trained;
    rl_rows rows;            /* n_seqs 0: not made yet */
    rl_micro_batches *micro; /* micro-batches of the step at hand */
    bool in_step;
    bool restored; /* the state was given: what is under way has to be read */
    /* Figures of the newest step. */
    double loss, kl; /* kl: divergence from the reference, the mean over tokens */
    tess_metric metrics[96];
    char part_names[RL_PART_METRICS][RL_PART_NAME + 16]; /* names of metrics[] for parts of rewards */
    int n_metrics, n_rollout_metrics;                    /* those of the rollout come first */
    char words[512];
    /* The steps of the run that this process has seen, for advice. */
    tess_tuner_step *history;
    size_t n_history, history_room;
    unsigned advised; /* bit k: advice of kind k held after the newest step */
};

static inline bool rl_has_pairs(const tess_config *c)
{
    return c->rl.algorithm >= TESS_RL_DPO;
}

static inline bool rl_has_values(const tess_config *c)
{
    return c->rl.algorithm == TESS_RL_PPO;
}

/* Values come from a head on the policy's last layer. */
static inline bool rl_shares_trunk(const tess_config *c)
{
    return rl_has_values(c) && c->critic.trunk == 1;
}

/* The inverse temperature of the policy, in drawing and in training. */
static inline float rl_inv_temperature(const tess_config *c)
{
    return rl_has_pairs(c) ? 1 : (float)(1 / c->rollout.temperature);
}

/* Whether the weights that learn a rollout compute its log-probabilities again before its first step. A correction
 * weighs each token by how far these are from the drawn ones. */
static inline bool rl_scores_samples(const tess_config *c)
{
    return !rl_has_pairs(c) && (c->rl.correction != TESS_CORRECT_NONE || c->rl.on_mismatch == TESS_MISMATCH_CORRECT);
}

/* Optimizer steps of one rollout. */
static inline int64_t rl_steps_per_rollout(const tess_config *c)
{
    return c->rl.updates * c->rl.epochs;
}

/* ---- rl_options.c ---- */
tess_status rl_check(tess_config *config); /* may set what is open */
tess_policy_options rl_policy_of(const tess_config *config, double kl_beta);
tess_dpo_options rl_dpo_of(const tess_config *config);
tess_reward_options rl_reward_of(const tess_config *config);
bool rl_wants_reference(const tess_config *config);

/* ---- rl_rollout.c ---- */
/* Draws rollout `state->rollout` (what the journal has of it is not drawn again): r->chosen, r->facts and r->after.
 * may_draw false: the weights have moved on since, so the journal must have all. Collective. */
tess_status rl_collect(rl *r, bool may_draw);
/* The same with pairs of the data in place of samples. */
tess_status rl_collect_pairs(rl *r);
void rl_groups_free(tess_mem *mem, rl_groups *groups, int64_t n);
/* Samples as bytes, group after group, and back: appends to `groups`, which ends with `most` of them. */
tess_status rl_groups_write(const rl *r, const rl_groups *groups, tess_buffer *bytes);
tess_status rl_groups_read(rl *r, const tess_buffer *bytes, size_t most, rl_groups *groups);

/* ---- rl_keep.c ---- */
/* Writes the tokenizer next to the journal, so that its samples can be read as text. Collective. */
tess_status rl_keep_tokenizer(const rl *r);
/* A full disk costs what was to be kept, never the run: TESS_E_NO_SPACE and TESS_E_IO become the warning "WHAT: why".
 */
tess_status rl_keep_or_warn(const rl *r, tess_status status, const char *what);
/* Appends to the journal of the newest rollout, and closes it where that fails so. *journal NULL: nothing is done. */
tess_status rl_write_down(const rl *r, rl_journal **journal, int64_t round, const rl_sample *sample);

/* ---- rl_draw.c ---- */
typedef struct rl_draw_options {
    double temperature;
    int64_t max_new_tokens;      /* most new tokens of a sample in all */
    int64_t budget_tokens;       /* most new tokens of a sample now; 0: all */
    uint64_t numbers;            /* added to samples' numbers, so that evaluation draws others */
    const tess_prompts *prompts; /* the prompts that samples' records refer to */
    int64_t prefix_n;            /* samples of a prompt */
    rl_journal **journal;        /* NULL: none */
    int64_t round;
} rl_draw_options;

/* Draws on with `n` unfinished samples, which are this rank's, and grades those that it finishes. The weights are held
 * meanwhile. Collective, also with n = 0. */
tess_status rl_draw(rl *r, const rl_draw_options *options, rl_sample *const *samples, int64_t n);

/* ---- rl_order.c ---- */
/* NULL stays where all ranks draw. Collective. */
tess_status rl_orders_create(rl *r);
void rl_orders_free(rl *r);
/* The present weights go to those who draw, unless they have them. They draw on meanwhile. Collective. */
tess_status rl_send_weights(rl *r);
/* They are to draw rollout `of`, as in rl_collect. The one ordered before was taken. Collective. */
tess_status rl_order(rl *r, const rl_state *of, bool may_draw);
/* Waits for the rollout that was ordered, if any: the newest one, as rl_collect would leave it. Collective. */
tess_status rl_take_order(rl *r);
/* No more orders follow. Collective. */
tess_status rl_dismiss(rl *r, bool interrupted);

/* ---- rl_copy.c ---- */
/* A rank that only draws: takes hold of its weights; their digest, that of tess_weights_digest. */
tess_status rl_copy_hold(const rl *r, tess_held_weights *held);
uint64_t rl_copy_digest(const rl *r);
/* Newer weights that have come are taken in, while it draws. A rank that trains: nothing. */
tess_status rl_copy_look(rl *r);
void rl_copy_free(rl *r);
/* Any rank: the optimizer steps that made the weights that it draws with, and the stream that it computes on. */
int64_t rl_step(const rl *r);
tess_stream *rl_stream(const rl *r);

/* ---- rl_serve.c ---- */
/* The call of tess_task_kind. */
tess_status rl_serve(void *self, bool *interrupted);

/* ---- rl_memory.c ---- */
/* The call of tess_task_kind. */
tess_status rl_predict_memory(tess_mem *mem, const tess_model *policy, const tess_memory_plan *plan, int rank,
                              tess_memory_of_rank *of_rank);

/* ---- rl_text.c ---- */
/* Appends the text of n ids, without special ones, as tess_decode. */
tess_status rl_text(const rl *r, const int32_t *ids, int64_t n, tess_buffer *text);

/* ---- rl_turns.c ---- */
/* Asks the environment about a sample that has finished its turn `turn`, whose tokens begin at `first`. The answer
 * becomes part of the sample, drawn by nobody. *goes_on: the model has another turn. A turn that fails ends the sample.
 */
tess_status rl_turn(rl *r, const tess_prompts *prompts, rl_sample *sample, int64_t turn, int64_t first, bool *goes_on);
/* Begins to count failed turns anew; all ranks together draw n_samples. */
void rl_begin_turns(rl *r, int64_t n_samples);
/* TESS_E_INVALID: more turns have failed since then, over all ranks, than reward.max_failures allows. Collective. */
tess_status rl_judge_turns(rl *r);

/* ---- rl_grade.c ---- */
/* A prompt without a response, as graders see it. */
tess_reward_item rl_item_of(const tess_prompt_record *record);
/* Grades this rank's samples, whose records are of `prompts`, and warns of failures. TESS_E_INVALID: more of them have
 * failed, over all ranks, than reward.max_failures allows. Collective. */
tess_status rl_grade(rl *r, const tess_prompts *prompts, rl_sample *const *samples, int64_t n);

/* ---- rl_exchange.c ---- */
/* samples (n) is the same list on every rank, owner (n) too: owner[i]'s sample i becomes everybody's. Collective. */
tess_status rl_exchange(rl *r, rl_sample *const *samples, const int32_t *owner, int64_t n);
/* Arrays (n) of which each rank has filled its own elements, others 0. Collective. */
tess_status rl_share_floats(rl *r, float *values, int64_t n);

/* Those that rank 0 has become everybody's. Collective. */
tess_status rl_share_bytes(rl *r, tess_buffer *bytes);

/* ---- rl_rows.c ---- */
/* Makes the rows of the samples of r->trained, with the advantages of their rewards. first_step: no step has learned
 * from them yet, so the weights are those that they begin with. Collective. */
tess_status rl_rows_make(rl *r, bool first_step);
void rl_rows_free(rl *r);

/* ---- rl_micro.c ---- */
/* The micro-batches of a step on sequences [first, first + n) of the rows: a function of their lengths alone. */
tess_status rl_micro_plan(rl *r, int64_t first, int64_t n, rl_micro_batches **micro);
void rl_micro_free(rl *r, rl_micro_batches **micro);
/* The source of batches. */
tess_batch_source rl_micro_source(rl *r);
/* Calls `visit` with each micro-batch of this rank, and with empty ones so that all ranks make as many calls. place:
 * (n_tokens) where its rows are among all. */
typedef tess_status (*rl_visit_fn)(rl *r, const tess_batch *batch, const int64_t *place, void *self);
tess_status rl_micro_visit(rl *r, rl_visit_fn visit, void *self);

/* ---- rl_scores.c ---- */
/* Whether a step needs what models said of the rollout's rows before its first one, and could not ask them again. */
bool rl_scores_are_kept(const tess_config *config);
/* Writes that to the rollout's journal, or reads it from there. Collective. */
tess_status rl_scores_keep(rl *r);
tess_status rl_scores_recall(rl *r);

/* ---- rl_values.c ---- */
/* r->rows.value. Collective. */
tess_status rl_values_make(rl *r);
/* The critic's step on the micro-batches of the policy's. Collective. */
tess_status rl_values_step(rl *r);

/* ---- rl_report.c ---- */
tess_status rl_report_rollout(rl *r);
/* checked, differ: tokens drawn by the present weights, and those of them with another log-probability now. */
void rl_report_step(rl *r, const tess_policy_sums *sums, double divisor, int64_t checked, int64_t differ);
void rl_report_pairs(rl *r, const tess_dpo_sums *sums);
/* How far the policy is from the reference, every metrics.log_freq steps. Collective. */
tess_status rl_report_drift(rl *r);
/* After a step: a note for each thing that its numbers have begun to say about the settings. */
tess_status rl_advise(rl *r);
void rl_add_metric(rl *r, const char *name, double value);

/* ---- rl_evaluate.c ---- */
tess_status rl_evaluate(rl *r);

#endif
