#include "rl/options/rollout_section.h"

#include "base/core/option_rows.h"

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
const tess_option_section tess_section_rollout = SECTION("rollout", "samples that it draws", rollout);
