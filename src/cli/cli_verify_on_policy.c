/* `tessera verify on-policy`: checks that training, evaluation and generation give the same bits. */
#include "base/os/os.h"
#include "cli/cli.h"
#include "cli/cli_verify.h"
#include "verify/on_policy_source.h"

typedef struct on_policy_flags {
    const char *prompts, *dtype, *against, *device, *plant;
    int64_t new_tokens, threads, max_length, seed;
    double temperature;
    tess_form_style style;
} on_policy_flags;

static void show_progress(TESS_UNUSED void *self, const char *text)
{
    cli_status_line("verify: %s", text);
}

/* Interprets the first word: it is a model's folder, or a configuration that the following words override. */
static tess_status open_source(tess_mem *mem, const on_policy_flags *f, int threads, int n_words, char *const *words,
                               tess_on_policy_source *source)
{
    TESS_AUTO(tess_config_free) tess_config config = {0};
    const tess_reporter reporter = {cli_print_line, NULL};
    if (n_words == 1 && tess_os_is_dir(words[0]))
        return tess_on_policy_open_folder(mem, words[0], f->max_length, threads, &reporter, source);
    TESS_CHECK(f->max_length == 0, TESS_E_INVALID, "--max-length is for a folder; of a run it is model.max_length=%lld",
               (long long)f->max_length);
    const char *path = tess_config_take_path(&words, &n_words);
    TESS_TRY(tess_config_load(mem, path, words, n_words, &config));
    return tess_on_policy_open_config(mem, &config, threads, &reporter, source);
}

static tess_status verify(tess_mem *mem, const on_policy_flags *f, const tess_on_policy_plan *plan, int *code)
{
    tess_on_policy_result *result;
    tess_buffer text = {.mem = mem};
    TESS_TRY(TESS_NEW(mem, 1, "verify", &result));
    tess_status status = tess_on_policy_verify(mem, plan, result);
    cli_status_clear();
    if (status == TESS_OK)
        status = tess_on_policy_print(result, f->style, &text);
    *code = tess_on_policy_first(result) == NULL ? TESS_EXIT_OK : TESS_EXIT_FAILED;
    tess_mem_free(mem, result);
    return cli_print_text(status, &text);
}

static tess_status verify_source(tess_mem *mem, const on_policy_flags *f, tess_on_policy_source *s, int threads,
                                 int *code)
{
    tess_dtype dtype;
    TESS_TRY(cli_dtype("--dtype", f->dtype, false, &dtype));
    if (f->prompts != NULL)
        TESS_TRY(tess_on_policy_read_prompts(s, f->prompts));
    else
        TESS_TRY(tess_on_policy_make_prompts(s, f->new_tokens, (uint64_t)f->seed));
    tess_on_policy_plan plan = {.model = s->model,
                                .w = {s->w[0], s->w[1]},
                                .dtype = dtype != TESS_DTYPE_COUNT ? dtype : s->dtype,
                                .against = f->against,
                                .device = f->device,
                                .temperature = f->temperature,
                                .n_threads = threads,
                                .prompts = s->prompts,
                                .n_prompts = s->n_prompts,
                                .new_tokens = f->new_tokens,
                                .seed = (uint64_t)f->seed,
                                .note = show_progress};
    if (f->plant != NULL)
        TESS_TRY_CTX(tess_on_policy_fault_parse(f->plant, s->model, &plan.fault), "--plant");
    return verify(mem, f, &plan, code);
}

static int run(tess_mem *mem, int argc, char **argv)
{
    on_policy_flags f = {.new_tokens = 24, .temperature = 1};
    const cli_flag flags[] = {
        {"--prompts", "FILE", "prompts, one a line (8 of random tokens)", .text = &f.prompts},
        {"--new-tokens", "N", "drawn for each prompt (24)", .integer = &f.new_tokens, .min = 1, .max = 1 << 20},
        {"--temperature", "T", "of the policy (1)", .number = &f.temperature, .least = 1e-3, .most = 100},
        {"--dtype", "TYPE", "float32 or bfloat16 (that of the files, or of the run)", .text = &f.dtype},
        {"--against-kernels", "NAME", "compare with this table alone; none (every table of the machine)",
         .text = &f.against},
        {"--max-length", "N", "position limit; dynamic rope scaling depends on it (the model's)",
         .integer = &f.max_length, .min = 2, .max = 1 << 27},
        {"--seed", "N", "of what is drawn (0)", .integer = &f.seed, .min = 0, .max = INT64_MAX},
        {"--device", "NAME", "where the model computes: cpu, far or cuda (cpu)", .text = &f.device},
        {"--threads", "N", "default: all cores", .integer = &f.threads, .min = 1, .max = 1024},
        {"--plant", "ENGINE:UNIT:TENSOR", "a drill: spoil a tensor, such as \"generation:1:attention output\"",
         .text = &f.plant},
        CLI_STYLES(&f.style)};
    int n = cli_parse(argc, argv, &cli_verify_on_policy, flags, sizeof(flags) / sizeof(flags[0]));
    if (n == 0)
        return cli_misuse(&cli_verify_on_policy, "name a model's folder, or a configuration");
    int code = TESS_EXIT_OK, threads = f.threads > 0 ? (int)f.threads : tess_os_cores();
    tess_on_policy_source source = {.mem = mem};
    tess_status status = open_source(mem, &f, threads, n, argv + 1, &source);
    if (status == TESS_OK)
        status = verify_source(mem, &f, &source, threads, &code);
    tess_on_policy_source_close(&source);
    return status != TESS_OK ? cli_end(status) : code;
}

const cli_command cli_verify_on_policy = {
    "verify on-policy",
    "MODEL_DIR | [CONFIG.yaml] [section.key=value ...] [--prompts FILE]",
    "check that training, evaluation and generation are one policy, to the bit\n"
    "Draws texts, and compares the log-probabilities of their tokens in training's forward pass with those of\n"
    "evaluation and generation: in other batches, chunks, orders, company and numbers of threads. Also measures what\n"
    "other temperatures, precisions and kernel tables change. Trains nothing, and writes nothing.",
    .exit_codes = "0 exactly on-policy; 1 something differs (the first layer is named) or failed; 2 bad input",
    .examples = "tessera verify on-policy out/kjv/model\n"
                "tessera verify on-policy examples/signs_rl.yaml\n"
                "tessera verify on-policy models/qwen --prompts questions.txt",
    .run = run};
