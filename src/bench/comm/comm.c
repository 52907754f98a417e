/* `tessera bench comm` measures every collective over shared memory, compared with the limit of memory and with MPI.
 * A round consists of one job of ours and one of each peer, back to back, so that all have the same load next to
 * them. The table holds the medians of the rounds, and of the ratios within each round. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "bench/comm/comm_job.h"
#include "comm/ways.h"
#include "bench/samples.h"
#include "job/job_memory.h"

#define MPI_PATIENCE_S 120 /* seconds; a size takes one second, but minutes with far more ranks than cores */

enum { MPI = COMM_OTHERS, MPI_RATIO, YIELD, YIELD_RATIO, PRIVATE_RATIO };

static void add_peer(comm_bench *b, const comm_case *which, const comm_time *theirs, const comm_result *ours, int time)
{
    for (int i = 0; i < which->n_sizes; i++) {
        b->samples[i][time][b->round] = theirs[i].median_us;
        b->samples[i][time + 1][b->round] = theirs[i].median_us / ours->window[i].median_us;
    }
}

static tess_status one_round(comm_bench *b, const comm_case *which, comm_result *ours)
{
    comm_time theirs[COMM_PLAN_SIZES], yielding[COMM_PLAN_SIZES];
    bool has_mpi = b->mpi_program != NULL;
    /* if there are more ranks than cores, each message takes a time slice */
    bool plain = has_mpi && which->ranks <= tess_os_cores();
    if (plain)
        TESS_TRY(comm_job_mpi(which, &(comm_peer){b->mpi_program, false, MPI_PATIENCE_S}, theirs));
    TESS_TRY(comm_job_ours(which, ours));
    if (has_mpi)
        TESS_TRY(comm_job_mpi(which, &(comm_peer){b->mpi_program, true, MPI_PATIENCE_S}, yielding));
    for (int i = 0; i < which->n_sizes; i++) {
        double least_us =
            comm_op_traffic(which->op, which->dtype, which->bytes[i], which->ranks) / ours->memory_bytes_per_s * 1e6;
        if (which->op->sized &&
            which->bytes[i] * (size_t)which->ranks > tess_bench_cache_bytes(3)) /* otherwise caches may hold the data */
            b->samples[i][COMM_LIMIT][b->round] = 100 * least_us / ours->window[i].median_us;
        if (has_mpi && which->op->sized)
            b->samples[i][PRIVATE_RATIO][b->round] =
                (plain ? theirs : yielding)[i].median_us / ours->private[i].median_us;
    }
    if (plain)
        add_peer(b, which, theirs, ours, MPI);
    if (has_mpi)
        add_peer(b, which, yielding, ours, YIELD);
    return TESS_OK;
}

/* Fills in the values in the order of `columns`. */
static void figures(TESS_UNUSED const comm_bench *b, TESS_UNUSED const comm_case *which, TESS_UNUSED int i,
                    const double *m, double *values)
{
    memcpy(values, m + COMM_LIMIT, (COMM_MEDIANS - COMM_LIMIT) * sizeof(values[0]));
}

static const comm_setting one_machine = {
    ">of memory[%], <private[us], MPI[us], >MPI/time, yielding[us], >yld/time, >MPI/priv", one_round, figures};

/* Finds the program for MPI: next to this one, unless --mpi names another. A missing MPI is an error only if --mpi
 * is given. */
static tess_status find_mpi(comm_bench *b, char *program, size_t size)
{
    const char *named = b->options->comm.mpi;
    if (named[0] != '\0')
        snprintf(program, size, "%s", named);
    else
        tess_bench_beside("mpi_collectives", program, size);
    int n_ops;
    comm_time time;
    comm_case probe = {.op = comm_op_list(&n_ops), .dtype = TESS_F32, .ranks = 2, .n_sizes = 1, .bytes = {256}};
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

/* Parses the numbers of ranks, in the given order. */
static tess_status parse_ranks(const tess_text_list *list, int *ranks, int *n)
{
    static const int plain[] = {2, 4, 8};
    *n = list->n > 0 ? list->n : (int)(sizeof(plain) / sizeof(plain[0]));
    if (list->n == 0)
        memcpy(ranks, plain, sizeof(plain));
    for (int i = 0; i < list->n; i++) {
        char *end;
        long value = strtol(list->item[i], &end, 10);
        TESS_CHECK(end != list->item[i] && *end == '\0' && value >= 2 && value <= INT32_MAX, TESS_E_INVALID,
                   "--ranks %s: name numbers from 2 on, as in --ranks 2,4", list->item[i]);
        ranks[i] = (int)value;
        for (int k = 0; k < i; k++)
            TESS_CHECK(ranks[k] != ranks[i], TESS_E_INVALID, "--ranks: %d stands there twice; name it once", ranks[i]);
    }
    return TESS_OK;
}

/* Prints the ways, the best of a kind of memory first. */
static tess_status list_ways(tess_bench_report *report)
{
    int n;
    const comm_way *ways = tess_comm_ways(&n);
    for (int i = 0; i < n; i++)
        TESS_TRY(tess_bench_report_fact(report, ways[i].name, "%s memory, %s: %s. For: %s", ways[i].memory,
                                        ways[i].reach, ways[i].what, ways[i].operations));
    TESS_TRY(tess_bench_report_table(report, "ways; the highest score that fits is taken", "score"));
    for (int i = 0; i < n; i++) {
        const double value = ways[i].score;
        TESS_TRY(tess_bench_report_row(report, ways[i].name, &value));
    }
    return TESS_OK;
}

static tess_status run(tess_mem *mem, const tess_bench_options *options, tess_bench_report *report)
{
    comm_bench b = {
        .setting = &one_machine, .options = options, .report = report, .rounds = tess_bench_rounds(options, 5, 1)};
    int ranks[TESS_LIST_SIZE], n_ranks;
    char mpi_program[TESS_TEXT_SIZE], title[64];
    if (options->comm.list)
        return list_ways(report);
    TESS_TRY(parse_ranks(&options->comm.ranks, ranks, &n_ranks));
    TESS_TRY(comm_check_sizes(options));
    TESS_CHECK(options->comm.tune[0] == '\0', TESS_E_INVALID,
               "--tune %s: the table is for jobs over several hosts; start this with mpirun on two or more",
               options->comm.tune);
    if (options->comm.device[0] != '\0')
        return comm_device_run(mem, &b, ranks, n_ranks);
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
