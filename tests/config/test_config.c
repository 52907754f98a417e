/* Configurations: files, overrides, checks, and messages. */
#include "support/sizes.h"

#include "nn/model.h"
#include "config/foreign_keys.h"
#include "config/config.h"

/* Replaces a configuration, which may be zero. */
static tess_status parse(tess_config *config, const char *text)
{
    tess_config_free(config);
    return tess_config_parse(test_mem(), text, strlen(text), "c.yaml", config);
}

static void defaults_parse_and_stay_in_range(void)
{
    tess_config config = {0};
    EXPECT_OK(parse(&config, ""));
    EXPECT_INT(config.training.steps, 1000);
    EXPECT_INT(config.parallelism.data_parallel_shard_degree, -1);
    EXPECT(config.validation.fraction == 0.05);
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].section->n_rows; i++) {
            const tess_option *row = &tables[t].section->rows[i];
            const char *name = tables[t].section->name;
            char value[2048];
            size_t n = strlen(name);
            EXPECT(strncmp(row->key, name, n) == 0 && row->key[n] == '.');
            /* The printed value can be set again. */
            EXPECT_OK(tess_options_format(row, tess_options_section(&tables[t], &config), value, sizeof(value)));
            EXPECT_OK(tess_options_set(tables, n_tables, &config, row->key, value, "test"));
        }
    tess_config_free(&config);
}

static void sizes_have_units(void)
{
    int n_tables;
    tess_config config = {0};
    const tess_option_table *tables = tess_config_tables(&n_tables);
    EXPECT_OK(parse(&config, ""));
    EXPECT(test_sizes_have_units(tables, n_tables, &config) >= 8);
    tess_config_free(&config);
}

static void keys_of_other_programs_lead_to_keys_that_exist(void)
{
    int n = 0, n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    tess_foreign_key row, found;
    for (const char *at = NULL; (at = tess_foreign_next(at, &row)) != NULL; n++) {
        char word[TESS_FOREIGN_SIZE];
        tess_foreign_normalize(row.key, word);
        EXPECT_TEXT(word, row.key);
        EXPECT(!tess_options_has(tables, n_tables, row.key)); /* or it would never be found */
        EXPECT(tess_foreign_find(row.key, &found) && strcmp(found.key, row.key) == 0);
        EXPECT(row.ours[0] != '\0' || row.note[0] != '\0');
        EXPECT(row.ours[0] == '\0' || tess_options_has(tables, n_tables, row.ours));
        EXPECT(strlen(row.key) + 1 < sizeof(row.key) && strlen(row.note) + 1 < sizeof(row.note)); /* no text is cut */
    }
    EXPECT_INT(n, 185);
}

static void values_of_every_type_are_read(void)
{
    tess_config config = {0};
    EXPECT_OK(parse(&config,
                    "training:\n  steps: 12_000\n  max_norm: 0.5\n  mixed_precision_param: float32\n"
                    "data:\n  files: [a.txt, \"b c.jsonl\"]\n  shuffle: off\njob: {dump_folder: 'x y'}\noptimizer:\n"));
    EXPECT_INT(config.training.steps, 12000);
    EXPECT(config.training.max_norm == 0.5);
    EXPECT_INT(config.training.mixed_precision_param, TESS_PRECISION_F32);
    EXPECT_INT(config.data.files.n, 2);
    EXPECT_TEXT(config.data.files.item[1], "b c.jsonl");
    EXPECT(!config.data.shuffle);
    EXPECT_TEXT(config.job.dump_folder, "x y");
    static const char *const sizes[] = {"offload.resident=6KiB", "rollout.cache_bytes=6KiB", "rollout.sync_bytes=6KiB",
                                        "reward.max_answer_bytes=6KiB", "reward.max_memory_bytes=6KiB"};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        EXPECT_OK(tess_config_override(&config, sizes[i]));
    EXPECT_INT(config.offload.resident, 6144);
    EXPECT_OK(tess_config_override(&config, "data.files=one,two"));
    EXPECT_TEXT(config.data.files.item[1], "two");
    EXPECT_OK(tess_config_override(&config, "data.files=[./page, --team, training]")); /* the form of the file */
    EXPECT_INT(config.data.files.n, 3);
    EXPECT_TEXT(config.data.files.item[0], "./page");
    EXPECT_TEXT(config.data.files.item[1], "--team");
    EXPECT_TEXT(config.data.files.item[2], "training");
    EXPECT_OK(tess_config_override(&config, "data.files=[]"));
    EXPECT_INT(config.data.files.n, 0);
    EXPECT_OK(tess_config_override(&config, "data.files=a[1].txt,[2].txt")); /* brackets inside names stay */
    EXPECT_INT(config.data.files.n, 2);
    EXPECT_TEXT(config.data.files.item[1], "[2].txt");
    EXPECT_OK(tess_config_override(&config, "data.files=one,two"));
    tess_config_free(&config);
}

static void mistakes_name_the_line_and_the_fix(void)
{
    tess_config config = {0};
    EXPECT_FAILS(parse(&config, "training:\n  stepps: 3\n"), TESS_E_INVALID,
                 "c.yaml:2: unknown key 'training.stepps': did you mean "
                 "'training.steps'?");
    EXPECT_FAILS(parse(&config, "optimiser:\n  lr: 3\n"), TESS_E_INVALID, "did you mean 'optimizer.lr'?");
    EXPECT_FAILS(parse(&config, "training:\n  steps: many\n"), TESS_E_INVALID,
                 "c.yaml:2: training.steps: 'many' is not a number");
    EXPECT_FAILS(parse(&config, "training:\n  steps: 0\n"), TESS_E_INVALID, "0 is outside 1 .. 1000000000000");
    EXPECT_FAILS(parse(&config, "training:\n  steps: nan\n"), TESS_E_INVALID, "not a number");
    EXPECT_FAILS(
        parse(&config, "training:\n  steps: 000000000000000000000000000000000000000000000000000000000000012many\n"),
        TESS_E_INVALID, "not a number");
    EXPECT_FAILS(parse(&config, "training: 3\n"), TESS_E_FORMAT, "'training' is a section");
    EXPECT_FAILS(parse(&config, "- a\n"), TESS_E_FORMAT, "expected sections");
    EXPECT_FAILS(parse(&config, "a: {b: {c: 1}}\n"), TESS_E_FORMAT, "expected a value");
    EXPECT_FAILS(parse(&config, "training:\n  steps: [1\n"), TESS_E_FORMAT, "not valid YAML");
    EXPECT_FAILS(parse(&config, "training:\n  steps: 3\n  seq_len: 8\n  steps: 4\n"), TESS_E_FORMAT,
                 "c.yaml:4: 'training.steps' is given again: it is on line 2 already");
    EXPECT_FAILS(parse(&config, "training: {steps: 3}\ndata:\ntraining: {seq_len: 8}\n"), TESS_E_FORMAT,
                 "c.yaml:3: 'training' is given again: it is on line 1 already");
    EXPECT_FAILS(parse(&config, "parallelism:\n  shard_strategy: zero3\n"), TESS_E_INVALID,
                 "none|zero1|zero2|full|hybrid");
    EXPECT_FAILS(tess_config_override(&config, "steps"), TESS_E_INVALID, "section.key=value");
    tess_config_free(&config);
}

static void relations_are_checked_for_the_world_size(void)
{
    tess_config config = {0};
    const char *text =
        "data: {files: [a]}\nmodel: {config: m.json}\ntraining: {local_batch_size: 2, global_batch_size: 12}\n";
    EXPECT_OK(parse(&config, text));
    EXPECT_OK(tess_config_check(&config, 6));
    EXPECT_INT(config.parallelism.data_parallel_shard_degree, 6);
    EXPECT_OK(parse(&config, text));
    EXPECT_OK(tess_config_check(&config, 4)); /* two ranks have a micro-batch less */
    EXPECT_OK(tess_config_override(&config, "parallelism.data_parallel_replicate_degree=4"));
    EXPECT_FAILS(tess_config_check(&config, 6), TESS_E_INVALID,
                 "4 replicas do not divide 6 ranks: give a divisor of 6");
    EXPECT_OK(parse(&config, text));
    EXPECT_OK(tess_config_override(&config, "parallelism.fsdp_reshard_after_forward=2"));
    EXPECT_FAILS(tess_config_check(&config, 3), TESS_E_INVALID,
                 "2 does not divide the 3 ranks that share a copy of the parameters: give 1 (free), 0 (keep) or a "
                 "divisor of 3");
    EXPECT_OK(tess_config_override(&config, "parallelism.shard_strategy=zero2")); /* keeps all copies */
    EXPECT_OK(tess_config_check(&config, 3));
    EXPECT_OK(parse(&config, "model: {config: m.json}\n"));
    EXPECT_FAILS(tess_config_check(&config, 1), TESS_E_INVALID, "data.files");
    EXPECT_OK(parse(&config, "data: {files: [a]}\nmodel: {config: m.json, path: p}\n"));
    EXPECT_FAILS(tess_config_check(&config, 1), TESS_E_INVALID, "keep one");
    tess_config_free(&config);
}

static void expect_warmup(tess_config *config, const char *training, const char *scheduler, int64_t want)
{
    char text[256];
    snprintf(text, sizeof(text), "data: {files: [a]}\nmodel: {config: m.json}\ntraining: {%s}\nlr_scheduler: {%s}\n",
             training, scheduler);
    EXPECT_OK(parse(config, text));
    EXPECT_OK(tess_config_check(config, 1));
    EXPECT_INT(config->lr_scheduler.warmup_steps, want);
}

static void a_warm_up_takes_at_most_the_steps_of_the_schedule(void)
{
    tess_config config = {0};
    expect_warmup(&config, "steps: 20", "", 20);
    expect_warmup(&config, "steps: 5000", "", 100);
    expect_warmup(&config, "steps: 20", "warmup_steps: 0", 0);
    expect_warmup(&config, "steps: 20", "warmup_steps: 20", 20);
    EXPECT_OK(tess_config_override(&config, "lr_scheduler.warmup_steps=21"));
    EXPECT_OK(tess_config_check(&config, 1));
    EXPECT_INT(config.lr_scheduler.warmup_steps, 20);
    tess_config_free(&config);
}

static void activations_are_chosen_by_settings_that_agree(void)
{
    tess_config config = {0};
    static const struct {
        const char *overrides[3];
        const char *needle;
    } bad[] = {
        {{"activation_checkpoint.mode=selective"}, "or set activation_checkpoint.budget"},
        {{"activation_checkpoint.budget=1GiB"},
         "activation_checkpoint.budget needs activation_checkpoint.mode=selective"},
        {{"activation_checkpoint.recompute=attention", "activation_checkpoint.mode=full"},
         "activation_checkpoint.recompute needs activation_checkpoint.mode=selective"},
        {{"activation_checkpoint.recompute=attention,feed_foward", "activation_checkpoint.mode=selective"},
         "activation_checkpoint.recompute: unknown group of activations 'feed_foward'"},
        {{"activation_checkpoint.partition=true", "activation_checkpoint.mode=full"}, "no ranks that share layers"},
        {{"activation_checkpoint.partition=true", "parallelism.tensor_parallel_degree=2"},
         "is for layers that run again"},
    };
    unsigned groups;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        EXPECT_OK(parse(&config, "data: {files: [a]}\nmodel: {config: m.json}\n"));
        for (int k = 0; k < 3 && bad[i].overrides[k] != NULL; k++)
            EXPECT_OK(tess_config_override(&config, bad[i].overrides[k]));
        EXPECT_FAILS(tess_config_check(&config, 2), TESS_E_INVALID, bad[i].needle);
    }
    EXPECT_OK(parse(&config,
                    "data: {files: [a]}\nmodel: {config: m.json}\nactivation_checkpoint: {mode: selective, recompute: "
                    "[attention, feed_forward], budget: 2GiB}\n"));
    EXPECT_OK(tess_config_check(&config, 1));
    EXPECT_OK(tess_activation_groups(&config.activation_checkpoint, &groups));
    EXPECT_INT(groups, TESS_GROUP_FEED_FORWARD | TESS_GROUP_ATTENTION);
    EXPECT_INT(config.activation_checkpoint.budget, (int64_t)2 << 30);
    EXPECT_OK(tess_config_override(&config, "activation_checkpoint.recompute="));
    EXPECT_OK(tess_activation_groups(&config.activation_checkpoint, &groups));
    EXPECT_INT(groups, TESS_GROUP_ALL);
    tess_config_free(&config);
}

static void a_command_may_begin_with_its_first_override(void)
{
    char *const words[] = {"model.path=m", "data.files=a"}, *const file[] = {"run.yaml", "training.steps=3"};
    char *const *at = words;
    int n = 0;
    EXPECT(tess_config_take_path(&at, &n) == NULL);
    n = 2;
    EXPECT(tess_config_take_path(&at, &n) == NULL && n == 2 && at == words);
    at = file;
    EXPECT(tess_config_take_path(&at, &n) == file[0] && n == 1 && at == file + 1);
}

static void parse_hybrid(tess_config *config, const char *degrees)
{
    char text[512];
    snprintf(text, sizeof(text),
             "data: {files: [a]}\nmodel: {config: m.json}\ntraining: {local_batch_size: 1}\n"
             "parallelism: {shard_strategy: hybrid%s}\n",
             degrees);
    EXPECT_OK(parse(config, text));
}

static void expect_degrees(tess_config *config, int replicas, int shards)
{
    EXPECT_OK(tess_config_check(config, 8));
    EXPECT_INT(config->parallelism.data_parallel_replicate_degree, replicas);
    EXPECT_INT(config->parallelism.data_parallel_shard_degree, shards);
}

static void hybrid_shards_inside_hosts_and_replicates_across_them(void)
{
    tess_config config = {0};
    static const int halves[] = {4, 4}, quarters[] = {2, 2, 2, 2}, unequal[] = {4, 3, 1}, one[] = {8};
    parse_hybrid(&config, "");
    EXPECT_OK(tess_config_fit_hosts(&config, halves, 2));
    expect_degrees(&config, 2, 4);
    parse_hybrid(&config, "");
    EXPECT_OK(tess_config_fit_hosts(&config, quarters, 4));
    expect_degrees(&config, 4, 2);
    parse_hybrid(&config, "");
    EXPECT_OK(tess_config_fit_hosts(&config, one, 1));
    expect_degrees(&config, 1, 8);
    parse_hybrid(&config, "");
    EXPECT_FAILS(tess_config_fit_hosts(&config, unequal, 3), TESS_E_INVALID, "host 0 has 4 ranks and host 1 has 3");
    /* a given degree wins */
    parse_hybrid(&config, ", data_parallel_replicate_degree: 4");
    EXPECT_OK(tess_config_fit_hosts(&config, unequal, 3));
    expect_degrees(&config, 4, 2);
    parse_hybrid(&config, ", data_parallel_shard_degree: 2");
    EXPECT_OK(tess_config_fit_hosts(&config, halves, 2));
    expect_degrees(&config, 4, 2);
    parse_hybrid(&config, ", data_parallel_shard_degree: 3");
    EXPECT_FAILS(tess_config_check(&config, 8), TESS_E_INVALID, "1 replicas x 3 shards = 3 ranks, but there are 8");
    parse_hybrid(&config, ", data_parallel_replicate_degree: 0");
    EXPECT_FAILS(tess_config_check(&config, 8), TESS_E_INVALID, "-1 leaves it to the strategy");
    parse_hybrid(&config, ", data_parallel_shard_degree: 0");
    EXPECT_FAILS(tess_config_check(&config, 8), TESS_E_INVALID, "-1 takes all ranks that are left");
    /* other strategies shard over all ranks on any host */
    EXPECT_OK(parse(&config, "data: {files: [a]}\nmodel: {config: m.json}\ntraining: {local_batch_size: 1}\n"));
    EXPECT_OK(tess_config_fit_hosts(&config, unequal, 3));
    expect_degrees(&config, 1, 8);
    tess_config_free(&config);
}

static const tess_option *row_of(const char *key)
{
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].section->n_rows; i++)
            if (strcmp(tables[t].section->rows[i].key, key) == 0)
                return &tables[t].section->rows[i];
    test_fail(__FILE__, __LINE__, "no option %s", key);
    return NULL;
}

/* Options of a kind where a wrong flag would be a wrong resume, or a difference that nobody reports. */
static void every_option_says_what_it_decides(void)
{
    static const struct {
        const char *key;
        tess_option_effect effect;
    } known[] = {{"training.local_batch_size", TESS_EFFECT_LAYOUT_AND_BITS},
                 {"optimizer.name", TESS_EFFECT_LAYOUT_AND_BITS},
                 {"optimizer.lr", TESS_EFFECT_BITS},
                 {"debug.seed", TESS_EFFECT_BITS},
                 {"data.files", TESS_EFFECT_BITS},
                 {"parallelism.shard_strategy", TESS_EFFECT_LAYOUT},
                 {"offload.optimizer", TESS_EFFECT_LAYOUT},
                 {"checkpoint.interval", TESS_EFFECT_CALLS},
                 {"metrics.log_freq", TESS_EFFECT_CALLS},
                 {"training.threads", TESS_EFFECT_NOTHING},
                 {"job.description", TESS_EFFECT_NOTHING}};
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].section->n_rows; i++) {
            const tess_option *row = &tables[t].section->rows[i];
            const bool alone = row->effect == TESS_EFFECT_NOTHING || row->effect == TESS_EFFECT_CALLS;
            const bool decides = row->effect != 0 && (row->effect & ~TESS_EFFECT_LAYOUT_AND_BITS) == 0;
            if (!alone && !decides)
                test_fail(__FILE__, __LINE__, "%s: effect %d", row->key, (int)row->effect);
        }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        EXPECT_INT(row_of(known[i].key)->effect, known[i].effect);
}

/* Each value that ranks must have in common changes the hash; values that decide nothing do not. */
static void the_hash_is_of_what_ranks_have_in_common(void)
{
    static const char *const words[] = {"training.steps=7",     "optimizer.lr=0.5",
                                        "data.files=b",         "data.files=a,b",
                                        "debug.seed=1",         "metrics.log_freq=3",
                                        "fault.spec=x",         "training.fp8=true",
                                        "job.dump_folder=b",    "parallelism.fsdp_prefetch=0",
                                        "comm.reduction=native"};
    static const char *const alone[] = {"job.description=b", "training.threads=3", "reward.workers=5",
                                        "health.alert_command=a,b"};
    tess_config config = {0};
    EXPECT_OK(parse(&config, "data: {files: [a]}\n"));
    const uint64_t hash = tess_config_hash(&config);
    for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++) {
        EXPECT_OK(tess_config_override(&config, alone[i]));
        EXPECT(tess_config_hash(&config) == hash);
    }
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        EXPECT_OK(parse(&config, "data: {files: [a]}\n"));
        EXPECT_OK(tess_config_override(&config, words[i]));
        if (tess_config_hash(&config) == hash)
            test_fail(__FILE__, __LINE__, "%s does not change the hash", words[i]);
    }
    tess_config_free(&config);
}

/* verify --layouts changes these: they must not change bits. */
static void each_axis_is_an_option_of_the_layout_alone(void)
{
    tess_config config = {0};
    tess_axis axes[TESS_MESH_MAX_AXES];
    int n_tables, n = 0;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].section->n_rows; i++) {
            const tess_option *row = &tables[t].section->rows[i];
            n += row->axis != NULL;
            EXPECT(row->axis == NULL || (row->effect == TESS_EFFECT_LAYOUT && row->type == TESS_OPTION_INT));
        }
    EXPECT_INT(n, TESS_AXES);
    EXPECT_INT(row_of("parallelism.shard_strategy")->effect, TESS_EFFECT_LAYOUT);
    EXPECT_INT(row_of("parallelism.pipeline_parallel_schedule")->effect, TESS_EFFECT_LAYOUT);
    EXPECT_OK(parse(&config, ""));
    for (int axis = 0; axis < TESS_AXES; axis++)
        *tess_axis_degree(&config.parallelism, axis) = axis + 2;
    EXPECT_INT(config.parallelism.pipeline_parallel_degree, TESS_AXIS_PP + 2);
    EXPECT_INT(config.parallelism.data_parallel_replicate_degree, TESS_AXIS_REPLICATE + 2);
    EXPECT_INT(config.parallelism.data_parallel_shard_degree, TESS_AXIS_SHARD + 2);
    EXPECT_INT(config.parallelism.tensor_parallel_degree, TESS_AXIS_TP + 2);
    EXPECT_INT(tess_axes_of(&config.parallelism, axes), TESS_AXES);
    EXPECT_TEXT(axes[0].name, "pp");
    EXPECT_INT(axes[TESS_AXES - 1].size, TESS_AXES + 1);
    for (int axis = 0; axis < TESS_AXES; axis++)
        *tess_axis_degree(&config.parallelism, axis) = 1;
    EXPECT_INT(tess_axes_of(&config.parallelism, axes), 2);
    EXPECT_TEXT(axes[0].name, "dp_replicate");
    tess_config_free(&config);
}

/* A copy keeps its lists when the original changes or ends, and hashes like it. */
static void a_copy_has_lists_of_its_own(void)
{
    tess_config config = {0}, copy;
    EXPECT_OK(parse(&config, "data: {files: [a, 'b,c']}\nrollout: {stop: [x]}\ntraining: {steps: 7}\n"));
    EXPECT_OK(tess_config_copy(&config, &copy));
    EXPECT(tess_config_hash(&copy) == tess_config_hash(&config));
    EXPECT_OK(tess_config_override(&config, "data.files=d"));
    EXPECT(tess_config_hash(&copy) != tess_config_hash(&config));
    EXPECT_OK(tess_config_override(&copy, "rollout.stop="));
    EXPECT_INT(config.rollout.stop.n, 1);
    tess_config_free(&config);
    EXPECT_INT(config.data.files.n, 0);
    EXPECT_INT(copy.data.files.n, 2);
    EXPECT_TEXT(copy.data.files.item[0], "a");
    EXPECT_TEXT(copy.data.files.item[1], "b,c");
    EXPECT_INT(copy.training.steps, 7);
    tess_config_free(&copy);
}

static const test_case cases[] = {
    CASE(a_copy_has_lists_of_its_own),
    CASE(every_option_says_what_it_decides),
    CASE(the_hash_is_of_what_ranks_have_in_common),
    CASE(each_axis_is_an_option_of_the_layout_alone),
    CASE(defaults_parse_and_stay_in_range),
    CASE(sizes_have_units),
    CASE(keys_of_other_programs_lead_to_keys_that_exist),
    CASE(values_of_every_type_are_read),
    CASE(mistakes_name_the_line_and_the_fix),
    CASE(relations_are_checked_for_the_world_size),
    CASE(a_warm_up_takes_at_most_the_steps_of_the_schedule),
    CASE(activations_are_chosen_by_settings_that_agree),
    CASE(a_command_may_begin_with_its_first_override),
    CASE(hybrid_shards_inside_hosts_and_replicates_across_them),
};
TEST_MAIN(cases)
