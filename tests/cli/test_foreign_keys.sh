#!/usr/bin/env bash
# Keys of other training programs: the message names the key that does the same, or says that there is none.
. "$(dirname "$0")/support.sh"
: >run.yaml
means() { # KEY OURS
    expect "$1" 2 "unknown key '$1': did you mean '$2'?" "$tessera" train run.yaml "$1=1"
}
lacks() { # KEY TEXT
    expect "$1" 2 "$1 is not supported: $2" "$tessera" train run.yaml "$1=1"
}

# torchtitan
means training.lr optimizer.lr
means training.dtype training.mixed_precision_param
means training.dataset data.files
means model.name model.path
means model.flavor model.config
lacks compile.enable "the kernels are compiled already; leave it out"
means context_parallel_degree parallelism.context_parallel_degree
# transformers' Trainer and PEFT
means learning_rate optimizer.lr
means optimizer.learning_rate optimizer.lr
means per_device_train_batch_size training.local_batch_size
means gradient_accumulation_steps training.global_batch_size
means max_steps training.steps
means training.max_steps training.steps
means warmup_ratio lr_scheduler.warmup_steps
means weight_decay optimizer.weight_decay
means max_grad_norm training.max_norm
means bf16 training.mixed_precision_param
means fp16 training.mixed_precision_param
lacks num_train_epochs "runs are counted in steps: set training.steps to"
# DeepSpeed
means train_micro_batch_size_per_gpu training.local_batch_size
means gradient_clipping training.max_norm
means zero_optimization.stage parallelism.shard_strategy
# Megatron-LM
means tensor-model-parallel-size parallelism.tensor_parallel_degree
means pipeline-model-parallel-size parallelism.pipeline_parallel_degree
means micro-batch-size training.local_batch_size
means global-batch-size training.global_batch_size
means seq-len training.seq_len
# verl and TRL
means actor_rollout_ref.actor.optim.lr optimizer.lr
means critic.optim.lr critic.lr
means actor_rollout_ref.model.path model.path
means actor_rollout_ref.rollout.temperature rollout.temperature
means algorithm.adv_estimator rl.algorithm
means data.train_files data.files
means beta rl.kl_beta
means num_generations rollout.n
means max_completion_length rollout.max_new_tokens
lacks evaluation.top_p "answers are drawn from all tokens"
# A last word that many sections have is no hint.
expect "x.enable" 2 "unknown key 'x.enable': \`tessera info\` lists every key" "$tessera" train run.yaml x.enable=1

expect "without a file" 2 "did you mean 'optimizer.lr'?" "$tessera" train learning_rate=1
expect "dashes before a key" 2 "'--training.steps=10': write it without dashes: training.steps=10" \
    "$tessera" train run.yaml --training.steps=10
expect "dashes and a space" 2 "write it without dashes: training.steps=VALUE" "$tessera" train run.yaml --training.steps 10
expect "dashes before a key misspelt" 2 "keys are written without dashes, as section.key=value: unknown key 'training.step': did you mean 'training.steps'?" \
    "$tessera" verify run.yaml --training.step=10
expect "dashes before another program's key" 2 "did you mean 'optimizer.lr'?" "$tessera" rl run.yaml --learning-rate 1e-5
expect "dashes before a last word" 2 "did you mean 'optimizer.lr'?" "$tessera" train run.yaml --lr=1e-5
expect "an option of the command stays one" 2 "unknown option '--n': did you mean '-n'?" "$tessera" train run.yaml --n 2

echo 'learning_rate: 1.0e-5' >flat.yaml
expect "a file without sections" 2 "flat.yaml:1: unknown key 'learning_rate': did you mean 'optimizer.lr'?" "$tessera" train flat.yaml
echo 'training: 5' >flat.yaml
expect "a section with a value" 2 "flat.yaml:1: 'training' is a section" "$tessera" train flat.yaml
echo 'training.steps: 10' >flat.yaml
expect "a key with its section before it" 2 \
    "flat.yaml:1: 'training.steps' stands outside of its section: write 'training:' and below it, indented, 'steps: ...'" \
    "$tessera" train flat.yaml
printf 'fp16:\n  enabled: true\n' >deep.yaml
expect "a section of another program" 2 "deep.yaml:2: unknown key 'fp16.enabled': did you mean 'training.mixed_precision_param'?" \
    "$tessera" train deep.yaml
finish
