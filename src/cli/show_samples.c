/* `tessera rl samples`: shows the journal of a run as a table or as JSON lines. */
#include <math.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "cli/cli.h"
#include "data/tokenizer/tokenizer.h"
#include "rl/rl_journal.h"
#include "rl/rl_samples.h"

typedef struct samples_flags {
    const char *rollouts, *finish, *text, *tokenizer, *json, *tokens;
    int64_t number, limit; /* -1: any */
    double least, most;    /* NaN: any */
} samples_flags;

/* The state of one listing: which samples it shows, and sums over those that it has shown. */
typedef struct samples_view {
    tess_mem *mem;
    const samples_flags *flags;
    tess_tokenizer *tokenizer;
    int finish; /* only samples with this finish are shown; ANY_FINISH: all are */
    int64_t rollout;
    tess_buffer prompt, answer, line; /* texts of the current sample */
    int64_t n, n_scored, n_cut;
    double reward, tokens; /* sums over the samples shown */
} samples_view;

enum { ANY_FINISH = -2, PROMPT_WIDTH = 28, ANSWER_WIDTH = 60 };

static const char *const finishes[] = {"end", "length", "stop", "unfinished"};
static const int finish_of[] = {TESS_FINISH_END, TESS_FINISH_LENGTH, TESS_FINISH_STOP, RL_UNFINISHED};

static const char *finish_name(const rl_sample *s)
{
    int i = 0;
    while (i < 3 && finish_of[i] != s->finish)
        i++;
    return finishes[i];
}

/* ---- Selection ---- */
static tess_status decode(samples_view *v, const rl_sample *s)
{
    v->prompt.size = v->answer.size = 0;
    TESS_TRY(tess_decode(v->tokenizer, s->ids, (size_t)s->n_prompt, false, &v->prompt));
    return tess_decode(v->tokenizer, s->ids + s->n_prompt, (size_t)(s->n - s->n_prompt), true, &v->answer);
}

static bool contains(const tess_buffer *text, const char *part)
{
    return text->size > 0 && memmem(text->data, text->size, part, strlen(part)) != NULL;
}

static bool is_asked_for(const samples_view *v, const rl_sample *s)
{
    const samples_flags *f = v->flags;
    const bool bounds = !isnan(f->least) || !isnan(f->most);
    const bool in_bounds = s->grade == RL_SCORED && !(s->reward < f->least) && !(s->reward > f->most);
    return (f->number < 0 || s->number == f->number) && (!bounds || in_bounds) &&
           (v->finish == ANY_FINISH || s->finish == v->finish) &&
           (f->text == NULL || contains(&v->prompt, f->text) || contains(&v->answer, f->text));
}

/* ---- The table ---- */
/* Appends characters [first, first + width) of a text, with control characters replaced for the terminal. */
static tess_status add_visible(const tess_buffer *text, size_t first, size_t width, tess_buffer *line)
{
    size_t at = 0;
    for (size_t i = 0, n; i < text->size && at < first + width; i += n, at++) {
        const unsigned char c = (unsigned char)text->data[i];
        for (n = 1; i + n < text->size && ((unsigned char)text->data[i + n] & 0xc0) == 0x80;)
            n++;
        const bool is_control =
            c < ' ' || c == 0x7f || (c == 0xc2 && n == 2 && (unsigned char)text->data[i + 1] < 0xa0);
        if (at >= first && c == '\n')
            TESS_TRY(tess_buffer_append(line, "\\n", 2));
        else if (at >= first)
            TESS_TRY(tess_buffer_append(line, is_control ? "?" : text->data + i, is_control ? 1 : n));
    }
    return TESS_OK;
}

/* Prints a row of the table: the end of the prompt and the beginning of the answer. */
static tess_status print_row(samples_view *v, const rl_sample *s)
{
    char reward[32] = "-";
    const size_t n_prompt = (size_t)tess_utf8_count(v->prompt.data, v->prompt.size);
    tess_buffer *line = &v->line;
    line->size = 0;
    if (s->grade == RL_SCORED)
        snprintf(reward, sizeof(reward), "%.4f", s->reward);
    TESS_TRY(tess_buffer_printf(line, "%7lld  %8lld  %8s  %6lld  %-10s  ", (long long)v->rollout, (long long)s->number,
                                reward, (long long)(s->n - s->n_prompt), finish_name(s)));
    TESS_TRY(add_visible(&v->prompt, n_prompt > PROMPT_WIDTH ? n_prompt - PROMPT_WIDTH : 0, PROMPT_WIDTH, line));
    TESS_TRY(tess_buffer_append(line, " | ", 3));
    TESS_TRY(add_visible(&v->answer, 0, ANSWER_WIDTH, line));
    for (int i = 0; i < s->n_parts && s->n_parts > 1; i++) {
        const tess_buffer name = {.data = (char *)s->part[i].name, .size = strlen(s->part[i].name)};
        TESS_TRY(tess_buffer_append(line, i > 0 ? ", " : "  (", i > 0 ? 2 : 3));
        TESS_TRY(add_visible(&name, 0, RL_PART_NAME, line));
        TESS_TRY(tess_buffer_printf(line, " %g%s", s->part[i].value, i + 1 == s->n_parts ? ")" : ""));
    }
    TESS_TRY(tess_buffer_append(line, "\n", 1));
    fwrite(line->data, 1, line->size, stdout);
    return TESS_OK;
}

static void print_summary(const samples_view *v)
{
    printf("%lld sample%s", (long long)v->n, v->n == 1 ? "" : "s");
    if (v->n_scored > 0)
        printf(", mean reward %.4f", v->reward / (double)v->n_scored);
    if (v->n > 0)
        printf(", %.1f tokens, %lld cut off, %lld without a reward", v->tokens / (double)v->n, (long long)v->n_cut,
               (long long)(v->n - v->n_scored));
    putchar('\n');
}

/* ---- JSON ---- */
static json_t *parts_json(const rl_sample *s)
{
    json_t *parts = json_object();
    for (int i = 0; i < s->n_parts; i++)
        json_object_set_new(parts, s->part[i].name, tess_json_number(s->part[i].value));
    return parts;
}

static json_t *text_json(const tess_buffer *text)
{
    return json_stringn(text->size > 0 ? text->data : "", text->size);
}

static json_t *ids_json(const int32_t *ids, int64_t n)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(ids[i]));
    return list;
}

static void add_tokens(json_t *json, const rl_sample *s)
{
    const int64_t first = s->n_prompt, n = s->n - first;
    json_t *logprobs = json_array();
    for (int64_t i = 0; i < n; i++)
        json_array_append_new(logprobs, tess_json_number((double)s->logprob[first + i]));
    json_object_set_new(json, "prompt_ids", ids_json(s->ids, first));
    json_object_set_new(json, "ids", ids_json(s->ids + first, n));
    json_object_set_new(json, "logprobs", logprobs);
    json_object_set_new(json, "versions", ids_json(s->version + first, n));
}

static tess_status print_json(const samples_view *v, const rl_sample *s)
{
    json_t *reward = s->grade == RL_SCORED ? tess_json_number(s->reward) : json_null();
    json_t *json =
        json_pack("{s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:s, s:I, s:i}", "rollout", (json_int_t)v->rollout, "sample",
                  (json_int_t)s->number, "record", (json_int_t)s->record, "prompt", text_json(&v->prompt), "response",
                  text_json(&v->answer), "reward", reward, "parts", parts_json(s), "finish", finish_name(s), "tokens",
                  (json_int_t)(s->n - s->n_prompt), "turns", s->turns);
    if (json != NULL && v->flags->tokens != NULL)
        add_tokens(json, s);
    return tess_json_put(json, JSON_COMPACT, stdout);
}

/* ---- All ---- */
static bool is_full(const samples_view *v)
{
    return v->flags->limit >= 0 && v->n >= v->flags->limit;
}

static tess_status show(samples_view *v, const rl_sample *s)
{
    TESS_TRY(decode(v, s));
    if (!is_asked_for(v, s))
        return TESS_OK;
    v->n++;
    v->n_scored += s->grade == RL_SCORED;
    v->n_cut += s->finish == TESS_FINISH_LENGTH;
    v->reward += s->grade == RL_SCORED ? s->reward : 0;
    v->tokens += (double)(s->n - s->n_prompt);
    return v->flags->json != NULL ? print_json(v, s) : print_row(v, s);
}

static tess_status show_rollout(samples_view *v, const char *journal, int64_t rollout)
{
    TESS_AUTO(rl_samples_free) rl_samples samples = {0};
    v->rollout = rollout;
    TESS_TRY(rl_samples_read(v->mem, journal, rollout, &samples));
    for (size_t i = 0; i < samples.n && !is_full(v); i++)
        TESS_TRY(show(v, &samples.sample[i]));
    return TESS_OK;
}

/* Parses the choice of rollouts: "12", "3-7", "all"; NULL: the newest one. */
static tess_status parse_rollouts(const char *text, int64_t newest, int64_t *first, int64_t *last)
{
    long long from, to;
    int end = 0;
    *first = *last = newest;
    if (text == NULL)
        return TESS_OK;
    *first = 0;
    if (strcmp(text, "all") == 0)
        return TESS_OK;
    if (sscanf(text, "%lld%n", &from, &end) == 1 && text[end] == '\0')
        to = from;
    else
        TESS_CHECK(sscanf(text, "%lld-%lld%n", &from, &to, &end) == 2 && text[end] == '\0', TESS_E_INVALID,
                   "--rollout: '%.60s' is neither a number, nor two (3-7), nor 'all'", text);
    *first = from;
    *last = to;
    return TESS_OK;
}

static tess_status show_all(samples_view *v, const char *journal, const int64_t *rollouts, size_t n)
{
    int64_t first, last;
    bool any = false;
    TESS_TRY(parse_rollouts(v->flags->rollouts, rollouts[n - 1], &first, &last));
    for (size_t i = 0; i < n; i++)
        any = any || (rollouts[i] >= first && rollouts[i] <= last);
    TESS_CHECK(any, TESS_E_NOT_FOUND, "--rollout: the journal has none of %s, but %lld to %lld", v->flags->rollouts,
               (long long)rollouts[0], (long long)rollouts[n - 1]);
    if (v->flags->json == NULL)
        printf("%7s  %8s  %8s  %6s  %-10s  %s\n", "rollout", "sample", "reward", "tokens", "finish",
               "prompt | answer  (parts of the reward)");
    for (size_t i = 0; i < n && !is_full(v); i++)
        if (rollouts[i] >= first && rollouts[i] <= last)
            TESS_TRY(show_rollout(v, journal, rollouts[i]));
    if (v->flags->json == NULL)
        print_summary(v);
    return TESS_OK;
}

static tess_status open_tokenizer(samples_view *v, const char *journal)
{
    char path[1024];
    const char *given = v->flags->tokenizer;
    if (given == NULL)
        TESS_TRY(tess_os_join(path, sizeof(path), journal, "tokenizer.json"));
    TESS_TRY_CTX(tess_tokenizer_load(v->mem, given != NULL ? given : path, &v->tokenizer),
                 "the tokenizer of the samples (--tokenizer names another)");
    return TESS_OK;
}

static void free_view(samples_view *v)
{
    tess_tokenizer_destroy(&v->tokenizer);
    tess_buffer_free(&v->prompt);
    tess_buffer_free(&v->answer);
    tess_buffer_free(&v->line);
}

static tess_status samples(tess_mem *mem, const char *folder, const samples_flags *flags)
{
    char journal[1024];
    TESS_AUTO(tess_mem_drop) int64_t *rollouts = NULL;
    size_t n = 0;
    int chosen;
    TESS_AUTO(free_view) samples_view v = {.mem = mem, .flags = flags, .finish = ANY_FINISH};
    v.prompt.mem = v.answer.mem = v.line.mem = mem;
    if (flags->finish != NULL) {
        TESS_TRY_CTX(tess_options_choose("end of a sample", flags->finish, finishes, 4, &chosen), "--finish");
        v.finish = finish_of[chosen];
    }
    TESS_TRY(tess_os_join(journal, sizeof(journal), folder, "rl"));
    TESS_CHECK(tess_os_is_dir(journal), TESS_E_NOT_FOUND,
               "%s: no such folder: name the job.dump_folder of a run of `tessera rl` that draws samples", journal);
    TESS_TRY(rl_journal_rollouts(mem, journal, &rollouts, &n));
    TESS_CHECK(n > 0, TESS_E_NOT_FOUND, "%s: no rollout yet", journal);
    TESS_TRY(open_tokenizer(&v, journal));
    return show_all(&v, journal, rollouts, n);
}

static int run(tess_mem *mem, int argc, char **argv)
{
    samples_flags f = {.number = -1, .limit = -1, .least = NAN, .most = NAN};
    const cli_flag flags[] = {
        {"--rollout", "WHICH", "a number, two (3-7), or all; default: the newest", .text = &f.rollouts},
        {"--sample", "NUMBER", "one sample alone", .integer = &f.number, .max = INT64_MAX},
        {"--min-reward", "X", "samples with a reward of at least X", .number = &f.least, .least = -INFINITY,
         .most = INFINITY},
        {"--max-reward", "X", "samples with a reward of at most X", .number = &f.most, .least = -INFINITY,
         .most = INFINITY},
        {"--finish", "HOW", "samples that ended by: end, length, stop, unfinished", .text = &f.finish},
        {"--find", "TEXT", "samples with this text in their prompt or answer", .text = &f.text},
        {"--limit", "N", "at most N samples", .integer = &f.limit, .max = INT64_MAX},
        {"--json", NULL, "print a line of JSON for each, with the whole texts", .text = &f.json},
        {"--tokens", NULL, "JSON: also ids, log-probabilities and the optimizer steps of the weights, for each token",
         .text = &f.tokens},
        {"--tokenizer", "PATH", "tokenizer.json, or a folder with it; default: the run's", .text = &f.tokenizer}};
    if (cli_parse(argc, argv, &cli_rl_samples, flags, sizeof(flags) / sizeof(flags[0])) != 1)
        return cli_misuse(&cli_rl_samples, "name one folder of a run");
    if (f.tokens != NULL && f.json == NULL)
        return cli_misuse(&cli_rl_samples, "--tokens are printed with --json only");
    return cli_end(samples(mem, argv[1], &f));
}

const cli_command cli_rl_samples = {
    "rl samples", "FOLDER [--rollout WHICH] [--min-reward X] [--find TEXT] [--json] ...",
    "show the samples that a run has drawn, with their rewards\n"
    "FOLDER: the run's job.dump_folder, also while it runs. Samples are read from its journal.",
    .examples = "tessera rl samples out/signs/rl\n"
                "tessera rl samples out/signs/rl --min-reward 0.5 --find yes\n"
                "tessera rl samples out/signs/rl --rollout 3 --json",
    .run = run};
