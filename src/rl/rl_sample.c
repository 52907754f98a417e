#include "rl/rl_sample.h"

#include <string.h>

/* The header before the arrays. */
typedef struct sample_header {
    int64_t number, record, n_prompt, n;
    int32_t finish, grade, n_parts, turns;
    double reward;
    rl_reward_part part[RL_PARTS];
} sample_header;

enum { TOKEN_BYTES = sizeof(int32_t) + sizeof(float) + sizeof(int32_t) };

tess_status rl_sample_reserve(tess_mem *mem, rl_sample *s, int64_t n)
{
    if (n <= s->room)
        return TESS_OK;
    int64_t room = n > 2 * s->room ? n : 2 * s->room;
    void **const arrays[] = {(void **)&s->ids, (void **)&s->logprob, (void **)&s->version};
    for (int i = 0; i < 3; i++)
        TESS_TRY(tess_mem_grow(mem, TESS_POOL_MISC, (size_t)room * sizeof(int32_t), "samples", arrays[i]));
    s->room = room;
    return TESS_OK;
}

tess_status rl_sample_begin(tess_mem *mem, rl_sample *s, const int32_t *prompt, int64_t n)
{
    TESS_TRY(rl_sample_reserve(mem, s, n));
    memcpy(s->ids, prompt, (size_t)n * sizeof(int32_t));
    memset(s->logprob, 0, (size_t)n * sizeof(float));
    memset(s->version, 0, (size_t)n * sizeof(int32_t));
    s->n_prompt = s->n = n;
    return TESS_OK;
}

tess_status rl_sample_add(tess_mem *mem, rl_sample *s, int32_t token, float logprob, int32_t version)
{
    TESS_TRY(rl_sample_reserve(mem, s, s->n + 1));
    s->ids[s->n] = token;
    s->logprob[s->n] = logprob;
    s->version[s->n] = version;
    s->n++;
    return TESS_OK;
}

void rl_sample_free(tess_mem *mem, rl_sample *s)
{
    tess_mem_free(mem, s->ids);
    tess_mem_free(mem, s->logprob);
    tess_mem_free(mem, s->version);
    *s = (rl_sample){.finish = RL_UNFINISHED};
}

bool rl_rewards_differ(const rl_sample *samples, int64_t n)
{
    const rl_sample *first = NULL;
    for (int64_t k = 0; k < n; k++) {
        if (samples[k].grade != RL_SCORED)
            continue;
        if (first != NULL && samples[k].reward != first->reward)
            return true;
        first = &samples[k];
    }
    return false;
}

tess_status rl_sample_write(const rl_sample *s, tess_buffer *out)
{
    sample_header header;
    memset(&header, 0, sizeof(header)); /* no stray byte between members, or after names */
    header.number = s->number;
    header.record = s->record;
    header.n_prompt = s->n_prompt;
    header.n = s->n;
    header.finish = s->finish;
    header.grade = s->grade;
    header.n_parts = s->n_parts;
    header.turns = s->turns;
    header.reward = s->reward;
    for (int i = 0; i < s->n_parts; i++) {
        strncpy(header.part[i].name, s->part[i].name, RL_PART_NAME - 1);
        header.part[i].value = s->part[i].value;
    }
    TESS_TRY(tess_buffer_append(out, &header, sizeof(header)));
    TESS_TRY(tess_buffer_append(out, s->ids, (size_t)s->n * sizeof(int32_t)));
    TESS_TRY(tess_buffer_append(out, s->logprob, (size_t)s->n * sizeof(float)));
    return tess_buffer_append(out, s->version, (size_t)s->n * sizeof(int32_t));
}

static tess_status check(const sample_header *h, size_t size)
{
    TESS_CHECK(h->number >= 0 && h->record >= 0 && h->n_prompt >= 0 && h->n >= h->n_prompt && h->finish >= -1 &&
                   h->finish <= TESS_FINISH_BUDGET && h->grade >= RL_UNGRADED && h->grade <= RL_NO_REWARD &&
                   h->n_parts >= 0 && h->n_parts <= RL_PARTS,
               TESS_E_FORMAT, "a sample's numbers do not fit together");
    TESS_CHECK((size_t)h->n <= (size - sizeof(*h)) / TOKEN_BYTES, TESS_E_FORMAT,
               "a sample of %lld tokens is cut off after %zu bytes", (long long)h->n, size);
    return TESS_OK;
}

tess_status rl_sample_read(tess_mem *mem, const void *bytes, size_t size, rl_sample *out, size_t *used)
{
    sample_header h;
    TESS_CHECK(size >= sizeof(h), TESS_E_FORMAT, "%zu bytes are no sample", size);
    memcpy(&h, bytes, sizeof(h));
    TESS_TRY(check(&h, size));
    rl_sample s = {.number = h.number,
                   .record = h.record,
                   .finish = h.finish,
                   .grade = h.grade,
                   .n_parts = h.n_parts,
                   .turns = h.turns,
                   .reward = h.reward};
    tess_status status = rl_sample_reserve(mem, &s, h.n);
    if (status != TESS_OK) {
        rl_sample_free(mem, &s);
        return status;
    }
    s.n_prompt = h.n_prompt;
    s.n = h.n;
    memcpy(s.part, h.part, sizeof(s.part));
    for (int i = 0; i < RL_PARTS; i++)
        s.part[i].name[RL_PART_NAME - 1] = '\0';
    const char *at = (const char *)bytes + sizeof(h);
    const size_t array = (size_t)h.n * sizeof(int32_t);
    if (h.n > 0) {
        memcpy(s.ids, at, array);
        memcpy(s.logprob, at + array, array);
        memcpy(s.version, at + 2 * array, array);
    }
    rl_sample_free(mem, out);
    *out = s;
    *used = sizeof(h) + 3 * array;
    return TESS_OK;
}
