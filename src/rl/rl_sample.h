/* A sample: a prompt and the answer that the policy drew, with the facts of each token, and its serialised form. */
#ifndef TESS_RL_RL_SAMPLE_H
#define TESS_RL_RL_SAMPLE_H

#include "base/text/text.h"
#include "infer/generate.h"

enum { RL_PARTS = 8, RL_PART_NAME = 32, RL_UNFINISHED = -1, RL_NOT_DRAWN = -1 };

typedef enum rl_grade_kind {
    RL_UNGRADED,
    RL_SCORED,
    RL_NO_REWARD /* its grader gave none, or failed */
} rl_grade_kind;

typedef struct rl_reward_part {
    char name[RL_PART_NAME];
    double value;
} rl_reward_part;

/* Arrays are (n), with room for more. Values of prompt tokens are 0. */
typedef struct rl_sample {
    int64_t number; /* ordinal of its prompt * rollout.n + index within the prompt; the random draws depend on it */
    int64_t record; /* index of the data record with its prompt */
    int64_t n_prompt, n, room; /* tokens */
    int32_t finish;            /* tess_finish, or RL_UNFINISHED */
    int32_t grade;             /* rl_grade_kind */
    int32_t n_parts;
    int32_t turns; /* completed turns of the model */
    int32_t *ids;
    float *logprob;   /* log-probability of each token when it was drawn */
    int32_t *version; /* optimizer steps that made the weights that drew the token, or RL_NOT_DRAWN */
    double reward;
    rl_reward_part part[RL_PARTS];
} rl_sample;

/* Sets sample->n to the length of the prompt. */
tess_status rl_sample_begin(tess_mem *mem, rl_sample *sample, const int32_t *prompt, int64_t n);
/* Makes room for n tokens in total. The arrays do not move until there are more. */
tess_status rl_sample_reserve(tess_mem *mem, rl_sample *sample, int64_t n);
tess_status rl_sample_add(tess_mem *mem, rl_sample *sample, int32_t token, float logprob, int32_t version);
void rl_sample_free(tess_mem *mem, rl_sample *sample);

/* Whether two of n samples have different rewards. Samples without a reward are ignored. */
bool rl_rewards_differ(const rl_sample *samples, int64_t n);

/* Appends the sample's bytes. Equal samples have equal bytes. */
tess_status rl_sample_write(const rl_sample *sample, tess_buffer *out);
/* Reads a sample from the beginning of `bytes`; *used: number of bytes read. Frees the sample's old content.
 * TESS_E_FORMAT: the bytes are no sample; the old content is unchanged. */
tess_status rl_sample_read(tess_mem *mem, const void *bytes, size_t size, rl_sample *sample, size_t *used);

#endif
