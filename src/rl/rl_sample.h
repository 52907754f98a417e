/* A sample: a prompt and the answer that the policy drew, with what is known of each token; its form as bytes. */
#ifndef TESS_RL_RL_SAMPLE_H
#define TESS_RL_RL_SAMPLE_H

#include "base/text/text.h"
#include "infer/generate.h"

enum { RL_PARTS = 8, RL_PART_NAME = 32, RL_UNFINISHED = -1, RL_NOT_DRAWN = -1 };

typedef enum rl_grade_kind {
    RL_UNGRADED,
    RL_SCORED,
    RL_NO_REWARD /* its grader has none, or failed */
} rl_grade_kind;

typedef struct rl_reward_part {
    char name[RL_PART_NAME];
    double value;
} rl_reward_part;

/* Arrays are (n), with room for more. What they say of prompt tokens is 0. */
typedef struct rl_sample {
    int64_t number;            /* ordinal of its prompt * rollout.n + place among that prompt's; decides its draws */
    int64_t record;            /* record of the data with its prompt */
    int64_t n_prompt, n, room; /* tokens */
    int32_t finish;            /* tess_finish, or RL_UNFINISHED */
    int32_t grade;             /* rl_grade_kind */
    int32_t n_parts;
    int32_t turns; /* turns of the model that are over */
    int32_t *ids;
    float *logprob;   /* log-probability of each token when it was drawn */
    int32_t *version; /* optimizer steps behind the weights that drew it; RL_NOT_DRAWN */
    double reward;
    rl_reward_part part[RL_PARTS];
} rl_sample;

/* sample->n becomes that of the prompt. */
tess_status rl_sample_begin(tess_mem *mem, rl_sample *sample, const int32_t *prompt, int64_t n);
/* Room for n tokens in all: ids stay where they are until there are more. */
tess_status rl_sample_reserve(tess_mem *mem, rl_sample *sample, int64_t n);
tess_status rl_sample_add(tess_mem *mem, rl_sample *sample, int32_t token, float logprob, int32_t version);
void rl_sample_free(tess_mem *mem, rl_sample *sample);

/* Whether two of n samples have different rewards; those without one are as good as not there. */
bool rl_rewards_differ(const rl_sample *samples, int64_t n);

/* Appends the sample's bytes: the same sample, the same bytes. */
tess_status rl_sample_write(const rl_sample *sample, tess_buffer *out);
/* Reads one from the beginning of `bytes`; *used: how many it took. Frees what the sample held before. TESS_E_FORMAT:
 * they are no sample; the old one is unchanged. */
tess_status rl_sample_read(tess_mem *mem, const void *bytes, size_t size, rl_sample *sample, size_t *used);

#endif
