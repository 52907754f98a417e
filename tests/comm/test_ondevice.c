/* Collectives on memory of a device: the bits of the same calls on memory of the host, by windows and through the host,
 * at sizes that do not divide. Device far delays its commands at random, and a read by the host faults. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "comm/bad_addend.h"
#include "comm/comm_impl.h"
#include "comm/device_windows.h"
#include "comm/hosts/linked.h"
#include "control/launch/launcher.h"
#include "support/test.h"

enum { N_PIECES = 5, GAP = 3, MOST = 8 };

typedef struct rank {
    tess_runtime *rt;
    tess_team *team;
    tess_device *device;
    tess_stream *stream; /* the caller's stream: its work comes before the operations */
    int W, me;
    bool through_host; /* the case wants windows refused; else each is shown to the peers */
} rank;

static rank join(void)
{
    rank r = {.rt = NULL};
    const char *name = getenv("TESS_TEST_DEVICE");
    EXPECT_OK(tess_runtime_create(NULL, &r.rt));
    r.team = tess_runtime_team(r.rt);
    r.W = tess_team_size(r.team);
    r.me = tess_team_rank(r.team);
    EXPECT_INT(setenv("TESSERA_FAR_DELAYS", "7:300", 0), 0);
    EXPECT_INT(setenv("CUDA_FAKE", "devices=8,ipc=1", 0), 0); /* NCCL wants a GPU for each rank */
    EXPECT_OK(tess_device_open(test_mem(), name != NULL ? name : "far", r.me, &r.device));
    EXPECT_OK(tess_device_stream(r.device, 1, NULL, &r.stream));
    EXPECT_OK(tess_runtime_use_device(r.rt, r.device, r.stream));
    return r;
}

/* Makes rounds between hosts short, so that a few thousand elements are many of them. */
static void shorten_rounds(const rank *r)
{
    enum { BYTES = 1 << 14 };
    if (tess_hosts_is_linked(r->team))
        ((comm_hosts *)r->team->state)->linked->bytes = BYTES;
}

static void leave(rank *r)
{
    tess_runtime_forget_device(r->rt);
    tess_stream_destroy(&r->stream);
    EXPECT_INT(tess_device_close(&r->device), 0);
    tess_runtime_destroy(&r->rt);
}

/* ---- Memory of the device, next to memory of the host with the same values ---- */
typedef struct buffer {
    uint8_t *host, *device;
    size_t bytes;
    bool window;
} buffer;

static buffer take(const rank *r, size_t bytes, bool window)
{
    buffer b = {.host = calloc(bytes + 1, 1), .bytes = bytes, .window = window};
    size_t least =
        getenv("TESS_TEST_DEVICE") != NULL ? 2 << 20 : 0; /* a GPU shows no less (device/cuda/cuda_peers.c) */
    EXPECT(b.host != NULL);
    EXPECT_OK(window ? tess_device_window_alloc(r->team, TESS_POOL_COMM, bytes > least ? bytes : least, "test",
                                                (void **)&b.device)
                     : tess_device_alloc(r->device, TESS_POOL_COMM, bytes, "test", (void **)&b.device));
    return b;
}

static buffer take_floats(const rank *r, size_t n, int seed, bool window)
{
    buffer b = take(r, n * sizeof(float), window);
    for (size_t i = 0; i < n; i++)
        ((float *)(void *)b.host)[i] = (float)((i * 7919 + (size_t)(seed + r->me) * 104729) % 20011) * 0x1.234p-7f - 90;
    EXPECT_OK(tess_upload(r->stream, b.device, b.host, b.bytes)); /* the operation comes after it, without a wait */
    return b;
}

static void expect_same(const rank *r, const char *what, const buffer *b)
{
    uint8_t *got = malloc(b->bytes + 1);
    EXPECT(got != NULL);
    EXPECT_OK(tess_fetch(r->stream, got, b->device, b->bytes));
    test_expect_same(__FILE__, __LINE__, what, got, b->host, b->bytes, 1);
    free(got);
}

static void give(const rank *r, buffer *b)
{
    EXPECT(!b->window || r->through_host || ondevice_find(r->team, b->device) != NULL);
    if (b->window)
        tess_device_window_free(r->team, b->device);
    else
        tess_device_free(r->device, b->device);
    free(b->host);
}

/* Pieces with gaps between them, in shards that begin elsewhere on each rank. */
typedef struct layout {
    tess_piece pieces[N_PIECES];
    size_t full, shard; /* elements */
} layout;

static layout make_layout(const rank *r, size_t scale)
{
    static const size_t rows[N_PIECES] = {16, 7, 1, 0, 13}, row[N_PIECES] = {5, 3, 11, 4, 1};
    layout l = {.full = 2, .shard = (size_t)r->me};
    for (int i = 0; i < N_PIECES; i++) {
        int64_t begin, count;
        size_t width = row[i] * (i == 0 ? scale : 1);
        tess_shard_rows((int64_t)rows[i], r->W, r->me, &begin, &count);
        l.pieces[i] = (tess_piece){.offset = l.full, .n_rows = rows[i], .row = width, .shard_offset = l.shard};
        l.full += rows[i] * width + GAP;
        l.shard += (size_t)count * width + GAP;
    }
    return l;
}

/* ---- Gathers ---- */
static void check_gather_pieces(const rank *r, bool window, tess_dtype dtype, size_t scale)
{
    layout l = make_layout(r, scale);
    buffer shard = take_floats(r, l.shard, 1, window), full = take(r, l.full * tess_dtype_size(dtype), false);
    tess_work *work;
    shorten_rounds(r);
    EXPECT_OK(tess_all_gather_pieces(r->team, shard.host, TESS_F32, full.host, dtype, l.pieces, N_PIECES, NULL));
    EXPECT_OK(tess_all_gather_pieces(r->team, shard.device, TESS_F32, full.device, dtype, l.pieces, N_PIECES, &work));
    EXPECT_OK(tess_work_wait(&work, 0));
    expect_same(r, "gathered pieces", &full);
    give(r, &shard);
    give(r, &full);
}

static void gathered_pieces_have_the_bits_of_the_host(void)
{
    rank r = join();
    for (int window = 0; window < 2; window++) {
        check_gather_pieces(&r, window, TESS_BF16, 1);
        check_gather_pieces(&r, window, TESS_F16, 3);
        check_gather_pieces(&r, window, TESS_F32, 400);
    }
    leave(&r);
}

/* Its shard is a window, though of no bytes, so all go by windows. */
static void a_rank_that_owns_nothing_shows_its_shard(void)
{
    enum { N = 700 };
    rank r = join();
    const tess_piece row = {.n_rows = 1, .row = N};
    buffer shard = take_floats(&r, r.me == 0 ? N : 0, 1, true), full = take(&r, N * 4, false);
    EXPECT(ondevice_find(r.team, shard.device) != NULL);
    EXPECT_OK(tess_all_gather_pieces(r.team, shard.host, TESS_F32, full.host, TESS_F32, &row, 1, NULL));
    EXPECT_OK(tess_all_gather_pieces(r.team, shard.device, TESS_F32, full.device, TESS_F32, &row, 1, NULL));
    expect_same(&r, "a row of rank 0", &full);
    give(&r, &shard);
    give(&r, &full);
    leave(&r);
}

static void blocks_are_gathered_and_exchanged(void)
{
    enum { N = 1001 };
    rank r = join();
    for (int window = 0; window < 2; window++) {
        buffer in = take_floats(&r, (size_t)r.W * N, 2, window), out = take(&r, (size_t)r.W * N * 4, false);
        EXPECT_OK(tess_all_gather(r.team, in.host + 4, out.host, N - 1, TESS_F32, NULL));
        EXPECT_OK(tess_all_gather(r.team, in.device + 4, out.device, N - 1, TESS_F32, NULL));
        expect_same(&r, "gathered blocks", &out);
        EXPECT_OK(tess_all_gather(r.team, in.host + 8, out.host, N / 2 - 1, TESS_I64, NULL));
        EXPECT_OK(tess_all_gather(r.team, in.device + 8, out.device, N / 2 - 1, TESS_I64, NULL));
        expect_same(&r, "gathered blocks of integers", &out);
        EXPECT_OK(tess_all_to_all(r.team, in.host, out.host, N, TESS_F32, NULL));
        EXPECT_OK(tess_all_to_all(r.team, in.device, out.device, N, TESS_F32, NULL));
        expect_same(&r, "exchanged blocks", &out);
        EXPECT_OK(tess_broadcast(r.team, in.host, N, TESS_F32, r.W - 1, NULL));
        EXPECT_OK(tess_broadcast(r.team, in.device, N, TESS_F32, r.W - 1, NULL));
        expect_same(&r, "a broadcast", &in);
        give(&r, &in);
        give(&r, &out);
    }
    leave(&r);
}

/* ---- Sums ---- */
static void check_reduce_pieces(const rank *r, bool window, bool accumulate, size_t scale)
{
    layout l = make_layout(r, scale);
    buffer full = take_floats(r, l.full, 3, window), shard = take_floats(r, l.shard, 4, false);
    tess_work *work;
    shorten_rounds(r);
    EXPECT_OK(tess_reduce_scatter_pieces(r->team, full.host, TESS_F32, (float *)(void *)shard.host, l.pieces, N_PIECES,
                                         accumulate, NULL));
    EXPECT_OK(tess_reduce_scatter_pieces(r->team, full.device, TESS_F32, (float *)(void *)shard.device, l.pieces,
                                         N_PIECES, accumulate, &work));
    EXPECT_OK(tess_work_wait(&work, 0));
    EXPECT_OK(tess_stream_fill(r->stream, full.device, 0xff, full.bytes)); /* nobody may still read it */
    EXPECT_OK(tess_barrier(r->team, NULL));
    expect_same(r, "sums of pieces", &shard);
    give(r, &full);
    give(r, &shard);
}

static void summed_pieces_have_the_bits_of_the_host(void)
{
    rank r = join();
    for (int window = 0; window < 2; window++)
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            check_reduce_pieces(&r, window, accumulate, 1);
            check_reduce_pieces(&r, window, accumulate, 400);
        }
    leave(&r);
}

/* The counter of seven portions of W leaves, in bfloat16: the steps of each are one operation. */
static void leaf_steps_have_the_bits_of_the_host(void)
{
    enum { SUMS = 8, PORTIONS = 7 };
    rank r = join();
    layout l = make_layout(&r, 40);
    for (int window = 0; window < 2; window++) {
        buffer full = take_floats(&r, l.full, 5, window), sums[SUMS];
        uint16_t *halves = (uint16_t *)(void *)full.host; /* the higher one of a float32 is a bfloat16 */
        for (size_t i = 0; i < l.full; i++)
            halves[2 * i] = halves[2 * i + 1];
        EXPECT_OK(tess_upload(r.stream, full.device, full.host, full.bytes));
        float *on_host[SUMS], *on_device[SUMS];
        tess_leaf_counter counters[2] = {{.memory = on_host, .n_memory = SUMS},
                                         {.memory = on_device, .n_memory = SUMS}};
        shorten_rounds(&r);
        for (int i = 0; i < SUMS; i++) {
            sums[i] = take(&r, l.shard * 4, false);
            on_host[i] = (float *)(void *)sums[i].host;
            on_device[i] = (float *)(void *)sums[i].device;
        }
        for (int p = 0; p < PORTIONS; p++) {
            tess_leaf_step steps[2][TESS_LEAF_STEPS];
            for (int i = 0; i < 2; i++) {
                int n = 0;
                tess_leaf_push(&counters[i], r.W, steps[i], &n);
                EXPECT_OK(tess_reduce_scatter_leaves(r.team, i == 0 ? full.host : full.device, TESS_BF16, steps[i], n,
                                                     l.pieces, N_PIECES, NULL));
            }
        }
        for (int i = 0; i < SUMS; i++) {
            expect_same(&r, "a level of the counter", &sums[i]);
            give(&r, &sums[i]);
        }
        give(&r, &full);
    }
    leave(&r);
}

static void sums_over_ranks_have_the_bits_of_the_host(void)
{
    rank r = join();
    for (size_t n = 1; n <= 12001; n += 12000)
        for (int window = 0; window < 2; window++) {
            buffer x = take_floats(&r, n, 6, window);
            shorten_rounds(&r);
            EXPECT_OK(tess_all_reduce(r.team, x.host, x.host, n, TESS_F32, TESS_AVG, NULL));
            EXPECT_OK(tess_all_reduce(r.team, x.device, x.device, n, TESS_F32, TESS_AVG, NULL));
            expect_same(&r, "averages", &x);
            EXPECT_OK(tess_all_reduce(r.team, x.host, x.host, n, TESS_F32, TESS_MAX, NULL));
            EXPECT_OK(tess_all_reduce(r.team, x.device, x.device, n, TESS_F32, TESS_MAX, NULL));
            expect_same(&r, "maxima", &x);
            give(&r, &x);
        }
    leave(&r);
}

/* ---- Many in flight, two teams, a block that both read ---- */
static void operations_in_flight_keep_their_order(void)
{
    enum { ROUNDS = 6, N = 100 };
    rank r = join();
    layout l = make_layout(&r, 60);
    tess_team *again;
    EXPECT_OK(tess_team_split(r.team, 0, r.W - r.me, "again", &again));
    buffer shard = take_floats(&r, l.shard, 8, true), full = take(&r, l.full * 4, false);
    buffer window = take_floats(&r, l.full, 9, true), sum = take(&r, l.shard * 4, false);
    buffer blocks = take(&r, (size_t)r.W * N * 4, false);
    EXPECT_OK(tess_device_window_show(again, window.device, window.bytes, "test"));
    EXPECT_OK(tess_device_window_show(again, shard.device, shard.bytes, "test"));
    EXPECT_OK(tess_all_gather(again, shard.host, blocks.host, N, TESS_F32, NULL));
    for (int i = 0; i < ROUNDS; i++) {
        tess_work *works[4] = {0};
        EXPECT_OK(tess_all_gather_pieces(r.team, shard.device, TESS_F32, full.device, TESS_F32, l.pieces, N_PIECES,
                                         &works[0]));
        EXPECT_OK(tess_all_gather(again, shard.device, blocks.device, N, TESS_F32, &works[1]));
        EXPECT_OK(tess_reduce_scatter_pieces(r.team, window.device, TESS_F32, (float *)(void *)sum.device, l.pieces,
                                             N_PIECES, true, &works[2]));
        float between = 1; /* memory of the host */
        EXPECT_OK(tess_all_reduce(r.team, &between, &between, 1, TESS_F32, TESS_SUM, NULL));
        EXPECT_INT(between, r.W);
        for (int k = 0; k < 3; k++) /* not all wait for one team first */
            EXPECT_OK(tess_work_wait(&works[(k + r.me) % 3], 0));
        EXPECT_OK(tess_all_reduce(again, window.device, window.device, l.full, TESS_F32, TESS_AVG, &works[3]));
        EXPECT_OK(tess_work_wait(&works[3], 0));

        EXPECT_OK(tess_reduce_scatter_pieces(r.team, window.host, TESS_F32, (float *)(void *)sum.host, l.pieces,
                                             N_PIECES, true, NULL));
        EXPECT_OK(tess_all_reduce(again, window.host, window.host, l.full, TESS_F32, TESS_AVG, NULL));
    }
    expect_same(&r, "sums", &sum);
    expect_same(&r, "averages", &window);
    expect_same(&r, "blocks", &blocks);
    tess_device_window_hide(again, window.device);
    tess_device_window_hide(again, shard.device);
    tess_team_destroy(&again);
    give(&r, &shard);
    give(&r, &full);
    give(&r, &window);
    give(&r, &sum);
    give(&r, &blocks);
    leave(&r);
}

/* ---- Faults ---- */
static void a_gradient_that_is_not_finite_is_found(void)
{
    rank r = join();
    layout l = make_layout(&r, 4);
    for (int window = 0; window < 2; window++) {
        buffer full = take_floats(&r, l.full, 3, window), shard = take(&r, l.shard * 4, false);
        ((float *)(void *)full.host)[l.pieces[0].offset + 9 * l.pieces[0].row + 2] = r.me == r.W - 1 ? NAN : 1;
        EXPECT_OK(tess_upload(r.stream, full.device, full.host, full.bytes));
        EXPECT_OK(tess_reduce_scatter_pieces(r.team, full.device, TESS_F32, (float *)(void *)shard.device, l.pieces,
                                             N_PIECES, false, NULL));
        int64_t begin, count;
        tess_shard_rows(16, r.W, r.me, &begin, &count);
        const tess_bad_addend *bad = tess_team_bad_addend(r.team);
        EXPECT_INT(bad->pieces != NULL, begin <= 9 && 9 < begin + count);
        if (bad->pieces != NULL) {
            EXPECT_INT(bad->rank, r.W - 1);
            EXPECT_INT(bad->piece, 0);
            EXPECT_INT(bad->row, 9);
            EXPECT_INT(bad->column, 2);
            EXPECT_INT(bad->n_bad, 1);
        }
        tess_team_forget_bad_addend(r.team);
        give(&r, &full);
        give(&r, &shard);
    }
    leave(&r);
}

static void buffers_of_two_kinds_are_refused(void)
{
    rank r = join();
    buffer x = take(&r, 64, false);
    char text[128];
    snprintf(text, sizeof(text), "`out` is memory of %s, another buffer is not",
             tess_device_get_properties(r.device)->name);
    EXPECT_FAILS(tess_all_reduce(r.team, x.host, x.device, 4, TESS_F32, TESS_SUM, NULL), TESS_E_INVALID, text);
    EXPECT_FAILS(tess_send(r.team, x.device, 4, TESS_F32, 0, 0, NULL), TESS_E_UNSUPPORTED, "fetch it first");
    give(&r, &x);
    leave(&r);
}

static void ranks_that_differ_are_named(void)
{
    rank r = join();
    buffer x = take(&r, 64, true);
    bool by_nccl = tess_device_get_properties(r.device)->name[0] == 'c';
    EXPECT_FAILS(tess_all_reduce(r.team, r.me == 1 ? x.host : x.device, r.me == 1 ? x.host : x.device, 4, TESS_F32,
                                 TESS_SUM, NULL),
                 TESS_E_MISMATCH, by_nccl || tess_team_is_local(r.team) ? "sum, device windows" : "sum, device memory");
    EXPECT_CONTAINS(tess_error_message(), "the odd one out: rank 1");
    give(&r, &x);
    leave(&r);
}

static void devices_of_two_kinds_are_refused(void)
{
    tess_runtime *rt;
    tess_device *device;
    tess_stream *stream;
    EXPECT_OK(tess_runtime_create(NULL, &rt));
    EXPECT_OK(tess_device_open(test_mem(), tess_runtime_rank(rt) == 1 ? "cpu" : "far", 0, &device));
    EXPECT_OK(tess_device_stream(device, 1, NULL, &stream));
    EXPECT_FAILS(tess_runtime_use_device(rt, device, stream), TESS_E_MISMATCH,
                 "rank 0 has device 'far' and rank 1 'cpu'");
    tess_stream_destroy(&stream);
    EXPECT_INT(tess_device_close(&device), 0);
    tess_runtime_destroy(&rt);
}

/* Rank 1 comes when the others have given up. */
static void a_rank_that_does_not_come_is_named(void)
{
    rank r = join();
    buffer x = take(&r, 64, true);
    if (r.me != 1) {
        tess_work *work;
        EXPECT_OK(tess_all_reduce(r.team, x.device, x.device, 4, TESS_F32, TESS_SUM, &work));
        EXPECT_FAILS(tess_work_wait(&work, 0.3), TESS_E_TIMEOUT, "1 of 3 ranks did not come within 0.3 s; rank 1");
    } else {
        while (atomic_load(&r.rt->job.rows[0].broken_team) == 0 || atomic_load(&r.rt->job.rows[2].broken_team) == 0)
            usleep(1000);
        EXPECT_FAILS(tess_all_reduce(r.team, x.device, x.device, 4, TESS_F32, TESS_SUM, NULL), TESS_E_PEER_LOST, "");
    }
    give(&r, &x);
    leave(&r);
}

/* The same bits, and a warning that says why. */
static void check_way_through_the_host(const char *why)
{
    static tess_notice notices[TESS_NOTICES];
    rank r = join();
    buffer x = take_floats(&r, 1000, 6, true);
    bool opens = tess_device_get_properties(r.device)->name[0] != 'c';
    r.through_host = !opens;
    EXPECT_OK(tess_all_reduce(r.team, x.host, x.host, 1000, TESS_F32, TESS_SUM, NULL));
    EXPECT_OK(tess_all_reduce(r.team, x.device, x.device, 1000, TESS_F32, TESS_SUM, NULL));
    expect_same(&r, "sums", &x);
    EXPECT_INT(tess_notices_read(&r.rt->job.header->notices, notices), !opens);
    if (!opens) {
        EXPECT_CONTAINS(notices[0].text, "go through memory of the host, because");
        EXPECT_CONTAINS(notices[0].text, why);
    }
    give(&r, &x);
    leave(&r);
}

static void memory_that_peers_cannot_open_goes_through_the_host(void)
{
    EXPECT_INT(setenv("CUDA_FAKE", "devices=8", 1), 0);
    check_way_through_the_host("show memory to other processes (CUDA IPC)");
}

/* GPUs that do not reach each other, as one rank alone finds. */
static void memory_that_one_rank_cannot_open_goes_through_the_host(void)
{
    if (strcmp(getenv("TESSERA_RANK"), "1") == 0)
        EXPECT_INT(setenv("CUDA_FAKE", "devices=8,ipc=1,fail=cuIpcOpenMemHandle_v2:1:217", 1), 0);
    check_way_through_the_host("open memory of another process (CUDA IPC)");
}

/* NCCL fails on rank 1 after all have met: the team breaks on both, and the next operation says why. */
static void an_error_of_nccl_is_the_teams(void)
{
    rank r = join();
    buffer x = take(&r, 64, true);
    if (tess_hosts_is_linked(r.team)) {
        EXPECT_OK(tess_all_reduce(r.team, x.device, x.device, 4, TESS_F32, TESS_SUM, NULL));
        if (r.me == 1)
            EXPECT_INT(setenv("NCCL_FAKE", "fail=ncclGroupEnd:1:6", 1), 0);
        tess_status status = tess_all_reduce(r.team, x.device, x.device, 4, TESS_F32, TESS_SUM, NULL);
        EXPECT(status == TESS_E_PEER_LOST || (status == TESS_E_CANCELLED && r.me == 0));
        EXPECT_CONTAINS(tess_error_message(), "another rank has ended, or its connection broke");
        EXPECT_FAILS(tess_barrier(r.team, NULL), status, "another rank has ended, or its connection broke");
    }
    give(&r, &x);
    leave(&r);
}

/* The last rank dies when it has shown its window: its siblings are told, and go on with their own devices. */
static int survivor_or_victim(void *context)
{
    (void)context;
    rank r = join();
    buffer x = take(&r, 400000, true);
    if (r.me == r.W - 1) {
        tess_work *work;
        EXPECT_OK(tess_all_reduce(r.team, x.device, x.device, 100000, TESS_F32, TESS_SUM, &work));
        raise(SIGKILL);
    }
    while (atomic_load(&r.rt->job.rows[r.W - 1].ended) == 0)
        usleep(1000);
    EXPECT_FAILS(tess_all_reduce(r.team, x.device, x.device, 100000, TESS_F32, TESS_SUM, NULL), TESS_E_PEER_LOST,
                 "rank 2 was killed by signal 9 (SIGKILL) in all_reduce #");
    EXPECT_OK(tess_stream_fill(r.stream, x.device, 1, x.bytes));
    give(&r, &x);
    leave(&r);
    return 7;
}

static void a_rank_that_dies_is_named(void)
{
    tess_launch_result result;
    EXPECT_OK(tess_launch_function(3, survivor_or_victim, NULL, 1e6, 1e6, &result));
    EXPECT_INT(result.failed_rank, 2);
    EXPECT_CONTAINS(result.report, "(SIGKILL) in all_reduce");
}

static const test_case cases[] = {
    CASE(gathered_pieces_have_the_bits_of_the_host, 1),
    CASE(gathered_pieces_have_the_bits_of_the_host, 3),
    CASE(gathered_pieces_have_the_bits_of_the_host, 4),
    CASE(a_rank_that_owns_nothing_shows_its_shard, 3),
    CASE(blocks_are_gathered_and_exchanged, 3),
    CASE(summed_pieces_have_the_bits_of_the_host, 1),
    CASE(summed_pieces_have_the_bits_of_the_host, 2),
    CASE(summed_pieces_have_the_bits_of_the_host, 3),
    {"summed_pieces_of_eight_ranks_are_the_hosts", summed_pieces_have_the_bits_of_the_host, 8, 0},
    CASE(leaf_steps_have_the_bits_of_the_host, 3),
    CASE(leaf_steps_have_the_bits_of_the_host, 4),
    CASE(sums_over_ranks_have_the_bits_of_the_host, 1),
    CASE(sums_over_ranks_have_the_bits_of_the_host, 3),
    {"sums_over_eight_ranks_are_the_hosts", sums_over_ranks_have_the_bits_of_the_host, 8, 0},
    CASE(operations_in_flight_keep_their_order, 4),
    CASE(a_gradient_that_is_not_finite_is_found, 3, 0, TEST_NEVER),
    CASE(buffers_of_two_kinds_are_refused, 1),
    CASE(ranks_that_differ_are_named, 3, 0, TEST_ALONE),
    CASE(devices_of_two_kinds_are_refused, 2, 0, TEST_ALONE),
    CASE(memory_that_peers_cannot_open_goes_through_the_host, 2, 0, TEST_NEVER),
    CASE(memory_that_one_rank_cannot_open_goes_through_the_host, 2, 0, TEST_NEVER),
    CASE(an_error_of_nccl_is_the_teams, 2, 0, TEST_ALONE),
    CASE(a_rank_that_does_not_come_is_named, 3, 0, TEST_NEVER),
    CASE(a_rank_that_dies_is_named),
};
TEST_MAIN(cases)
