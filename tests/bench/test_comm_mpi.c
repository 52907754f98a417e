/* mpirun as a child: its figures, and what becomes of one that hangs. A script stands in for it. */
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"
#include "bench/comm/comm_job.h"
#include "support/test.h"

/* Makes `mpirun` this shell script, which runs in the test's folder. */
static void install(const char *script)
{
    EXPECT_INT(chdir(test_folder()), 0);
    EXPECT_OK(tess_os_write_atomic("mpirun", script, strlen(script)));
    EXPECT_INT(chmod("mpirun", 0700), 0);
    EXPECT_INT(setenv("PATH", ".:/usr/bin:/bin", 1), 0);
}

static comm_case two_sizes(void)
{
    int n;
    return (comm_case){.op = comm_op_list(&n), .dtype = TESS_F32, .ranks = 2, .n_sizes = 2, .bytes = {256, 1024}};
}

static void figures_are_read_and_other_lines_are_not(void)
{
    comm_time times[2];
    comm_case q = two_sizes();
    install("#!/bin/sh\necho hello\necho 256 3.5 3.25\necho 512 1 1\necho 1024 7 6\n");
    EXPECT_OK(comm_job_mpi(&q, &(comm_peer){"program", true, 600}, times));
    EXPECT(times[0].median_us == 3.5 && times[0].min_us == 3.25 && times[1].median_us == 7 && times[1].min_us == 6);
    install("#!/bin/sh\necho 256 3.5 3.25\n");
    EXPECT_FAILS(comm_job_mpi(&q, &(comm_peer){"program", true, 600}, times), TESS_E_NOT_FOUND, "no figures");
    install("#!/bin/sh\necho 256 3.5 3.25\necho 1024 7 6\nexit 3\n");
    EXPECT_FAILS(comm_job_mpi(&q, &(comm_peer){"program", true, 600}, times), TESS_E_NOT_FOUND, "no figures");
}

/* The process whose number the script wrote is gone, or dead and not waited for. */
static bool rank_has_ended(void)
{
    char *text, path[64], state = 'Z';
    size_t size;
    EXPECT_OK(tess_os_read(test_mem(), "rank", 64, &text, &size));
    EXPECT(atoi(text) > 1);
    snprintf(path, sizeof(path), "/proc/%d/stat", atoi(text));
    tess_mem_free(test_mem(), text);
    FILE *in = fopen(path, "r");
    if (in != NULL) {
        EXPECT(fscanf(in, "%*d (%*[^)]) %c", &state) <= 1);
        fclose(in);
    }
    return state == 'Z';
}

static void expect_hanging(const char *script, const char *message)
{
    comm_time times[2];
    comm_case q = two_sizes();
    install(script);
    for (double limit_s = 1; limit_s < 100; limit_s *= 2) { /* a busy machine may not get as far as `message` */
        EXPECT_FAILS(comm_job_mpi(&q, &(comm_peer){"program", true, limit_s}, times), TESS_E_TIMEOUT, NULL);
        if (strstr(tess_error_message(), message) != NULL)
            break;
    }
    EXPECT_CONTAINS(tess_error_message(), message);
    const struct timespec nap = {.tv_nsec = 10000000};
    for (int i = 0; i < 10000 && !rank_has_ended(); i++)
        nanosleep(&nap, NULL);
    EXPECT(rank_has_ended());
}

static void one_that_hangs_is_ended_with_its_ranks(void)
{
    expect_hanging("#!/bin/sh\nsleep 1000 &\necho $! >rank\necho 256 3 3\nwait\n",
                   "a figure for all_reduce of 1024 bytes on 2 ranks");
    expect_hanging("#!/bin/sh\nsleep 1000 &\necho $! >rank\necho 256 3 3\necho 1024 3 3\nwait\n", "an end after");
}

static const test_case cases[] = {
    CASE(figures_are_read_and_other_lines_are_not),
    CASE(one_that_hangs_is_ended_with_its_ranks),
};
TEST_MAIN(cases)
