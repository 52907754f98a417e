/* The peer of `tessera bench comm`: the same collectives through MPI, measured by the same plan.
 *
 *     mpirun -n RANKS mpi_collectives COLLECTIVE float32|bfloat16 BYTES [BYTES ...]
 *     mpirun -n RANKS mpi_collectives all float32|bfloat16 BYTES [BYTES ...]
 *
 * BYTES are those of the larger buffer of a rank. Rank 0 prints "BYTES MEDIAN_US MIN_US" a line; of all collectives, a
 * table in the units of `tessera bench comm`, to lay next to its own where the ranks are on several hosts. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/comm/comm_plan.h"
#include "bench/samples.h"

typedef struct job {
    int rank, size;
    size_t element, count; /* bytes of an element; elements of the larger buffer */
    MPI_Datatype type;
    MPI_Op sum;
    uint8_t *in, *out;
} job;

typedef struct collective {
    const char *name;
    void (*call)(const job *j);
} collective;

static void all_reduce(const job *j)
{
    MPI_Allreduce(j->in, j->out, (int)j->count, j->type, j->sum, MPI_COMM_WORLD);
}

static void reduce_scatter(const job *j)
{
    MPI_Reduce_scatter_block(j->in, j->out, (int)j->count / j->size, j->type, j->sum, MPI_COMM_WORLD);
}

static void all_gather(const job *j)
{
    int n = (int)j->count / j->size;
    MPI_Allgather(j->in, n, j->type, j->out, n, j->type, MPI_COMM_WORLD);
}

static void all_to_all(const job *j)
{
    int n = (int)j->count / j->size;
    MPI_Alltoall(j->in, n, j->type, j->out, n, j->type, MPI_COMM_WORLD);
}

static void broadcast(const job *j)
{
    MPI_Bcast(j->in, (int)j->count, j->type, 0, MPI_COMM_WORLD);
}

static void gather(const job *j)
{
    int n = (int)j->count / j->size;
    MPI_Gather(j->in, n, j->type, j->out, n, j->type, 0, MPI_COMM_WORLD);
}

static void scatter(const job *j)
{
    int n = (int)j->count / j->size;
    MPI_Scatter(j->in, n, j->type, j->out, n, j->type, 0, MPI_COMM_WORLD);
}

static void send_recv(const job *j)
{
    int to = (j->rank + 1) % j->size, from = (j->rank + j->size - 1) % j->size;
    MPI_Sendrecv(j->in, (int)j->count, j->type, to, 0, j->out, (int)j->count, j->type, from, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static void barrier(const job *j)
{
    (void)j;
    MPI_Barrier(MPI_COMM_WORLD);
}

static const collective collectives[] = {
    {"all_reduce", all_reduce}, {"reduce_scatter", reduce_scatter}, {"all_gather", all_gather},
    {"all_to_all", all_to_all}, {"broadcast", broadcast},           {"gather", gather},
    {"scatter", scatter},       {"send_recv", send_recv},           {"barrier", barrier},
};

static float widen(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* MPI knows no bfloat16: a user's operation, in float32 and rounded to the nearest. */
static void add_bf16(void *in, void *inout, int *n, MPI_Datatype *type)
{
    const uint16_t *x = in;
    uint16_t *y = inout;
    (void)type;
    for (int i = 0; i < *n; i++) {
        float sum = widen(x[i]) + widen(y[i]);
        uint32_t bits;
        memcpy(&bits, &sum, sizeof(bits));
        y[i] = (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
    }
}

/* Returns the median and *min in microseconds, on every rank. */
static double measure(job *j, const collective *c, size_t bytes, double *min)
{
    double samples[COMM_PLAN_SAMPLES], spent_s = 0;
    int n = 0, operations = comm_plan_operations(bytes);
    j->count = bytes / j->element;
    for (int i = -1; n == 0 || comm_plan_goes_on(n, spent_s); i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime(), mine, slowest;
        for (int k = 0; k < operations; k++)
            c->call(j);
        mine = MPI_Wtime() - begin;
        MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (i < 0)
            continue; /* the first sample warms up */
        samples[n++] = slowest / operations * 1e6;
        spent_s += slowest;
    }
    *min = tess_bench_min(samples, n);
    return tess_bench_median(samples, n);
}

static void measure_one(job *j, const collective *c, int n, char **bytes)
{
    for (int i = 0; i < n; i++) {
        double min, median = measure(j, c, strtoull(bytes[i], NULL, 10), &min);
        if (j->rank == 0)
            printf("%s %.3f %.3f\n", bytes[i], median, min);
        fflush(stdout); /* a waiting reader sees progress */
    }
}

static void measure_all(job *j, int n, char **bytes)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(library, &length);
    if (j->rank == 0)
        printf("%.*s\n%-24s %12s %12s %12s %12s\n", (int)strcspn(library, ",\n"), library, "", "size B", "time us",
               "min us", "algbw GB/s");
    for (size_t c = 0; c < sizeof(collectives) / sizeof(collectives[0]); c++)
        for (int i = 0; i < n; i++) {
            size_t unit = 64 * (size_t)j->size, even = (strtoull(bytes[i], NULL, 10) + unit - 1) / unit * unit;
            bool sized = collectives[c].call != barrier;
            if (!sized && i > 0)
                break;
            even = sized ? even : 0;
            double min, median = measure(j, &collectives[c], even, &min);
            if (j->rank == 0)
                printf("%-24s %12zu %12.1f %12.1f %12.3f\n", collectives[c].name, even, median, min,
                       (double)even / median * 1e-3);
            fflush(stdout);
        }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    const collective *c = NULL;
    for (size_t i = 0; argc > 3 && i < sizeof(collectives) / sizeof(collectives[0]); i++)
        if (strcmp(argv[1], collectives[i].name) == 0)
            c = &collectives[i];
    bool all = argc > 3 && strcmp(argv[1], "all") == 0;
    if (c == NULL && !all) {
        fprintf(stderr, "usage: mpi_collectives COLLECTIVE|all float32|bfloat16 BYTES [BYTES ...]\n");
        MPI_Finalize();
        return 2;
    }
    job j = {.element = 4, .type = MPI_FLOAT, .sum = MPI_SUM};
    MPI_Comm_rank(MPI_COMM_WORLD, &j.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &j.size);
    if (strcmp(argv[2], "bfloat16") == 0) {
        j.element = 2;
        j.type = MPI_UINT16_T;
        MPI_Op_create(add_bf16, 1, &j.sum);
    }
    size_t most = 4096;
    for (int i = 3; i < argc; i++)
        if (strtoull(argv[i], NULL, 10) > most)
            most = strtoull(argv[i], NULL, 10);
    most += 64 * (size_t)j.size; /* a table's sizes are rounded up */
    j.in = aligned_alloc(4096, (most + 4095) / 4096 * 4096);
    j.out = aligned_alloc(4096, (most + 4095) / 4096 * 4096);
    memset(j.in, 0, most);
    memset(j.out, 0, most);
    if (all)
        measure_all(&j, argc - 3, argv + 3);
    else
        measure_one(&j, c, argc - 3, argv + 3);
    free(j.in);
    free(j.out);
    MPI_Finalize();
    return 0;
}
