#include "verify/verify_layouts.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem/make_room.h"
#include "base/os/os.h"
#include "base/text/text.h"
#include "engine/model/model_file.h"
#include "mesh/mesh_layout.h"
#include "parallel/pipeline/pipeline.h"
#include "tessera/fsdp.h"
#include "engine/stages/rank_stage.h"
#include "verify/verify_impl.h"

enum { N_STRATEGIES = TESS_STRATEGY_HYBRID + 1 };

const char *tess_verify_outcome_name(tess_verify_outcome outcome)
{
    static const char *const names[TESS_VERIFY_OUTCOMES] = {"same", "differs", "failed", "refused"};
    return names[outcome];
}

int tess_verify_walk_count(const tess_verify_walk *walk, tess_verify_outcome outcome)
{
    int n = 0;
    for (int i = 0; i < walk->n; i++)
        n += walk->layouts[i].outcome == outcome;
    return n;
}

/* ---- The layouts that are to be run ---- */
/* Bit v of each word: value v is wanted; 0: all values are. Degrees are stored as numbers. */
typedef struct conditions {
    unsigned strategies, schedules, methods;
    int degree[TESS_VERIFY_DEGREES][8], n_degrees[TESS_VERIFY_DEGREES];
} conditions;

static tess_status take_strategy(const char *value, conditions *c)
{
    for (int s = 0; s < N_STRATEGIES; s++)
        if (strcmp(value, tess_strategy_name((tess_strategy)s)) == 0) {
            c->strategies |= 1u << s;
            return TESS_OK;
        }
    return TESS_FAIL(TESS_E_INVALID, "strategy '%s' is not one of none, zero1, zero2, full, hybrid", value);
}

static tess_status take_method(const char *value, conditions *c)
{
    for (int m = 0; m < TESS_CONTEXT_METHODS; m++)
        if (strcmp(value, tess_context_method_name(m)) == 0) {
            c->methods |= 1u << m;
            return TESS_OK;
        }
    return TESS_FAIL(TESS_E_INVALID, "method '%s' is not one of gather, ulysses, ring", value);
}

static tess_status take_condition(const char *word, conditions *c)
{
    char name[32], value[32], *end;
    TESS_CHECK(sscanf(word, "%31[^=]=%31s", name, value) == 2, TESS_E_INVALID,
               "'%s' is no condition: write all, or words such as pp=2,schedule=1f1b,strategy=full", word);
    if (strcmp(name, "strategy") == 0)
        return take_strategy(value, c);
    if (strcmp(name, "method") == 0)
        return take_method(value, c);
    if (strcmp(name, "schedule") == 0) {
        tess_pipeline_kind kind;
        TESS_TRY(tess_pipeline_kind_parse(value, &kind));
        c->schedules |= 1u << kind;
        return TESS_OK;
    }
    char names[TESS_VERIFY_DEGREES * TESS_MESH_NAME_SIZE] = "";
    for (int d = 0, end = 0; d < TESS_VERIFY_DEGREES; d++)
        end = (int)tess_text_add(names, sizeof(names), (size_t)end, "%s, ", tess_verify_degree_name(d));
    int axis = 0;
    while (axis < TESS_VERIFY_DEGREES && strcmp(name, tess_verify_degree_name(axis)) != 0)
        axis++;
    TESS_CHECK(axis < TESS_VERIFY_DEGREES, TESS_E_INVALID, "'%s' is none of %sstrategy, schedule, method", name, names);
    long degree = strtol(value, &end, 10);
    TESS_CHECK(*end == '\0' && degree >= 1 && degree <= TESS_MESH_MOST_RANKS, TESS_E_INVALID,
               "%s=%s: give a number from 1", name, value);
    TESS_CHECK(c->n_degrees[axis] < 8, TESS_E_INVALID, "%s: at most 8 values", name);
    c->degree[axis][c->n_degrees[axis]++] = (int)degree;
    return TESS_OK;
}

static tess_status parse_conditions(const char *text, conditions *c)
{
    char words[256], *rest = words;
    *c = (conditions){0};
    if (strcmp(text, "all") == 0)
        return TESS_OK;
    TESS_CHECK(snprintf(words, sizeof(words), "%s", text) < (int)sizeof(words), TESS_E_INVALID, "too long");
    for (char *word = strtok_r(words, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest))
        TESS_TRY(take_condition(word, c));
    return TESS_OK;
}

static bool is_asked_for(const conditions *c, const tess_verify_layout *l)
{
    for (int axis = 0; axis < TESS_VERIFY_DEGREES; axis++) {
        bool found = c->n_degrees[axis] == 0;
        for (int i = 0; i < c->n_degrees[axis]; i++)
            found = found || c->degree[axis][i] == l->degree[axis];
        if (!found)
            return false;
    }
    if (c->schedules != 0 && (l->schedule < 0 || !(c->schedules >> l->schedule & 1)))
        return false;
    if (c->methods != 0 && (l->method < 0 || !(c->methods >> l->method & 1)))
        return false;
    return c->strategies == 0 || (c->strategies >> l->strategy & 1);
}

/* ---- All layouts ---- */
/* Whether a strategy differs from all others in this layout. Without replicas, hybrid equals full. With replicas,
 * full equals hybrid, and none shards nothing in both cases. One rank alone has nothing to share. */
static bool has_strategy(const tess_verify_layout *l, int strategy)
{
    if (l->degree[TESS_AXIS_REPLICATE] * l->degree[TESS_AXIS_SHARD] * l->degree[TESS_AXIS_CP] == 1)
        return strategy == TESS_STRATEGY_FULL;
    if (l->degree[TESS_AXIS_REPLICATE] == 1)
        return strategy != TESS_STRATEGY_HYBRID;
    return strategy != TESS_STRATEGY_FULL && strategy != TESS_STRATEGY_NONE;
}

static tess_status add_layout(const conditions *c, const tess_verify_layout *l, tess_verify_walk *walk)
{
    if (!is_asked_for(c, l))
        return TESS_OK;
    TESS_TRY(tess_mem_make_room(walk->mem, TESS_POOL_MISC, (size_t)walk->n, sizeof(*l), "layouts", &walk->room,
                                &walk->layouts));
    walk->layouts[walk->n++] = *l;
    return TESS_OK;
}

/* Adds the layout without and with ranks that divide experts: all tensor-parallel ones, and neighbours. */
static tess_status add_experts(const conditions *c, tess_verify_layout l, tess_verify_walk *walk)
{
    int *experts = &l.degree[TESS_VERIFY_EP];
    *experts = 1;
    TESS_TRY(add_layout(c, &l, walk));
    for (int n = 1; l.degree[TESS_AXIS_SHARD] * l.degree[TESS_AXIS_CP] % n == 0; n *= 2) {
        *experts = n * l.degree[TESS_AXIS_TP];
        if (*experts > 1 && walk->n_experts > 0 && walk->n_experts % *experts == 0)
            TESS_TRY(add_layout(c, &l, walk));
    }
    return TESS_OK;
}

static tess_status add_variants(const conditions *c, tess_verify_layout l, tess_verify_walk *walk)
{
    const bool cut = l.degree[TESS_AXIS_PP] > 1, divides = l.degree[TESS_AXIS_CP] > 1;
    for (l.strategy = 0; l.strategy < N_STRATEGIES; l.strategy++)
        for (l.schedule = cut ? 0 : -1; l.schedule < (cut ? TESS_PIPELINE_KINDS : 0); l.schedule++)
            for (l.method = divides ? 0 : -1; l.method < (divides ? TESS_CONTEXT_METHODS : 0); l.method++)
                if (has_strategy(&l, l.strategy))
                    TESS_TRY(add_experts(c, l, walk));
    return TESS_OK;
}

/* Enumerates the degrees of `axis` and the following axes, whose product is `left`. */
static tess_status factorise(const conditions *c, int axis, int left, tess_verify_layout *l, tess_verify_walk *walk)
{
    if (axis == TESS_AXES - 1) {
        l->degree[axis] = left;
        return add_variants(c, *l, walk);
    }
    for (int degree = 1; degree <= left; degree++) {
        l->degree[axis] = degree;
        if (left % degree == 0 && (axis != TESS_AXIS_CP || degree == 1 || walk->n_leaves > 1))
            TESS_TRY(factorise(c, axis + 1, left / degree, l, walk));
    }
    return TESS_OK;
}

/* ---- One layout ---- */
static tess_status configure(const tess_config *base, const tess_verify_layout *l, tess_config *config)
{
    TESS_TRY(tess_config_copy(base, config));
    for (int axis = 0; axis < TESS_AXES; axis++)
        *tess_axis_degree(&config->parallelism, axis) = l->degree[axis];
    config->parallelism.expert_parallel_degree = l->degree[TESS_VERIFY_EP];
    config->activation_checkpoint.partition &= l->degree[TESS_AXIS_TP] > 1;
    if (l->degree[TESS_AXIS_PP] == 1)
        tess_text_list_free(&config->parallelism.pipeline_parallel_split_points);
    config->parallelism.shard_strategy = l->strategy;
    if (l->schedule >= 0)
        config->parallelism.pipeline_parallel_schedule = l->schedule;
    if (l->method >= 0)
        config->parallelism.context_parallel_method = l->method;
    return TESS_OK;
}

/* Finds errors that ranks would report when they start: stages without layers, a number of micro-batches that the
 * schedule does not allow, layers that ranks cannot share. */
static tess_status check_layout(tess_mem *mem, const tess_config *config, const tess_verify_layout *l)
{
    const tess_coordinates at = tess_coordinates_by(l->degree, 0);
    tess_model_config sizes;
    TESS_AUTO(tess_model_destroy) tess_model *whole = NULL;
    TESS_AUTO(tess_model_destroy) tess_model *part = NULL;
    tess_stage_plan plan;
    tess_executor_options options = {0};
    TESS_TRY(tess_config_load_model(config, NULL, &sizes));
    TESS_TRY(tess_model_create(mem, &sizes, &whole));
    TESS_TRY(tess_stage_create_part(mem, config, &sizes, 0, 0, &part));
    TESS_TRY(tess_stage_plan_create(mem, config, &sizes, 0, &plan));
    int64_t n_local = tess_coordinates_rounds(&at, tess_config_micro_batches(config));
    tess_status status = l->schedule >= 0 ? tess_stage_slots(mem, &plan, whole, (int)n_local, &options) : TESS_OK;
    tess_stage_plan_free(mem, &plan);
    return status;
}

/* Describes the difference in a few words: the first step, what differs in it, and the first tensor with its stage. */
static void describe_difference(const tess_verify_result *r, tess_verify_layout *l)
{
    const tess_verify_tensor *first = NULL, *misplaced = NULL;
    for (int i = 0; i < r->n_tensors; i++) {
        const tess_verify_tensor *t = &r->tensors[i];
        bool differs = r->first_step > 0 && (t->grads_step == r->first_step || t->weights_step == r->first_step);
        first = first == NULL && differs ? t : first;
        misplaced = misplaced == NULL && t->shards[0] != '\0' ? t : misplaced;
    }
    if (first == NULL)
        first = misplaced;
    char stage[32] = "";
    if (first != NULL && r->stages > 1)
        snprintf(stage, sizeof(stage), " (stage %d of %d)", first->stage, r->stages);
    if (r->first_step > 0 && first != NULL)
        snprintf(l->text, sizeof(l->text), "from step %lld on, first %s%s", (long long)r->first_step, first->name,
                 stage);
    else if (r->first_step > 0)
        snprintf(l->text, sizeof(l->text), "from step %lld on, in the loss or the gradient norm alone",
                 (long long)r->first_step);
    else if (first != NULL)
        snprintf(l->text, sizeof(l->text), "%s%s: %s", first->name, stage, first->shards);
    else
        snprintf(l->text, sizeof(l->text), "memory is not as planned");
}

static tess_status compare_layout(tess_mem *mem, const tess_verify_plan *plan, verify_run runs[2],
                                  tess_verify_layout *l)
{
    double begin_s = tess_os_now_s();
    tess_status status = verify_run_steps(&runs[LAYOUT]);
    l->seconds = tess_os_now_s() - begin_s;
    if (status != TESS_OK && status != TESS_E_INTERRUPTED) {
        l->outcome = TESS_VERIFY_FAILED;
        snprintf(l->text, sizeof(l->text), "%s", tess_error_message());
        tess_error_clear();
        return TESS_OK;
    }
    TESS_TRY(status);
    tess_verify_result *r;
    TESS_TRY(TESS_NEW(mem, 1, "verify", &r));
    *r = (tess_verify_result){.mem = mem, .ranks = plan->ranks, .steps = plan->steps};
    status = verify_take_results(mem, runs, r);
    if (status == TESS_OK && !tess_verify_same(r)) {
        l->outcome = TESS_VERIFY_DIFFERS;
        describe_difference(r, l);
    }
    tess_verify_free(r);
    tess_mem_free(mem, r);
    return status;
}

static tess_status run_configured(tess_mem *mem, const tess_verify_plan *plan, tess_config *config, verify_run runs[2],
                                  tess_verify_layout *l)
{
    tess_status status = tess_config_check_step(config, plan->ranks);
    if (status == TESS_OK)
        status = check_layout(mem, config, l);
    if (status == TESS_E_INVALID || status == TESS_E_UNSUPPORTED) {
        l->outcome = TESS_VERIFY_REFUSED;
        snprintf(l->text, sizeof(l->text), "%s", tess_error_message());
        tess_error_clear();
        return TESS_OK;
    }
    TESS_TRY(status);
    status = verify_open_layout(mem, plan, config, &runs[LAYOUT]);
    if (status == TESS_OK)
        status = compare_layout(mem, plan, runs, l);
    verify_run_close(&runs[LAYOUT]);
    return status;
}

static tess_status run_layout(tess_mem *mem, const tess_verify_plan *plan, const tess_config *base, verify_run runs[2],
                              tess_verify_layout *l)
{
    TESS_AUTO(tess_config_free) tess_config config = {0};
    TESS_TRY(configure(base, l, &config));
    return run_configured(mem, plan, &config, runs, l);
}

/* ---- The whole ---- */
/* Sets the global batch. The ranks of any layout share the rows of a step that plain data parallelism of all ranks
 * would have. */
static tess_status fix_batch(const tess_verify_plan *plan, tess_config *base)
{
    TESS_AUTO(tess_config_free) tess_config plain = {0};
    TESS_TRY(tess_config_copy(base, &plain));
    for (int axis = 0; axis < TESS_AXES; axis++)
        *tess_axis_degree(&plain.parallelism, axis) = tess_axis_kind_of(axis) == TESS_AXIS_OF_BATCH ? -1 : 1;
    plain.parallelism.expert_parallel_degree = 1;
    plain.activation_checkpoint.partition = false;
    plain.parallelism.shard_strategy = TESS_STRATEGY_NONE; /* this strategy fits any number of ranks */
    TESS_TRY(tess_config_check(&plain, plan->ranks));
    base->training.global_batch_size = plain.training.global_batch_size;
    return TESS_OK;
}

/* Runs `base` on one rank, then in each layout of the walk. */
static tess_status run_walk(tess_mem *mem, const tess_verify_plan *plan, const tess_config *base,
                            void (*done)(void *self, const tess_verify_layout *layout), tess_verify_walk *walk)
{
    verify_run runs[2] = {0};
    tess_status status = verify_open_one(mem, plan, base, &runs[ONE]);
    if (plan->note != NULL)
        plan->note(plan->self, "one rank");
    if (status == TESS_OK)
        status = verify_run_steps(&runs[ONE]);
    if (status != TESS_OK)
        tess_fail_context(status, "one rank");
    for (int i = 0; i < walk->n && status == TESS_OK; i++) {
        char text[64];
        snprintf(text, sizeof(text), "layout %d of %d", i + 1, walk->n);
        if (plan->note != NULL)
            plan->note(plan->self, text);
        status = run_layout(mem, plan, base, runs, &walk->layouts[i]);
        if (status == TESS_OK && done != NULL)
            done(plan->self, &walk->layouts[i]);
    }
    verify_run_close(&runs[ONE]);
    return status;
}

/* Ranks divide tokens only in a run with leaves, which change its bits: they are set, not chosen here. */
static tess_status check_leaves(const conditions *c, int64_t n_leaves)
{
    int most = 1;
    for (int i = 0; i < c->n_degrees[TESS_AXIS_CP]; i++)
        most = c->degree[TESS_AXIS_CP][i] > most ? c->degree[TESS_AXIS_CP][i] : most;
    TESS_CHECK(most == 1 || n_leaves > 1, TESS_E_INVALID,
               "cp=%d: ranks divide tokens only if the run has leaves: set training.context_leaves=%d", most, 2 * most);
    return TESS_OK;
}

static tess_status list_layouts(const tess_verify_plan *plan, const char *which, tess_verify_walk *walk)
{
    conditions c;
    tess_verify_layout first = {0};
    tess_model_config sizes;
    TESS_TRY(tess_config_load_model(plan->config, NULL, &sizes));
    walk->n_experts = sizes.parts.experts.n;
    walk->n_leaves = plan->config->training.context_leaves;
    TESS_TRY_CTX(parse_conditions(which, &c), "--layouts %s", which);
    TESS_TRY_CTX(check_leaves(&c, walk->n_leaves), "--layouts %s", which);
    TESS_TRY(factorise(&c, 0, plan->ranks, &first, walk));
    TESS_CHECK(walk->n > 0, TESS_E_INVALID, "--layouts %s: no layout of %d ranks is so", which, plan->ranks);
    return TESS_OK;
}

tess_status tess_verify_layouts(tess_mem *mem, const tess_verify_plan *plan, const char *which,
                                void (*done)(void *self, const tess_verify_layout *layout), tess_verify_walk *walk)
{
    TESS_AUTO(tess_config_free) tess_config base = {0};
    *walk = (tess_verify_walk){.mem = mem, .ranks = plan->ranks, .steps = plan->steps};
    TESS_TRY(list_layouts(plan, which, walk));
    TESS_TRY(tess_config_copy(plan->config, &base));
    TESS_TRY(fix_batch(plan, &base));
    walk->global_batch = base.training.global_batch_size;
    return run_walk(mem, plan, &base, done, walk);
}

void tess_verify_walk_free(tess_verify_walk *walk)
{
    tess_mem_drop(&walk->layouts);
}
