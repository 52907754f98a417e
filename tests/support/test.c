/* The runner of test cases: cases, folders, expectations, and the report. */
#include "support/under_mpi.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"

static tess_mem *the_mem;
static char the_folder[256];
static const char *the_case; /* name of the case, since several run in one process */

tess_mem *test_mem(void)
{
    if (the_mem == NULL && tess_mem_create(&the_mem) != TESS_OK)
        test_fail(__FILE__, __LINE__, "no memory pools");
    return the_mem;
}

const char *test_folder(void)
{
    if (the_folder[0] == '\0') {
        const char *base = getenv("TMPDIR");
        snprintf(the_folder, sizeof(the_folder), "%s/tess-test-XXXXXX", base != NULL ? base : "/tmp");
        if (mkdtemp(the_folder) == NULL)
            test_fail(__FILE__, __LINE__, "cannot make a folder in /tmp");
    }
    return the_folder;
}

const char *test_path(const char *relative)
{
    static char path[1024];
    snprintf(path, sizeof(path), "%s/%s", TESS_TESTS_DIR, relative);
    return path;
}

int test_rank(void)
{
    static const char *const names[] = {"TESSERA_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (getenv(names[i]) != NULL)
            return atoi(getenv(names[i]));
    return 0;
}

bool test_takes(void)
{
#if defined(__SANITIZE_ADDRESS__)
    const uint32_t share = 6;
#elif defined(__has_feature)
    const uint32_t share = __has_feature(address_sanitizer) ? 6 : 1;
#else
    const uint32_t share = 1;
#endif
    static uint32_t n;
    const char *one_in = getenv("TESS_TEST_ONE_IN"); /* set for entries with a wide matrix */
    const bool all = getenv("TESS_TEST_ALL") != NULL;
    const uint32_t every = all ? 1 : share * (one_in != NULL ? (uint32_t)atoi(one_in) : 1);
    return (n++ * 2654435761u >> 16) % every == 0; /* scattered: loops around loops have lengths of 3 */
}

void test_fail(const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "    %s:%d: ", file, line);
    if (the_case != NULL)
        fprintf(stderr, "%s: rank %d: ", the_case, test_rank());
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void test_expect_status(const char *file, int line, const char *call, tess_status got, tess_status want,
                        const char *needle)
{
    if (got != want)
        test_fail(file, line, "%s gave %s (%s), expected %s", call, tess_status_name(got),
                  got == TESS_OK ? "ok" : tess_error_message(), tess_status_name(want));
    if (needle != NULL && strstr(tess_error_message(), needle) == NULL)
        test_fail(file, line, "%s: expected \"%s\" in the message \"%s\"", call, needle, tess_error_message());
}

void test_expect_close(const char *file, int line, const char *what, const float *a, const float *b, size_t n,
                       double rtol, double atol)
{
    double largest = 0, worst = -1;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (isfinite(b[i]) && fabs(b[i]) > largest)
            largest = fabs(b[i]);
        double error = a[i] == b[i] ? 0 : fabs((double)a[i] - b[i]);
        if (!(error <= worst)) {
            worst = error;
            at = i;
        }
        if (isnan(error))
            break;
    }
    if (n > 0 && !(worst <= atol + rtol * largest))
        test_fail(file, line, "%s[%zu of %zu] is %.9g, expected %.9g: error %.3g of largest %.3g, allowed %.3g", what,
                  at, n, a[at], b[at], worst, largest, atol + rtol * largest);
}

void test_expect_same(const char *file, int line, const char *what, const void *a, const void *b, size_t n, size_t size)
{
    if (n == 0 || memcmp(a, b, n * size) == 0)
        return;
    const unsigned char *x = a, *y = b;
    size_t i = 0;
    while (memcmp(x + i * size, y + i * size, size) == 0)
        i++;
    unsigned long long u = 0, v = 0;
    memcpy(&u, x + i * size, size < 8 ? size : 8);
    memcpy(&v, y + i * size, size < 8 ? size : 8);
    if (size == 4) {
        float f, g;
        memcpy(&f, &u, 4);
        memcpy(&g, &v, 4);
        test_fail(file, line, "%s[%zu of %zu] differs: 0x%08llx (%.9g), expected 0x%08llx (%.9g)", what, i, n, u, f, v,
                  g);
    }
    test_fail(file, line, "%s[%zu of %zu] differs: 0x%llx, expected 0x%llx", what, i, n, u, v);
}

static void finish_case(void)
{
    if (the_folder[0] != '\0')
        tess_os_remove_tree(the_folder);
    the_folder[0] = '\0';
    if (the_mem != NULL) {
        size_t leaked = tess_mem_destroy(&the_mem);
        if (leaked != 0)
            test_fail(__FILE__, __LINE__, "%zu blocks of the memory pools were never freed", leaked);
    }
}

static void run_in_rank(void);
static void (*rank_body)(void);

static void run_in_rank(void)
{
    rank_body();
    finish_case();
}

double test_timeout(const test_case *test)
{
    return test->timeout_s > 0 ? test->timeout_s : 600;
}

bool test_wants_ranks(const test_case *test, int ranks)
{
    return test->ranks == ranks || test->ranks < 0;
}

/* Also reaps the orphans that run_case has adopted. */
int test_wait(int pid, double timeout_s)
{
    double begin = tess_os_now_s();
    int state = 0;
    while (waitpid(-1, &state, WNOHANG) != pid) {
        double over = tess_os_now_s() - begin - timeout_s;
        if (over > 0) /* first so that a launcher can end what it started */
            kill(pid, over < 3 ? SIGTERM : SIGKILL);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return tess_os_now_s() - begin > timeout_s ? -1 : state;
}

/* Ends what a case that failed has left behind: stopped processes would hold the output of the runner open. */
static void end_orphans(void)
{
    char path[64];
    bool any = true;
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
    for (int tries = 0; any && tries < 5000; tries++) { /* children of those that end come here, too */
        int pid;
        FILE *children = fopen(path, "re");
        any = false;
        while (children != NULL && fscanf(children, "%d", &pid) == 1) {
            kill(pid, SIGKILL);
            any = true;
        }
        if (children != NULL)
            fclose(children);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
}

/* Runs the case in a child; 0 when it passed. */
static int try_case(const test_case *test, int ranks)
{
    double timeout = test_timeout(test);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (ranks == 0) {
            test->run();
            finish_case();
            exit(0);
        }
        rank_body = test->run;
        exit(test_run_ranks != NULL ? test_run_ranks(ranks, run_in_rank, timeout) : 1);
    }
    int state = test_wait(pid, timeout + 5);
    if (state == -1) {
        fprintf(stderr, "    took longer than %.0f s: ended\n", timeout);
        return 1;
    }
    if (WIFSIGNALED(state)) {
        fprintf(stderr, "    ended by signal %d (%s)\n", WTERMSIG(state), strsignal(WTERMSIG(state)));
        return 1;
    }
    return WEXITSTATUS(state) != 0;
}

static int run_case(const test_case *test, int ranks)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* orphans of the case become children of this process */
    int failed = try_case(test, ranks);
    if (failed)
        end_orphans();
    return failed;
}

static void print_report(const test_case *test, int ranks, bool failed, double begin)
{
    printf("%s %s", failed ? "FAILED" : "ok    ", test->name);
    if (ranks > 0)
        printf(" [%d rank%s]", ranks, ranks > 1 ? "s" : "");
    printf(" (%.2f s)\n", tess_os_now_s() - begin);
    fflush(stdout);
}

/* This process is one of `ranks` that MPI has started: --rank-cases RANKS FIRST LAST FILTER. A case that takes too long
 * ends the process. */
static int run_as_rank(char **argv, const test_case *cases)
{
    int ranks = atoi(argv[2]), first = atoi(argv[3]), last = atoi(argv[4]);
    for (int i = first; i <= last; i++) {
        const test_case *test = &cases[i];
        bool here = test->under_mpi == TEST_TOGETHER || (test->under_mpi == TEST_ALONE && first == last);
        if (!here || !test_wants_ranks(test, ranks) || strstr(test->name, argv[5]) == NULL)
            continue;
        the_case = test->name;
        double begin = tess_os_now_s();
        alarm((unsigned)test_timeout(test));
        test->run();
        finish_case();
        if (test_rank() == 0)
            print_report(test, ranks, false, begin);
    }
    test_rank_passed(ranks);
    return 0;
}

static test_outcome run_here(const char *filter, const test_case *cases, int n_cases)
{
    static const int all_ranks[] = {1, 2, 3, 4, 8};
    test_outcome outcome = {0};
    for (int i = 0; i < n_cases; i++) {
        const test_case *test = &cases[i];
        if (filter != NULL && strstr(test->name, filter) == NULL)
            continue;
        for (int k = 0; k < (test->ranks < 0 ? 5 : 1); k++) {
            int ranks = test->ranks < 0 ? all_ranks[k] : test->ranks;
            double begin = tess_os_now_s();
            bool failed = run_case(test, ranks);
            print_report(test, ranks, failed, begin);
            outcome.n_failed += failed;
            outcome.n_passed += !failed;
        }
    }
    return outcome;
}

/* 77: nothing ran, to ctest it is skipped. */
static int report(test_outcome outcome, bool under_mpi)
{
    printf("%d passed, %d failed", outcome.n_passed, outcome.n_failed);
    if (outcome.n_skipped > 0)
        printf(", %d skipped: they need the launcher of one host", outcome.n_skipped);
    putchar('\n');
    if (outcome.n_failed > 0 || outcome.n_passed > 0)
        return outcome.n_failed > 0;
    if (under_mpi)
        puts("SKIPPED: no case of this program runs under MPI");
    return under_mpi ? 77 : 1;
}

int test_main(int argc, char **argv, const test_case *cases, size_t n_cases)
{
    if (argc == 6 && strcmp(argv[1], "--rank-cases") == 0)
        return run_as_rank(argv, cases);
    const char *filter = argc > 1 ? argv[1] : NULL;
    bool under_mpi = getenv("TESS_TEST_MPI") != NULL;
    return report(under_mpi ? test_run_under_mpi(filter, cases, (int)n_cases) : run_here(filter, cases, (int)n_cases),
                  under_mpi);
}
