#include "support/under_mpi.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/os.h"

static const int all_ranks[] = {1, 2, 3, 4, 8};

typedef struct batch {
    const test_case *cases;
    int ranks, first, last; /* cases first .. last, of which those that `runs` says */
    const char *filter;
} batch;

static bool chosen(const test_case *test, const char *filter)
{
    return test->ranks != 0 && (filter == NULL || strstr(test->name, filter) != NULL);
}

static bool together(const test_case *test, int ranks, const char *filter)
{
    return chosen(test, filter) && test->under_mpi == TEST_TOGETHER && test_wants_ranks(test, ranks);
}

/* Ranks that passed leave a file in the folder TESS_TEST_PASSED. */
static int count_passed(const char *folder)
{
    DIR *dir = opendir(folder);
    int n = 0;
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
        n += entry->d_name[0] != '.';
    if (dir != NULL)
        closedir(dir);
    return n;
}

void test_rank_passed(int ranks)
{
    char path[512];
    const char *folder = getenv("TESS_TEST_PASSED");
    snprintf(path, sizeof(path), "%s/%d", folder, test_rank());
    FILE *file = fopen(path, "w");
    if (file != NULL)
        fclose(file);
    for (int i = 0; i < 60000 && count_passed(folder) < ranks; i++)
        usleep(1000);
}

/* Replaces this process. */
static _Noreturn void start(const batch *batch)
{
    char prefix[1024], program[1024], line[4096];
    const char *tessera = getenv("TESS_TEST_TESSERA"), *percent = strstr(getenv("TESS_TEST_MPI"), "%d");
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    program[n > 0 ? n : 0] = '\0';
    if (tessera == NULL || percent == NULL) {
        fputs("    TESS_TEST_MPI needs a %d for the number of ranks, and TESS_TEST_TESSERA the path of tessera\n",
              stderr);
        _exit(1);
    }
    snprintf(prefix, sizeof(prefix), "%.*s%d%s", (int)(percent - getenv("TESS_TEST_MPI")), getenv("TESS_TEST_MPI"),
             batch->ranks, percent + 2);
    /* one rank needs no warden; `run` would make it a job of this host, which a process joins but once */
    n = snprintf(line, sizeof(line), "exec %s ", prefix);
    if (batch->ranks > 1)
        n += snprintf(line + n, sizeof(line) - (size_t)n, "'%s' run -- ", tessera);
    snprintf(line + n, sizeof(line) - (size_t)n, "'%s' --rank-cases %d %d %d '%s'", program, batch->ranks, batch->first,
             batch->last, batch->filter != NULL ? batch->filter : "");
    unsetenv("TESS_TEST_MPI");
    execl("/bin/sh", "sh", "-c", line, (char *)NULL);
    _exit(127);
}

/* A job whose case expects a failure also fails for mpirun; the case has passed when all ranks passed. */
static bool passed(const batch *batch, int state, const char *folder)
{
    bool fails = batch->first == batch->last && batch->cases[batch->first].under_mpi == TEST_ALONE;
    return state == 0 || (fails && state != -1 && count_passed(folder) == batch->ranks);
}

/* Returns the state in which mpirun ended, -1: it took too long. */
static int run_once(const batch *batch, double timeout_s, bool *well)
{
    char folder[] = "/tmp/tess-test-passed-XXXXXX";
    if (mkdtemp(folder) == NULL || setenv("TESS_TEST_PASSED", folder, 1) != 0)
        test_fail(__FILE__, __LINE__, "cannot make a folder in /tmp");
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        start(batch);
    int state = test_wait(pid, timeout_s);
    *well = passed(batch, state, folder);
    tess_os_remove_tree(folder);
    return state;
}

/* Counts all cases of the batch as passed, or one as failed: ranks stop at the first. */
static void run_batch(const batch *batch, int n, double timeout_s, test_outcome *outcome)
{
    bool well;
    int state = run_once(batch, timeout_s, &well);
    /* Some 4 in 100 runs of "mpirun.mpich -n 1 true" end so on a busy machine. */
    for (int again = 0; again < 3 && state != -1 && WIFSIGNALED(state) && WTERMSIG(state) == SIGPIPE; again++)
        state = run_once(batch, timeout_s, &well);
    if (well) {
        outcome->n_passed += n;
        return;
    }
    if (state == -1)
        fprintf(stderr, "    took longer than %.0f s: ended\n", timeout_s);
    else
        fprintf(stderr, "    mpirun ended with %s %d\n", WIFSIGNALED(state) ? "signal" : "code",
                WIFSIGNALED(state) ? WTERMSIG(state) : WEXITSTATUS(state));
    if (n > 1)
        printf("FAILED one of %d cases in the same processes, the first without an ok [ranks: %d]\n", n, batch->ranks);
    else
        printf("FAILED %s [ranks: %d]\n", batch->cases[batch->first].name, batch->ranks);
    outcome->n_failed++;
}

static void run_together(const batch *batch, test_outcome *outcome)
{
    struct batch some = *batch;
    double timeout_s = 30;
    int n = 0;
    for (int i = batch->first; i <= batch->last; i++)
        if (together(&batch->cases[i], batch->ranks, batch->filter)) {
            timeout_s += test_timeout(&batch->cases[i]);
            some.first = n == 0 ? i : some.first;
            some.last = i;
            n++;
        }
    if (n > 0)
        run_batch(&some, n, timeout_s < 1200 ? timeout_s : 1200, outcome);
}

/* TESS_TEST_RANKS="1 3": only cases with these numbers of ranks. */
static bool ranks_chosen(int ranks)
{
    const char *text = getenv("TESS_TEST_RANKS");
    char digit = (char)('0' + ranks);
    return text == NULL || strchr(text, digit) != NULL;
}

test_outcome test_run_under_mpi(const char *filter, const test_case *cases, int n_cases)
{
    test_outcome outcome = {0};
    for (int k = 0; k < (int)(sizeof(all_ranks) / sizeof(all_ranks[0])); k++) {
        batch batch = {.cases = cases, .ranks = all_ranks[k], .first = 0, .last = n_cases - 1, .filter = filter};
        if (!ranks_chosen(batch.ranks))
            continue;
        run_together(&batch, &outcome);
        for (int i = 0; i < n_cases; i++) {
            if (!chosen(&cases[i], filter) || !test_wants_ranks(&cases[i], batch.ranks))
                continue;
            outcome.n_skipped += cases[i].under_mpi == TEST_NEVER;
            batch.first = batch.last = i;
            if (cases[i].under_mpi != TEST_NEVER && !together(&cases[i], batch.ranks, filter))
                run_batch(&batch, 1, test_timeout(&cases[i]) + 30, &outcome);
        }
    }
    return outcome;
}
