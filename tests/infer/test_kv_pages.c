/* Pages of keys and values: who has which, what is copied when, and that the counters and the pool agree. */
#include "infer/kv_pages.h"

#include "device/device.h"
#include "support/test.h"

enum { ROOM = 8, N_PAGES = 6 };

static const tess_model_config config = {.family = TESS_FAMILY_LLAMA,
                                         .vocab_size = 3,
                                         .hidden_size = 16,
                                         .intermediate_size = 3,
                                         .n_layers = 3,
                                         .n_heads = 4,
                                         .n_kv_heads = 2,
                                         .head_size = 4,
                                         .max_position = 512,
                                         .sum_leaves = 1,
                                         .norm_eps = 1e-6,
                                         .rope = {.kind = TESS_ROPE_DEFAULT, .theta = 10000},
                                         .bos_token_id = -1,
                                         .pad_token_id = -1};

typedef struct tables {
    tess_stream *stream;
    tess_model *model;
    tess_kv_pages *pool;
    tess_kv_table t[4];
    int32_t pages[4][ROOM];
} tables;

static void tables_open(tables *x)
{
    memset(x, 0, sizeof(*x));
    EXPECT_OK(tess_stream_create(test_mem(), 1, "ref", &x->stream));
    EXPECT_OK(tess_model_create(test_mem(), &config, &x->model));
    EXPECT_OK(tess_kv_pages_create(x->stream, x->model, TESS_F32, N_PAGES, &x->pool));
    for (int i = 0; i < 4; i++)
        x->t[i].pages = x->pages[i];
}

static void tables_close(tables *x)
{
    for (int i = 0; i < 4; i++)
        tess_kv_pages_release(x->pool, &x->t[i]);
    EXPECT_INT(tess_kv_pages_stats(x->pool).used, 0);
    EXPECT_INT(tess_kv_pages_free(x->pool), N_PAGES);
    tess_kv_pages_destroy(&x->pool);
    tess_model_destroy(&x->model);
    tess_stream_destroy(&x->stream);
}

/* The table gets ready for n positions, which are then written. */
static bool grow(tables *x, int i, int64_t n)
{
    bool enough;
    EXPECT_OK(tess_kv_pages_reserve(x->pool, &x->t[i], n, &enough));
    if (enough)
        x->t[i].length = n;
    return enough;
}

/* Row `position` of layer l's values. */
static float *row_of(const tables *x, int i, int64_t l, int64_t position)
{
    const tess_kv_cache *cache = tess_kv_pages_cache(x->pool);
    return (float *)cache->v[l] + x->pages[i][position / TESS_ATTENTION_BLOCK] * cache->page_stride +
           position % TESS_ATTENTION_BLOCK * 8;
}

static void the_pool_says_what_the_pages_take(void)
{
    tables x;
    tables_open(&x);
    EXPECT_INT((int64_t)tess_kv_page_bytes(x.model, TESS_F32), 3 * 2 * 64 * 8 * 4);
    EXPECT_INT((int64_t)tess_kv_page_bytes(x.model, TESS_BF16), 3 * 2 * 64 * 8 * 2);
    EXPECT_INT((int64_t)tess_mem_stats(test_mem(), TESS_POOL_KV_CACHE).bytes,
               N_PAGES * (int64_t)tess_kv_page_bytes(x.model, TESS_F32));
    tables_close(&x);
    EXPECT_INT((int64_t)tess_mem_stats(test_mem(), TESS_POOL_KV_CACHE).bytes, 0);
}

static void pages_come_and_go(void)
{
    tables x;
    tables_open(&x);
    EXPECT(grow(&x, 0, 1) && x.t[0].n_pages == 1);
    EXPECT(grow(&x, 0, 64) && x.t[0].n_pages == 1);
    EXPECT(grow(&x, 0, 65) && x.t[0].n_pages == 2);
    EXPECT(grow(&x, 1, 256) && x.t[1].n_pages == 4);
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 4; b++)
            EXPECT(x.pages[0][a] != x.pages[1][b]);
    EXPECT(!grow(&x, 0, 129) && x.t[0].n_pages == 2 && x.t[0].length == 65); /* nothing changed */
    EXPECT(grow(&x, 0, 128));
    tess_kv_pages_release(x.pool, &x.t[1]);
    EXPECT(x.t[1].n_pages == 0 && x.t[1].length == 0);
    EXPECT(grow(&x, 0, 129));
    const tess_kv_stats stats = tess_kv_pages_stats(x.pool);
    EXPECT_INT(stats.used, 3);
    EXPECT_INT(stats.peak, 6);
    EXPECT_INT(stats.copied, 0);
    tables_close(&x);
}

static void a_fork_shares_until_it_writes(void)
{
    tables x;
    tables_open(&x);
    EXPECT(grow(&x, 0, 70));
    for (int64_t l = 0; l < 3; l++)
        for (int64_t p = 0; p < 70; p++)
            *row_of(&x, 0, l, p) = (float)(1000 * l + p);
    tess_kv_pages_fork(x.pool, &x.t[0], 70, &x.t[1]);
    tess_kv_pages_fork(x.pool, &x.t[0], 64, &x.t[2]);
    EXPECT(x.t[2].n_pages == 1 && x.t[2].length == 64);
    EXPECT_INT(tess_kv_pages_stats(x.pool).used, 2);
    EXPECT_INT(tess_kv_pages_own(x.pool, &x.t[0]), 0);
    EXPECT(grow(&x, 2, 65)); /* the prompt ended with its page: a page of its own, and nothing to copy */
    EXPECT_INT(tess_kv_pages_stats(x.pool).copied, 0);
    EXPECT_INT(tess_kv_pages_own(x.pool, &x.t[2]), 1);
    EXPECT(grow(&x, 1, 70)); /* writes nothing */
    EXPECT_INT(x.pages[1][1], x.pages[0][1]);
    EXPECT(grow(&x, 1, 71));
    EXPECT_INT(tess_kv_pages_stats(x.pool).copied, 1);
    EXPECT(x.pages[1][0] == x.pages[0][0] && x.pages[1][1] != x.pages[0][1]);
    *row_of(&x, 1, 2, 70) = 5;
    for (int64_t l = 0; l < 3; l++)
        for (int64_t p = 0; p < 70; p++)
            EXPECT(*row_of(&x, 1, l, p) == (float)(1000 * l + p));
    EXPECT(grow(&x, 0, 71)); /* the last that has it writes in place */
    EXPECT_INT(tess_kv_pages_stats(x.pool).copied, 1);
    EXPECT_INT(tess_kv_pages_stats(x.pool).used, 4);
    EXPECT_INT(tess_kv_pages_own(x.pool, &x.t[0]), 1);
    tables_close(&x);
}

static void a_copy_needs_a_free_page(void)
{
    tables x;
    tables_open(&x);
    EXPECT(grow(&x, 0, 100) && grow(&x, 3, 4 * 64));
    tess_kv_pages_fork(x.pool, &x.t[0], 100, &x.t[1]);
    EXPECT(!grow(&x, 1, 101));
    EXPECT_INT(x.pages[1][1], x.pages[0][1]);
    tess_kv_pages_release(x.pool, &x.t[0]);
    EXPECT(grow(&x, 1, 101)); /* it is alone now */
    EXPECT_INT(tess_kv_pages_stats(x.pool).copied, 0);
    tables_close(&x);
}

/* Pages of a part have its layers, and its key heads; or all of these, if more ranks share a layer than it has any. */
static void a_part_has_its_own_layers_and_heads(void)
{
    static const struct {
        tess_model_part part;
        int64_t layers, row;
    } parts[] = {{{1, 2, false, true, NULL, 0, 1}, 2, 8},
                 {{0, 3, true, true, NULL, 1, 2}, 3, 4},
                 {{0, 3, true, true, NULL, 2, 3}, 3, 8}};
    tess_stream *stream;
    EXPECT_OK(tess_stream_create(test_mem(), 1, "ref", &stream));
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        tess_model *model;
        tess_kv_pages *pool;
        EXPECT_OK(tess_model_create_part(test_mem(), &config, &parts[i].part, &model));
        EXPECT_INT((int64_t)tess_kv_page_bytes(model, TESS_F32), parts[i].layers * 2 * 64 * parts[i].row * 4);
        EXPECT_OK(tess_kv_pages_create(stream, model, TESS_F32, 2, &pool));
        const tess_kv_cache *cache = tess_kv_pages_cache(pool);
        for (int64_t l = 0; l < 3; l++)
            EXPECT((cache->k[l] != NULL) == (l >= parts[i].part.first_layer));
        tess_kv_pages_destroy(&pool);
        tess_model_destroy(&model);
    }
    tess_stream_destroy(&stream);
}

static void a_cache_without_pages_is_refused(void)
{
    tables x;
    tess_kv_pages *pool;
    tables_open(&x);
    EXPECT_FAILS(tess_kv_pages_create(x.stream, x.model, TESS_F32, 0, &pool), TESS_E_INVALID, "0 pages");
    tables_close(&x);
}

static const test_case cases[] = {
    CASE(the_pool_says_what_the_pages_take),   CASE(pages_come_and_go),
    CASE(a_fork_shares_until_it_writes),       CASE(a_copy_needs_a_free_page),
    CASE(a_part_has_its_own_layers_and_heads), CASE(a_cache_without_pages_is_refused),
};
TEST_MAIN(cases)
