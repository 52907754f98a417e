/* Asynchronous work, teams of teams, messages, windows. */
#include <pthread.h>
#include <stdlib.h>

#include "comm/agree.h"
#include "support/join.h"
#include "tessera/comm.h"

/* More operations than a rank may have in flight, on all paths; they are waited for in reverse order. */
static void many_works_in_flight_complete(void)
{
    enum { N = 40, LARGE = 300000 };
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    int W = tess_team_size(team), me = tess_team_rank(team);
    tess_work *works[N];
    float *x[N], *window;
    EXPECT_OK(tess_window_alloc(team, TESS_POOL_COMM, N * 5000 * sizeof(float), "in", (void **)&window));
    for (int i = 0; i < N; i++) {
        size_t n = i % 3 == 0 ? 5 : i % 3 == 1 ? 5000 : LARGE;
        x[i] = i % 3 == 1 ? window + (size_t)i * 5000 : malloc(n * sizeof(float));
        for (size_t k = 0; k < n; k++)
            x[i][k] = (float)(me + i);
        EXPECT_OK(tess_all_reduce(team, x[i], x[i], n, TESS_F32, TESS_SUM, &works[i]));
    }
    for (int i = N - 1; i >= 0; i--) {
        EXPECT_OK(tess_work_wait(&works[i], 0));
        EXPECT(works[i] == NULL);
        size_t n = i % 3 == 0 ? 5 : i % 3 == 1 ? 5000 : LARGE;
        EXPECT_INT(x[i][0], W * (W - 1) / 2 + W * i);
        EXPECT_INT(x[i][n - 1], W * (W - 1) / 2 + W * i);
        if (i % 3 != 1)
            free(x[i]);
    }
    tess_window_free(team, window);
    tess_runtime_destroy(&rt);
}

static void done_drives_the_work(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    float *x = calloc(400000, sizeof(float));
    x[399999] = 1;
    tess_work *work;
    EXPECT_OK(tess_all_reduce(team, x, x, 400000, TESS_F32, TESS_SUM, &work));
    while (!tess_work_done(work))
        continue;
    EXPECT_OK(tess_work_wait(&work, 0));
    EXPECT_INT(x[399999], tess_team_size(team));
    free(x);
    tess_runtime_destroy(&rt);
}

/* Ranks wait for works of two teams in opposite orders; both ranks must progress both works. */
static void teams_may_be_waited_for_in_any_order(void)
{
    enum { N = 200000 };
    tess_runtime *rt = test_join();
    tess_team *world = tess_runtime_team(rt), *other;
    int W = tess_team_size(world), me = tess_team_rank(world);
    EXPECT_OK(tess_team_split(world, 0, -me, "reversed", &other));
    EXPECT_INT(tess_team_rank(other), W - 1 - me);
    float *x = malloc(N * 4), *y = malloc(N * 4);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < N; i++)
            x[i] = y[i] = (float)(i % 100 + round);
        tess_work *a, *b;
        EXPECT_OK(tess_all_reduce(world, x, x, N, TESS_F32, TESS_SUM, &a));
        EXPECT_OK(tess_all_reduce(other, y, y, N, TESS_F32, TESS_MAX, &b));
        if (me % 2 == 0) {
            EXPECT_OK(tess_work_wait(&a, 0));
            EXPECT_OK(tess_work_wait(&b, 0));
        } else {
            EXPECT_OK(tess_work_wait(&b, 0));
            EXPECT_OK(tess_work_wait(&a, 0));
        }
        EXPECT_INT(x[N - 1], W * (99 + round));
        EXPECT_INT(y[N - 1], 99 + round);
    }
    free(x);
    free(y);
    tess_team_destroy(&other);
    tess_runtime_destroy(&rt);
}

/* world -> halves by parity -> pairs; every team sums global ranks. */
static void teams_split_at_any_depth(void)
{
    tess_runtime *rt = test_join();
    tess_team *world = tess_runtime_team(rt), *half, *pair, *none;
    int W = tess_team_size(world), me = tess_team_rank(world);
    EXPECT_OK(tess_team_split(world, me % 2, me, "parity", &half));
    EXPECT_INT(tess_team_size(half), me % 2 == 0 ? (W + 1) / 2 : W / 2);
    EXPECT_OK(tess_team_split(half, tess_team_rank(half) / 2, 0, "pair", &pair));
    EXPECT_OK(tess_team_split(pair, tess_team_rank(pair) == 0 ? -1 : 3, 0, "rest", &none));
    EXPECT((none == NULL) == (tess_team_rank(pair) == 0));
    tess_team *teams[3] = {world, half, pair};
    for (int round = 0; round < 50; round++) {
        for (int t = 0; t < 3; t++) {
            int64_t sum = me + 1, want = 0;
            EXPECT_OK(tess_all_reduce(teams[t], &sum, &sum, 1, TESS_I64, TESS_SUM, NULL));
            for (int r = 0; r < tess_team_size(teams[t]); r++)
                want += tess_team_global_rank(teams[t], r) + 1;
            EXPECT_INT(sum, want);
        }
    }
    EXPECT_INT(tess_team_global_rank(pair, tess_team_rank(pair)), me);
    EXPECT_INT(tess_team_global_rank(pair, 99), -1);
    tess_team_destroy(&none);
    tess_team_destroy(&pair);
    tess_team_destroy(&half);
    tess_runtime_destroy(&rt);
}

/* A message names the failed rank by its number in the job, not in the team. */
static void a_failure_in_a_part_of_the_job_is_told_to_all_there(void)
{
    tess_runtime *rt = test_join();
    tess_team *world = tess_runtime_team(rt), *half;
    int me = tess_team_rank(world);
    EXPECT_OK(tess_team_split(world, me % 2, me, "parity", &half));
    tess_status mine = me == 3 ? TESS_FAIL(TESS_E_NO_SPACE, "the disk is full") : TESS_OK;
    if (me % 2 == 0)
        EXPECT_OK(tess_team_agree(half, mine));
    else
        EXPECT_FAILS(tess_team_agree(half, mine), TESS_E_NO_SPACE,
                     me == 3 ? "the disk is full" : "rank 3: the disk is full");
    EXPECT_OK(tess_team_agree(half, TESS_OK));
    tess_team_destroy(&half);
    tess_runtime_destroy(&rt);
}

typedef struct thread_job {
    tess_team *team;
    int failures;
} thread_job;

static void *reduce_often(void *context)
{
    thread_job *job = context;
    for (int i = 0; i < 100; i++) {
        int32_t x[3] = {i, 1, -i};
        if (tess_all_reduce(job->team, x, x, 3, TESS_I32, TESS_SUM, NULL) != TESS_OK)
            job->failures++;
        job->failures += x[0] != i * tess_team_size(job->team) || x[1] != tess_team_size(job->team);
    }
    return NULL;
}

static void distinct_teams_run_in_distinct_threads(void)
{
    tess_runtime *rt = test_join();
    thread_job jobs[3] = {{0}};
    pthread_t threads[3];
    for (int t = 0; t < 3; t++)
        EXPECT_OK(tess_team_split(tess_runtime_team(rt), 0, 0, "thread", &jobs[t].team));
    for (int t = 0; t < 3; t++)
        EXPECT_INT(pthread_create(&threads[t], NULL, reduce_often, &jobs[t]), 0);
    for (int t = 0; t < 3; t++) {
        pthread_join(threads[t], NULL);
        EXPECT_INT(jobs[t].failures, 0);
        tess_team_destroy(&jobs[t].team);
    }
    tess_runtime_destroy(&rt);
}

/* ---- Messages ---- */
static void messages_go_round_a_ring(void)
{
    static const size_t sizes[] = {0, 1, 511, 513, 100003, 400000};
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    int W = tess_team_size(team), me = tess_team_rank(team), next = (me + 1) % W, last = (me + W - 1) % W;
    int32_t *window;
    EXPECT_OK(tess_window_alloc(team, TESS_POOL_COMM, 400000 * 4, "message", (void **)&window));
    for (int s = 0; s < 6; s++) {
        for (int windowed = 0; windowed < 2; windowed++) {
            size_t n = sizes[s];
            int32_t *out = windowed ? window : malloc(n * 4 + 4), *in = calloc(n + 1, 4);
            for (size_t i = 0; i < n; i++)
                out[i] = me * 1000000 + (int)i;
            tess_work *sent, *received;
            EXPECT_OK(tess_recv(team, in, n, TESS_I32, last, 5, &received));
            EXPECT_OK(tess_send(team, out, n, TESS_I32, next, 5, &sent));
            EXPECT_OK(tess_work_wait(&sent, 0));
            EXPECT_OK(tess_work_wait(&received, 0));
            for (size_t i = 0; i < n; i++)
                EXPECT_INT(in[i], last * 1000000 + (int)i);
            free(in);
            if (!windowed)
                free(out);
        }
    }
    tess_window_free(team, window);
    tess_runtime_destroy(&rt);
}

/* More messages than a channel has slots, small and large, received by tag, the last tag first. */
static void tags_are_taken_in_any_order(void)
{
    enum { N = 60, TAGS = 3, LARGE = 3000 };
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    tess_work *works[N];
    int32_t *x[N];
    bool sender = tess_team_rank(team) == 0;
    for (int i = 0; i < N; i++)
        x[i] = calloc(LARGE, 4);
    if (sender) {
        for (int i = 0; i < N; i++) {
            x[i][0] = i;
            EXPECT_OK(tess_send(team, x[i], i % 2 == 0 ? 1 : LARGE, TESS_I32, 1, (uint32_t)(i / 2 % TAGS), &works[i]));
        }
        for (int i = 0; i < N; i++)
            EXPECT_OK(tess_work_wait(&works[i], 0));
    } else {
        int n = 0;
        for (int tag = TAGS - 1; tag >= 0; tag--)
            for (int i = 0; i < N; i++)
                if (i / 2 % TAGS == tag)
                    EXPECT_OK(tess_recv(team, x[n], i % 2 == 0 ? 1 : LARGE, TESS_I32, 0, (uint32_t)tag, &works[n])),
                        n++;
        for (int i = 0; i < N; i++)
            EXPECT_OK(tess_work_wait(&works[i], 0));
        n = 0;
        for (int tag = TAGS - 1; tag >= 0; tag--)
            for (int i = 0; i < N; i++)
                if (i / 2 % TAGS == tag)
                    EXPECT_INT(x[n++][0], i);
    }
    for (int i = 0; i < N; i++)
        free(x[i]);
    tess_runtime_destroy(&rt);
}

static void a_rank_sends_to_itself(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    int me = tess_team_rank(team);
    int32_t *out = calloc(200000, 4), *in = calloc(200000, 4);
    tess_work *work;
    out[199999] = me + 7;
    EXPECT_OK(tess_send(team, out, 200000, TESS_I32, me, 1, &work));
    EXPECT_OK(tess_recv(team, in, 200000, TESS_I32, me, 1, NULL));
    EXPECT_OK(tess_work_wait(&work, 0));
    EXPECT_INT(in[199999], me + 7);
    free(in);
    free(out);
    tess_runtime_destroy(&rt);
}

static void unequal_messages_are_named(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    float *x = calloc(5000, 4);
    if (tess_team_rank(team) == 0)
        EXPECT_FAILS(tess_send(team, x, 5000, TESS_F32, 1, 9, NULL), TESS_E_MISMATCH, "5000 float32, to 1, tag 9");
    else
        EXPECT_FAILS(tess_recv(team, x, 4999, TESS_F32, 0, 9, NULL), TESS_E_MISMATCH, "4999 float32, from 0, tag 9");
    EXPECT_FAILS(tess_barrier(team, NULL), TESS_E_MISMATCH, "5000 float32");
    free(x);
    tess_runtime_destroy(&rt);
}

/* ---- Memory ---- */
static void windows_are_zeroed_and_counted(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    tess_mem *mem = tess_runtime_mem(rt);
    int me = tess_team_rank(team);
    bool first = me == 0 || tess_team_host(team, me) != tess_team_host(team, me - 1); /* first member of its host */
    size_t before = tess_mem_stats(mem, TESS_POOL_GRADS).bytes;
    for (int round = 0; round < 4; round++) {
        size_t bytes = round % 2 == 0 ? 12345 : 5 << 20;
        uint8_t *a, *b, *c;
        EXPECT_OK(tess_window_alloc(team, TESS_POOL_GRADS, bytes, "a", (void **)&a));
        EXPECT_OK(tess_shared_alloc(team, TESS_POOL_GRADS, bytes, "b", (void **)&b));
        EXPECT_OK(tess_window_alloc(team, TESS_POOL_GRADS, 0, "c", (void **)&c));
        EXPECT_INT((uintptr_t)a % 4096, 0);
        EXPECT_INT((uintptr_t)b % 4096, 0);
        EXPECT_INT(tess_mem_stats(mem, TESS_POOL_GRADS).bytes - before, first ? 2 * bytes : bytes);
        for (size_t i = 0; i < bytes; i++)
            EXPECT(a[i] == 0 && b[i] == 0);
        EXPECT_OK(tess_barrier(team, NULL));
        memset(a, 0xa5, bytes);
        if (first)
            memset(b, 0x5a, bytes);
        EXPECT_OK(tess_barrier(team, NULL));
        EXPECT_INT(b[bytes - 1], 0x5a); /* one copy for all of a host */
        tess_window_free(team, a);
        tess_shared_free(team, b);
        tess_window_free(team, c);
        EXPECT_INT(tess_mem_stats(mem, TESS_POOL_GRADS).bytes, before);
    }
    tess_runtime_destroy(&rt);
}

/* Disjoint teams allocate at the same time without meeting. */
static void teams_allocate_beside_each_other(void)
{
    tess_runtime *rt = test_join();
    tess_team *world = tess_runtime_team(rt), *team;
    int me = tess_team_rank(world);
    EXPECT_OK(tess_team_split(world, me % 2, 0, "half", &team));
    uint8_t *x[20];
    for (int i = 0; i < 20; i++) {
        EXPECT_OK(tess_window_alloc(team, TESS_POOL_COMM, 4096 * (size_t)(1 + i % 5), "x", (void **)&x[i]));
        memset(x[i], 16 * me + i % 16, 4096 * (size_t)(1 + i % 5));
        if (i % 3 == 2) {
            tess_window_free(team, x[i - 1]);
            x[i - 1] = NULL;
        }
    }
    EXPECT_OK(tess_barrier(world, NULL));
    for (int i = 0; i < 20; i++) {
        for (size_t k = 0; x[i] != NULL && k < 4096 * (size_t)(1 + i % 5); k++)
            EXPECT_INT(x[i][k], (uint8_t)(16 * me + i % 16));
        tess_window_free(team, x[i]);
    }
    tess_team_destroy(&team);
    tess_runtime_destroy(&rt);
}

static void too_much_memory_is_refused_by_all(void)
{
    tess_runtime *rt = test_join();
    void *x;
    EXPECT_FAILS(tess_shared_alloc(tess_runtime_team(rt), TESS_POOL_COMM, (size_t)1 << 50, "a planet", &x),
                 TESS_E_NOMEM, "a planet");
    EXPECT_OK(tess_barrier(tess_runtime_team(rt), NULL));
    tess_runtime_destroy(&rt);
}

static const test_case cases[] = {
    CASE(many_works_in_flight_complete, -1),
    CASE(done_drives_the_work, -1),
    CASE(teams_may_be_waited_for_in_any_order, -1),
    CASE(teams_split_at_any_depth, -1),
    CASE(a_failure_in_a_part_of_the_job_is_told_to_all_there, 4),
    CASE(distinct_teams_run_in_distinct_threads, 3),
    CASE(messages_go_round_a_ring, -1),
    CASE(tags_are_taken_in_any_order, 2),
    CASE(a_rank_sends_to_itself, -1),
    CASE(unequal_messages_are_named, 2, 0, TEST_ALONE),
    CASE(windows_are_zeroed_and_counted, -1),
    CASE(teams_allocate_beside_each_other, -1),
    CASE(too_much_memory_is_refused_by_all, 3),
};
TEST_MAIN(cases)
