/* Reads the samples of a rollout from the journal. The journal has several records of a sample: one when it is
 * drawn, and one with its reward. With a budget of tokens, it has one for each rollout in which the sample
 * continues. The most complete record counts. */
#include "rl/rl_samples.h"

#include <stdlib.h>

#include "base/mem/make_room.h"
#include "rl/rl_journal.h"
#include "base/mem/scoped.h"

static tess_status add_record(void *self, int64_t round, const void *bytes, size_t size)
{
    rl_samples *s = self;
    size_t used;
    if (round < 0)
        return TESS_OK;
    TESS_TRY(tess_mem_make_room(s->mem, TESS_POOL_MISC, s->n, sizeof(*s->sample), "samples", &s->room, &s->sample));
    s->sample[s->n] = (rl_sample){.finish = RL_UNFINISHED};
    TESS_TRY(rl_sample_read(s->mem, bytes, size, &s->sample[s->n], &used));
    s->n++;
    return TESS_OK;
}

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* Orders the most complete record first. */
static int by_number(const void *a, const void *b)
{
    const rl_sample *x = a, *y = b;
    const int number = compare(x->number, y->number);
    const int graded = compare(y->grade != RL_UNGRADED, x->grade != RL_UNGRADED);
    const int finished = compare(y->finish != RL_UNFINISHED, x->finish != RL_UNFINISHED);
    return number != 0 ? number : graded != 0 ? graded : finished != 0 ? finished : compare(y->n, x->n);
}

static void keep_first_of_each(rl_samples *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (n > 0 && s->sample[n - 1].number == s->sample[i].number)
            rl_sample_free(s->mem, &s->sample[i]);
        else
            s->sample[n++] = s->sample[i];
    }
    s->n = n;
}

tess_status rl_samples_read(tess_mem *mem, const char *folder, int64_t rollout, rl_samples *samples)
{
    rl_origin origin;
    bool found;
    *samples = (rl_samples){.mem = mem};
    TESS_TRY(rl_journal_newest(folder, rollout, &origin, &found));
    if (!found)
        return TESS_OK;
    TESS_TRY(rl_journal_read(folder, rollout, &origin, add_record, samples));
    if (samples->n > 0)
        qsort(samples->sample, samples->n, sizeof(*samples->sample), by_number);
    keep_first_of_each(samples);
    return TESS_OK;
}

void rl_samples_free(rl_samples *samples)
{
    for (size_t i = 0; i < samples->n; i++)
        rl_sample_free(samples->mem, &samples->sample[i]);
    tess_mem_drop(&samples->sample);
    samples->n = samples->room = 0;
}
