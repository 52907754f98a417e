#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/rng.h"
#include "base/core/variables.h"
#include "base/os/disk_files.h"
#include "base/os/os.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "base/text/yaml.h"
#include "device/kernel_vote.h"
#include "device/kernels.h"
#include "job/environment.h"
#include "mesh/coordinates.h"
#include "mesh/rank_order.h"
#include "nn/model.h"
#include "tessera/fsdp.h"
#include "data/files/data_files.h"
#include "config/foreign_keys.h"

enum { CONFIG_LIMIT = 1 << 20 };

const char *const tess_train_phases[] = {
    "setup",   "data",   "forward", "backward", "optimizer", "log",   "validation", "checkpoint", "export",
    "rollout", "reward", "weights", "judging",  "judged",    "shard", "shard-done", "updated", /* moments of the
                                                                                                  optimizer's */
    NULL};

typedef struct parse_context {
    tess_config *config;
    const char *what;
} parse_context;

static tess_status set_option(tess_config *config, const char *key, const char *text, const char *source)
{
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    if (!tess_options_has(tables, n_tables, key))
        TESS_TRY_CTX(tess_foreign_refuse(tables, n_tables, key), "%s", source);
    return tess_options_set(tables, n_tables, config, key, text, source);
}

/* Whether a key that stands outside of a section is one of another program, or may be. */
static bool may_be_foreign(const char *key)
{
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    return !tess_options_has(tables, n_tables, key) && (strchr(key, '.') != NULL || tess_foreign_has(key));
}

static tess_status set_key(void *context, const char *key, const char *text, int line)
{
    parse_context *c = context;
    char source[TESS_TEXT_SIZE];
    snprintf(source, sizeof(source), "%.400s:%d", c->what, line);
    if (text == NULL && !may_be_foreign(key))
        return TESS_OK; /* the parser refuses it */
    return set_option(c->config, key, text, source);
}

static tess_status parse_over(tess_mem *mem, const char *const *defaults, const char *text, size_t size,
                              const char *what, tess_config *config)
{
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    parse_context context = {config, what};
    memset(config, 0, sizeof(*config));
    tess_status status = tess_options_defaults(tables, n_tables, config);
    for (int i = 0; status == TESS_OK && defaults != NULL && defaults[i] != NULL; i++)
        status = tess_config_override(config, defaults[i]);
    if (status == TESS_OK)
        status = tess_yaml_parse(mem, text, size, what, set_key, &context);
    return status;
}

/* Leaves nothing of a configuration that could not be read. */
static tess_status finish_load(tess_config *config, tess_status status)
{
    if (status == TESS_OK)
        return TESS_OK;
    tess_config_free(config);
    memset(config, 0, sizeof(*config));
    return status;
}

tess_status tess_config_parse(tess_mem *mem, const char *text, size_t size, const char *what, tess_config *config)
{
    return finish_load(config, parse_over(mem, NULL, text, size, what, config));
}

tess_status tess_config_override(tess_config *config, const char *assignment)
{
    char key[TESS_TEXT_SIZE];
    const char *equals = strchr(assignment, '=');
    TESS_CHECK(equals != NULL && equals > assignment && (size_t)(equals - assignment) < sizeof(key), TESS_E_INVALID,
               "'%.100s' is no override: write section.key=value", assignment);
    memcpy(key, assignment, (size_t)(equals - assignment));
    key[equals - assignment] = '\0';
    return set_option(config, key, equals + 1, "command line");
}

/* "section.key=value", or a key of another program without a section. A path may have a '=', too. */
static bool is_assignment(const char *word)
{
    char key[TESS_TEXT_SIZE];
    const char *equals = strchr(word, '=');
    if (equals == NULL || equals - word >= (ptrdiff_t)sizeof(key))
        return false;
    snprintf(key, sizeof(key), "%.*s", (int)(equals - word), word);
    return strchr(key, '/') == NULL && (strchr(key, '.') != NULL || tess_foreign_has(key));
}

const char *tess_config_take_path(char *const **words, int *n_words)
{
    if (*n_words == 0 || is_assignment((*words)[0]))
        return NULL;
    --*n_words;
    return *(*words)++;
}

tess_status tess_config_parse_over(tess_mem *mem, const char *const *defaults, const char *text, size_t size,
                                   const char *what, char *const *overrides, int n_overrides, tess_config *config)
{
    tess_status status = parse_over(mem, defaults, text, size, what, config);
    for (int i = 0; status == TESS_OK && i < n_overrides; i++)
        status = tess_config_override(config, overrides[i]);
    return finish_load(config, status);
}

tess_status tess_config_load_over(tess_mem *mem, const char *const *defaults, const char *path, char *const *overrides,
                                  int n_overrides, tess_config *config)
{
    char *text = NULL;
    size_t size = 0;
    memset(config, 0, sizeof(*config));
    if (path != NULL)
        TESS_TRY_CTX(tess_os_read(mem, path, CONFIG_LIMIT, &text, &size), "configuration");
    tess_status status = tess_config_parse_over(mem, defaults, text != NULL ? text : "", size,
                                                path != NULL ? path : "defaults", overrides, n_overrides, config);
    tess_mem_free(mem, text);
    return status;
}

tess_status tess_config_load(tess_mem *mem, const char *path, char *const *overrides, int n_overrides,
                             tess_config *config)
{
    return tess_config_load_over(mem, NULL, path, overrides, n_overrides, config);
}

tess_status tess_config_fit_hosts(tess_config *config, const int *ranks_of_host, int n_hosts)
{
    bool open =
        config->parallelism.data_parallel_replicate_degree < 0 && config->parallelism.data_parallel_shard_degree < 0;
    if (config->parallelism.shard_strategy != TESS_STRATEGY_HYBRID || !open)
        return TESS_OK;
    for (int host = 1; host < n_hosts; host++)
        TESS_CHECK(
            ranks_of_host[host] == ranks_of_host[0], TESS_E_INVALID,
            "parallelism.shard_strategy=hybrid makes one replica a host, but host 0 has %d ranks and host %d has "
            "%d: start as many ranks on every host, or set parallelism.data_parallel_replicate_degree",
            ranks_of_host[0], host, ranks_of_host[host]);
    config->parallelism.data_parallel_replicate_degree = n_hosts;
    return TESS_OK;
}

int tess_config_model_ranks(const tess_config *config)
{
    return tess_coordinates_of(&config->parallelism, 0).n_parts;
}

/* The name of the axis's option within its section. */
static const char *option_name(int axis)
{
    return strchr(tess_axis_option(axis)->key, '.') + 1;
}

/* Returns the axis of the model whose degree does not divide the ranks. If each degree does, but not their product,
 * returns the last axis. */
static int odd_axis(const int degrees[TESS_AXES], int world)
{
    int last = 0;
    for (int axis = 0; axis < TESS_AXES; axis++) {
        last = tess_axis_kind_of(axis) == TESS_AXIS_OF_MODEL ? axis : last;
        if (last == axis && world % degrees[axis] != 0)
            return axis;
    }
    return last;
}

/* Checks that the ranks are a whole number of copies of the model's layers. The message names the axis that does not
 * fit. */
static tess_status check_model_ranks(const tess_config *config, int world)
{
    int degrees[TESS_AXES];
    tess_axes_degrees(&config->parallelism, degrees);
    const int all = tess_axes_ranks(degrees, TESS_AXIS_OF_MODEL), odd = odd_axis(degrees, world);
    const int other = all / degrees[odd];
    const long long apart = config->rollout.ranks;
    char others[128] = "", divisor[64] = "", who[96], more[32] = "";
    for (int axis = 0, at = 0; axis < TESS_AXES; axis++)
        if (axis != odd && tess_axis_kind_of(axis) == TESS_AXIS_OF_MODEL && degrees[axis] > 1)
            at = (int)tess_text_add(others, sizeof(others), (size_t)at, " x %s=%d", option_name(axis), degrees[axis]);
    snprintf(who, sizeof(who), "%d rank%s", world, world == 1 ? "" : "s");
    if (apart > 0) {
        snprintf(who, sizeof(who), "the %d rank%s, because %lld more only draw%s", world,
                 world == 1 ? " that trains" : "s that train", apart, apart == 1 ? "s" : "");
        snprintf(more, sizeof(more), "%lld + ", apart);
    }
    if (world % other == 0)
        snprintf(divisor, sizeof(divisor), ", or give a divisor of %d", world / other);
    TESS_CHECK(world % all == 0, TESS_E_INVALID,
               "parallelism.%s: %d%s does not divide %s: start %sa multiple of %d ranks%s", option_name(odd),
               degrees[odd], others, who, more, all, divisor);
    TESS_CHECK(
        degrees[TESS_AXIS_PP] == 1 || config->training.passes == 1, TESS_E_INVALID,
        "training.passes: %lld passes of a micro-batch do not go through a pipeline: set training.passes=1 and a "
        "smaller training.local_batch_size",
        (long long)config->training.passes);
    return TESS_OK;
}

tess_status tess_config_check_trainers(const tess_config *config, int ranks)
{
    const int64_t apart = config->rollout.ranks;
    const int model = tess_config_model_ranks(config), most = ranks > model ? ranks - model : 0;
    TESS_CHECK(apart < ranks, TESS_E_INVALID,
               "rollout.ranks: %lld rank%s that only draw%s leave%s none of %d to train: start %lld%s (-n), or set "
               "rollout.ranks=%d%s",
               (long long)apart, apart == 1 ? "" : "s", apart == 1 ? "s" : "", apart == 1 ? "s" : "", ranks,
               (long long)apart + model, model == 1 ? " or more" : "", most, model == 1 && most > 0 ? " or less" : "");
    return TESS_OK;
}

/* Checks here, too, what tess_fsdp_create checks: elastic runs ask which numbers of ranks the configuration admits. */
static tess_status check_groups(const tess_config *config, int64_t shards, const char *what)
{
    const int64_t n = config->parallelism.fsdp_reshard_after_forward;
    const int strategy = config->parallelism.shard_strategy;
    const bool frees = strategy == TESS_STRATEGY_FULL || strategy == TESS_STRATEGY_HYBRID;
    TESS_CHECK(!frees || n <= 1 || shards == 1 || shards % n == 0, TESS_E_INVALID,
               "parallelism.fsdp_reshard_after_forward: %lld does not divide the %lld ranks that share a copy of the "
               "%s: give 1 (free), 0 (keep) or a divisor of %lld",
               (long long)n, (long long)shards, what, (long long)shards);
    return TESS_OK;
}

tess_status tess_config_check_degrees(tess_config *config, int ranks)
{
    TESS_TRY(tess_config_check_trainers(config, ranks));
    const int trainers = tess_config_trainers(config, ranks);
    TESS_TRY(check_model_ranks(config, trainers));
    int world = trainers / tess_config_model_ranks(config); /* ranks that share the data */
    int64_t *shards = &config->parallelism.data_parallel_shard_degree;
    TESS_CHECK(config->parallelism.data_parallel_replicate_degree != 0, TESS_E_INVALID,
               "parallelism.data_parallel_replicate_degree: 0; -1 leaves it to the strategy");
    if (config->parallelism.data_parallel_replicate_degree <
        0) { /* the rest that a given number of shards leaves, or one */
        bool given = config->parallelism.shard_strategy == TESS_STRATEGY_HYBRID && *shards > 0;
        config->parallelism.data_parallel_replicate_degree = given && world % *shards == 0 ? world / *shards : 1;
    }
    int64_t replicas = config->parallelism.data_parallel_replicate_degree;
    TESS_CHECK(
        world % replicas == 0, TESS_E_INVALID,
        "parallelism.data_parallel_replicate_degree: %lld replicas do not divide %d ranks: give a divisor of %d, "
        "or -1",
        (long long)replicas, world, world);
    TESS_CHECK(*shards != 0, TESS_E_INVALID,
               "parallelism.data_parallel_shard_degree: 0; -1 takes all ranks that are left");
    if (*shards < 0)
        *shards = world / replicas;
    TESS_CHECK(
        *shards * replicas == world, TESS_E_INVALID,
        "parallelism: %lld replicas x %lld shards = %lld ranks, but there are %d: set data_parallel_shard_degree=%lld",
        (long long)replicas, (long long)*shards, (long long)(*shards * replicas), world, (long long)(world / replicas));
    TESS_TRY(check_groups(config,
                          config->parallelism.data_parallel_shard_degree * config->parallelism.context_parallel_degree,
                          "parameters"));
    return tess_rank_order_read(&config->parallelism, &(tess_rank_order){0});
}

/* Checks the ranks that divide experts, after the degrees. */
static tess_status check_experts(const tess_config *c)
{
    const tess_parallelism_section *p = &c->parallelism;
    const long long ranks = p->expert_parallel_degree, tp = p->tensor_parallel_degree, cp = p->context_parallel_degree,
                    shards = p->data_parallel_shard_degree * cp, neighbours = ranks / tp;
    TESS_CHECK(
        p->expert_tensor_parallel_degree == 1, TESS_E_UNSUPPORTED,
        "parallelism.expert_tensor_parallel_degree: %lld; ranks that divide experts have whole ones: set it to 1 "
        "(with expert_parallel_degree=1, tensor_parallel_degree cuts experts too)",
        (long long)p->expert_tensor_parallel_degree);
    if (ranks == 1)
        return TESS_OK;
    TESS_CHECK(
        ranks % tp == 0 && shards % neighbours == 0 && (neighbours & (neighbours - 1)) == 0, TESS_E_INVALID,
        "parallelism.expert_parallel_degree: %lld; it is tensor_parallel_degree (%lld) times a power of two that "
        "divides data_parallel_shard_degree (%lld)%s",
        ranks, tp, shards / cp, cp > 1 ? " times context_parallel_degree" : "");
    TESS_CHECK(c->training.passes == 1, TESS_E_UNSUPPORTED,
               "training.passes: an expert sums the gradients of several micro-batches at once: set passes=1, or "
               "parallelism.expert_parallel_degree=1");
    TESS_CHECK(
        neighbours == 1 || c->training.mixed_precision_reduce == TESS_PRECISION_F32, TESS_E_UNSUPPORTED,
        "training.mixed_precision_reduce: an expert's gradient is summed over %lld micro-batches before it travels, "
        "and other ranks would round each: set it to float32, or parallelism.expert_parallel_degree=%lld",
        neighbours, tp);
    TESS_TRY(check_groups(c, shards / neighbours, "same experts"));
    TESS_CHECK(!c->training.fp8 && c->training.gather == TESS_GATHER_VALUES, TESS_E_UNSUPPORTED,
               "training.fp8, training.gather: experts that ranks divide are read as values: set "
               "parallelism.expert_parallel_degree=1");
    TESS_CHECK(c->optimizer.name != TESS_MUON, TESS_E_UNSUPPORTED,
               "optimizer.name=muon: it assembles matrices over all ranks, and each has other experts: set "
               "parallelism.expert_parallel_degree=1, or another optimizer");
    return TESS_OK;
}

/* The device that the configuration or the environment names; NULL: neither does. */
static const char *device_of(const tess_config *c)
{
    const char *device = tess_config_device(c);
    return device != NULL ? device : tess_variable_value(TESS_VAR_DEVICE);
}

bool tess_config_is_on_gpu(const tess_config *c)
{
    const char *device = device_of(c);
    return device != NULL && strncmp(device, "cuda", strlen("cuda")) == 0;
}

/* Checks the ranks that divide tokens, and the leaves of sums over tokens. */
static tess_status check_context(const tess_config *c)
{
    const int64_t ranks = c->parallelism.context_parallel_degree, leaves = c->training.context_leaves;
    const int64_t least = ranks == 1                                                              ? 1
                          : c->parallelism.context_parallel_load_balancer == TESS_BALANCER_ZIGZAG ? 2 * ranks
                                                                                                  : ranks;
    TESS_CHECK(
        (ranks & (ranks - 1)) == 0, TESS_E_INVALID,
        "parallelism.context_parallel_degree: %lld; the tokens of a micro-batch are divided among a power of two "
        "of ranks",
        (long long)ranks);
    TESS_CHECK((leaves & (leaves - 1)) == 0 && leaves >= least, TESS_E_INVALID,
               "training.context_leaves: %lld; it is a power of two, and at least %lld with "
               "parallelism.context_parallel_degree=%lld and context_parallel_load_balancer=%s: set it to %lld, or to "
               "twice the largest number of ranks that you plan to use; it changes the bits",
               (long long)leaves, (long long)least, (long long)ranks, least == ranks ? "contiguous" : "zigzag",
               (long long)least);
    if (leaves == 1)
        return TESS_OK;
    const int64_t unit = (int64_t)TESS_LEAF_UNIT * leaves, tokens = c->training.local_batch_size * c->training.seq_len;
    TESS_CHECK(tokens <= INT32_MAX - unit, TESS_E_INVALID,
               "training.context_leaves: %lld leaves of a micro-batch of %lld tokens, filled up to a multiple of %lld, "
               "are too many tokens: set fewer leaves, or less of training.local_batch_size",
               (long long)leaves, (long long)tokens, (long long)unit);
    return TESS_OK;
}

void tess_config_assume_batch(tess_config *config)
{
    const int64_t global = config->training.global_batch_size;
    int64_t rows = config->training.passes;
    if (!tess_config_batch_is_open(config))
        return;
    while (rows < global && global % rows != 0)
        rows++;
    config->training.local_batch_size = global > 0 && rows > global ? global : rows;
}

static tess_status check_batch(tess_config *config, int trainers)
{
    int64_t local = config->training.local_batch_size, *global = &config->training.global_batch_size;
    TESS_CHECK(!tess_config_batch_is_open(config), TESS_E_INVALID,
               "training.local_batch_size=auto: only `tessera train`, `tessera rl` and `tessera plan` choose it: give "
               "a number of rows");
    if (*global == 0)
        *global = local * (trainers / tess_config_model_ranks(config));
    return tess_training_check_rows(&config->training);
}

bool tess_config_resides(const tess_config *c)
{
    const char *text = tess_variable_value(TESS_VAR_SHARDS);
    return c->job.shards == TESS_SHARDS_DEVICE ||
           (c->job.shards == TESS_SHARDS_AUTO && text != NULL && strcmp(text, "device") == 0);
}

static tess_status check_gather(const tess_config *c)
{
    const char *device = device_of(c);
    TESS_CHECK(device == NULL || device[0] == '\0' || strcmp(device, "cpu") == 0 || tess_config_resides(c),
               TESS_E_UNSUPPORTED,
               "training.gather: codes of the host's shards are read by the CPU's products alone, not on "
               "job.device=%s: leave it out, or set job.shards=device",
               device);
    return TESS_OK;
}

static tess_status check_fp8(const tess_config *c)
{
    if (c->training.gather != TESS_GATHER_VALUES)
        TESS_TRY(check_gather(c));
    if (!c->training.fp8 && c->training.gather == TESS_GATHER_VALUES)
        return TESS_OK;
    TESS_CHECK(c->parallelism.tensor_parallel_degree == 1, TESS_E_UNSUPPORTED,
               "training.fp8, training.gather: ranks that share a layer may cut a block of 128 that has one scale: set "
               "parallelism.tensor_parallel_degree=1 (every sharding strategy and pipelines will do)");
    TESS_CHECK(c->lora.rank == 0 && c->lora.path[0] == '\0', TESS_E_UNSUPPORTED,
               "training.fp8, training.gather: an adapter's products are not rounded: leave out lora.%s",
               c->lora.rank > 0 ? "rank" : "path");
    return TESS_OK;
}

static tess_status check_precision(const tess_config *c)
{
    TESS_TRY(tess_training_check_precision(&c->training));
    TESS_TRY(check_fp8(c));
    return tess_training_check_loss_scale(&c->training);
}

tess_precision tess_config_precision(const tess_config *config, const char *kernels)
{
    tess_precision named = (tess_precision)config->training.mixed_precision_param;
    if (named != TESS_PRECISION_AUTO)
        return named;
    /* GPUs that are supported have bfloat16 */
    return tess_config_is_on_gpu(config) || tess_kernels_have_bf16(kernels) ? TESS_PRECISION_BF16 : TESS_PRECISION_F32;
}

/* Chooses for processes that are no ranks; ranks have chosen by then. */
static tess_status choose_precision(tess_config *config)
{
    const tess_kernels *kernels;
    if (config->training.mixed_precision_param != TESS_PRECISION_AUTO)
        return TESS_OK;
    TESS_TRY(tess_kernels_select(NULL, &kernels));
    config->training.mixed_precision_param = (int)tess_config_precision(config, kernels->name);
    return TESS_OK;
}

bool tess_config_offloads_state(const tess_config *c)
{
    return c->offload.params || c->offload.grads || c->offload.optimizer;
}

bool tess_config_offloads(const tess_config *c)
{
    return tess_config_offloads_state(c) || c->offload.activations;
}

static tess_status check_offload(const tess_config *c)
{
    const bool to_host = c->offload.folder[0] == '\0' && tess_config_resides(c) && !c->offload.activations;
    if (!tess_config_offloads(c) || to_host)
        return TESS_OK;
    TESS_CHECK(!c->checkpoint.memory_copies || !tess_config_offloads_state(c), TESS_E_INVALID,
               "checkpoint.memory_copies keeps the state in memory for a later launch, offload.* has it on disk: set "
               "one of them to false");
    return tess_os_check_disk(c->offload.folder, "offload.folder");
}

tess_status tess_config_check_step(tess_config *config, int ranks)
{
    TESS_TRY(choose_precision(config));
    TESS_TRY(check_precision(config));
    TESS_TRY(tess_activation_checkpoint_check(&config->activation_checkpoint,
                                              config->parallelism.tensor_parallel_degree > 1));
    TESS_TRY(tess_config_check_degrees(config, ranks));
    TESS_TRY(check_experts(config));
    TESS_TRY(check_context(config));
    TESS_TRY(check_batch(config, tess_config_trainers(config, ranks)));
    tess_lr_scheduler_fit(&config->lr_scheduler, config->training.steps);
    return TESS_OK;
}

tess_status tess_config_check(tess_config *config, int ranks)
{
    TESS_TRY(tess_data_check(&config->data));
    TESS_TRY(tess_model_section_check(&config->model));
    return tess_config_check_run(config, ranks);
}

tess_status tess_config_check_run(tess_config *config, int ranks)
{
    TESS_CHECK(config->job.reload_step == 0 || config->job.reload, TESS_E_INVALID,
               "job.reload_step=%lld: the file is looked at only with job.reload=true: set that, too, or leave "
               "job.reload_step out",
               (long long)config->job.reload_step);
    TESS_TRY(tess_config_check_step(config, ranks));
    TESS_TRY(check_offload(config));
    const bool any_rank = tess_launch_is_rank(); /* checked by the launcher, and by the runtime */
    return tess_fault_section_check(&config->fault, ranks, any_rank, tess_train_phases);
}

tess_status tess_config_copy(const tess_config *from, tess_config *to)
{
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    TESS_TRY_CTX(tess_options_copy(tables, n_tables, to, from, sizeof(*to)), "copy of the configuration");
    return TESS_OK;
}

void tess_config_free(tess_config *config)
{
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    tess_options_free(tables, n_tables, config);
}

tess_runtime_options tess_config_runtime(const tess_config *config)
{
    return (tess_runtime_options){.n_threads = (int)config->training.threads,
                                  .comm_timeout_s = config->comm.timeout_s,
                                  .config_hash = tess_config_hash(config),
                                  .backend = (tess_backend)config->comm.backend,
                                  .tuning = config->comm.tuning,
                                  .native_reductions = config->comm.reduction == TESS_REDUCTION_NATIVE,
                                  .fault = config->fault.spec[0] != '\0' ? config->fault.spec : NULL,
                                  .fault_seed = (uint64_t)config->fault.seed,
                                  .phases = tess_train_phases,
                                  .size = sizeof(tess_runtime_options),
                                  .tls = config->comm.tls};
}

uint64_t tess_config_hash(const tess_config *config)
{
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    return tess_options_hash(tables, n_tables, config, TESS_EFFECT_CALLS | TESS_EFFECT_LAYOUT | TESS_EFFECT_BITS);
}

json_t *tess_text_list_to_json(const tess_text_list *list)
{
    json_t *items = json_array();
    for (int i = 0; i < list->n; i++)
        json_array_append_new(items, tess_json_text(list->item[i]));
    return items;
}

static json_t *value_to_json(const tess_option *option, const void *section)
{
    const void *field = (const char *)section + option->offset;
    char text[TESS_TEXT_SIZE] = "";
    switch (option->type) {
    case TESS_OPTION_BOOL:
        return json_boolean(*(const bool *)field);
    case TESS_OPTION_INT:
    case TESS_OPTION_BYTES:
        if (option->zero != NULL && *(const int64_t *)field == 0)
            return json_string(option->zero);
        return json_integer(*(const int64_t *)field);
    case TESS_OPTION_FLOAT:
        return json_real(*(const double *)field);
    case TESS_OPTION_LIST:
        return tess_text_list_to_json(field);
    default:
        return tess_options_format(option, section, text, sizeof(text)) == TESS_OK ? tess_json_text(text) : NULL;
    }
}

json_t *tess_config_to_json(const tess_config *config)
{
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    json_t *sections = json_object();
    for (int t = 0; t < n_tables; t++) {
        const tess_option_section *section = tables[t].section;
        const void *values = tess_options_section(&tables[t], config);
        json_t *object = json_object();
        for (int i = 0; i < section->n_rows; i++)
            json_object_set_new(object, strchr(section->rows[i].key, '.') + 1,
                                value_to_json(&section->rows[i], values));
        json_object_set_new(sections, section->name, object);
    }
    return sections;
}
