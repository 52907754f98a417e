/* Finding live jobs of this machine. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/os.h"
#include "job/find.h"
#include "support/test.h"
#include "tessera/comm.h"

static tess_live_job jobs[TESS_LIVE_MAX];

static const char *number(int n)
{
    static char text[16];
    snprintf(text, sizeof(text), "%d", n);
    return text;
}

static void every_rank_finds_its_job(void)
{
    tess_runtime *rt;
    int n;
    EXPECT_OK(tess_runtime_create(NULL, &rt));
    tess_runtime_phase(rt, "forward", 7, 1);
    EXPECT_OK(tess_barrier(tess_runtime_team(rt), NULL));
    EXPECT_OK(tess_live_find(number(getpid()), jobs, TESS_LIVE_MAX, &n));
    EXPECT_INT(n, 1);
    EXPECT_INT(jobs[0].world, tess_runtime_world(rt));
    EXPECT_INT(jobs[0].n_hosts, 1);
    EXPECT(tess_live_running(&jobs[0]));
    EXPECT(jobs[0].command[0] != '\0');
    for (int r = 0; r < jobs[0].world; r++) {
        tess_board_copy copy;
        tess_board_export(&jobs[0].job.rows[r], &copy);
        EXPECT_TEXT(copy.phase, "forward");
        EXPECT_INT(copy.step, 7);
    }
    EXPECT_INT(atomic_load(&jobs[0].job.rows[tess_runtime_rank(rt)].pid), getpid());
    /* All of them together hold it among all jobs of the user. */
    tess_live_job all[TESS_LIVE_MAX];
    int n_all, n_same = 0;
    EXPECT_OK(tess_live_find(NULL, all, TESS_LIVE_MAX, &n_all));
    for (int i = 0; i < n_all; i++) {
        n_same += all[i].inode == jobs[0].inode && all[i].pid == jobs[0].pid;
        tess_live_close(&all[i]);
    }
    EXPECT_INT(n_same, 1);
    EXPECT_OK(tess_barrier(tess_runtime_team(rt), NULL));
    tess_live_close(&jobs[0]);
    tess_runtime_destroy(&rt);
}

static void the_folder_of_its_traces_names_a_job(void)
{
    tess_runtime *rt;
    int n;
    char traces[4096];
    EXPECT_OK(tess_runtime_create(NULL, &rt));
    EXPECT_FAILS(tess_live_find(test_folder(), jobs, TESS_LIVE_MAX, &n), TESS_E_NOT_FOUND, "no job");
    EXPECT_OK(tess_os_join(traces, sizeof(traces), test_folder(), "trace"));
    EXPECT_OK(tess_runtime_keep_trace(rt, traces));
    EXPECT_OK(tess_live_find(test_folder(), jobs, TESS_LIVE_MAX, &n));
    EXPECT_INT(n, 1);
    tess_live_close(&jobs[0]);
    EXPECT_OK(tess_live_find(traces, jobs, TESS_LIVE_MAX, &n));
    EXPECT_INT(n, 1);
    tess_live_close(&jobs[0]);
    tess_runtime_destroy(&rt);
}

static void what_is_kept_in_a_folder_takes_no_memory_of_the_job(void)
{
    tess_runtime *rt;
    tess_trace_event event;
    int n;
    EXPECT_OK(tess_runtime_create(NULL, &rt));
    int rank = tess_runtime_rank(rt);
    tess_runtime_phase(rt, "forward", 7, 1);
    EXPECT_OK(tess_live_find(number(getpid()), jobs, TESS_LIVE_MAX, &n));
    const tess_trace_ring *ring = tess_job_ring(&jobs[0].job, rank);
    EXPECT_INT(tess_trace_read(ring, ring->capacity, &event, 1), 1);
    EXPECT_OK(tess_runtime_keep_trace(rt, test_folder()));
    EXPECT_INT(tess_trace_read(ring, ring->capacity, &event, 1), 0);
    EXPECT_INT(ring->rank, rank);
    EXPECT_INT(ring->owner.pid, getpid());
    tess_live_close(&jobs[0]);
    tess_runtime_destroy(&rt);
}

static void what_is_no_job_is_said_so(void)
{
    int n;
    EXPECT_FAILS(tess_live_find(number(getpid()), jobs, TESS_LIVE_MAX, &n), TESS_E_NOT_FOUND, "no part in a job");
    EXPECT_FAILS(tess_live_find("2147483647", jobs, TESS_LIVE_MAX, &n), TESS_E_NOT_FOUND, "no process 2147483647");
    EXPECT_FAILS(tess_live_find("runs/none", jobs, TESS_LIVE_MAX, &n), TESS_E_NOT_FOUND, "neither");
    EXPECT_FAILS(tess_live_find("99999999999999999999", jobs, TESS_LIVE_MAX, &n), TESS_E_NOT_FOUND, "neither");
    EXPECT_FAILS(tess_live_find("-1", jobs, TESS_LIVE_MAX, &n), TESS_E_NOT_FOUND, "neither");
}

/* Headers as left by a wild pointer, by another version, or by a job that is just starting. */
static void a_broken_header_is_passed_over(void)
{
    tess_job job;
    int n;
    EXPECT_OK(tess_job_create(3, &job));
    EXPECT_OK(tess_live_find(number(getpid()), jobs, TESS_LIVE_MAX, &n));
    EXPECT_INT(n, 1);
    tess_live_close(&jobs[0]);
    tess_job_header *h = job.header;
    const tess_job_header good = *h;
    for (int field = 0; field < 8; field++) {
        static const uint64_t values[] = {0, 1, 513, UINT64_MAX, UINT64_MAX - 4095};
        for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
            uint64_t *words[] = {&h->bytes, &h->heap};
            *h = good;
            if (field < 2)
                *words[field] = values[v];
            else if (field == 2)
                h->world = values[v] == 1 ? 0 : (uint32_t)values[v];
            else if (field == 3)
                h->n_hosts = values[v] == 1 ? 0 : (uint32_t)values[v];
            else if (field == 4)
                h->host = values[v] == 0 ? 1 : (uint32_t)values[v];
            else if (field == 5)
                memset(h->magic, (int)values[v], sizeof(h->magic));
            else if (field == 6)
                h->version = (uint32_t)values[v];
            else
                EXPECT_INT(ftruncate(job.fd, v == 0 ? 0 : (off_t)sizeof(*h) + (off_t)v * 4096 - 4096), 0);
            EXPECT(tess_live_find(number(getpid()), jobs, TESS_LIVE_MAX, &n) != TESS_OK);
            EXPECT_INT(n, 0);
            if (field == 7)
                EXPECT_INT(ftruncate(job.fd, (off_t)good.bytes), 0);
        }
    }
    tess_job_close(&job, true);
}

static void a_store_to_it_is_a_fault(void)
{
    tess_job job;
    int n, state;
    EXPECT_OK(tess_job_create(1, &job));
    EXPECT_OK(tess_live_find(number(getpid()), jobs, TESS_LIVE_MAX, &n));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        atomic_store(&jobs[0].job.header->stop, 1);
        _exit(0);
    }
    EXPECT(waitpid(child, &state, 0) == child && WIFSIGNALED(state));
    EXPECT_INT(atomic_load(&job.header->stop), 0);
    tess_live_close(&jobs[0]);
    tess_job_close(&job, true);
}

static const test_case cases[] = {
    CASE(every_rank_finds_its_job, -1, .under_mpi = TEST_NEVER),
    CASE(the_folder_of_its_traces_names_a_job),
    CASE(what_is_kept_in_a_folder_takes_no_memory_of_the_job),
    CASE(what_is_no_job_is_said_so),
    CASE(a_broken_header_is_passed_over),
    CASE(a_store_to_it_is_a_fault),
};
TEST_MAIN(cases)
