/* The configuration of a training run: one struct, one table of options per section (torchtitan's names). */
#ifndef TESS_CONFIG_CONFIG_H
#define TESS_CONFIG_CONFIG_H

#include <jansson.h>

#include "base/core/options.h"
#include "ckpt/checkpoint_section.h"
#include "comm/comm_section.h"
#include "control/options/elastic_section.h"
#include "control/options/health_section.h"
#include "control/options/recovery_section.h"
#include "data/files/data_section.h"
#include "engine/options/debug_section.h"
#include "engine/options/job_section.h"
#include "engine/options/numbers_section.h"
#include "engine/options/offload_section.h"
#include "engine/options/training_section.h"
#include "inject/fault_section.h"
#include "mesh/axes.h"
#include "nn/model_section.h"
#include "optim/optimizer_section.h"
#include "rl/options/critic_section.h"
#include "rl/options/evaluation_section.h"
#include "rl/options/reference_section.h"
#include "rl/options/reward_section.h"
#include "rl/options/rl_section.h"
#include "rl/options/rollout_section.h"
#include "tessera/mesh.h"
#include "tessera/runtime.h"
#include "train/options/metrics_section.h"
#include "train/options/sample_section.h"
#include "train/options/validation_section.h"

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
_Static_assert(sizeof(tess_config) < 20 << 10, "a configuration fits on the stack");

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
/* Does the same from the file's text (size), which messages call `what`. */
tess_status tess_config_parse_over(tess_mem *mem, const char *const *defaults, const char *text, size_t size,
                                   const char *what, char *const *overrides, int n_overrides, tess_config *config);
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
/* Whether training.local_batch_size is `auto` and nothing has chosen it (plan/batch_choice.h). All checks of a
 * configuration refuse that. */
static inline bool tess_config_batch_is_open(const tess_config *config)
{
    return config->training.local_batch_size == 0;
}
/* Sets an open size to the smallest that training.passes allows and that divides a given training.global_batch_size.
 * Commands call it that only look at other options. */
void tess_config_assume_batch(tess_config *config);
/* Micro-batches of a step, over all ranks. */
static inline int64_t tess_config_micro_batches(const tess_config *config)
{
    return config->training.global_batch_size / config->training.local_batch_size;
}
/* Returns the number of parts that a step's gradient is a sum of: one for each rank that divides a micro-batch. */
static inline int64_t tess_config_leaves(const tess_config *config)
{
    return tess_config_micro_batches(config) * config->parallelism.context_parallel_degree;
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

/* Whether the configuration or the environment names a GPU. */
bool tess_config_is_on_gpu(const tess_config *config);
/* Whether something lies on disk; of it, the state that outlives a step. */
bool tess_config_offloads(const tess_config *config);
bool tess_config_offloads_state(const tess_config *config);
/* Whether the configuration or the environment says that shards are in the memory of a device (job.shards). What is
 * offloaded from there lies in the host's memory, or in offload.folder if it is set. */
bool tess_config_resides(const tess_config *config);

/* Checks the values against each other and the job's ranks, and sets open ones: a global_batch_size of 0 to local *
 * the ranks that train, degrees of -1, a precision of `auto` to this machine's. */
tess_status tess_config_check(tess_config *config, int ranks);
/* The same for a run whose model and data are not those of the configuration. */
tess_status tess_config_check_run(tess_config *config, int ranks);
/* The same for what a step alone needs: no model, no data. */
tess_status tess_config_check_step(tess_config *config, int ranks);

/* The name of each phase (tess_runtime_phase) and of each moment between phases (tess_inject_moment) of a rank that
 * trains; NULL after the last. A fault at any other name is refused (tess_runtime_options.phases). */
extern const char *const tess_train_phases[];

/* Every option with its value, by section; a new reference. Without memory: NULL, or incomplete. */
json_t *tess_config_to_json(const tess_config *config);
json_t *tess_text_list_to_json(const tess_text_list *list); /* an array of strings, likewise */

/* The options of a rank's runtime. comm_timeout_s is that of comm.timeout_s. They borrow texts of the configuration. */
tess_runtime_options tess_config_runtime(const tess_config *config);

/* A hash of the options that ranks of one job must have in common: all but those that decide nothing. */
uint64_t tess_config_hash(const tess_config *config);

#endif
