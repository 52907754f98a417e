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
    char words[TESS_LAYOUT_MOST][TESS_RUN_LAYOUT_OVERRIDE];
    tess_run_layout hybrid = layout_of("training:\n  local_batch_size: 3\n  global_batch_size: 24\n"
                                       "  mixed_precision_param: float32\n  mixed_precision_reduce: bfloat16\n"
                                       "parallelism:\n  shard_strategy: hybrid\n  data_parallel_replicate_degree: 2\n"
                                       "  fsdp_unit_blocks: 2\n  fsdp_unit_bytes: 25MiB\n  fsdp_unit_mixed: true\n",
                                       8);
    tess_config config;
    EXPECT_OK(tess_config_parse(test_mem(), "", 0, "c.yaml", &config));
    int n = tess_run_layout_words(&hybrid, NULL, words);
    EXPECT_INT(n, tess_run_layout_keys());
    for (int i = 0; i < n; i++)
        EXPECT_OK(tess_config_override(&config, words[i]));
    tess_run_layout again;
    tess_run_layout_of(&config, &again);
    EXPECT(memcmp(&hybrid, &again, sizeof(hybrid)) == 0);
    tess_config_free(&config);
}

static int n_floats(void)
{
    int n_tables, n = 0;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].section->n_rows; i++) {
            const tess_option *row = &tables[t].section->rows[i];
            n += (row->effect & TESS_EFFECT_LAYOUT) != 0 && row->type == TESS_OPTION_FLOAT;
        }
    return n;
}

/* Every option that decides the layout is a number, a choice or a switch, and they fit. */
static void the_layout_is_of_all_options_that_decide_it(void)
{
    int n_tables, n = 0;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].section->n_rows; i++) {
            const tess_option *row = &tables[t].section->rows[i];
            if ((row->effect & TESS_EFFECT_LAYOUT) == 0)
                continue;
            n++;
            EXPECT(row->type == TESS_OPTION_INT || row->type == TESS_OPTION_BYTES || row->type == TESS_OPTION_BOOL ||
                   row->type == TESS_OPTION_CHOICE || row->type == TESS_OPTION_FLOAT);
        }
    EXPECT_INT(n, tess_run_layout_keys() + 1); /* the number of shards follows from the others */
    EXPECT(n < TESS_LAYOUT_MOST);
}

/* Moments of one optimizer are no state for another. */
static void another_optimizer_is_another_layout(void)
{
    char words[TESS_LAYOUT_MOST][TESS_RUN_LAYOUT_OVERRIDE];
    tess_run_layout adamw = layout_of("", 2), muon = layout_of("optimizer:\n  name: muon\n", 2);
    EXPECT_INT(tess_run_layout_words(&muon, &adamw, words), 1);
    EXPECT_TEXT(words[0], "optimizer.name=muon");
    tess_run_layout decay = layout_of("optimizer:\n  weight_decay: 0.3\n", 2);
    EXPECT_INT(tess_run_layout_words(&decay, &adamw, words), 1);
    EXPECT_TEXT(words[0], "optimizer.weight_decay=0.3");
}

static void only_what_differs_is_told(void)
{
    char words[TESS_LAYOUT_MOST][TESS_RUN_LAYOUT_OVERRIDE];
    tess_run_layout usual = layout_of("", 2), fewer = layout_of("training:\n  local_batch_size: 4\n", 2);
    EXPECT_INT(tess_run_layout_words(&usual, &usual, words), 0);
    EXPECT_INT(tess_run_layout_words(&fewer, &usual, words), 2);
    EXPECT_TEXT(words[0], "training.local_batch_size=4");
    EXPECT_TEXT(words[1], "training.global_batch_size=8");
}

/* The last value is wild for whole numbers only: its bits are those of a small positive number. */
static void wild_values_are_none(void)
{
    static const int64_t wild[] = {-7, INT64_MIN, INT64_MAX, (1LL << 50) + 1};
    int n_valid = 0;
    tess_run_layout usual = layout_of("", 2);
    for (int key = 0; key < tess_run_layout_keys(); key++)
        for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
            tess_run_layout layout = usual;
            layout.value[key] = wild[i];
            bool valid = tess_run_layout_is_valid(&layout);
            EXPECT(!valid || i == 3);
            n_valid += valid;
        }
    EXPECT_INT(n_valid, n_floats());
    usual.keys ^= 1; /* a program with other options */
    EXPECT(!tess_run_layout_is_valid(&usual));
}

static const test_case cases[] = {
    CASE(words_make_a_command_with_the_same_layout),
    CASE(the_layout_is_of_all_options_that_decide_it),
    CASE(another_optimizer_is_another_layout),
    CASE(only_what_differs_is_told),
    CASE(wild_values_are_none),
};

TEST_MAIN(cases)
