/* The test runner: a table of cases, each run in a process of its own with a time limit; cases with ranks run as that
 * many rank processes of one job. A failed expectation prints what differs and ends the case. */
#ifndef TESS_TESTS_SUPPORT_TEST_H
#define TESS_TESTS_SUPPORT_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tessera/memory.h"
#include "tessera/status.h"

/* How a case runs when MPI starts its ranks (tests/support/under_mpi.h). */
typedef enum test_under_mpi {
    TEST_TOGETHER, /* runs in the same processes as others, one after the other */
    TEST_ALONE,    /* runs in processes of its own: it leaves a job behind that has failed */
    TEST_NEVER     /* it needs the launcher of one host */
} test_under_mpi;

typedef struct test_case {
    const char *name; /* a sentence: "shards_cover_every_row_once" */
    void (*run)(void);
    int ranks;        /* 0: one plain process; n: n ranks; -1: once each with 1, 2, 3, 4 and 8 ranks */
    double timeout_s; /* 0: 600, so that only what hangs meets it, however slow the machine or the sanitizer */
    test_under_mpi under_mpi;
} test_case;

/* A row named as its function is. Other members may follow: CASE(x, 4), CASE(x, .under_mpi = TEST_NEVER). */
#define CASE(function, ...)                               \
    {                                                     \
        .name = #function, .run = function, ##__VA_ARGS__ \
    }

/* Runs all cases, or those whose name contains argv[1]; those with ranks under MPI alone when TESS_TEST_MPI is set.
 * Returns the exit code. */
int test_main(int argc, char **argv, const test_case *cases, size_t n_cases);

#define TEST_MAIN(cases)                                                           \
    int main(int argc, char **argv)                                                \
    {                                                                              \
        return test_main(argc, argv, (cases), sizeof(cases) / sizeof((cases)[0])); \
    }

/* A pool set for the case; leaks of it fail the case. */
tess_mem *test_mem(void);

/* A fresh folder for the case, removed at its end (of the first rank's process). */
const char *test_folder(void);

/* Path of a file below tests/ ("data/fixtures/x.json"). Static buffer. */
const char *test_path(const char *relative);

/* This rank's number as its starter counts; 0 when it was started alone. Known before a runtime exists. */
int test_rank(void);

/* Whether a case of a matrix runs. Normally each case runs. Address sanitizers make cases five times as expensive, so
 * one case in six runs. The environment's TESS_TEST_ONE_IN=N divides the share by N, and TESS_TEST_ALL takes every
 * case. The choice is the same each time and on each rank. */
bool test_takes(void);

_Noreturn void test_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
void test_expect_status(const char *file, int line, const char *call, tess_status got, tess_status want,
                        const char *needle);
/* Largest |a-b| <= atol + rtol * max|b| (relative to the largest value of b, the usual measure for whole tensors). */
void test_expect_close(const char *file, int line, const char *what, const float *a, const float *b, size_t n,
                       double rtol, double atol);
void test_expect_same(const char *file, int line, const char *what, const void *a, const void *b, size_t n,
                      size_t size);

#define EXPECT(condition)                                             \
    do {                                                              \
        if (!(condition))                                             \
            test_fail(__FILE__, __LINE__, "expected %s", #condition); \
    } while (0)
#define EXPECT_INT(got, want)                                                              \
    do {                                                                                   \
        long long got_ = (long long)(got), want_ = (long long)(want);                      \
        if (got_ != want_)                                                                 \
            test_fail(__FILE__, __LINE__, "%s is %lld, expected %lld", #got, got_, want_); \
    } while (0)
#define EXPECT_TEXT(got, want)                                                                 \
    do {                                                                                       \
        const char *got_ = (got), *want_ = (want);                                             \
        if (strcmp(got_, want_) != 0)                                                          \
            test_fail(__FILE__, __LINE__, "%s is \"%s\", expected \"%s\"", #got, got_, want_); \
    } while (0)
#define EXPECT_CONTAINS(text, needle)                                                   \
    do {                                                                                \
        const char *text_ = (text), *needle_ = (needle);                                \
        if (strstr(text_, needle_) == NULL)                                             \
            test_fail(__FILE__, __LINE__, "expected \"%s\" in \"%s\"", needle_, text_); \
    } while (0)
#define EXPECT_OK(call) test_expect_status(__FILE__, __LINE__, #call, (call), TESS_OK, NULL)
/* The call fails with `status` and its message contains `needle` (NULL: any). */
#define EXPECT_FAILS(call, status, needle) test_expect_status(__FILE__, __LINE__, #call, (call), (status), (needle))
#define EXPECT_CLOSE(got, want, n, rtol, atol) \
    test_expect_close(__FILE__, __LINE__, #got, (got), (want), (n), (rtol), (atol))
/* Bit equality of n elements; prints the first that differs. */
#define EXPECT_SAME(got, want, n) test_expect_same(__FILE__, __LINE__, #got, (got), (want), (n), sizeof((got)[0]))

/* tests/support/ranks.c, linked where the comm module is. */
int test_run_ranks(int n_ranks, void (*run)(void), double timeout_s) __attribute__((weak));

#endif
