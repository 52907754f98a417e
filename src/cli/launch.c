/* `tessera launch`: starts a command as ranks on several hosts: on all of them with mpirun, or on this host as its part
 * of a job whose hosts meet over TCP. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/flags/output_flags.h"
#include "control/launch/node/node_launch.h"
#include "control/record/error_record.h"
#include "control/supervise/stderr_lines.h"
#include "control/supervise/supervise_hosts.h"

static tess_status choose_mpi(const char *text, tess_mpi *mpi)
{
    *mpi = TESS_MPI_ANY;
    if (text == NULL)
        return TESS_OK;
    bool open_mpi = strcmp(text, "openmpi") == 0;
    TESS_CHECK(open_mpi || strcmp(text, "mpich") == 0, TESS_E_INVALID, "--mpi: '%s': choose openmpi or mpich", text);
    *mpi = open_mpi ? TESS_MPI_OPEN_MPI : TESS_MPI_MPICH;
    return TESS_OK;
}

static tess_status read_hosts(tess_mem *mem, const char *list, const char *file, tess_launch_hosts *hosts)
{
    if (list != NULL)
        TESS_TRY_CTX(tess_launch_hosts_parse(list, hosts), "--hosts");
    return file != NULL ? tess_launch_hosts_read(mem, file, hosts) : TESS_OK;
}

static tess_status print_line(tess_mem *mem, const tess_launch_line *line)
{
    TESS_AUTO(tess_buffer_free) tess_buffer text = {.mem = mem};
    TESS_TRY(tess_launch_words_quote(line->words, line->n, &text));
    printf("%s\n", text.data);
    return TESS_OK;
}

/* Prints the mpirun line that starts `argv` (dry), or runs it. *code: its exit code. */
static tess_status run_line(tess_mem *mem, tess_mpirun_job *job, char **argv, bool dry, int *code)
{
    TESS_AUTO(tess_mem_drop) tess_launch_line *line = NULL;
    tess_launch_line_end end = {.exit_code = TESS_EXIT_OK};
    TESS_TRY(TESS_NEW(mem, 1, "the mpirun line", &line));
    TESS_TRY(tess_mpirun_job_line(&job->hosts, &job->mpi, argv, line));
    if (dry)
        return print_line(mem, line);
    tess_status status = tess_mpirun_job_run(job, line, &(tess_launch_watch){.mpi = job->mpi}, &end);
    *code = end.exit_code;
    return status;
}

static int start(tess_mem *mem, tess_mpirun_job *job, int argc, char **argv, bool dry)
{
    tess_config config;
    int code = TESS_EXIT_OK;
    if (!dry && tess_supervise_hosts_reads(argc, argv, &config)) {
        code = tess_supervise_hosts(job, &config, argc, argv);
        tess_config_free(&config);
        return code;
    }
    tess_status status = run_line(mem, job, argv, dry, &code);
    return status == TESS_OK ? code : cli_end(status);
}

/* The flags of a job whose hosts meet over TCP. */
typedef struct node_flags {
    const char *master, *ranks;
    int64_t n_nodes, node, n_restarts, n_spares, spare_after_s, wait_s; /* NOT_GIVEN: the default */
} node_flags;

enum { NOT_GIVEN = -1 };

/* A flag that has an effect only with another one. */
typedef struct flag_need {
    const char *flag, *needs;
    bool given, is_met;
} flag_need;

/* Refuses flags that would have no effect. Returns TESS_EXIT_OK, or an exit code after the message. */
static int refuse_idle_flags(const flag_need *needs, int n)
{
    for (int i = 0; i < n; i++)
        if (needs[i].given && !needs[i].is_met)
            return cli_misuse(&cli_launch, "%s has no effect %s: give both, or omit it", needs[i].flag, needs[i].needs);
    return TESS_EXIT_OK;
}

static int check_flags(const node_flags *f, bool has_hosts, bool has_mpi, bool dry)
{
    const char *no_rdzv = "without --rdzv", *no_spares = "without --spares",
               *no_hosts = "without --hosts or --hostfile";
    const bool rdzv = f->master != NULL, spares = rdzv && f->n_spares != NOT_GIVEN;
    const flag_need needs[] = {{"--nnodes", no_rdzv, f->n_nodes != NOT_GIVEN, rdzv},
                               {"--node-rank", no_rdzv, f->node != NOT_GIVEN, rdzv},
                               {"-n", no_rdzv, f->ranks != NULL, rdzv},
                               {"--restarts", no_rdzv, f->n_restarts != NOT_GIVEN, rdzv},
                               {"--spares", no_rdzv, f->n_spares != NOT_GIVEN, rdzv},
                               {"--spare-after", no_spares, f->spare_after_s != NOT_GIVEN, spares},
                               {"--wait", no_spares, f->wait_s != NOT_GIVEN, spares},
                               {"--mpi", no_hosts, has_mpi, has_hosts},
                               {"--dry-run", no_hosts, dry, has_hosts}};
    if (rdzv && has_hosts)
        return cli_misuse(&cli_launch,
                          "--rdzv, and --hosts or --hostfile: choose one: hosts that meet over TCP each run "
                          "this command");
    return refuse_idle_flags(needs, sizeof(needs) / sizeof(needs[0]));
}

static int64_t or_default(int64_t value, int64_t otherwise)
{
    return value != NOT_GIVEN ? value : otherwise;
}

/* A spare has no part of the checkpoints that a lost host has kept to itself. */
static tess_status check_spares(int argc, char **argv)
{
    tess_config config;
    if (!tess_supervise_hosts_reads(argc, argv, &config))
        return TESS_OK;
    bool host_local = config.checkpoint.enable && config.checkpoint.host_local;
    tess_config_free(&config);
    TESS_CHECK(
        !host_local, TESS_E_INVALID,
        "--spares: checkpoint.host_local=true: a spare host does not have the lost host's part of a checkpoint: let "
        "all hosts share job.dump_folder, or omit --spares");
    return TESS_OK;
}

static tess_status run_node(const node_flags *flags, int argc, char **argv, int *code)
{
    tess_launch_node node = {.n_nodes = (int)flags->n_nodes,
                             .node = (int)flags->node,
                             .n_spares = (int)or_default(flags->n_spares, 0),
                             .n_restarts = (int)or_default(flags->n_restarts, 0),
                             .spare_after_s = (double)or_default(flags->spare_after_s, NODE_SPARE_AFTER_S),
                             .wait_s = (double)or_default(flags->wait_s, NODE_WAIT_S),
                             .reporter = tess_stderr_lines};
    tess_own_command command;
    TESS_CHECK(node.node < node.n_nodes + node.n_spares, TESS_E_INVALID,
               "--node-rank: %d, but there are %d nodes (--nnodes) and %d spare hosts (--spares): the first node is 0",
               node.node, node.n_nodes, node.n_spares);
    if (node.n_spares > 0)
        TESS_TRY(check_spares(argc, argv));
    TESS_TRY(tess_node_parse_master(flags->master, &node));
    TESS_TRY(tess_node_parse_ranks(flags->ranks != NULL ? flags->ranks : "1", &node));
    TESS_TRY(tess_own_command_of(argc, argv, &command));
    return tess_node_run(&node, command.word, code);
}

/* Moves the record of an earlier job aside. */
static void begin_record(int argc, char **argv)
{
    tess_config config;
    if (!tess_supervise_hosts_reads(argc, argv, &config))
        return;
    tess_error_record_begin(config.job.dump_folder);
    tess_config_free(&config);
}

/* Leaves a record of a job whose ranks, or their wardens, could leave none. */
static void record_end(int argc, char **argv, int code)
{
    tess_config config;
    char report[96];
    if (code == TESS_EXIT_OK || code == TESS_EXIT_BAD_INPUT || !tess_supervise_hosts_reads(argc, argv, &config))
        return;
    snprintf(report, sizeof(report), "the ranks ended with code %d, and none of them has left a record", code);
    tess_error_record_plain(
        &(tess_launch_options){.record_folder = config.job.dump_folder, .reporter = tess_stderr_lines}, code,
        code == TESS_EXIT_INTERRUPTED, code == TESS_EXIT_INTERRUPTED ? "asked to stop" : report, -1, true);
    tess_config_free(&config);
}

static int start_node(const node_flags *flags, int argc, char **argv)
{
    int code = TESS_EXIT_OK;
    if (flags->n_nodes < 2 || flags->node < 0)
        return cli_misuse(&cli_launch,
                          "--rdzv needs --nnodes N (2 or more) and --node-rank K (0 .. N - 1; spare hosts: N .. )");
    begin_record(argc, argv);
    tess_status status = run_node(flags, argc, argv, &code);
    if (status == TESS_OK)
        record_end(argc, argv, code);
    return status == TESS_OK ? code : cli_end(status);
}

/* Passes the flags about output on to the command, which has a warden for each rank: as overrides of a run, or as
 * flags of `run`. *words (*n, and a NULL) belong to `mem`, which lives as long as the process. */
static tess_status pass_on_output(tess_mem *mem, const cli_output_flags *given, char **argv, int *n, char ***words)
{
    cli_output_words *more;
    const bool as_flags = strcmp(argv[0], "run") == 0;
    *words = argv;
    if (!cli_output_is_given(given))
        return TESS_OK;
    TESS_CHECK(as_flags || strcmp(argv[0], "train") == 0 || strcmp(argv[0], "rl") == 0, TESS_E_INVALID,
               "--log-dir, -r and -t are for train, rl and run: %.60s keeps no output of ranks", argv[0]);
    TESS_TRY(TESS_NEW(mem, 1, "the command of the ranks", &more));
    cli_output_words_of(given, as_flags, more);
    TESS_TRY(TESS_NEW(mem, *n + more->n + 1, "the command of the ranks", words));
    for (int i = 0; i < *n + more->n; i++) {
        const int at = as_flags ? i - 1 : i - *n; /* flags come after the command's name, overrides at the end */
        (*words)[i] = at >= 0 && at < more->n ? more->text[at] : argv[as_flags && i > 0 ? i - more->n : i];
    }
    *n += more->n;
    return TESS_OK;
}

static int run(tess_mem *mem, int argc, char **argv)
{
    tess_mpirun_job hosts = {.reporter = tess_stderr_lines, .commands = tess_stderr_plain_lines};
    const char *list = NULL, *file = NULL, *mpi_name = NULL, *dry = NULL;
    node_flags node = {.n_nodes = NOT_GIVEN,
                       .node = NOT_GIVEN,
                       .n_restarts = NOT_GIVEN,
                       .n_spares = NOT_GIVEN,
                       .spare_after_s = NOT_GIVEN,
                       .wait_s = NOT_GIVEN};
    enum { N_FLAGS = 12 };
    cli_output_flags output;
    cli_flag flags[N_FLAGS + CLI_OUTPUT_FLAGS] = {
        {"--hosts", "LIST", "hosts and ranks on each: h1:4,h2:4", .text = &list},
        {"--hostfile", "FILE", "the same, one host a line: h1:4, or h1 slots=4", .text = &file},
        {"--mpi", "NAME", "openmpi or mpich (what `mpirun` is)", .text = &mpi_name},
        {"--dry-run", NULL, "print the mpirun line and stop", .text = &dry},
        {"--rdzv", "HOST:PORT", "where all hosts meet, node 0's address; needs no MPI", .text = &node.master},
        {"--nnodes", "N", "hosts of the job", .integer = &node.n_nodes, .min = 2, .max = NODE_MOST},
        {"--node-rank", "K", "number of this host, from 0", .integer = &node.node, .min = 0, .max = 2 * NODE_MOST - 1},
        {"--spares", "N", "hosts in addition to --nnodes, which replace lost ones; needs --rdzv (0)",
         .integer = &node.n_spares, .min = 0, .max = NODE_MOST},
        {"--spare-after", "SECONDS", "a silent host loses its place after this time; needs --spares (20)",
         .integer = &node.spare_after_s, .min = 0, .max = 1 << 20},
        {"--wait", "SECONDS", "longest wait for other hosts; needs --spares (600)", .integer = &node.wait_s, .min = 1,
         .max = 1 << 20},
        {"-n", "RANKS", "ranks on each host: 4, or 3,1 (1)", .text = &node.ranks},
        {"--restarts", "N", "failures after which this host's ranks start again; needs --rdzv (0)",
         .integer = &node.n_restarts, .min = 0, .max = 1 << 20}};
    cli_output_flags_of(&output, flags + N_FLAGS);
    int n = cli_parse(argc, argv, &cli_launch, flags, N_FLAGS + CLI_OUTPUT_FLAGS);
    if (list == NULL && file == NULL && node.master == NULL)
        return cli_misuse(&cli_launch, "name the hosts: --hosts h1:4,h2:4 or --hostfile FILE; without an MPI: "
                                       "--rdzv HOST:PORT --nnodes N --node-rank K on each");
    int wrong = check_flags(&node, list != NULL || file != NULL, mpi_name != NULL, dry != NULL);
    if (wrong != TESS_EXIT_OK)
        return wrong;
    if (n == 0)
        return cli_misuse(&cli_launch, "name what to run: -- train CONFIG.yaml");
    argv[n + 1] = NULL;
    char **words;
    tess_status status = pass_on_output(mem, &output, argv + 1, &n, &words);
    if (status != TESS_OK)
        return cli_end(status);
    signal(SIGPIPE, SIG_IGN); /* a closed standard output must not end the run (launch_watch.h) */
    if (node.master != NULL)
        return start_node(&node, n, words);
    status = choose_mpi(mpi_name, &hosts.mpi);
    if (status == TESS_OK)
        status = read_hosts(mem, list, file, &hosts.hosts);
    return status == TESS_OK ? start(mem, &hosts, n, words, dry != NULL) : cli_end(status);
}

const cli_command cli_launch = {"launch", "--hosts h1:4,h2:4 [--dry-run] -- train CONFIG.yaml [ARGUMENTS ...]",
                                "start a command as ranks on several hosts, with mpirun or over TCP\n"
                                "Without an MPI, on each host: tessera launch --rdzv h1:29400 --nnodes 2 --node-rank K "
                                "-n 4 -- train CONFIG.yaml",
                                .examples =
                                    "tessera launch --hosts h1:4,h2:4 -- train run.yaml\n"
                                    "tessera launch --hostfile hosts --dry-run -- train run.yaml\n"
                                    "tessera launch --rdzv h1:29400 --nnodes 2 --node-rank 0 -n 4 -- train run.yaml",
                                .run = run};
