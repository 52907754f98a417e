/* Options of the samples that a rollout draws. */
#ifndef TESS_RL_OPTIONS_ROLLOUT_SECTION_H
#define TESS_RL_OPTIONS_ROLLOUT_SECTION_H

#include "base/core/options.h"

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

extern const tess_option_section tess_section_rollout;

#endif
