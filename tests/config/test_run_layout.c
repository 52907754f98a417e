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

/* Counts the options that decide the layout, but for the number of shards, which follows from the others. */
static int n_keys(void)
{
    int n_tables, n = -1;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].section->n_rows; i++)
            n += (tables[t].section->rows[i].effect & TESS_EFFECT_LAYOUT) != 0;
    return n;
}

static void words_make_a_command_with_the_same_layout(void)
{
    const char *words[TESS_LAYOUT_MOST];
    tess_run_layout hybrid = layout_of("training:\n  local_batch_size: 3\n  global_batch_size: 24\n"
                                       "  mixed_precision_param: float32\n  mixed_precision_reduce: bfloat16\n"
                                       "parallelism:\n  shard_strategy: hybrid\n  data_parallel_replicate_degree: 2\n"
                                       "  fsdp_unit_blocks: 2\n  fsdp_unit_bytes: 25MiB\n  fsdp_unit_mixed: true\n"
                                       "  rank_order: [0, 2-6:2, 1-7:2]\n  inside_hosts: dp_shard\n"
                                       "  pipeline_parallel_split_points: [layers.2]\n"
                                       "optimizer:\n  weight_decay: 0.12345678901234567\n",
                                       8);
    tess_config config;
    EXPECT_OK(tess_config_parse(test_mem(), "", 0, "c.yaml", &config));
    int n = tess_run_layout_words(&hybrid, NULL, words);
    EXPECT_INT(n, n_keys());
    for (int i = 0; i < n; i++)
        EXPECT_OK(tess_config_override(&config, words[i]));
    tess_run_layout again;
    tess_run_layout_of(&config, &again);
    EXPECT(memcmp(&hybrid, &again, sizeof(hybrid)) == 0);
    tess_config_free(&config);
}

/* All options that decide the layout fit, also with lists of many items. */
static void the_layout_is_of_all_options_that_decide_it(void)
{
    char order[TESS_TEXT_SIZE] = "parallelism.rank_order=0", points[TESS_TEXT_SIZE];
    const char *words[TESS_LAYOUT_MOST];
    tess_config config;
    tess_run_layout layout;
    EXPECT_OK(tess_config_parse(test_mem(), "", 0, "c.yaml", &config));
    for (int i = 1; i < TESS_LIST_SIZE; i++)
        sprintf(order + strlen(order), ",%d-%d:%d", 1000 + i, 2000 + i, 100 + i);
    snprintf(points, sizeof(points), "parallelism.pipeline_parallel_split_points=model.layers.0");
    for (int i = 1; i < TESS_LIST_SIZE; i++)
        sprintf(points + strlen(points), ",layers.%d", 100 + i);
    EXPECT_OK(tess_config_override(&config, order));
    EXPECT_OK(tess_config_override(&config, points));
    tess_run_layout_of(&config, &layout);
    EXPECT(tess_run_layout_is_valid(&layout));
    EXPECT_INT(tess_run_layout_words(&layout, NULL, words), n_keys());
    EXPECT(n_keys() < TESS_LAYOUT_MOST);
    tess_config_free(&config);
}

/* Moments of one optimizer are no state for another. */
static void another_optimizer_is_another_layout(void)
{
    const char *words[TESS_LAYOUT_MOST];
    tess_run_layout adamw = layout_of("", 2), muon = layout_of("optimizer:\n  name: muon\n", 2);
    EXPECT_INT(tess_run_layout_words(&muon, &adamw, words), 1);
    EXPECT_TEXT(words[0], "optimizer.name=muon");
    tess_run_layout decay = layout_of("optimizer:\n  weight_decay: 0.3\n", 2);
    EXPECT_INT(tess_run_layout_words(&decay, &adamw, words), 1);
    EXPECT_TEXT(words[0], "optimizer.weight_decay=0.3");
}

static void only_what_differs_is_told(void)
{
    const char *words[TESS_LAYOUT_MOST];
    tess_run_layout usual = layout_of("", 2), fewer = layout_of("training:\n  local_batch_size: 4\n", 2);
    EXPECT_INT(tess_run_layout_words(&usual, &usual, words), 0);
    EXPECT_INT(tess_run_layout_words(&fewer, &usual, words), 2);
    EXPECT_TEXT(words[0], "training.local_batch_size=4");
    EXPECT_TEXT(words[1], "training.global_batch_size=8");
}

/* Returns the layout with `text` in place of the word `number`. */
static tess_run_layout with_word(const tess_run_layout *layout, int number, const char *text)
{
    const char *words[TESS_LAYOUT_MOST];
    tess_run_layout changed = {""};
    char *at = changed.text;
    int n = tess_run_layout_words(layout, NULL, words);
    for (int i = 0; i < n; i++)
        at += sprintf(at, "%s", i == number ? text : words[i]) + 1;
    return changed;
}

static void wild_values_are_none(void)
{
    const char *words[TESS_LAYOUT_MOST];
    const tess_run_layout usual = layout_of("", 2);
    int n = tess_run_layout_words(&usual, NULL, words);
    for (int i = 0; i < n; i++) {
        char wild[TESS_TEXT_SIZE];
        const int key = (int)(strchr(words[i], '=') - words[i]);
        tess_run_layout layout = with_word(&usual, i, words[i]);
        EXPECT(tess_run_layout_is_valid(&layout));
        if (strstr(words[i], "rank_order") == NULL && strstr(words[i], "split_points") == NULL) { /* any list is one */
            snprintf(wild, sizeof(wild), "%.*s=-1e60", key, words[i]);
            layout = with_word(&usual, i, wild);
            EXPECT(!tess_run_layout_is_valid(&layout));
        }
        layout = with_word(&usual, i, "training.steps=5"); /* no option that decides it */
        EXPECT(!tess_run_layout_is_valid(&layout));
        layout = with_word(&usual, i, "no word");
        EXPECT(!tess_run_layout_is_valid(&layout));
        layout = with_word(&usual, i, words[(i + 1) % n]);
        EXPECT(!tess_run_layout_is_valid(&layout));
        layout = with_word(&usual, i, ""); /* it ends here */
        EXPECT(!tess_run_layout_is_valid(&layout));
    }
    tess_run_layout layout = usual;
    layout.text[sizeof(layout.text) - 1] = 'x'; /* it does not end */
    EXPECT(!tess_run_layout_is_valid(&layout));
    memset(&layout, 'x', sizeof(layout));
    EXPECT(!tess_run_layout_is_valid(&layout));
    layout = usual;
    layout.text[sizeof(layout.text) - 2] = 'x'; /* something follows the end */
    EXPECT(!tess_run_layout_is_valid(&layout));
}

static const test_case cases[] = {
    CASE(words_make_a_command_with_the_same_layout),
    CASE(the_layout_is_of_all_options_that_decide_it),
    CASE(another_optimizer_is_another_layout),
    CASE(only_what_differs_is_told),
    CASE(wild_values_are_none),
};

TEST_MAIN(cases)
