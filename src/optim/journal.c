#include "optim/journal.h"

#include <stdatomic.h>
#include <string.h>

struct optim_journal {
    _Atomic int64_t step;  /* that is being updated, or was last */
    _Atomic int64_t saved; /* chunks whose old values were written here: done, or one more */
    _Atomic int64_t done;
    int64_t chunk; /* elements of one, in this step */
    _Alignas(64) float old[JOURNAL_ARRAYS][JOURNAL_MOST];
};

tess_status optim_journal_open(tess_keep *keep, tess_mem *mem, optim_journal **journal)
{
    bool found;
    *journal = NULL;
    return keep == NULL
               ? TESS_OK
               : tess_keep_alloc(keep, mem, TESS_POOL_MISC, "journal", sizeof(optim_journal), (void **)journal, &found);
}

void optim_journal_close(tess_keep *keep, tess_mem *mem, optim_journal **journal)
{
    if (*journal != NULL)
        tess_keep_free(keep, mem, TESS_POOL_MISC, sizeof(optim_journal), *journal);
    *journal = NULL;
}

int64_t optim_journal_begin(optim_journal *j, const tess_stream *stream, int64_t step, int64_t *chunk)
{
    if (atomic_load(&j->step) != step) {
        int64_t wanted = (int64_t)JOURNAL_PER_THREAD * tess_threads_count(stream->threads);
        j->chunk = wanted < JOURNAL_MOST ? wanted : JOURNAL_MOST;
        atomic_store(&j->saved, 0);
        atomic_store(&j->done, 0);
        atomic_store(&j->step, step);
    }
    *chunk = j->chunk;
    return atomic_load(&j->done);
}

typedef struct copying {
    float *to[JOURNAL_ARRAYS];
    const float *from[JOURNAL_ARRAYS];
} copying;

static void copy_part(void *context, int64_t begin, int64_t end, int worker)
{
    const copying *c = context;
    (void)worker;
    for (int a = 0; a < JOURNAL_ARRAYS; a++)
        memcpy(c->to[a] + begin, c->from[a] + begin, (size_t)(end - begin) * sizeof(float));
}

void optim_journal_protect(optim_journal *j, tess_stream *stream, int64_t number, const optim_chunk *chunk)
{
    copying c;
    bool is_torn = atomic_load(&j->saved) == number + 1;
    for (int a = 0; a < JOURNAL_ARRAYS; a++) {
        c.to[a] = is_torn ? chunk->array[a] : j->old[a];
        c.from[a] = is_torn ? j->old[a] : chunk->array[a];
    }
    tess_threads_run(stream->threads, copy_part, &c, chunk->n, 1024);
    atomic_store_explicit(&j->saved, number + 1, memory_order_release);
}

void optim_journal_commit(optim_journal *j, int64_t number)
{
    atomic_store_explicit(&j->done, number + 1, memory_order_release);
}
