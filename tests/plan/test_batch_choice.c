/* The largest micro-batch that fits is found among those that leave no rank idle. */
#include "support/rig.h"

#include <stdio.h>
#include <string.h>

#include "engine/model/model_file.h"
#include "plan/batch_choice.h"

/* A made-up memory: `fixed` bytes, and `each` for a row. Sizes from `unplanned` on cannot be planned. */
typedef struct made_up {
    double fixed, each;
    int64_t unplanned;
    int n_asked;
} made_up;

static tess_status need_of(void *self, const tess_config *config, double *bytes)
{
    made_up *m = self;
    const int64_t rows = config->training.local_batch_size;
    m->n_asked++;
    TESS_CHECK(m->unplanned == 0 || rows < m->unplanned, TESS_E_NOMEM, "no addresses for %lld rows", (long long)rows);
    *bytes = m->fixed + m->each * (double)rows;
    return TESS_OK;
}

static tess_model_config model_of_layers(int64_t n_layers)
{
    tess_config config = {0};
    tess_model_config model;
    test_configure(&config, 1, "model.config=llama-5m");
    EXPECT_OK(tess_config_load_model(&config, NULL, &model));
    tess_config_free(&config);
    model.n_layers = n_layers;
    return model;
}

static tess_status find(const char *settings, int n_ranks, double room, made_up *m, tess_batch_choice *found)
{
    TESS_AUTO(tess_config_free) tess_config config = {0};
    const tess_model_config model = model_of_layers(8);
    char words[512], *save = NULL;
    EXPECT_OK(tess_config_load(test_mem(), NULL, NULL, 0, &config));
    snprintf(words, sizeof(words), "%s training.local_batch_size=auto", settings);
    for (char *word = strtok_r(words, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save))
        EXPECT_OK(tess_config_override(&config, word));
    EXPECT(tess_config_batch_is_open(&config));
    const tess_batch_search search = {
        .config = &config, .model = &model, .n_ranks = n_ranks, .room = room, .need = need_of, .self = m};
    return tess_batch_choose(test_mem(), &search, found);
}

static void the_largest_divisor_that_fits_and_leaves_no_rank_idle(void)
{
    static const struct {
        const char *settings;
        int n_ranks;
        double room;
        int64_t rows, next;
    } cases[] = {
        {"training.global_batch_size=48", 1, 10 + 7 * 5, 6, 8},
        {"training.global_batch_size=48", 1, 10 + 8 * 5, 8, 12}, /* exactly */
        {"training.global_batch_size=48", 1, 1e9, 48, 0},
        {"training.global_batch_size=48", 8, 1e9, 6, 0}, /* 8 rows would be 6 micro-batches for 8 ranks */
        {"training.global_batch_size=48", 5, 1e9, 2, 0}, /* a rank has 10 rows at least, and 12 with 3 */
        {"training.global_batch_size=7", 8, 1e9, 1, 0},
        {"training.global_batch_size=48 training.passes=5", 1, 1e9, 48, 0},
        {"training.global_batch_size=0", 3, 10 + 777 * 5, 777, 778},
        {"training.global_batch_size=0", 3, 1e9, 65536, 0},
        {"training.global_batch_size=48 parallelism.pipeline_parallel_degree=4", 4, 1e9, 12, 0},
        /* The schedule wants a multiple of 4 micro-batches: not 6 of 8 rows. */
        {"training.global_batch_size=48 parallelism.pipeline_parallel_degree=4 "
         "parallelism.pipeline_parallel_schedule=interleaved",
         4, 10 + 11 * 5, 6, 12},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tess_batch_choice found;
        made_up m = {.fixed = 10, .each = 5};
        EXPECT_OK(find(cases[i].settings, cases[i].n_ranks, cases[i].room, &m, &found));
        if (!found.fits || found.rows != cases[i].rows || found.next_rows != cases[i].next) {
            fprintf(stderr, "%s, %d ranks: %lld rows, next %lld\n", cases[i].settings, cases[i].n_ranks,
                    (long long)found.rows, (long long)found.next_rows);
            EXPECT(false);
        }
        EXPECT(found.bytes == 10 + 5 * (double)found.rows);
        EXPECT(m.n_asked < 40); /* not every size is planned */
    }
}

static void what_cannot_be_planned_is_too_large(void)
{
    tess_batch_choice found;
    made_up m = {.fixed = 10, .each = 5, .unplanned = 100};
    EXPECT_OK(find("", 1, 1e9, &m, &found));
    EXPECT_INT(found.rows, 99);
    EXPECT_INT(found.next_rows, 0);
    EXPECT_OK(find("training.passes=2", 1, 12, &m, &found));
    EXPECT(!found.fits);
    EXPECT_INT(found.rows, 2);
    EXPECT(found.bytes == 20);
    m.unplanned = 1;
    EXPECT_FAILS(find("", 1, 1e9, &m, &found), TESS_E_NOMEM, "no addresses for 1 rows");
    EXPECT_FAILS(find("training.global_batch_size=7 training.passes=8", 1, 1e9, &m, &found), TESS_E_INVALID,
                 "no divisor of training.global_batch_size=7 is at least training.passes=8");
}

static void commands_that_do_not_choose_assume_a_size_that_may_be_chosen(void)
{
    static const struct {
        int64_t passes, global, rows;
    } cases[] = {{1, 0, 1}, {4, 0, 4}, {4, 10, 5}, {6, 10, 10}, {4, 8, 4}, {8, 7, 7}};
    tess_config config;
    test_configure(&config, 1, "model.config=llama-5m");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        config.training.local_batch_size = 0;
        config.training.passes = cases[i].passes;
        config.training.global_batch_size = cases[i].global;
        tess_config_assume_batch(&config);
        EXPECT_INT(config.training.local_batch_size, cases[i].rows);
    }
    config.training.local_batch_size = 3;
    tess_config_assume_batch(&config);
    EXPECT_INT(config.training.local_batch_size, 3);
    tess_config_free(&config);
}

static const test_case cases[] = {
    CASE(commands_that_do_not_choose_assume_a_size_that_may_be_chosen),
    CASE(the_largest_divisor_that_fits_and_leaves_no_rank_idle),
    CASE(what_cannot_be_planned_is_too_large),
};
TEST_MAIN(cases)
