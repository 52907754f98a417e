/* `tessera generate`: continues texts with a trained model. */
#include "cli/cli.h"

#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "cli/generate_texts.h"
#include "cli/sampling_flags.h"
#include "infer/generate.h"
#include "train/text/model_folder.h"
#include "train/text/text_ends.h"

typedef struct generate_session {
    tess_model_folder m;
    generate_texts texts;
    int64_t next; /* number of the next text to begin */
    int64_t max_new_tokens;
    int64_t n_new, n_done; /* tokens generated so far; texts that are complete */
    double began_s, shown_s;
} generate_session;

/* ---- The source of requests: text i draws from random stream i ---- */
static tess_status next_request(void *self, tess_request *r, bool *none)
{
    generate_session *s = self;
    generate_texts *t = &s->texts;
    *none = s->next == t->n_prompts * t->n_each;
    if (*none)
        return TESS_OK;
    const tess_ids *prompt = &t->prompts[s->next / t->n_each];
    *r = (tess_request){.id = (uint64_t)s->next,
                        .ids = prompt->data,
                        .n = (int64_t)prompt->size,
                        .n_prompt = (int64_t)prompt->size,
                        .max_new_tokens = s->max_new_tokens,
                        .prefix = t->n_each > 1 ? (uint64_t)(s->next / t->n_each) + 1 : 0,
                        .want_prompt_logprobs = t->format == GENERATE_TOKEN && s->next % t->n_each == 0};
    s->next++;
    return TESS_OK;
}

/* Shows the status line, once the work has lasted a second. A single text shows its own progress by being printed. */
static void show_progress(generate_session *s)
{
    static const double patience_s = 1, pace_s = 0.2;
    const generate_texts *t = &s->texts;
    int64_t n = t->n_prompts * t->n_each;
    char tokens[32];
    double now_s = tess_os_now_s(), took_s = now_s - s->began_s;
    if (n == 1 || took_s < patience_s || now_s - s->shown_s < pace_s)
        return;
    s->shown_s = now_s;
    cli_status_line("generate: %lld of %lld texts, %s tokens, %.0f tokens/s", (long long)s->n_done, (long long)n,
                    tess_format_count((double)s->n_new, tokens, sizeof(tokens)), (double)s->n_new / took_s);
}

static tess_status on_token(void *self, const tess_request *r, int64_t position, int32_t token, float logprob,
                            bool generated, bool *stop)
{
    generate_session *s = self;
    s->n_new += generated;
    show_progress(s);
    return generate_texts_token(&s->texts, r, position, token, logprob, generated, stop);
}

static tess_status on_finished(void *self, const tess_request *r, tess_finish why)
{
    generate_session *s = self;
    s->n_done++;
    cli_status_clear();
    return generate_texts_finished(&s->texts, r, why);
}

/* Computes the length to reserve: the longest prompt plus the new tokens. `asked`: the command line gave
 * --max-new-tokens, and a value that is too large is an error. Otherwise the length is limited to the model's
 * maximum. */
static tess_status find_length(generate_session *s, bool asked, int64_t *length)
{
    const char *more = s->m.config.rope.kind == TESS_ROPE_DYNAMIC ? "; --max-length N lets it take N" : "";
    int64_t longest = 0, limit = tess_model_config_max_length(&s->m.config);
    for (int64_t i = 0; i < s->texts.n_prompts; i++)
        longest = (int64_t)s->texts.prompts[i].size > longest ? (int64_t)s->texts.prompts[i].size : longest;
    TESS_CHECK(longest < limit, TESS_E_INVALID,
               "a prompt has %lld tokens; the model takes %lld and needs room for new ones%s", (long long)longest,
               (long long)limit, more);
    TESS_CHECK(!asked || s->max_new_tokens <= limit - longest, TESS_E_INVALID,
               "--max-new-tokens: %lld after a prompt of %lld tokens; the model takes %lld together%s",
               (long long)s->max_new_tokens, (long long)longest, (long long)limit, more);
    *length = longest + s->max_new_tokens < limit ? longest + s->max_new_tokens : limit;
    *length = *length > longest + 1 ? *length : longest + 1;
    return TESS_OK;
}

/* Prints one line of JSON to standard error. */
static void print_stats(const generate_session *s, const tess_generator *generator)
{
    const tess_generator_stats g = tess_generator_get_stats(generator);
    fprintf(stderr,
            "{\"texts\": %lld, \"drawn\": %lld, \"prefilled\": %lld, \"shared\": %lld, \"decoded\": %lld, "
            "\"passes\": %lld, \"preemptions\": %lld, \"peak_cache_bytes\": %.0f, \"seconds\": %.6f}\n",
            (long long)s->n_done, (long long)g.drawn, (long long)g.prefilled, (long long)g.shared, (long long)g.decoded,
            (long long)g.passes, (long long)g.preemptions, (double)g.peak_pages * (double)g.page_bytes,
            tess_os_now_s() - s->began_s);
}

static tess_status generate(generate_session *s, bool asked, const tess_sampling *sampling, int64_t batch, bool stats)
{
    int64_t length = 0, n = s->texts.n_prompts * s->texts.n_each;
    TESS_TRY(find_length(s, asked, &length));
    const tess_generator_options options = {
        .dtype = s->m.dtype, .max_length = length, .max_sequences = batch < n ? batch : n};
    const tess_request_source source = {s, next_request, on_token, on_finished};
    tess_generator *generator;
    TESS_TRY(tess_generator_create(s->m.compute.stream, s->m.model, &s->m.compute.hooks, &options, &generator));
    s->began_s = tess_os_now_s();
    tess_status status = generate_texts_begin(&s->texts);
    if (status == TESS_OK)
        status = tess_generator_run(generator, sampling, s->m.config.eos_token_id, s->m.config.n_eos, &source);
    cli_status_clear();
    if (status == TESS_OK && stats)
        print_stats(s, generator);
    tess_generator_destroy(&generator);
    return status;
}

static int run(tess_mem *mem, int argc, char **argv)
{
    generate_session s = {0};
    const char *prompt = NULL, *file = NULL, *device = NULL, *dtype_text = NULL, *add_bos = NULL, *adapter = NULL;
    const char *logprobs = NULL, *jsonl = NULL, *stats = NULL, *stops[CLI_REPEATS + 1] = {NULL};
    int64_t max_length = 0, threads = 0, batch = 8, n_each = 1;
    cli_sampling how;
    cli_flag flags[CLI_SAMPLING_FLAGS + 15] = {
        {"--prompt", "TEXT", "text to continue", .text = &prompt},
        {"--prompts", "FILE",
         "one prompt a line (blank lines are passed over), generated together; of FILE.json or FILE.jsonl each "
         "record's \"prompt\"",
         .text = &file},
        {"--n", "N", "texts of each prompt, which is read once (1)", .integer = &n_each, .min = 1, .max = 1 << 20},
        {"--stop", "TEXT ...", "a text ends before this, also within a token; may be given often", .text = stops},
        {"--max-new-tokens", "N", "at most; 0 scores the prompt with --logprobs (128)", .integer = &how.max_new_tokens,
         .max = 1 << 24},
        {"--max-length", "N", "position limit; dynamic rope scaling depends on it (the model's)",
         .integer = &max_length, .min = 2, .max = 1 << 27},
        {"--logprobs", NULL, "JSON lines: position, token, log-probability, instead of text", .text = &logprobs},
        {"--jsonl", NULL, "JSON lines: prompt, index, text, ids, logprobs, finish of each text", .text = &jsonl},
        {"--stats", NULL, "a line of JSON on standard error: tokens read, shared and drawn, seconds", .text = &stats},
        {"--add-bos", "WHETHER", "begin prompts with the bos token: true, false, or auto: if the tokenizer does (auto)",
         .text = &add_bos},
        {"--batch", "N", "texts that run at once (8)", .integer = &batch, .min = 1, .max = 4096},
        {"--dtype", "TYPE", "float32 or bfloat16; default: what the files hold", .text = &dtype_text},
        {"--adapter", "DIR", "an adapter (LoRA) of the model, PEFT's or a run's", .text = &adapter},
        {"--device", "NAME", "where the model computes: cpu, far or cuda (cpu)", .text = &device},
        {"--threads", "N", "default: all cores", .integer = &threads, .min = 1, .max = 1024},
    };
    cli_sampling_flags(&how, flags + 15);
    int n = cli_parse(argc, argv, &cli_generate, flags, sizeof(flags) / sizeof(flags[0]));
    if (n != 1 || (prompt == NULL) == (file == NULL))
        return cli_misuse(&cli_generate, n != 1 ? "name one model folder" : "give either --prompt or --prompts");

    tess_dtype dtype;
    tess_reporter reporter = {cli_print_line, NULL};
    tess_encoder *encoder = NULL;
    tess_status status;
    tess_prefix bos;
    tess_add_bos add;
    s.texts = (generate_texts){.mem = mem,
                               .format = jsonl != NULL      ? GENERATE_JSONL
                                         : logprobs != NULL ? GENERATE_TOKEN
                                                            : GENERATE_TEXT,
                               .n_each = n_each,
                               .stops = stops};
    for (int i = 0; stops[i] != NULL; i++)
        if (stops[i][0] == '\0')
            return cli_misuse(&cli_generate, "--stop: an empty text ends nothing");
    TESS_GOTO(cli_dtype("--dtype", dtype_text, false, &dtype), parsed);
    TESS_GOTO(cli_add_bos(add_bos, &add), parsed);
    const tess_model_folder_options folder = {dtype, max_length, (int)threads, device, adapter};
    TESS_GOTO(tess_model_folder_open(mem, argv[1], &folder, &reporter, &s.m), parsed);
    TESS_GOTO(tess_model_begin_of_text(&s.m.config, s.m.tokenizer, add, &bos), opened);
    if (tess_tokenizer_prefix(s.m.tokenizer).n > 0) /* the tokenizer adds its own prefix to texts */
        bos.n = 0;
    s.texts.tokenizer = s.m.tokenizer;
    bool asked = how.max_new_tokens >= 0;
    TESS_GOTO(cli_sampling_settle(&how, argv[1], 128, &s.m.config), opened);
    s.max_new_tokens = how.max_new_tokens;
    TESS_GOTO(tess_encoder_create(mem, s.m.tokenizer, &encoder), opened);
    bool special = add != TESS_ADD_BOS_FALSE;
    status = prompt != NULL ? generate_texts_add(&s.texts, encoder, &bos, special, prompt, strlen(prompt))
                            : generate_texts_load(&s.texts, encoder, &bos, special, file);
    if (status == TESS_OK)
        status = generate(&s, asked, &how.sampling, batch, stats != NULL);
opened:
    generate_texts_free(&s.texts);
    tess_encoder_destroy(&encoder);
    tess_model_folder_close(&s.m);
parsed:
    return cli_end(status);
}

const cli_command cli_generate = {"generate", "MODEL_DIR --prompt TEXT | --prompts FILE [options]",
                                  "continue text with a trained model\n\n"
                                  "MODEL_DIR: config.json, tokenizer.json and weights of any format that `tessera "
                                  "convert` reads. What the\noptions leave open is as its generation_config.json says, "
                                  "which also names the tokens that end a text.\n",
                                  .run = run};
