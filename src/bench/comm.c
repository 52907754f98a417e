/* `tessera bench comm`: every collective, over shared memory, beside what memory allows and beside MPI. A round is one
 * job of ours and one of each peer, back to back, so that all see the same neighbours; what is told are the medians of
 * the rounds, and of the rounds' ratios. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/os.h"
#include "bench/bench.h"
#include "bench/comm_hosts.h"
#include "bench/comm_job.h"
#include "bench/samples.h"
#include "job/job_memory.h"

enum { TIME, MIN, PRIVATE, LIMIT, MPI, MPI_RATIO, YIELD, YIELD_RATIO, PRIVATE_RATIO, N_KINDS };

/* Of one collective, dtype and number of ranks: all rounds. */
typedef struct series {
    tess_bench_samples of[COMM_PLAN_SIZES][N_KINDS];
} series;

#define MPI_PATIENCE_S 120 /* a size takes a second; far more ranks than cores, many */

typedef struct bench {
    const tess_bench_options *options;
    tess_bench_report *report;
    char mpi_program[TESS_TEXT_SIZE];
    bool has_mpi;
    series *series;
} bench;

static int n_rounds(const tess_bench_options *options)
{
    return options->common.repeat > 0 ? (int)options->common.repeat : options->common.quick ? 1 : 5;
}

static bool plain_mpi_can_wait(int ranks)
{
    return ranks <= tess_os_cores(); /* without yielding, more ranks than cores take a time slice for every message */
}

static void add_peer(const comm_time *theirs, const comm_answer *ours, const comm_question *q, int time, int ratio,
                     series *s)
{
    for (int i = 0; i < q->n_sizes; i++) {
        tess_bench_samples_add(&s->of[i][time], theirs[i].median_us);
        tess_bench_samples_add(&s->of[i][ratio], theirs[i].median_us / ours->window[i].median_us);
    }
}

static tess_status one_round(bench *b, const comm_question *q, series *s)
{
    comm_answer ours;
    comm_time theirs[COMM_PLAN_SIZES], yielding[COMM_PLAN_SIZES];
    bool plain = b->has_mpi && plain_mpi_can_wait(q->ranks);
    if (plain)
        TESS_TRY(comm_job_mpi(q, &(comm_peer){b->mpi_program, false, MPI_PATIENCE_S}, theirs));
    TESS_TRY(comm_job_ours(q, &ours));
    if (b->has_mpi)
        TESS_TRY(comm_job_mpi(q, &(comm_peer){b->mpi_program, true, MPI_PATIENCE_S}, yielding));
    for (int i = 0; i < q->n_sizes; i++) {
        const comm_call call = {.dtype = q->dtype, .bytes = q->bytes[i]};
        double least_us = q->op->traffic(&call, q->ranks) / ours.memory_bytes_per_s * 1e6;
        tess_bench_samples_add(&s->of[i][TIME], ours.window[i].median_us);
        tess_bench_samples_add(&s->of[i][MIN], ours.window[i].min_us);
        if (q->op->sized)
            tess_bench_samples_add(&s->of[i][PRIVATE], ours.private[i].median_us);
        if (q->op->sized && q->bytes[i] * (size_t)q->ranks > tess_bench_cache_bytes(3)) /* else caches may hold it */
            tess_bench_samples_add(&s->of[i][LIMIT], 100 * least_us / ours.window[i].median_us);
        if (b->has_mpi && q->op->sized)
            tess_bench_samples_add(&s->of[i][PRIVATE_RATIO],
                                   (plain ? theirs : yielding)[i].median_us / ours.private[i].median_us);
    }
    if (plain)
        add_peer(theirs, &ours, q, MPI, MPI_RATIO, s);
    if (b->has_mpi)
        add_peer(yielding, &ours, q, YIELD, YIELD_RATIO, s);
    return TESS_OK;
}

static tess_status tell(const bench *b, const comm_question *q, const series *s)
{
    for (int i = 0; i < q->n_sizes; i++) {
        char name[128];
        double m[N_KINDS], bytes = (double)q->bytes[i];
        comm_question_name(q, q->bytes[i], name, sizeof(name));
        for (int k = 0; k < N_KINDS; k++)
            m[k] = tess_bench_samples_median(&s->of[i][k]);
        double algbw = q->op->sized ? bytes / m[TIME] * 1e-3 : NAN;
        TESS_TRY(tess_bench_report_row(b->report, name,
                                       (double[]){bytes, bytes / (double)tess_dtype_size(q->dtype), m[TIME], m[MIN],
                                                  algbw, algbw * q->op->bus_factor(q->ranks), m[LIMIT], m[PRIVATE],
                                                  m[MPI], m[MPI_RATIO], m[YIELD], m[YIELD_RATIO], m[PRIVATE_RATIO]}));
    }
    return TESS_OK;
}

static tess_status measure(bench *b, comm_question *q)
{
    comm_question_sizes(q, b->options);
    if (q->n_sizes == 0)
        return TESS_OK;
    memset(b->series, 0, sizeof(*b->series));
    for (int round = 0; round < n_rounds(b->options); round++)
        TESS_TRY(one_round(b, q, b->series));
    return tell(b, q, b->series);
}

static tess_status table(bench *b, int ranks)
{
    static const tess_bench_column columns[] = {
        {"size", "B", TESS_BENCH_NEITHER},      {"count", "", TESS_BENCH_NEITHER},
        {"time", "us", TESS_BENCH_LOWER},       {"min", "us", TESS_BENCH_LOWER},
        {"algbw", "GB/s", TESS_BENCH_HIGHER},   {"busbw", "GB/s", TESS_BENCH_HIGHER},
        {"of memory", "%", TESS_BENCH_HIGHER},  {"private", "us", TESS_BENCH_LOWER},
        {"MPI", "us", TESS_BENCH_NEITHER},      {"MPI/time", "", TESS_BENCH_HIGHER},
        {"yielding", "us", TESS_BENCH_NEITHER}, {"yld/time", "", TESS_BENCH_HIGHER},
        {"MPI/priv", "", TESS_BENCH_HIGHER},
    };
    static const tess_dtype dtypes[] = {TESS_F32, TESS_BF16};
    int n_ops;
    char title[64];
    const comm_op *ops = comm_op_list(&n_ops);
    snprintf(title, sizeof(title), "%d ranks on %d cores", ranks, tess_os_cores());
    TESS_TRY(tess_bench_report_table(b->report, title, columns, sizeof(columns) / sizeof(columns[0])));
    for (int i = 0; i < n_ops; i++)
        for (int d = 0; d < (ops[i].sized ? 2 : 1); d++)
            TESS_TRY(measure(b, &(comm_question){.op = &ops[i], .dtype = dtypes[d], .ranks = ranks}));
    return TESS_OK;
}

/* The program beside this one, unless another is named; no MPI is no error when nobody asked for it. */
static tess_status find_mpi(bench *b)
{
    const char *named = b->options->comm.mpi;
    char self[TESS_TEXT_SIZE];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    snprintf(b->mpi_program, sizeof(b->mpi_program), "%s", named);
    if (named[0] == '\0' && slash != NULL)
        snprintf(b->mpi_program, sizeof(b->mpi_program), "%.*s/mpi_collectives", (int)(slash - self), self);
    int n_ops;
    comm_time time;
    comm_question probe = {.op = comm_op_list(&n_ops), .dtype = TESS_F32, .ranks = 2, .n_sizes = 1, .bytes = {256}};
    tess_status status = TESS_E_NOT_FOUND;
    if (strcmp(named, "none") != 0 && access(b->mpi_program, X_OK) == 0)
        status = comm_job_mpi(&probe, &(comm_peer){b->mpi_program, true, MPI_PATIENCE_S}, &time);
    b->has_mpi = status == TESS_OK;
    if (!b->has_mpi && named[0] != '\0' && strcmp(named, "none") != 0)
        return TESS_FAIL(TESS_E_NOT_FOUND, "--mpi %s: it did not run under mpirun", named);
    tess_error_clear();
    return tess_bench_report_fact(b->report, "MPI", "%s", b->has_mpi ? b->mpi_program : "none to compare with");
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
    bench b = {.options = options, .report = report};
    int ranks[TESS_LIST_SIZE], n_ranks;
    void *block;
    TESS_TRY(parse_ranks(&options->comm.ranks, ranks, &n_ranks));
    TESS_TRY(comm_check_sizes(options));
    TESS_CHECK(options->comm.tune[0] == '\0', TESS_E_INVALID,
               "--tune %s: the table is for jobs over several hosts; start this with mpirun on two or more",
               options->comm.tune);
    TESS_TRY(find_mpi(&b));
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(series), "timings", &block));
    b.series = block;
    tess_status status = TESS_OK;
    for (int i = 0; i < n_ranks && status == TESS_OK; i++)
        status = table(&b, ranks[i]);
    tess_mem_free(mem, block);
    return status;
}

const tess_bench tess_bench_comm = {"comm", "collectives, beside memory's limit, the link and MPI", run,
                                    comm_run_in_job};
