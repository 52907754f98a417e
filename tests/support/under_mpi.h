/* Cases with ranks where MPI starts the ranks. TESS_TEST_MPI is the beginning of the command, with %d for the number of
 * ranks ("mpirun.openmpi -np %d"), TESS_TEST_TESSERA the command `tessera`. This program is then started again as
 * ranks, with `--rank-cases N FIRST LAST [FILTER]`: those of cases FIRST .. LAST that run with N ranks, one after the
 * other. TESS_TEST_RANKS="1 3": only those numbers of ranks. */
#ifndef TESS_TESTS_SUPPORT_UNDER_MPI_H
#define TESS_TESTS_SUPPORT_UNDER_MPI_H

#include "support/test.h"

typedef struct test_outcome {
    int n_passed, n_failed, n_skipped;
} test_outcome;

/* True when the case runs as `ranks` ranks. */
bool test_wants_ranks(const test_case *test, int ranks);
/* Seconds that the case may take. */
double test_timeout(const test_case *test);

/* Starts this program under MPI for all cases with ranks whose name contains `filter` (NULL: all). */
test_outcome test_run_under_mpi(const char *filter, const test_case *cases, int n_cases);

/* Called in a rank when all of its cases have passed: tells the process that started them, and waits up to 60 s for the
 * others (at the first that ends after a failed job mpirun kills the rest). */
void test_rank_passed(int ranks);

/* Waits for a child; after timeout_s ends it. Its wait status; -1 when time was up. */
int test_wait(int pid, double timeout_s);

#endif
