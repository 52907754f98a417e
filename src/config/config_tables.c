/* Every option, its default and its help: `tessera info` prints this table. */
#include "config/config.h"

#define ROW(key_, type_, field_, ...)                                                    \
    {                                                                                    \
        .key = key_, .type = type_, .offset = offsetof(tess_config, field_), __VA_ARGS__ \
    }
#define TEXT(key_, field_, fallback_, help_) ROW(key_, TESS_OPTION_TEXT, field_, .fallback = fallback_, .help = help_)
#define BOOL(key_, field_, fallback_, help_) ROW(key_, TESS_OPTION_BOOL, field_, .fallback = fallback_, .help = help_)
#define LIST(key_, field_, help_) ROW(key_, TESS_OPTION_LIST, field_, .fallback = "", .help = help_)
#define PATH(key_, field_, fallback_, help_) \
    ROW(key_, TESS_OPTION_TEXT, field_, .fallback = fallback_, .is_path = true, .help = help_)
#define PATHS(key_, field_, help_) ROW(key_, TESS_OPTION_LIST, field_, .fallback = "", .is_path = true, .help = help_)
#define INT(key_, field_, fallback_, min_, max_, help_) \
    ROW(key_, TESS_OPTION_INT, field_, .fallback = fallback_, .least = min_, .most = max_, .help = help_)
#define BYTES(key_, field_, fallback_, min_, max_, help_) \
    ROW(key_, TESS_OPTION_BYTES, field_, .fallback = fallback_, .least = min_, .most = max_, .help = help_)
#define FLOAT(key_, field_, fallback_, min_, max_, help_) \
    ROW(key_, TESS_OPTION_FLOAT, field_, .fallback = fallback_, .min = min_, .max = max_, .help = help_)
#define CHOICE(key_, field_, fallback_, choices_, help_) \
    ROW(key_, TESS_OPTION_CHOICE, field_, .fallback = fallback_, .choices = choices_, .help = help_)

static const tess_option job[] = {
    PATH("job.dump_folder", job.dump_folder, "out", "folder for everything that the run writes"),
    TEXT("job.description", job.description, "", "a line for people, shown when the run starts"),
    CHOICE("job.device", job.device, "auto", "auto|cpu|far|cuda",
           "device that computes the model; auto: cpu; cuda: NVIDIA GPUs (docs/gpu.md); far: the CPU behind a queue, "
           "to find "
           "errors that a GPU would show"),
    CHOICE("job.shards", job.shards, "auto", "auto|host|device",
           "memory that holds weights, gradients and moments; auto: the GPU's, if they fit and all options work there, "
           "else the host's (docs/gpu.md)"),
    BOOL("job.ignore_memory", job.ignore_memory, "false",
         "start although the memory that is left does not seem to suffice"),
};

static const tess_option model[] = {
    PATH("model.config", model.config, "", "config.json of a model to start from random weights"),
    PATH("model.path", model.path, "",
         "folder with config.json and weights to start from: Hugging Face's, or a checkpoint of any format"),
    CHOICE("model.save_dtype", model.save_dtype, "bfloat16", "bfloat16|float32",
           "dtype of the model written at the end"),
    INT("model.max_length", model.max_length, "0", 0, 1 << 27,
        "maximum position (dynamic RoPE scaling depends on it); 0: the model's"),
    INT("model.sum_leaves", model.sum_leaves, "1", 1, 64,
        "number of leaves in the summation tree over the feed-forward channels; part of the model, a power of two"),
};

static const tess_option tokenizer[] = {
    PATH("tokenizer.path", tokenizer.path, "",
         "tokenizer.json, or a folder with it or with vocab.json and merges.txt; empty: model.path's, or train one"),
    INT("tokenizer.vocab_size", tokenizer.vocab_size, "0", 0, 1e6,
        "size of the byte-level BPE to train on the data when there is no tokenizer; 0: the model's vocab_size"),
};

static const tess_option data[] = {
    PATHS("data.files", data.files,
          "text, JSON lines or arrays with a document in each record, or shards of token ids; patterns such as "
          "web/*.bin; a name with a comma in quotes: '\"a,b.txt\",c.txt'"),
    LIST("data.weights", data.weights,
         "shares of the entries of data.files in the rows that are trained on; empty: all are one text"),
    CHOICE(
        "data.format", data.format, "auto", "auto|text|uint16|uint32",
        "content of a .bin that does not say what it holds: uint16: token ids as nanoGPT writes them; auto: refused"),
    INT("data.end_token", data.end_token, "-1", -1, 1 << 22,
        "id that ends each document in shards of llm.c or nanoGPT; -1: the eos_token of the tokenizer, or else of "
        "config.json"),
    TEXT("data.text_key", data.text_key, "text", "member of each JSON record that holds the document"),
    TEXT("data.prompt_key", data.prompt_key, "prompt",
         "member that holds a prompt, in records without data.text_key; only its completion is trained on"),
    TEXT("data.completion_key", data.completion_key, "completion", "member that holds the completion"),
    PATH("data.chat_template", data.chat_template, "",
         "chat template of lines with messages: a .jinja file or a model's folder; empty: that in model.path"),
    CHOICE("data.split", data.split, "auto", "auto|true|false",
           "a document that does not fit in a row goes on in the next one; auto: texts do, completions do not"),
    BOOL("data.shuffle", data.shuffle, "true", "visit the rows of an epoch in a random order"),
    CHOICE("data.add_bos", data.add_bos, "auto", "auto|true|false",
           "begin each document with the bos token; auto: if the tokenizer's template (post_processor) does"),
};

static const tess_option training[] = {
    INT("training.steps", training.steps, "1000", 1, 1e12, "optimizer steps"),
    INT("training.local_batch_size", training.local_batch_size, "8", 1, 65536,
        "rows of a micro-batch, the leaf of the gradient sum"),
    INT("training.global_batch_size", training.global_batch_size, "0", 0, 1e9,
        "rows of a step over all ranks; 0: what the run began with, which was local_batch_size times its ranks"),
    INT("training.passes", training.passes, "1", 1, 65536,
        "parts that a micro-batch runs in, one after the other: activations of one part, gradients of the whole model"),
    INT("training.seq_len", training.seq_len, "512", 2, 1048576, "tokens of a row"),
    FLOAT("training.max_norm", training.max_norm, "1.0", 0, 1e30, "clip gradients to this global norm; 0: never"),
    FLOAT("training.max_value", training.max_value, "0", 0, 1e30,
          "clip each element of a gradient to this magnitude, after training.max_norm; 0: never"),
    CHOICE("training.mixed_precision_param", training.mixed_precision_param, "bfloat16",
           "bfloat16|float32|float16|float8_e4m3|auto",
           "dtype of gathered parameters and activations; float16: with training.loss_scale=0; not float8_e4m3; auto: "
           "bfloat16 where all ranks multiply it in hardware, else float32"),
    BOOL("training.fp8", training.fp8, "false",
         "emulate FP8 in linear layers (inputs and weights E4M3, gradients E5M2); not faster"),
    BOOL("training.fp8_gather", training.fp8_gather, "false",
         "ranks gather the weights of training.fp8 as E4M3, a byte each, with the same bits"),
    CHOICE("training.mixed_precision_reduce", training.mixed_precision_reduce, "float32", "bfloat16|float32|float16",
           "dtype of gradients on their way to their owner; float16: with training.loss_scale=0"),
    FLOAT("training.loss_scale", training.loss_scale, "1", 0, 0x1p60,
          "factor of gradients on their way, a power of two; 0: found by itself, as torch.amp.GradScaler does"),
    FLOAT("training.loss_scale_init", training.loss_scale_init, "65536", 0x1p-40, 0x1p60, "loss_scale=0: the first"),
    INT("training.loss_scale_interval", training.loss_scale_interval, "2000", 1, 1e12,
        "loss_scale=0: steps with finite gradients after which the scale doubles"),
    INT("training.loss_scale_hysteresis", training.loss_scale_hysteresis, "1", 1, 1e9,
        "loss_scale=0: halve the scale at the N-th skipped step since it last grew; 1: torch's rule, 2: DeepSpeed's"),
    BOOL("training.loss_scale_in_a_row", training.loss_scale_in_a_row, "false",
         "loss_scale_hysteresis: only steps that are skipped in a row count (DeepSpeed's consecutive_hysteresis)"),
    FLOAT("training.loss_scale_min", training.loss_scale_min, "0", 0, 0x1p60,
          "loss_scale=0: the least; a step that overflows with it ends the run; 0: 2^-40"),
    INT("training.threads", training.threads, "0", 0, 1024, "compute threads of a rank; 0: cores divided by ranks"),
    LIST("training.freeze", training.freeze,
         "parameters that do not train: names or their first words, with *, ? and [0-9]: model.layers.[0-3]"),
};

static const tess_option lora[] = {
    INT("lora.rank", lora.rank, "0", 0, 65536, "train an adapter of this rank and nothing else; 0: the model itself"),
    FLOAT("lora.alpha", lora.alpha, "0", 0, 1e6, "the adapter's part counts alpha / rank times; 0: once"),
    LIST("lora.targets", lora.targets,
         "linear maps that have an adapter: names or ends of names (q_proj), or all-linear; empty: all-linear"),
    BOOL("lora.use_rslora", lora.use_rslora, "false", "count it alpha / sqrt(rank) times"),
    FLOAT("lora.dropout", lora.dropout, "0", 0, 1, "PEFT's; 0 alone"),
    PATH("lora.path", lora.path, "",
         "folder with an adapter to start from, as PEFT or an earlier run wrote it, which says all of the above"),
};

static const tess_option optimizer[] = {
    CHOICE("optimizer.name", optimizer.name, "adamw", "adamw|adam|sgd|muon|adamw8bit",
           "muon: matrices of layers, the rest by adamw; adamw8bit: 8-bit moments of matrices of layers"),
    FLOAT("optimizer.lr", optimizer.lr, "3e-4", 0, 1e6, "peak learning rate; 1e-6 by default in `tessera rl`"),
    FLOAT("optimizer.beta1", optimizer.beta1, "0.9", 0, 0.999999, "decay of the first moment"),
    FLOAT("optimizer.beta2", optimizer.beta2, "0.95", 0, 0.999999, "decay of the second moment"),
    FLOAT("optimizer.eps", optimizer.eps, "1e-8", 0, 1, "added to the root of the second moment"),
    FLOAT("optimizer.weight_decay", optimizer.weight_decay, "0.1", 0, 1e3,
          "decoupled (adam, sgd: added to the gradient); never on norms and biases"),
    FLOAT("optimizer.momentum", optimizer.momentum, "0.95", 0, 0.999999,
          "momentum of sgd and muon; 0: sgd has no state"),
    BOOL("optimizer.nesterov", optimizer.nesterov, "true", "sgd, muon: Nesterov's momentum"),
    CHOICE("optimizer.muon_rate", optimizer.muon_rate, "match_rms", "match_rms|original",
           "muon's step for a matrix of R by C: lr 0.2 sqrt(max(R, C)), as far as adamw; or lr sqrt(max(1, R / C))"),
    CHOICE("optimizer.state_dtype", optimizer.state_dtype, "float32", "bfloat16|float32",
           "dtype of moments; bfloat16: rounded up or down at random, the same on any number of ranks"),
};

static const tess_option lr_scheduler[] = {
    INT("lr_scheduler.warmup_steps", lr_scheduler.warmup_steps, "-1", -1, 1e12,
        "linear rise from 0; -1: 100, or all steps of the schedule where they are fewer"),
    INT("lr_scheduler.steps", lr_scheduler.steps, "0", 0, 1e12,
        "steps of the schedule, after which its last learning rate stays; 0: training.steps"),
    CHOICE("lr_scheduler.decay_type", lr_scheduler.decay_type, "cosine", "constant|linear|cosine|wsd",
           "shape after the rise; wsd: constant, then linear over decay_ratio of the steps"),
    FLOAT("lr_scheduler.min_lr_factor", lr_scheduler.min_lr_factor, "0.1", 0, 1, "last learning rate over the peak"),
    FLOAT("lr_scheduler.decay_ratio", lr_scheduler.decay_ratio, "0.2", 0, 1, "wsd: share of the steps that decays"),
};

static const tess_option parallelism[] = {
    INT("parallelism.data_parallel_replicate_degree", parallelism.data_parallel_replicate_degree, "-1", -1, 65536,
        "replicas of the sharded model; -1: hybrid: what the shard degree leaves, or one a host; else 1"),
    INT("parallelism.data_parallel_shard_degree", parallelism.data_parallel_shard_degree, "-1", -1, 65536,
        "ranks that share one copy; -1: the world divided by the replicas"),
    INT("parallelism.fsdp_reshard_after_forward", parallelism.fsdp_reshard_after_forward, "1", 0, 65536,
        "1: free gathered parameters after forward; 0: keep them until backward; n divides the shard degree: each rank "
        "keeps 1/n, gathered in backward over n ranks (a host that has all n keeps one shared copy instead)"),
    INT("parallelism.fsdp_prefetch", parallelism.fsdp_prefetch, "1", 0, 64, "units gathered ahead of use"),
    INT("parallelism.fsdp_unit_blocks", parallelism.fsdp_unit_blocks, "1", 1, 1 << 20,
        "merge neighbouring layers into FSDP units of at least this many layers"),
    BYTES("parallelism.fsdp_unit_bytes", parallelism.fsdp_unit_bytes, "0", 0, 1LL << 50,
          "and at least this many bytes of gathered parameters, such as 25MiB"),
    BOOL("parallelism.fsdp_unit_mixed", parallelism.fsdp_unit_mixed, "false",
         "the embedding and the head join layers too, not only layers each other"),
    CHOICE(
        "parallelism.shard_strategy", parallelism.shard_strategy, "full", "none|zero1|zero2|full|hybrid",
        "none: DDP; zero1: optimizer state; zero2: and gradients; full: and parameters; hybrid: full within replicas"),
    INT("parallelism.tensor_parallel_degree", parallelism.tensor_parallel_degree, "1", 1, 4096,
        "ranks that share every layer, each with some of its heads, channels and columns of tables"),
    BOOL("parallelism.enable_sequence_parallel", parallelism.enable_sequence_parallel, "true",
         "these ranks share the stream between layers too, each with some of its rows; false: each has all of it"),
    BOOL("parallelism.enable_async_tensor_parallel", parallelism.enable_async_tensor_parallel, "false",
         "torchtitan's; changes nothing: exchanges are one copy into shared memory, and products need all of it"),
    INT("parallelism.pipeline_parallel_degree", parallelism.pipeline_parallel_degree, "1", 1, 4096,
        "stages that the layers are cut into, each on ranks of its own"),
    ROW("parallelism.pipeline_parallel_schedule", TESS_OPTION_CHOICE, parallelism.pipeline_parallel_schedule,
        .fallback = "1f1b", .choices = "gpipe|1f1b|interleaved|zb_h1|zbv|dualpipev",
        .also = "GPipe|1F1B|Interleaved1F1B||ZBVZeroBubble|DualPipeV", /* torchtitan's */
        .help = "order of forwards and backwards; the last four give a rank several stages or split the backward"),
    INT("parallelism.pipeline_parallel_layers_per_stage", parallelism.pipeline_parallel_layers_per_stage, "0", 0, 65536,
        "layers of a stage, which says how many stages a rank has; 0: the schedule's 1 or 2"),
    INT("parallelism.pipeline_parallel_first_stage_less_layers", parallelism.pipeline_parallel_first_stage_less_layers,
        "-1", -1, 65536, "layers that the embedding counts as where stages are cut; -1: as its operations come to"),
    INT("parallelism.pipeline_parallel_last_stage_less_layers", parallelism.pipeline_parallel_last_stage_less_layers,
        "-1", -1, 65536, "the same of the head"),
};

static const tess_option activation_checkpoint[] = {
    CHOICE("activation_checkpoint.mode", activation_checkpoint.mode, "none", "none|full|every_n|selective",
           "layers whose forward runs again in backward instead of keeping its activations; selective: parts of it"),
    INT("activation_checkpoint.every_n", activation_checkpoint.every_n, "2", 1, 65536, "every_n: layers 0, n, 2n, ..."),
    LIST("activation_checkpoint.recompute", activation_checkpoint.recompute,
         "selective: what is computed again, of feed_forward, attention_inputs, residual, attention; empty: all that "
         "budget asks for"),
    BYTES("activation_checkpoint.budget", activation_checkpoint.budget, "0", 0, INT64_MAX,
          "selective: bytes of activations of a rank, as 2GiB; as little is computed again as they allow; 0: all of "
          "recompute is"),
    BOOL("activation_checkpoint.partition", activation_checkpoint.partition, "false",
         "ranks that share layers each keep their rows of the input of a layer that runs again, not all of it; with "
         "parallelism.enable_sequence_parallel they do anyway"),
};

static const tess_option offload[] = {
    PATH("offload.folder", offload.folder, "", "folder on a disk for what is offloaded; its files have no names"),
    BOOL("offload.params", offload.params, "false", "master weights lie on disk: 4 bytes a parameter"),
    BOOL("offload.grads", offload.grads, "false", "sums of gradients lie on disk: 4 bytes a parameter, or more"),
    BOOL("offload.optimizer", offload.optimizer, "false", "moments lie on disk: 8 bytes a parameter (adamw)"),
    BOOL("offload.activations", offload.activations, "false",
         "activations that wait for backward lie on disk, three layers of them in memory; needs job.device=cpu"),
    BYTES("offload.resident", offload.resident, "0", 0, 1LL << 50,
          "bytes of them in a rank's memory at a time, as 2GiB; 0: enough for the largest unit and its neighbours"),
};

static const tess_option checkpoint[] = {
    BOOL("checkpoint.enable", checkpoint.enable, "true", "save at intervals and when interrupted"),
    PATH("checkpoint.folder", checkpoint.folder, "checkpoint", "inside job.dump_folder"),
    INT("checkpoint.interval", checkpoint.interval, "500", 1, 1e12, "steps between saves"),
    INT("checkpoint.keep_latest_k", checkpoint.keep_latest_k, "2", 0, 1e6,
        "number of complete checkpoints to keep; 0: all"),
    BOOL("checkpoint.resume", checkpoint.resume, "true", "resume from the newest complete checkpoint in the folder"),
    BOOL("checkpoint.host_local", checkpoint.host_local, "false",
         "job.dump_folder is a folder of its own on every host: each keeps the rows of its ranks there"),
    BOOL("checkpoint.async", checkpoint.async, "true",
         "training stands still only while its state is copied; another process writes the copy (memory: as much "
         "again)"),
    CHOICE("checkpoint.weights_dtype", checkpoint.weights_dtype, "float32", "bfloat16|float32",
           "dtype of saved weights; bfloat16: smaller, but a resumed run has other bits"),
    CHOICE("checkpoint.compress", checkpoint.compress, "none", "none|zstd", "compression of the data"),
    BOOL("checkpoint.direct_io", checkpoint.direct_io, "true", "write past the page cache where the file system can"),
    CHOICE(
        "checkpoint.on_error", checkpoint.on_error, "warn", "warn|stop",
        "if a checkpoint cannot be written: warn and go on, or end the run; a failure of the last one always ends it"),
    BOOL("checkpoint.memory_copies", checkpoint.memory_copies, "false",
         "ranks on one host keep their state in /dev/shm until the run is finished: the same command goes on from the "
         "last step after whatever ended it"),
    FLOAT("checkpoint.emergency_grace_s", checkpoint.emergency_grace_s, "120", 0, 1e6,
          "seconds to finish the step and save after SIGTERM, SIGINT or SIGUSR1, until the ranks are killed; 0: never"),
    INT("checkpoint.load_step", checkpoint.load_step, "-1", -1, 1e12,
        "resume from this step, and set newer checkpoints aside; -1: the newest"),
    CHOICE("checkpoint.on_damage", checkpoint.on_damage, "stop", "stop|previous",
           "if the checkpoint to resume from is damaged: stop and name the previous one, or resume from that"),
    LIST("checkpoint.exclude_from_loading", checkpoint.exclude_from_loading,
         "parts that are not loaded and start anew: optimizer, lr_scheduler, data, or names of tensors with * and ?"),
    PATH(
        "checkpoint.initial_load_path", checkpoint.initial_load_path, "",
        "checkpoint or model of any format (docs/checkpoint-formats.md) to start from while this run has no checkpoint "
        "of its own"),
    BOOL("checkpoint.initial_load_model_only", checkpoint.initial_load_model_only, "true",
         "take the weights alone from initial_load_path; false: go on as that run would (Tessera's checkpoints)"),
};

static const tess_option recovery[] = {
    BOOL("recovery.enable", recovery.enable, "true", "-n: after a failure, continue from the newest valid state"),
    BOOL("recovery.hot", recovery.hot, "true",
         "replace a lost rank; the other processes stay, and at most one step is repeated"),
    INT("recovery.max_failures", recovery.max_failures, "3", 0, 64,
        "this many failures within recovery.window_s end the job; 0: no limit"),
    FLOAT("recovery.window_s", recovery.window_s, "3600", 0, 1e9, "see max_failures, in seconds"),
    FLOAT("recovery.backoff_s", recovery.backoff_s, "1", 0, 1e6,
          "pause before the ranks start again when no step was done since the last failure; doubles each time"),
    FLOAT("recovery.backoff_max_s", recovery.backoff_max_s, "60", 0, 1e6, "longest pause, in seconds"),
    CHOICE(
        "recovery.on_nan", recovery.on_nan, "rollback", "rollback|stop",
        "reaction when numbers.on_nonfinite=stop ends a run; rollback: go back to the newest checkpoint, once a step"),
};

static const tess_option elastic[] = {
    INT("elastic.min_ranks", elastic.min_ranks, "0", 0, 512,
        "leave out a place whose ranks keep failing while this many ranks remain; 0: never"),
    INT("elastic.max_ranks", elastic.max_ranks, "0", 0, 512,
        "grow to as many ranks, at a checkpoint, when there is room for elastic.retry_s; 0: as many as were started"),
    FLOAT("elastic.retry_s", elastic.retry_s, "600", 0, 1e9,
          "seconds until a place that was left out is tried again, at the next checkpoint"),
};

static const tess_option validation[] = {
    BOOL("validation.enable", validation.enable, "true", "evaluate at intervals and at the end"),
    PATHS("validation.files", validation.files, "text to evaluate on; empty: the end of data.files, see fraction"),
    FLOAT("validation.fraction", validation.fraction, "0.05", 0, 0.9,
          "share at the end of each data file that is held out (validation.files is empty)"),
    INT("validation.interval", validation.interval, "100", 1, 1e12, "steps between evaluations"),
    INT("validation.patience", validation.patience, "0", 0, 1e6,
        "evaluations in a row without a better loss after which the run ends; its best model is in best/; 0: never"),
    FLOAT("validation.min_delta", validation.min_delta, "0", 0, 1e9,
          "a loss is better if it is lower than the best by more than this"),
    INT("validation.steps", validation.steps, "0", 0, 1e12, "micro-batches of an evaluation; 0: all of the text"),
    FLOAT("validation.timeout_s", validation.timeout_s, "1800", 0, 1e9,
          "seconds after which an evaluation ends and counts as partial; 0: never"),
    INT("validation.retries", validation.retries, "3", 0, 100,
        "times that ranks go on with smaller micro-batches after one failed; then the result is partial or missing"),
};

static const tess_option metrics[] = {
    INT("metrics.log_freq", metrics.log_freq, "10", 1, 1e9, "steps between log lines"),
    BOOL("metrics.enable_tensorboard", metrics.enable_tensorboard, "true", "write TensorBoard event files"),
    INT("metrics.pipeline_timeline", metrics.pipeline_timeline, "0", 0, 1e9,
        "steps between pictures of when each stage worked, in the log and in pipeline/ of job.dump_folder; 0: none"),
    PATH("metrics.tensorboard_folder", metrics.tensorboard_folder, "tb", "inside job.dump_folder"),
};

static const tess_option sample[] = {
    TEXT("sample.prompt", sample.prompt, "", "text to continue at the end of training; empty: no sample"),
    INT("sample.max_new_tokens", sample.max_new_tokens, "100", 0, 1e6, "length of the sample"),
    FLOAT("sample.temperature", sample.temperature, "0.8", 0, 100, "0: greedy"),
    INT("sample.top_k", sample.top_k, "0", 0, 1e6, "draw from the k likeliest tokens; 0: all"),
    FLOAT("sample.top_p", sample.top_p, "0.95", 0, 1, "draw from the likeliest tokens that reach this probability"),
};

static const tess_option rl[] = {
    CHOICE("rl.algorithm", rl.algorithm, "grpo",
           "grpo|dr_grpo|rloo|batch_std|reinforce_pp|reinforce_pp_baseline|gspo|cispo|ppo|dpo|ipo|hinge",
           "how rewards become gradients; the last three train on pairs of answers and draw none"),
    FLOAT("rl.clip_low", rl.clip_low, "0.2", 0, 1e6, "ratios are clipped at 1 - clip_low"),
    FLOAT("rl.clip_high", rl.clip_high, "0.2", 0, 1e6, "and at 1 + clip_high"),
    FLOAT("rl.dual_clip", rl.dual_clip, "0", 0, 1e6, "bound of the ratio where the advantage is below 0; 0: none"),
    FLOAT("rl.kl_beta", rl.kl_beta, "0", 0, 1e6,
          "weight of the divergence from the reference; 0: no reference is kept"),
    CHOICE("rl.kl", rl.kl, "k3", "k1|k2|k3", "estimator of that divergence (Schulman's); k1 in rewards alone"),
    BOOL("rl.kl_in_reward", rl.kl_in_reward, "false",
         "subtract an answer's divergence from its reward, before the baseline, instead of adding it to the loss"),
    FLOAT("rl.kl_target", rl.kl_target, "0", 0, 1e6, "adapt kl_beta to this divergence; 0: leave it"),
    FLOAT("rl.kl_horizon", rl.kl_horizon, "10000", 1, 1e12, "samples in which kl_beta adapts"),
    FLOAT("rl.entropy_coef", rl.entropy_coef, "0", -1e6, 1e6, "weight of the entropy, which the loss rewards"),
    CHOICE("rl.reduction", rl.reduction, "auto", "auto|token_mean|seq_mean_token_mean|seq_mean_token_sum|constant",
           "divisor of the losses of a step's tokens: all of its tokens; each sequence's tokens, then the sequences; "
           "the sequences; the sequences and rl.constant. auto: seq_mean_token_mean for gspo, constant for "
           "dr_grpo, else token_mean"),
    FLOAT("rl.constant", rl.constant, "0", 0, 1e12,
          "reduction=constant: divides, with the sequences, the sum of a step's tokens; 0: rollout.max_new_tokens"),
    INT("rl.updates", rl.updates, "1", 1, 65536,
        "optimizer steps that share one rollout, each on its part of the prompts"),
    INT("rl.epochs", rl.epochs, "1", 1, 65536, "times that each part is trained on"),
    CHOICE("rl.correction", rl.correction, "none", "none|tis|icepop|sequence_mask",
           "samples drawn by other weights: weigh each token by the clamped ratio; drop tokens whose ratio is outside; "
           "drop sequences whose mean ratio is. Their log-probabilities are computed again before each rollout"),
    FLOAT("rl.correction_low", rl.correction_low, "0", 0, 1e6, "least ratio of the correction"),
    FLOAT("rl.correction_high", rl.correction_high, "2", 0, 1e6, "greatest ratio of the correction"),
    FLOAT("rl.opsm_delta", rl.opsm_delta, "0", 0, 1e6,
          "drop sequences of negative advantage that have moved by more than this per token; 0: keep all"),
    CHOICE("rl.on_mismatch", rl.on_mismatch, "stop", "stop|warn|correct",
           "if training and rollout give a token other log-probabilities: end the run, warn, or compute them again and "
           "correct"),
    BOOL("rl.filter", rl.filter, "false",
         "leave out prompts whose samples all have the same reward, and draw others (DAPO)"),
    INT("rl.max_rounds", rl.max_rounds, "16", 1, 65536, "filter: times that missing prompts are drawn for one rollout"),
    INT("rl.overlong_tokens", rl.overlong_tokens, "0", 0, 1e9,
        "tokens before rollout.max_new_tokens over which a penalty grows from 0 to overlong_penalty; 0: none"),
    FLOAT("rl.overlong_penalty", rl.overlong_penalty, "1", 0, 1e6, "see overlong_tokens"),
    FLOAT("rl.gamma", rl.gamma, "1", 0, 1, "ppo, reinforce_pp: discount of later rewards"),
    FLOAT("rl.lambda", rl.lambda, "1", 0, 1, "ppo: decay of generalised advantages"),
    FLOAT("rl.value_clip", rl.value_clip, "0.2", 0, 1e6, "ppo: how far a value may move from its old one; 0: anywhere"),
    FLOAT("rl.eps", rl.eps, "1e-6", 0, 1, "added to deviations that rewards are divided by"),
    BOOL("rl.norm_advantages", rl.norm_advantages, "false",
         "advantages of a rollout's tokens get mean 0 and deviation 1"),
    FLOAT("rl.dpo_beta", rl.dpo_beta, "0.1", 0, 1e6, "dpo, ipo, hinge: weight of the divergence from the reference"),
    FLOAT("rl.label_smoothing", rl.label_smoothing, "0", 0, 0.5, "dpo: share of pairs that may be the wrong way round"),
    FLOAT("rl.max_lag", rl.max_lag, "0", 0, 1e12,
          "advise when the weights that drew a rollout are older than this many steps in the mean; 0: never"),
    INT("rl.keep_journals", rl.keep_journals, "0", 0, 1e9,
        "newest rollouts whose samples stay in job.dump_folder/rl; 0: all"),
    CHOICE("rl.balance", rl.balance, "cost", "cost|lpt|karmarkar_karp",
           "micro-batches: cost: as full as they get, the dearest first; lpt, karmarkar_karp: all cost about the same"),
    CHOICE("rl.phase", rl.phase, "both", "both|rollout|train",
           "rollout: draw and keep samples, train nothing; train: on samples that were kept, drawing none"),
};

static const tess_option rollout[] = {
    INT("rollout.prompts", rollout.prompts, "64", 1, 1e9, "prompts of a rollout; pairs of a step with dpo"),
    INT("rollout.n", rollout.n, "8", 1, 65536, "samples of each prompt"),
    INT("rollout.max_new_tokens", rollout.max_new_tokens, "256", 1, 1e9, "longest answer"),
    INT("rollout.max_prompt_tokens", rollout.max_prompt_tokens, "0", 0, 1e9,
        "longer prompts are left out; 0: those that leave no room in training.seq_len"),
    FLOAT("rollout.temperature", rollout.temperature, "1", 0.01, 100,
          "temperature of the policy, in drawing and in training"),
    LIST("rollout.stop", rollout.stop,
         "texts that end an answer with the token that completes one, in addition to the model's end tokens"),
    INT("rollout.budget_tokens", rollout.budget_tokens, "0", 0, 1e9,
        "tokens that a sample gets in one rollout; it goes on in the next one; 0: all that it wants"),
    INT("rollout.in_flight", rollout.in_flight, "0", 0, 1e9,
        "prompts under way with budget_tokens; 0: twice rollout.prompts"),
    INT("rollout.lag", rollout.lag, "0", 0, 1, "1: samples are drawn with the weights before the newest update"),
    INT("rollout.max_sequences", rollout.max_sequences, "64", 1, 4096, "samples that a rank draws at once"),
    INT("rollout.pass_tokens", rollout.pass_tokens, "512", 1, 1e9, "tokens of a forward pass in drawing"),
    BYTES("rollout.cache_bytes", rollout.cache_bytes, "0", 0, 1e15,
          "most bytes of a rank's keys and values; 0: as max_sequences need"),
    TEXT("rollout.prompt_key", rollout.prompt_key, "",
         "member of each jsonl line that holds the prompt, a string or messages; empty: prompt, or else messages"),
    TEXT("rollout.label_key", rollout.label_key, "",
         "member that holds the right answer; empty: label, answer or ground_truth"),
    PATHS("rollout.env_command", rollout.env_command,
          "words of a program that answers each turn of the model (docs/rl.md); empty: one turn"),
    INT("rollout.max_turns", rollout.max_turns, "8", 1, 65536, "most turns with env_command"),
    INT("rollout.ranks", rollout.ranks, "0", 0, 65536,
        "number of ranks, the job's last ones, that only draw and grade samples; the others train; 0: all do both"),
    BYTES("rollout.sync_bytes", rollout.sync_bytes, "33554432", 4096, 1e12,
          "bytes of weights in a message to those ranks; two are under way at once"),
};

static const tess_option reward[] = {
    TEXT("reward.kind", reward.kind, "exact",
         "exact, number, boxed, regex, format, countdown, signs, f1, length, overlong, command, http; several with "
         "weights: "
         "number:1,format:0.1"),
    TEXT("reward.regex", reward.regex, "", "regex: the pattern (PCRE2)"),
    TEXT("reward.format", reward.format, "", "format: the pattern of a whole answer (PCRE2)"),
    BOOL("reward.number_fallback", reward.number_fallback, "false",
         "number: without ####, the answer's last number counts"),
    PATHS("reward.command", reward.command, "command: words of the program that grades answers, a line of JSON each"),
    ROW("reward.url", TESS_OPTION_TEXT, reward.url, .fallback = "", .is_url = true,
        .help = "http: where prompt, response and label are posted"),
    PATH("reward.header_file", reward.header_file, "",
         "http: file of headers for each request, a line each, like Authorization: Bearer KEY"),
    LIST("reward.header_env", reward.header_env, "http: names of variables that hold such headers"),
    INT("reward.workers", reward.workers, "2", 1, 1024, "processes or requests of a rank at a time"),
    INT("reward.in_flight", reward.in_flight, "1", 1, 65536,
        "command: answers that a process is given before it replies"),
    FLOAT("reward.timeout_s", reward.timeout_s, "30", 0.01, 86400,
          "seconds until an answer's grading counts as failed"),
    FLOAT("reward.start_s", reward.start_s, "30", 0, 86400, "command: seconds more for a process's first reply"),
    INT("reward.retries", reward.retries, "3", -1, 100,
        "command, http: further tries of an item after an end, a silence or a lost connection; 0: none"),
    FLOAT("reward.max_failures", reward.max_failures, "0.1", 0, 1,
          "share of a rollout's gradings, over all ranks, that may fail before the run ends; those count as no reward"),
    BYTES("reward.max_answer_bytes", reward.max_answer_bytes, "65536", 64, 1e9, "command, http: longest reply"),
    BYTES("reward.max_memory_bytes", reward.max_memory_bytes, "8589934592", 0, 1e15,
          "command: address space of a process"),
    INT("reward.max_cpu_s", reward.max_cpu_s, "0", 0, 1e9, "command: processor time of a process; 0: any"),
    INT("reward.max_processes", reward.max_processes, "1024", 1, 1e6,
        "command: processes that a grader may have (not of root)"),
    CHOICE("reward.sandbox", reward.sandbox, "none", "none|bwrap",
           "command: bwrap: no network, no file of the host to write"),
    PATHS("reward.readable", reward.readable,
          "bwrap: files and folders to show from /home, /root, /run, /tmp and /var/tmp, which are empty inside"),
    LIST("reward.env", reward.env, "command: names of variables that it gets in addition to PATH, HOME and LANG"),
    TEXT("reward.user", reward.user, "", "command: user that it runs as, by name or number; empty: ours; needs root"),
};

static const tess_option reference[] = {
    PATH("reference.path", reference.path, "",
         "folder of the reference's weights; empty: those that the run begins with"),
    INT("reference.update_interval", reference.update_interval, "0", 0, 1e12,
        "steps after which the reference becomes the policy; 0: never"),
    FLOAT("reference.ema", reference.ema, "0", 0, 1, "share of itself that the reference keeps at each update"),
};

static const tess_option critic[] = {
    CHOICE("critic.trunk", critic.trunk, "own", "own|shared",
           "ppo: own: values come from a second model; shared: from a head on the policy's last layer"),
    PATH("critic.path", critic.path, "", "ppo: folder of the value model; empty: model.path, with a new head"),
    FLOAT("critic.lr", critic.lr, "1e-5", 0, 1e6, "its learning rate; shared: the policy's"),
    FLOAT("critic.coef", critic.coef, "0.5", 0, 1e6, "shared: weight of the value loss next to the policy's"),
};

static const tess_option evaluation[] = {
    INT("evaluation.n", evaluation.n, "16", 1, 65536, "samples of each prompt of validation.files"),
    FLOAT("evaluation.temperature", evaluation.temperature, "1", 0, 100, "temperature of these samples; 0: greedy"),
    FLOAT("evaluation.threshold", evaluation.threshold, "1", -1e30, 1e30,
          "reward from which an answer counts as right"),
    BOOL("evaluation.at_start", evaluation.at_start, "true", "evaluate before the first step too"),
};

static const tess_option health[] = {
    BOOL("health.enable", health.enable, "true", "watch memory, disk, open files and ranks while the job runs"),
    FLOAT("health.interval_s", health.interval_s, "10", 0.01, 86400, "seconds between two checks"),
    FLOAT("health.memory_percent", health.memory_percent, "90", 0, 100,
          "share of the machine's memory, or the control group's, from which the host counts as degraded; 0: never"),
    INT("health.fds", health.fds, "10000", 0, 1e9, "open files of a rank (or 90% of its limit); 0: its limit alone"),
    BYTES("health.disk_bytes", health.disk_bytes, "0", 0, 1e18,
          "bytes to be free where checkpoints go, as 10GiB, if more than two of the newest take"),
    INT("health.inodes", health.inodes, "1000", 0, 1e12, "files that must be possible there; 0: any"),
    FLOAT("health.heartbeat_s", health.heartbeat_s, "-1", -1, 1e9,
          "silence of a rank, in seconds; three times that in evaluation and checkpoints; -1: half of comm.timeout_s; "
          "0: forever"),
    FLOAT("health.stall_s", health.stall_s, "-1", -1, 1e9,
          "seconds without a finished step; -1: 1800 more than validation.timeout_s, or comm.timeout_s if that is "
          "longer; 0: forever"),
    FLOAT("health.load", health.load, "0", 0, 1e6, "processes that want a core, for each core; 0: any"),
    FLOAT("health.gpu_celsius", health.gpu_celsius, "85", 0, 1000, "limit for the hottest GPU; 0: none"),
    FLOAT("health.gpu_memory_percent", health.gpu_memory_percent, "95", 0, 100, "limit for the fullest GPU; 0: none"),
    INT("health.gpu_errors", health.gpu_errors, "1", 0, 1e12, "uncorrected errors of a GPU's memory; 0: any"),
    INT("health.max_failures", health.max_failures, "3", 1, 1e9,
        "failed checks in a row that turn degraded into unhealthy"),
    PATHS("health.alert_command", health.alert_command,
          "words of a program that gets each alert, as a line of JSON (and TESSERA_ALERT_TEXT, ...); empty: none"),
    FLOAT("health.alert_timeout_s", health.alert_timeout_s, "10", 0.1, 3600, "seconds until it is killed"),
};

static const tess_option comm[] = {
    FLOAT("comm.timeout_s", comm.timeout_s, "600", 0.1, 1e6, "deadline of a collective, in seconds"),
    FLOAT("comm.soft_timeout_s", comm.soft_timeout_s, "0.75", 0, 1e6,
          "seconds until a rank that others wait for is named; longer where such waits are usual; 0: never"),
    CHOICE("comm.on_timeout", comm.on_timeout, "abort", "report|abort|recover",
           "reaction at comm.timeout_s; report: name the late rank, wait on; abort: end the job; recover: end it for a "
           "restart"),
    CHOICE("comm.backend", comm.backend, "auto", "auto|shm|mpi",
           "auto: shared memory on a host and MPI between hosts; mpi: MPI between any two ranks"),
    CHOICE("comm.reduction", comm.reduction, "tree", "tree|native",
           "native: sums between hosts are MPI's own, and equality across world sizes is given up"),
    PATH("comm.tuning", comm.tuning, "", "file of `tessera bench comm --tune`; empty: built-in choices"),
};

static const tess_option numbers[] = {
    CHOICE("numbers.on_nonfinite", numbers.on_nonfinite, "stop", "stop|skip",
           "a loss or gradient that is NaN or infinite ends the run, or leaves out the step's update"),
    INT("numbers.max_skips", numbers.max_skips, "10", 0, 1e9, "steps in a row that may be skipped"),
    CHOICE("numbers.check", numbers.check, "replay", "replay|always",
           "replay: who made a NaN is found by computing the step again; always: every value is checked on its way"),
    FLOAT("numbers.spike_z", numbers.spike_z, "6", 0, 100,
          "warn of a loss or gradient norm this many deviations above the newest 128; 0: never"),
    FLOAT("numbers.skip_update_lossz", numbers.skip_update_lossz, "0", 0, 100,
          "leave out the update of a step whose loss is this many deviations above the newest 128; 0: never"),
    FLOAT("numbers.skip_update_gradz", numbers.skip_update_gradz, "0", 0, 100, "the same for its gradient norm"),
    INT("numbers.replica_check_interval", numbers.replica_check_interval, "100", 0, 1e12,
        "steps between checks that all copies of weights and optimizer state are the same bits; 0: never"),
};

static const tess_option debug[] = {
    INT("debug.seed", debug.seed, "0", 0, 9007199254740992.0, "decides initial weights, data order and samples"),
    BOOL("debug.deterministic", debug.deterministic, "true", "always so here; accepted for compatibility"),
    BOOL("debug.trace", debug.trace, "true", "keep each rank's last events in job.dump_folder/trace"),
};

static const tess_option fault[] = {
    TEXT("fault.spec", fault.spec, "",
         "fault to inject, for drills: \"rank=3 step=12 point=before:reduce_scatter_pieces kind=skip\""),
    INT("fault.seed", fault.seed, "0", 0, 9007199254740992.0, "decides what the spec calls random"),
};

#define TABLE(section_, help_)                                                    \
    {                                                                             \
#section_, help_, section_, (int)(sizeof(section_) / sizeof(section_[0])) \
    }

static const tess_option_table tables[] = {
    TABLE(job, "the run, its folder and its device"),
    TABLE(model, "the model to train"),
    TABLE(tokenizer, "text to ids"),
    TABLE(data, "the text to train on"),
    TABLE(training, "sizes and precision of a step"),
    TABLE(lora, "adapters"),
    TABLE(optimizer, "the update of the weights"),
    TABLE(lr_scheduler, "learning rate over time"),
    TABLE(parallelism, "how ranks share the model"),
    TABLE(activation_checkpoint, "memory for time"),
    TABLE(offload, "state on disk"),
    TABLE(checkpoint, "saving and resuming"),
    TABLE(recovery, "after a failure"),
    TABLE(elastic, "another number of ranks"),
    TABLE(validation, "held-out text"),
    TABLE(metrics, "log lines and files"),
    TABLE(sample, "text generated at the end"),
    TABLE(rl, "reinforcement learning (tessera rl)"),
    TABLE(rollout, "samples that it draws"),
    TABLE(reward, "how they are graded"),
    TABLE(reference, "the model that the policy is compared with"),
    TABLE(critic, "the value model of ppo"),
    TABLE(evaluation, "held-out prompts: validation.files"),
    TABLE(health, "the state of the host, and alerts"),
    TABLE(comm, "collectives"),
    TABLE(numbers, "NaN, spikes, replicas"),
    TABLE(debug, "reproducibility and traces"),
    TABLE(fault, "drills"),
};

const tess_option_table *tess_config_tables(int *n_tables)
{
    *n_tables = (int)(sizeof(tables) / sizeof(tables[0]));
    return tables;
}
