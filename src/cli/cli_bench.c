/* `tessera bench NAME`: parses the options of a bench and runs it. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/compare.h"
#include "job/environment.h"

typedef struct bench_entry {
    const tess_bench *bench;
    const char *examples;
} bench_entry;

static const bench_entry benches[] = {
    {&tess_bench_machine, "tessera bench machine\n"
                          "tessera bench machine --json=today.json\n"
                          "tessera bench machine --compare today.json --tolerance 20"},
    {&tess_bench_kernels, "tessera bench kernels --filter 'gemm bf16'\n"
                          "tessera bench kernels --threads 1 --quick\n"
                          "tessera bench kernels --json=today.json"},
    {&tess_bench_comm, "tessera bench comm --ranks 2\n"
                       "tessera bench comm --ranks 4 --max-bytes 1MiB\n"
                       "tessera bench comm --ranks 2 --json=today.json"},
    {&tess_bench_step, "tessera bench step --model gpt2-124m -n 2\n"
                       "tessera bench step --model gpt2-124m --batch 4 --micro 2 --seq 64\n"
                       "tessera bench step --model llama-1b --batch 1 --micro 1 --recompute full"},
    {&tess_bench_precision, "tessera bench precision\n"
                            "tessera bench precision --model llama-5m --quick\n"
                            "tessera bench precision --json=today.json"},
    {&tess_bench_packing, "tessera bench packing\n"
                          "tessera bench packing --model llama-5m --seq 256\n"
                          "tessera bench packing --json=today.json"},
    {&tess_bench_ckpt, "tessera bench ckpt\n"
                       "tessera bench ckpt --folder /tmp/bench --zstd\n"
                       "tessera bench ckpt --json=today.json"},
    {&tess_bench_offload, "tessera bench offload\n"
                          "tessera bench offload --max 500\n"
                          "tessera bench offload --json=today.json"},
    {&tess_bench_transfer, "tessera bench transfer --device cuda\n"
                           "tessera bench transfer --device cuda:1 --max 500\n"
                           "tessera bench transfer --device cuda --json=today.json"},
};
enum { N_BENCHES = sizeof(benches) / sizeof(benches[0]), MAX_FLAGS = 32, N_OUTPUT_FLAGS = 3 };

/* The flags of a bench for cli_parse: those of the report, the common options, and the bench's own. */
typedef struct flag_set {
    cli_flag flags[MAX_FLAGS];
    const char *sections[MAX_FLAGS], *texts[MAX_FLAGS];
    double tolerance_percent;
    int n;
} flag_set;

static const char *value_name(const tess_option *row)
{
    static const char *const names[] = {
        [TESS_OPTION_BOOL] = NULL,      [TESS_OPTION_INT] = "N",     [TESS_OPTION_FLOAT] = "X",
        [TESS_OPTION_BYTES] = "SIZE",   [TESS_OPTION_TEXT] = "TEXT", [TESS_OPTION_CHOICE] = "CHOICE",
        [TESS_OPTION_LIST] = "A,B,...",
    };
    return row->is_path ? "PATH" : names[row->type];
}

static void add_section(flag_set *set, const char *section)
{
    const tess_option_section *rows = tess_bench_options_section(section);
    for (int i = 0; rows != NULL && i < rows->n_rows && set->n < MAX_FLAGS; i++) {
        const tess_option *row = &rows->rows[i];
        set->sections[set->n] = section;
        set->flags[set->n] = (cli_flag){row->key, value_name(row), row->help, .text = &set->texts[set->n]};
        set->n++;
    }
}

static void collect_flags(flag_set *set, const char *bench)
{
    const cli_flag output[N_OUTPUT_FLAGS] = {
        {"--json", "[=FILE]", "write the report as JSON to FILE, else to standard output", .text = &set->texts[0]},
        {"--compare", "OLD.json", "compare with an older report; exit code 1 when a row is slower",
         .text = &set->texts[1]},
        {"--tolerance", "PERCENT", "how much slower a row may be, default 10", .number = &set->tolerance_percent,
         .most = 1000},
    };
    set->tolerance_percent = 10;
    for (set->n = 0; set->n < N_OUTPUT_FLAGS; set->n++)
        set->flags[set->n] = output[set->n];
    add_section(set, "common");
    add_section(set, bench);
}

static tess_status set_options(const flag_set *set, tess_bench_options *options)
{
    TESS_TRY(tess_bench_options_defaults(options));
    for (int i = N_OUTPUT_FLAGS; i < set->n; i++)
        if (set->texts[i] != NULL)
            TESS_TRY(tess_bench_options_set(options, set->sections[i], set->flags[i].name, set->texts[i]));
    return TESS_OK;
}

/* One run of a bench. Inside a job, every rank measures and rank 0 prints. */
typedef struct bench_session {
    const tess_bench *bench;
    const flag_set *set;
    tess_mem *mem;
    tess_runtime *runtime; /* NULL: not in a job */
    const json_t *old;     /* the report to compare with; NULL: none */
    FILE *table;
    bool prints;
} bench_session;

static tess_status run_one(const bench_session *s, const tess_bench_options *options, tess_bench_report *report)
{
    TESS_TRY(tess_bench_machine_facts(report, options->common.table));
    TESS_TRY(s->runtime != NULL ? s->bench->run_in_job(s->runtime, options, report)
                                : s->bench->run(s->mem, options, report));
    TESS_CHECK(tess_bench_report_rows(report) > 0, TESS_E_INVALID, "--filter '%s': no row's name contains it",
               options->common.filter);
    return TESS_OK;
}

/* Runs the bench, writes its report and compares it. *slower: some row is slower than before by more than the
 * tolerance. */
static tess_status measure(const bench_session *s, bool *slower)
{
    const flag_set *set = s->set;
    const char *json = set->texts[0];
    bool json_on_stdout = json != NULL && json[0] == '\0';
    TESS_AUTO(tess_bench_options_free) tess_bench_options options = {0};
    TESS_AUTO(tess_bench_report_destroy) tess_bench_report *report = NULL;
    tess_bench_comparison comparison = {0};
    TESS_TRY(set_options(set, &options));
    TESS_TRY(tess_bench_report_create(s->mem, s->bench->name, s->table, &report));
    TESS_TRY(run_one(s, &options, report));
    if (json != NULL && s->prints)
        TESS_TRY(tess_bench_report_write(report, stdout, json_on_stdout ? NULL : json));
    if (s->old != NULL && s->prints)
        TESS_TRY(tess_bench_compare(s->old, tess_bench_report_json(report), set->tolerance_percent / 100, s->table,
                                    &comparison));
    *slower = comparison.n_slower > 0;
    return TESS_OK;
}

/* Opens the output and measures. The table goes to standard output, or to standard error if the JSON goes to
 * standard output. */
static tess_status open_and_measure(bench_session *s, bool *slower)
{
    json_auto_t *old = NULL;
    const char *json = s->set->texts[0], *compare = s->set->texts[1];
    FILE *nowhere = s->prints ? NULL : fopen("/dev/null", "we");
    s->table = nowhere != NULL ? nowhere : json != NULL && json[0] == '\0' ? stderr : stdout;
    if (compare != NULL) /* check this file before minutes are spent on measuring */
        TESS_TRY(tess_bench_compare_load(compare, s->bench->name, &old));
    s->old = old;
    tess_status status = measure(s, slower);
    if (nowhere != NULL)
        fclose(nowhere);
    return status;
}

static int run_rank(bench_session *s)
{
    bool slower = false;
    TESS_AUTO(tess_bench_options_free) tess_bench_options options = {0};
    tess_status status = set_options(s->set, &options);
    if (status != TESS_OK)
        return cli_end(status);
    status = tess_runtime_create(&(tess_runtime_options){.size = sizeof(tess_runtime_options), .tls = options.comm.tls},
                                 &s->runtime);
    if (status != TESS_OK)
        return status == TESS_E_PEER_LOST ? TESS_EXIT_FAILED : cli_end(status);
    s->prints = tess_runtime_rank(s->runtime) == 0;
    status = open_and_measure(s, &slower);
    int code = status != TESS_OK ? tess_exit_rank(status, s->runtime) : slower ? TESS_EXIT_FAILED : TESS_EXIT_OK;
    tess_runtime_destroy(&s->runtime);
    return code;
}

/* Measures in this process: alone, or as a rank of a running job. If the environment makes this process the rank's
 * warden, starts the rank as a child instead. */
static int run_somewhere(bench_session *s, const tess_own_command *command)
{
    tess_ranks ranks = {0};
    bool is_rank = tess_launch_is_rank(), slower = false;
    tess_status status = is_rank ? TESS_OK : cli_count_ranks(NULL, &ranks);
    bool in_job = is_rank || ranks.n > 1;
    if (status == TESS_OK && in_job && s->bench->run_in_job == NULL)
        status = TESS_FAIL(TESS_E_INVALID, "tessera bench %s measures one machine: start it alone, not as a rank",
                           s->bench->name);
    if (status != TESS_OK)
        return cli_end(status);
    if (ranks.is_warden)
        return tess_ranks_start_self(&ranks, command, &(tess_launch_options){.grace_s = TESS_LAUNCH_GRACE_S});
    if (in_job)
        return run_rank(s);
    s->prints = true;
    status = open_and_measure(s, &slower);
    return status != TESS_OK ? cli_end(status) : slower ? TESS_EXIT_FAILED : TESS_EXIT_OK;
}

static const bench_entry *bench_named(const char *name)
{
    int i = 0;
    while (strcmp(benches[i].bench->name, name) != 0)
        i++;
    return &benches[i];
}

static int run_bench(tess_mem *mem, int argc, char **argv)
{
    flag_set set = {0};
    tess_own_command words;
    const bench_entry *entry = bench_named(argv[0]);
    const tess_bench *bench = entry->bench;
    tess_status status = tess_own_command_of(argc + 1, argv - 1, &words); /* cli_parse reorders argv */
    char name[64];
    snprintf(name, sizeof(name), "bench %s", bench->name);
    const cli_command command = {name, "[OPTIONS]", bench->help, .examples = entry->examples};
    collect_flags(&set, bench->name);
    if (cli_parse(argc, argv, &command, set.flags, set.n) > 0)
        return cli_misuse(&command, "unexpected argument '%s'", argv[1]);
    if (status != TESS_OK)
        return cli_end(status);
    return run_somewhere(&(bench_session){.bench = bench, .set = &set, .mem = mem}, &words);
}

static int run(tess_mem *mem, int argc, char **argv)
{
    char names[N_BENCHES][64];
    cli_command commands[N_BENCHES], command = cli_bench;
    const cli_command *verbs[N_BENCHES];
    for (int i = 0; i < N_BENCHES; i++) {
        snprintf(names[i], sizeof(names[i]), "bench %s", benches[i].bench->name);
        commands[i] = (cli_command){names[i], "[OPTIONS]", benches[i].bench->help, .run = run_bench};
        verbs[i] = &commands[i];
    }
    command.n_verbs = N_BENCHES;
    command.run = NULL;
    command.verbs = verbs;
    return cli_run_command(mem, argc, argv, &command);
}

const cli_command cli_bench = {"bench", "NAME [OPTIONS]", "measure this machine and what Tessera makes of it",
                               .examples = "tessera bench machine\n"
                                           "tessera bench kernels --filter 'gemm bf16' --threads 1\n"
                                           "tessera bench step --model gpt2-124m -n 2",
                               .run = run};
