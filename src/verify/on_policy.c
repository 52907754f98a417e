#include "verify/on_policy.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "verify/on_policy_impl.h"
#include "base/mem/scoped.h"

static const char *const tables[] = {"ref", "avx2", "avx512", "avx512_bf16", "amx"};
enum { N_TABLES = sizeof(tables) / sizeof(tables[0]) };

/* Number of multiplications beyond which a scalar table takes minutes. */
static const double patience = 2e10;

static const double temperatures[] = {0.6, 1, 1.3};

typedef struct on_policy_job {
    tess_mem *mem;
    const tess_on_policy_plan *plan;
    tess_on_policy_result *result;
    on_policy_setting reference; /* setting of training, with all texts in one micro-batch */
    on_policy_texts texts;       /* texts that the policy has drawn, scored by the reference */
    on_policy_texts other;       /* the same texts, scored in the setting being checked */
    int64_t room;
} on_policy_job;

/* ---- One run ---- */
static on_policy_watch watch_of(const on_policy_job *j, const on_policy_setting *setting)
{
    const tess_on_policy_fault *fault = &j->plan->fault;
    bool faulty = fault->what[0] != '\0' && fault->engine == setting->engine;
    return (on_policy_watch){.mem = j->mem, .fault = faulty ? fault : NULL};
}

static tess_status run(const on_policy_job *j, const on_policy_setting *setting, on_policy_watch *watch,
                       on_policy_texts *texts)
{
    return setting->engine == TESS_ENGINE_GENERATION ? on_policy_generate(j->mem, j->plan, setting, watch, texts)
                                                     : on_policy_score(j->mem, j->plan, setting, watch, texts);
}

static void copy_ids(const on_policy_texts *from, on_policy_texts *to)
{
    memcpy(to->length, from->length, (size_t)from->n * sizeof(int64_t));
    memcpy(to->scored, from->scored, (size_t)from->n * sizeof(int64_t));
    memcpy(to->ids, from->ids, (size_t)from->n * (size_t)from->room * sizeof(int32_t));
    memset(to->logprob, 0, (size_t)from->n * (size_t)from->room * sizeof(float));
}

static tess_on_policy_case *add_case(on_policy_job *j, const char *group, bool must_equal, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static tess_on_policy_case *add_case(on_policy_job *j, const char *group, bool must_equal, const char *format, ...)
{
    tess_on_policy_case *c = &j->result->cases[j->result->n++];
    va_list args;
    *c = (tess_on_policy_case){.must_equal = must_equal};
    snprintf(c->group, sizeof(c->group), "%s", group);
    va_start(args, format);
    vsnprintf(c->setting, sizeof(c->setting), format, args);
    va_end(args);
    if (j->plan->note != NULL) {
        char text[128];
        snprintf(text, sizeof(text), "%s: %s", c->group, c->setting);
        j->plan->note(j->plan->self, text);
    }
    return c;
}

/* Computes `texts` in this setting and compares with the values in them, which `reference` has computed. */
static tess_status compare_run(on_policy_job *j, const on_policy_setting *setting, const on_policy_setting *reference,
                               const on_policy_texts *texts, tess_on_policy_case *c)
{
    on_policy_watch watch = watch_of(j, setting);
    copy_ids(texts, &j->other);
    TESS_TRY_CTX(run(j, setting, &watch, &j->other), "%s: %s", c->group, c->setting);
    c->turned_out = watch.turned_out;
    c->shared = watch.shared;
    on_policy_compare(&j->other, texts, c);
    /* values differ from the first operation on if the precision differs */
    if (c->n_different == 0 || setting->dtype != reference->dtype)
        return TESS_OK;
    return on_policy_locate(j->mem, j->plan, reference, setting, texts, c->layer);
}

/* Checks a setting of the policy itself. */
static tess_status check(on_policy_job *j, const char *group, const on_policy_setting *setting, const char *words)
{
    tess_on_policy_case *c = add_case(j, group, true, "%s, %s", tess_on_policy_engine_name(setting->engine), words);
    return compare_run(j, setting, &j->reference, &j->texts, c);
}

static on_policy_setting setting_of(const on_policy_job *j, tess_on_policy_engine engine)
{
    on_policy_setting s = j->reference;
    s.engine = engine;
    return s;
}

/* ---- Settings of one policy: all must give the same bits ---- */
static tess_status check_engines(on_policy_job *j)
{
    on_policy_setting s = setting_of(j, TESS_ENGINE_TRAINING);
    TESS_TRY(check(j, "engine", &s, "once more"));
    s.loss = ON_POLICY_LOSS_WHOLE;
    TESS_TRY(check(j, "engine", &s, "a loss of whole micro-batches"));
    if (s.inv_temperature == 1) {
        s.loss = ON_POLICY_LOSS_NONE;
        TESS_TRY(check(j, "engine", &s, "without a loss object"));
    }
    s.loss = ON_POLICY_LOSS_BY_CHUNK;
    s.recompute = true;
    TESS_TRY(check(j, "engine", &s, "layers recomputed"));
    s = setting_of(j, TESS_ENGINE_EVALUATION);
    TESS_TRY(check(j, "engine", &s, "the same micro-batch"));
    int64_t limit = tess_model_config_max_length(tess_model_get_config(j->plan->model));
    s.longest = 2 * j->room < limit ? 2 * j->room : limit;
    TESS_TRY(check(j, "engine", &s, "made for longer texts"));
    s = setting_of(j, TESS_ENGINE_GENERATION);
    return check(j, "engine", &s, "all at once");
}

static tess_status check_batches(on_policy_job *j)
{
    static const int sizes[] = {1, 2, 3, 7};
    char words[48];
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] < j->texts.n; i++)
        for (int engine = 0; engine < TESS_ENGINE_COUNT; engine++) {
            on_policy_setting s = setting_of(j, (tess_on_policy_engine)engine);
            s.batch = sizes[i];
            snprintf(words, sizeof(words), "%d text%s at a time", s.batch, s.batch > 1 ? "s" : "");
            TESS_TRY(check(j, "batch size", &s, words));
        }
    return TESS_OK;
}

static tess_status check_chunks(on_policy_job *j)
{
    static const int64_t rows[] = {1, 7, 64, 65};
    char words[48];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        on_policy_setting s = setting_of(j, TESS_ENGINE_GENERATION);
        s.pass = rows[i];
        s.batch = 1;
        snprintf(words, sizeof(words), "prompts in chunks of %lld", (long long)s.pass);
        TESS_TRY(check(j, "chunk size", &s, words));
    }
    on_policy_setting s = setting_of(j, TESS_ENGINE_GENERATION);
    s.pass = j->texts.n + 3;
    snprintf(words, sizeof(words), "all at once, in passes of %lld rows", (long long)s.pass);
    return check(j, "chunk size", &s, words);
}

static tess_status check_pages(on_policy_job *j)
{
    on_policy_setting s = setting_of(j, TESS_ENGINE_GENERATION);
    s.few_pages = true;
    TESS_TRY(check(j, "cache", &s, "pages for one text alone"));
    s.few_pages = false;
    s.shared = true;
    TESS_TRY(check(j, "cache", &s, "prompts read once for two"));
    s.few_pages = true;
    return check(j, "cache", &s, "both");
}

static tess_status check_order(on_policy_job *j)
{
    for (int engine = 0; engine < TESS_ENGINE_COUNT; engine++) {
        on_policy_setting s = setting_of(j, (tess_on_policy_engine)engine);
        s.reversed = true;
        TESS_TRY(check(j, "order", &s, "texts last to first"));
        s.batch = 3;
        TESS_TRY(check(j, "order", &s, "last to first, 3 at a time"));
    }
    return TESS_OK;
}

static tess_status check_neighbours(on_policy_job *j)
{
    for (int engine = 0; engine < TESS_ENGINE_COUNT; engine++) {
        on_policy_setting s = setting_of(j, (tess_on_policy_engine)engine);
        s.strangers = true;
        TESS_TRY(check(j, "neighbours", &s, "among other texts"));
        s.batch = 1;
        TESS_TRY(check(j, "neighbours", &s, "each beside another text"));
    }
    return TESS_OK;
}

static tess_status check_threads(on_policy_job *j)
{
    char words[48];
    for (int n = 1; n <= 3; n++)
        for (int engine = 0; engine < TESS_ENGINE_COUNT && n != j->plan->n_threads; engine++) {
            on_policy_setting s = setting_of(j, (tess_on_policy_engine)engine);
            s.n_threads = n;
            snprintf(words, sizeof(words), "%d thread%s", n, n > 1 ? "s" : "");
            TESS_TRY(check(j, "threads", &s, words));
        }
    return TESS_OK;
}

/* ---- Other policies ---- */
/* Checks another policy: it draws texts of its own, on which all of its engines must agree. */
static tess_status check_within(on_policy_job *j, const char *group, const on_policy_setting *policy, const char *name)
{
    on_policy_setting generation = *policy, evaluation = *policy;
    TESS_AUTO(on_policy_texts_free) on_policy_texts own = {0};
    generation.engine = TESS_ENGINE_GENERATION;
    evaluation.engine = TESS_ENGINE_EVALUATION;
    on_policy_watch drawn = watch_of(j, &generation), scored = watch_of(j, policy);
    TESS_TRY(on_policy_texts_make(j->mem, j->texts.n, j->room, &own));
    TESS_TRY(run(j, &generation, &drawn, &own));
    TESS_TRY(run(j, policy, &scored, &own));
    TESS_TRY(compare_run(j, &evaluation, policy, &own, add_case(j, group, true, "%s: evaluation as training", name)));
    return compare_run(j, &generation, policy, &own, add_case(j, group, true, "%s: generation as training", name));
}

/* Compares the policy's texts under another policy. It is no error if bits differ. */
static tess_status compare_policies(on_policy_job *j, const char *group, const on_policy_setting *policy,
                                    const char *name)
{
    tess_on_policy_case *c = add_case(j, group, false, "%s against the policy", name);
    return compare_run(j, policy, &j->reference, &j->texts, c);
}

static tess_status check_policy(on_policy_job *j, const char *group, const on_policy_setting *policy, const char *name)
{
    TESS_TRY(check_within(j, group, policy, name));
    return compare_policies(j, group, policy, name);
}

static tess_status check_temperatures(on_policy_job *j)
{
    char name[32];
    for (size_t i = 0; i < sizeof(temperatures) / sizeof(temperatures[0]); i++) {
        on_policy_setting s = j->reference;
        s.inv_temperature = (float)(1 / temperatures[i]);
        snprintf(name, sizeof(name), "T = %.9g", temperatures[i]);
        if (s.inv_temperature != j->reference.inv_temperature)
            TESS_TRY(check_policy(j, "temperature", &s, name));
    }
    return TESS_OK;
}

static tess_status check_precision(on_policy_job *j)
{
    on_policy_setting s = j->reference;
    s.dtype = s.dtype == TESS_F32 ? TESS_BF16 : TESS_F32;
    return check_policy(j, "precision", &s, tess_dtype_name(s.dtype));
}

/* Returns why a table is not tried, or NULL if it is. */
static const char *why_not(const on_policy_job *j, const char *table)
{
    double products = (double)tess_model_count(j->plan->model) * (double)j->result->n_tokens;
    const tess_kernels *kernels;
    if (j->plan->against == NULL && strcmp(table, "ref") == 0 && products > patience)
        return "would take minutes; --against-kernels ref asks for it";
    return tess_kernels_select(table, &kernels) != TESS_OK ? "not of this machine" : NULL;
}

/* Checks a table in both precisions: in the policy's precision against the policy, and each precision within itself. */
static tess_status check_table(on_policy_job *j, const char *table)
{
    char name[48];
    for (int d = TESS_F32; d <= TESS_BF16; d++) {
        on_policy_setting s = j->reference;
        s.kernels = table;
        s.dtype = (tess_dtype)d;
        snprintf(name, sizeof(name), "%s, %s", table, tess_dtype_name(s.dtype));
        TESS_TRY(s.dtype == j->reference.dtype ? check_policy(j, "kernel table", &s, name)
                                               : check_within(j, "kernel table", &s, name));
    }
    return TESS_OK;
}

static tess_status check_tables(on_policy_job *j)
{
    const char *against = j->plan->against;
    for (int i = 0; i < N_TABLES; i++) {
        if (strcmp(tables[i], j->result->kernels) == 0 || (against != NULL && strcmp(against, tables[i]) != 0))
            continue;
        const char *reason = why_not(j, tables[i]);
        if (reason == NULL)
            TESS_TRY(check_table(j, tables[i]));
        else
            snprintf(add_case(j, "kernel table", false, "%s", tables[i])->skipped, TESS_ON_POLICY_TEXT, "%s", reason);
    }
    return TESS_OK;
}

/* ---- The whole ---- */
static tess_status check_plan(const tess_on_policy_plan *plan, int64_t *room)
{
    const tess_model_config *config = tess_model_get_config(plan->model);
    int64_t limit = tess_model_config_max_length(config), longest = 0;
    const tess_kernels *kernels;
    TESS_CHECK(plan->n_prompts >= 1 && plan->n_prompts <= TESS_ON_POLICY_PROMPTS, TESS_E_INVALID,
               "%d prompts: 1 to %d can be compared", plan->n_prompts, TESS_ON_POLICY_PROMPTS);
    TESS_CHECK(isfinite(plan->temperature) && plan->temperature > 0, TESS_E_INVALID,
               "temperature %g: a policy has one above 0", plan->temperature);
    TESS_CHECK(plan->new_tokens >= 1, TESS_E_INVALID, "%lld new tokens: at least 1 is drawn for each prompt",
               (long long)plan->new_tokens);
    for (int i = 0; i < plan->n_prompts; i++) {
        const tess_on_policy_prompt *p = &plan->prompts[i];
        TESS_CHECK(p->n >= 1 && p->n <= limit - plan->new_tokens, TESS_E_INVALID,
                   "prompt %d has %lld tokens: with %lld new ones it must have 1 to %lld, as the model takes %lld", i,
                   (long long)p->n, (long long)plan->new_tokens, (long long)(limit - plan->new_tokens),
                   (long long)limit);
        for (int64_t t = 0; t < p->n; t++)
            TESS_CHECK(p->ids[t] >= 0 && p->ids[t] < config->vocab_size, TESS_E_INVALID,
                       "prompt %d: token %lld is id %d, but vocab_size is %lld; the tokenizer does not fit the model",
                       i, (long long)t, p->ids[t], (long long)config->vocab_size);
        longest = p->n > longest ? p->n : longest;
    }
    *room = longest + plan->new_tokens;
    if (plan->against != NULL && strcmp(plan->against, "none") != 0)
        TESS_TRY_CTX(tess_kernels_select(plan->against, &kernels), "compared with");
    return TESS_OK;
}

/* Draws the policy's own texts, and computes their log-probabilities as in training. */
static tess_status make_reference(on_policy_job *j)
{
    on_policy_setting generation = setting_of(j, TESS_ENGINE_GENERATION);
    on_policy_watch drawn = watch_of(j, &generation), scored = watch_of(j, &j->reference);
    TESS_TRY(on_policy_texts_make(j->mem, j->plan->n_prompts, j->room, &j->texts));
    TESS_TRY(on_policy_texts_make(j->mem, j->plan->n_prompts, j->room, &j->other));
    TESS_TRY(run(j, &generation, &drawn, &j->texts));
    for (int i = 0; i < j->texts.n; i++)
        j->result->n_tokens += j->texts.length[i] - 1;
    return run(j, &j->reference, &scored, &j->texts);
}

static tess_status check_all(on_policy_job *j)
{
    TESS_TRY(make_reference(j));
    TESS_TRY(check_engines(j));
    TESS_TRY(check_batches(j));
    TESS_TRY(check_chunks(j));
    TESS_TRY(check_pages(j));
    TESS_TRY(check_order(j));
    TESS_TRY(check_neighbours(j));
    TESS_TRY(check_threads(j));
    TESS_TRY(check_temperatures(j));
    TESS_TRY(check_precision(j));
    return check_tables(j);
}

tess_status tess_on_policy_verify(tess_mem *mem, const tess_on_policy_plan *plan, tess_on_policy_result *result)
{
    const tess_kernels *kernels;
    on_policy_job j = {.mem = mem, .plan = plan, .result = result};
    TESS_TRY(check_plan(plan, &j.room));
    TESS_TRY(tess_kernels_select(plan->kernels, &kernels));
    *result =
        (tess_on_policy_result){.dtype = plan->dtype, .temperature = plan->temperature, .n_prompts = plan->n_prompts};
    snprintf(result->kernels, sizeof(result->kernels), "%s", kernels->name);
    j.reference = (on_policy_setting){.engine = TESS_ENGINE_TRAINING,
                                      .kernels = kernels->name,
                                      .dtype = plan->dtype,
                                      .n_threads = plan->n_threads,
                                      .inv_temperature = (float)(1 / plan->temperature)};
    tess_status status = check_all(&j);
    on_policy_texts_free(&j.texts);
    on_policy_texts_free(&j.other);
    return status;
}

const tess_on_policy_case *tess_on_policy_first(const tess_on_policy_result *r)
{
    for (int i = 0; i < r->n; i++)
        if (r->cases[i].must_equal && r->cases[i].n_different > 0)
            return &r->cases[i];
    return NULL;
}
