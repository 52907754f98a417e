/* Writes the tables of `tessera bench comm`: one row for each collective and size, on one machine or in a job. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "bench/comm/comm_job.h"
#include "bench/samples.h"

/* ---- Rows and their names ---- */

void comm_case_name(const comm_case *which, size_t bytes, char *name, size_t size)
{
    char amount[32];
    int at = snprintf(name, size, "%s", which->op->name);
    if (which->op->sized)
        at += snprintf(name + at, size - (size_t)at, "%s %s %s", which->op->reduces ? " sum" : "",
                       tess_dtype_name(which->dtype), tess_format_bytes((double)bytes, amount, sizeof(amount)));
    snprintf(name + at, size - (size_t)at, ", %d ranks", which->ranks);
}

void comm_case_sizes(comm_case *which, const tess_bench_options *options)
{
    size_t most = (size_t)options->comm.max_bytes, factor = (size_t)options->comm.factor;
    size_t unit = (size_t)which->ranks * 64;
    which->n_sizes = 0;
    for (size_t bytes = (size_t)options->comm.min_bytes; bytes <= most && which->n_sizes < COMM_PLAN_SIZES;
         bytes *= factor) {
        char name[128];
        size_t even = which->op->sized ? (bytes + unit - 1) / unit * unit : 0;
        comm_case_name(which, even, name, sizeof(name));
        if (tess_bench_wanted(options, name) && (which->n_sizes == 0 || which->bytes[which->n_sizes - 1] != even))
            which->bytes[which->n_sizes++] = even;
        if (!which->op->sized)
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

enum { N_COMMON = 6 }; /* number of columns that every table has */

static tess_status add_rows(const comm_bench *b, const comm_case *which)
{
    for (int i = 0; i < which->n_sizes; i++) {
        char name[128];
        double m[COMM_MEDIANS], bytes = (double)which->bytes[i];
        comm_case_name(which, which->bytes[i], name, sizeof(name));
        for (int k = 0; k < COMM_MEDIANS; k++)
            m[k] = tess_bench_median(b->samples[i][k], b->rounds);
        double algbw = which->op->sized ? bytes / m[COMM_TIME] * 1e-3 : NAN;
        double values[TESS_BENCH_MAX_COLUMNS] = {bytes,        bytes / (double)tess_dtype_size(which->dtype),
                                                 m[COMM_TIME], m[COMM_MIN],
                                                 algbw,        algbw * comm_op_bus_factor(which->op, which->ranks)};
        b->setting->figures(b, which, i, m, values + N_COMMON);
        TESS_TRY(tess_bench_report_row(b->report, name, values));
    }
    return TESS_OK;
}

static tess_status measure(comm_bench *b, comm_case *which)
{
    comm_case_sizes(which, b->options);
    if (which->n_sizes == 0)
        return TESS_OK;
    for (b->round = 0; b->round < b->rounds; b->round++) {
        for (int i = 0; i < which->n_sizes; i++)
            for (int k = 0; k < COMM_MEDIANS; k++)
                b->samples[i][k][b->round] = NAN;
        comm_result ours = {.memory_bytes_per_s = 0};
        TESS_TRY(b->setting->round(b, which, &ours));
        for (int i = 0; i < which->n_sizes; i++) {
            b->samples[i][COMM_TIME][b->round] = ours.window[i].median_us;
            b->samples[i][COMM_MIN][b->round] = ours.window[i].min_us;
            if (which->op->sized)
                b->samples[i][COMM_PRIVATE][b->round] = ours.private[i].median_us;
        }
    }
    return add_rows(b, which);
}

/* Whether the operation is measured. In device memory, only operations that use windows are; others go through the
 * host. */
static bool is_measured(const comm_bench *b, const comm_op *op)
{
    bool windows = op->kind == TESS_TRACE_ALL_REDUCE || op->kind == TESS_TRACE_ALL_GATHER ||
                   op->kind == TESS_TRACE_ALL_GATHER_PIECES || op->kind == TESS_TRACE_REDUCE_SCATTER_PIECES ||
                   op->kind == TESS_TRACE_SEND;
    return windows || b->options->comm.device[0] == '\0';
}

tess_status comm_bench_table(comm_bench *b, tess_mem *mem, const char *title)
{
    static const tess_dtype dtypes[] = {TESS_F32, TESS_BF16};
    char columns[256];
    int n_ops;
    const comm_op *ops = comm_op_list(&n_ops);
    snprintf(columns, sizeof(columns), "size[B], count, <time[us], <min[us], >algbw[GB/s], >busbw[GB/s], %s",
             b->setting->columns);
    TESS_TRY(tess_bench_report_table(b->report, title, columns));
    TESS_AUTO(tess_mem_drop) __typeof__(b->samples) samples = NULL;
    TESS_TRY(TESS_NEW(mem, COMM_PLAN_SIZES, "timings", &samples));
    b->samples = samples;
    for (int i = 0; i < n_ops; i++)
        for (int d = 0; d < (ops[i].sized ? 2 : 1); d++)
            if (is_measured(b, &ops[i]))
                TESS_TRY(measure(b, &(comm_case){.op = &ops[i], .dtype = dtypes[d], .ranks = b->ranks}));
    return TESS_OK;
}
