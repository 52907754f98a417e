/* The sections of a configuration. Those of modules above this one, and those that several modules read, have their
 * options here; each other section's options live with its module. */
#include "base/core/option_rows.h"
#include "config/config.h"

static const tess_option job[] = {
    PATH(job, dump_folder, CALLS, "out", "folder for everything that the run writes"),
    TEXT(job, description, NOTHING, "", "a line for people, shown when the run starts"),
    CHOICE(job, device, LAYOUT_AND_BITS, "auto", "auto|cpu|far|cuda",
           "device that computes the model; auto: cpu; cuda: NVIDIA GPUs (docs/gpu.md); far: the CPU behind a queue, "
           "to find "
           "errors that a GPU would show"),
    CHOICE(job, shards, LAYOUT, "auto", "auto|host|device",
           "memory that holds weights, gradients and moments; auto: the GPU's, if they fit and all options work there, "
           "else the host's (docs/gpu.md)"),
    BOOL(job, ignore_memory, NOTHING, "false", "start although the memory that is left does not seem to suffice"),
};
static const tess_option_section tess_section_job = SECTION("job", "the run, its folder and its device", job);

static const tess_option training[] = {
    INT(training, steps, BITS, "1000", 1, 1e12, "optimizer steps"),
    INT(training, local_batch_size, LAYOUT_AND_BITS, "8", 1, 65536,
        "rows of a micro-batch, the leaf of the gradient sum"),
    INT(training, global_batch_size, LAYOUT_AND_BITS, "0", 0, 1e9,
        "rows of a step over all ranks; 0: what the run began with, which was local_batch_size times its ranks"),
    INT(training, passes, LAYOUT_AND_BITS, "1", 1, 65536,
        "parts that a micro-batch runs in, one after the other: activations of one part, gradients of the whole model"),
    INT(training, seq_len, BITS, "512", 2, 1048576, "tokens of a row"),
    FLOAT(training, max_norm, BITS, "1.0", 0, 1e30, "clip gradients to this global norm; 0: never"),
    FLOAT(training, max_value, LAYOUT_AND_BITS, "0", 0, 1e30,
          "clip each element of a gradient to this magnitude, after training.max_norm; 0: never"),
    CHOICE(training, mixed_precision_param, LAYOUT_AND_BITS, "bfloat16", "bfloat16|float32|float16|float8_e4m3|auto",
           "dtype of gathered parameters and activations; float16: with training.loss_scale=0; not float8_e4m3; auto: "
           "bfloat16 where all ranks multiply it in hardware, else float32"),
    BOOL(training, fp8, BITS, "false",
         "emulate FP8 in linear layers (inputs and weights E4M3, gradients E5M2); not faster"),
    BOOL(training, fp8_gather, CALLS, "false",
         "ranks gather the weights of training.fp8 as E4M3, a byte each, with the same bits"),
    CHOICE(training, mixed_precision_reduce, LAYOUT_AND_BITS, "float32", "bfloat16|float32|float16",
           "dtype of gradients on their way to their owner; float16: with training.loss_scale=0"),
    FLOAT(training, loss_scale, BITS, "1", 0, 0x1p60,
          "factor of gradients on their way, a power of two; 0: found by itself, as torch.amp.GradScaler does"),
    FLOAT(training, loss_scale_init, BITS, "65536", 0x1p-40, 0x1p60, "loss_scale=0: the first"),
    INT(training, loss_scale_interval, BITS, "2000", 1, 1e12,
        "loss_scale=0: steps with finite gradients after which the scale doubles"),
    INT(training, loss_scale_hysteresis, BITS, "1", 1, 1e9,
        "loss_scale=0: halve the scale at the N-th skipped step since it last grew; 1: torch's rule, 2: DeepSpeed's"),
    BOOL(training, loss_scale_in_a_row, BITS, "false",
         "loss_scale_hysteresis: only steps that are skipped in a row count (DeepSpeed's consecutive_hysteresis)"),
    FLOAT(training, loss_scale_min, BITS, "0", 0, 0x1p60,
          "loss_scale=0: the least; a step that overflows with it ends the run; 0: 2^-40"),
    INT(training, threads, NOTHING, "0", 0, 1024, "compute threads of a rank; 0: cores divided by ranks"),
    LIST(training, freeze, BITS,
         "parameters that do not train: names or their first words, with *, ? and [0-9]: model.layers.[0-3]"),
};
static const tess_option_section tess_section_training = SECTION("training", "sizes and precision of a step", training);

static const tess_option offload[] = {
    PATH(offload, folder, NOTHING, "", "folder on a disk for what is offloaded; its files have no names"),
    BOOL(offload, params, LAYOUT, "false", "master weights lie on disk: 4 bytes a parameter"),
    BOOL(offload, grads, LAYOUT, "false", "sums of gradients lie on disk: 4 bytes a parameter, or more"),
    BOOL(offload, optimizer, LAYOUT, "false", "moments lie on disk: 8 bytes a parameter (adamw)"),
    BOOL(offload, activations, CALLS, "false",
         "activations that wait for backward lie on disk, three layers of them in memory; needs job.device=cpu"),
    BYTES(offload, resident, NOTHING, "0", 0, 1LL << 50,
          "bytes of them in a rank's memory at a time, as 2GiB; 0: enough for the largest unit and its neighbours"),
};
static const tess_option_section tess_section_offload = SECTION("offload", "state on disk", offload);

static const tess_option recovery[] = {
    BOOL(recovery, enable, NOTHING, "true", "-n: after a failure, continue from the newest valid state"),
    BOOL(recovery, hot, CALLS, "true",
         "replace a lost rank; the other processes stay, and at most one step is repeated"),
    INT(recovery, max_failures, NOTHING, "3", 0, 64,
        "this many failures within recovery.window_s end the job; 0: no limit"),
    FLOAT(recovery, window_s, NOTHING, "3600", 0, 1e9, "see max_failures, in seconds"),
    FLOAT(recovery, backoff_s, NOTHING, "1", 0, 1e6,
          "pause before the ranks start again when no step was done since the last failure; doubles each time"),
    FLOAT(recovery, backoff_max_s, NOTHING, "60", 0, 1e6, "longest pause, in seconds"),
    CHOICE(
        recovery, on_nan, NOTHING, "rollback", "rollback|stop",
        "reaction when numbers.on_nonfinite=stop ends a run; rollback: go back to the newest checkpoint, once a step"),
};
static const tess_option_section tess_section_recovery = SECTION("recovery", "after a failure", recovery);

static const tess_option elastic[] = {
    INT(elastic, min_ranks, NOTHING, "0", 0, 512,
        "leave out a place whose ranks keep failing while this many ranks remain; 0: never"),
    INT(elastic, max_ranks, NOTHING, "0", 0, 512,
        "grow to as many ranks, at a checkpoint, when there is room for elastic.retry_s; 0: as many as were started"),
    FLOAT(elastic, retry_s, NOTHING, "600", 0, 1e9,
          "seconds until a place that was left out is tried again, at the next checkpoint"),
};
static const tess_option_section tess_section_elastic = SECTION("elastic", "another number of ranks", elastic);

static const tess_option validation[] = {
    BOOL(validation, enable, CALLS, "true", "evaluate at intervals and at the end"),
    PATHS(validation, files, BITS, "text to evaluate on; empty: the end of data.files, see fraction"),
    FLOAT(validation, fraction, BITS, "0.05", 0, 0.9,
          "share at the end of each data file that is held out (validation.files is empty)"),
    INT(validation, interval, CALLS, "100", 1, 1e12, "steps between evaluations"),
    INT(validation, patience, BITS, "0", 0, 1e6,
        "evaluations in a row without a better loss after which the run ends; its best model is in best/; 0: never"),
    FLOAT(validation, min_delta, BITS, "0", 0, 1e9, "a loss is better if it is lower than the best by more than this"),
    INT(validation, steps, CALLS, "0", 0, 1e12, "micro-batches of an evaluation; 0: all of the text"),
    FLOAT(validation, timeout_s, CALLS, "1800", 0, 1e9,
          "seconds after which an evaluation ends and counts as partial; 0: never"),
    INT(validation, retries, CALLS, "3", 0, 100,
        "times that ranks go on with smaller micro-batches after one failed; then the result is partial or missing"),
};
static const tess_option_section tess_section_validation = SECTION("validation", "held-out text", validation);

static const tess_option metrics[] = {
    INT(metrics, log_freq, CALLS, "10", 1, 1e9, "steps between log lines"),
    BOOL(metrics, enable_tensorboard, NOTHING, "true", "write TensorBoard event files"),
    INT(metrics, pipeline_timeline, CALLS, "0", 0, 1e9,
        "steps between pictures of when each stage worked, in the log and in pipeline/ of job.dump_folder; 0: none"),
    PATH(metrics, tensorboard_folder, NOTHING, "tb", "inside job.dump_folder"),
};
static const tess_option_section tess_section_metrics = SECTION("metrics", "log lines and files", metrics);

static const tess_option sample[] = {
    TEXT(sample, prompt, CALLS, "", "text to continue at the end of training; empty: no sample"),
    INT(sample, max_new_tokens, CALLS, "100", 0, 1e6, "length of the sample"),
    FLOAT(sample, temperature, CALLS, "0.8", 0, 100, "0: greedy"),
    INT(sample, top_k, CALLS, "0", 0, 1e6, "draw from the k likeliest tokens; 0: all"),
    FLOAT(sample, top_p, CALLS, "0.95", 0, 1, "draw from the likeliest tokens that reach this probability"),
};
static const tess_option_section tess_section_sample = SECTION("sample", "text generated at the end", sample);

static const tess_option rl[] = {
    CHOICE(rl, algorithm, BITS, "grpo",
           "grpo|dr_grpo|rloo|batch_std|reinforce_pp|reinforce_pp_baseline|gspo|cispo|ppo|dpo|ipo|hinge",
           "how rewards become gradients; the last three train on pairs of answers and draw none"),
    FLOAT(rl, clip_low, BITS, "0.2", 0, 1e6, "ratios are clipped at 1 - clip_low"),
    FLOAT(rl, clip_high, BITS, "0.2", 0, 1e6, "and at 1 + clip_high"),
    FLOAT(rl, dual_clip, BITS, "0", 0, 1e6, "bound of the ratio where the advantage is below 0; 0: none"),
    FLOAT(rl, kl_beta, BITS, "0", 0, 1e6, "weight of the divergence from the reference; 0: no reference is kept"),
    CHOICE(rl, kl, BITS, "k3", "k1|k2|k3", "estimator of that divergence (Schulman's); k1 in rewards alone"),
    BOOL(rl, kl_in_reward, BITS, "false",
         "subtract an answer's divergence from its reward, before the baseline, instead of adding it to the loss"),
    FLOAT(rl, kl_target, BITS, "0", 0, 1e6, "adapt kl_beta to this divergence; 0: leave it"),
    FLOAT(rl, kl_horizon, BITS, "10000", 1, 1e12, "samples in which kl_beta adapts"),
    FLOAT(rl, entropy_coef, BITS, "0", -1e6, 1e6, "weight of the entropy, which the loss rewards"),
    CHOICE(rl, reduction, BITS, "auto", "auto|token_mean|seq_mean_token_mean|seq_mean_token_sum|constant",
           "divisor of the losses of a step's tokens: all of its tokens; each sequence's tokens, then the sequences; "
           "the sequences; the sequences and rl.constant. auto: seq_mean_token_mean for gspo, constant for "
           "dr_grpo, else token_mean"),
    FLOAT(rl, constant, BITS, "0", 0, 1e12,
          "reduction=constant: divides, with the sequences, the sum of a step's tokens; 0: rollout.max_new_tokens"),
    INT(rl, updates, BITS, "1", 1, 65536, "optimizer steps that share one rollout, each on its part of the prompts"),
    INT(rl, epochs, BITS, "1", 1, 65536, "times that each part is trained on"),
    CHOICE(rl, correction, BITS, "none", "none|tis|icepop|sequence_mask",
           "samples drawn by other weights: weigh each token by the clamped ratio; drop tokens whose ratio is outside; "
           "drop sequences whose mean ratio is. Their log-probabilities are computed again before each rollout"),
    FLOAT(rl, correction_low, BITS, "0", 0, 1e6, "least ratio of the correction"),
    FLOAT(rl, correction_high, BITS, "2", 0, 1e6, "greatest ratio of the correction"),
    FLOAT(rl, opsm_delta, BITS, "0", 0, 1e6,
          "drop sequences of negative advantage that have moved by more than this per token; 0: keep all"),
    CHOICE(rl, on_mismatch, BITS, "stop", "stop|warn|correct",
           "if training and rollout give a token other log-probabilities: end the run, warn, or compute them again and "
           "correct"),
    BOOL(rl, filter, BITS, "false", "leave out prompts whose samples all have the same reward, and draw others (DAPO)"),
    INT(rl, max_rounds, BITS, "16", 1, 65536, "filter: times that missing prompts are drawn for one rollout"),
    INT(rl, overlong_tokens, BITS, "0", 0, 1e9,
        "tokens before rollout.max_new_tokens over which a penalty grows from 0 to overlong_penalty; 0: none"),
    FLOAT(rl, overlong_penalty, BITS, "1", 0, 1e6, "see overlong_tokens"),
    FLOAT(rl, gamma, BITS, "1", 0, 1, "ppo, reinforce_pp: discount of later rewards"),
    FLOAT(rl, lambda, BITS, "1", 0, 1, "ppo: decay of generalised advantages"),
    FLOAT(rl, value_clip, BITS, "0.2", 0, 1e6, "ppo: how far a value may move from its old one; 0: anywhere"),
    FLOAT(rl, eps, BITS, "1e-6", 0, 1, "added to deviations that rewards are divided by"),
    BOOL(rl, norm_advantages, BITS, "false", "advantages of a rollout's tokens get mean 0 and deviation 1"),
    FLOAT(rl, dpo_beta, BITS, "0.1", 0, 1e6, "dpo, ipo, hinge: weight of the divergence from the reference"),
    FLOAT(rl, label_smoothing, BITS, "0", 0, 0.5, "dpo: share of pairs that may be the wrong way round"),
    FLOAT(rl, max_lag, NOTHING, "0", 0, 1e12,
          "advise when the weights that drew a rollout are older than this many steps in the mean; 0: never"),
    INT(rl, keep_journals, NOTHING, "0", 0, 1e9, "newest rollouts whose samples stay in job.dump_folder/rl; 0: all"),
    CHOICE(rl, balance, BITS, "cost", "cost|lpt|karmarkar_karp",
           "micro-batches: cost: as full as they get, the dearest first; lpt, karmarkar_karp: all cost about the same"),
    CHOICE(rl, phase, BITS, "both", "both|rollout|train",
           "rollout: draw and keep samples, train nothing; train: on samples that were kept, drawing none"),
};
static const tess_option_section tess_section_rl = SECTION("rl", "reinforcement learning (tessera rl)", rl);

static const tess_option rollout[] = {
    INT(rollout, prompts, BITS, "64", 1, 1e9, "prompts of a rollout; pairs of a step with dpo"),
    INT(rollout, n, BITS, "8", 1, 65536, "samples of each prompt"),
    INT(rollout, max_new_tokens, BITS, "256", 1, 1e9, "longest answer"),
    INT(rollout, max_prompt_tokens, BITS, "0", 0, 1e9,
        "longer prompts are left out; 0: those that leave no room in training.seq_len"),
    FLOAT(rollout, temperature, BITS, "1", 0.01, 100, "temperature of the policy, in drawing and in training"),
    LIST(rollout, stop, BITS,
         "texts that end an answer with the token that completes one, in addition to the model's end tokens"),
    INT(rollout, budget_tokens, BITS, "0", 0, 1e9,
        "tokens that a sample gets in one rollout; it goes on in the next one; 0: all that it wants"),
    INT(rollout, in_flight, BITS, "0", 0, 1e9, "prompts under way with budget_tokens; 0: twice rollout.prompts"),
    INT(rollout, lag, BITS, "0", 0, 1, "1: samples are drawn with the weights before the newest update"),
    INT(rollout, max_sequences, CALLS, "64", 1, 4096, "samples that a rank draws at once"),
    INT(rollout, pass_tokens, CALLS, "512", 1, 1e9, "tokens of a forward pass in drawing"),
    BYTES(rollout, cache_bytes, CALLS, "0", 0, 1e15,
          "most bytes of a rank's keys and values; 0: as max_sequences need"),
    TEXT(rollout, prompt_key, BITS, "",
         "member of each jsonl line that holds the prompt, a string or messages; empty: prompt, or else messages"),
    TEXT(rollout, label_key, BITS, "", "member that holds the right answer; empty: label, answer or ground_truth"),
    PATHS(rollout, env_command, BITS,
          "words of a program that answers each turn of the model (docs/rl.md); empty: one turn"),
    INT(rollout, max_turns, BITS, "8", 1, 65536, "most turns with env_command"),
    INT(rollout, ranks, LAYOUT, "0", 0, 65536,
        "number of ranks, the job's last ones, that only draw and grade samples; the others train; 0: all do both"),
    BYTES(rollout, sync_bytes, CALLS, "33554432", 4096, 1e12,
          "bytes of weights in a message to those ranks; two are under way at once"),
};
static const tess_option_section tess_section_rollout = SECTION("rollout", "samples that it draws", rollout);

static const tess_option reward[] = {
    TEXT(reward, kind, BITS, "exact",
         "exact, number, boxed, regex, format, countdown, signs, f1, length, overlong, command, http; several with "
         "weights: "
         "number:1,format:0.1"),
    TEXT(reward, regex, BITS, "", "regex: the pattern (PCRE2)"),
    TEXT(reward, format, BITS, "", "format: the pattern of a whole answer (PCRE2)"),
    BOOL(reward, number_fallback, BITS, "false", "number: without ####, the answer's last number counts"),
    PATHS(reward, command, BITS, "command: words of the program that grades answers, a line of JSON each"),
    ROW(reward, url, BITS, TESS_OPTION_TEXT, .fallback = "", .is_url = true,
        .help = "http: where prompt, response and label are posted"),
    PATH(reward, header_file, NOTHING, "",
         "http: file of headers for each request, a line each, like Authorization: Bearer KEY"),
    LIST(reward, header_env, NOTHING, "http: names of variables that hold such headers"),
    INT(reward, workers, NOTHING, "2", 1, 1024, "processes or requests of a rank at a time"),
    INT(reward, in_flight, NOTHING, "1", 1, 65536, "command: answers that a process is given before it replies"),
    FLOAT(reward, timeout_s, NOTHING, "30", 0.01, 86400, "seconds until an answer's grading counts as failed"),
    FLOAT(reward, start_s, NOTHING, "30", 0, 86400, "command: seconds more for a process's first reply"),
    INT(reward, retries, NOTHING, "3", -1, 100,
        "command, http: further tries of an item after an end, a silence or a lost connection; 0: none"),
    FLOAT(reward, max_failures, CALLS, "0.1", 0, 1,
          "share of a rollout's gradings, over all ranks, that may fail before the run ends; those count as no reward"),
    BYTES(reward, max_answer_bytes, BITS, "65536", 64, 1e9, "command, http: longest reply"),
    BYTES(reward, max_memory_bytes, NOTHING, "8589934592", 0, 1e15, "command: address space of a process"),
    INT(reward, max_cpu_s, NOTHING, "0", 0, 1e9, "command: processor time of a process; 0: any"),
    INT(reward, max_processes, NOTHING, "1024", 1, 1e6, "command: processes that a grader may have (not of root)"),
    CHOICE(reward, sandbox, NOTHING, "none", "none|bwrap", "command: bwrap: no network, no file of the host to write"),
    PATHS(reward, readable, NOTHING,
          "bwrap: files and folders to show from /home, /root, /run, /tmp and /var/tmp, which are empty inside"),
    LIST(reward, env, NOTHING, "command: names of variables that it gets in addition to PATH, HOME and LANG"),
    TEXT(reward, user, NOTHING, "", "command: user that it runs as, by name or number; empty: ours; needs root"),
};
static const tess_option_section tess_section_reward = SECTION("reward", "how they are graded", reward);

static const tess_option reference[] = {
    PATH(reference, path, BITS, "", "folder of the reference's weights; empty: those that the run begins with"),
    INT(reference, update_interval, BITS, "0", 0, 1e12, "steps after which the reference becomes the policy; 0: never"),
    FLOAT(reference, ema, BITS, "0", 0, 1, "share of itself that the reference keeps at each update"),
};
static const tess_option_section tess_section_reference =
    SECTION("reference", "the model that the policy is compared with", reference);

static const tess_option critic[] = {
    CHOICE(critic, trunk, BITS, "own", "own|shared",
           "ppo: own: values come from a second model; shared: from a head on the policy's last layer"),
    PATH(critic, path, BITS, "", "ppo: folder of the value model; empty: model.path, with a new head"),
    FLOAT(critic, lr, BITS, "1e-5", 0, 1e6, "its learning rate; shared: the policy's"),
    FLOAT(critic, coef, BITS, "0.5", 0, 1e6, "shared: weight of the value loss next to the policy's"),
};
static const tess_option_section tess_section_critic = SECTION("critic", "the value model of ppo", critic);

static const tess_option evaluation[] = {
    INT(evaluation, n, CALLS, "16", 1, 65536, "samples of each prompt of validation.files"),
    FLOAT(evaluation, temperature, CALLS, "1", 0, 100, "temperature of these samples; 0: greedy"),
    FLOAT(evaluation, threshold, CALLS, "1", -1e30, 1e30, "reward from which an answer counts as right"),
    BOOL(evaluation, at_start, CALLS, "true", "evaluate before the first step too"),
};
static const tess_option_section tess_section_evaluation =
    SECTION("evaluation", "held-out prompts: validation.files", evaluation);

static const tess_option health[] = {
    BOOL(health, enable, NOTHING, "true", "watch memory, disk, open files and ranks while the job runs"),
    FLOAT(health, interval_s, NOTHING, "10", 0.01, 86400, "seconds between two checks"),
    FLOAT(health, memory_percent, NOTHING, "90", 0, 100,
          "share of the machine's memory, or the control group's, from which the host counts as degraded; 0: never"),
    INT(health, fds, NOTHING, "10000", 0, 1e9, "open files of a rank (or 90% of its limit); 0: its limit alone"),
    BYTES(health, disk_bytes, NOTHING, "0", 0, 1e18,
          "bytes to be free where checkpoints go, as 10GiB, if more than two of the newest take"),
    INT(health, inodes, NOTHING, "1000", 0, 1e12, "files that must be possible there; 0: any"),
    FLOAT(health, heartbeat_s, NOTHING, "-1", -1, 1e9,
          "silence of a rank, in seconds; three times that in evaluation and checkpoints; -1: half of comm.timeout_s; "
          "0: forever"),
    FLOAT(health, stall_s, NOTHING, "-1", -1, 1e9,
          "seconds without a finished step; -1: 1800 more than validation.timeout_s, or comm.timeout_s if that is "
          "longer; 0: forever"),
    FLOAT(health, load, NOTHING, "0", 0, 1e6, "processes that want a core, for each core; 0: any"),
    FLOAT(health, gpu_celsius, NOTHING, "85", 0, 1000, "limit for the hottest GPU; 0: none"),
    FLOAT(health, gpu_memory_percent, NOTHING, "95", 0, 100, "limit for the fullest GPU; 0: none"),
    INT(health, gpu_errors, NOTHING, "1", 0, 1e12, "uncorrected errors of a GPU's memory; 0: any"),
    INT(health, max_failures, NOTHING, "3", 1, 1e9, "failed checks in a row that turn degraded into unhealthy"),
    PATHS(health, alert_command, NOTHING,
          "words of a program that gets each alert, as a line of JSON (and TESSERA_ALERT_TEXT, ...); empty: none"),
    FLOAT(health, alert_timeout_s, NOTHING, "10", 0.1, 3600, "seconds until it is killed"),
};
static const tess_option_section tess_section_health = SECTION("health", "the state of the host, and alerts", health);

static const tess_option numbers[] = {
    CHOICE(numbers, on_nonfinite, BITS, "stop", "stop|skip",
           "a loss or gradient that is NaN or infinite ends the run, or leaves out the step's update"),
    INT(numbers, max_skips, BITS, "10", 0, 1e9, "steps in a row that may be skipped"),
    CHOICE(numbers, check, CALLS, "replay", "replay|always",
           "replay: who made a NaN is found by computing the step again; always: every value is checked on its way"),
    FLOAT(numbers, spike_z, CALLS, "6", 0, 100,
          "warn of a loss or gradient norm this many deviations above the newest 128; 0: never"),
    FLOAT(numbers, skip_update_lossz, BITS, "0", 0, 100,
          "leave out the update of a step whose loss is this many deviations above the newest 128; 0: never"),
    FLOAT(numbers, skip_update_gradz, BITS, "0", 0, 100, "the same for its gradient norm"),
    INT(numbers, replica_check_interval, CALLS, "100", 0, 1e12,
        "steps between checks that all copies of weights and optimizer state are the same bits; 0: never"),
};
static const tess_option_section tess_section_numbers = SECTION("numbers", "NaN, spikes, replicas", numbers);

static const tess_option debug[] = {
    INT(debug, seed, BITS, "0", 0, 9007199254740992.0, "decides initial weights, data order and samples"),
    BOOL(debug, deterministic, NOTHING, "true", "always so here; accepted for compatibility"),
    BOOL(debug, trace, NOTHING, "true", "keep each rank's last events in job.dump_folder/trace"),
};
static const tess_option_section tess_section_debug = SECTION("debug", "reproducibility and traces", debug);

/* `tessera info` and --help show sections in this order. */
#define TABLE(section_)                                           \
    {                                                             \
        &tess_section_##section_, offsetof(tess_config, section_) \
    }
static const tess_option_table tables[] = {
    TABLE(job),       TABLE(model),      TABLE(tokenizer),    TABLE(data),        TABLE(training),
    TABLE(lora),      TABLE(optimizer),  TABLE(lr_scheduler), TABLE(parallelism), TABLE(activation_checkpoint),
    TABLE(offload),   TABLE(checkpoint), TABLE(recovery),     TABLE(elastic),     TABLE(validation),
    TABLE(metrics),   TABLE(sample),     TABLE(rl),           TABLE(rollout),     TABLE(reward),
    TABLE(reference), TABLE(critic),     TABLE(evaluation),   TABLE(health),      TABLE(comm),
    TABLE(numbers),   TABLE(debug),      TABLE(fault),
};

const tess_option_table *tess_config_tables(int *n_tables)
{
    *n_tables = (int)(sizeof(tables) / sizeof(tables[0]));
    return tables;
}
