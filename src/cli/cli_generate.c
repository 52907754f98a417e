#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "infer/generation_config.h"
#include "train/model_folder.h"

enum { MOST_PROMPTS = 4096, FILE_LIMIT = 64 << 20 };

typedef struct generate_session {
    tess_model_folder m;
    tess_mem *mem;
    tess_add_bos add_bos;
    tess_prefix bos;      /* of add_bos, where the tokenizer's template has none */
    const char *logprobs; /* not NULL: prints JSON lines instead of text */
    int n_prompts;
    tess_ids prompts[MOST_PROMPTS], texts[MOST_PROMPTS];
    size_t shown; /* bytes printed so far, of a single prompt's text */
} generate_session;

static tess_status show_new_text(generate_session *s, bool last)
{
    tess_buffer text = {.mem = s->mem};
    tess_status status = tess_decode(s->m.tokenizer, s->texts[0].data, s->texts[0].size, true, &text);
    /* A character may still be incomplete: U+FFFD at the end waits for its other bytes. */
    size_t end = text.size;
    if (status == TESS_OK && !last && end >= 3 && memcmp(text.data + end - 3, "\xef\xbf\xbd", 3) == 0)
        end -= 3;
    if (status == TESS_OK && end > s->shown) {
        fwrite(text.data + s->shown, 1, end - s->shown, stdout);
        fflush(stdout);
        s->shown = end;
    }
    tess_buffer_free(&text);
    return status;
}

static tess_status on_token(void *context, int prompt, int64_t position, int32_t token, float logprob, bool generated)
{
    generate_session *s = context;
    char number[40];
    if (s->logprobs != NULL) {
        printf("{\"prompt\": %d, \"position\": %lld, \"token\": %d, \"logprob\": %s, \"generated\": %s}\n", prompt,
               (long long)position, token, tess_format_float(logprob, number, sizeof(number)),
               generated ? "true" : "false");
        return TESS_OK;
    }
    if (!generated)
        return TESS_OK;
    TESS_TRY(tess_ids_append(&s->texts[prompt], token));
    return s->n_prompts == 1 ? show_new_text(s, false) : TESS_OK;
}

static tess_status add_prompt(generate_session *s, tess_encoder *encoder, const char *text, size_t size)
{
    TESS_CHECK(s->n_prompts < MOST_PROMPTS, TESS_E_INVALID, "more than %d prompts", MOST_PROMPTS);
    int i = s->n_prompts++;
    s->prompts[i].mem = s->texts[i].mem = s->mem;
    for (int k = 0; k < s->bos.n; k++)
        TESS_TRY(tess_ids_append(&s->prompts[i], s->bos.id[k]));
    TESS_TRY(tess_encode(encoder, text, size, s->add_bos != TESS_ADD_BOS_FALSE, &s->prompts[i]));
    TESS_CHECK(s->prompts[i].size > 0, TESS_E_INVALID, "prompt %d is empty: a model continues text", i);
    for (size_t k = 0; k < s->prompts[i].size; k++)
        TESS_TRY(tess_ids_append(&s->texts[i], s->prompts[i].data[k]));
    return TESS_OK;
}

/* One prompt a line. */
static tess_status add_file(generate_session *s, tess_encoder *encoder, const char *path)
{
    char *text;
    size_t size;
    TESS_TRY_CTX(tess_os_read(s->mem, path, FILE_LIMIT, &text, &size), "--prompts");
    tess_status status = TESS_OK;
    for (size_t at = 0; at < size && status == TESS_OK;) {
        const char *newline = memchr(text + at, '\n', size - at);
        size_t n = newline != NULL ? (size_t)(newline - text) - at : size - at;
        if (n > 0)
            status = add_prompt(s, encoder, text + at, n);
        at += n + 1;
    }
    tess_mem_free(s->mem, text);
    TESS_TRY(status);
    TESS_CHECK(s->n_prompts > 0, TESS_E_INVALID, "%s holds no prompt: one a line", path);
    return TESS_OK;
}

/* How to sample: what the command line leaves open (negative) is as generation_config.json says, or by default. Says
 * what of that file holds. */
static tess_status settle(generate_session *s, const char *folder, tess_sampling *sampling, int64_t *max_new_tokens)
{
    tess_generation_config file;
    TESS_TRY(tess_generation_config_load(folder, &file));
    double top_k = (double)sampling->top_k, n_new = (double)*max_new_tokens;
    const struct {
        const char *name;
        double *value, said, fallback;
    } settings[] = {
        {"temperature", &sampling->temperature, file.sampling.temperature, 0.8},
        {"top_k", &top_k, (double)file.sampling.top_k, 0},
        {"top_p", &sampling->top_p, file.sampling.top_p, 0.95},
        {"repetition_penalty", &sampling->repetition_penalty, file.sampling.repetition_penalty, 1},
        {"max_new_tokens", &n_new, (double)file.max_new_tokens, 128},
    };
    char note[1024];
    size_t at = 0;
    for (int i = 0; i < file.n_end; i++)
        at = tess_text_add(note, sizeof(note), at, "%s%lld", i > 0 ? ", " : " end tokens ",
                           (long long)file.end_tokens[i]);
    size_t ends = at;
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        if (*settings[i].value >= 0)
            continue;
        const char *separator = at == 0 ? "" : at == ends ? ";" : ",";
        *settings[i].value = settings[i].said >= 0 ? settings[i].said : settings[i].fallback;
        if (settings[i].said >= 0)
            at = tess_text_add(note, sizeof(note), at, "%s %s %.9g", separator, settings[i].name, settings[i].said);
    }
    if (file.ignored[0] != '\0')
        at = tess_text_add(note, sizeof(note), at, "%s ignored: %s", at > 0 ? ";" : "", file.ignored);
    sampling->top_k = (int64_t)top_k;
    *max_new_tokens = (int64_t)n_new;
    if (file.n_end > 0) { /* of instruct models, the only ones that stop them */
        memcpy(s->m.config.eos_token_id, file.end_tokens, sizeof(file.end_tokens));
        s->m.config.n_eos = file.n_end;
    }
    if (at > 0)
        fprintf(stderr, "generation_config.json:%s\n", note);
    return TESS_OK;
}

/* asked: the command line says max_new_tokens; else it is cut to what the model has room for. */
static tess_status generate(generate_session *s, int64_t max_new_tokens, bool asked, const tess_sampling *sampling,
                            int64_t batch)
{
    tess_prompt prompts[MOST_PROMPTS];
    const char *more = s->m.config.rope.kind == TESS_ROPE_DYNAMIC ? "; --max-length N lets it take N" : "";
    int64_t longest = 0, limit = tess_model_config_max_length(&s->m.config);
    for (int i = 0; i < s->n_prompts; i++) {
        prompts[i] = (tess_prompt){s->prompts[i].data, (int64_t)s->prompts[i].size};
        longest = prompts[i].n > longest ? prompts[i].n : longest;
    }
    TESS_CHECK(longest < limit, TESS_E_INVALID,
               "a prompt has %lld tokens; the model takes %lld and needs room for new ones%s", (long long)longest,
               (long long)limit, more);
    TESS_CHECK(!asked || max_new_tokens <= limit - longest, TESS_E_INVALID,
               "--max-new-tokens: %lld after a prompt of %lld tokens; the model takes %lld together%s",
               (long long)max_new_tokens, (long long)longest, (long long)limit, more);
    int64_t length = longest + max_new_tokens < limit ? longest + max_new_tokens : limit;
    tess_generator_options options = {.dtype = s->m.dtype,
                                      .max_length = length > longest + 1 ? length : longest + 1,
                                      .n_slots = batch < s->n_prompts ? batch : s->n_prompts};
    tess_generator *generator;
    TESS_TRY(tess_generator_create(s->m.compute.stream, s->m.model, &s->m.compute.hooks, &options, &generator));
    tess_status status = s->n_prompts == 1 && s->logprobs == NULL ? show_new_text(s, false) : TESS_OK;
    if (status == TESS_OK)
        status = tess_generate(generator, prompts, s->n_prompts, max_new_tokens, sampling, s->m.config.eos_token_id,
                               s->m.config.n_eos, on_token, s);
    tess_generator_destroy(&generator);
    return status;
}

static tess_status show_results(generate_session *s)
{
    if (s->logprobs != NULL)
        return TESS_OK;
    if (s->n_prompts == 1) {
        TESS_TRY(show_new_text(s, true));
        putchar('\n');
        return TESS_OK;
    }
    for (int i = 0; i < s->n_prompts; i++) {
        tess_buffer text = {.mem = s->mem};
        tess_status status = tess_decode(s->m.tokenizer, s->texts[i].data, s->texts[i].size, true, &text);
        if (status == TESS_OK) {
            printf("--- prompt %d\n", i);
            fwrite(text.data, 1, text.size, stdout); /* may hold zero bytes */
            putchar('\n');
        }
        tess_buffer_free(&text);
        TESS_TRY(status);
    }
    return TESS_OK;
}

static int run(tess_mem *mem, int argc, char **argv)
{
    static generate_session s;
    const char *prompt = NULL, *file = NULL, *device = NULL, *dtype_text = NULL, *add_bos = NULL;
    int64_t max_new_tokens = -1, max_length = 0, seed = 0, threads = 0, batch = 8;
    tess_sampling sampling = {.temperature = -1, .top_k = -1, .top_p = -1, .repetition_penalty = -1};
    const cli_flag flags[] = {
        {"--prompt", "TEXT", "text to continue", .text = &prompt},
        {"--prompts", "FILE", "one prompt a line (blank lines are passed over), generated together", .text = &file},
        {"--max-new-tokens", "N", "at most; 0 scores the prompt with --logprobs (128)", .integer = &max_new_tokens,
         .max = 1 << 24},
        {"--temperature", "T", "0 is greedy (0.8)", .number = &sampling.temperature, .most = 100},
        {"--top-k", "K", "draw from the K likeliest tokens; 0: all (0)", .integer = &sampling.top_k, .max = 1 << 30},
        {"--top-p", "P", "draw from the likeliest tokens that reach probability P (0.95)", .number = &sampling.top_p,
         .most = 1},
        {"--repetition-penalty", "P", "divides the logits of tokens that the text has (1)",
         .number = &sampling.repetition_penalty, .least = 0.01, .most = 100},
        {"--max-length", "N", "position limit; dynamic rope scaling depends on it (the model's)",
         .integer = &max_length, .min = 2, .max = 1 << 27},
        {"--seed", "N", "the same seed draws the same text (0)", .integer = &seed, .max = INT64_MAX},
        {"--logprobs", NULL, "JSON lines: position, token, log-probability, instead of text", .text = &s.logprobs},
        {"--add-bos", "WHETHER", "begin prompts with the bos token: true, false, or auto: if the tokenizer does (auto)",
         .text = &add_bos},
        {"--batch", "N", "prompts that run at once (8)", .integer = &batch, .min = 1, .max = 4096},
        {"--dtype", "TYPE", "float32 or bfloat16; default: what the files hold", .text = &dtype_text},
        {"--device", "NAME", "where the model computes: cpu, far or cuda (cpu)", .text = &device},
        {"--threads", "N", "default: all cores", .integer = &threads, .min = 1, .max = 1024},
    };
    int n = cli_parse(argc, argv, &cli_generate, flags, sizeof(flags) / sizeof(flags[0]));
    if (n != 1 || (prompt == NULL) == (file == NULL))
        return cli_misuse(&cli_generate, n != 1 ? "name one model folder" : "give either --prompt or --prompts");

    tess_dtype dtype;
    tess_reporter reporter = {cli_print_line, NULL};
    tess_encoder *encoder = NULL;
    tess_status status;
    s.mem = mem;
    sampling.seed = (uint64_t)seed;
    TESS_GOTO(cli_dtype("--dtype", dtype_text, false, &dtype), parsed);
    TESS_GOTO(cli_add_bos(add_bos, &s.add_bos), parsed);
    const tess_model_folder_options folder = {dtype, max_length, (int)threads, device};
    TESS_GOTO(tess_model_folder_open(s.mem, argv[1], &folder, &reporter, &s.m), parsed);
    TESS_GOTO(tess_model_begin_of_text(&s.m.config, s.m.tokenizer, s.add_bos, &s.bos), opened);
    if (tess_tokenizer_prefix(s.m.tokenizer).n > 0)
        s.bos.n = 0;
    bool asked = max_new_tokens >= 0;
    TESS_GOTO(settle(&s, argv[1], &sampling, &max_new_tokens), opened);
    TESS_GOTO(tess_encoder_create(s.mem, s.m.tokenizer, &encoder), opened);
    status = prompt != NULL ? add_prompt(&s, encoder, prompt, strlen(prompt)) : add_file(&s, encoder, file);
    if (status == TESS_OK)
        status = generate(&s, max_new_tokens, asked, &sampling, batch);
    if (status == TESS_OK)
        status = show_results(&s);
opened:
    for (int i = 0; i < s.n_prompts; i++) {
        tess_ids_free(&s.prompts[i]);
        tess_ids_free(&s.texts[i]);
    }
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
