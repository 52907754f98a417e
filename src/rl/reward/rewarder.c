/* The rewarder: creates the graders that the options name, and computes the rewards of a batch of items. */
#include "rl/reward/reward.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text/text.h"
#include "rl/algo/rl_advantage.h"
#include "rl/reward/grader_pool.h"
#include "rl/reward/reward_http.h"
#include "rl/reward/reward_impl.h"

struct tess_rewarder {
    tess_mem *mem;
    int n_kinds;
    struct rewarder_kind {
        int kind; /* index into kinds */
        double weight;
    } kind[TESS_REWARD_PARTS];
    bool number_fallback;
    int64_t max_tokens, overlong_tokens;
    double max_failures;
    reward_regex regex, format;
    grader_pool *pool;
    reward_http *http;
    tess_reward_failures failures;
};

/* ---- The kinds ---- */
static reward_text response_of(const tess_reward_item *item)
{
    return (reward_text){item->response, item->response_size};
}

static reward_text label_of(const tess_reward_item *item)
{
    return (reward_text){item->label, item->label_size};
}

static tess_status exact(TESS_UNUSED tess_rewarder *r, const tess_reward_item *item, double *value)
{
    *value = reward_exact(response_of(item), label_of(item));
    return TESS_OK;
}

static tess_status number(tess_rewarder *r, const tess_reward_item *item, double *value)
{
    return reward_number(response_of(item), label_of(item), r->number_fallback, value);
}

static tess_status boxed(TESS_UNUSED tess_rewarder *r, const tess_reward_item *item, double *value)
{
    *value = reward_boxed(response_of(item), label_of(item));
    return TESS_OK;
}

static tess_status regex(tess_rewarder *r, const tess_reward_item *item, double *value)
{
    return reward_regex_grade(&r->regex, response_of(item), label_of(item), value);
}

static tess_status format(tess_rewarder *r, const tess_reward_item *item, double *value)
{
    return reward_format_grade(&r->format, response_of(item), value);
}

static tess_status countdown(TESS_UNUSED tess_rewarder *r, const tess_reward_item *item, double *value)
{
    reward_numbers task;
    TESS_TRY(reward_countdown_task(item->metadata, &task));
    *value = reward_countdown(response_of(item), &task);
    return TESS_OK;
}

static tess_status signs(TESS_UNUSED tess_rewarder *r, const tess_reward_item *item, double *value)
{
    reward_numbers task;
    TESS_TRY(reward_signs_task((reward_text){item->prompt, item->prompt_size}, &task));
    *value = reward_signs(response_of(item), &task);
    return TESS_OK;
}

static tess_status f1(tess_rewarder *r, const tess_reward_item *item, double *value)
{
    return reward_f1(r->mem, response_of(item), label_of(item), value);
}

static tess_status length(tess_rewarder *r, const tess_reward_item *item, double *value)
{
    *value = item->n_tokens < r->max_tokens ? -(double)item->n_tokens / (double)r->max_tokens : -1;
    return TESS_OK;
}

/* Yu et al., DAPO (2025), equation 13. */
static tess_status overlong(tess_rewarder *r, const tess_reward_item *item, double *value)
{
    const double penalty = tess_overlong_penalty(item->n_tokens, r->max_tokens, r->overlong_tokens, 1);
    *value = item->truncated ? -1 : fmax(penalty, -1);
    return TESS_OK;
}

/* A kind of grader. grade NULL: processes or requests grade. */
typedef struct reward_kind {
    const char *name;
    tess_status (*grade)(tess_rewarder *r, const tess_reward_item *item, double *value);
} reward_kind;

static const reward_kind kinds[] = {
    {"exact", exact},   {"number", number},     {"boxed", boxed},         {"regex", regex},
    {"format", format}, {"signs", signs},       {"countdown", countdown}, {"f1", f1},
    {"length", length}, {"overlong", overlong}, {"command", NULL},        {"http", NULL},
};
enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* ---- Create ---- */
static tess_status parse_kind(tess_rewarder *r, const char *text, size_t size)
{
    char word[64];
    const char *names[N_KINDS];
    TESS_CHECK(r->n_kinds < TESS_REWARD_PARTS, TESS_E_INVALID, "reward.kind: more than %d graders", TESS_REWARD_PARTS);
    snprintf(word, sizeof(word), "%.*s", (int)size, text);
    struct rewarder_kind *kind = &r->kind[r->n_kinds++];
    kind->weight = 1;
    char *colon = strchr(word, ':'), *end = NULL;
    if (colon != NULL) {
        *colon = '\0';
        kind->weight = strtod(colon + 1, &end);
        TESS_CHECK(end != colon + 1 && *end == '\0' && isfinite(kind->weight), TESS_E_INVALID,
                   "reward.kind: the weight of '%s' is '%s': expected a number", word, colon + 1);
    }
    for (int i = 0; i < N_KINDS; i++)
        names[i] = kinds[i].name;
    TESS_TRY(tess_options_choose("grader of reward.kind", word, names, N_KINDS, &kind->kind));
    for (int i = 0; i + 1 < r->n_kinds; i++)
        TESS_CHECK(r->kind[i].kind != kind->kind, TESS_E_INVALID, "reward.kind names '%s' twice", word);
    return TESS_OK;
}

static tess_status parse_kinds(tess_rewarder *r, const char *text)
{
    TESS_CHECK(text != NULL && text[0] != '\0', TESS_E_INVALID, "reward.kind is empty: name a grader, like number");
    for (const char *at = text;; at++) {
        size_t size = strcspn(at, ",");
        reward_text word = reward_trim((reward_text){at, size});
        TESS_TRY(parse_kind(r, word.at, word.size));
        at += size;
        if (*at == '\0')
            return TESS_OK;
    }
}

static void fall_back(int64_t *value, int64_t otherwise)
{
    if (*value == 0)
        *value = otherwise;
}

tess_status tess_reward_options_complete(tess_reward_options *o)
{
    const int64_t counts[] = {o->workers,        o->in_flight, o->max_answer_bytes, o->max_memory_bytes,
                              o->max_file_bytes, o->max_cpu_s, o->max_processes};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        TESS_CHECK(counts[i] >= 0, TESS_E_INVALID, "a limit of reward is negative");
    TESS_CHECK(o->timeout_s >= 0 && o->start_s >= 0 && o->timeout_s < 1e6 && o->start_s < 1e6, TESS_E_INVALID,
               "reward.timeout_s and reward.start_s are seconds, from 0 up to 1e6");
    TESS_CHECK(o->max_failures >= 0 && o->max_failures <= 1, TESS_E_INVALID,
               "reward.max_failures is %g: expected a share, from 0 to 1", o->max_failures);
    TESS_CHECK(o->max_answer_bytes <= 1 << 30, TESS_E_INVALID, "reward.max_answer_bytes is more than 1 GiB");
    fall_back(&o->workers, 1);
    fall_back(&o->in_flight, 1);
    fall_back(&o->max_answer_bytes, 64 << 10);
    fall_back(&o->max_memory_bytes, INT64_C(8) << 30);
    fall_back(&o->max_file_bytes, 256 << 20);
    fall_back(&o->max_processes, 1024);
    o->timeout_s = o->timeout_s > 0 ? o->timeout_s : 30;
    o->start_s = o->start_s > 0 ? o->start_s : 30;
    o->sandbox = o->sandbox != NULL ? o->sandbox : "";
    o->user = o->user != NULL ? o->user : "";
    o->header_file = o->header_file != NULL ? o->header_file : "";
    return TESS_OK;
}

/* Checks the options that a kind of grader needs. */
static tess_status prepare(tess_rewarder *r, const char *kind, const tess_reward_options *o)
{
    if (strcmp(kind, "regex") == 0) {
        TESS_CHECK(o->regex != NULL && o->regex[0] != '\0', TESS_E_INVALID, "the grader 'regex' needs reward.regex");
        return reward_regex_create(r->mem, o->regex, false, "reward.regex", &r->regex);
    }
    if (strcmp(kind, "format") == 0) {
        TESS_CHECK(o->format != NULL && o->format[0] != '\0', TESS_E_INVALID,
                   "the grader 'format' needs reward.format");
        return reward_regex_create(r->mem, o->format, true, "reward.format", &r->format);
    }
    if (strcmp(kind, "length") == 0 || strcmp(kind, "overlong") == 0)
        TESS_CHECK(o->max_tokens > 0, TESS_E_INVALID, "the grader '%s' needs rollout.max_new_tokens", kind);
    if (strcmp(kind, "overlong") == 0)
        TESS_CHECK(o->overlong_tokens > 0 && o->overlong_tokens <= o->max_tokens, TESS_E_INVALID,
                   "the grader 'overlong' needs rl.overlong_tokens, from 1 to rollout.max_new_tokens");
    if (strcmp(kind, "command") == 0)
        return grader_pool_create(r->mem, o, &r->pool);
    if (strcmp(kind, "http") == 0)
        return reward_http_create(r->mem, o, &r->http);
    return TESS_OK;
}

tess_status tess_rewarder_create(tess_mem *mem, const tess_reward_options *options, tess_rewarder **out)
{
    tess_reward_options o = *options;
    TESS_TRY(tess_reward_options_complete(&o));
    TESS_AUTO(tess_rewarder_destroy) tess_rewarder *r = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "rewards", &r));
    *r = (tess_rewarder){.mem = mem,
                         .number_fallback = o.number_fallback,
                         .max_tokens = o.max_tokens,
                         .overlong_tokens = o.overlong_tokens,
                         .max_failures = o.max_failures};
    TESS_TRY(parse_kinds(r, o.kind));
    for (int i = 0; i < r->n_kinds; i++)
        TESS_TRY(prepare(r, kinds[r->kind[i].kind].name, &o));
    *out = TESS_GIVE(r);
    return TESS_OK;
}

void tess_rewarder_destroy(tess_rewarder **rewarder)
{
    tess_rewarder *r = *rewarder;
    if (r == NULL)
        return;
    grader_pool_destroy(&r->pool);
    reward_http_destroy(&r->http);
    reward_regex_free(&r->regex);
    reward_regex_free(&r->format);
    tess_mem_drop(rewarder);
}

/* ---- Before the first item ---- */
static tess_status check_label(const tess_rewarder *r, const char *kind, const tess_reward_item *item)
{
    static const char *const comparing[] = {"exact", "number", "boxed", "f1"};
    reward_decimal number;
    bool compares = strcmp(kind, "regex") == 0 && tess_regex_n_groups(r->regex.regex) > 0;
    for (size_t i = 0; i < sizeof(comparing) / sizeof(comparing[0]); i++)
        compares |= strcmp(kind, comparing[i]) == 0;
    TESS_CHECK(!compares || item->label_size > 0, TESS_E_INVALID,
               "it has no label, with which the grader '%s' compares (rollout.label_key names its field)", kind);
    return strcmp(kind, "number") == 0 ? reward_number_label(label_of(item), &number) : TESS_OK;
}

static tess_status check_task(const char *kind, const tess_reward_item *item)
{
    reward_numbers task;
    if (strcmp(kind, "countdown") == 0)
        return reward_countdown_task(item->metadata, &task);
    if (strcmp(kind, "signs") == 0)
        return reward_signs_task((reward_text){item->prompt, item->prompt_size}, &task);
    return TESS_OK;
}

tess_status tess_rewarder_check_item(const tess_rewarder *r, const tess_reward_item *item)
{
    for (int i = 0; i < r->n_kinds; i++) {
        const char *kind = kinds[r->kind[i].kind].name;
        TESS_TRY(check_label(r, kind, item));
        TESS_TRY(check_task(kind, item));
    }
    return TESS_OK;
}

/* ---- Score ---- */
static tess_status score_built_in(tess_rewarder *r, reward_call *call, const reward_kind *kind, double weight)
{
    for (int64_t i = 0; i < call->n; i++) {
        if (call->out[i].why[0] != '\0')
            continue;
        reward_answer answer = {.n_parts = 1};
        snprintf(answer.part[0].name, sizeof(answer.part[0].name), "%s", kind->name);
        tess_status status = kind->grade(r, &call->items[i], &answer.value);
        answer.part[0].value = answer.value;
        if (status == TESS_OK)
            status = reward_call_answered(call, i, kind->name, weight, &answer);
        else if (status != TESS_E_NOMEM)
            status = reward_call_failed(call, i, kind->name);
        TESS_TRY(status);
    }
    return TESS_OK;
}

static tess_status score_all(tess_rewarder *r, reward_call *call)
{
    for (int i = 0; i < r->n_kinds; i++) {
        const reward_kind *kind = &kinds[r->kind[i].kind];
        double weight = r->kind[i].weight;
        if (kind->grade != NULL)
            TESS_TRY(score_built_in(r, call, kind, weight));
        else if (strcmp(kind->name, "command") == 0)
            TESS_TRY(grader_pool_score(r->pool, call, weight));
        else
            TESS_TRY(reward_http_score(r->http, call, weight));
    }
    return TESS_OK;
}

/* A grader that no longer reads must not end this process. So SIGPIPE is blocked, and a pending one is discarded. */
static void block_sigpipe(sigset_t *old, bool *was_pending)
{
    sigset_t pipe, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    *was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe, old);
}

static void unblock_sigpipe(const sigset_t *old, bool was_pending)
{
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    while (!was_pending && sigtimedwait(&pipe, NULL, &(struct timespec){0}) == SIGPIPE)
        ;
    pthread_sigmask(SIG_SETMASK, old, NULL);
}

static int64_t allowed_of(const tess_rewarder *r, int64_t n_all)
{
    return (int64_t)floor(r->max_failures * (double)n_all);
}

tess_status tess_rewarder_judge(const tess_rewarder *r, int64_t failed, int64_t n_all)
{
    if (failed <= allowed_of(r, n_all))
        return TESS_OK;
    return reward_too_many(failed, n_all, r->max_failures, r->failures.newest);
}

tess_status tess_rewarder_score(tess_rewarder *r, const tess_reward_item *items, int64_t n, int64_t n_all,
                                tess_reward_result *out)
{
    if (n == 0)
        return TESS_OK;
    reward_call call = {.items = items,
                        .n = n,
                        .out = out,
                        .n_all = n_all,
                        .allowed = allowed_of(r, n_all),
                        .max_failures = r->max_failures,
                        .failures = &r->failures};
    for (int64_t i = 0; i < n; i++)
        out[i] = (tess_reward_result){.scored = true};
    r->failures.n_items += n;
    sigset_t old;
    bool was_pending;
    block_sigpipe(&old, &was_pending);
    tess_status status = score_all(r, &call);
    unblock_sigpipe(&old, was_pending);
    for (int64_t i = 0; i < n; i++)
        if (!out[i].scored)
            out[i].value = 0;
    return status;
}

tess_status tess_rewarder_check(tess_rewarder *r)
{
    sigset_t old;
    bool was_pending;
    block_sigpipe(&old, &was_pending);
    tess_status status = r->pool != NULL ? grader_pool_check(r->pool) : TESS_OK;
    if (status == TESS_OK && r->http != NULL)
        status = reward_http_check(r->http);
    unblock_sigpipe(&old, was_pending);
    return status;
}

void tess_rewarder_failures(const tess_rewarder *r, tess_reward_failures *failures)
{
    *failures = r->failures;
}
