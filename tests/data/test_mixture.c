/* Mixtures of sources: their shares, epochs, and positions. */
#include <stdio.h>
#include <string.h>

#include "base/core/rng.h"
#include "base/os/os.h"
#include "base/text/text.h"
#include "data/loader/loader.h"
#include "data/loader/mixture.h"
#include "support/test.h"

enum { N_SOURCES = 3, MILLION = 1000000 };

/* ---- The order ---- */
static void shares_are_exact_to_a_row_after_any_number_of_rows(void)
{
    static const struct {
        int n;
        int64_t weights[TESS_DATA_SOURCES];
    } cases[] = {{1, {MILLION}},
                 {2, {700000, 300000}},
                 {3, {MILLION, MILLION, MILLION}},
                 {3, {1, 999999, 123456}},
                 {8, {500000, 250000, 125000, 62500, 31250, 15625, 7813, 7812}},
                 {2, {1, 1000000000000}},
                 {9, {99, 1, 1, 1, 1, 1, 1, 1, 1}}};
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        uint64_t taken[TESS_DATA_SOURCES] = {0};
        __int128 sum = 0;
        for (int i = 0; i < cases[c].n; i++)
            sum += cases[c].weights[i];
        for (int64_t rows = 1; rows <= 20000; rows++) {
            taken[tess_mixture_next(cases[c].weights, taken, cases[c].n)]++;
            for (int i = 0; i < cases[c].n; i++) {
                __int128 exact = (__int128)cases[c].weights[i] * rows; /* unit: 1 / sum of a row */
                EXPECT((__int128)taken[i] >= exact / sum && (__int128)taken[i] <= (exact + sum - 1) / sum);
            }
        }
    }
}

/* ---- A loader ---- */
static tess_tokenizer *the_tokenizer(void)
{
    tess_tokenizer *tokenizer;
    EXPECT_OK(tess_tokenizer_load(test_mem(), test_path("data/fixtures/gpt2.json"), &tokenizer));
    return tokenizer;
}

/* Lines of source s begin with its letter, which is in no other line. */
static const char *write_source(int s, int n_lines)
{
    static char paths[N_SOURCES + 1][512];
    tess_buffer text = {.mem = test_mem()};
    char name[32];
    for (int i = 0; i < n_lines; i++)
        EXPECT_OK(tess_buffer_printf(&text, "{\"text\": \"%c %d %d\"}\n", 'X' + s, i, i * 7 % 100));
    snprintf(name, sizeof(name), "s%d-%d.jsonl", s, n_lines);
    EXPECT_OK(tess_os_join(paths[s], sizeof(paths[0]), test_folder(), name));
    EXPECT_OK(tess_os_write_atomic(paths[s], text.data, text.size));
    tess_buffer_free(&text);
    return paths[s];
}

static const int64_t weights[] = {500000, 300000, 200000};
static const int counts[] = {1, 1, 1};

static tess_loader_options mixture_of(const char *const *files)
{
    return (tess_loader_options){.files = files,
                                 .n_files = N_SOURCES,
                                 .weights = weights,
                                 .counts = counts,
                                 .n_weights = N_SOURCES,
                                 .seq_len = 23,
                                 .micro_batch = 1,
                                 .seed = 5,
                                 .shuffle = true,
                                 .repeat = true,
                                 .end = 1,
                                 .eos_id = 0,
                                 .end_id = -1};
}

static uint64_t hash_pairs(const tess_micro_batch *b)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < b->n_tokens; i++) {
        const int32_t pair[2] = {b->ids[i], b->targets[i]};
        sum += b->targets[i] >= 0 ? tess_hash_bytes(pair, sizeof(pair), 5) : 0;
    }
    return sum;
}

static uint64_t hash_batch(const tess_micro_batch *b)
{
    size_t size = (size_t)b->n_tokens * sizeof(int32_t);
    return tess_hash_bytes(b->targets, size, tess_hash_bytes(b->ids, size, 0));
}

/* The rows and pairs of one epoch of a file alone. */
static void measure(const tess_tokenizer *tokenizer, const char *file, uint64_t *rows, uint64_t *pairs)
{
    tess_loader_options options = mixture_of(&file);
    tess_loader *loader;
    tess_micro_batch batch;
    options.n_files = 1;
    options.weights = NULL;
    options.repeat = false;
    *rows = *pairs = 0;
    EXPECT_OK(tess_loader_create(test_mem(), tokenizer, &options, &loader));
    for (bool end = false;; ++*rows) {
        EXPECT_OK(tess_loader_next(loader, 0, &batch, &end));
        if (end)
            break;
        *pairs += hash_pairs(&batch);
    }
    tess_loader_destroy(&loader);
}

static const char *const *write_sources(void)
{
    static const char *files[N_SOURCES];
    for (int s = 0; s < N_SOURCES; s++)
        files[s] = write_source(s, 40 + 90 * s);
    return files;
}

/* The source that gave a row since the cursor `before`. */
static int giver(const tess_data_cursor *before, const tess_data_cursor *after)
{
    int found = -1;
    for (int s = 0; s < after->n; s++) {
        if (before->source[s].taken == after->source[s].taken)
            continue;
        EXPECT_INT(found, -1);
        found = s;
    }
    return found;
}

static void each_source_gives_every_token_once_an_epoch_of_its_own(void)
{
    tess_tokenizer *tokenizer = the_tokenizer();
    const char *const *files = write_sources();
    uint64_t rows[N_SOURCES], want[N_SOURCES], pairs[N_SOURCES][4] = {{0}}, n_rows[N_SOURCES] = {0};
    tess_loader_options options = mixture_of(files);
    tess_loader *loader;
    tess_micro_batch batch;
    tess_data_cursor before, after;
    bool end;
    for (int s = 0; s < N_SOURCES; s++)
        measure(tokenizer, files[s], &rows[s], &want[s]);
    EXPECT_OK(tess_loader_create(test_mem(), tokenizer, &options, &loader));
    for (uint64_t n = 1; n_rows[N_SOURCES - 1] < 2 * rows[N_SOURCES - 1]; n++) {
        tess_loader_cursor(loader, &before);
        EXPECT_OK(tess_loader_next(loader, 0, &batch, &end));
        tess_loader_cursor(loader, &after);
        int s = giver(&before, &after);
        EXPECT(n_rows[s] / rows[s] == batch.epoch);
        if (batch.epoch < 4)
            pairs[s][batch.epoch] += hash_pairs(&batch);
        n_rows[s]++;
        for (s = 0; s < N_SOURCES; s++)
            EXPECT(n_rows[s] * MILLION + MILLION > n * (uint64_t)weights[s] &&
                   n_rows[s] * MILLION < n * (uint64_t)weights[s] + MILLION);
    }
    for (int s = 0; s < N_SOURCES; s++)
        for (uint64_t e = 0; e < 4 && (e + 1) * rows[s] <= n_rows[s]; e++)
            EXPECT(pairs[s][e] == want[s]);
    EXPECT(n_rows[0] >= 4 * rows[0]);
    tess_loader_destroy(&loader);
    tess_tokenizer_destroy(&tokenizer);
}

static void ranks_share_one_mixture_and_a_cursor_finds_any_batch_again(void)
{
    enum { N = 60 };
    tess_tokenizer *tokenizer = the_tokenizer();
    tess_loader_options options = mixture_of(write_sources());
    uint64_t want[N];
    tess_data_cursor cursors[N];
    tess_loader *loader;
    tess_micro_batch batch;
    bool end;
    options.micro_batch = 3;
    EXPECT_OK(tess_loader_create(test_mem(), tokenizer, &options, &loader));
    for (int i = 0; i < N; i++) {
        tess_loader_cursor(loader, &cursors[i]);
        EXPECT_OK(tess_loader_next(loader, 0, &batch, &end));
        want[i] = hash_batch(&batch);
    }
    for (int i = N - 1; i >= 0; i -= 7) {
        EXPECT_OK(tess_loader_seek(loader, &cursors[i]));
        EXPECT_OK(tess_loader_next(loader, 0, &batch, &end));
        EXPECT(hash_batch(&batch) == want[i]);
    }
    for (int world = 2; world <= 8; world += 3)
        for (int rank = 0; rank < world; rank++) {
            EXPECT_OK(tess_loader_seek(loader, &(tess_data_cursor){0}));
            for (int g = rank; g < N; g += world) {
                EXPECT_OK(tess_loader_next(loader, g == rank ? rank : world - 1, &batch, &end));
                EXPECT(hash_batch(&batch) == want[g]);
            }
        }
    EXPECT_FAILS(tess_loader_seek(loader, &(tess_data_cursor){.n = 2}), TESS_E_INVALID, "a position in 2 sources");
    tess_loader_destroy(&loader);
    tess_tokenizer_destroy(&tokenizer);
}

static const test_case cases[] = {
    CASE(shares_are_exact_to_a_row_after_any_number_of_rows),
    CASE(each_source_gives_every_token_once_an_epoch_of_its_own),
    CASE(ranks_share_one_mixture_and_a_cursor_finds_any_batch_again),
};
TEST_MAIN(cases)
