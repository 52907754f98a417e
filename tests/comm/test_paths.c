/* Results have the same bits on every path by which peers read a rank's data (next to its post, in its window, in its
 * private memory, through stages), at the sizes where one path replaces another. */
#include <math.h>
#include <stdlib.h>

#include "comm/comm_impl.h"
#include "comm/hosts/choice.h"
#include "arithmetic.h"
#include "support/test.h"

typedef enum memory_kind { WINDOWS, REACHED, STAGED, MIXED, N_MEMORY_KINDS } memory_kind;

/* Float32 elements: 4 KiB and 16 KiB next to a post; 32 KiB for private memory to be read by peers, and as much for
 * each of 2, 4 and 8 ranks; a stage. */
static const size_t borders[] = {1024, 4096, 8192, 16384, 32768, 65536, 131072};
enum { N_BORDERS = 7, LONGEST = 131072 + 1, MOST_RANKS = 8 };

typedef struct setting {
    tess_team *team;
    memory_kind kind;
    float *in, *out, *want;
    float *windows[2];
    float *all[MOST_RANKS]; /* input of every rank */
} setting;

static float value(int rank, size_t i)
{
    uint64_t x = (uint64_t)rank * UINT64_C(0x9e3779b97f4a7c15) + i * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 29)) * UINT64_C(0x94d049bb133111eb);
    return (float)((double)(int64_t)x * 0x1p-60); /* sums depend on their order */
}

static float *take(const setting *s, bool window, size_t n)
{
    void *memory;
    if (window)
        EXPECT_OK(tess_window_alloc(s->team, TESS_POOL_COMM, n * sizeof(float), "test", &memory));
    else
        EXPECT(memory = malloc(n * sizeof(float)));
    return memory;
}

static bool in_window(const setting *s)
{
    return s->kind == WINDOWS || (s->kind == MIXED && tess_team_rank(s->team) % 2 == 0);
}

static void begin(setting *s, tess_runtime *rt, memory_kind kind, size_t most)
{
    *s = (setting){.team = tess_runtime_team(rt), .kind = kind};
    int W = tess_team_size(s->team), me = tess_team_rank(s->team);
    /* Windows are collective: all take them, some use them. */
    for (int i = 0; i < 2; i++)
        s->windows[i] = take(s, true, most);
    s->in = in_window(s) ? s->windows[0] : take(s, false, most);
    s->out = in_window(s) ? s->windows[1] : take(s, false, most);
    s->want = take(s, false, most);
    for (int r = 0; r < W; r++) {
        s->all[r] = take(s, false, most);
        for (size_t i = 0; i < most; i++)
            s->all[r][i] = value(r, i);
    }
    memcpy(s->in, s->all[me], most * sizeof(float));
    if (kind == STAGED)
        atomic_store(&rt->row->reads_peers, 0);
    EXPECT_OK(tess_barrier(s->team, NULL));
}

static void end(setting *s, tess_runtime *rt)
{
    EXPECT_OK(tess_barrier(s->team, NULL));
    atomic_store(&rt->row->reads_peers, 1);
    if (!in_window(s)) {
        free(s->in);
        free(s->out);
    }
    for (int i = 0; i < 2; i++)
        tess_window_free(s->team, s->windows[i]);
    for (int r = 0; r < tess_team_size(s->team); r++)
        free(s->all[r]);
    free(s->want);
}

static void check_sums(const setting *s, size_t n)
{
    int W = tess_team_size(s->team), me = tess_team_rank(s->team);
    const void *parts[MOST_RANKS];
    for (int r = 0; r < W; r++)
        parts[r] = s->all[r];
    reduce_tree(parts, W, TESS_F32, s->want, n, false, false);
    EXPECT_OK(tess_all_reduce(s->team, s->in, s->out, n, TESS_F32, TESS_SUM, NULL));
    EXPECT_SAME(s->out, s->want, n);
    memcpy(s->out, s->in, n * sizeof(float));
    EXPECT_OK(tess_all_reduce(s->team, s->out, s->out, n, TESS_F32, TESS_SUM, NULL));
    EXPECT_SAME(s->out, s->want, n);
    size_t block = n / (size_t)W;
    EXPECT_OK(tess_reduce_scatter(s->team, s->in, s->out, block, TESS_F32, TESS_SUM, NULL));
    EXPECT_SAME(s->out, s->want + (size_t)me * block, block);
}

static void check_moves(const setting *s, size_t n)
{
    int W = tess_team_size(s->team), me = tess_team_rank(s->team), root = (int)(n % (size_t)W);
    size_t block = n / (size_t)W, bytes = block * sizeof(float);
    EXPECT_OK(tess_all_gather(s->team, s->in, s->out, block, TESS_F32, NULL));
    for (int r = 0; r < W; r++)
        EXPECT_SAME(s->out + (size_t)r * block, s->all[r], block);
    EXPECT_OK(tess_all_to_all(s->team, s->in, s->out, block, TESS_F32, NULL));
    for (int r = 0; r < W; r++)
        EXPECT_SAME(s->out + (size_t)r * block, s->all[r] + (size_t)me * block, block);
    memset(s->out, 0, bytes * (size_t)W);
    EXPECT_OK(tess_gather(s->team, s->in, me == root ? s->out : NULL, block, TESS_F32, root, NULL));
    for (int r = 0; r < W && me == root; r++)
        EXPECT_SAME(s->out + (size_t)r * block, s->all[r], block);
    EXPECT_OK(tess_scatter(s->team, me == root ? s->in : NULL, s->out, block, TESS_F32, root, NULL));
    EXPECT_SAME(s->out, s->all[root] + (size_t)me * block, block);
    memcpy(s->out, s->in, n * sizeof(float));
    EXPECT_OK(tess_broadcast(s->team, s->out, n, TESS_F32, root, NULL));
    EXPECT_SAME(s->out, s->all[root], n);
    tess_work *sent;
    memset(s->out, 0, n * sizeof(float));
    EXPECT_OK(tess_send(s->team, s->in, n, TESS_F32, (me + 1) % W, 1, &sent));
    EXPECT_OK(tess_recv(s->team, s->out, n, TESS_F32, (me + W - 1) % W, 1, NULL));
    EXPECT_OK(tess_work_wait(&sent, 0));
    EXPECT_SAME(s->out, s->all[(me + W - 1) % W], n);
}

static void every_way_to_the_data_gives_the_same_bits(void)
{
    tess_runtime *rt;
    EXPECT_OK(tess_runtime_create(NULL, &rt));
    for (int kind = 0; kind < N_MEMORY_KINDS; kind++) {
        setting s;
        begin(&s, rt, (memory_kind)kind, LONGEST);
        for (int b = 0; b < N_BORDERS; b++)
            for (int off = -1; off <= 1; off++) {
                check_sums(&s, borders[b] + (size_t)off);
                check_moves(&s, borders[b] + (size_t)off);
            }
        end(&s, rt);
    }
    tess_runtime_destroy(&rt);
}

/* Results of 8 MiB and more are stored past the caches. */
static void streamed_results_have_the_same_bits(void)
{
    enum { N = (8 << 20) / 4 + 7 };
    tess_runtime *rt;
    EXPECT_OK(tess_runtime_create(NULL, &rt));
    for (int kind = 0; kind < N_MEMORY_KINDS; kind++) {
        setting s;
        begin(&s, rt, (memory_kind)kind, N);
        check_sums(&s, N);
        check_moves(&s, N);
        end(&s, rt);
    }
    tess_runtime_destroy(&rt);
}

/* All ranks choose the same path; otherwise some would wait for a round that never comes. */
static void one_rank_that_cannot_read_is_enough_for_stages(void)
{
    tess_runtime *rt;
    setting s;
    EXPECT_OK(tess_runtime_create(NULL, &rt));
    if (tess_runtime_rank(rt) == tess_runtime_world(rt) - 1)
        atomic_store(&rt->row->reads_peers, 0);
    EXPECT_OK(tess_barrier(tess_runtime_team(rt), NULL));
    begin(&s, rt, REACHED, 20000);
    check_sums(&s, 20000);
    check_moves(&s, 20000);
    end(&s, rt);
    tess_runtime_destroy(&rt);
}

/* Over several hosts; on one host no rank carries data for others. */
static void whoever_carries_them_the_bits_are_the_same(void)
{
    static const tess_hosts_choice choices[] = {{HOSTS_LEADERS, 4096}, {HOSTS_LEADERS, 1 << 20}, {HOSTS_STRIPED, 4096}};
    static const size_t sizes[] = {4097, 40000, 131072 + 1};
    tess_runtime *rt;
    EXPECT_OK(tess_runtime_create(NULL, &rt));
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
        tess_tuning *given = rt->tuning;
        EXPECT_OK(tess_tuning_of(rt->mem, choices[i], &rt->tuning));
        for (int kind = WINDOWS; kind <= REACHED; kind++) {
            setting s;
            begin(&s, rt, (memory_kind)kind, LONGEST);
            for (int k = 0; k < 3; k++) {
                check_sums(&s, sizes[k]);
                check_moves(&s, sizes[k]);
            }
            end(&s, rt);
        }
        tess_tuning_free(&rt->tuning);
        rt->tuning = given;
    }
    tess_runtime_destroy(&rt);
}

static void native_reductions_add_up(void)
{
    enum { N = 30001 };
    static float x[N], sum[N];
    static int64_t k[N], total[N];
    tess_runtime *rt;
    tess_runtime_options options = {.native_reductions = true};
    EXPECT_OK(tess_runtime_create(&options, &rt));
    tess_team *team = tess_runtime_team(rt);
    int W = tess_team_size(team), me = tess_team_rank(team);
    for (size_t i = 0; i < N; i++) {
        x[i] = value(me, i);
        k[i] = (int64_t)i * (me + 1);
    }
    EXPECT_OK(tess_all_reduce(team, x, sum, N, TESS_F32, TESS_SUM, NULL));
    EXPECT_OK(tess_all_reduce(team, k, total, N, TESS_I64, TESS_SUM, NULL));
    for (size_t i = 0; i < N; i++) {
        double want = 0;
        for (int r = 0; r < W; r++)
            want += (double)value(r, i);
        EXPECT(fabs((double)sum[i] - want) <= 1e-6 * 8 * W);
        EXPECT_INT(total[i], (int64_t)i * (W * (W + 1) / 2));
    }
    size_t block = N / (size_t)W;
    EXPECT_OK(tess_reduce_scatter(team, k, total, block, TESS_I64, TESS_MAX, NULL));
    for (size_t i = 0; i < block; i++)
        EXPECT_INT(total[i], (int64_t)((size_t)me * block + i) * W);
    tess_runtime_destroy(&rt);
}

static const test_case cases[] = {
    CASE(every_way_to_the_data_gives_the_same_bits, -1),
    CASE(streamed_results_have_the_same_bits, 2),
    {"streamed_results_of_three_ranks_have_the_same_bits", streamed_results_have_the_same_bits, 3, 0},
    CASE(one_rank_that_cannot_read_is_enough_for_stages, -1),
    CASE(whoever_carries_them_the_bits_are_the_same, -1),
    CASE(native_reductions_add_up, -1),
};
TEST_MAIN(cases)
