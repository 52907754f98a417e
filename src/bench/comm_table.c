/* The tables of `tessera bench comm`: a row for each collective and size, on one machine or in a job. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "bench/comm_job.h"
#include "bench/samples.h"

/* ---- Rows and their names ---- */

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

/* ---- The loop over collectives and sizes ---- */

enum { N_COMMON = 6 }; /* columns of every table */

static tess_status add_rows(const comm_bench *b, const comm_question *q)
{
    for (int i = 0; i < q->n_sizes; i++) {
        char name[128];
        double m[COMM_MEDIANS], bytes = (double)q->bytes[i];
        comm_question_name(q, q->bytes[i], name, sizeof(name));
        for (int k = 0; k < COMM_MEDIANS; k++)
            m[k] = tess_bench_median(b->samples[i][k], b->rounds);
        double algbw = q->op->sized ? bytes / m[COMM_TIME] * 1e-3 : NAN;
        double values[TESS_BENCH_MAX_COLUMNS] = {bytes,        bytes / (double)tess_dtype_size(q->dtype),
                                                 m[COMM_TIME], m[COMM_MIN],
                                                 algbw,        algbw * comm_op_bus_factor(q->op, q->ranks)};
        b->setting->figures(b, q, i, m, values + N_COMMON);
        TESS_TRY(tess_bench_report_row(b->report, name, values));
    }
    return TESS_OK;
}

static tess_status measure(comm_bench *b, comm_question *q)
{
    comm_question_sizes(q, b->options);
    if (q->n_sizes == 0)
        return TESS_OK;
    for (b->round = 0; b->round < b->rounds; b->round++) {
        for (int i = 0; i < q->n_sizes; i++)
            for (int k = 0; k < COMM_MEDIANS; k++)
                b->samples[i][k][b->round] = NAN;
        comm_answer ours = {.memory_bytes_per_s = 0};
        TESS_TRY(b->setting->round(b, q, &ours));
        for (int i = 0; i < q->n_sizes; i++) {
            b->samples[i][COMM_TIME][b->round] = ours.window[i].median_us;
            b->samples[i][COMM_MIN][b->round] = ours.window[i].min_us;
            if (q->op->sized)
                b->samples[i][COMM_PRIVATE][b->round] = ours.private[i].median_us;
        }
    }
    return add_rows(b, q);
}

tess_status comm_bench_table(comm_bench *b, tess_mem *mem, const char *title)
{
    static const tess_dtype dtypes[] = {TESS_F32, TESS_BF16};
    tess_bench_column columns[TESS_BENCH_MAX_COLUMNS] = {
        {"size", "B", TESS_BENCH_NEITHER}, {"count", "", TESS_BENCH_NEITHER},    {"time", "us", TESS_BENCH_LOWER},
        {"min", "us", TESS_BENCH_LOWER},   {"algbw", "GB/s", TESS_BENCH_HIGHER}, {"busbw", "GB/s", TESS_BENCH_HIGHER}};
    int n_ops;
    const comm_op *ops = comm_op_list(&n_ops);
    memcpy(columns + N_COMMON, b->setting->columns, (size_t)b->setting->n_columns * sizeof(columns[0]));
    TESS_TRY(tess_bench_report_table(b->report, title, columns, N_COMMON + b->setting->n_columns));
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, COMM_PLAN_SIZES, sizeof(b->samples[0]), "timings",
                                  (void **)&b->samples));
    tess_status status = TESS_OK;
    for (int i = 0; i < n_ops; i++)
        for (int d = 0; d < (ops[i].sized ? 2 : 1) && status == TESS_OK; d++)
            status = measure(b, &(comm_question){.op = &ops[i], .dtype = dtypes[d], .ranks = b->ranks});
    tess_mem_free(mem, b->samples);
    return status;
}
