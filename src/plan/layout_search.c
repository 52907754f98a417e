#include "plan/layout_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem/make_room.h"
#include "base/text/text.h"
#include "mesh/mesh_layout.h"
#include "parallel/pipeline/pipeline.h"
#include "tessera/fsdp.h"

enum { RECOMPUTE_NONE, RECOMPUTE_FULL, RECOMPUTE_EVERY_N }; /* activation_checkpoint.mode */
enum { N_STRATEGIES = TESS_STRATEGY_HYBRID + 1, N_IMPROVED = 12, MOST_ROWS = 64 };

/* ---- Conditions ---- */
/* A setting that conditions may name. */
typedef struct search_word {
    const char *name;
    int64_t (*value)(const tess_search_layout *l);
    tess_status (*parse)(const char *text, int64_t *value);
} search_word;

static int64_t strategy_of(const tess_search_layout *l)
{
    return l->strategy;
}
static int64_t schedule_of(const tess_search_layout *l)
{
    return l->schedule;
}
static int64_t method_of(const tess_search_layout *l)
{
    return l->method;
}
static int64_t micro_of(const tess_search_layout *l)
{
    return l->micro;
}

static tess_status parse_number(const char *text, int64_t *value)
{
    return tess_options_int(text, 1, TESS_MESH_MOST_RANKS, value);
}

static tess_status parse_strategy(const char *text, int64_t *value)
{
    const char *names[N_STRATEGIES];
    int chosen = 0;
    for (int s = 0; s < N_STRATEGIES; s++)
        names[s] = tess_strategy_name((tess_strategy)s);
    TESS_TRY(tess_options_choose("strategy", text, names, N_STRATEGIES, &chosen));
    *value = chosen;
    return TESS_OK;
}

static tess_status parse_schedule(const char *text, int64_t *value)
{
    tess_pipeline_kind kind;
    TESS_TRY(tess_pipeline_kind_parse(text, &kind));
    *value = (int64_t)kind;
    return TESS_OK;
}

static tess_status parse_method(const char *text, int64_t *value)
{
    const char *names[TESS_CONTEXT_METHODS];
    int chosen = 0;
    for (int m = 0; m < TESS_CONTEXT_METHODS; m++)
        names[m] = tess_context_method_name(m);
    TESS_TRY(tess_options_choose("method", text, names, TESS_CONTEXT_METHODS, &chosen));
    *value = chosen;
    return TESS_OK;
}

static const search_word words[] = {{"strategy", strategy_of, parse_strategy},
                                    {"schedule", schedule_of, parse_schedule},
                                    {"method", method_of, parse_method},
                                    {"micro", micro_of, parse_number}};
enum { N_WORDS = sizeof(words) / sizeof(words[0]), MOST_CONDITIONS = 16 };

static const char *degree_name(int degree)
{
    return degree == TESS_SEARCH_EP ? "ep" : tess_axis_name(degree);
}

/* A value that a setting may have. Conditions with the same setting allow each of their values. */
typedef struct condition {
    int setting; /* a degree, or TESS_SEARCH_DEGREES + a word */
    int64_t value;
} condition;

typedef struct search_conditions {
    condition all[MOST_CONDITIONS];
    int n;
} search_conditions;

static tess_status take_condition(char *text, search_conditions *c)
{
    const char *names[TESS_SEARCH_DEGREES + N_WORDS];
    char *value = strchr(text, '=');
    int chosen = 0;
    TESS_CHECK(value != NULL, TESS_E_INVALID, "'%.60s' is no condition: write words such as tp=8,strategy=full", text);
    *value++ = '\0';
    for (int d = 0; d < TESS_SEARCH_DEGREES; d++)
        names[d] = degree_name(d);
    for (int w = 0; w < N_WORDS; w++)
        names[TESS_SEARCH_DEGREES + w] = words[w].name;
    TESS_TRY(tess_options_choose("condition", text, names, TESS_SEARCH_DEGREES + N_WORDS, &chosen));
    TESS_CHECK(c->n < MOST_CONDITIONS, TESS_E_INVALID, "more than %d conditions", MOST_CONDITIONS);
    condition *last = &c->all[c->n++];
    last->setting = chosen;
    return chosen < TESS_SEARCH_DEGREES ? parse_number(value, &last->value)
                                        : words[chosen - TESS_SEARCH_DEGREES].parse(value, &last->value);
}

static tess_status parse_conditions(const char *text, search_conditions *c)
{
    char copy[512], *rest = NULL;
    *c = (search_conditions){0};
    if (text == NULL)
        return TESS_OK;
    TESS_CHECK(strlen(text) < sizeof(copy), TESS_E_INVALID, "the conditions are longer than %zu bytes", sizeof(copy));
    memcpy(copy, text, strlen(text) + 1);
    for (char *word = strtok_r(copy, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest))
        TESS_TRY(take_condition(word, c));
    return TESS_OK;
}

static int64_t setting_of(const tess_search_layout *l, int setting)
{
    return setting < TESS_SEARCH_DEGREES ? l->degree[setting] : words[setting - TESS_SEARCH_DEGREES].value(l);
}

/* Returns the first value that the conditions name for a word; without one, `otherwise`. */
static int64_t asked_value(const search_conditions *c, const char *word, int64_t otherwise)
{
    for (int i = 0; i < c->n; i++)
        if (c->all[i].setting >= TESS_SEARCH_DEGREES &&
            strcmp(words[c->all[i].setting - TESS_SEARCH_DEGREES].name, word) == 0)
            return c->all[i].value;
    return otherwise;
}

static bool is_asked_for(const search_conditions *c, const tess_search_layout *l)
{
    for (int i = 0; i < c->n; i++) {
        bool found = false;
        for (int k = 0; k < c->n && !found; k++)
            found = c->all[k].setting == c->all[i].setting && c->all[k].value == setting_of(l, c->all[k].setting);
        if (!found)
            return false;
    }
    return true;
}

/* ---- One layout ---- */
void tess_search_configure(const tess_search_layout *l, tess_config *config)
{
    tess_parallelism_section *p = &config->parallelism;
    const int64_t leaves = 2LL * l->degree[TESS_AXIS_CP];
    for (int axis = 0; axis < TESS_AXES; axis++)
        *tess_axis_degree(p, axis) = l->degree[axis];
    p->expert_parallel_degree = l->degree[TESS_SEARCH_EP];
    p->shard_strategy = l->strategy;
    p->fsdp_reshard_after_forward = l->reshard;
    if (l->schedule >= 0)
        p->pipeline_parallel_schedule = l->schedule;
    else
        tess_text_list_free(&p->pipeline_parallel_split_points);
    if (l->method >= 0)
        p->context_parallel_method = l->method;
    if (l->degree[TESS_AXIS_CP] > 1 && config->training.context_leaves < leaves)
        config->training.context_leaves = leaves;
    config->activation_checkpoint.mode = l->recompute;
    config->activation_checkpoint.partition &= l->degree[TESS_AXIS_TP] > 1;
    config->training.local_batch_size = l->micro;
}

size_t tess_search_describe(const tess_search_layout *l, char *text, size_t size)
{
    static const char *const recomputed[] = {"none", "full", "every second layer", "selective"};
    size_t at = 0;
    for (int axis = TESS_AXES - 1; axis >= 0; axis--) {
        if (l->degree[axis] == 1)
            continue;
        at = tess_text_add(text, size, at, "%s%s %d", at > 0 ? " x " : "", tess_axis_name(axis), l->degree[axis]);
        if (axis == TESS_AXIS_PP)
            at = tess_text_add(text, size, at, " (%s)", tess_pipeline_kind_name((tess_pipeline_kind)l->schedule));
        if (axis == TESS_AXIS_CP)
            at = tess_text_add(text, size, at, " (%s)", tess_context_method_name(l->method));
    }
    if (at == 0)
        at = tess_text_add(text, size, at, "one rank");
    if (l->degree[TESS_SEARCH_EP] > 1)
        at = tess_text_add(text, size, at, ", ep %d", l->degree[TESS_SEARCH_EP]);
    at = tess_text_add(text, size, at, ", %s%s, micro %lld", tess_strategy_name((tess_strategy)l->strategy),
                       l->reshard == 0 ? " kept gathered" : "", (long long)l->micro);
    if (l->recompute != RECOMPUTE_NONE)
        at = tess_text_add(text, size, at, ", recomputation %s", recomputed[l->recompute]);
    return at;
}

typedef struct walk {
    tess_planner *planner;
    const tess_search_request *request;
    search_conditions conditions;
    tess_search *found;
    int n_done, n_all;
} walk;

static void refuse(tess_search_layout *l)
{
    l->outcome = TESS_SEARCH_REFUSED;
    tess_text_add(l->reason, sizeof(l->reason), 0, "%s", tess_error_message());
    tess_error_clear();
}

static void take_plan(const tess_plan *plan, tess_search_layout *l)
{
    const tess_plan_time *t = &plan->time;
    l->step_s = t->step_s;
    l->compute_s = t->compute_s;
    l->exposed_s = t->exposed_s;
    l->bubble_s = fmax(t->bubble_s, 0);
    l->optimizer_s = t->optimizer_s;
    l->tokens_per_s_rank = t->tokens_per_s_rank;
    l->mfu = t->mfu;
    l->price_per_million = t->price_per_million;
    l->bound = t->bound;
    memcpy(l->bound_axis, t->bound_axis, sizeof(l->bound_axis));
}

/* Plans memory and, if it fits, time. An error is one of the search; a layout that is not possible is refused. */
static tess_status plan_configured(const walk *w, const tess_config *config, tess_search_layout *l, tess_plan *plan)
{
    tess_plan_request request = w->request->plan;
    request.config = config;
    tess_status status = tess_plan_memory_of(w->planner, &request, &plan->memory);
    if (status == TESS_OK) {
        l->bytes = plan->memory.bytes;
        l->missing = plan->memory.missing;
        l->outcome = l->missing > 0 ? TESS_SEARCH_TOO_LARGE : TESS_SEARCH_FITS;
        if (l->missing > 0)
            return TESS_OK;
        request.options.no_memory = true;
        status = tess_plan_make(w->planner, &request, plan);
        if (status == TESS_OK)
            take_plan(plan, l);
    }
    if (status != TESS_E_INVALID && status != TESS_E_UNSUPPORTED)
        return status;
    refuse(l);
    return TESS_OK;
}

static tess_status plan_layout(walk *w, tess_search_layout *l)
{
    TESS_AUTO(tess_config_free) tess_config config = {0};
    tess_plan *plan;
    l->reason[0] = '\0';
    TESS_TRY(tess_config_copy(w->request->plan.config, &config));
    tess_search_configure(l, &config);
    if (tess_config_check_step(&config, w->request->plan.n_ranks) != TESS_OK) {
        refuse(l);
        return TESS_OK;
    }
    TESS_TRY(TESS_NEW(w->found->mem, 1, "plan", &plan));
    tess_status status = plan_configured(w, &config, l, plan);
    tess_mem_free(w->found->mem, plan);
    return status;
}

/* ---- All layouts ---- */
static tess_status add_layout(walk *w, const tess_search_layout *l)
{
    tess_search *s = w->found;
    if (!is_asked_for(&w->conditions, l))
        return TESS_OK;
    TESS_TRY(tess_mem_make_room(s->mem, TESS_POOL_MISC, (size_t)s->n, sizeof(*l), "layouts", &s->room, &s->layouts));
    s->layouts[s->n++] = *l;
    return TESS_OK;
}

/* Whether a strategy differs from all others in this layout: without replicas hybrid equals full, and with them full
 * equals hybrid. One rank alone has nothing to share. */
static bool has_strategy(const tess_search_layout *l, int strategy)
{
    const int shards = l->degree[TESS_AXIS_SHARD] * l->degree[TESS_AXIS_CP];
    if (l->degree[TESS_AXIS_REPLICATE] > 1)
        return strategy == TESS_STRATEGY_HYBRID && shards > 1;
    return shards == 1 ? strategy == TESS_STRATEGY_FULL : strategy != TESS_STRATEGY_HYBRID;
}

static tess_status add_experts(walk *w, tess_search_layout l)
{
    const int64_t n_experts = w->request->plan.model->parts.experts.n;
    const int neighbours = l.degree[TESS_AXIS_SHARD] * l.degree[TESS_AXIS_CP];
    int *experts = &l.degree[TESS_SEARCH_EP];
    *experts = 1;
    TESS_TRY(add_layout(w, &l));
    for (int n = 1; n_experts > 0 && neighbours % n == 0; n *= 2) {
        *experts = n * l.degree[TESS_AXIS_TP];
        if (*experts > 1 && n_experts % *experts == 0)
            TESS_TRY(add_layout(w, &l));
    }
    return TESS_OK;
}

static tess_status add_variants(walk *w, tess_search_layout l)
{
    const int64_t rows = w->request->plan.config->training.global_batch_size;
    const int64_t copies = (int64_t)l.degree[TESS_AXIS_REPLICATE] * l.degree[TESS_AXIS_SHARD];
    if (rows % (copies * l.micro) != 0)
        return TESS_OK;
    l.schedule = l.degree[TESS_AXIS_PP] > 1 ? (int)asked_value(&w->conditions, "schedule", TESS_PIPELINE_1F1B) : -1;
    l.method = l.degree[TESS_AXIS_CP] > 1 ? (int)asked_value(&w->conditions, "method", TESS_CONTEXT_ULYSSES) : -1;
    for (l.strategy = 0; l.strategy < N_STRATEGIES; l.strategy++)
        if (has_strategy(&l, l.strategy))
            TESS_TRY(add_experts(w, l));
    return TESS_OK;
}

/* Whether a degree is worth a plan: no more stages than layers; tensor parallelism where ranks are near each other,
 * inside a host or within reach of NVLink; replicas and ranks that divide tokens are powers of two, the latter with
 * texts of at least some thousand tokens each. */
static bool is_sensible(const walk *w, int axis, int degree)
{
    static const int64_t least_tokens = 2048;
    const tess_plan_request *plan = &w->request->plan;
    const bool power = (degree & (degree - 1)) == 0;
    switch (axis) {
    case TESS_AXIS_PP:
        return degree <= plan->model->n_layers;
    case TESS_AXIS_TP:
        return degree <= plan->ranks_a_host || degree <= plan->machine->links[TESS_LINK_NVLINK].reach;
    case TESS_AXIS_CP:
        return power && (degree == 1 || plan->config->training.seq_len / degree >= least_tokens);
    case TESS_AXIS_REPLICATE:
        return power;
    default:
        return true;
    }
}

/* Enumerates the degrees of `axis` and the following ones, whose product is `left`. */
static tess_status factorise(walk *w, int axis, int left, tess_search_layout *l)
{
    if (axis == TESS_AXES) {
        if (left == 1)
            return add_variants(w, *l);
        return TESS_OK;
    }
    for (int degree = 1; degree <= left; degree++) {
        l->degree[axis] = degree;
        if (left % degree == 0 && is_sensible(w, axis, degree))
            TESS_TRY(factorise(w, axis + 1, left / degree, l));
    }
    return TESS_OK;
}

/* ---- The search ---- */
/* Those that fit first, the fastest first; then those that miss least; then those that were refused. */
static int by_time(const void *a, const void *b)
{
    const tess_search_layout *x = a, *y = b;
    if (x->outcome != y->outcome)
        return (int)x->outcome - (int)y->outcome;
    const double left = x->outcome == TESS_SEARCH_FITS ? x->step_s : x->missing;
    const double right = y->outcome == TESS_SEARCH_FITS ? y->step_s : y->missing;
    return (left > right) - (left < right);
}

static void tell(walk *w)
{
    w->n_done++;
    if (w->request->progress != NULL)
        w->request->progress(w->request->self, w->n_done, w->n_all);
}

static tess_status plan_all(walk *w)
{
    tess_search *s = w->found;
    w->n_all = s->n;
    for (int i = 0; i < s->n; i++, tell(w)) {
        tess_search_layout *l = &s->layouts[i];
        TESS_TRY(plan_layout(w, l));
        if (l->outcome != TESS_SEARCH_TOO_LARGE)
            continue;
        l->recompute = RECOMPUTE_FULL;
        TESS_TRY(plan_layout(w, l));
    }
    return TESS_OK;
}

/* Plans a layout, and takes it in place of the present one if its step is shorter. */
static tess_status improve(walk *w, tess_search_layout other, tess_search_layout *l, bool *better)
{
    if (!is_asked_for(&w->conditions, &other))
        return TESS_OK;
    TESS_TRY(plan_layout(w, &other));
    if (other.outcome == TESS_SEARCH_FITS && other.step_s < l->step_s) {
        *l = other;
        *better = true;
    }
    return TESS_OK;
}

/* Tries every neighbour of a layout: the layouts that differ in one setting. */
static tess_status improve_once(walk *w, tess_search_layout *l, bool *better)
{
    tess_search_layout other = *l;
    other.micro = l->micro * 2;
    const int64_t copies = (int64_t)l->degree[TESS_AXIS_REPLICATE] * l->degree[TESS_AXIS_SHARD];
    if (other.micro <= MOST_ROWS && w->request->plan.config->training.global_batch_size / copies % other.micro == 0)
        TESS_TRY(improve(w, other, l, better));
    for (int kind = 0; l->schedule >= 0 && kind < TESS_PIPELINE_KINDS; kind++) {
        other = *l;
        other.schedule = kind;
        if (kind != l->schedule)
            TESS_TRY(improve(w, other, l, better));
    }
    for (int method = 0; l->method >= 0 && method < TESS_CONTEXT_METHODS; method++) {
        other = *l;
        other.method = method;
        if (method != l->method)
            TESS_TRY(improve(w, other, l, better));
    }
    for (int mode = RECOMPUTE_NONE; mode <= RECOMPUTE_EVERY_N; mode++) {
        other = *l;
        other.recompute = mode;
        if (mode != l->recompute)
            TESS_TRY(improve(w, other, l, better));
    }
    other = *l;
    other.reshard = !l->reshard;
    return l->strategy == TESS_STRATEGY_FULL || l->strategy == TESS_STRATEGY_HYBRID ? improve(w, other, l, better)
                                                                                    : TESS_OK;
}

static tess_status improve_best(walk *w)
{
    tess_search *s = w->found;
    const int n = s->n_fits < N_IMPROVED ? s->n_fits : N_IMPROVED;
    w->n_all += n;
    for (int i = 0; i < n; i++, tell(w))
        for (bool better = true; better;) {
            better = false;
            TESS_TRY(improve_once(w, &s->layouts[i], &better));
        }
    return TESS_OK;
}

static void sort(tess_search *s)
{
    qsort(s->layouts, (size_t)s->n, sizeof(*s->layouts), by_time);
    s->n_fits = 0;
    while (s->n_fits < s->n && s->layouts[s->n_fits].outcome == TESS_SEARCH_FITS)
        s->n_fits++;
}

static tess_status search_layouts(walk *w)
{
    tess_search_layout first = {.micro = 1, .reshard = 1, .recompute = RECOMPUTE_NONE};
    TESS_TRY(parse_conditions(w->request->only, &w->conditions));
    first.micro = asked_value(&w->conditions, "micro", first.micro);
    TESS_TRY(factorise(w, 0, w->request->plan.n_ranks, &first));
    TESS_CHECK(w->found->n > 0, TESS_E_INVALID,
               "no layout of %d ranks and %lld rows a step%s%s: ranks that divide the batch divide its rows",
               w->request->plan.n_ranks, (long long)w->request->plan.config->training.global_batch_size,
               w->request->only != NULL ? " meets " : "", w->request->only != NULL ? w->request->only : "");
    TESS_TRY(plan_all(w));
    sort(w->found);
    TESS_TRY(improve_best(w));
    sort(w->found);
    return TESS_OK;
}

tess_status tess_search_layouts(tess_mem *mem, tess_planner *planner, const tess_search_request *request,
                                tess_search *search)
{
    walk w = {.planner = planner, .request = request, .found = search};
    *search = (tess_search){.mem = mem};
    tess_status status = search_layouts(&w);
    if (status != TESS_OK)
        tess_search_free(search);
    return status;
}

void tess_search_free(tess_search *search)
{
    if (search->mem != NULL)
        tess_mem_free(search->mem, search->layouts);
    *search = (tess_search){0};
}
