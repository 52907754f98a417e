/* Medians, races and limits; the peers compute the product that we compute. */
#include <math.h>
#include <time.h>

#include "bench/bench_memory.h"
#include "bench/peers.h"
#include "bench/race.h"
#include "device/bf16.h"
#include "device/stream.h"
#include "support/test.h"

static void medians_are_of_the_sorted_samples(void)
{
    const double s[] = {5, 1, 2, NAN}, by[] = {1, 1, 4, 2};
    EXPECT(isnan(tess_bench_median(s, 0)) && isnan(tess_bench_min(s, 0)) && isnan(tess_bench_median(s + 3, 1)));
    EXPECT(tess_bench_median(s, 2) == 3);
    EXPECT(tess_bench_median(s, 3) == 2);
    EXPECT(tess_bench_median(s, 4) == 2); /* NAN: not measured */
    EXPECT(tess_bench_min(s, 4) == 1 && tess_bench_max(s, 4) == 5);
    EXPECT(tess_bench_median_ratio(s, by, 4) == 1);
}

static tess_status sleep_for(void *self)
{
    nanosleep(&(struct timespec){.tv_nsec = *(long *)self}, NULL);
    return TESS_OK;
}

static double thousand(const void *self, int limit)
{
    (void)self;
    (void)limit;
    return 1000;
}

static tess_status break_down(void *self)
{
    (void)self;
    return TESS_FAIL(TESS_E_NOMEM, "broken");
}

/* One race against three times as long. True when its figures are about those that sleeps of that length give; other
 * work on the machine may only lengthen them. */
static bool race_is_as_expected(double ours_s)
{
    long ours = (long)(ours_s * 1e9), theirs = 3 * ours;
    tess_bench_race race = {.n_sides = 2, .measure_limit = thousand, .rounds = 3, .budget_s = 600};
    race.side[0] = (tess_bench_side){sleep_for, &ours};
    race.side[1] = (tess_bench_side){sleep_for, &theirs};
    EXPECT_OK(tess_bench_race_run(&race));
    EXPECT(race.n_rounds >= 1 && race.n_rounds <= 3);
    double ratio = tess_bench_median_ratio(race.seconds[1], race.seconds[0], race.n_rounds);
    double seconds = tess_bench_median(race.seconds[0], race.n_rounds);
    double share = tess_bench_race_share(&race, 1000 * ours_s); /* at most 1000 a second */
    EXPECT(seconds >= 0.999 * ours_s && share <= 1.001);
    return race.n_rounds == 3 && ratio > 2 && ratio < 3.5 && seconds < 2 * ours_s && share > 0.5;
}

static void a_race_gives_ratios_and_the_share_of_the_limit(void)
{
    double ours_s = 0.003;
    while (!race_is_as_expected(ours_s) && ours_s < 10) /* disturbed: longer sleeps bear more of it */
        ours_s *= 1.1;
    EXPECT(ours_s < 10);
}

static void a_race_keeps_to_its_budget_and_reports_failures(void)
{
    long ours = 20000000;
    tess_bench_race race = {.n_sides = 1, .measure_limit = thousand, .rounds = 50, .budget_s = 0.001};
    race.side[0] = (tess_bench_side){sleep_for, &ours};
    EXPECT_OK(tess_bench_race_run(&race));
    EXPECT_INT(race.n_rounds, 1);
    race.side[0].run = break_down;
    EXPECT_FAILS(tess_bench_race_run(&race), TESS_E_NOMEM, "broken");
}

static void every_traffic_has_a_rate_and_moves_its_data(void)
{
    tess_bench_arrays *arrays;
    EXPECT_OK(tess_bench_arrays_create(test_mem(), 2, 1 << 20, &arrays));
    for (int i = 0; i < TESS_BENCH_TRAFFIC_COUNT; i++)
        EXPECT(tess_bench_traffic_rate(arrays, (tess_bench_traffic)i) > 1e3);
    for (int64_t i = 0; i < arrays->n; i++) /* result of the last triad: 1 + 3 * 2 */
        EXPECT(arrays->c[i] == 7);
    tess_bench_traffic_rate(arrays, TESS_BENCH_COPY);
    for (int64_t i = 0; i < arrays->n; i++)
        EXPECT(arrays->c[i] == 1);
    EXPECT(tess_bench_cache_read_rate(arrays, 1 << 15, 1e-4) > 1e3);
    EXPECT(tess_bench_touch_rate(arrays->threads, 4 << 20, false) > 1e3);
    tess_bench_arrays_destroy(&arrays);
}

enum { M = 19, N = 37, K = 29 };

/* One product by a peer and by the reference; operands are small integers, so that every order gives the same sum.
 * False when the peer does not offer it. */
static bool compare_with_peer(tess_stream *stream, const tess_bench_peer *peer, tess_gemm g, const float *a,
                              const float *b)
{
    static float ours[M * N], theirs[M * N];
    static uint16_t a16[M * K], b16[N * K];
    for (int i = 0; i < M * K; i++)
        a16[i] = tess_float_to_bf16(a[i]);
    for (int i = 0; i < N * K; i++)
        b16[i] = tess_float_to_bf16(b[i]);
    g.a = g.ab_dtype == TESS_BF16 ? (const void *)a16 : a;
    g.b = g.ab_dtype == TESS_BF16 ? (const void *)b16 : b;
    memset(theirs, 0, sizeof(theirs));
    g.c = theirs;
    tess_bench_product *product = peer->prepare(&g);
    if (product == NULL)
        return false;
    EXPECT(peer->run(product));
    peer->release(product);
    g.c = ours;
    EXPECT_OK(tess_stream_kernels(stream)->gemm(stream, &g));
    EXPECT_SAME(theirs, ours, M * N);
    return true;
}

static void peers_compute_the_same_products(void)
{
    float a[M * K], b[N * K];
    tess_stream *stream;
    const tess_bench_peers *peers = tess_bench_peers_open("amx");
    if (peers == NULL) { /* built where the libraries are */
        puts("no plug-in");
        return;
    }
    for (int i = 0; i < M * K; i++)
        a[i] = (float)(i % 7 - 3);
    for (int i = 0; i < N * K; i++)
        b[i] = (float)(i % 5 - 2);
    EXPECT_OK(tess_stream_create(test_mem(), 1, "ref", &stream));
    peers->set_threads(2);
    for (int i = 0; peers->peers[i] != NULL; i++) {
        int n_offered = 0;
        for (int kind = 0; kind < 8; kind++) {
            tess_gemm g = {
                .m = M, .n = N, .k = K, .ldc = N, .trans_a = kind & 1, .trans_b = kind & 2, .c_dtype = TESS_F32};
            g.lda = g.trans_a ? M : K;
            g.ldb = g.trans_b ? K : N;
            g.ab_dtype = kind & 4 ? TESS_BF16 : TESS_F32;
            n_offered += compare_with_peer(stream, peers->peers[i], g, a, b);
        }
        EXPECT(n_offered >= 4);
    }
    tess_stream_destroy(&stream);
}

static const test_case cases[] = {
    CASE(medians_are_of_the_sorted_samples),
    CASE(a_race_gives_ratios_and_the_share_of_the_limit),
    CASE(a_race_keeps_to_its_budget_and_reports_failures),
    CASE(every_traffic_has_a_rate_and_moves_its_data),
    CASE(peers_compute_the_same_products),
};
TEST_MAIN(cases)
