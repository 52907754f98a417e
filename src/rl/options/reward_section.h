/* Options of the rewards that samples get. */
#ifndef TESS_RL_OPTIONS_REWARD_SECTION_H
#define TESS_RL_OPTIONS_REWARD_SECTION_H

#include "base/core/options.h"

typedef enum tess_sandbox_choice { TESS_SANDBOX_NONE, TESS_SANDBOX_BWRAP } tess_sandbox_choice;

typedef struct tess_reward_section {
    char kind[TESS_TEXT_SIZE], regex[TESS_TEXT_SIZE], format[TESS_TEXT_SIZE], url[TESS_TEXT_SIZE];
    bool number_fallback;
    char user[TESS_TEXT_SIZE], header_file[TESS_TEXT_SIZE];
    tess_text_list command, env, readable, header_env;
    int64_t workers, in_flight, retries, max_answer_bytes, max_memory_bytes, max_cpu_s, max_processes;
    double timeout_s, start_s, max_failures;
    int sandbox; /* tess_sandbox_choice */
} tess_reward_section;

extern const tess_option_section tess_section_reward;

#endif
