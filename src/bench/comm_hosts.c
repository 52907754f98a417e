/* All collectives over the ranks of the job, and what hosts' links carry of them. Every rank goes through the same
 * questions; the figures are rank 0's. */
#include "bench/comm_hosts.h"

#include <math.h>
#include <string.h>

#include "bench/comm_job.h"
#include "bench/samples.h"
#include "comm/hosts/session.h"
#include "comm/shm/control.h"
#include "job/environment.h"

enum { TIME, MIN, PRIVATE, N_KINDS };

typedef struct series {
    tess_bench_samples of[COMM_PLAN_SIZES][N_KINDS];
} series;

typedef struct bench {
    const tess_bench_options *options;
    tess_bench_report *report;
    tess_team *team;
    comm_map map;
    series *series;
} bench;

const char *comm_hosts_text(const tess_runtime *runtime, char *text, size_t size)
{
    const tess_team *team = tess_runtime_team(runtime);
    int n_hosts = tess_runtime_hosts(runtime);
    size_t at = (size_t)snprintf(text, size, "%d:", n_hosts);
    for (int h = 0; h < n_hosts && at + 1 < size; h++) {
        int n = 0;
        for (int r = 0; r < tess_team_size(team); r++)
            n += tess_team_host(team, r) == h;
        at += (size_t)snprintf(text + at, size - at, "%s %s (%d rank%s)", h > 0 ? "," : "",
                               tess_runtime_host_name(runtime, h), n, n == 1 ? "" : "s");
    }
    return text;
}

const char *comm_mpi_text(char *text, size_t size)
{
    tess_environment environment;
    const wire_process *process = NULL;
    snprintf(text, size, "none");
    if (tess_environment_read(&environment) != TESS_OK)
        return text;
    bool by_mpi = environment.starter == TESS_STARTER_OPEN_MPI || environment.starter == TESS_STARTER_MPICH ||
                  environment.starter == TESS_STARTER_SLURM;
    if (by_mpi && tess_wire_open(&environment, &process) == TESS_OK)
        snprintf(text, size, "%s, started by %s", process->library, tess_starter_name(environment.starter));
    return text;
}

/* Bytes of the busiest link; NAN: nothing crosses, or it is short and lies beside the posts. */
static double crossing(const bench *b, const comm_question *q, size_t bytes)
{
    double wide = q->op->reduces ? 4.0 / (double)tess_dtype_size(q->dtype) : 1;
    double most = comm_cross_most(q->op->crossing, &b->map, (double)bytes, wide);
    return most > 0 && bytes / (size_t)q->ranks > CONTROL_INLINE ? most : NAN;
}

static tess_status tell(const bench *b, const comm_question *q)
{
    double link = b->options->comm.link_gbit, iperf = b->options->comm.iperf_gbit;
    for (int i = 0; i < q->n_sizes; i++) {
        char name[128];
        double m[N_KINDS], bytes = (double)q->bytes[i], cross = crossing(b, q, q->bytes[i]);
        comm_question_name(q, q->bytes[i], name, sizeof(name));
        for (int k = 0; k < N_KINDS; k++)
            m[k] = tess_bench_samples_median(&b->series->of[i][k]);
        double algbw = q->op->sized ? bytes / m[TIME] * 1e-3 : NAN, gbit = cross * 8 / m[TIME] * 1e-3;
        TESS_TRY(tess_bench_report_row(b->report, name,
                                       (double[]){bytes, bytes / (double)tess_dtype_size(q->dtype), m[TIME], m[MIN],
                                                  algbw, algbw * q->op->bus_factor(q->ranks), cross, gbit,
                                                  link > 0 ? 100 * gbit / link : NAN,
                                                  iperf > 0 ? 100 * gbit / iperf : NAN, m[PRIVATE]}));
    }
    return TESS_OK;
}

static tess_status measure(bench *b, comm_question *q)
{
    int n_rounds = b->options->common.repeat > 0 ? (int)b->options->common.repeat : 1; /* each of several samples */
    comm_question_sizes(q, b->options);
    if (q->n_sizes == 0)
        return TESS_OK;
    memset(b->series, 0, sizeof(*b->series));
    for (int round = 0; round < n_rounds; round++) {
        comm_time window[COMM_PLAN_SIZES] = {0}, private[COMM_PLAN_SIZES] = {0};
        TESS_TRY(comm_job_measure(q, b->team, true, window));
        if (q->op->sized)
            TESS_TRY(comm_job_measure(q, b->team, false, private));
        for (int i = 0; i < q->n_sizes; i++) {
            tess_bench_samples_add(&b->series->of[i][TIME], window[i].median_us);
            tess_bench_samples_add(&b->series->of[i][MIN], window[i].min_us);
            if (q->op->sized)
                tess_bench_samples_add(&b->series->of[i][PRIVATE], private[i].median_us);
        }
    }
    return tell(b, q);
}

static tess_status table(bench *b)
{
    static const tess_bench_column columns[] = {
        {"size", "B", TESS_BENCH_NEITHER},     {"count", "", TESS_BENCH_NEITHER},
        {"time", "us", TESS_BENCH_LOWER},      {"min", "us", TESS_BENCH_LOWER},
        {"algbw", "GB/s", TESS_BENCH_HIGHER},  {"busbw", "GB/s", TESS_BENCH_HIGHER},
        {"crossing", "B", TESS_BENCH_NEITHER}, {"link", "Gbit/s", TESS_BENCH_HIGHER},
        {"of link", "%", TESS_BENCH_HIGHER},   {"of iperf", "%", TESS_BENCH_HIGHER},
        {"private", "us", TESS_BENCH_LOWER},
    };
    static const tess_dtype dtypes[] = {TESS_F32, TESS_BF16};
    int n_ops;
    char title[64];
    const comm_op *ops = comm_op_list(&n_ops);
    snprintf(title, sizeof(title), "%d ranks on %d host%s", b->map.n_ranks, b->map.n_hosts,
             b->map.n_hosts == 1 ? "" : "s");
    TESS_TRY(tess_bench_report_table(b->report, title, columns, sizeof(columns) / sizeof(columns[0])));
    for (int i = 0; i < n_ops; i++)
        for (int d = 0; d < (ops[i].sized ? 2 : 1); d++)
            TESS_TRY(measure(b, &(comm_question){.op = &ops[i], .dtype = dtypes[d], .ranks = b->map.n_ranks}));
    return TESS_OK;
}

static tess_status facts(const tess_runtime *runtime, const tess_bench_options *options, tess_bench_report *report)
{
    char hosts[768], mpi[256];
    bool several = tess_runtime_hosts(runtime) > 1;
    TESS_TRY(tess_bench_report_fact(report, "hosts", "%s", comm_hosts_text(runtime, hosts, sizeof(hosts))));
    TESS_TRY(tess_bench_report_fact(report, "MPI", "%s", comm_mpi_text(mpi, sizeof(mpi))));
    TESS_TRY(tess_bench_report_fact(report, "paths", "shared memory inside a host%s",
                                    several ? ", messages of MPI between hosts" : ""));
    if (options->comm.link_gbit > 0)
        TESS_TRY(tess_bench_report_fact(report, "link", "%g Gbit/s as stated", options->comm.link_gbit));
    if (options->comm.iperf_gbit > 0)
        TESS_TRY(tess_bench_report_fact(report, "iperf3", "%g Gbit/s as stated", options->comm.iperf_gbit));
    return TESS_OK;
}

tess_status comm_run_in_job(tess_runtime *runtime, const tess_bench_options *options, tess_bench_report *report)
{
    bench b = {.options = options, .report = report, .team = tess_runtime_team(runtime)};
    void *block;
    TESS_CHECK(options->comm.ranks.n == 0, TESS_E_INVALID,
               "--ranks: the job has %d ranks already; leave it away, or start tessera without mpirun",
               tess_runtime_world(runtime));
    TESS_CHECK(tess_runtime_world(runtime) > 1, TESS_E_INVALID, "tessera bench comm: a job of one rank has no peers");
    TESS_TRY(comm_check_sizes(options));
    TESS_TRY(facts(runtime, options, report));
    if (options->comm.tune[0] != '\0')
        return comm_tune(runtime, options, report);
    comm_map_of(b.team, &b.map);
    TESS_TRY(tess_mem_alloc(tess_runtime_mem(runtime), TESS_POOL_MISC, sizeof(series), "timings", &block));
    b.series = block;
    tess_status status = table(&b);
    tess_mem_free(tess_runtime_mem(runtime), block);
    return status;
}
