/* Failures are named: ranks that disagree, die, leave, stay away or give up. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/os.h"
#include "comm/comm_impl.h"
#include "job/environment.h"
#include "job/fingerprint.h"
#include "job/job_memory.h"
#include "control/launch/launcher.h"
#include "support/join.h"
#include "tessera/comm.h"

/* Failures that must end a wait at once, and their messages. */
static const double never_s = 600, at_once_s = 60;

static void await_broken_teams(const tess_runtime *rt)
{
    for (int r = 0; r < tess_runtime_world(rt); r++)
        while (r != tess_runtime_rank(rt) && atomic_load(&rt->job.rows[r].broken_team) == 0)
            usleep(1000);
}

/* Otherwise some ranks would see a rank that left before they know what it did. */
static void leave_together(tess_runtime *rt)
{
    await_broken_teams(rt);
    tess_runtime_destroy(&rt);
}

/* ---- Disagreement ---- */
static void who_fails_alone_waits_for_nobody(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    void *shared;
    EXPECT_OK(tess_shared_alloc(team, TESS_POOL_MISC, 64, "test", &shared));
    if (tess_team_rank(team) == 1) {
        TESS_FAIL(TESS_E_NO_SPACE, "the disk is full");
        tess_runtime_report(rt, tess_error_message());
        double begin = tess_os_now_s();
        tess_shared_free(team, shared);
        EXPECT(tess_os_now_s() - begin < at_once_s);
        EXPECT_CONTAINS(tess_error_message(), "the disk is full");
    } else {
        EXPECT(tess_barrier(team, NULL) != TESS_OK);
        EXPECT_CONTAINS(tess_error_message(), "rank 1 ");
    }
    tess_runtime_destroy(&rt);
}

static void both_sides_of_a_large_team_are_told(void)
{
    enum { N = 700 };
    static tess_fingerprint posts[N];
    int ranks[N], listed[N], culprit;
    for (int r = 0; r < N; r++) {
        ranks[r] = r;
        posts[r] = (tess_fingerprint){.kind = TESS_TRACE_BARRIER, .sequence = 7, .root = -1};
    }
    EXPECT_OK(tess_fingerprint_compare(posts, sizeof(posts[0]), N, ranks, "world", false, listed, &culprit));
    posts[300].sequence = 8;
    EXPECT_FAILS(tess_fingerprint_compare(posts, sizeof(posts[0]), N, ranks, "world", false, listed, &culprit),
                 TESS_E_MISMATCH,
                 "the odd one out: rank 300: ranks 0-299 301-699 called barrier #7 of team 'world'; rank 300 called "
                 "barrier #8");
    EXPECT_INT(culprit, 300);
    for (int r = 100; r < 200; r += 2)
        posts[r].sequence = 8;
    EXPECT_FAILS(tess_fingerprint_compare(posts, sizeof(posts[0]), N, ranks, "world", false, listed, &culprit),
                 TESS_E_MISMATCH, "the odd ones out: ranks 100 102 104 106 108 110 112 114 and 43 more: ");
    EXPECT_CONTAINS(tess_error_message(), "called barrier #8");
    EXPECT_INT(culprit, -1);
    for (int r = 0; r < N; r++)
        posts[r].sequence = r % 2 == 0 ? 8 : 7;
    EXPECT_FAILS(tess_fingerprint_compare(posts, sizeof(posts[0]), N, ranks, "world", false, listed, &culprit),
                 TESS_E_MISMATCH, "a tie: ");
}

static void the_odd_one_out_is_named(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    int32_t x[8] = {0}, before[8] = {0};
    size_t n = tess_team_rank(team) == 2 ? 7 : 8;
    EXPECT_OK(tess_barrier(team, NULL));
    EXPECT_FAILS(tess_all_reduce(team, x, x, n, TESS_I32, TESS_MAX, NULL), TESS_E_MISMATCH, "the odd one out: rank 2");
    EXPECT_CONTAINS(tess_error_message(), "rank 2 called all_reduce #1 of team 'world': 7 int32, max");
    EXPECT_CONTAINS(tess_error_message(), "ranks 0 1 3 called all_reduce #1 of team 'world': 8 int32, max");
    EXPECT_CONTAINS(tess_error_message(), "called at");
    EXPECT_SAME(x, before, 8);
    /* The team stays broken and returns the same error. */
    EXPECT_FAILS(tess_barrier(team, NULL), TESS_E_MISMATCH, "the odd one out: rank 2");
    tess_runtime_destroy(&rt);
}

static void equal_camps_are_a_tie(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    float x = 0;
    if (tess_team_rank(team) % 2 == 0)
        EXPECT_FAILS(tess_barrier(team, NULL), TESS_E_MISMATCH, "a tie");
    else
        EXPECT_FAILS(tess_broadcast(team, &x, 1, TESS_F32, 0, NULL), TESS_E_MISMATCH, "a tie");
    EXPECT_CONTAINS(tess_error_message(), "broadcast #0 of team 'world': 1 float32, root 0");
    tess_runtime_destroy(&rt);
}

static void every_part_of_a_fingerprint_counts(void)
{
    tess_fingerprint posts[3], *odd = &posts[1];
    const int ranks[3] = {4, 5, 6};
    int listed[3], culprit;
    for (int field = 0; field < 8; field++) {
        for (int i = 0; i < 3; i++)
            posts[i] = (tess_fingerprint){.team = 1,
                                          .sequence = 2,
                                          .count = 3,
                                          .kind = TESS_TRACE_REDUCE_SCATTER_PIECES,
                                          .root = -1,
                                          .call_site = (uint64_t)i + 1};
        EXPECT_OK(tess_fingerprint_compare(posts, sizeof(posts[0]), 3, ranks, "t", false, listed, &culprit));
        uint8_t *bytes[] = {(uint8_t *)&odd->team,
                            (uint8_t *)&odd->sequence,
                            (uint8_t *)&odd->count,
                            (uint8_t *)&odd->tag,
                            (uint8_t *)&odd->root,
                            &odd->dtype,
                            &odd->op,
                            &odd->flags};
        *bytes[field] ^= 1;
        EXPECT_FAILS(tess_fingerprint_compare(posts, sizeof(posts[0]), 3, ranks, "t", false, listed, &culprit),
                     TESS_E_MISMATCH, "rank 5");
        EXPECT_INT(culprit, 5);
    }
}

/* This happens after a rank's death if MPI sends messages over TCP. */
static void a_broken_pipe_of_mpi_ends_no_rank(void)
{
    tess_runtime *rt = test_join();
    if (getenv("TESSERA_GUARD_FD") != NULL)
        raise(SIGPIPE);
    EXPECT_OK(tess_barrier(tess_runtime_team(rt), NULL));
    tess_runtime_destroy(&rt);
}

static void uneven_counts_must_fit(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    int W = tess_team_size(team), me = tess_team_rank(team);
    size_t sends[8], expects[8], offsets[8];
    uint8_t in[64] = {0}, out[64];
    for (int r = 0; r < W; r++) {
        sends[r] = me == W - 1 && r == 0 ? 3 : 2;
        expects[r] = 2;
        offsets[r] = (size_t)r * 4;
    }
    char needle[64];
    snprintf(needle, sizeof(needle), W > 1 ? "rank %d sends 3 elements to rank 0, which expects 2" : "sends 3 elements",
             W - 1);
    EXPECT_FAILS(tess_all_to_all_v(team, in, sends, offsets, out, expects, offsets, TESS_U8, NULL), TESS_E_MISMATCH,
                 needle);
    tess_runtime_destroy(&rt);
}

static void configurations_must_agree(void)
{
    tess_runtime *rt;
    tess_runtime_options options = {.config_hash = test_rank() == 1 ? 77 : 55};
    EXPECT_FAILS(tess_runtime_create(&options, &rt), TESS_E_MISMATCH, "configuration: rank 1");
    EXPECT_CONTAINS(tess_error_message(), " (000000000000004d)");
    EXPECT(rt == NULL);
}

/* ---- Ranks that do not come ---- */
static void a_deadline_names_the_missing_rank(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    tess_team *pair;
    int me = tess_team_rank(team);
    EXPECT_OK(tess_team_split(team, me == 1 ? 1 : 0, me, "pair", &pair));
    tess_barrier(team, NULL);
    if (me == 1) {
        tess_runtime_phase(rt, "backward", 12, 3);
        await_broken_teams(rt);
        EXPECT_OK(tess_barrier(team, NULL)); /* all have come to this one, if late; the others left after it */
        EXPECT_FAILS(tess_barrier(team, NULL), TESS_E_PEER_LOST, "gave up");
    } else {
        tess_work *work;
        EXPECT_OK(tess_barrier(team, &work));
        EXPECT_OK(tess_barrier(pair, NULL)); /* both have come */
        while (atomic_load(&rt->job.rows[1].step) != 12)
            usleep(1000);
        EXPECT_FAILS(tess_work_wait(&work, 0.3), TESS_E_TIMEOUT, "1 of 3 ranks did not come within 0.3 s; rank 1");
        EXPECT_CONTAINS(tess_error_message(), " is after barrier #2");
        EXPECT_CONTAINS(tess_error_message(), "in phase 'backward' of step 12 (3)");
    }
    tess_team_destroy(&pair);
    tess_runtime_destroy(&rt);
}

/* Ranks 1 and 2 do not come to rank 0, because rank 1 waits for rank 2. */
static void a_rank_that_waits_itself_is_not_blamed(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt), *pair;
    int me = tess_team_rank(team);
    EXPECT_OK(tess_team_split(team, me == 0 ? 0 : 1, me, "pair", &pair));
    if (me == 0) {
        tess_work *work;
        while (atomic_load(&rt->job.rows[1].wait_since_ns) == 0)
            usleep(1000);
        EXPECT_OK(tess_barrier(team, &work));
        EXPECT_FAILS(tess_work_wait(&work, 0.3), TESS_E_TIMEOUT, "2 of 3 ranks did not come");
        EXPECT_INT(atomic_load(&rt->job.rows[0].blames) - 1, 2);
    } else {
        while (me == 2 && atomic_load(&rt->job.rows[0].broken_team) == 0)
            usleep(1000);
        EXPECT_OK(tess_barrier(pair, NULL));
    }
    tess_team_destroy(&pair);
    tess_runtime_destroy(&rt);
}

/* The gap counts as one second; the rest of the deadline is for a slow machine. */
static void time_spent_stopped_does_not_count(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    int32_t mine = getpid(), pids[2];
    EXPECT_OK(tess_all_gather(team, &mine, pids, 1, TESS_I32, NULL));
    tess_team_set_timeout(team, 8);
    if (tess_team_rank(team) == 1) {
        while (atomic_load(&rt->job.rows[0].wait_since_ns) == 0)
            usleep(1000);
        kill(pids[0], SIGSTOP);
        usleep(9500000);
        kill(pids[0], SIGCONT);
    }
    EXPECT_OK(tess_barrier(team, NULL));
    tess_runtime_destroy(&rt);
}

static void a_cancelled_work_is_told_to_the_others(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    if (tess_team_rank(team) == 1) {
        tess_work *work;
        EXPECT_OK(tess_recv(team, NULL, 0, TESS_U8, 0, 0, &work));
        tess_work_cancel(&work);
        EXPECT(work == NULL);
        EXPECT_FAILS(tess_barrier(team, NULL), TESS_E_CANCELLED, "gave up recv");
    } else {
        EXPECT_FAILS(tess_barrier(team, NULL), TESS_E_CANCELLED, "rank 1 gave up");
    }
    leave_together(rt);
}

/* ---- Ranks that end: the launcher's view ---- */
typedef enum ending { BY_SIGNAL, BY_CODE, SILENTLY, ORDERLY } ending;

typedef struct fault {
    ending how;
    int victim;
    bool large; /* end in the middle of a long operation, not before one */
    bool late;  /* survivors come when it has died */
    const char *needle;
    const char *path; /* survivors leave how long they waited here */
} fault;

static int survivor_or_victim(void *context)
{
    const fault *f = context;
    tess_runtime *rt;
    if (tess_runtime_create(NULL, &rt) != TESS_OK)
        return 90;
    tess_team *team = tess_runtime_team(rt);
    tess_runtime_phase(rt, "step", 5, -1);
    static float x[300000];
    tess_work *work = NULL;
    if (tess_all_reduce(team, x, x, 3, TESS_F32, TESS_SUM, NULL) != TESS_OK)
        return 91;
    if (tess_runtime_rank(rt) == f->victim) {
        if (f->large) { /* the last to come could do all of it at once: the others wait for this */
            tess_all_reduce(team, x, x, 300000, TESS_F32, TESS_SUM, &work);
            tess_runtime_phase(rt, "step", 6, -1);
        }
        if (f->how == BY_SIGNAL)
            raise(SIGKILL);
        if (f->how == ORDERLY)
            tess_runtime_destroy(&rt);
        _exit(f->how == BY_CODE ? 3 : 0);
    }
    while (f->large && atomic_load(&rt->job.rows[f->victim].step) != 6)
        usleep(1000);
    while (f->late && atomic_load(&rt->job.rows[f->victim].ended) == 0) /* it has posted, its memory is gone */
        usleep(1000);
    double begin = tess_os_now_s();
    tess_status status = tess_all_reduce(team, x, x, 300000, TESS_F32, TESS_SUM, NULL);
    if (tess_os_now_s() - begin > at_once_s)
        return 92;
    if (status != TESS_E_PEER_LOST || strstr(tess_error_message(), f->needle) == NULL) {
        fprintf(stderr, "    survivor: %s\n", tess_error_message());
        return 93;
    }
    tess_runtime_destroy(&rt);
    return 7;
}

static void check_fault(fault f, int code)
{
    tess_launch_result result;
    double begin = tess_os_now_s();
    EXPECT_OK(tess_launch_function(4, survivor_or_victim, &f, never_s, never_s, &result));
    EXPECT_CONTAINS(result.report, f.needle);
    EXPECT_INT(result.failed_rank, f.victim);
    EXPECT_INT(result.exit_code, code);
    EXPECT(tess_os_now_s() - begin < at_once_s);
}

static void a_killed_rank_is_the_root_cause(void)
{
    check_fault(
        (fault){.how = BY_SIGNAL, .victim = 3, .needle = "rank 3 was killed by signal 9 (SIGKILL) after all_reduce #0"},
        137);
    check_fault((fault){.how = BY_SIGNAL, .victim = 0, .large = true, .needle = "(SIGKILL) in all_reduce #1"}, 137);
    check_fault(
        (fault){.how = BY_SIGNAL, .victim = 2, .large = true, .late = true, .needle = "(SIGKILL) in all_reduce"}, 137);
}

static void an_exit_code_is_the_root_cause(void)
{
    check_fault((fault){.how = BY_CODE, .victim = 1, .needle = "rank 1 exited with code 3 after all_reduce #0"}, 3);
    check_fault((fault){.how = BY_CODE, .victim = 2, .large = true, .needle = "in phase 'step' of step 6"}, 3);
}

static void a_rank_that_leaves_early_is_blamed(void)
{
    check_fault((fault){.how = SILENTLY, .victim = 2, .needle = "rank 2 exited with code 0 without leaving the job"},
                7);
    check_fault((fault){.how = ORDERLY, .victim = 1, .needle = "rank 1 left the job"}, 7);
}

/* One rank fails alone, leaves, and exits late: its code and its message count, however the others end before it, even
 * those that met only a rank that had met it. */
static int refuse_alone(void *context)
{
    (void)context;
    tess_runtime *rt;
    if (tess_runtime_create(NULL, &rt) != TESS_OK)
        return 90;
    int rank = tess_runtime_rank(rt);
    if (rank == 1) {
        tess_runtime_report(rt, "line 301 is not text");
        tess_runtime_destroy(&rt);
        usleep(300000);
        return 2;
    }
    uint8_t byte;
    double begin = tess_os_now_s();
    tess_status status = tess_recv(tess_runtime_team(rt), &byte, 1, TESS_U8, rank == 0 ? 1 : rank - 1, 0, NULL);
    if (status != TESS_E_PEER_LOST || tess_os_now_s() - begin > at_once_s)
        return 91;
    tess_runtime_destroy(&rt);
    return 7;
}

static void a_refusal_of_one_rank_is_told_whoever_ends_first(void)
{
    tess_launch_result result;
    EXPECT_OK(tess_launch_function(4, refuse_alone, NULL, never_s, never_s, &result));
    EXPECT_INT(result.exit_code, 2);
    EXPECT_INT(result.failed_rank, 1);
    EXPECT_INT(result.rank0_code, 7);
    EXPECT_TEXT(result.report, "rank 1 exited with code 2 before its first operation: line 301 is not text");
}

static int die_before_joining(void *context)
{
    (void)context;
    if (strcmp(getenv("TESSERA_RANK"), "1") == 0)
        return 4;
    tess_runtime *rt;
    tess_status status = tess_runtime_create(NULL, &rt);
    return status == TESS_E_PEER_LOST && strstr(tess_error_message(), "rank 1 exited with code 4") != NULL ? 6 : 95;
}

static void a_rank_that_never_joins_is_named(void)
{
    tess_launch_result result;
    EXPECT_OK(tess_launch_function(3, die_before_joining, NULL, never_s, never_s, &result));
    EXPECT_INT(result.exit_code, 4);
    EXPECT_TEXT(result.report, "rank 1 exited with code 4 before its first operation");
}

static int hang(void *context)
{
    tess_runtime *rt;
    (void)context;
    signal(SIGTERM, SIG_IGN);
    if (tess_runtime_create(NULL, &rt) != TESS_OK)
        return 1;
    tess_runtime_phase(rt, "asleep", -1, -1);
    if (tess_barrier(tess_runtime_team(rt), NULL) != TESS_OK || tess_runtime_rank(rt) == 1)
        _exit(5);
    for (;;)
        pause();
}

static void those_who_do_not_go_are_killed(void)
{
    tess_launch_result result;
    double begin = tess_os_now_s();
    EXPECT_OK(tess_launch_function(3, hang, NULL, 0.1, 0, &result));
    EXPECT_INT(result.exit_code, 5);
    EXPECT_INT(result.failed_rank, 1);
    EXPECT(tess_os_now_s() - begin < at_once_s);
}

static int never_end(void *context)
{
    (void)context;
    tess_runtime *rt;
    if (tess_runtime_create(NULL, &rt) != TESS_OK)
        return 1;
    for (;;)
        pause();
}

static void a_job_that_takes_too_long_is_ended(void)
{
    tess_launch_result result;
    EXPECT_OK(tess_launch_function(2, never_end, NULL, never_s, 0.3, &result));
    EXPECT_INT(result.exit_code, 124);
    EXPECT_CONTAINS(result.report, "longer than 0.3 s; rank 0 is before its first operation");
}

/* ---- Signals ---- */
static int step_until_stopped(void *context)
{
    (void)context;
    tess_runtime *rt;
    if (tess_runtime_create(NULL, &rt) != TESS_OK)
        return 1;
    if (tess_runtime_rank(rt) == 0)
        kill(getppid(), SIGINT);
    raise(SIGINT); /* a terminal signals the whole group in this way */
    int32_t stop = 0;
    for (int i = 0; i < 60000 && stop == 0; i++) {
        usleep(1000);
        stop = tess_runtime_stop_requested(rt);
        if (tess_all_reduce(tess_runtime_team(rt), &stop, &stop, 1, TESS_I32, TESS_MAX, NULL) != TESS_OK)
            return 2;
    }
    tess_runtime_destroy(&rt);
    return stop != 0 ? 130 : 3;
}

static void an_interrupt_lets_ranks_finish(void)
{
    tess_launch_result result;
    EXPECT_OK(tess_launch_function(3, step_until_stopped, NULL, never_s, never_s, &result));
    EXPECT_TEXT(result.report, "");
    EXPECT_INT(result.exit_code, 130);
    EXPECT_INT(result.failed_rank, -1);
}

static int interrupt_twice(void *context)
{
    (void)context;
    tess_runtime *rt;
    if (tess_runtime_create(NULL, &rt) != TESS_OK)
        return 1;
    /* A rank that has never asked for requests does not heed them: the first one ends it. */
    EXPECT(!tess_runtime_stop_requested(rt));
    if (tess_barrier(tess_runtime_team(rt), NULL) != TESS_OK)
        return 2;
    if (tess_runtime_rank(rt) == 0) {
        kill(getppid(), SIGINT);
        while (!tess_runtime_stop_requested(rt))
            usleep(1000);
        kill(getppid(), SIGINT);
    }
    for (;;)
        pause();
}

static void a_second_interrupt_kills(void)
{
    tess_launch_result result;
    EXPECT_OK(tess_launch_function(2, interrupt_twice, NULL, never_s, never_s, &result));
    EXPECT_INT(result.exit_code, 130);
    EXPECT_CONTAINS(result.report, "killed");
}

/* ---- Programs ---- */
static void programs_are_started_and_their_code_returned(void)
{
    tess_launch_result result;
    char *shell[] = {"sh", "-c", "test $TESSERA_WORLD = 3 && exit $((TESSERA_RANK == 1 ? 9 : 0))", NULL};
    EXPECT_OK(tess_launch(3, shell, &(tess_launch_options){.grace_s = never_s}, &result));
    EXPECT_INT(result.exit_code, 9);
    EXPECT_TEXT(result.report, "rank 1 exited with code 9 before its first operation");
    char *fine[] = {"true", NULL};
    EXPECT_OK(tess_launch(2, fine, &(tess_launch_options){.grace_s = never_s}, &result));
    EXPECT_INT(result.exit_code, 0);
    EXPECT_TEXT(result.report, "");
    char *missing[] = {"/nonexistent/program", NULL};
    EXPECT_FAILS(tess_launch(2, missing, &(tess_launch_options){.grace_s = never_s}, &result), TESS_E_NOT_FOUND,
                 "/nonexistent/program");
    EXPECT_FAILS(tess_launch(0, fine, &(tess_launch_options){.grace_s = never_s}, &result), TESS_E_INVALID, "0 ranks");
    EXPECT(!tess_launch_is_rank());
}

static void a_contradictory_environment_is_refused(void)
{
    tess_runtime *rt;
    setenv("TESSERA_RANK", "0", 1);
    EXPECT_FAILS(tess_runtime_create(NULL, &rt), TESS_E_INVALID, "TESSERA_RANK is set, but TESSERA_WORLD is not");
    setenv("TESSERA_WORLD", "2", 1);
    setenv("TESSERA_SHM_FD", "0", 1);
    EXPECT_FAILS(tess_runtime_create(NULL, &rt), TESS_E_INVALID, "TESSERA_SHM_FD=0");
    setenv("TESSERA_RANK", "2", 1);
    EXPECT_FAILS(tess_runtime_create(NULL, &rt), TESS_E_INVALID, "TESSERA_RANK is '2', expected a number from 0 to 1");
}

static void a_rank_joins_once(void)
{
    tess_runtime *rt = test_join(), *again;
    EXPECT_FAILS(tess_runtime_create(NULL, &again), TESS_E_INVALID, "was already taken");
    EXPECT_OK(tess_barrier(tess_runtime_team(rt), NULL));
    tess_runtime_destroy(&rt);
}

static void no_change_of_one_field_keeps_the_digest(void)
{
    const tess_fingerprint base = {.team = 7, .sequence = 8, .count = 9, .tag = 10, .root = -1, .kind = 3, .label = 11};
    uint64_t digest = tess_fingerprint_digest(&base);
    for (size_t byte = 0; byte < sizeof(base); byte++) {
        for (int bit = 0; bit < 8; bit++) {
            tess_fingerprint other = base;
            ((uint8_t *)&other)[byte] ^= (uint8_t)(1 << bit);
            bool is_site = byte / 8 == offsetof(tess_fingerprint, call_site) / 8;
            EXPECT((tess_fingerprint_digest(&other) == digest) == is_site);
        }
    }
}

static const test_case cases[] = {
    CASE(no_change_of_one_field_keeps_the_digest),
    CASE(who_fails_alone_waits_for_nobody, 2, 0, TEST_ALONE),
    CASE(both_sides_of_a_large_team_are_told),
    CASE(the_odd_one_out_is_named, 4, 0, TEST_ALONE),
    CASE(equal_camps_are_a_tie, 4, 0, TEST_ALONE),
    CASE(every_part_of_a_fingerprint_counts),
    CASE(a_broken_pipe_of_mpi_ends_no_rank, 2),
    CASE(uneven_counts_must_fit, -1, 0, TEST_ALONE),
    CASE(configurations_must_agree, 3, 0, TEST_ALONE),
    CASE(a_deadline_names_the_missing_rank, 3, 0, TEST_ALONE),
    CASE(a_rank_that_waits_itself_is_not_blamed, 3, 0, TEST_ALONE),
    CASE(time_spent_stopped_does_not_count, 2, 0, TEST_ALONE),
    CASE(a_cancelled_work_is_told_to_the_others, 3, 0, TEST_ALONE),
    CASE(a_killed_rank_is_the_root_cause),
    CASE(an_exit_code_is_the_root_cause),
    CASE(a_rank_that_leaves_early_is_blamed),
    CASE(a_refusal_of_one_rank_is_told_whoever_ends_first),
    CASE(a_rank_that_never_joins_is_named),
    CASE(those_who_do_not_go_are_killed),
    CASE(a_job_that_takes_too_long_is_ended),
    CASE(an_interrupt_lets_ranks_finish),
    CASE(a_second_interrupt_kills),
    CASE(programs_are_started_and_their_code_returned),
    CASE(a_contradictory_environment_is_refused),
    CASE(a_rank_joins_once, 2, 0, TEST_NEVER),
};
TEST_MAIN(cases)
