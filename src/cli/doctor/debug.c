/* `tessera debug`: stops one rank of a running job at a breakpoint, in gdb. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text/text.h"
#include "cli/cli.h"
#include "control/launch/mpirun/launch_line.h"
#include "job/find.h"

enum { MOST_WORDS = 24, TEXT_BYTES = 512, NO_GDB = 127 };

typedef struct debug_options {
    const char *what, *at, *dry;
    int64_t rank;
} debug_options;

/* The words of gdb, and the texts that they point to. */
typedef struct debug_words {
    char pid[16], stop[TEXT_BYTES];
    char *word[MOST_WORDS];
    int n;
} debug_words;

static void add(debug_words *w, const char *option, const char *value)
{
    w->word[w->n++] = (char *)(uintptr_t)option;
    w->word[w->n++] = (char *)(uintptr_t)value;
}

/* If there is no breakpoint, gdb shows where the rank is now. Otherwise the rank runs on until it gets there. */
static void make_words(const debug_options *o, int pid, debug_words *w)
{
    *w = (debug_words){.n = 0};
    snprintf(w->pid, sizeof(w->pid), "%d", pid);
    w->word[w->n++] = "gdb";
    w->word[w->n++] = "-q";
    add(w, "-iex", "set pagination off");
    add(w, "-iex", "set confirm off");
    add(w, "-p", w->pid);
    /* signals that the job uses are passed on without a stop */
    add(w, "-ex", "handle SIGUSR1 SIGUSR2 SIGCHLD SIGPIPE nostop noprint pass");
    if (o->at != NULL) {
        snprintf(w->stop, sizeof(w->stop), "break %s", o->at);
        add(w, "-ex", w->stop);
        add(w, "-ex", "continue");
    }
    add(w, "-ex", "backtrace 12");
    w->word[w->n] = NULL;
}

/* Finds the process of the rank. If `what` is the process of a rank, that rank is meant. */
static tess_status find_rank(const debug_options *o, int *pid, int *rank, int *world)
{
    tess_live_job job;
    int n;
    TESS_TRY(tess_live_find(o->what, &job, 1, &n));
    int64_t wanted = o->rank;
    const int process = atoi(o->what);
    *world = job.world;
    for (int r = 0; r < job.world && wanted < 0; r++)
        if (process > 0 && job.job.rows[r].host == job.host && atomic_load(&job.job.rows[r].pid) == process)
            wanted = r;
    bool inside = wanted >= 0 && wanted < job.world;
    *rank = (int)wanted;
    *pid = inside && job.job.rows[wanted].host == job.host ? atomic_load(&job.job.rows[wanted].pid) : 0;
    tess_live_close(&job);
    TESS_CHECK(wanted >= 0, TESS_E_INVALID, "which of the %d ranks? --rank R, or the process of one", *world);
    TESS_CHECK(inside, TESS_E_INVALID, "--rank: %lld is outside 0 .. %d", (long long)wanted, *world - 1);
    TESS_CHECK(*pid > 0, TESS_E_NOT_FOUND, "rank %d does not run on this host: give the command there", *rank);
    return TESS_OK;
}

/* Runs gdb in this terminal. Returns its exit code; NO_GDB: there is none. */
static int run_gdb(char *const *words)
{
    int state = 0;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        execvp(words[0], words);
        _exit(NO_GDB);
    }
    signal(SIGINT, SIG_IGN); /* ctrl-C is meant for gdb */
    signal(SIGQUIT, SIG_IGN);
    while (pid > 0 && waitpid(pid, &state, 0) < 0 && errno == EINTR)
        ;
    return pid > 0 && WIFEXITED(state) ? WEXITSTATUS(state) : TESS_EXIT_FAILED;
}

static tess_status debug(tess_mem *mem, const debug_options *o, int *code)
{
    int pid, rank, world;
    debug_words w;
    TESS_AUTO(tess_buffer_free) tess_buffer line = {.mem = mem};
    TESS_TRY(find_rank(o, &pid, &rank, &world));
    make_words(o, pid, &w);
    TESS_TRY(tess_launch_words_quote(w.word, w.n, &line));
    if (o->dry != NULL) {
        printf("%s\n", line.data);
        return TESS_OK;
    }
    fprintf(
        stderr,
        "rank %d of %d is process %d. While it stands still the others wait for it, and give up after "
        "comm.timeout_s: start a job that you debug with a large one. `detach` lets the rank go on; `kill` ends it.\n",
        rank, world, pid);
    *code = run_gdb(w.word);
    TESS_CHECK(*code != NO_GDB, TESS_E_UNSUPPORTED, "gdb is not installed here (Debian: apt-get install gdb); then: %s",
               line.data);
    return TESS_OK;
}

static int run(tess_mem *mem, int argc, char **argv)
{
    debug_options o = {.rank = -1};
    int code = TESS_EXIT_OK;
    const cli_flag flags[] = {
        {"--rank", "R", "which rank", .integer = &o.rank, .max = 1 << 24},
        {"--at", "PLACE", "let it run on to this breakpoint: a function, or file.c:line", .text = &o.at},
        {"--dry-run", NULL, "print the command of gdb and stop", .text = &o.dry}};
    int n = cli_parse(argc, argv, &cli_debug, flags, sizeof(flags) / sizeof(flags[0]));
    if (n != 1)
        return cli_misuse(&cli_debug, "%s", n == 0 ? "which job or rank?" : "one job at a time");
    o.what = argv[1];
    tess_status status = debug(mem, &o, &code);
    return status == TESS_OK ? code : cli_end(status);
}

const cli_command cli_debug = {"debug", "PID|FOLDER [--rank R] [--at PLACE] [--dry-run]",
                               "stop a rank of a running job at a breakpoint, in gdb\n\n"
                               "PID is the process of a rank, or the launcher with --rank; FOLDER a run's "
                               "job.dump_folder.\n`tessera trace PID` shows stacks without stopping anything.",
                               .examples = "tessera debug 4711\n"
                                           "tessera debug out/kjv --rank 3\n"
                                           "tessera debug out/kjv --rank 3 --at tess_all_reduce --dry-run",
                               .run = run};
