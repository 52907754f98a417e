#include "rl/rl_page_samples.h"

#include <stdlib.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "data/tokenizer/tokenizer.h"
#include "page/run_page.h"
#include "rl/rl_journal.h"
#include "rl/rl_samples.h"

enum { ENDS = TESS_PAGE_SAMPLES / 3, MOST_TOKENS = 2000 }; /* samples from each end; tokens of a text */

typedef struct listing {
    tess_mem *mem;
    tess_tokenizer *tokenizer;
    json_t *list;
    int64_t rollout;
} listing;

static const char *finish_of(const rl_sample *s)
{
    return s->finish == TESS_FINISH_END      ? "end"
           : s->finish == TESS_FINISH_LENGTH ? "length"
           : s->finish == TESS_FINISH_STOP   ? "stop"
                                             : "unfinished";
}

/* Decodes tokens; bytes that are no UTF-8 are replaced when the text is shown. */
static tess_status decode(const listing *l, const int32_t *ids, int64_t n, bool skip, tess_buffer *text)
{
    text->size = 0;
    TESS_TRY(tess_decode(l->tokenizer, ids, (size_t)(n < MOST_TOKENS ? n : MOST_TOKENS), skip, text));
    return tess_buffer_append(text, "", 1);
}

static tess_status add(listing *l, const rl_sample *s)
{
    TESS_AUTO(tess_buffer_free) tess_buffer prompt = {.mem = l->mem}, answer = {.mem = l->mem};
    const int64_t n_shown = s->n_prompt < MOST_TOKENS ? s->n_prompt : MOST_TOKENS; /* the end of the prompt */
    TESS_TRY(decode(l, s->ids + s->n_prompt - n_shown, n_shown, false, &prompt));
    TESS_TRY(decode(l, s->ids + s->n_prompt, s->n - s->n_prompt, true, &answer));
    json_array_append_new(l->list, json_pack("{s:I, s:I, s:o, s:s, s:o, s:o}", "rollout", (json_int_t)l->rollout,
                                             "number", (json_int_t)s->number, "reward",
                                             s->grade == RL_SCORED ? tess_json_number(s->reward) : json_null(),
                                             "finish", finish_of(s), "prompt", tess_json_text(prompt.data), "answer",
                                             tess_json_text(answer.data)));
    return TESS_OK;
}

/* Orders the highest reward first, and samples without a reward last. */
static int by_reward(const void *a, const void *b)
{
    const rl_sample *x = a, *y = b;
    const bool has_x = x->grade == RL_SCORED, has_y = y->grade == RL_SCORED;
    if (has_x != has_y)
        return has_x ? -1 : 1;
    if (has_x && x->reward != y->reward)
        return x->reward > y->reward ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* Adds up to n_first samples from the beginning of the order, and up to n_last from its end. */
static tess_status add_rollout(listing *l, const char *journal, int64_t rollout, size_t n_first, size_t n_last)
{
    TESS_AUTO(rl_samples_free) rl_samples samples = {0};
    l->rollout = rollout;
    TESS_TRY(rl_samples_read(l->mem, journal, rollout, &samples));
    if (samples.n > 0)
        qsort(samples.sample, samples.n, sizeof(*samples.sample), by_reward);
    for (size_t i = 0; i < samples.n; i++)
        if (i < n_first || samples.n - i <= n_last)
            TESS_TRY(add(l, &samples.sample[i]));
    return TESS_OK;
}

static tess_status list_samples(listing *l, const char *folder)
{
    char journal[4096 + 8], path[4096 + 32];
    TESS_AUTO(tess_mem_drop) int64_t *rollouts = NULL;
    size_t n = 0;
    TESS_TRY(tess_os_join(journal, sizeof(journal), folder, "rl"));
    TESS_TRY(tess_os_join(path, sizeof(path), journal, "tokenizer.json"));
    if (!tess_os_is_file(path))
        return TESS_OK;
    TESS_TRY(rl_journal_rollouts(l->mem, journal, &rollouts, &n));
    if (n == 0)
        return TESS_OK;
    TESS_TRY(tess_tokenizer_load(l->mem, path, &l->tokenizer));
    TESS_TRY(add_rollout(l, journal, rollouts[n - 1], ENDS, ENDS));
    return n > 1 ? add_rollout(l, journal, rollouts[0], ENDS, 0) : TESS_OK;
}

json_t *rl_page_samples(TESS_UNUSED void *self, tess_mem *mem, const char *folder)
{
    listing l = {.mem = mem, .list = json_array()};
    if (list_samples(&l, folder) != TESS_OK)
        tess_error_clear(); /* the page shows the samples that could be read */
    tess_tokenizer_destroy(&l.tokenizer);
    return l.list;
}
