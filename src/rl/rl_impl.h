/* The parts of reinforcement learning, private to src/rl.
 *
 *   rl_task.c      the task that the trainer drives: rollouts, then the optimizer steps that learn from them
 *   rl_rollout.c   which samples a rollout has: prompts in order, filter, budget, samples in the journal
 *   rl_keep.c      files that are kept next to the journal, and the handling of a full disk
 *   rl_draw.c      draws and grades this rank's share of the samples
 *   rl_order.c     orders rollouts from ranks that only draw (rollout.ranks), and sends them weights
 *   rl_serve.c     such a rank
 *   rl_copy.c      its weights
 *   rl_text.c      text of ids
 *   rl_show.c      texts of some answers for people
 *   rl_turns.c     an environment between the turns of a sample
 *   rl_exchange.c  distributes samples and numbers to all ranks
 *   rl_rows.c      a rollout as rows to train on: log-probabilities of others, advantages
 *   rl_scores.c    models' values of these rows, kept for the rollout's later steps
 *   rl_micro.c     micro-batches of a step
 *   rl_loss.c      what a step minimises
 *   rl_values.c    values of PPO: of a critic, or of a head on the policy
 *   rl_options.c   turns the configuration into the options of these parts
 *   rl_report.c    report for people and metrics.jsonl
 *   rl_evaluate.c  held-out prompts */
/* clang-format off */
/* One step, on every rank:
 *
 *  rl_rollout   prompts in order -> samples 0, 1, ...      number = ordinal * n + k;
 *       |                                                  a draw = Philox(seed, number, position)
 *       |       samples in the journal are read; the rest is shared out by prompt
 *  rl_draw      all units gathered and held -> the generator (infer): passes of decode rows and prompt chunks;
 *       |       ranks that have parts of the model (tensor parallelism, pipelines) draw the same samples together
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

#include "base/mem/scoped.h"
#include "data/conversation/prompts.h"
#include "rl/algo/rl_dpo.h"
#include "rl/algo/rl_policy_loss.h"
#include "rl/algo/rl_value.h"
#include "rl/critic/critic.h"
#include "rl/env/rl_environment.h"
#include "rl/reference/reference.h"
#include "rl/reward/reward.h"
#include "rl/rl_advice.h"
#include "rl/rl_journal.h"
#include "engine/held_weights.h"
#include "plan/memory_need.h"
#include "train/text/run_text.h"
#include "tessera/comm.h"
#include "train/trainer.h"

/* The samples of one prompt. */
typedef struct rl_group {
    int64_t ordinal;    /* index of the prompt, counted over all epochs */
    rl_sample *samples; /* (rollout.n) */
} rl_group;

typedef struct rl_groups {
    rl_group *group;
    size_t n, room;
} rl_groups;

enum {
    RL_METRIC_REWARD = 0, /* index of the mean reward in the metrics of a step */
    RL_PART_METRICS = 16  /* largest number of reward parts that have a metric */
};

/* The state at the beginning of a rollout: everything that the rollout depends on, except for the weights. */
typedef struct rl_state {
    int64_t rollout; /* number of the rollout */
    int64_t cursor;  /* ordinal of the first prompt that no earlier rollout has begun */
    int64_t carried; /* number of earlier prompts that are not finished */
    uint64_t chain;  /* hash of all earlier samples */
    double kl_beta;
} rl_state;

/* The facts of a rollout, for metrics. */
typedef struct rl_rollout_facts {
    int64_t rounds, dropped[2]; /* dropped: prompts that the filter left out because all rewards are equal and low, or
                                   equal and high */
    int64_t known_samples;
    double draw_s, grade_s, prepare_s;
} rl_rollout_facts;

/* Counts the environment's turns that failed on this rank, in a rollout or an evaluation. */
typedef struct rl_turn_failures {
    int64_t n_samples; /* samples of all ranks; reward.max_failures is the share of them that may fail */
    int64_t failed;
    bool all_failed; /* the newest turn has failed on all ranks that draw its sample */
    char newest[512];
} rl_turn_failures;

/* Figures of the exchange with ranks that only draw, since the newest report. */
typedef struct rl_sync_facts {
    double send_s, wait_s; /* time that this trainer waited until weights were sent, and until samples arrived */
    int64_t sent_bytes;    /* bytes that all trainers sent */
} rl_sync_facts;

/* A rollout as rows to train on, the same on every rank: whole sequences with a row for each token except the last.
 * Row t predicts the token that follows it. */
typedef struct rl_rows {
    tess_scope own;
    const rl_sample **samples; /* (n_seqs) */
    int64_t n_seqs, n_rows;
    int64_t *begin;     /* (n_seqs + 1) */
    int64_t *n_targets; /* (n_seqs) number of rows whose target the policy drew */
    int64_t *group;     /* (n_groups + 1) first sequence of each group */
    int64_t n_groups;
    uint8_t *mask;    /* (n_rows) 1: the policy drew the predicted token */
    int32_t *version; /* (n_rows) */
    float *drawn;     /* (n_rows) log-probabilities at the time of drawing */
    float *old;       /* log-probabilities before the first update; equal to `drawn` unless they were computed again */
    float *reference; /* NULL: there is none */
    float *value, *returns; /* PPO only, otherwise NULL */
    float *advantage;
} rl_rows;

typedef struct rl_micro_batches rl_micro_batches; /* rl_micro.c */
typedef struct rl_orders rl_orders;               /* rl_order.c */
typedef struct rl_copy rl_copy;                   /* rl_copy.h */
typedef struct rl rl;

/* The newest rollout: its state, the state of the next one, its chosen samples, and the prompts that continue in the
 * next one. */
typedef struct rl_newest {
    rl_state state, after;
    rl_groups chosen, under_way;
    rl_rollout_facts facts;
    rl_turn_failures turns;
} rl_newest;

/* The metrics of a step and a line for people (rl_report.c). */
typedef struct rl_figures {
    double loss, kl; /* kl: divergence from the reference, the mean over tokens */
    tess_metric metrics[96];
    char part_names[RL_PART_METRICS][RL_PART_NAME + 16]; /* names of metrics[] for parts of rewards */
    int n, n_of_rollout;                                 /* metrics of the rollout come first */
    char words[512];
} rl_figures;

struct rl {
    tess_trainer *trainer;
    tess_run_text text; /* tokenizer, chat template, files */
    const tess_config *config;
    tess_mem *mem;
    tess_team *team;     /* the trainers, or the ranks that only draw */
    tess_engine *engine; /* set once the engine exists; NULL: this rank only draws */
    rl_orders *orders;   /* NULL: the trainers also draw */
    rl_copy *copy;       /* the weights of a rank that only draws; NULL: this rank trains */
    rl_sync_facts sync;
    tess_prompts *prompts, *held_out; /* held_out NULL: none */
    tess_rewarder *rewarder;
    tess_rl_environment *environment; /* NULL: answers have one turn */
    tess_reference *reference;        /* NULL: none */
    tess_critic *critic;              /* NULL: none, or the policy has the value head */
    tess_value_sums value_sums;       /* sums of the critic's newest step, over all ranks */
    tess_policy_options policy;
    char folder[1024]; /* folder of journals */
    uint64_t identity; /* identity of all rollouts of this run */

    rl_newest newest;
    /* The states of the rollout that is trained on, and of the next one. With rollout.lag, the newest rollout is the
     * next one. */
    rl_state training, next;
    rl_groups trained;
    rl_rows rows;            /* n_seqs 0: not built yet */
    rl_micro_batches *micro; /* micro-batches of the current step */
    bool in_step;
    bool restored;      /* the state was restored, so prompts under way must be read from the journal */
    rl_figures figures; /* figures of the newest step */
    rl_advice advice;
};

static inline bool rl_has_pairs(const tess_config *c)
{
    return c->rl.algorithm >= TESS_RL_DPO;
}

static inline bool rl_has_values(const tess_config *c)
{
    return c->rl.algorithm == TESS_RL_PPO;
}

/* Whether values come from a head on the policy's last layer. */
static inline bool rl_shares_trunk(const tess_config *c)
{
    return rl_has_values(c) && c->critic.trunk == TESS_TRUNK_SHARED;
}

/* Returns the inverse temperature of the policy, in drawing and in training. */
static inline float rl_inv_temperature(const tess_config *c)
{
    return rl_has_pairs(c) ? 1 : (float)(1 / c->rollout.temperature);
}

/* Whether the trained weights compute a rollout's log-probabilities again before its first step. A correction
 * weights each token by the ratio of these to the drawn ones. */
static inline bool rl_scores_samples(const tess_config *c)
{
    return !rl_has_pairs(c) && (c->rl.correction != TESS_CORRECT_NONE || c->rl.on_mismatch == TESS_MISMATCH_CORRECT);
}

/* Ranks that have the same micro-batches also draw the same samples, together; the first of them speaks. Its
 * journal, requests to outside programs, and samples are those of all of them. */
static inline bool rl_speaks(const rl *r)
{
    return r->engine == NULL || tess_coordinates_lead(&r->engine->at);
}

/* Whether this rank draws its samples together with others, and so waits for them in a pass. */
static inline bool rl_draws_together(const rl *r)
{
    return r->engine != NULL && r->engine->at.n_parts > 1;
}

/* Returns the rank that speaks for the ranks that draw this prompt. */
static inline int rl_speaker(const rl *r, int64_t prompt)
{
    if (r->engine == NULL)
        return (int)(prompt % tess_team_size(r->team));
    return tess_coordinates_first(&r->engine->at, (int)(prompt % r->engine->at.n_data));
}

/* The place of this rank among those that divide the prompts. */
static inline int rl_place(const rl *r)
{
    return r->engine == NULL ? tess_team_rank(r->team) : r->engine->at.data;
}

/* Optimizer steps of one rollout. */
static inline int64_t rl_steps_per_rollout(const tess_config *c)
{
    return c->rl.updates * c->rl.epochs;
}

/* ---- rl_options.c ---- */
tess_status rl_check(tess_config *config); /* may replace open values */
tess_policy_options rl_policy_of(const tess_config *config, double kl_beta);
tess_dpo_options rl_dpo_of(const tess_config *config);
tess_reward_options rl_reward_of(const tess_config *config);
bool rl_wants_reference(const tess_config *config);
/* Creates the models next to the policy that the configuration asks for. The others stay NULL. Collective. */
tess_status rl_models_create(tess_engine *policy, const tess_reporter *reporter, tess_reference **reference,
                             tess_critic **critic);

/* ---- rl_rollout.c ---- */
/* Draws rollout `state->rollout` into r->newest. Samples in the journal are not drawn again.
 * may_draw false: the weights have changed since, so the journal must have all samples. Collective. */
tess_status rl_collect(rl *r, bool may_draw);
/* Does the same with pairs from the data instead of drawn samples. */
tess_status rl_collect_pairs(rl *r);
void rl_groups_free(tess_mem *mem, rl_groups *groups, int64_t n);
/* Converts samples to bytes, group by group, and back. The reader appends to `groups` until there are `most`. */
tess_status rl_groups_write(const rl *r, const rl_groups *groups, tess_buffer *bytes);
tess_status rl_groups_read(rl *r, const tess_buffer *bytes, size_t most, rl_groups *groups);

/* ---- rl_keep.c ---- */
/* Writes the tokenizer next to the journal, so that its samples can be read as text. Collective. */
tess_status rl_keep_tokenizer(const rl *r);
/* Turns TESS_E_NO_SPACE and TESS_E_IO into the warning "WHAT: why", because a full disk must not end the run. */
tess_status rl_keep_or_warn(const rl *r, tess_status status, const char *what);
/* Appends to the journal of the newest rollout, and closes the journal after such a failure. *journal NULL: does
 * nothing. */
tess_status rl_write_down(const rl *r, rl_journal **journal, int64_t round, const rl_sample *sample);

/* ---- rl_draw.c ---- */
typedef struct rl_draw_options {
    double temperature;
    int64_t max_new_tokens;      /* limit of a sample's new tokens in total */
    int64_t budget_tokens;       /* limit of a sample's new tokens in this call; 0: no limit */
    uint64_t numbers;            /* added to samples' numbers, so that evaluation has other random draws */
    const tess_prompts *prompts; /* the prompts that samples' records refer to */
    int64_t prefix_n;            /* samples of a prompt */
    rl_journal **journal;        /* NULL: none */
    int64_t round;
} rl_draw_options;

/* Continues to draw this rank's `n` unfinished samples. The weights are held during the call. Collective, also with
 * n = 0. Ranks fail together, with one exception, *alone: others wait for this rank in a pass, so it must end with
 * its error, from which they learn the cause. */
tess_status rl_draw(rl *r, const rl_draw_options *options, rl_sample *const *samples, int64_t n, bool *alone);

/* ---- rl_order.c ---- */
/* Creates r->orders; it stays NULL if all ranks draw. Collective. */
tess_status rl_orders_create(rl *r);
void rl_orders_free(rl *r);
/* Sends the present weights to the ranks that only draw, unless they have them already. These continue to draw
 * during the transfer. Collective. */
tess_status rl_send_weights(rl *r);
/* Orders rollout `of` from these ranks, as for rl_collect. The rollout ordered before must have been taken.
 * Collective. */
tess_status rl_order(rl *r, const rl_state *of, bool may_draw);
/* Waits for the ordered rollout, if there is one. It becomes the newest rollout, as after rl_collect. Collective. */
tess_status rl_take_order(rl *r);
/* Tells these ranks that no more orders follow. Collective. */
tess_status rl_dismiss(rl *r, bool interrupted);

/* ---- rl_copy.c ---- */
/* Makes the weights of a rank that only draws available for drawing, and returns their digest
 * (tess_weights_digest). */
tess_status rl_copy_hold(const rl *r, tess_held_weights *held);
uint64_t rl_copy_digest(const rl *r);
/* Receives newer weights that have arrived, while the rank draws. Does nothing on a trainer. */
tess_status rl_copy_look(rl *r);
/* Return, on a rank of any role, the number of optimizer steps that made the weights it draws with, and the stream
 * that it computes on. */
int64_t rl_step(const rl *r);
tess_stream *rl_stream(const rl *r);

/* ---- rl_serve.c ---- */
/* The call of tess_task_kind. */
tess_status rl_serve(void *self, bool *interrupted);

/* ---- rl_memory.c ---- */
extern const tess_dry_task rl_dry_task;

/* ---- rl_text.c ---- */
/* Appends the text of n ids, without special tokens, as tess_decode does. */
tess_status rl_text(const rl *r, const int32_t *ids, int64_t n, tess_buffer *text);

/* ---- rl_show.c ---- */
/* After the first step of a rollout: gives the trainer the texts of its first answers (metrics.samples). */
void rl_show(const rl *r);

/* ---- rl_turns.c ---- */
/* Asks the environment about a sample that has finished turn `turn`, whose tokens begin at `first`. The answer is
 * appended to the sample, marked as not drawn. *goes_on: the model has another turn. A failed turn ends the sample. */
tess_status rl_turn(rl *r, const tess_prompts *prompts, rl_sample *sample, int64_t turn, int64_t first, bool *goes_on);
/* Checks the count of failed turns. TESS_E_INVALID: over all ranks, more turns have failed than reward.max_failures
 * allows. Collective. */
tess_status rl_judge_turns(rl *r);

/* ---- rl_grade.c ---- */
/* Returns a prompt without a response in the form that graders get. */
tess_reward_item rl_item_of(const tess_prompt_record *record);
/* Grades this rank's samples, whose records refer to `prompts`, and warns of failures. TESS_E_INVALID: over all
 * ranks, more samples have failed than reward.max_failures allows. Collective. */
tess_status rl_grade(rl *r, const tess_prompts *prompts, rl_sample *const *samples, int64_t n);

/* ---- rl_exchange.c ---- */
/* Distributes sample i of rank owner[i] to all ranks. samples (n) and owner (n) are the same lists on every rank.
 * Collective. */
tess_status rl_exchange(rl *r, rl_sample *const *samples, const int32_t *owner, int64_t n);
/* Combines arrays (n) in which each rank has filled its own elements and left the others 0. Collective. */
tess_status rl_share_floats(rl *r, float *values, int64_t n);

/* Distributes the bytes of a team's first rank to all of its ranks. Collective. team NULL: does nothing. */
tess_status rl_share_bytes(tess_team *team, tess_buffer *bytes);

/* ---- rl_rows.c ---- */
/* Builds the rows of r->trained's samples, with the advantages of their rewards. first_step: no step has learned
 * from them yet, so the present weights are those before the first update. Collective. */
tess_status rl_rows_make(rl *r, bool first_step);
void rl_rows_free(rl *r);

/* ---- rl_micro.c ---- */
/* The most rows that a model computes of a micro-batch, with those that fill up leaves. */
int64_t rl_most_rows(const rl *r);
/* Copies the numbers of this rank's rows of a micro-batch of n_tokens to the rollout's rows. own (n_own): in the order
 * of the rank's rows; place: as rl_micro_batch.place; into: one number for each of the rollout's rows. */
void rl_place_rows(const rl *r, int64_t n_tokens, int64_t n_own, const float *own, const int64_t *place, float *into);
/* Builds the micro-batches of a step on sequences [first, first + n) of the rows. They are a function of the lengths
 * only. */
tess_status rl_micro_plan(rl *r, int64_t first, int64_t n, rl_micro_batches **micro);
/* Returns the source of batches for the engine. */
tess_batch_source rl_micro_source(rl *r);
/* Calls `visit` with each micro-batch of this rank, and then with empty ones until all ranks have made equally many
 * calls. place: (n_tokens) index of each row among all rows. */
typedef tess_status (*rl_visit_fn)(rl *r, const tess_batch *batch, const int64_t *place, void *self);
tess_status rl_micro_visit(rl *r, rl_visit_fn visit, void *self);

/* ---- rl_scores.c ---- */
/* Whether later steps of a rollout need the models' values from before its first step, which cannot be computed
 * again. */
bool rl_scores_are_kept(const tess_config *config);
/* Writes these values to the rollout's journal, or reads them from it. Collective. */
tess_status rl_scores_keep(rl *r);
tess_status rl_scores_recall(rl *r);

/* ---- rl_values.c ---- */
/* Computes r->rows.value. Collective. */
tess_status rl_values_make(rl *r);
/* Makes the critic's step on the policy's micro-batches. Collective. */
tess_status rl_values_step(rl *r);

/* ---- rl_report.c ---- */
tess_status rl_report_rollout(rl *r);
/* checked, differ: the tokens drawn by the present weights, and how many of them now have another log-probability. */
void rl_report_step(rl *r, const tess_policy_sums *sums, double divisor, int64_t checked, int64_t differ);
void rl_report_pairs(rl *r, const tess_dpo_sums *sums);
/* Measures the distance of the policy from the reference, every metrics.log_freq steps. Collective. */
tess_status rl_report_drift(rl *r);
/* Called after a step: prints new advice on the settings that follows from its numbers. */
tess_status rl_advise(rl *r);
void rl_add_metric(rl_figures *figures, const char *name, double value);

/* ---- rl_evaluate.c ---- */
tess_status rl_evaluate(rl *r);

#endif
