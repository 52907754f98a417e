/* Options of the samples that a rollout draws. */
#ifndef TESS_RL_OPTIONS_ROLLOUT_SECTION_H
#define TESS_RL_OPTIONS_ROLLOUT_SECTION_H

#include "base/core/options.h"

/* clang-format off */
#define TESS_ROLLOUT_OPTIONS(OPTION)                                                                                   \
    OPTION(INT, rollout, prompts, BITS, "64", 1, 1e9,                                                                  \
           "number of prompts in a rollout; with dpo, number of pairs in a step")                                      \
    OPTION(INT, rollout, n, BITS, "8", 1, 65536, "number of samples of each prompt")                                   \
    OPTION(INT, rollout, max_new_tokens, BITS, "256", 1, 1e9, "largest number of tokens of an answer")                 \
    OPTION(INT, rollout, max_prompt_tokens, BITS, "0", 0, 1e9,                                                         \
           "longer prompts are left out; 0: those that leave no room in training.seq_len")                             \
    OPTION(FLOAT, rollout, temperature, BITS, "1", 0.01, 100,                                                          \
           "temperature of the policy when it draws and when it trains")                                               \
    OPTION(LIST, rollout, stop, BITS,                                                                                  \
           "texts that end an answer with the token that completes one, in addition to the model's end tokens")        \
    OPTION(INT, rollout, budget_tokens, BITS, "0", 0, 1e9,                                                             \
           "number of tokens that a sample may grow by in one rollout; it continues in the next one; 0: no limit")     \
    OPTION(INT, rollout, in_flight, BITS, "0", 0, 1e9,                                                                 \
           "number of prompts that are being answered with budget_tokens; 0: twice rollout.prompts")                   \
    OPTION(INT, rollout, lag, BITS, "0", 0, 1, "1: samples are drawn with the weights before the newest update")       \
    OPTION(INT, rollout, max_sequences, CALLS, "64", 1, 4096,                                                          \
           "number of samples that a rank draws at the same time")                                                     \
    OPTION(INT, rollout, pass_tokens, CALLS, "512", 1, 1e9, "number of tokens in a forward pass while drawing")        \
    OPTION(BYTES, rollout, cache_bytes, CALLS, "0", 0, 1e15,                                                           \
           "largest memory of a rank for keys and values, in bytes; 0: as much as max_sequences need")                 \
    OPTION(                                                                                                            \
        TEXT, rollout, prompt_key, BITS, "",                                                                           \
        "member of each jsonl line that holds the prompt, a string or messages; empty: prompt, or else messages")      \
    OPTION(TEXT, rollout, label_key, BITS, "",                                                                         \
           "member of each record that holds the right answer; empty: label, answer or ground_truth")                  \
    OPTION(PATHS, rollout, env_command, BITS,                                                                          \
           "words of a program that answers each turn of the model (docs/rl.md); empty: one turn")                     \
    OPTION(INT, rollout, max_turns, BITS, "8", 1, 65536, "largest number of turns with env_command")                   \
    OPTION(                                                                                                            \
        INT, rollout, ranks, LAYOUT, "0", 0, 65536,                                                                    \
        "number of ranks, the job's last ones, that only draw and grade samples; the others train; 0: all do both")    \
    OPTION(BYTES, rollout, sync_bytes, CALLS, "33554432", 4096, 1e12,                                                  \
           "bytes of weights in a message to those ranks; two are under way at once")
/* clang-format on */

typedef struct tess_rollout_section {
    TESS_ROLLOUT_OPTIONS(TESS_OPTION_FIELD)
} tess_rollout_section;

extern const tess_option_section tess_section_rollout;

#endif
