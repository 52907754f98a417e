/* `tessera generate`: continues texts with a trained model. */
#include "cli/cli.h"

#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "cli/generate_texts.h"
#include "cli/sampling_flags.h"
#include "infer/generate.h"
#include "parallel/tensor/tensor_points.h"
#include "train/text/model_folder.h"
#include "train/text/text_ends.h"

/* The values of the command line. Ranks are forked with them. */
typedef struct generate_plan {
    const char *path, *prompt, *file; /* the model's folder; a prompt, or a file of prompts */
    const char *const *stops;
    tess_model_folder_options folder;
    tess_add_bos add;
    cli_sampling how;
    generate_format format;
    int64_t n_each, batch;
    bool stats;
} generate_plan;

typedef struct generate_session {
    tess_model_folder m;
    generate_texts texts;
    int64_t next; /* number of the next text to begin */
    int64_t max_new_tokens;
    int64_t n_new, n_done; /* tokens generated so far; texts that are complete */
    double began_s, shown_s;
    tess_tensor *readers; /* exchanges between ranks that read prompts together; NULL: one process */
    bool quiet;           /* another rank prints */
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
    if (s->quiet || n == 1 || took_s < patience_s || now_s - s->shown_s < pace_s)
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

/* team: ranks that generate the same texts, or NULL */
static tess_status generate(generate_session *s, tess_team *team, bool asked, const tess_sampling *sampling,
                            int64_t batch, bool stats)
{
    int64_t length = 0, n = s->texts.n_prompts * s->texts.n_each;
    TESS_TRY(find_length(s, asked, &length));
    tess_generator_options options = {
        .dtype = s->m.dtype, .max_length = length, .max_sequences = batch < n ? batch : n};
    if (team != NULL) {
        TESS_TRY(tess_tensor_create(s->m.mem, team, s->m.compute.stream,
                                    tess_generator_reader_bytes(s->m.model, &options, tess_team_size(team)),
                                    &s->readers));
        options.readers = tess_tensor_points(s->readers);
    }
    const tess_request_source source = {s, next_request, on_token, on_finished};
    tess_generator *generator;
    TESS_TRY(tess_generator_create(s->m.compute.stream, s->m.model, &s->m.compute.hooks, &options, &generator));
    s->began_s = tess_os_now_s();
    tess_status status = generate_texts_begin(&s->texts);
    if (status == TESS_OK)
        status = tess_generator_run(generator, sampling, s->m.config.eos_token_id, s->m.config.n_eos, &source);
    cli_status_clear();
    if (status == TESS_OK && stats && !s->quiet)
        print_stats(s, generator);
    tess_generator_destroy(&generator);
    return status;
}

/* Opens the model, reads the prompts, and generates. */
static tess_status run_plan(tess_mem *mem, const generate_plan *plan, tess_team *team, const tess_reporter *reporter)
{
    generate_session s = {.quiet = team != NULL && tess_team_rank(team) > 0};
    cli_sampling how = plan->how;
    tess_encoder *encoder = NULL;
    tess_prefix bos;
    tess_status status;
    s.texts = (generate_texts){.mem = mem, .format = plan->format, .n_each = plan->n_each, .stops = plan->stops};
    TESS_TRY(tess_model_folder_open(mem, plan->path, &plan->folder, reporter, &s.m));
    TESS_GOTO(tess_model_begin_of_text(&s.m.config, s.m.tokenizer, plan->add, &bos), opened);
    if (tess_tokenizer_prefix(s.m.tokenizer).n > 0) /* the tokenizer adds its own prefix to texts */
        bos.n = 0;
    s.texts.tokenizer = s.m.tokenizer;
    bool asked = how.max_new_tokens >= 0;
    TESS_GOTO(cli_sampling_settle(&how, plan->path, 128, &s.m.config), opened);
    s.max_new_tokens = how.max_new_tokens;
    TESS_GOTO(tess_encoder_create(mem, s.m.tokenizer, &encoder), opened);
    bool special = plan->add != TESS_ADD_BOS_FALSE;
    status = plan->prompt != NULL
                 ? generate_texts_add(&s.texts, encoder, &bos, special, plan->prompt, strlen(plan->prompt))
                 : generate_texts_load(&s.texts, encoder, &bos, special, plan->file);
    if (status == TESS_OK)
        status = generate(&s, team, asked, &how.sampling, plan->batch, plan->stats);
opened:
    tess_tensor_destroy(&s.readers);
    generate_texts_free(&s.texts);
    tess_encoder_destroy(&encoder);
    tess_model_folder_close(&s.m);
    return status;
}

/* ---- Several ranks ---- */
static tess_status run_rank(tess_runtime *runtime, const void *plan, TESS_UNUSED void *result)
{
    generate_plan own = *(const generate_plan *)plan;
    const tess_reporter reporter = cli_reporter_of(runtime);
    own.folder.n_threads = cli_threads_of(runtime, own.folder.n_threads);
    tess_status status = run_plan(tess_runtime_mem(runtime), &own, tess_runtime_team(runtime), &reporter);
    fflush(stdout);
    return status;
}

static int run(tess_mem *mem, int argc, char **argv)
{
    const char *prompt = NULL, *file = NULL, *device = NULL, *dtype_text = NULL, *add_bos = NULL, *adapter = NULL;
    const char *logprobs = NULL, *jsonl = NULL, *stats = NULL, *stops[CLI_REPEATS + 1] = {NULL};
    int64_t max_length = 0, threads = 0, batch = 8, n_each = 1, n_ranks = 1;
    cli_sampling how;
    cli_flag flags[CLI_SAMPLING_FLAGS + 16] = {
        {"-n", "RANKS", "ranks that each read a part of a prompt, with the same bits (1)", .integer = &n_ranks,
         .min = 1, .max = 512},
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
    cli_sampling_flags(&how, flags + 16);
    int n = cli_parse(argc, argv, &cli_generate, flags, sizeof(flags) / sizeof(flags[0]));
    if (n != 1 || (prompt == NULL) == (file == NULL))
        return cli_misuse(&cli_generate, n != 1 ? "name one model folder" : "give either --prompt or --prompts");

    const tess_reporter reporter = {cli_print_line, NULL};
    tess_status status;
    generate_plan plan = {.path = argv[1],
                          .prompt = prompt,
                          .file = file,
                          .stops = stops,
                          .how = how,
                          .format = jsonl != NULL      ? GENERATE_JSONL
                                    : logprobs != NULL ? GENERATE_TOKEN
                                                       : GENERATE_TEXT,
                          .n_each = n_each,
                          .batch = batch,
                          .stats = stats != NULL};
    for (int i = 0; stops[i] != NULL; i++)
        if (stops[i][0] == '\0')
            return cli_misuse(&cli_generate, "--stop: an empty text ends nothing");
    plan.folder = (tess_model_folder_options){
        .max_length = max_length, .n_threads = (int)threads, .device = device, .adapter = adapter};
    TESS_GOTO(cli_dtype("--dtype", dtype_text, false, &plan.folder.dtype), parsed);
    TESS_GOTO(cli_add_bos(add_bos, &plan.add), parsed);
    status = n_ranks == 1 ? run_plan(mem, &plan, NULL, &reporter)
                          : cli_ranks_run((int)n_ranks, device, run_rank, &plan, NULL, 0);
parsed:
    return cli_end(status);
}

const cli_command cli_generate = {"generate", "MODEL_DIR --prompt TEXT | --prompts FILE [options]",
                                  "continue text with a trained model\n\n"
                                  "MODEL_DIR: config.json, tokenizer.json and weights of any format that `tessera "
                                  "convert` reads. What the\noptions leave open is as its generation_config.json says, "
                                  "which also names the tokens that end a text.\n",
                                  .examples =
                                      "tessera generate out/kjv/model --prompt 'In the beginning'\n"
                                      "tessera generate models/qwen --prompts questions.txt --n 4 --jsonl\n"
                                      "tessera generate models/llama --prompt 'One, two' --temperature 0 --logprobs",
                                  .run = run};
