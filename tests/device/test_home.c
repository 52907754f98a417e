/* Homes of state. The same calls give the same values at every home: in the host's memory, on disk, in the memory of a
 * device that the host cannot read, and away from it. Streams lag at random, so a wait that is missing is found. */
#include "base/core/round_up.h"
#include "base/mem/disk.h"
#include "device/home/home.h"
#include "support/test.h"

#include <stdlib.h>

#include "device/device.h"

enum { N = 301, FAILS = 1 << 20 }; /* elements of a block; GiB that no device has */

/* A home with its device. The log counts the copies of its streams. */
typedef struct rig {
    tess_device *device;
    tess_stream *stream;
    tess_home *home;
    tess_device_log *log;
} rig;

static rig open_rig(const char *device, unsigned away)
{
    rig r = {0};
    void *log;
    EXPECT_INT(setenv("TESSERA_FAR_DELAYS", "7:300", 1), 0);
    EXPECT_OK(tess_device_open(test_mem(), device, 0, &r.device));
    EXPECT_INT(posix_memalign(&log, 4096, (sizeof(tess_device_log) + 4095) / 4096 * 4096), 0);
    r.log = log;
    tess_device_set_log(r.device, r.log);
    EXPECT_OK(tess_device_stream(r.device, 2, NULL, &r.stream));
    EXPECT_OK(tess_home_create(&(tess_home_options){.mem = test_mem(), .stream = r.stream, .away = away}, &r.home));
    return r;
}

static void close_rig(rig *r)
{
    tess_home_destroy(&r->home);
    tess_stream_destroy(&r->stream);
    EXPECT_INT(tess_device_close(&r->device), 0);
    free(r->log);
}

/* The number of copies that a stream of this name was given, and their bytes. */
static int copies(const rig *r, const char *stream, size_t *bytes)
{
    int n = 0;
    *bytes = 0;
    for (int i = 0; i < TESS_LOG_STREAMS; i++) {
        const tess_stream_log *log = &r->log->streams[i];
        if (strcmp(log->name, stream) != 0)
            continue;
        for (uint64_t op = 1; op <= log->enqueued; op++)
            if (log->ops[op % TESS_LOG_OPS].bytes > 0) {
                n++;
                *bytes += log->ops[op % TESS_LOG_OPS].bytes;
            }
    }
    return n;
}

static tess_home_span span_of(tess_home_part *part, tess_home_block *block, tess_page_use use)
{
    *part = (tess_home_part){.at = block->at, .bytes = block->bytes, .pool = block->pool, .use = use};
    return (tess_home_span){.parts = part, .n_parts = 1};
}

/* x = 3 x, as a computation of the home's stream. */
static void triple(const rig *r, void *x, int64_t n)
{
    EXPECT_OK(tess_stream_kernels(r->stream)->scale(
        r->stream, &(tess_scale_args){.x = x, .factor = 3, .y = x, .n = n, .dtype = TESS_F32}));
}

static void fill(const rig *r, const tess_home_block *b, float first)
{
    float *x = tess_home_copy_of(r->home, b);
    for (int i = 0; i < N; i++)
        x[i] = first + (float)i;
}

static void expect_values(const rig *r, const tess_home_block *b, float first, float factor)
{
    const float *x = tess_home_copy_of(r->home, b);
    for (int i = 0; i < N; i++)
        EXPECT(x[i] == (first + (float)i) * factor);
}

/* ---- Every home ---- */
enum { BLOCKS = 4, ROUNDS = 3 };

/* Several blocks of two pools are tripled in turn, each brought one ahead. */
static void expect_use(const char *device, unsigned away)
{
    rig r = open_rig(device, away);
    tess_home_block *block[BLOCKS];
    tess_home_part part[BLOCKS];
    tess_home_span span[BLOCKS];
    bool found;
    for (int i = 0; i < BLOCKS; i++) {
        const tess_pool pool = i % 2 == 0 ? TESS_POOL_PARAMS : TESS_POOL_OPTIMIZER;
        EXPECT_OK(tess_home_alloc(r.home, pool, true, N * sizeof(float), "x", &block[i], &found));
        EXPECT(!found);
        fill(&r, block[i], (float)i);
        span[i] = span_of(&part[i], block[i], TESS_PAGE_UPDATE);
    }
    EXPECT_OK(tess_home_upload(r.home));
    for (int round = 0; round < ROUNDS; round++) {
        EXPECT_OK(tess_home_update_begin(r.home));
        for (int i = 0; i < BLOCKS; i++) {
            EXPECT_OK(tess_home_bring(r.home, &span[(i + 1) % BLOCKS]));
            EXPECT_OK(tess_home_wait(r.home, &span[i]));
            triple(&r, part[i].here, N);
            tess_home_let_go(r.home, &span[i]);
        }
        EXPECT_OK(tess_home_update_end(r.home));
    }
    EXPECT_OK(tess_home_refresh(r.home));
    for (int i = 0; i < BLOCKS; i++) {
        expect_values(&r, block[i], (float)i, 27);
        tess_home_forget(r.home, &span[i]);
        tess_home_free(r.home, block[i]);
    }
    close_rig(&r);
}

static void every_home_gives_the_same_values(void)
{
    const unsigned params = 1u << TESS_POOL_PARAMS, moments = 1u << TESS_POOL_OPTIMIZER;
    expect_use("cpu", 0);
    expect_use("cpu", params | moments); /* the host's state is never away */
    expect_use("far", 0);
    expect_use("far", params);
    expect_use("far", params | moments);
}

static void state_on_disk_gives_the_same_values(void)
{
    tess_pager *pager;
    tess_disk *files;
    tess_mem_disk disk = {.pools = 1u << TESS_POOL_PARAMS | 1u << TESS_POOL_OPTIMIZER};
    EXPECT_OK(tess_pager_create(test_mem(), 1 << 14, &pager));
    EXPECT_OK(tess_disk_create(test_mem(), test_folder(), pager, &files));
    tess_disk_attach(files, &disk);
    tess_mem_set_disk(test_mem(), &disk);
    expect_use("cpu", 0);
    expect_use("far", disk.pools);
    EXPECT(tess_pager_get_stats(pager).read_bytes > 0 && tess_pager_get_stats(pager).written_bytes > 0);
    tess_mem_set_disk(test_mem(), NULL);
    tess_disk_destroy(&files);
    tess_pager_destroy(&pager);
}

static void a_home_lasts_until_its_last_user_leaves(void)
{
    rig r = open_rig("far", 1u << TESS_POOL_PARAMS);
    tess_home *other = tess_home_share(r.home);
    tess_home_destroy(&other);
    EXPECT(other == NULL);
    EXPECT(tess_home_stream(r.home, false) != NULL);
    close_rig(&r);
    EXPECT(r.home == NULL);
    tess_home_destroy(&r.home); /* NULL */
}

/* ---- Copies ---- */
static void only_what_is_needed_is_copied(void)
{
    size_t up, down;
    bool found;
    float lent[N], back[N];
    rig r = open_rig("far", 1u << TESS_POOL_PARAMS | 1u << TESS_POOL_GRADS);
    for (int i = 0; i < N; i++)
        lent[i] = (float)i;
    tess_home_part part[2] = {{lent, sizeof(lent), TESS_POOL_PARAMS, TESS_PAGE_READ, NULL},
                              {back, sizeof(back), TESS_POOL_GRADS, TESS_PAGE_OVERWRITE, NULL}};
    tess_home_span w = {.parts = part, .n_parts = 1, .constant = true}, dw = {.parts = part + 1, .n_parts = 1};
    for (int use = 0; use < 3; use++) {
        EXPECT_OK(tess_home_bring(r.home, &w));
        EXPECT_OK(tess_home_wait(r.home, &w));
        EXPECT_OK(tess_home_settle(r.home, &w));
        memset(lent, 0xff, sizeof(lent)); /* the constant's values remain in its place */
        EXPECT_OK(tess_home_wait(r.home, &dw));
        EXPECT_OK(tess_stream_copy(r.stream, part[1].here, part[0].here, sizeof(lent)));
        triple(&r, part[1].here, N);
        tess_home_let_go(r.home, &w);
        tess_home_let_go(r.home, &dw);
        EXPECT_OK(tess_home_settle(r.home, &dw));
        for (int i = 0; i < N; i++)
            EXPECT(back[i] == 3 * (float)i);
        EXPECT(dw.valid == TESS_ON_HOST && w.valid == (TESS_ON_HOST | TESS_ON_DEVICE));
    }
    EXPECT_INT(copies(&r, "upload", &up), 1);
    EXPECT_INT(copies(&r, "download", &down), 3);
    EXPECT(up == sizeof(lent) && down == 3 * sizeof(back));
    EXPECT_INT(tess_device_mem_stats(r.device, TESS_POOL_PARAMS).bytes, tess_round_up(sizeof(lent), TESS_HOME_ALIGN));
    tess_home_let_go(r.home, &w); /* nothing is held */
    close_rig(&r);

    /* State in device memory is copied when the host asks, and only if it has changed. */
    tess_home_block *x;
    r = open_rig("far", 0);
    EXPECT_OK(tess_home_alloc(r.home, TESS_POOL_PARAMS, true, sizeof(lent), "x", &x, &found));
    fill(&r, x, 1);
    EXPECT_OK(tess_home_upload(r.home));
    for (int use = 0; use < 3; use++) {
        EXPECT_OK(tess_home_update_begin(r.home));
        triple(&r, x->at, N);
        EXPECT_OK(tess_home_update_end(r.home));
    }
    EXPECT_INT(copies(&r, "download", &down), 0);
    EXPECT_OK(tess_home_refresh(r.home));
    EXPECT_OK(tess_home_refresh(r.home));
    EXPECT_INT(copies(&r, "download", &down), 1);
    expect_values(&r, x, 1, 27);
    close_rig(&r);
}

static void places_are_used_in_turn_and_more_are_made_if_all_are_held(void)
{
    rig r = open_rig("far", 1u << TESS_POOL_PARAMS);
    float x[BLOCKS][64];
    tess_home_part part[BLOCKS];
    tess_home_span span[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        part[i] = (tess_home_part){x[i], sizeof(x[i]), TESS_POOL_PARAMS, TESS_PAGE_READ, NULL};
        span[i] = (tess_home_span){.parts = &part[i], .n_parts = 1};
        for (int k = 0; k < 64; k++)
            x[i][k] = (float)(100 * i + k);
    }
    for (int i = 0; i < BLOCKS; i++)
        EXPECT_OK(tess_home_bring(r.home, &span[i])); /* there is memory for two */
    EXPECT_INT(tess_device_mem_stats(r.device, TESS_POOL_PARAMS).bytes, 2 * sizeof(x[0]));
    EXPECT(span[1].valid == (TESS_ON_HOST | TESS_ON_DEVICE) && span[2].valid != span[1].valid);
    EXPECT_OK(tess_home_wait(r.home, &span[3])); /* takes the place of one that was only brought */
    EXPECT_INT(tess_device_mem_stats(r.device, TESS_POOL_PARAMS).bytes, 2 * sizeof(x[0]));
    EXPECT((span[0].place == NULL) != (span[1].place == NULL));
    for (int i = 0; i < BLOCKS; i++)
        EXPECT_OK(tess_home_wait(r.home, &span[i]));
    EXPECT_INT(tess_device_mem_stats(r.device, TESS_POOL_PARAMS).bytes, BLOCKS * sizeof(x[0]));
    for (int i = 0; i < BLOCKS; i++) {
        float seen[64];
        EXPECT_OK(tess_fetch(r.stream, seen, part[i].here, sizeof(seen)));
        EXPECT_SAME(seen, x[i], 64);
        tess_home_let_go(r.home, &span[i]);
    }
    close_rig(&r);
}

/* A block that lost its place, and was brought ahead into another one, is not found at its old address. */
static void a_block_is_found_where_it_is_now(void)
{
    rig r = open_rig("far", 1u << TESS_POOL_PARAMS);
    tess_home_block *block[BLOCKS];
    bool found;
    for (int i = 0; i < BLOCKS; i++) {
        EXPECT_OK(tess_home_alloc(r.home, TESS_POOL_PARAMS, true, N * sizeof(float), "x", &block[i], &found));
        fill(&r, block[i], 100 * (float)i);
    }
    for (int i = BLOCKS * BLOCKS * BLOCKS - 1; i >= 0; i--) {
        tess_home_block *lost = block[i / BLOCKS / BLOCKS], *next = block[i / BLOCKS % BLOCKS], *b = block[i % BLOCKS];
        float seen[N];
        for (int k = 0; k < 2; k++) {
            EXPECT_OK(tess_home_wait(r.home, k == 0 ? &lost->span : &next->span));
            tess_home_let_go(r.home, k == 0 ? &lost->span : &next->span);
        }
        EXPECT_OK(tess_home_wait(r.home, &b->span));
        EXPECT_OK(tess_home_bring(r.home, &lost->span));
        EXPECT(tess_home_find(r.home, b->part.here) == b);
        EXPECT_OK(tess_fetch(r.stream, seen, b->part.here, sizeof(seen)));
        EXPECT_SAME(seen, (float *)tess_home_copy_of(r.home, b), N);
        tess_home_let_go(r.home, &b->span);
        EXPECT(tess_home_find(r.home, b->at) == b);
    }
    EXPECT_INT(tess_device_mem_stats(r.device, TESS_POOL_PARAMS).bytes,
               2 * tess_round_up(N * sizeof(float), TESS_HOME_ALIGN));
    close_rig(&r);
}

static void a_device_without_memory_is_reported_and_changes_nothing(void)
{
    rig r = open_rig("far", 1u << TESS_POOL_PARAMS);
    float x[N];
    tess_home_block *block;
    bool found;
    for (int i = 0; i < N; i++)
        x[i] = (float)i;
    tess_home_part part = {x, sizeof(x), TESS_POOL_PARAMS, TESS_PAGE_UPDATE, NULL};
    tess_home_span large = {.parts = &part, .n_parts = 1, .room = (size_t)FAILS << 30}, small = large;
    small.room = 0;
    for (int again = 0; again < 2; again++)
        EXPECT_FAILS(tess_home_wait(r.home, &large), TESS_E_NOMEM, "a unit's parameters");
    EXPECT_FAILS(tess_home_alloc(r.home, TESS_POOL_GRADS, false, (size_t)FAILS << 30, "sums", &block, &found),
                 TESS_E_NOMEM, "sums");
    EXPECT(block == NULL && large.place == NULL);
    tess_home_let_go(r.home, &large);
    EXPECT_OK(tess_home_wait(r.home, &small));
    triple(&r, part.here, N);
    tess_home_let_go(r.home, &small);
    EXPECT_OK(tess_home_settle(r.home, &small));
    for (int i = 0; i < N; i++)
        EXPECT(x[i] == 3 * (float)i);
    close_rig(&r);
}

/* ---- Generations ---- */
typedef struct store {
    char names[8][64];
    void *memory[8];
    int n;
} store;

static tess_status region(void *self, const char *name, size_t bytes, void **out, bool *found)
{
    store *s = self;
    int i = 0;
    while (i < s->n && strcmp(s->names[i], name) != 0)
        i++;
    *found = i < s->n;
    if (i == s->n) {
        snprintf(s->names[i], sizeof(s->names[i]), "%s", name);
        s->memory[s->n++] = calloc(1, bytes);
    }
    *out = s->memory[i];
    return TESS_OK;
}

/* Allocates a block that is updated, and one that is not. */
static void alloc_both(const rig *r, tess_home_block *block[2], bool expected)
{
    bool found;
    EXPECT_OK(tess_home_alloc(r->home, TESS_POOL_PARAMS, true, N * sizeof(float), "trained", &block[0], &found));
    EXPECT(found == expected);
    EXPECT_OK(tess_home_alloc(r->home, TESS_POOL_PARAMS, true, N * sizeof(float), "frozen", &block[1], &found));
    EXPECT(found == expected);
}

static void update(const rig *r, tess_home_block *block)
{
    tess_home_part part;
    tess_home_span span = span_of(&part, block, TESS_PAGE_UPDATE);
    span.advances = true;
    EXPECT_OK(tess_home_update_begin(r->home));
    EXPECT_OK(tess_home_wait(r->home, &span));
    triple(r, part.here, N);
    tess_home_let_go(r->home, &span);
    tess_home_forget(r->home, &span);
    EXPECT_OK(tess_home_update_end(r->home));
}

/* A process ends in the middle of step 4's update; its successor finds step 3 (of which 2 changed nothing). */
static void expect_kept(unsigned away)
{
    store s = {.n = 0};
    tess_home_block *block[2];
    tess_mem_set_store(test_mem(), region, &s);
    rig r = open_rig("far", away);
    alloc_both(&r, block, false);
    fill(&r, block[0], 5);
    fill(&r, block[1], 6);
    EXPECT_OK(tess_home_upload(r.home));
    EXPECT_OK(tess_home_keep(r.home, 0));
    for (int step = 1; step <= 4; step++) {
        if (step != 2)
            update(&r, block[0]);
        if (step < 4)
            EXPECT_OK(tess_home_keep(r.home, step));
    }
    EXPECT_OK(tess_home_kept(r.home));
    close_rig(&r);
    r = open_rig("far", away);
    alloc_both(&r, block, true);
    EXPECT_OK(tess_home_restore(r.home, 3));
    EXPECT_OK(tess_home_refresh(r.home));
    expect_values(&r, block[0], 5, 9);
    expect_values(&r, block[1], 6, 1);
    update(&r, block[0]);
    EXPECT_OK(tess_home_keep(r.home, 4));
    EXPECT_OK(tess_home_refresh(r.home));
    expect_values(&r, block[0], 5, 27);
    expect_values(&r, block[1], 6, 1);
    close_rig(&r);
    tess_mem_set_store(test_mem(), NULL, NULL);
    EXPECT_INT(s.n, 4);
    for (int i = 0; i < s.n; i++)
        free(s.memory[i]);
}

static void one_complete_generation_outlives_the_process(void)
{
    expect_kept(0);
    expect_kept(1u << TESS_POOL_PARAMS);
}

static const test_case cases[] = {
    CASE(every_home_gives_the_same_values),
    CASE(state_on_disk_gives_the_same_values),
    CASE(a_home_lasts_until_its_last_user_leaves),
    CASE(only_what_is_needed_is_copied),
    CASE(places_are_used_in_turn_and_more_are_made_if_all_are_held),
    CASE(a_block_is_found_where_it_is_now),
    CASE(a_device_without_memory_is_reported_and_changes_nothing),
    CASE(one_complete_generation_outlives_the_process),
};
TEST_MAIN(cases)
