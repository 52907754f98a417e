/* The layout of persistent memory: written as overrides that give the same layout, and refused if its values are wild.
 */
#include "support/test.h"

#include "config/run_layout.h"

static tess_run_layout layout_of(const char *text, int n_ranks)
{
    tess_config config;
    tess_run_layout layout;
    EXPECT_OK(tess_config_parse(test_mem(), text, strlen(text), "c.yaml", &config));
    EXPECT_OK(tess_config_check_step(&config, n_ranks));
    tess_run_layout_of(&config, &layout);
    EXPECT(tess_run_layout_is_valid(&layout));
    tess_config_free(&config);
    return layout;
}

static void words_make_a_command_with_the_same_layout(void)
{
    char words[TESS_LAYOUT_KEYS][TESS_RUN_LAYOUT_OVERRIDE];
    tess_run_layout hybrid = layout_of("training:\n  local_batch_size: 3\n  global_batch_size: 24\n"
                                       "  mixed_precision_param: float32\n  mixed_precision_reduce: bfloat16\n"
                                       "parallelism:\n  shard_strategy: hybrid\n  data_parallel_replicate_degree: 2\n"
                                       "  fsdp_unit_blocks: 2\n  fsdp_unit_bytes: 25MiB\n  fsdp_unit_mixed: true\n",
                                       8);
    tess_config config;
    EXPECT_OK(tess_config_parse(test_mem(), "", 0, "c.yaml", &config));
    int n = tess_run_layout_words(&hybrid, NULL, words);
    EXPECT_INT(n, TESS_LAYOUT_KEYS);
    for (int i = 0; i < n; i++)
        EXPECT_OK(tess_config_override(&config, words[i]));
    tess_run_layout again;
    tess_run_layout_of(&config, &again);
    EXPECT(memcmp(&hybrid, &again, sizeof(hybrid)) == 0);
    tess_config_free(&config);
}

static void only_what_differs_is_told(void)
{
    char words[TESS_LAYOUT_KEYS][TESS_RUN_LAYOUT_OVERRIDE];
    tess_run_layout usual = layout_of("", 2), fewer = layout_of("training:\n  local_batch_size: 4\n", 2);
    EXPECT_INT(tess_run_layout_words(&usual, &usual, words), 0);
    EXPECT_INT(tess_run_layout_words(&fewer, &usual, words), 2);
    EXPECT_TEXT(words[0], "training.local_batch_size=4");
    EXPECT_TEXT(words[1], "training.global_batch_size=8");
}

static void wild_values_are_none(void)
{
    static const int64_t wild[] = {-7, INT64_MIN, INT64_MAX, (1LL << 50) + 1};
    tess_run_layout usual = layout_of("", 2);
    for (int key = 0; key < TESS_LAYOUT_KEYS; key++)
        for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
            tess_run_layout layout = usual;
            layout.value[key] = wild[i];
            EXPECT(!tess_run_layout_is_valid(&layout));
        }
}

static const test_case cases[] = {
    {"words_make_a_command_with_the_same_layout", words_make_a_command_with_the_same_layout},
    {"only_what_differs_is_told", only_what_differs_is_told},
    {"wild_values_are_none", wild_values_are_none},
};

TEST_MAIN(cases)
