/* Parts of base/core and base/os: random numbers, exact sums, clocks, signals. */
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/core/exact_sum.h"
#include "base/core/flat.h"
#include "base/core/rng.h"
#include "base/core/abi.h"
#include "base/os/os.h"
#include "tessera/clock.h"
#include "base/os/program.h"
#include "base/os/threads.h"
#include "tessera/types.h"
#include "tessera/version.h"

static tess_status inner(void)
{
    return TESS_FAIL(TESS_E_FORMAT, "tensor 'x': %d bytes", 7);
}

static tess_status outer(void)
{
    TESS_TRY_CTX(inner(), "load %s", "model");
    return TESS_OK;
}

static void messages_chain(void)
{
    EXPECT_FAILS(outer(), TESS_E_FORMAT, "load model: tensor 'x': 7 bytes");
    EXPECT_CONTAINS(tess_error_where(), "test_core.c:");
    EXPECT_TEXT(tess_status_name(TESS_E_PEER_LOST), "TESS_E_PEER_LOST");
}

static void the_version_is_a_number_and_a_text(void)
{
    const char *text;
    char number[32];
    EXPECT_INT(tess_version(&text), TESS_VERSION_NUMBER);
    EXPECT_INT(tess_version(NULL), TESS_VERSION_NUMBER);
    snprintf(number, sizeof(number), "%d.%d.%d", TESS_VERSION_NUMBER / 10000, TESS_VERSION_NUMBER / 100 % 100,
             TESS_VERSION_NUMBER % 100);
    EXPECT_TEXT(text, number);
}

/* A struct of a later version, with a field after those that are known. */
static void fields_of_a_later_version_are_refused_unless_they_are_zero(void)
{
    struct {
        size_t size;
        double later;
    } options = {.later = 1};
    EXPECT_INT(tess_abi_check_size("x", &options, 0, sizeof(size_t)), TESS_OK);
    EXPECT_FAILS(tess_abi_check_size("x", &options, sizeof(options), sizeof(size_t)), TESS_E_UNSUPPORTED,
                 "x: a field at byte 14 is set; this is libtessera " TESS_VERSION ", whose struct ends at byte 8");
    EXPECT_INT(tess_abi_check_size("x", &options, sizeof(options), sizeof(options)), TESS_OK);
    options.later = 0;
    EXPECT_INT(tess_abi_check_size("x", &options, sizeof(options), sizeof(size_t)), TESS_OK);
}

static void pools_count_exactly(void)
{
    tess_mem *mem = test_mem();
    void *a, *b = NULL;
    EXPECT_OK(tess_mem_alloc(mem, TESS_POOL_PARAMS, 100, "a", &a));
    EXPECT_OK(tess_mem_grow(mem, TESS_POOL_PARAMS, (size_t)9 << 20, "b", &b));
    EXPECT_INT(tess_mem_stats(mem, TESS_POOL_PARAMS).bytes, 100 + (9 << 20));
    EXPECT_INT((uintptr_t)b % (2 << 20), 0);
    EXPECT_INT((uintptr_t)a % 64, 0);
    EXPECT_INT(((char *)b)[(9 << 20) - 1], 0);
    memset(b, 1, 4096);
    EXPECT_OK(tess_mem_grow(mem, TESS_POOL_PARAMS, 4096, "b", &b));
    EXPECT_INT(((char *)b)[4095], 1);
    tess_mem_free(mem, a);
    tess_mem_free(mem, b);
    EXPECT_INT(tess_mem_stats(mem, TESS_POOL_PARAMS).bytes, 0);
    EXPECT(tess_mem_stats(mem, TESS_POOL_PARAMS).peak_bytes >= 100 + (9 << 20));
    EXPECT_FAILS(tess_mem_alloc(mem, TESS_POOL_GRADS, SIZE_MAX, "the moon", &a), TESS_E_NOMEM, "the moon");
    EXPECT_FAILS(tess_mem_alloc_array(mem, TESS_POOL_GRADS, SIZE_MAX / 2, 4, "stars", &a), TESS_E_NOMEM, "overflow");
}

/* Blocks begin on huge pages; before one lie its header and a small page at most. */
static void a_large_block_takes_no_huge_page_for_its_header(void)
{
    enum { BYTES = 8 << 20 };
    char *block;
    unsigned char there = 0;
    EXPECT_OK(tess_mem_alloc(test_mem(), TESS_POOL_MISC, BYTES, "block", (void **)&block));
    memset(block, 1, BYTES);
    if (mincore(block - (1 << 20), 4096, &there) != 0)
        EXPECT_INT(errno, ENOMEM); /* not even an address */
    EXPECT(!(there & 1));
    tess_mem_free(test_mem(), block);
}

/* Known answers of Random123's kat_vectors for philox4x32-10, which our counter layout can reach. */
static void philox_gives_the_published_words(void)
{
    uint32_t words[4];
    tess_philox(0, (tess_purpose)0, 0, 0, words);
    EXPECT_INT(words[0], 0x6627e8d5u);
    EXPECT_INT(words[1], 0xe169c58du);
    EXPECT_INT(words[2], 0xbc57ac4cu);
    EXPECT_INT(words[3], 0x9b00dbd8u);
}

static void normal_fill_does_not_depend_on_the_cut(void)
{
    float whole[501], parts[501], one[501];
    tess_rng_fill_normal(7, TESS_RNG_TEST, 3, 0, 501, 0.5f, 2, whole);
    tess_rng_fill_normal(7, TESS_RNG_TEST, 3, 0, 133, 0.5f, 2, parts);
    tess_rng_fill_normal(7, TESS_RNG_TEST, 3, 133, 368, 0.5f, 2, parts + 133);
    EXPECT_SAME(parts, whole, 501);
    for (uint64_t i = 0; i < 501; i++) /* the scalar way, where the fill may take another */
        one[i] = 0.5f + 2 * tess_rng_normal(7, TESS_RNG_TEST, 3, i);
    EXPECT_SAME(one, whole, 501);
    const uint64_t edge = (UINT64_C(1) << 34) - 128; /* the counter's low word wraps inside a block here */
    tess_rng_fill_normal(7, TESS_RNG_TEST, 3, edge + 5, 300, 0, 1, whole);
    for (uint64_t i = 0; i < 300; i++)
        one[i] = tess_rng_normal(7, TESS_RNG_TEST, 3, edge + 5 + i) + 0.0f;
    EXPECT_SAME(one, whole, 300);
}

static double uniform_of(uint32_t word)
{
    return ((double)(word >> 8) + 0.5) * 0x1p-24;
}

static void normals_are_box_muller_of_philox(void)
{
    double moments[5] = {0}, largest = 0;
    enum { N = 200000 };
    for (uint64_t c = 0; c < N / 4; c++) {
        uint32_t w[4];
        tess_philox(1, TESS_RNG_TEST, 9, c, w);
        for (uint64_t k = 0; k < 4; k++) {
            double radius = sqrt(-2 * log(uniform_of(w[k & 2]))), angle = 2 * M_PI * (double)w[(k & 2) + 1] * 0x1p-32;
            double want = radius * (k & 1 ? sin(angle) : cos(angle));
            double got = tess_rng_normal(1, TESS_RNG_TEST, 9, 4 * c + k), power = 1;
            largest = fmax(largest, fabs(got - want));
            for (int m = 0; m < 5; m++, power *= got)
                moments[m] += power / N;
        }
    }
    if (largest >= 4e-6)
        test_fail(__FILE__, __LINE__, "largest error %g", largest);
    EXPECT(fabs(moments[1]) < 0.01 && fabs(moments[2] - 1) < 0.01 && fabs(moments[3]) < 0.03 &&
           fabs(moments[4] - 3) < 0.1);
}

static void permute_is_a_permutation(void)
{
    for (uint64_t n = 0; n < 300; n += 7) {
        char seen[300] = {0};
        uint64_t moved = 0;
        for (uint64_t i = 0; i < n; i++) {
            uint64_t to = tess_rng_permute(5, TESS_RNG_SHUFFLE, 2, n, i);
            EXPECT(to < n && !seen[to]);
            seen[to] = 1;
            moved += to != i;
        }
        EXPECT(n < 20 || moved > n / 2);
    }
}

static void exact_sums_ignore_the_order(void)
{
    static const double values[] = {1e300, 3.7, -1e300, 0x1p-1074, -2.5e-310, 1.0 / 3, -1e-20, 12345.678, 1e17, -1e17};
    enum { N = sizeof(values) / sizeof(values[0]) };
    tess_exact_sum forward, backward, half;
    tess_exact_clear(&forward);
    tess_exact_clear(&backward);
    tess_exact_clear(&half);
    for (int i = 0; i < N; i++)
        tess_exact_add(&forward, values[i]);
    for (int i = N - 1; i >= 0; i--)
        tess_exact_add(i % 2 ? &backward : &half, values[i]);
    tess_exact_normalize(&backward);
    tess_exact_normalize(&half);
    for (int i = 0; i < TESS_EXACT_LIMBS; i++) /* ranks add theirs in this way */
        backward.limb[i] += half.limb[i];
    tess_exact_normalize(&backward);
    tess_exact_normalize(&forward);
    EXPECT_SAME(backward.limb, forward.limb, TESS_EXACT_LIMBS);
    EXPECT(tess_exact_value(&forward) == 3.7 + 1.0 / 3 + 12345.678);
    tess_exact_clear(&forward);
    tess_exact_add(&forward, 1);
    tess_exact_add(&forward, 0x1p-53); /* a tie: to even */
    EXPECT(tess_exact_value(&forward) == 1);
    tess_exact_add(&forward, 0x1p-1074); /* above the tie */
    EXPECT(tess_exact_value(&forward) == 1 + 0x1p-52);
    tess_exact_add(&forward, -3);
    EXPECT(tess_exact_value(&forward) == -2 + 0x1p-52);
    tess_exact_add(&forward, INFINITY);
    EXPECT(tess_exact_value(&forward) == INFINITY);
    tess_exact_add(&forward, -INFINITY);
    EXPECT(isnan(tess_exact_value(&forward)));
}

static void exact_sums_agree_with_long_sums(void)
{
    tess_exact_sum sum;
    tess_exact_clear(&sum);
    __int128 expected = 0; /* integers: exact */
    for (uint64_t i = 0; i < 20000; i++) {
        int64_t value = (int64_t)(tess_rng_u64(3, TESS_RNG_TEST, 0, i) >> 12) - (INT64_C(1) << 51);
        tess_exact_add(&sum, (double)value);
        expected += value;
    }
    EXPECT(tess_exact_value(&sum) == (double)(int64_t)expected);
}

static double seconds_of(const tess_phase_clock *clock, tess_phase phase)
{
    return (double)clock->ns[phase] * 1e-9;
}

static void phases_add_up_to_the_time_that_passed(void)
{
    tess_phase_clock clock;
    uint64_t before = tess_os_now_ns();
    tess_phase_start(&clock);
    uint64_t begin = clock.since_ns, sum = 0;
    struct timespec nap = {.tv_nsec = 20000000};
    nanosleep(&nap, NULL);
    EXPECT_INT(tess_phase_switch(&clock, TESS_PHASE_GATHER), TESS_PHASE_OTHER);
    nanosleep(&nap, NULL);
    EXPECT_INT(tess_phase_switch(&clock, TESS_PHASE_FORWARD), TESS_PHASE_GATHER);
    EXPECT_INT(tess_phase_switch(&clock, TESS_PHASE_OTHER), TESS_PHASE_FORWARD);
    EXPECT(before <= begin && clock.since_ns <= tess_os_now_ns());
    for (int phase = 0; phase < TESS_PHASE_COUNT; phase++)
        sum += clock.ns[phase];
    EXPECT_INT(sum, clock.since_ns - begin); /* exact to the nanosecond */
    EXPECT(seconds_of(&clock, TESS_PHASE_OTHER) >= 0.02 && seconds_of(&clock, TESS_PHASE_GATHER) >= 0.02);
    EXPECT_INT(clock.ns[TESS_PHASE_REDUCE], 0);
}

static void credited_time_moves_from_one_phase_to_another(void)
{
    tess_phase_clock clock;
    tess_phase_start(&clock);
    tess_phase_switch(&clock, TESS_PHASE_REDUCE);
    struct timespec nap = {.tv_nsec = 10000000};
    nanosleep(&nap, NULL);
    tess_phase_credit(&clock, TESS_PHASE_WAIT, 3000000);
    EXPECT_INT(clock.ns[TESS_PHASE_WAIT], 3000000);
    EXPECT(clock.ns[TESS_PHASE_REDUCE] >= 7000000);
    EXPECT_INT(clock.phase, TESS_PHASE_REDUCE);
    tess_phase_credit(&clock, TESS_PHASE_WAIT, UINT64_C(1) << 60); /* never more than there was */
    EXPECT_INT(clock.ns[TESS_PHASE_REDUCE], 0);
}

static int n_signals; /* signals that still come */

static bool is_interrupted(void)
{
    errno = EINTR;
    return n_signals > 0 && n_signals-- > 0;
}

/* Replaces the C library's calls. On file systems in memory and on networks a signal interrupts them, even with
 * SA_RESTART. */
int fallocate(int fd, int mode, off_t offset, off_t size)
{
    return is_interrupted() ? -1 : (int)syscall(SYS_fallocate, fd, mode, offset, size);
}

int fsync(int fd)
{
    return is_interrupted() ? -1 : (int)syscall(SYS_fsync, fd);
}

static void a_signal_ends_no_reservation(void)
{
    int fd;
    size_t size = 0;
    EXPECT_OK(tess_os_memfd("reserved", 0, &fd));
    n_signals = 3;
    EXPECT_OK(tess_os_reserve(fd, 1 << 20, "a memory file"));
    EXPECT_INT(n_signals, 0);
    EXPECT_OK(tess_os_fd_size(fd, &size));
    EXPECT_INT(size, 1 << 20);
    n_signals = 3;
    EXPECT_OK(tess_os_sync_close(&fd, "a memory file"));
    EXPECT_INT(n_signals, 0);
    n_signals = 1;
    EXPECT_OK(tess_os_fsync_dir(test_folder()));
    EXPECT_INT(n_signals, 0);
}

static void what_a_program_prints_is_kept(void)
{
    char out[8];
    char *const prints[] = {"sh", "-c", "echo 123456789; echo aside >&2", NULL},
                *const hangs[] = {"sleep", "3600", NULL}, *const fails[] = {"sh", "-c", "exit 3", NULL},
                *const missing[] = {"no-such-program", NULL};
    EXPECT_OK(tess_os_capture(prints, 600, out, sizeof(out)));
    EXPECT_TEXT(out, "1234567");
    EXPECT_FAILS(tess_os_capture(hangs, 0.2, out, sizeof(out)), TESS_E_TIMEOUT, "sleep took longer than 0.2 s");
    EXPECT_FAILS(tess_os_capture(fails, 600, out, sizeof(out)), TESS_E_IO, "ended with code 3");
    EXPECT_FAILS(tess_os_capture(missing, 600, out, sizeof(out)), TESS_E_NOT_FOUND, "no such program");
}

static void loop(void *context, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        ((int *)context)[i]++;
}

static void loops_cover_the_range_once(void)
{
    for (int n_threads = 1; n_threads <= 5; n_threads += 2) {
        tess_threads *threads;
        int counts[1000] = {0};
        EXPECT_OK(tess_threads_create(test_mem(), n_threads, &threads));
        for (int round = 1; round <= 200; round++) {
            tess_threads_run(threads, loop, counts, 1000 - round % 3, 1 + round % 50);
            tess_threads_run(threads, loop, counts + 1000 - round % 3, round % 3, 1);
        }
        for (int i = 0; i < 1000; i++)
            EXPECT_INT(counts[i], 200);
        tess_threads_destroy(&threads);
    }
    tess_threads *none;
    EXPECT_FAILS(tess_threads_create(test_mem(), 0, &none), TESS_E_INVALID, "0 threads");
}

static void shards_cover_every_row_once(void)
{
    for (int64_t rows = 0; rows < 40; rows++)
        for (int parts = 1; parts < 10; parts++) {
            int64_t next = 0;
            for (int i = 0; i < parts; i++) {
                int64_t begin, count;
                tess_shard_rows(rows, parts, i, &begin, &count);
                EXPECT_INT(begin, next);
                next += count;
            }
            EXPECT_INT(next, rows);
        }
    int64_t begin, count;
    tess_shard_rows(5, 4, 2, &begin, &count); /* torch.chunk(5, 4): 2 2 1 */
    EXPECT(begin == 4 && count == 1);
}

static void runs_of_a_box_lie_together_in_the_whole(void)
{
    const int64_t dim[] = {3, 4, 5};
    const tess_box boxes[] = {
        {{0, 0, 0}, {3, 4, 5}}, {{1, 0, 0}, {2, 4, 5}}, {{1, 1, 0}, {2, 2, 5}}, {{0, 2, 1}, {3, 2, 3}}};
    const int64_t lengths[] = {60, 40, 10, 3};
    for (int b = 0; b < 4; b++)
        for (int64_t most = 1; most <= 60; most += 7) {
            const int64_t *begin = boxes[b].begin, *size = boxes[b].size, n = size[0] * size[1] * size[2];
            for (int64_t i = 0, run, at; i < n; i += run) {
                run = tess_flat_run_at(3, dim, &boxes[b], i, most, &at);
                const int64_t left = lengths[b] - i % lengths[b];
                EXPECT_INT(run, left < most ? left : most);
                for (int64_t k = i; k < i + run; k++)
                    EXPECT_INT(at + k - i,
                               ((k / (size[1] * size[2]) + begin[0]) * 4 + k / size[2] % size[1] + begin[1]) * 5 +
                                   k % size[2] + begin[2]);
            }
        }
}

static const test_case cases[] = {
    CASE(runs_of_a_box_lie_together_in_the_whole),
    CASE(messages_chain),
    CASE(the_version_is_a_number_and_a_text),
    CASE(fields_of_a_later_version_are_refused_unless_they_are_zero),
    CASE(pools_count_exactly),
    CASE(a_large_block_takes_no_huge_page_for_its_header),
    CASE(philox_gives_the_published_words),
    CASE(normal_fill_does_not_depend_on_the_cut),
    CASE(normals_are_box_muller_of_philox),
    CASE(permute_is_a_permutation),
    CASE(exact_sums_ignore_the_order),
    CASE(exact_sums_agree_with_long_sums),
    CASE(phases_add_up_to_the_time_that_passed),
    CASE(credited_time_moves_from_one_phase_to_another),
    CASE(a_signal_ends_no_reservation),
    CASE(what_a_program_prints_is_kept),
    CASE(loops_cover_the_range_once),
    CASE(shards_cover_every_row_once),
};
TEST_MAIN(cases)
