/* A table of other programs' keys. Users try these first, and the nearest spelling often has another meaning. */
#include "config/foreign_keys.h"

#include <ctype.h>
#include <string.h>

#define CONTEXT "there is no context parallelism yet; set activation_checkpoint.mode=full for longer rows"
#define EXPERTS "there are no mixtures of experts"
#define COMPILED "the kernels are compiled already; leave it out"
#define ALL_TOKENS \
    "answers are drawn from all tokens, as training needs it; set rollout.temperature or evaluation.temperature"
#define SHAPE "the model's shape is in that config.json"
#define TRACKERS "TensorBoard files are written (metrics.enable_tensorboard), and metrics.jsonl; leave it out"
#define RANKS "start this many ranks with -n, or with `tessera run` over hosts"
#define UNPADDED "rows hold whole documents without padding; leave it out"
#define OWN_ENGINE "rollouts are drawn by Tessera itself; leave it out"
#define EPOCHS "runs are counted in steps: set training.steps to epochs x rows / training.global_batch_size"
#define STAGE "none is DDP, zero1 and zero2 are ZeRO 1 and 2, full is ZeRO 3 and FSDP"
#define ACCUMULATED "it is the number of rows of a step: micro-batch x accumulation x data-parallel ranks"

/* clang-format off */
static const tess_foreign_key keys[] = {
    /* torchtitan */
    {"training.lr", "optimizer.lr", NULL},
    {"training.dtype", "training.mixed_precision_param", "master weights are always float32"},
    {"training.dataset", "data.files", "it takes files"},
    {"training.dataset_path", "data.files", NULL},
    {"training.gc_freq", NULL, "there is no garbage collector; leave it out"},
    {"dataset_name", "data.files", "it takes files"},
    {"model.name", "model.path", "it takes a folder; model.config takes a config.json and starts from random weights"},
    {"model.flavor", "model.config", SHAPE},
    {"model.dtype", "training.mixed_precision_param", NULL},
    {"model.converters", NULL, "training.fp8=true emulates FP8 in linear layers"},
    {"hf_assets_path", "model.path", NULL},
    {"tokenizer_path", "tokenizer.path", NULL},
    {"job.config_file", NULL, "name the YAML file as the first word"},
    {"optimizer.implementation", NULL, "there is one implementation; leave it out"},
    {"lr_min", "lr_scheduler.min_lr_factor", NULL},
    {"compile.*", NULL, COMPILED},
    {"float8.*", NULL, "training.fp8=true emulates FP8 in linear layers"},
    {"mx.*", NULL, "MX formats are not there; training.fp8=true emulates FP8 in linear layers"},
    {"profiling.*", NULL, "metrics.jsonl has the time of each part of a step; leave it out"},
    {"fault_tolerance.*", NULL, "recovery.* and elastic.* say what a failure does"},
    {"context_parallel_degree", NULL, CONTEXT},
    {"expert_parallel_degree", NULL, EXPERTS},
    {"expert_tensor_parallel_degree", NULL, EXPERTS},
    {"pipeline_parallel_microbatch_size", "training.local_batch_size", NULL},
    {"selective_ac_option", "activation_checkpoint.every_n", "set activation_checkpoint.mode=every_n with it"},
    {"enable_checkpoint", "checkpoint.enable", NULL},
    {"export_dtype", "model.save_dtype", NULL},
    {"async_mode", "checkpoint.async", "it takes true or false"},
    {"enable_wandb", NULL, TRACKERS},
    {"validation.freq", "validation.interval", NULL},
    {"validation.dataset", "validation.files", "it takes files"},
    {"init_timeout_seconds", "comm.timeout_s", NULL},
    {"train_timeout_seconds", "comm.timeout_s", NULL},
    /* transformers' Trainer and PEFT */
    {"model_name_or_path", "model.path", "it takes a folder"},
    {"output_dir", "job.dump_folder", NULL},
    {"train_file", "data.files", NULL},
    {"validation_file", "validation.files", NULL},
    {"learning_rate", "optimizer.lr", NULL},
    {"weight_decay", "optimizer.weight_decay", NULL},
    {"adam_beta1", "optimizer.beta1", NULL},
    {"adam_beta2", "optimizer.beta2", NULL},
    {"adam_epsilon", "optimizer.eps", NULL},
    {"optim", "optimizer.name", NULL},
    {"max_grad_norm", "training.max_norm", NULL},
    {"max_steps", "training.steps", NULL},
    {"num_train_epochs", NULL, EPOCHS},
    {"warmup_ratio", "lr_scheduler.warmup_steps", "it is a number of steps: the ratio x training.steps"},
    {"lr_scheduler_type", "lr_scheduler.decay_type", NULL},
    {"per_device_train_batch_size", "training.local_batch_size", NULL},
    {"per_device_eval_batch_size", NULL, "an evaluation takes training.local_batch_size rows at a time; leave it out"},
    {"gradient_accumulation_steps", "training.global_batch_size", ACCUMULATED},
    {"gradient_checkpointing", "activation_checkpoint.mode", "true is full"},
    {"bf16", "training.mixed_precision_param", "true is bfloat16, the default"},
    {"fp16", "training.mixed_precision_param", "true is float16; set training.loss_scale=0 with it"},
    {"bf16.enabled", "training.mixed_precision_param", "true is bfloat16, the default"},
    {"fp16.enabled", "training.mixed_precision_param", "true is float16; set training.loss_scale=0 with it"},
    {"torch_dtype", "training.mixed_precision_param", "master weights are always float32"},
    {"tf32", NULL, "training.mixed_precision_param chooses the precision"},
    {"torch_compile", NULL, COMPILED},
    {"attn_implementation", NULL, "there is one attention, without a stored matrix; leave it out"},
    {"load_in_4bit", NULL, "quantized weights are not trained; lora.rank trains an adapter"},
    {"load_in_8bit", NULL, "quantized weights are not trained; lora.rank trains an adapter"},
    {"save_steps", "checkpoint.interval", NULL},
    {"save_total_limit", "checkpoint.keep_latest_k", NULL},
    {"resume_from_checkpoint", "checkpoint.resume", "it is true by default; checkpoint.load_step chooses the step"},
    {"logging_steps", "metrics.log_freq", NULL},
    {"eval_steps", "validation.interval", NULL},
    {"early_stopping_patience", "validation.patience", NULL},
    {"report_to", NULL, TRACKERS},
    {"dataloader_num_workers", NULL, "there are no such processes; leave it out"},
    {"fsdp", "parallelism.shard_strategy", STAGE},
    {"deepspeed", "parallelism.shard_strategy", STAGE},
    {"use_peft", "lora.rank", "above 0 it trains an adapter"},
    {"lora_r", "lora.rank", NULL},
    {"lora_alpha", "lora.alpha", NULL},
    {"lora_dropout", "lora.dropout", "it must be 0"},
    {"lora_target_modules", "lora.targets", NULL},
    {"target_modules", "lora.targets", NULL},
    /* DeepSpeed */
    {"train_batch_size", "training.global_batch_size", NULL},
    {"train_micro_batch_size_per_gpu", "training.local_batch_size", NULL},
    {"gradient_clipping", "training.max_norm", NULL},
    {"steps_per_print", "metrics.log_freq", NULL},
    {"zero_optimization.stage", "parallelism.shard_strategy", STAGE},
    {"offload_optimizer", "offload.optimizer", "offload.folder names the folder on a disk"},
    {"offload_param", "offload.params", "offload.folder names the folder on a disk"},
    {"zero_optimization.*", NULL, "parallelism.shard_strategy and parallelism.fsdp_* say how state is sharded"},
    {"initial_scale_power", "training.loss_scale_init", "it is the scale itself: 2 to that power"},
    {"optimizer.type", "optimizer.name", NULL},
    {"scheduler.type", "lr_scheduler.decay_type", NULL},
    {"warmup_num_steps", "lr_scheduler.warmup_steps", NULL},
    {"total_num_steps", "lr_scheduler.steps", NULL},
    /* Megatron-LM */
    {"tensor_model_parallel_size", "parallelism.tensor_parallel_degree", NULL},
    {"pipeline_model_parallel_size", "parallelism.pipeline_parallel_degree", NULL},
    {"context_parallel_size", NULL, CONTEXT},
    {"expert_model_parallel_size", NULL, EXPERTS},
    {"sequence_parallel", "parallelism.enable_sequence_parallel", NULL},
    {"use_distributed_optimizer", "parallelism.shard_strategy", STAGE},
    {"micro_batch_size", "training.local_batch_size", NULL},
    {"global_batch_size", "training.global_batch_size", NULL},
    {"seq_length", "training.seq_len", NULL},
    {"train_iters", "training.steps", NULL},
    {"train_samples", NULL, "runs are counted in steps: set training.steps to samples / training.global_batch_size"},
    {"lr_warmup_iters", "lr_scheduler.warmup_steps", NULL},
    {"lr_decay_iters", "lr_scheduler.steps", NULL},
    {"lr_decay_style", "lr_scheduler.decay_type", NULL},
    {"min_lr", "lr_scheduler.min_lr_factor", "it is a share of optimizer.lr"},
    {"clip_grad", "training.max_norm", NULL},
    {"data_path", "data.files", NULL},
    {"split", "validation.fraction", "it is the share of the data that is held out"},
    {"load", "checkpoint.initial_load_path", NULL},
    {"save", "job.dump_folder", NULL},
    {"save_interval", "checkpoint.interval", NULL},
    {"eval_interval", "validation.interval", NULL},
    {"eval_iters", "validation.steps", NULL},
    {"log_interval", "metrics.log_freq", NULL},
    {"tokenizer_model", "tokenizer.path", NULL},
    {"recompute_granularity", "activation_checkpoint.mode", NULL},
    {"num_layers", "model.config", SHAPE},
    {"hidden_size", "model.config", SHAPE},
    {"num_attention_heads", "model.config", SHAPE},
    /* TRL */
    {"max_seq_length", "training.seq_len", NULL},
    {"max_length", "training.seq_len", NULL},
    {"packing", "data.split", "rows are always packed, and attention stays inside a document"},
    {"assistant_only_loss", NULL, "only the assistant's turns are trained on; leave it out"},
    {"completion_only_loss", NULL, "only completions are trained on; leave it out"},
    {"beta", "rl.kl_beta", "it is rl.dpo_beta for pairs of answers"},
    {"epsilon", "rl.clip_low", "rl.clip_high is the other side"},
    {"epsilon_high", "rl.clip_high", NULL},
    {"num_generations", "rollout.n", NULL},
    {"num_iterations", "rl.epochs", NULL},
    {"max_completion_length", "rollout.max_new_tokens", NULL},
    {"max_prompt_length", "rollout.max_prompt_tokens", NULL},
    {"loss_type", "rl.reduction", "rl.algorithm chooses the loss itself"},
    {"reward_funcs", "reward.kind", "reward.command takes a program of your own"},
    {"ref_model_sync_steps", "reference.update_interval", NULL},
    {"ref_model_mixup_alpha", "reference.ema", "it is the share that stays: 1 - alpha"},
    {"use_vllm", NULL, OWN_ENGINE},
    {"vllm_mode", NULL, OWN_ENGINE},
    {"top_p", NULL, ALL_TOKENS},
    {"top_k", NULL, ALL_TOKENS},
    {"min_p", NULL, ALL_TOKENS},
    /* verl */
    {"data.train_files", "data.files", NULL},
    {"data.val_files", "validation.files", NULL},
    {"data.train_batch_size", "rollout.prompts", NULL},
    {"max_response_length", "rollout.max_new_tokens", NULL},
    {"adv_estimator", "rl.algorithm", NULL},
    {"clip_ratio", "rl.clip_low", "rl.clip_high is the other side"},
    {"clip_ratio_low", "rl.clip_low", NULL},
    {"clip_ratio_high", "rl.clip_high", NULL},
    {"clip_ratio_c", "rl.dual_clip", NULL},
    {"entropy_coeff", "rl.entropy_coef", NULL},
    {"use_kl_loss", "rl.kl_beta", "above 0 the divergence is part of the loss"},
    {"use_kl_in_reward", "rl.kl_in_reward", NULL},
    {"kl_coef", "rl.kl_beta", NULL},
    {"kl_loss_coef", "rl.kl_beta", NULL},
    {"kl_loss_type", "rl.kl", NULL},
    {"target_kl", "rl.kl_target", NULL},
    {"algorithm.kl_ctrl.horizon", "rl.kl_horizon", NULL},
    {"algorithm.lam", "rl.lambda", NULL},
    {"loss_agg_mode", "rl.reduction", NULL},
    {"ppo_epochs", "rl.epochs", NULL},
    {"ppo_mini_batch_size", "rl.updates", "it is the number of steps of a rollout: rollout.prompts / mini-batch"},
    {"ppo_micro_batch_size_per_gpu", "training.local_batch_size", NULL},
    {"enable_gradient_checkpointing", "activation_checkpoint.mode", "true is full"},
    {"use_remove_padding", NULL, UNPADDED},
    {"gpu_memory_utilization", "rollout.cache_bytes", "it is the most bytes of a rank's keys and values"},
    {"custom_reward_function.path", "reward.command", "set reward.kind=command with it"},
    {"total_training_steps", "training.steps", NULL},
    {"total_epochs", NULL, EPOCHS},
    {"n_gpus_per_node", NULL, RANKS},
    {"trainer.nnodes", NULL, RANKS},
    {"nproc_per_node", NULL, RANKS},
    {"trainer.logger", NULL, TRACKERS},
    {"save_freq", "checkpoint.interval", NULL},
    {"test_freq", "validation.interval", NULL},
    {"val_before_train", "evaluation.at_start", NULL},
    {"default_local_dir", "job.dump_folder", NULL},
};
/* clang-format on */
enum { N_KEYS = sizeof(keys) / sizeof(keys[0]) };

const tess_foreign_key *tess_foreign_keys(int *n)
{
    *n = N_KEYS;
    return keys;
}

void tess_foreign_normalize(const char *key, char word[TESS_FOREIGN_SIZE])
{
    size_t n = 0;
    for (key += strspn(key, "-"); *key != '\0' && n + 1 < TESS_FOREIGN_SIZE; key++)
        word[n++] = *key == '-' ? '_' : (char)tolower((unsigned char)*key);
    word[n] = '\0';
}

static const tess_foreign_key *find_whole(const char *word)
{
    for (int i = 0; i < N_KEYS; i++)
        if (strcmp(keys[i].key, word) == 0)
            return &keys[i];
    return NULL;
}

static const tess_foreign_key *find_section(const char *word)
{
    for (int i = 0; i < N_KEYS; i++) {
        size_t n = strlen(keys[i].key);
        if (keys[i].key[n - 1] == '*' && strncmp(keys[i].key, word, n - 1) == 0)
            return &keys[i];
    }
    return NULL;
}

const tess_foreign_key *tess_foreign_find(const char *key)
{
    char word[TESS_FOREIGN_SIZE];
    tess_foreign_normalize(key, word);
    const char *dot = strrchr(word, '.');
    const tess_foreign_key *found = find_whole(word);
    if (found == NULL && dot != NULL && strchr(dot, '_') != NULL)
        found = find_whole(dot + 1);
    return found != NULL ? found : find_section(word);
}

tess_status tess_foreign_refuse(const tess_option_table *tables, int n_tables, const char *key)
{
    char word[TESS_FOREIGN_SIZE];
    const tess_foreign_key *found = tess_foreign_find(key);
    tess_foreign_normalize(key, word);
    if (found == NULL)
        return tess_options_refuse(tables, n_tables, word, key);
    if (found->ours == NULL)
        return TESS_FAIL(TESS_E_INVALID, "%.100s is not supported: %s", key, found->note);
    return TESS_FAIL(TESS_E_INVALID, "unknown key '%.100s': did you mean '%s'?%s%s%s", key, found->ours,
                     found->note != NULL ? " (" : "", found->note != NULL ? found->note : "",
                     found->note != NULL ? ")" : "");
}
