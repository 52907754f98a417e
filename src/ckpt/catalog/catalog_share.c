/* Reads many boxes with several threads. Each thread takes the next piece, in the order of the files. */
#include <stdio.h>
#include <stdlib.h>

#include "ckpt/catalog/catalog_impl.h"

typedef struct share_job {
    int request, piece;
    bool verify; /* only verify the range that contains the piece */
} share_job;

typedef struct sharing {
    const tess_catalog *catalog;
    const tess_catalog_request *requests;
    const share_job *jobs;
    int64_t next;   /* the next job to take; atomic */
    int64_t failed; /* index of the first job that failed, or the number of jobs; atomic, written under the lock */
    uint32_t lock;
    tess_status status; /* status of the failed job, under the lock */
    char message[1024]; /* its message, under the lock */
} sharing;

static void note_failure(sharing *s, int64_t index, tess_status status)
{
    while (__atomic_exchange_n(&s->lock, 1, __ATOMIC_ACQUIRE) != 0)
        continue; /* spins, because the holder only copies a message */
    if (index < s->failed) {
        snprintf(s->message, sizeof(s->message), "%s", tess_error_message());
        s->status = status;
        __atomic_store_n(&s->failed, index, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&s->lock, 0, __ATOMIC_RELEASE);
}

/* Takes jobs until there are no more, or an earlier one has failed. */
static void take_jobs(void *context, int64_t begin, int64_t end, int worker)
{
    sharing *s = context;
    (void)begin, (void)end, (void)worker;
    for (;;) {
        int64_t index = __atomic_fetch_add(&s->next, 1, __ATOMIC_RELAXED);
        if (index >= __atomic_load_n(&s->failed, __ATOMIC_RELAXED))
            return;
        const share_job *j = &s->jobs[index];
        const tess_catalog_request *request = &s->requests[j->request];
        tess_status status = j->verify ? tess_piece_check_range(s->catalog, request->tensor, j->piece)
                                       : tess_catalog_read_piece(s->catalog, j->piece, request);
        if (status != TESS_OK)
            note_failure(s, index, status);
    }
}

static int compare_jobs(const void *a, const void *b, void *context)
{
    const tess_catalog *c = context;
    const share_job *x = a, *y = b;
    const tess_catalog_piece *p = &c->pieces[x->piece], *q = &c->pieces[y->piece];
    if (p->file != q->file)
        return p->file < q->file ? -1 : 1;
    if (p->offset != q->offset)
        return p->offset < q->offset ? -1 : 1;
    return x->request < y->request ? -1 : x->request > y->request;
}

/* Lists the pieces that intersect a request's box, and returns their number. `jobs` NULL: only counts them. */
static size_t list_jobs(const tess_catalog *c, const tess_catalog_request *requests, int n, share_job *jobs)
{
    size_t count = 0;
    for (int i = 0; i < n; i++) {
        const tess_catalog_tensor *t = requests[i].tensor;
        for (int k = t->first_piece; k < t->first_piece + t->n_pieces && requests[i].dst != NULL; k++) {
            if (!tess_box_meet(t->n_dims, &c->pieces[k].box, &requests[i].box, NULL))
                continue;
            if (jobs != NULL)
                jobs[count] = (share_job){i, k, false};
            count++;
        }
    }
    return count;
}

/* Stores a verification job for each range that contains pieces. These jobs are placed directly before jobs[n], where n
 * read jobs begin, sorted in the order of the files. Returns the index of the first job. */
static size_t list_ranges(const tess_catalog *c, share_job *jobs, size_t n)
{
    size_t first = n;
    int last = -1;
    for (size_t i = 2 * n; i-- > n;) {
        int range = c->impl->range_of[jobs[i].piece];
        if (range >= 0 && range != last)
            jobs[--first] = (share_job){jobs[i].request, jobs[i].piece, true};
        last = range >= 0 ? range : last;
    }
    return first;
}

static tess_status run_jobs(const tess_catalog *c, tess_threads *threads, const tess_catalog_request *requests,
                            const share_job *jobs, size_t n)
{
    sharing s = {.catalog = c, .requests = requests, .jobs = jobs, .failed = (int64_t)n};
    if (threads != NULL && n > 0)
        tess_threads_run(threads, take_jobs, &s, tess_threads_count(threads), 1);
    else
        take_jobs(&s, 0, 1, 0);
    return s.status == TESS_OK ? TESS_OK : TESS_FAIL(s.status, "%s", s.message);
}

tess_status tess_catalog_read_all(const tess_catalog *c, tess_threads *threads, const tess_catalog_request *requests,
                                  int n)
{
    TESS_AUTO(tess_mem_drop) share_job *jobs = NULL;
    for (int i = 0; i < n; i++)
        TESS_TRY(tess_catalog_check_request(c, &requests[i]));
    size_t n_jobs = list_jobs(c, requests, n, NULL);
    TESS_TRY(TESS_NEW(c->mem, 2 * n_jobs, "pieces to read", &jobs));
    list_jobs(c, requests, n, jobs + n_jobs);
    if (n_jobs > 1)
        qsort_r(jobs + n_jobs, n_jobs, sizeof(*jobs), compare_jobs, (void *)c);
    size_t first = list_ranges(c, jobs, n_jobs);
    /* Verifies all ranges before reading: otherwise a second thread would verify a range that is already being
     * verified. */
    TESS_TRY(run_jobs(c, threads, requests, jobs + first, n_jobs - first));
    return run_jobs(c, threads, requests, jobs + n_jobs, n_jobs);
}
