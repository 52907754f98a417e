/* Collectives on memory of a device: the bits of the same calls on memory of the host, by windows and through the host,
 * at sizes that do not divide. Device far delays its commands at random, and a read by the host faults. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/os/os.h"
#include "comm/bad_addend.h"
#include "comm/box_move.h"
#include "comm/comm_impl.h"
#include "comm/device_windows.h"
#include "comm/hosts/linked.h"
#include "control/launch/launcher.h"
#include "support/crossed.h"
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

/* Whether the driver that plays one counts what passes between the GPU and the host. */
static bool counts_crossings(void)
{
    return getenv("TESS_TEST_DEVICE") != NULL;
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

static float value_of(const rank *r, size_t i, int seed)
{
    return (float)((i * 7919 + (size_t)(seed + r->me) * 104729) % 20011) * 0x1.234p-7f - 90;
}

static buffer take_floats(const rank *r, size_t n, int seed, bool window)
{
    buffer b = take(r, n * sizeof(float), window);
    for (size_t i = 0; i < n; i++)
        ((float *)(void *)b.host)[i] = value_of(r, i, seed);
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

/* ---- Messages ---- */
/* The ends of a message that are memory of the device. */
typedef struct ends {
    bool sent, received, window;
} ends;

/* Every rank sends to the next one: n floats, and as many others with a second tag, which is received first. */
static void check_messages(const rank *r, ends where, size_t n)
{
    buffer in = take_floats(r, 2 * n, 7, where.window), out = take(r, 2 * n * sizeof(float), false);
    const int to = (r->me + 1) % r->W, from = (r->me + r->W - 1) % r->W;
    uint8_t *sent = where.sent ? in.device : in.host, *received = where.received ? out.device : out.host;
    tess_work *sends[2], *receives[2];
    for (int i = 0; i < 2; i++)
        EXPECT_OK(tess_send(r->team, sent + (size_t)i * n * 4, n, TESS_F32, to, (uint32_t)i, &sends[i]));
    for (int i = 1; i >= 0; i--)
        EXPECT_OK(tess_recv(r->team, received + (size_t)i * n * 4, n, TESS_F32, from, (uint32_t)i, &receives[i]));
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(tess_work_wait(&receives[i], 0));
        EXPECT_OK(tess_work_wait(&sends[i], 0));
    }
    if (where.sent)
        EXPECT_OK(tess_stream_fill(r->stream, in.device, 0xff, in.bytes)); /* nobody may still read it */
    const rank sender = {.W = r->W, .me = from};
    for (size_t i = 0; i < 2 * n; i++)
        ((float *)(void *)in.host)[i] = value_of(&sender, i, 7);
    if (where.received)
        memcpy(out.host, in.host, in.bytes);
    if (where.received)
        expect_same(r, "a received message", &out);
    else
        test_expect_same(__FILE__, __LINE__, "a received message", out.host, in.host, in.bytes, 1);
    give(r, &in);
    give(r, &out);
}

static void messages_have_the_bits_of_the_host(void)
{
    static const size_t sizes[] = {0, 1, 511, 513, 100003};
    rank r = join();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        check_messages(&r, (ends){true, true, true}, sizes[i]);
        check_messages(&r, (ends){true, true, false}, sizes[i]);
        check_messages(&r, (ends){true, false, true}, sizes[i]);
        check_messages(&r, (ends){true, false, false}, sizes[i]);
        check_messages(&r, (ends){false, true, false}, sizes[i]);
    }
    leave(&r);
}

/* A message reads what the stream computes before it, and is received after what the stream reads before it. */
static void messages_keep_the_order_of_the_stream(void)
{
    enum { N = 5003, ROUNDS = 40 };
    rank r = join();
    buffer x = take(&r, N, true), y = take(&r, N, false), seen = take(&r, N * ROUNDS, false);
    for (int i = 0; i < ROUNDS; i++) {
        tess_work *work;
        EXPECT_OK(tess_stream_fill(r.stream, x.device, 16 * r.me + i % 16, N));
        EXPECT_OK(tess_send(r.team, x.device, N, TESS_U8, (r.me + 1) % r.W, 3, &work));
        EXPECT_OK(tess_recv(r.team, y.device, N, TESS_U8, (r.me + r.W - 1) % r.W, 3, NULL));
        EXPECT_OK(tess_stream_copy(r.stream, seen.device + (size_t)i * N, y.device, N));
        memset(seen.host + (size_t)i * N, 16 * ((r.me + r.W - 1) % r.W) + i % 16, N);
        EXPECT_OK(tess_work_wait(&work, 0));
    }
    expect_same(&r, "messages", &seen);
    give(&r, &x);
    give(&r, &y);
    give(&r, &seen);
    leave(&r);
}

static void messages_that_differ_are_named(void)
{
    rank r = join();
    buffer x = take(&r, 100000, true);
    EXPECT_FAILS(r.me == 0 ? tess_send(r.team, x.device, 9000, TESS_F32, 1, 0, NULL)
                           : tess_recv(r.team, x.device, 9001, TESS_F32, 0, 0, NULL),
                 TESS_E_MISMATCH, "two ranks disagree: rank 0 called send");
    give(&r, &x);
    leave(&r);
}

/* ---- Boxes ---- */
/* Ranks have some rows of a matrix and get some columns. */
static void check_boxes(const rank *r, tess_box_room *room, size_t *received)
{
    enum { ROWS = 37, COLUMNS = 29, PITCH = 31 };
    tess_box had[MOST] = {{.begin = {0}}}, gets[MOST] = {{.begin = {0}}};
    buffer in = take(r, ROWS * PITCH * 4, false), out = take(r, ROWS * PITCH * 4, false);
    for (int i = 0; i < r->W; i++) {
        tess_shard_rows(ROWS, r->W, i, &had[i].begin[0], &had[i].size[0]);
        tess_shard_rows(COLUMNS, r->W, i, &gets[i].begin[1], &gets[i].size[1]);
        had[i].size[1] = COLUMNS;
        gets[i].size[0] = ROWS;
    }
    memset(in.host, 0xab, in.bytes);
    memset(out.host, 0xcd, out.bytes);
    EXPECT_OK(tess_upload(r->stream, out.device, out.host, out.bytes));
    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t k = 0; k < COLUMNS; k++) {
            const tess_box *mine = &had[r->me], *wanted = &gets[r->me];
            int64_t row = i - mine->begin[0], column = k - wanted->begin[1];
            if (row >= 0 && row < mine->size[0])
                ((int32_t *)(void *)in.host)[row * PITCH + k] = (int32_t)(i * 1000 + k);
            if (column >= 0 && column < wanted->size[1])
                ((int32_t *)(void *)out.host)[i * PITCH + column] = (int32_t)(i * 1000 + k);
        }
    EXPECT_OK(tess_upload(r->stream, in.device, in.host, in.bytes));
    size_t crossed = counts_crossings() ? test_crossed() : 0;
    EXPECT_OK(tess_move_boxes(r->team, room,
                              &(tess_box_move){.n_dims = 2,
                                               .element = 4,
                                               .had = had,
                                               .gets = gets,
                                               .in = in.device,
                                               .out = out.device,
                                               .in_pitch = PITCH,
                                               .out_pitch = PITCH},
                              received));
    if (counts_crossings() && !r->through_host)
        EXPECT_INT(test_crossed() - crossed, 0);
    /* the parts that it sends, and those that it receives, with the old content of their memory */
    const size_t sent = (size_t)((COLUMNS - gets[r->me].size[1]) * had[r->me].size[0]) * 4;
    if (counts_crossings() && r->through_host)
        EXPECT_INT(test_crossed() - crossed, sent + 2 * *received);
    EXPECT_INT(*received, (size_t)((ROWS - had[r->me].size[0]) * gets[r->me].size[1]) * 4);
    expect_same(r, "boxes", &out);
    give(r, &in);
    give(r, &out);
}

static void boxes_move_where_they_are(void)
{
    rank r = join();
    tess_box_room *room;
    size_t received;
    EXPECT_OK(tess_box_room_create(r.team, r.stream, 37 * 29 * 4, &room));
    for (int i = 0; i < 5; i++)
        check_boxes(&r, room, &received);
    tess_box_room_destroy(&room);
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

/* A rank that waits in one team lets those of others advance. */
static void a_copy_for_the_host_ends_while_another_team_waits(void)
{
    rank r = join();
    layout l = make_layout(&r, 3);
    tess_team *again;
    tess_work *gather;
    float one = 1;
    EXPECT_OK(tess_team_split(r.team, 0, r.me, "again", &again));
    buffer shard = take_floats(&r, l.shard, 1, false), full = take(&r, l.full * sizeof(float), false);
    EXPECT_OK(tess_all_gather_pieces(r.team, shard.host, TESS_F32, full.host, TESS_F32, l.pieces, N_PIECES, NULL));
    EXPECT_OK(
        tess_all_gather_pieces(r.team, shard.device, TESS_F32, full.device, TESS_F32, l.pieces, N_PIECES, &gather));
    EXPECT_OK(tess_stream_synchronize(r.stream));
    if (r.me == 0)
        usleep(20000);
    EXPECT_OK(tess_all_reduce(again, &one, &one, 1, TESS_F32, TESS_SUM, NULL));
    EXPECT_OK(tess_work_wait(&gather, 0));
    expect_same(&r, "gathered pieces", &full);
    tess_team_destroy(&again);
    give(&r, &shard);
    give(&r, &full);
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

/* One message of N bytes each way. Returns the bytes that have crossed between this rank's GPU and the host for it. */
static size_t cross(const rank *r, const buffer *x, const buffer *y, size_t n)
{
    const int peer = 1 - r->me;
    tess_work *work;
    size_t before = test_crossed();
    EXPECT_OK(tess_send(r->team, x->device, n, TESS_U8, peer, 1, &work));
    EXPECT_OK(tess_recv(r->team, y->device, n, TESS_U8, peer, 1, NULL));
    EXPECT_OK(tess_work_wait(&work, 0));
    return test_crossed() - before;
}

/* Messages and boxes between GPUs that reach each other, or do not: on one host by windows, else by NCCL. */
static void check_crossings(bool reach)
{
    enum { N = 70001 };
    tess_box_room *room;
    size_t received;
    if (!counts_crossings())
        return;
    EXPECT_INT(setenv("CUDA_FAKE", reach ? "devices=8,ipc=1" : "devices=8", 1), 0);
    if (!reach)
        EXPECT_INT(setenv("TESSERA_NCCL", "off", 1), 0);
    rank r = join();
    r.through_host = !reach;
    void *outbox; /* memory for messages alone connects no GPUs for collectives */
    EXPECT_OK(tess_device_outbox_alloc(r.team, TESS_POOL_COMM, TESS_DEVICE_WINDOW_LEAST, "test", &outbox));
    EXPECT(!tess_hosts_is_linked(r.team));
    tess_device_window_free(r.team, outbox);
    buffer x = take(&r, N, true), y = take(&r, N, false);
    EXPECT_INT(tess_hosts_is_linked(r.team), reach && !tess_team_is_local(r.team));
    EXPECT_INT(cross(&r, &x, &y, N), reach ? 0 : 2 * N);
    EXPECT_INT(cross(&r, &x, &y, 100), reach ? 0 : 200);
    EXPECT_INT(cross(&r, &y, &y, 0), 0);
    /* memory that is no window */
    EXPECT_INT(cross(&r, &y, &x, N), reach && !tess_team_is_local(r.team) ? 0 : 2 * N);
    EXPECT_OK(tess_box_room_create(r.team, r.stream, 37 * 29 * 4, &room));
    check_boxes(&r, room, &received);
    tess_box_room_destroy(&room);
    give(&r, &x);
    give(&r, &y);
    leave(&r);
}

static void no_byte_passes_through_the_host_where_gpus_reach_each_other(void)
{
    check_crossings(true);
}

/* Each message does so once on the way out and once on the way in. */
static void bytes_pass_through_the_host_once_where_they_do_not(void)
{
    check_crossings(false);
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

/* ---- Messages by NCCL ---- */
/* Rank 0 sends n bytes to rank 1, which waits for at most timeout_s. */
static tess_status send_one(const rank *r, const buffer *x, size_t n, double timeout_s)
{
    tess_work *work;
    TESS_TRY(r->me == 0 ? tess_send(r->team, x->device, n, TESS_U8, 1, 5, &work)
                        : tess_recv(r->team, x->device, n, TESS_U8, 0, 5, &work));
    return tess_work_wait(&work, r->me == 1 ? timeout_s : 0);
}

/* The message fails on one of the two ranks: both name the other one, or say what that one met, and go on. */
static void expect_message_fails(int failing, const char *fake, double timeout_s, tess_status status, const char *text)
{
    enum { N = 4000001 };
    rank r = join();
    char peer[16];
    if (!tess_team_is_local(r.team)) {
        buffer x = take(&r, N, false);
        EXPECT_OK(send_one(&r, &x, N, 0));
        if (r.me == failing)
            EXPECT_INT(setenv("NCCL_FAKE", fake, 1), 0);
        const double begin_s = tess_os_now_s();
        tess_status got = send_one(&r, &x, N, timeout_s);
        EXPECT(tess_os_now_s() - begin_s < 30);
        EXPECT(got == status || (r.me != failing && (got == TESS_E_CANCELLED || got == TESS_E_PEER_LOST)));
        snprintf(peer, sizeof(peer), "rank %d", 1 - r.me);
        EXPECT_CONTAINS(tess_error_message(), peer);
        if (r.me == failing)
            EXPECT_CONTAINS(tess_error_message(), text);
        EXPECT_FAILS(tess_barrier(r.team, NULL), got, peer);
        EXPECT_OK(tess_stream_fill(r.stream, x.device, 1, x.bytes)); /* nobody uses the memory any more */
        give(&r, &x);
    }
    leave(&r);
}

static void an_error_of_nccl_on_the_receiver_ends_both_sides(void)
{
    expect_message_fails(1, "fail=ncclGroupEnd:1:6", 0, TESS_E_PEER_LOST, "message from rank 0: team 'world'");
}

static void an_error_of_nccl_on_the_sender_ends_both_sides(void)
{
    expect_message_fails(0, "fail=ncclGroupEnd:1:2", 0, TESS_E_IO, "message to rank 1: team 'world'");
}

static void a_message_that_does_not_come_ends_both_sides(void)
{
    expect_message_fails(1, "fail=ncclGroupEnd:1:hang", 1, TESS_E_TIMEOUT,
                         "1 of 2 ranks did not come within 1 s; rank 0");
}

/* Rank 1 dies, so it says before that it has passed. */
static void a_peer_that_dies_ends_the_message(void)
{
    enum { N = 4000001 };
    rank r = join();
    char path[512];
    if (!tess_team_is_local(r.team)) {
        buffer x = take(&r, N, false);
        EXPECT_OK(send_one(&r, &x, N, 0));
        if (r.me == 1) {
            snprintf(path, sizeof(path), "%s/1", getenv("TESS_TEST_PASSED"));
            FILE *passed = fopen(path, "w");
            EXPECT(passed != NULL && fclose(passed) == 0);
            raise(SIGKILL);
        }
        EXPECT_FAILS(send_one(&r, &x, N, 0), TESS_E_PEER_LOST, "rank 1");
        give(&r, &x);
    }
    leave(&r);
}

/* One of the two ranks cannot connect: the message passes through the host, as the next ones do, and a warning says
 * why. */
static void check_no_link(int failing, const char *fake, const char *why)
{
    enum { N = 70001 };
    static tess_notice notices[TESS_NOTICES];
    rank r = join();
    if (!tess_team_is_local(r.team)) {
        buffer x = take(&r, N, false);
        tess_team_set_timeout(r.team, 6);
        memset(x.host, 0x5a, N);
        if (r.me == 0)
            EXPECT_OK(tess_upload(r.stream, x.device, x.host, N));
        if (r.me == failing)
            EXPECT_INT(setenv("NCCL_FAKE", fake, 1), 0);
        for (int i = 0; i < 3; i++) {
            size_t before = test_crossed();
            EXPECT_OK(send_one(&r, &x, N, 0));
            EXPECT_INT(test_crossed() - before, N);
        }
        expect_same(&r, "a message", &x);
        int32_t n = (int32_t)tess_notices_read(&r.rt->job.header->notices, notices), all;
        EXPECT_OK(tess_all_reduce(r.team, &n, &all, 1, TESS_I32, TESS_SUM, NULL));
        EXPECT(all >= 1); /* The side that finds out first warns, or both do. */
        if (n > 0) {
            EXPECT_CONTAINS(notices[0].text, "messages on memory of devices go through memory of the host, because");
            EXPECT_CONTAINS(notices[0].text, why);
        }
        give(&r, &x);
    }
    leave(&r);
}

static void a_sender_that_cannot_connect_sends_through_the_host(void)
{
    check_no_link(0, "fail=ncclCommInitRankConfig:1:2", "NCCL_SOCKET_IFNAME chooses the network");
}

static void a_receiver_that_cannot_connect_receives_through_the_host(void)
{
    check_no_link(1, "fail=ncclCommInitRankConfig:1:2", "NCCL_SOCKET_IFNAME chooses the network");
}

static void a_receiver_without_a_network_receives_through_the_host(void)
{
    check_no_link(1, "fail=ncclGetUniqueId:1:2", "make an id");
}

/* One unfinished group in a thread. */
static void a_sender_with_an_old_nccl_sends_through_the_host(void)
{
    check_no_link(0, "version=22702", "NCCL 2.27.2, in which a thread can have one unfinished group: 2.27.3 or newer");
}

static void a_receiver_with_an_old_nccl_receives_through_the_host(void)
{
    check_no_link(1, "version=21805", "NCCL 2.18.5, in which a thread can have one unfinished group: 2.27.3 or newer");
}

static void a_side_that_does_not_connect_in_time_sends_through_the_host(void)
{
    check_no_link(1, "fail=ncclCommInitRankConfig:1:hang", "did not connect to rank");
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
    CASE(messages_have_the_bits_of_the_host, 1),
    CASE(messages_have_the_bits_of_the_host, 2),
    CASE(messages_have_the_bits_of_the_host, 3),
    CASE(messages_have_the_bits_of_the_host, 4),
    CASE(messages_keep_the_order_of_the_stream, 3),
    CASE(messages_that_differ_are_named, 2, 0, TEST_ALONE),
    CASE(boxes_move_where_they_are, 3),
    CASE(boxes_move_where_they_are, 4),
    CASE(no_byte_passes_through_the_host_where_gpus_reach_each_other, 2, 0, TEST_ALONE),
    CASE(bytes_pass_through_the_host_once_where_they_do_not, 2, 0, TEST_ALONE),
    CASE(operations_in_flight_keep_their_order, 4),
    CASE(a_copy_for_the_host_ends_while_another_team_waits, 2),
    CASE(a_gradient_that_is_not_finite_is_found, 3, 0, TEST_NEVER),
    CASE(buffers_of_two_kinds_are_refused, 1),
    CASE(ranks_that_differ_are_named, 3, 0, TEST_ALONE),
    CASE(devices_of_two_kinds_are_refused, 2, 0, TEST_ALONE),
    CASE(memory_that_peers_cannot_open_goes_through_the_host, 2, 0, TEST_NEVER),
    CASE(memory_that_one_rank_cannot_open_goes_through_the_host, 2, 0, TEST_NEVER),
    CASE(an_error_of_nccl_is_the_teams, 2, 0, TEST_ALONE),
    CASE(an_error_of_nccl_on_the_receiver_ends_both_sides, 2, 0, TEST_ALONE),
    CASE(an_error_of_nccl_on_the_sender_ends_both_sides, 2, 0, TEST_ALONE),
    CASE(a_message_that_does_not_come_ends_both_sides, 2, 0, TEST_ALONE),
    CASE(a_peer_that_dies_ends_the_message, 2, 0, TEST_ALONE),
    CASE(a_sender_that_cannot_connect_sends_through_the_host, 2, 0, TEST_ALONE),
    CASE(a_receiver_that_cannot_connect_receives_through_the_host, 2, 0, TEST_ALONE),
    CASE(a_receiver_without_a_network_receives_through_the_host, 2, 0, TEST_ALONE),
    CASE(a_sender_with_an_old_nccl_sends_through_the_host, 2, 0, TEST_ALONE),
    CASE(a_receiver_with_an_old_nccl_receives_through_the_host, 2, 0, TEST_ALONE),
    CASE(a_side_that_does_not_connect_in_time_sends_through_the_host, 2, 0, TEST_ALONE),
    CASE(a_rank_that_does_not_come_is_named, 3, 0, TEST_NEVER),
    CASE(a_rank_that_dies_is_named),
};
TEST_MAIN(cases)
