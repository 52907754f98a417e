/* The configuration of a training run: one struct, one table of options per section (torchtitan's names). */
#ifndef TESS_CONFIG_CONFIG_H
#define TESS_CONFIG_CONFIG_H

#include <jansson.h>

#include "base/core/options.h"
#include "ckpt/checkpoint_section.h"
#include "comm/comm_section.h"
#include "data/files/data_section.h"
#include "inject/fault_section.h"
#include "mesh/parallelism_section.h"
#include "nn/model_section.h"
#include "optim/optimizer_section.h"
#include "tessera/mesh.h"

typedef enum tess_precision {
    TESS_PRECISION_BF16,
    TESS_PRECISION_F32,
    TESS_PRECISION_F16,
    TESS_PRECISION_F8,  /* refused */
    TESS_PRECISION_AUTO /* not chosen yet */
} tess_precision;

typedef enum tess_numbers_check { TESS_NUMBERS_REPLAY, TESS_NUMBERS_ALWAYS } tess_numbers_check;
typedef enum tess_on_nonfinite { TESS_NUMBERS_STOP, TESS_NUMBERS_SKIP } tess_on_nonfinite;

typedef enum tess_on_nan { TESS_NAN_ROLLBACK, TESS_NAN_STOP } tess_on_nan;

/* AUTO: what the environment's TESSERA_DEVICE names, else the CPU. */
typedef enum tess_device_choice {
    TESS_DEVICE_AUTO,
    TESS_DEVICE_CPU,
    TESS_DEVICE_FAR,
    TESS_DEVICE_CUDA
} tess_device_choice;

/* Algorithms in the order of rl.algorithm's choices. */
typedef enum tess_rl_algorithm {
    TESS_RL_GRPO,
    TESS_RL_DR_GRPO,
    TESS_RL_RLOO,
    TESS_RL_BATCH_STD,
    TESS_RL_REINFORCE_PP,
    TESS_RL_REINFORCE_PP_BASELINE,
    TESS_RL_GSPO,
    TESS_RL_CISPO,
    TESS_RL_PPO,
    TESS_RL_DPO,
    TESS_RL_IPO,
    TESS_RL_HINGE
} tess_rl_algorithm;

typedef enum tess_on_mismatch { TESS_MISMATCH_STOP, TESS_MISMATCH_WARN, TESS_MISMATCH_CORRECT } tess_on_mismatch;
typedef enum tess_rl_phase { TESS_RL_BOTH, TESS_RL_ROLLOUT, TESS_RL_TRAIN } tess_rl_phase;

/* AUTO: what the environment's TESSERA_SHARDS names, else what shards.h finds. */
typedef enum tess_shards_choice { TESS_SHARDS_AUTO, TESS_SHARDS_HOST, TESS_SHARDS_DEVICE } tess_shards_choice;

/* Choices of critic.trunk and reward.sandbox. */
typedef enum tess_trunk_choice { TESS_TRUNK_OWN, TESS_TRUNK_SHARED } tess_trunk_choice;
typedef enum tess_sandbox_choice { TESS_SANDBOX_NONE, TESS_SANDBOX_BWRAP } tess_sandbox_choice;

typedef struct tess_job_section {
    char dump_folder[TESS_TEXT_SIZE];
    char description[TESS_TEXT_SIZE];
    int device; /* tess_device_choice */
    int shards; /* tess_shards_choice */
    bool ignore_memory;
} tess_job_section;

typedef struct tess_training_section {
    int64_t steps, local_batch_size, global_batch_size, passes, seq_len, threads;
    double max_norm, max_value, loss_scale, loss_scale_init;
    double loss_scale_min;
    int64_t loss_scale_interval, loss_scale_hysteresis;
    bool loss_scale_in_a_row;
    int mixed_precision_param, mixed_precision_reduce; /* tess_precision */
    bool fp8, fp8_gather;
    tess_text_list freeze;
} tess_training_section;

typedef struct tess_offload_section {
    char folder[TESS_TEXT_SIZE];
    bool params, grads, optimizer, activations;
    int64_t resident;
} tess_offload_section;

typedef struct tess_recovery_section {
    bool enable, hot;
    int64_t max_failures;
    double window_s, backoff_s, backoff_max_s;
    int on_nan; /* tess_on_nan */
} tess_recovery_section;

typedef struct tess_elastic_section {
    int64_t min_ranks, max_ranks;
    double retry_s;
} tess_elastic_section;

typedef struct tess_validation_section {
    bool enable;
    tess_text_list files;
    double fraction;
    int64_t interval, steps, retries, patience;
    double timeout_s, min_delta;
} tess_validation_section;

typedef struct tess_metrics_section {
    int64_t log_freq;
    int64_t pipeline_timeline;
    bool enable_tensorboard;
    char tensorboard_folder[TESS_TEXT_SIZE];
} tess_metrics_section;

typedef struct tess_sample_section {
    char prompt[TESS_TEXT_SIZE];
    int64_t max_new_tokens, top_k;
    double temperature, top_p;
} tess_sample_section;

typedef struct tess_rl_section {
    int algorithm; /* tess_rl_algorithm */
    double clip_low, clip_high, dual_clip;
    double kl_beta, kl_target, kl_horizon;
    int kl; /* k1, k2, k3 */
    bool kl_in_reward;
    double entropy_coef;
    int reduction; /* 0: auto, else 1 + tess_reduction_kind */
    double constant;
    int64_t updates, epochs;
    int correction; /* tess_correction */
    double correction_low, correction_high, opsm_delta;
    int on_mismatch; /* stop, warn, correct */
    bool filter;
    int64_t max_rounds;
    int64_t overlong_tokens;
    double overlong_penalty;
    double gamma, lambda, value_clip, eps;
    bool norm_advantages;
    double dpo_beta, label_smoothing, max_lag;
    int64_t keep_journals;
    int phase;   /* both, rollout, train */
    int balance; /* cost, lpt, karmarkar_karp */
} tess_rl_section;

typedef struct tess_rollout_section {
    int64_t prompts, n, max_new_tokens, max_prompt_tokens;
    double temperature;
    tess_text_list stop;
    int64_t budget_tokens, in_flight, lag;
    int64_t max_sequences, pass_tokens, cache_bytes;
    char prompt_key[TESS_TEXT_SIZE], label_key[TESS_TEXT_SIZE];
    tess_text_list env_command;
    int64_t max_turns;
    int64_t ranks, sync_bytes;
} tess_rollout_section;

typedef struct tess_reward_section {
    char kind[TESS_TEXT_SIZE], regex[TESS_TEXT_SIZE], format[TESS_TEXT_SIZE], url[TESS_TEXT_SIZE];
    bool number_fallback;
    char user[TESS_TEXT_SIZE], header_file[TESS_TEXT_SIZE];
    tess_text_list command, env, readable, header_env;
    int64_t workers, in_flight, retries, max_answer_bytes, max_memory_bytes, max_cpu_s, max_processes;
    double timeout_s, start_s, max_failures;
    int sandbox; /* tess_sandbox_choice */
} tess_reward_section;

typedef struct tess_reference_section {
    char path[TESS_TEXT_SIZE];
    int64_t update_interval;
    double ema;
} tess_reference_section;

typedef struct tess_critic_section {
    int trunk; /* tess_trunk_choice */
    char path[TESS_TEXT_SIZE];
    double lr, coef;
} tess_critic_section;

typedef struct tess_evaluation_section {
    int64_t n;
    double temperature, threshold;
    bool at_start;
} tess_evaluation_section;

typedef struct tess_health_section {
    bool enable;
    double interval_s, memory_percent, heartbeat_s, stall_s, load, gpu_celsius, gpu_memory_percent;
    int64_t fds, disk_bytes, inodes, gpu_errors, max_failures;
    tess_text_list alert_command;
    double alert_timeout_s;
} tess_health_section;

typedef struct tess_numbers_section {
    int check, on_nonfinite; /* tess_numbers_check, tess_on_nonfinite */
    int64_t max_skips;
    double spike_z, skip_update_lossz, skip_update_gradz;
    int64_t replica_check_interval;
} tess_numbers_section;

typedef struct tess_debug_section {
    int64_t seed;
    bool deterministic, trace;
} tess_debug_section;

typedef struct tess_config {
    tess_job_section job;
    tess_model_section model;
    tess_tokenizer_section tokenizer;
    tess_data_section data;
    tess_training_section training;
    tess_lora_section lora;
    tess_optimizer_section optimizer;
    tess_lr_scheduler_section lr_scheduler;
    tess_parallelism_section parallelism;
    tess_activation_checkpoint_section activation_checkpoint;
    tess_offload_section offload;
    tess_checkpoint_section checkpoint;
    tess_recovery_section recovery;
    tess_elastic_section elastic;
    tess_validation_section validation;
    tess_metrics_section metrics;
    tess_sample_section sample;
    tess_rl_section rl;
    tess_rollout_section rollout;
    tess_reward_section reward;
    tess_reference_section reference;
    tess_critic_section critic;
    tess_evaluation_section evaluation;
    tess_health_section health;
    tess_comm_section comm;
    tess_numbers_section numbers;
    tess_debug_section debug;
    tess_fault_section fault;
} tess_config;
_Static_assert(sizeof(tess_config) < 16 << 10, "a configuration fits on the stack");

const tess_option_table *tess_config_tables(int *n_tables);

/* The words of a command are the path of a configuration, which may be left out, and overrides "section.key=value".
 * Takes the path off the words; NULL: the first word is an override, or there is none. */
const char *tess_config_take_path(char *const **words, int *n_words);

/* A configuration that was loaded, parsed or copied owns its lists: tess_config_free ends it. A struct copy would share
 * them, so copies are made by tess_config_copy.
 *
 * Reads defaults, then the file (NULL: none), then overrides "section.key=value". Checks each value by itself;
 * tess_config_check checks how they fit together. Messages name file and line, or the override. *config is written
 * whole. On failure it is zero, and needs no tess_config_free. */
tess_status tess_config_load(tess_mem *mem, const char *path, char *const *overrides, int n_overrides,
                             tess_config *config);
/* Does the same with other defaults for some keys: `defaults` is a NULL-terminated list of overrides; NULL: none. */
tess_status tess_config_load_over(tess_mem *mem, const char *const *defaults, const char *path, char *const *overrides,
                                  int n_overrides, tess_config *config);
/* The same from text in memory (tests, fuzzing). */
tess_status tess_config_parse(tess_mem *mem, const char *text, size_t size, const char *what, tess_config *config);
tess_status tess_config_override(tess_config *config, const char *assignment);

/* Writes *to whole. TESS_E_NOMEM: it is zero. */
tess_status tess_config_copy(const tess_config *from, tess_config *to);
/* Frees the lists, and empties them. A configuration of zeros is fine. */
void tess_config_free(tess_config *config);

/* Before tess_config_check, in a job over several hosts: hybrid sharding without degrees shards inside hosts and
 * replicates across them. TESS_E_INVALID: the hosts do not have the same number of ranks. */
tess_status tess_config_fit_hosts(tess_config *config, const int *ranks_of_host, int n_hosts);

/* The number of the job's `ranks` that train: the first ones. The others only draw samples (rollout.ranks). */
static inline int tess_config_trainers(const tess_config *config, int ranks)
{
    return ranks - (int)config->rollout.ranks;
}
/* TESS_E_INVALID: that leaves none to train. */
tess_status tess_config_check_trainers(const tess_config *config, int ranks);

/* After tess_config_fit_hosts: sets the degrees that are open (-1) for those of the job's `ranks` that train.
 * TESS_E_INVALID: they do not make that number. tess_config_check does it too. */
tess_status tess_config_check_degrees(tess_config *config, int ranks);
/* Ranks that one copy of the model's layers takes: those of a pipeline, times those that share a layer. */
int tess_config_model_ranks(const tess_config *config);
/* Micro-batches of a step, over all ranks. */
static inline int64_t tess_config_micro_batches(const tess_config *config)
{
    return config->training.global_batch_size / config->training.local_batch_size;
}

/* The name of job.device, as tess_device_open takes it. */
static inline const char *tess_config_device(const tess_config *config)
{
    static const char *const names[] = {NULL, "cpu", "far", "cuda"};
    return names[config->job.device];
}

/* The most rows of a pass. */
static inline int64_t tess_config_pass_rows(const tess_config *config)
{
    return (config->training.local_batch_size + config->training.passes - 1) / config->training.passes;
}

/* training.mixed_precision_param; `auto` is bfloat16 where the device (job.device) multiplies it in hardware, the CPU
 * with these kernels, else float32, which is no slower there and loses nothing. */
tess_precision tess_config_precision(const tess_config *config, const char *kernels);

/* The dtype of a tess_precision that is chosen. */
tess_dtype tess_precision_dtype(int precision);

/* Whether something lies on disk; of it, the state that outlives a step. */
bool tess_config_offloads(const tess_config *config);
bool tess_config_offloads_state(const tess_config *config);

/* Checks the values against each other and the job's ranks, and sets open ones: a global_batch_size of 0 to local *
 * the ranks that train, degrees of -1, a precision of `auto` to this machine's. */
tess_status tess_config_check(tess_config *config, int ranks);
/* The same for what a step alone needs: no model, no data. */
tess_status tess_config_check_step(tess_config *config, int ranks);

/* The name of each phase (tess_runtime_phase) and of each moment between phases (tess_inject_moment) of a rank that
 * trains; NULL after the last. A fault at any other name is refused (tess_runtime_options.phases). */
extern const char *const tess_train_phases[];

/* Every option with its value, by section; a new reference. Without memory: NULL, or incomplete. */
json_t *tess_config_to_json(const tess_config *config);
json_t *tess_text_list_to_json(const tess_text_list *list); /* an array of strings, likewise */

/* A hash of the options that ranks of one job must have in common: all but those that decide nothing. */
uint64_t tess_config_hash(const tess_config *config);

#endif
