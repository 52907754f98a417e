/* `tessera bench comm`: every collective, over shared memory, beside what memory allows and beside MPI. A round is one
 * job of ours and one of each peer, back to back, so that all see the same neighbours; what is told are the medians of
 * the rounds, and of the rounds' ratios. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "bench/comm_job.h"
#include "bench/samples.h"
#include "job/job_memory.h"

#define MPI_PATIENCE_S 120 /* a size takes a second; far more ranks than cores, many */

/* ---- Rows, and what they are called ---- */

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

/* ---- The loop over collectives and sizes, wherever they are measured ---- */

enum { N_COMMON = 6 }; /* columns of every table */

static tess_status add_rows(const comm_bench *b, const comm_question *q)
{
    for (int i = 0; i < q->n_sizes; i++) {
        char name[128];
        double m[COMM_MEDIANS], bytes = (double)q->bytes[i];
        comm_question_name(q, q->bytes[i], name, sizeof(name));
        for (int k = 0; k < COMM_MEDIANS; k++)
            m[k] = tess_bench_samples_median(&b->samples[i][k]);
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
    memset(b->samples, 0, COMM_PLAN_SIZES * sizeof(b->samples[0]));
    for (int round = 0; round < b->rounds; round++) {
        comm_answer ours = {.memory_bytes_per_s = 0};
        TESS_TRY(b->setting->round(b, q, &ours));
        for (int i = 0; i < q->n_sizes; i++) {
            tess_bench_samples_add(&b->samples[i][COMM_TIME], ours.window[i].median_us);
            tess_bench_samples_add(&b->samples[i][COMM_MIN], ours.window[i].min_us);
            if (q->op->sized)
                tess_bench_samples_add(&b->samples[i][COMM_PRIVATE], ours.private[i].median_us);
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

/* ---- On one machine ---- */

enum { LIMIT = COMM_OTHERS, MPI, MPI_RATIO, YIELD, YIELD_RATIO, PRIVATE_RATIO };

static bool plain_mpi_can_wait(int ranks)
{
    return ranks <= tess_os_cores(); /* without yielding, more ranks than cores take a time slice for every message */
}

static void add_peer(comm_bench *b, const comm_question *q, const comm_time *theirs, const comm_answer *ours, int time)
{
    for (int i = 0; i < q->n_sizes; i++) {
        tess_bench_samples_add(&b->samples[i][time], theirs[i].median_us);
        tess_bench_samples_add(&b->samples[i][time + 1], theirs[i].median_us / ours->window[i].median_us);
    }
}

static tess_status one_round(comm_bench *b, const comm_question *q, comm_answer *ours)
{
    comm_time theirs[COMM_PLAN_SIZES], yielding[COMM_PLAN_SIZES];
    bool has_mpi = b->mpi_program != NULL, plain = has_mpi && plain_mpi_can_wait(q->ranks);
    if (plain)
        TESS_TRY(comm_job_mpi(q, &(comm_peer){b->mpi_program, false, MPI_PATIENCE_S}, theirs));
    TESS_TRY(comm_job_ours(q, ours));
    if (has_mpi)
        TESS_TRY(comm_job_mpi(q, &(comm_peer){b->mpi_program, true, MPI_PATIENCE_S}, yielding));
    for (int i = 0; i < q->n_sizes; i++) {
        double least_us = comm_op_traffic(q->op, q->dtype, q->bytes[i], q->ranks) / ours->memory_bytes_per_s * 1e6;
        if (q->op->sized && q->bytes[i] * (size_t)q->ranks > tess_bench_cache_bytes(3)) /* else caches may hold it */
            tess_bench_samples_add(&b->samples[i][LIMIT], 100 * least_us / ours->window[i].median_us);
        if (has_mpi && q->op->sized)
            tess_bench_samples_add(&b->samples[i][PRIVATE_RATIO],
                                   (plain ? theirs : yielding)[i].median_us / ours->private[i].median_us);
    }
    if (plain)
        add_peer(b, q, theirs, ours, MPI);
    if (has_mpi)
        add_peer(b, q, yielding, ours, YIELD);
    return TESS_OK;
}

static void figures(const comm_bench *b, const comm_question *q, int i, const double *m, double *values)
{
    static const int shown[] = {LIMIT, COMM_PRIVATE, MPI, MPI_RATIO, YIELD, YIELD_RATIO, PRIVATE_RATIO};
    (void)b;
    (void)q;
    (void)i;
    for (size_t k = 0; k < sizeof(shown) / sizeof(shown[0]); k++)
        values[k] = m[shown[k]];
}

static const tess_bench_column columns[] = {
    {"of memory", "%", TESS_BENCH_HIGHER}, {"private", "us", TESS_BENCH_LOWER},    {"MPI", "us", TESS_BENCH_NEITHER},
    {"MPI/time", "", TESS_BENCH_HIGHER},   {"yielding", "us", TESS_BENCH_NEITHER}, {"yld/time", "", TESS_BENCH_HIGHER},
    {"MPI/priv", "", TESS_BENCH_HIGHER},
};

static const comm_setting one_machine = {columns, sizeof(columns) / sizeof(columns[0]), one_round, figures};

/* The program beside this one, unless another is named; no MPI is no error when nobody asked for it. */
static tess_status find_mpi(comm_bench *b, char *program, size_t size)
{
    const char *named = b->options->comm.mpi;
    if (named[0] != '\0')
        snprintf(program, size, "%s", named);
    else
        tess_bench_beside("mpi_collectives", program, size);
    int n_ops;
    comm_time time;
    comm_question probe = {.op = comm_op_list(&n_ops), .dtype = TESS_F32, .ranks = 2, .n_sizes = 1, .bytes = {256}};
    tess_status status = TESS_E_NOT_FOUND;
    if (strcmp(named, "none") != 0 && access(program, X_OK) == 0)
        status = comm_job_mpi(&probe, &(comm_peer){program, true, MPI_PATIENCE_S}, &time);
    b->mpi_program = status == TESS_OK ? program : NULL;
    if (b->mpi_program == NULL && named[0] != '\0' && strcmp(named, "none") != 0)
        return TESS_FAIL(TESS_E_NOT_FOUND, "--mpi %s: it did not run under mpirun", named);
    tess_error_clear();
    return tess_bench_report_fact(b->report, "MPI", "%s",
                                  b->mpi_program != NULL ? b->mpi_program : "none to compare with");
}

/* The numbers of ranks, in the order given. */
static tess_status parse_ranks(const tess_text_list *list, int *ranks, int *n)
{
    static const int plain[] = {2, 4, 8};
    *n = list->n > 0 ? list->n : (int)(sizeof(plain) / sizeof(plain[0]));
    if (list->n == 0)
        memcpy(ranks, plain, sizeof(plain));
    for (int i = 0; i < list->n; i++) {
        char *end;
        long value = strtol(list->item[i], &end, 10);
        TESS_CHECK(end != list->item[i] && *end == '\0' && value >= 2 && value <= JOB_MAX_RANKS, TESS_E_INVALID,
                   "--ranks %s: name numbers from 2 to %d, as in --ranks 2,4", list->item[i], JOB_MAX_RANKS);
        ranks[i] = (int)value;
        for (int k = 0; k < i; k++)
            TESS_CHECK(ranks[k] != ranks[i], TESS_E_INVALID, "--ranks: %d stands there twice; name it once", ranks[i]);
    }
    return TESS_OK;
}

static tess_status run(tess_mem *mem, const tess_bench_options *options, tess_bench_report *report)
{
    comm_bench b = {
        .setting = &one_machine, .options = options, .report = report, .rounds = tess_bench_rounds(options, 5, 1)};
    int ranks[TESS_LIST_SIZE], n_ranks;
    char mpi_program[TESS_TEXT_SIZE], title[64];
    TESS_TRY(parse_ranks(&options->comm.ranks, ranks, &n_ranks));
    TESS_TRY(comm_check_sizes(options));
    TESS_CHECK(options->comm.tune[0] == '\0', TESS_E_INVALID,
               "--tune %s: the table is for jobs over several hosts; start this with mpirun on two or more",
               options->comm.tune);
    TESS_TRY(find_mpi(&b, mpi_program, sizeof(mpi_program)));
    for (int i = 0; i < n_ranks; i++) {
        b.ranks = ranks[i];
        snprintf(title, sizeof(title), "%d ranks on %d cores", b.ranks, tess_os_cores());
        TESS_TRY(comm_bench_table(&b, mem, title));
    }
    return TESS_OK;
}

const tess_bench tess_bench_comm = {"comm", "collectives, beside memory's limit, the link and MPI", run,
                                    comm_run_in_job};
