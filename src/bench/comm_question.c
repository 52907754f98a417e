/* Which rows `tessera bench comm` has, and what they are called. */
#include <stdio.h>

#include "base/text/text.h"
#include "bench/bench.h"
#include "bench/comm_job.h"

void comm_question_name(const comm_question *q, size_t bytes, char *name, size_t size)
{
    char amount[32];
    int at = snprintf(name, size, "%s", q->op->name);
    if (q->op->sized)
        at += snprintf(name + at, size - (size_t)at, "%s %s %s", q->op->reduces ? " sum" : "",
                       tess_dtype_name(q->dtype), tess_format_bytes((double)bytes, amount, sizeof(amount)));
    snprintf(name + at, size - (size_t)at, ", %d ranks", q->ranks);
}

void comm_question_sizes(comm_question *q, const tess_bench_options *options)
{
    size_t most = (size_t)options->comm.max_bytes, factor = (size_t)options->comm.factor;
    size_t unit = (size_t)q->ranks * 64;
    q->n_sizes = 0;
    for (size_t bytes = (size_t)options->comm.min_bytes; bytes <= most && q->n_sizes < COMM_PLAN_SIZES;
         bytes *= factor) {
        char name[128];
        size_t even = q->op->sized ? (bytes + unit - 1) / unit * unit : 0;
        comm_question_name(q, even, name, sizeof(name));
        if (tess_bench_wanted(options, name) && (q->n_sizes == 0 || q->bytes[q->n_sizes - 1] != even))
            q->bytes[q->n_sizes++] = even;
        if (!q->op->sized)
            return;
    }
}

tess_status comm_check_sizes(const tess_bench_options *options)
{
    TESS_CHECK(options->comm.min_bytes <= options->comm.max_bytes, TESS_E_INVALID,
               "--min-bytes %lld is above --max-bytes %lld: lower it, or raise --max-bytes",
               (long long)options->comm.min_bytes, (long long)options->comm.max_bytes);
    return TESS_OK;
}
