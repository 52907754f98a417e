/* `tessera init`: writes a configuration to begin with. Its comments are the helps of the options. */
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "cli/cli.h"
#include "config/config.h"

/* A kind of run. `settings` ends with NULL; they come after those of all kinds. Keys without a value have none that
 * fits all: the user names it. */
typedef struct init_kind {
    const char *name, *title;
    const char *command; /* command that starts the run */
    const char *const *settings;
} init_kind;

/* clang-format off */
static const char *const of_all[] = {
    "training.steps=500", "training.local_batch_size=4", "training.seq_len=1024", "optimizer.weight_decay=0",
    "lr_scheduler.warmup_steps=20", "checkpoint.interval=100", "validation.fraction=0.05", "validation.interval=50",
    "metrics.log_freq=10", NULL};

static const char *const pretrain[] = {
    "job.dump_folder=out/pretrain", "model.config=llama-5m", "data.files=book.txt", "training.steps=450",
    "training.global_batch_size=8", "training.seq_len=256", "training.max_norm=1.0", "optimizer.lr=3e-3",
    "optimizer.weight_decay=0.1", "lr_scheduler.warmup_steps=40", "lr_scheduler.decay_type=cosine",
    "lr_scheduler.min_lr_factor=0.05", "parallelism.shard_strategy=full", "checkpoint.interval=225",
    "validation.interval=150", "metrics.log_freq=25", "sample.prompt=The", NULL};
static const char *const text[] = {
    "job.dump_folder=out/text", "model.path=models/base", "data.files=book.txt", "training.global_batch_size=8",
    "training.seq_len=512", "training.max_norm=1.0", "optimizer.lr=2e-5", "optimizer.weight_decay=0.1",
    "activation_checkpoint.mode=none", "parallelism.shard_strategy=full", "validation.interval=100", NULL};
static const char *const chat[] = {
    "job.dump_folder=out/chat", "model.path=models/base", "data.files=chats.jsonl", "training.global_batch_size=16",
    "training.max_norm=1.0", "optimizer.lr=2e-5", "parallelism.shard_strategy=full", "validation.patience=3", NULL};
static const char *const lora[] = {
    "job.dump_folder=out/lora", "model.path=models/base", "lora.rank=16", "lora.alpha=32", "lora.targets=all-linear",
    "data.files=chats.jsonl", "training.global_batch_size=16", "training.max_norm=1.0", "optimizer.lr=2e-4",
    "activation_checkpoint.mode=full", NULL};
static const char *const rl[] = {
    "job.dump_folder=out/rl", "model.path=models/chat", "data.files=prompts.jsonl", "training.steps=200",
    "training.local_batch_size=8", "optimizer.lr=1e-6", "lr_scheduler.warmup_steps=10",
    "lr_scheduler.decay_type=constant", "rl.algorithm=grpo", "rl.kl_beta=0", "rollout.prompts=32", "rollout.n=8",
    "rollout.max_new_tokens=512", "reward.kind=number", "validation.interval=20", "checkpoint.interval=20",
    "metrics.log_freq=1", NULL};

static const init_kind kinds[] = {
    {"pretrain", "Trains a small model from random weights on plain text.", "train", pretrain},
    {"text", "Trains all weights of a model further on plain text.", "train", text},
    {"chat", "Fine-tunes all weights of a model on conversations: lines with messages, or a prompt and a completion.",
     "train", chat},
    {"lora", "Fine-tunes an adapter (LoRA) on conversations: lines with messages, or a prompt and a completion.",
     "train", lora},
    {"rl", "Teaches a model by reinforcement learning (GRPO): it answers prompts and learns from the grades.",
     "rl", rl},
};
/* clang-format on */
enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static bool names_key(const char *setting, const char *key)
{
    const size_t n = strlen(key);
    return strncmp(setting, key, n) == 0 && setting[n] == '=';
}

static bool is_in(const char *const *settings, const char *key)
{
    for (int i = 0; settings[i] != NULL; i++)
        if (names_key(settings[i], key))
            return true;
    return false;
}

static bool is_given(char *const *more, int n_more, const char *key)
{
    for (int i = 0; i < n_more; i++)
        if (names_key(more[i], key))
            return true;
    return false;
}

/* Whether the kind or the user sets the key. The model comes from one place: what the user names replaces the kind's.
 */
static bool is_set(const init_kind *kind, char *const *more, int n_more, const char *key)
{
    const bool replaced = (strcmp(key, "model.config") == 0 && is_given(more, n_more, "model.path")) ||
                          (strcmp(key, "model.path") == 0 && is_given(more, n_more, "model.config"));
    return (!replaced && (is_in(of_all, key) || is_in(kind->settings, key))) || is_given(more, n_more, key);
}

/* Writes a text in YAML: in double quotes unless all of its characters are harmless. */
static tess_status put_text(const char *key, const char *text, tess_buffer *out)
{
    static const char harmless[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
    const uint8_t *at = (const uint8_t *)text;
    uint32_t code;
    if (text[0] != '\0' && text[0] != '-' && text[strspn(text, harmless)] == '\0')
        return tess_buffer_printf(out, "%s", text);
    TESS_TRY(tess_buffer_append(out, "\"", 1));
    for (size_t left = strlen(text); left > 0;) {
        const int n = tess_utf8_decode(at, left, &code);
        TESS_CHECK(n > 0, TESS_E_INVALID, "%s: the text is not UTF-8", key);
        if (code < 0x20 || (code >= 0x7f && code < 0xa0))
            TESS_TRY(tess_buffer_printf(out, "\\x%02x", code));
        else
            TESS_TRY(tess_buffer_printf(out, "%s%.*s", code == '"' || code == '\\' ? "\\" : "", n, (const char *)at));
        at += n;
        left -= (size_t)n;
    }
    return tess_buffer_append(out, "\"", 1);
}

/* Writes the value of an option in YAML. `values` is the section's struct. */
static tess_status put_value(const tess_option *row, const void *values, tess_buffer *out)
{
    char value[2048];
    const void *field = (const char *)values + row->offset;
    if (row->type == TESS_OPTION_TEXT)
        return put_text(row->key, field, out);
    if (row->type != TESS_OPTION_LIST) {
        TESS_TRY(tess_options_format(row, values, value, sizeof(value)));
        return tess_buffer_printf(out, "%s", value);
    }
    const tess_text_list *list = field;
    TESS_TRY(tess_buffer_append(out, "[", 1));
    for (int i = 0; i < list->n; i++) {
        TESS_TRY(tess_buffer_printf(out, "%s", i > 0 ? ", " : ""));
        TESS_TRY(put_text(row->key, list->item[i], out));
    }
    return tess_buffer_append(out, "]", 1);
}

static tess_status put_config(const init_kind *kind, char *const *more, int n_more, const tess_config *config,
                              tess_buffer *out)
{
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    for (int t = 0; t < n_tables; t++) {
        const tess_option_section *section = tables[t].section;
        bool has_title = false;
        for (int i = 0; i < section->n_rows; i++) {
            const tess_option *row = &section->rows[i];
            if (!is_set(kind, more, n_more, row->key))
                continue;
            if (!has_title)
                TESS_TRY(tess_buffer_printf(out, "%s: # %s\n", section->name, section->help));
            has_title = true;
            TESS_TRY(tess_buffer_printf(out, "  %s: ", strchr(row->key, '.') + 1));
            TESS_TRY(put_value(row, tess_options_section(&tables[t], config), out));
            TESS_TRY(tess_buffer_printf(out, " # %s\n", row->help));
        }
    }
    return TESS_OK;
}

/* Loads the settings of all kinds, then those of the kind, then the user's. */
static tess_status load(tess_mem *mem, const init_kind *kind, char *const *more, int n_more, tess_config *config)
{
    enum { MOST = 64 };
    const char *settings[MOST] = {NULL};
    int n = 0;
    for (int i = 0; of_all[i] != NULL; i++)
        settings[n++] = of_all[i];
    for (int i = 0; kind->settings[i] != NULL && n + 1 < MOST; i++)
        settings[n++] = kind->settings[i];
    return tess_config_load_over(mem, settings, NULL, more, n_more, config);
}

static const init_kind *find_kind(const char *name)
{
    for (int i = 0; i < N_KINDS; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

static int run(tess_mem *mem, int argc, char **argv)
{
    tess_config config = {0};
    tess_buffer out = {.mem = mem};
    const int n = cli_parse(argc, argv, &cli_init, NULL, 0);
    const init_kind *kind = n > 0 ? find_kind(argv[1]) : NULL;
    if (kind == NULL)
        return cli_misuse(&cli_init, "%s%s%schoose pretrain, text, chat, lora or rl", n > 0 ? "no kind '" : "",
                          n > 0 ? argv[1] : "", n > 0 ? "': " : "");
    tess_status status = load(mem, kind, argv + 2, n - 1, &config);
    if (status == TESS_OK)
        status = tess_buffer_printf(&out,
                                    "# %s\n# Start it with `tessera %s FILE -n RANKS`; `tessera info FILE` shows its "
                                    "memory, and `tessera info` all other keys.\n",
                                    kind->title, kind->command);
    if (status == TESS_OK)
        status = put_config(kind, argv + 2, n - 1, &config, &out);
    tess_config_free(&config);
    return cli_end(cli_print_text(status, &out));
}

const cli_command cli_init = {"init", "pretrain|text|chat|lora|rl [section.key=value ...] > run.yaml",
                              "write a configuration to begin with, whose comments explain its keys\n"
                              "Keys that are given replace those of the kind, or are added.",
                              .examples = "tessera init pretrain data.files=book.txt > run.yaml\n"
                                          "tessera init lora model.path=models/qwen data.files=chats.jsonl > run.yaml\n"
                                          "tessera init rl model.path=models/qwen reward.kind=boxed > run.yaml",
                              .run = run};
