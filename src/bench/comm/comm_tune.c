/* `tessera bench comm --tune FILE` measures each operation and size with each choice, and writes the best ones to
 * the table. A choice replaces the plain one only if it is clearly faster, so that noise adds no rows. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/core/options.h"
#include "bench/comm/comm_job.h"
#include "comm/hosts/choice.h"
#include "comm/seat.h"

enum { N_ROUND_SIZES = 5, N_CHOICES = HOSTS_WAYS * N_ROUND_SIZES };

/* Sizes that are measured. Shorter data is sent with the posts; longer data takes more of the same rounds. */
enum { LEAST_BYTES = 64 << 10, MOST_BYTES = 64 << 20 };

#define CLEARLY 0.97 /* a choice must take less than this share of the plain choice's time */

static const size_t round_sizes[N_ROUND_SIZES] = {64 << 10, 256 << 10, HOSTS_PLAIN_ROUND_BYTES, 1 << 20, 4 << 20};

typedef struct tuner {
    tess_runtime *runtime;
    const tess_bench_options *options;
    tess_bench_report *report;
    tess_tuning *result;
} tuner;

static tess_hosts_choice choice_of(int i)
{
    return (tess_hosts_choice){i / N_ROUND_SIZES, round_sizes[i % N_ROUND_SIZES]};
}

/* Measures all sizes of the case with one choice. */
static tess_status measure(const tuner *t, const comm_case *which, int choice, comm_time *times)
{
    tess_tuning *forced;
    TESS_TRY(tess_tuning_of(tess_runtime_mem(t->runtime), choice_of(choice), &forced));
    tess_tuning *before = tess_runtime_set_tuning(t->runtime, forced);
    tess_status status = comm_job_measure(which, tess_runtime_team(t->runtime), true, times);
    forced = tess_runtime_set_tuning(t->runtime, before);
    tess_tuning_free(&forced);
    return status;
}

static int best_of(const double *time_us)
{
    const tess_hosts_choice plain = tess_hosts_choose(NULL, TESS_TRACE_ALL_GATHER, 0);
    int best = 0, usual = 0;
    for (int i = 0; i < N_CHOICES; i++) {
        best = time_us[i] < time_us[best] ? i : best;
        if (choice_of(i).way == plain.way && choice_of(i).round_bytes == plain.round_bytes)
            usual = i;
    }
    return time_us[best] < CLEARLY * time_us[usual] ? best : usual;
}

/* Adds rows. Adjacent sizes with the same choice become one row, which ends half way to the next size. */
static tess_status add_rows(const tuner *t, const comm_case *which, const int *best)
{
    for (int i = 0; i < which->n_sizes; i++) {
        bool last = i + 1 == which->n_sizes;
        if (!last && best[i + 1] == best[i])
            continue;
        TESS_TRY(tess_tuning_add(t->result, which->op->kind,
                                 last ? HOSTS_ANY_BYTES : (which->bytes[i] + which->bytes[i + 1]) / 2,
                                 choice_of(best[i])));
    }
    return TESS_OK;
}

static tess_status tune_operation(const tuner *t, comm_case *which)
{
    comm_time times[N_CHOICES][COMM_PLAN_SIZES] = {0};
    int best[COMM_PLAN_SIZES];
    comm_case_sizes(which, t->options);
    if (which->n_sizes == 0)
        return TESS_OK;
    for (int c = 0; c < N_CHOICES; c++)
        TESS_TRY(measure(t, which, c, times[c]));
    for (int i = 0; i < which->n_sizes; i++) {
        char name[128];
        double us[N_CHOICES + 1];
        for (int c = 0; c < N_CHOICES; c++)
            us[c] = times[c][i].median_us;
        best[i] = best_of(us);
        us[N_CHOICES] = us[best[i]];
        comm_case_name(which, which->bytes[i], name, sizeof(name));
        TESS_TRY(tess_bench_report_row(t->report, name, us));
    }
    return add_rows(t, which, best);
}

static tess_status tune_all(const tuner *t)
{
    int n_ops;
    const comm_op *ops = comm_op_list(&n_ops);
    TESS_TRY(tess_bench_report_table(
        t->report, "way and bytes of a round",
        "str 64K[us], str 256K[us], str 512K[us], str 1M[us], str 4M[us], lead 64K[us], lead 256K[us], "
        "lead 512K[us], lead 1M[us], lead 4M[us], <chosen[us]"));
    for (int i = 0; i < n_ops; i++)
        if (tess_tuning_knows((int)ops[i].kind))
            TESS_TRY(tune_operation(
                t, &(comm_case){.op = &ops[i], .dtype = TESS_F32, .ranks = tess_runtime_world(t->runtime)}));
    return TESS_OK;
}

static tess_status write_table(const tuner *t)
{
    char date[32], hosts[768], mpi[256];
    time_t now = time(NULL);
    struct tm utc;
    const json_t *machine = json_object_get(tess_bench_report_json(t->report), "machine");
    const char *cpu = json_string_value(json_object_get(machine, "cpu"));
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    const tess_tuning_fact facts[] = {{"tessera", TESS_VERSION},
                                      {"date", date},
                                      {"machine", cpu != NULL ? cpu : "unknown"},
                                      {"hosts", comm_hosts_text(t->runtime, hosts, sizeof(hosts))},
                                      {"mpi", comm_mpi_text(mpi, sizeof(mpi))}};
    return tess_tuning_write(t->result, facts, sizeof(facts) / sizeof(facts[0]), t->options->comm.tune);
}

tess_status comm_tune(tess_runtime *runtime, const tess_bench_options *given, tess_bench_report *report)
{
    tess_bench_options options = *given;
    tuner t = {runtime, &options, report, NULL};
    TESS_CHECK(tess_runtime_hosts(runtime) > 1, TESS_E_INVALID,
               "--tune %s: the table is for jobs over several hosts, and this one has all its ranks on one",
               options.comm.tune);
    if (options.comm.min_bytes < LEAST_BYTES)
        options.comm.min_bytes = LEAST_BYTES < options.comm.max_bytes ? LEAST_BYTES : options.comm.max_bytes;
    if (options.comm.max_bytes > MOST_BYTES)
        options.comm.max_bytes = MOST_BYTES > options.comm.min_bytes ? MOST_BYTES : options.comm.min_bytes;
    TESS_TRY(tess_tuning_create(tess_runtime_mem(runtime), &t.result));
    tess_status status = tune_all(&t);
    if (status == TESS_OK && tess_runtime_rank(runtime) == 0)
        status = write_table(&t);
    tess_tuning_free(&t.result);
    return status;
}
