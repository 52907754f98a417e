/* Reinforcement learning as a task of the trainer: rollouts by the policy, then steps that learn from them. */
#ifndef TESS_RL_RL_TASK_H
#define TESS_RL_RL_TASK_H

#include "train/task.h"

extern const tess_task_kind tess_rl_task_kind;

/* Whether the configuration sets options that only `tessera rl` reads. */
bool tess_rl_is_meant(const tess_config *config);

#endif
