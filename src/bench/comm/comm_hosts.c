/* Measures all collectives with the ranks of a job that MPI (or another launcher) has started, usually on several
 * hosts, and the traffic of the hosts' links. All ranks measure the same cases; the figures are those of rank 0. */
#include <math.h>
#include <stdio.h>

#include "bench/comm/comm_job.h"
#include "bench/samples.h"
#include "comm/shm/control.h"

static tess_status one_round(comm_bench *b, const comm_case *which, comm_result *ours)
{
    TESS_TRY(comm_job_measure(which, b->team, true, ours->window));
    return which->op->sized ? comm_job_measure(which, b->team, false, ours->private) : TESS_OK;
}

/* Returns the bytes over the busiest link. NAN: nothing is sent between hosts, or the data is short and is sent with
 * the posts. */
static double crossing(const comm_bench *b, const comm_case *which, size_t bytes)
{
    double wide = which->op->reduces ? 4.0 / (double)tess_dtype_size(which->dtype) : 1;
    double most = comm_cross_most(which->op->crossing, &b->map, (double)bytes, wide);
    return most > 0 && bytes / (size_t)which->ranks > CONTROL_INLINE ? most : NAN;
}

static void figures(const comm_bench *b, const comm_case *which, int i, const double *m, double *values)
{
    double link = b->options->comm.link_gbit, iperf = b->options->comm.iperf_gbit;
    double cross = crossing(b, which, which->bytes[i]), gbit = cross * 8 / m[COMM_TIME] * 1e-3;
    values[0] = cross;
    values[1] = gbit;
    values[2] = link > 0 ? 100 * gbit / link : NAN;
    values[3] = iperf > 0 ? 100 * gbit / iperf : NAN;
    values[4] = m[COMM_PRIVATE];
}

static const comm_setting in_job = {"crossing[B], >link[Gbit/s], >of link[%], >of iperf[%], <private[us]", one_round,
                                    figures};

static tess_status facts(const tess_runtime *runtime, const tess_bench_options *options, tess_bench_report *report)
{
    char hosts[768], mpi[256];
    bool several = tess_runtime_hosts(runtime) > 1;
    TESS_TRY(tess_bench_report_fact(report, "hosts", "%s", comm_hosts_text(runtime, hosts, sizeof(hosts))));
    TESS_TRY(tess_bench_report_fact(report, "MPI", "%s", comm_mpi_text(mpi, sizeof(mpi))));
    TESS_TRY(tess_bench_report_fact(report, "paths", "shared memory inside a host%s",
                                    several ? ", messages of MPI or TCP between hosts" : ""));
    if (options->comm.link_gbit > 0)
        TESS_TRY(tess_bench_report_fact(report, "link", "%g Gbit/s as stated", options->comm.link_gbit));
    if (options->comm.iperf_gbit > 0)
        TESS_TRY(tess_bench_report_fact(report, "iperf3", "%g Gbit/s as stated", options->comm.iperf_gbit));
    return TESS_OK;
}

tess_status comm_run_in_job(tess_runtime *runtime, const tess_bench_options *options, tess_bench_report *report)
{
    comm_bench b = {.setting = &in_job,
                    .options = options,
                    .report = report,
                    .ranks = tess_runtime_world(runtime),
                    .rounds = tess_bench_rounds(options, 1, 1), /* number of rounds; each has several samples */
                    .team = tess_runtime_team(runtime)};
    char title[64];
    TESS_CHECK(options->comm.ranks.n == 0, TESS_E_INVALID,
               "--ranks: the job has %d ranks already; leave it away, or start tessera without mpirun", b.ranks);
    TESS_CHECK(options->comm.device[0] == '\0', TESS_E_INVALID,
               "--device: the bench opens the devices of ranks that it starts itself; start tessera without mpirun");
    TESS_CHECK(b.ranks > 1, TESS_E_INVALID, "tessera bench comm: a job of one rank has no peers");
    TESS_TRY(comm_check_sizes(options));
    TESS_TRY(facts(runtime, options, report));
    if (options->comm.tune[0] != '\0')
        return comm_tune(runtime, options, report);
    tess_mem *mem = tess_runtime_mem(runtime);
    TESS_AUTO(tess_mem_drop) void *hosts = NULL;
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)b.ranks, sizeof(int), "hosts of the ranks", &hosts));
    comm_map_of(b.team, hosts, &b.map);
    snprintf(title, sizeof(title), "%d ranks on %d host%s", b.ranks, b.map.n_hosts, b.map.n_hosts == 1 ? "" : "s");
    return comm_bench_table(&b, mem, title);
}
