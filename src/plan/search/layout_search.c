#include "plan/search/layout_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem/make_room.h"
#include "base/mem/scoped.h"
#include "parallel/pipeline/pipeline.h"
#include "plan/dry_rank.h"
#include "plan/search/search_axes.h"
#include "plan/search/search_conditions.h"
#include "plan/search/step_bound.h"
#include "tessera/fsdp.h"

enum { N_STRATEGIES = TESS_STRATEGY_HYBRID + 1, N_BEST = 3, N_IMPROVED = 3, N_NEAREST = 8, MOST_ROWS = 64 };

typedef struct walk {
    tess_planner *planner;
    const tess_search_request *request;
    tess_search_conditions conditions;
    tess_search *found;
    tess_step_bounds *bounds;
    bool varies_precision;
    bool offloads; /* nothing fits without offload, so what does not fit offloads */
    int n_done;
    double best_s[N_BEST]; /* (n_best) times of the fastest steps so far, the fastest first */
    int n_best;
    int *queue; /* (n_queued) a heap of layouts that are not planned, by their bounds: the lowest first */
    int n_queued;
    size_t queue_room;
} walk;

static double room_of(const walk *w)
{
    const tess_machine *m = w->request->plan.machine;
    return m->machine.kind == TESS_MACHINE_GPU && m->memory.gb > 0 ? m->memory.gb * 1e9 : INFINITY;
}

/* The bytes that are missing where a rank needs `bytes` of its device, and the ranks of a host `host_bytes` of the
 * host. */
static double lacking(const walk *w, double bytes, double host_bytes)
{
    const double host_room = w->request->plan.machine->memory.host_gb * 1e9;
    const double missing = fmax(0, bytes - room_of(w));
    return host_room > 0 ? fmax(missing, host_bytes - host_room) : missing;
}

/* The bytes that a layout lacks by its bounds. */
static double lacks(const walk *w, const tess_search_layout *l)
{
    return w->request->exhaustive ? 0 : lacking(w, l->bound_bytes, l->bound_host);
}

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

/* Whether a step takes at least its bound and all its parts. */
static bool is_consistent(const tess_plan_time *t, const tess_search_layout *l)
{
    const double parts[] = {t->compute_s, t->exposed_s, t->bubble_s, t->optimizer_s}, least = -0.001 * t->step_s;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (parts[i] < least || parts[i] > t->step_s - least)
            return false;
    return t->step_s >= l->bound_s;
}

/* Plans memory and, if it fits, time. An error is one of the search; a layout that is not possible is refused. */
static tess_status plan_configured(const walk *w, const tess_config *config, bool exact, tess_search_layout *l,
                                   tess_plan *plan)
{
    tess_plan_request request = w->request->plan;
    request.config = config;
    request.machine = tess_step_bounds_machine(w->bounds, l->precision);
    request.options.no_volume = true;
    request.options.until_too_large = !exact;
    tess_status status = tess_plan_memory_of(w->planner, &request, &plan->memory);
    if (status == TESS_OK) {
        l->bytes = plan->memory.bytes;
        l->most_rank = plan->memory.rank;
        l->host_rank = plan->memory.host_rank;
        l->host_bytes = plan->memory.host_bytes;
        l->missing = plan->memory.missing;
        l->outcome = l->missing > 0 ? TESS_SEARCH_TOO_LARGE : TESS_SEARCH_FITS;
        l->planned = exact || l->missing == 0;
        if (l->missing > 0)
            return TESS_OK;
        request.options.no_memory = true;
        status = tess_plan_make(w->planner, &request, plan);
        /* Another rank of a pipeline may be the slowest if there are few layers or micro-batches. */
        request.options.full_ranks = true;
        if (status == TESS_OK && !is_consistent(&plan->time, l))
            status = tess_plan_make(w->planner, &request, plan);
        if (status == TESS_OK)
            take_plan(plan, l);
    }
    if (status != TESS_E_INVALID && status != TESS_E_UNSUPPORTED)
        return status;
    refuse(l);
    return TESS_OK;
}

/* `exact`: also of a layout that does not fit, its memory is that of its largest rank. */
static tess_status plan_layout(walk *w, bool exact, tess_search_layout *l)
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
    tess_status status = plan_configured(w, &config, exact, l, plan);
    tess_mem_free(w->found->mem, plan);
    return status;
}

/* ---- Settings that are not enumerated ---- */
/* The first setting in which the layouts of a family differ; TESS_SEARCH_AXES: it is one layout. */
static tess_search_axis open_axis(const tess_search_layout *l)
{
    int axis = 0;
    while (axis < TESS_SEARCH_AXES && tess_search_value_of(l, (tess_search_axis)axis) != TESS_SEARCH_OPEN)
        axis++;
    return (tess_search_axis)axis;
}

/* Finds the next member of a family: *value is that of the last, or -1. Returns false if there are no more. */
static bool next_member(const walk *w, const tess_search_layout *family, tess_search_axis axis, int64_t *value,
                        tess_search_layout *member)
{
    const bool has_fp8 = w->request->plan.machine->compute.fp8_tflops > 0;
    const bool is_named = tess_search_names(&w->conditions, axis);
    const int64_t least = axis == TESS_SEARCH_PRECISION && !is_named ? TESS_SEARCH_BF16 : 0;
    *member = *family;
    *value = *value < least ? least : *value + 1;
    for (; *value < tess_search_axis_values(axis); ++*value) {
        *tess_search_value(member, axis) = *value;
        if (tess_search_is_asked_for(&w->conditions, member) &&
            (axis != TESS_SEARCH_PRECISION || *value != TESS_SEARCH_FP8 || has_fp8))
            return true;
    }
    return false;
}

/* Whether the search may offload. A GPU has its host's memory; a CPU host needs a folder on a disk. */
static bool can_offload(const walk *w)
{
    const tess_plan_request *q = &w->request->plan;
    return !tess_search_names(&w->conditions, TESS_SEARCH_OFFLOAD) &&
           (q->machine->machine.kind == TESS_MACHINE_GPU || q->config->offload.folder[0] != '\0');
}

/* Returns the next value of offload that takes more away than the configuration and `value` do; -1: there is none. */
static int64_t next_offload(const walk *w, int64_t value)
{
    const tess_config *c = w->request->plan.config;
    const bool away[] = {true, c->offload.optimizer, c->offload.grads, c->offload.params};
    if (!w->offloads)
        return -1;
    for (value++; value <= TESS_SEARCH_OFFLOAD_ALL; value++)
        if (!away[value])
            return value;
    return -1;
}

/* ---- Enumeration ---- */
static tess_status append_layout(walk *w, const tess_search_layout *l)
{
    tess_search *s = w->found;
    TESS_TRY(tess_mem_make_room(s->mem, TESS_POOL_MISC, (size_t)s->n, sizeof(*l), "layouts", &s->room, &s->layouts));
    s->layouts[s->n++] = *l;
    return TESS_OK;
}

/* Adds a layout with the values of recomputation and offload that are asked for, or without both. */
static tess_status add_layout(walk *w, tess_search_layout l)
{
    const tess_search_axis axes[] = {TESS_SEARCH_RECOMPUTE, TESS_SEARCH_OFFLOAD};
    int64_t most[2];
    for (int i = 0; i < 2; i++)
        most[i] = tess_search_names(&w->conditions, axes[i]) ? tess_search_axis_values(axes[i]) : 1;
    for (l.recompute = 0; l.recompute < most[0]; l.recompute++)
        for (l.offload = 0; l.offload < most[1]; l.offload++)
            if (tess_search_is_asked_for(&w->conditions, &l))
                TESS_TRY(append_layout(w, &l));
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
    TESS_TRY(add_layout(w, l));
    for (int n = 1; n_experts > 0 && neighbours % n == 0; n *= 2) {
        *experts = n * l.degree[TESS_AXIS_TP];
        if (*experts > 1 && n_experts % *experts == 0)
            TESS_TRY(add_layout(w, l));
    }
    return TESS_OK;
}

/* Adds a layout that gathers again for backward and, if its weights are gathered, one that keeps them. */
static tess_status add_strategies(walk *w, tess_search_layout l)
{
    for (l.strategy = 0; l.strategy < N_STRATEGIES; l.strategy++) {
        if (!has_strategy(&l, l.strategy))
            continue;
        l.reshard = 1;
        TESS_TRY(add_experts(w, l));
        l.reshard = 0;
        if (l.strategy >= TESS_STRATEGY_FULL && l.degree[TESS_AXIS_SHARD] * l.degree[TESS_AXIS_CP] > 1)
            TESS_TRY(add_experts(w, l));
    }
    return TESS_OK;
}

/* Whether layouts differ in a setting that is worth a plan. Ranks that share layers may gain from having all rows each
 * only where they exchange operands: with at least as many tokens as the model has channels they exchange weights
 * (cuts_products_by_rows of nn/executor_plan.c). The order of a schedule's file is that of its kind. */
static bool varies(const walk *w, const tess_search_layout *l, tess_search_axis axis)
{
    const tess_config *c = w->request->plan.config;
    const int64_t tokens = l->micro / c->training.passes * c->training.seq_len / l->degree[TESS_AXIS_CP];
    if (!tess_search_axis_spreads(axis, l))
        return false;
    switch (axis) {
    case TESS_SEARCH_SEQUENCE:
        return tokens < w->request->plan.model->hidden_size || tess_search_names(&w->conditions, axis);
    case TESS_SEARCH_PRECISION:
        return w->varies_precision;
    default:
        return c->parallelism.pipeline_parallel_schedule_csv[0] == '\0';
    }
}

/* Makes a family of layouts that differ in all such settings. */
static tess_search_layout family_of(const walk *w, tess_search_layout l)
{
    for (int axis = 0; axis < TESS_SEARCH_AXES; axis++)
        if (varies(w, &l, (tess_search_axis)axis))
            *tess_search_value(&l, (tess_search_axis)axis) = TESS_SEARCH_OPEN;
    if (l.degree[TESS_AXIS_PP] > 1 && l.schedule != TESS_SEARCH_OPEN)
        l.schedule = w->request->plan.config->parallelism.pipeline_parallel_schedule;
    return l;
}

static tess_status add_micro_batches(walk *w, tess_search_layout l)
{
    const int64_t rows = w->request->plan.config->training.global_batch_size,
                  copies = (int64_t)l.degree[TESS_AXIS_REPLICATE] * l.degree[TESS_AXIS_SHARD],
                  asked = tess_search_asked_value(&w->conditions, TESS_SEARCH_MICRO, 0);
    for (l.micro = asked > 0 ? asked : 1; rows % (copies * l.micro) == 0 && l.micro <= MOST_ROWS; l.micro *= 2) {
        TESS_TRY(add_strategies(w, family_of(w, l)));
        if (asked > 0)
            break;
    }
    return TESS_OK;
}

static tess_status add_variants(walk *w, tess_search_layout l)
{
    l.method = -1;
    if (l.degree[TESS_AXIS_CP] == 1)
        return add_micro_batches(w, l);
    for (l.method = 0; l.method < TESS_CONTEXT_METHODS; l.method++)
        TESS_TRY(add_micro_batches(w, l));
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

/* ---- Order ---- */
/* The value by which layouts of one outcome are sorted. */
static double rank_of(const tess_search_layout *l)
{
    return l->outcome == TESS_SEARCH_FITS ? l->step_s : l->outcome == TESS_SEARCH_SLOWER ? l->bound_s : l->missing;
}

static int compare_layouts(const void *a, const void *b)
{
    const tess_search_layout *x = a, *y = b;
    if (x->outcome != y->outcome)
        return (int)x->outcome - (int)y->outcome;
    if (x->outcome == TESS_SEARCH_TOO_LARGE && x->planned != y->planned)
        return x->planned ? -1 : 1;
    return (rank_of(x) > rank_of(y)) - (rank_of(x) < rank_of(y));
}

static void sort(tess_search *s)
{
    qsort(s->layouts, (size_t)s->n, sizeof(*s->layouts), compare_layouts);
    s->n_fits = 0;
    while (s->n_fits < s->n && s->layouts[s->n_fits].outcome == TESS_SEARCH_FITS)
        s->n_fits++;
}

/* Tells how many layouts were planned. */
static void tell(walk *w, int n_more)
{
    w->n_done += n_more;
    if (w->request->progress != NULL)
        w->request->progress(w->request->self, w->n_done, w->found->n);
}

/* ---- Bounds ---- */
/* Checks that the machine has a link for each team of the layout. */
static tess_status check_links(const walk *w, const tess_search_layout *l)
{
    const tess_plan_request *q = &w->request->plan;
    for (int axis = TESS_AXES - 1, stride = 1; axis >= 0; stride *= l->degree[axis--]) {
        tess_link_kind kind;
        if (l->degree[axis] > 1)
            TESS_TRY(tess_machine_link_of(q->machine, 0, stride, l->degree[axis], tess_plan_ranks_a_host(q), &kind));
    }
    return TESS_OK;
}

/* A layout that is refused whatever its memory and time. */
static bool is_refused(const walk *w, tess_search_layout *l)
{
    if (check_links(w, l) == TESS_OK && tess_step_bounds_check(w->bounds, l) == TESS_OK)
        return false;
    refuse(l);
    return true;
}

static tess_status bound_layout(const walk *w, tess_search_layout *l, tess_bound_level level);
static bool ease(const walk *w, tess_search_layout *l);

/* Whether a layout that does not fit has a setting left that saves memory. Its step then takes no less time. */
static bool can_ease(const walk *w, tess_search_layout l)
{
    return l.outcome == TESS_SEARCH_TOO_LARGE && ease(w, &l);
}

/* The bounds of a family are the lowest ones of its members, also of those that fit only with settings that save
 * memory. It is refused, or too large, if all of them are. */
static tess_status bound_family(const walk *w, tess_search_layout *l, tess_search_axis axis, tess_bound_level level)
{
    tess_search_layout member;
    double least_s = INFINITY, least_bytes = INFINITY, least_missing = INFINITY;
    tess_bound_level basis = TESS_BOUND_OF_MICRO;
    l->outcome = TESS_SEARCH_REFUSED;
    l->n_members = 0;
    for (int64_t value = -1; next_member(w, l, axis, &value, &member);) {
        TESS_TRY(bound_layout(w, &member, level));
        l->n_members += member.n_members;
        if (member.outcome == TESS_SEARCH_REFUSED) {
            memcpy(l->reason, member.reason, sizeof(l->reason));
            continue;
        }
        least_bytes = fmin(least_bytes, member.bound_bytes);
        least_missing = fmin(least_missing, lacks(w, &member));
        if (l->outcome == TESS_SEARCH_REFUSED || member.outcome == TESS_SEARCH_SLOWER)
            l->outcome = member.outcome;
        if (member.outcome != TESS_SEARCH_SLOWER && !can_ease(w, member))
            continue;
        least_s = fmin(least_s, member.bound_s);
        basis = member.bound_level < basis ? member.bound_level : basis;
    }
    l->bound_s = least_s;
    l->bound_bytes = least_bytes;
    l->bound_level = l->outcome == TESS_SEARCH_SLOWER ? basis : level;
    l->bytes = l->bound_bytes;
    l->missing = least_missing;
    return TESS_OK;
}

/* Sets the bounds and the outcome: SLOWER, which is open as long as the bound is not compared, TOO_LARGE or REFUSED. */
static tess_status bound_layout(const walk *w, tess_search_layout *l, tess_bound_level level)
{
    const tess_search_axis axis = open_axis(l);
    if (axis < TESS_SEARCH_AXES)
        return bound_family(w, l, axis, level);
    l->n_members = 1;
    if (is_refused(w, l))
        return TESS_OK;
    TESS_TRY(tess_step_bounds_of(w->bounds, l, level));
    l->bytes = l->bound_bytes;
    l->missing = lacks(w, l);
    l->outcome = l->missing > 0 ? TESS_SEARCH_TOO_LARGE : TESS_SEARCH_SLOWER;
    return TESS_OK;
}

/* ---- The queue ---- */
static bool is_sooner(const walk *w, int i, int k)
{
    const double x = w->found->layouts[w->queue[i]].bound_s, y = w->found->layouts[w->queue[k]].bound_s;
    return x < y || (x == y && w->queue[i] < w->queue[k]);
}

static void swap_items(walk *w, int i, int k)
{
    const int item = w->queue[i];
    w->queue[i] = w->queue[k];
    w->queue[k] = item;
}

static tess_status push_layout(walk *w, int item)
{
    TESS_TRY(tess_mem_make_room(w->found->mem, TESS_POOL_MISC, (size_t)w->n_queued, sizeof(*w->queue), "layouts",
                                &w->queue_room, &w->queue));
    int at = w->n_queued++;
    w->queue[at] = item;
    for (; at > 0 && is_sooner(w, at, (at - 1) / 2); at = (at - 1) / 2)
        swap_items(w, at, (at - 1) / 2);
    return TESS_OK;
}

static int pop_layout(walk *w)
{
    const int first = w->queue[0];
    swap_items(w, 0, --w->n_queued);
    for (int at = 0, next = 1; next < w->n_queued; at = next, next = 2 * at + 1) {
        next += next + 1 < w->n_queued && is_sooner(w, next + 1, next);
        if (is_sooner(w, at, next))
            break;
        swap_items(w, at, next);
    }
    return first;
}

static void note_step(walk *w, double step_s)
{
    int at = w->n_best < N_BEST ? w->n_best++ : step_s < w->best_s[N_BEST - 1] ? N_BEST - 1 : -1;
    for (; at > 0 && w->best_s[at - 1] > step_s; at--)
        w->best_s[at] = w->best_s[at - 1];
    if (at >= 0)
        w->best_s[at] = step_s;
}

/* The time of the slowest step that is among the best; INFINITY: there are too few. */
static double slowest_best_s(const walk *w)
{
    return w->n_best == N_BEST ? w->best_s[N_BEST - 1] : INFINITY;
}

/* ---- Settings that save memory ---- */
/* Gives a layout that does not fit the next setting that saves memory: recomputation or, if nothing fits with that, the
 * next value of offload. Returns false if there is none. */
static bool ease(const walk *w, tess_search_layout *l)
{
    const int64_t next = next_offload(w, l->offload);
    if (!w->offloads && l->recompute == TESS_RECOMPUTE_NONE &&
        !tess_search_names(&w->conditions, TESS_SEARCH_RECOMPUTE)) {
        l->recompute = TESS_RECOMPUTE_FULL;
        return true;
    }
    l->offload = next >= 0 ? next : l->offload;
    return next >= 0;
}

/* Bounds a layout, which saves memory until it fits by its bound. Then it is queued. */
static tess_status settle(walk *w, int item, tess_bound_level level)
{
    for (bool eased = true; eased;) {
        TESS_TRY(bound_layout(w, &w->found->layouts[item], level));
        if (w->found->layouts[item].outcome == TESS_SEARCH_SLOWER)
            return push_layout(w, item);
        if (w->found->layouts[item].outcome != TESS_SEARCH_TOO_LARGE)
            return TESS_OK;
        eased = ease(w, &w->found->layouts[item]);
        level = TESS_BOUND_OF_WEIGHTS; /* its other bounds cost more */
    }
    return TESS_OK;
}

/* ---- All layouts ---- */
/* Replaces a family by its members, with bounds of a level. */
static tess_status expand(walk *w, int item, tess_search_axis axis, tess_bound_level level)
{
    const tess_search_layout family = w->found->layouts[item];
    tess_search_layout member;
    bool is_first = true;
    for (int64_t value = -1; next_member(w, &family, axis, &value, &member); is_first = false) {
        if (is_first)
            w->found->layouts[item] = member;
        else
            TESS_TRY(append_layout(w, &member));
        const int at = is_first ? item : w->found->n - 1;
        TESS_TRY(settle(w, at, level));
    }
    return TESS_OK;
}

/* Plans a layout and, if it does not fit, gives it what saves memory. */
static tess_status plan_or_ease(walk *w, int item)
{
    tess_search_layout l = w->found->layouts[item];
    TESS_TRY(plan_layout(w, w->request->exhaustive, &l));
    w->found->layouts[item] = l;
    tell(w, 1);
    if (l.outcome == TESS_SEARCH_FITS)
        note_step(w, l.step_s);
    return l.outcome == TESS_SEARCH_TOO_LARGE && ease(w, &w->found->layouts[item])
               ? settle(w, item, TESS_BOUND_OF_WEIGHTS)
               : TESS_OK;
}

/* Plans layouts in the order of their bounds, until no other one can be among the best. */
static tess_status plan_queue(walk *w)
{
    while (w->n_queued > 0) {
        const int item = pop_layout(w);
        const tess_search_layout *l = &w->found->layouts[item];
        const tess_search_axis axis = open_axis(l);
        if (l->bound_s >= slowest_best_s(w) && !w->request->exhaustive)
            return TESS_OK;
        /* Pieces with and without sequence parallelism differ, and each costs dry ranks. */
        if (l->bound_level == TESS_BOUND_OF_ROW && l->sequence == TESS_SEARCH_OPEN)
            TESS_TRY(expand(w, item, TESS_SEARCH_SEQUENCE, TESS_BOUND_OF_ROW));
        else if (l->bound_level < TESS_BOUND_OF_MICRO) {
            TESS_TRY(settle(w, item, l->bound_level + 1));
            tell(w, 0);
        } else if (axis < TESS_SEARCH_AXES)
            TESS_TRY(expand(w, item, axis, TESS_BOUND_OF_MICRO));
        else
            TESS_TRY(plan_or_ease(w, item));
    }
    return TESS_OK;
}

/* Lets all layouts offload that do not fit: as they are, and without recomputation. So of each layout, with and without
 * recomputation, the one with the least offload remains that fits. */
static tess_status offload_all(walk *w)
{
    const int n = w->found->n;
    w->offloads = true;
    for (int i = 0; i < n; i++) {
        tess_search_layout l = w->found->layouts[i];
        const int64_t next = next_offload(w, l.offload);
        if (l.outcome != TESS_SEARCH_TOO_LARGE || next < 0)
            continue;
        w->found->layouts[i].offload = l.offload = next;
        TESS_TRY(settle(w, i, TESS_BOUND_OF_WEIGHTS));
        if (l.recompute == TESS_RECOMPUTE_NONE || tess_search_names(&w->conditions, TESS_SEARCH_RECOMPUTE))
            continue;
        l.recompute = TESS_RECOMPUTE_NONE;
        TESS_TRY(append_layout(w, &l));
        TESS_TRY(settle(w, w->found->n - 1, TESS_BOUND_OF_WEIGHTS));
    }
    return plan_queue(w);
}

static tess_status plan_best(walk *w)
{
    const int n = w->found->n;
    for (int i = 0; i < n; i++)
        TESS_TRY(settle(w, i, TESS_BOUND_OF_WEIGHTS));
    TESS_TRY(plan_queue(w));
    return w->n_best == 0 && !w->request->without_nearest && can_offload(w) ? offload_all(w) : TESS_OK;
}

/* Chooses the member of a family that misses least by its bound. It counts for all members. */
static tess_status choose_member(walk *w, tess_search_layout *l)
{
    for (tess_search_axis axis; (axis = open_axis(l)) < TESS_SEARCH_AXES;) {
        tess_search_layout member, least = *l;
        const int n = l->n_members;
        least.outcome = TESS_SEARCH_REFUSED;
        for (int64_t value = -1; next_member(w, l, axis, &value, &member);) {
            TESS_TRY(bound_layout(w, &member, TESS_BOUND_OF_WEIGHTS));
            if (least.outcome == TESS_SEARCH_REFUSED ||
                (member.outcome != TESS_SEARCH_REFUSED && member.missing < least.missing))
                least = member;
        }
        *l = least;
        l->n_members = n;
    }
    return TESS_OK;
}

/* If nothing fits, plans some of those that may miss least, so that the first of them is planned. */
static tess_status plan_nearest(walk *w)
{
    tess_search_layout *layouts = w->found->layouts;
    sort(w->found);
    if (w->found->n_fits > 0 || w->request->without_nearest)
        return TESS_OK;
    for (int i = 0; i < N_NEAREST && i < w->found->n && layouts[i].outcome == TESS_SEARCH_TOO_LARGE; i++) {
        TESS_TRY(choose_member(w, &layouts[i]));
        TESS_TRY(plan_layout(w, true, &layouts[i]));
        tell(w, 1);
    }
    sort(w->found);
    return TESS_OK;
}

/* ---- Improvements ---- */
/* Plans a layout and adds it to those that are found, unless it is known or cannot be faster than `than`. *better: it
 * is. */
static tess_status try_layout(walk *w, tess_search_layout other, const tess_search_layout *than,
                              tess_search_layout *best)
{
    tess_search *s = w->found;
    if (!tess_search_is_asked_for(&w->conditions, &other))
        return TESS_OK;
    for (int i = 0; i < s->n; i++)
        if (tess_search_equal(&s->layouts[i], &other) && s->layouts[i].outcome != TESS_SEARCH_SLOWER)
            return TESS_OK;
    TESS_TRY(tess_step_bounds_of(w->bounds, &other, TESS_BOUND_OF_MICRO));
    if ((other.bound_s >= than->step_s || other.bound_bytes > room_of(w)) && !w->request->exhaustive)
        return TESS_OK;
    TESS_TRY(plan_layout(w, w->request->exhaustive, &other));
    TESS_TRY(append_layout(w, &other));
    tell(w, 1);
    if (other.outcome == TESS_SEARCH_FITS && other.step_s < best->step_s)
        *best = other;
    return TESS_OK;
}

/* Tries the neighbours of a layout: other recomputation and, where it offloads, less of it. */
static tess_status try_neighbours(walk *w, const tess_search_layout *l, tess_search_layout *best)
{
    const bool is_fixed = tess_search_names(&w->conditions, TESS_SEARCH_OFFLOAD);
    tess_search_layout other = *l;
    for (other.offload = is_fixed ? l->offload : 0; other.offload <= l->offload; other.offload++)
        for (other.recompute = TESS_RECOMPUTE_NONE; other.recompute <= TESS_RECOMPUTE_EVERY_N; other.recompute++)
            TESS_TRY(try_layout(w, other, l, best));
    return TESS_OK;
}

static tess_status improve_best(walk *w)
{
    const int n = tess_search_names(&w->conditions, TESS_SEARCH_RECOMPUTE) ? 0
                  : w->found->n_fits < N_IMPROVED                          ? w->found->n_fits
                                                                           : N_IMPROVED;
    for (int i = 0; i < n; i++) {
        tess_search_layout best = w->found->layouts[i], last; /* new layouts are added after the others */
        do {
            last = best;
            TESS_TRY(try_neighbours(w, &last, &best));
        } while (best.step_s < last.step_s);
    }
    return TESS_OK;
}

static tess_status enumerate(walk *w)
{
    tess_search_layout first = {.schedule = -1, .micro = 1, .reshard = 1, .sequence = 1, .n_members = 1};
    TESS_TRY(tess_search_conditions_parse(w->request->only, &w->conditions));
    w->varies_precision = w->request->varies_precision || tess_search_names(&w->conditions, TESS_SEARCH_PRECISION);
    TESS_TRY(factorise(w, 0, w->request->plan.n_ranks, &first));
    TESS_CHECK(
        w->found->n > 0, TESS_E_INVALID,
        "no layout of %d ranks and %lld rows a step%s%s: ranks that divide the batch divide its rows, and schedule "
        "needs pp above 1, method cp, sp tp",
        w->request->plan.n_ranks, (long long)w->request->plan.config->training.global_batch_size,
        w->request->only != NULL ? " meets " : "", w->request->only != NULL ? w->request->only : "");
    return TESS_OK;
}

/* ---- The best ones ---- */
/* Runs dry ranks of full depth in the place of those that need most of a device and of a host, and takes their bytes.
 */
static tess_status count_in_full(const walk *w, tess_search_layout *l)
{
    TESS_AUTO(tess_config_free) tess_config config = {0};
    tess_dry_report report;
    const tess_plan_request *q = &w->request->plan;
    TESS_TRY(tess_plan_config_copy(q, &config));
    tess_search_configure(l, &config);
    TESS_TRY(tess_config_check_step(&config, q->n_ranks));
    tess_memory_plan plan = tess_plan_dry(q, &config);
    plan.moves = false;
    TESS_TRY(tess_planner_model(w->planner, &config, q->model, &plan.whole));
    TESS_TRY(tess_dry_rank(&plan, q->model, l->most_rank, &report));
    l->bytes = tess_pools_sum(tess_memory_of_report(&plan, &report).device);
    if (l->host_rank != l->most_rank)
        TESS_TRY(tess_dry_rank(&plan, q->model, l->host_rank, &report));
    l->host_bytes = tess_pools_sum(tess_memory_of_report(&plan, &report).pool) * plan.n_local;
    l->missing = lacking(w, l->bytes, l->host_bytes);
    l->outcome = l->missing > 0 ? TESS_SEARCH_TOO_LARGE : l->outcome;
    l->in_full = true;
    return TESS_OK;
}

/* Shallow dry ranks serve the search. The best layouts do not depend on them: the largest rank of each runs in full. */
static tess_status check_best(walk *w)
{
    tess_search *s = w->found;
    if (w->request->plan.machine->machine.kind != TESS_MACHINE_GPU)
        return TESS_OK;
    for (int i = 0; i < N_BEST && i < s->n_fits;) {
        if (!s->layouts[i].in_full)
            TESS_TRY(count_in_full(w, &s->layouts[i]));
        if (s->layouts[i].outcome == TESS_SEARCH_FITS)
            i++;
        else
            sort(s);
    }
    return TESS_OK;
}

static tess_status search_layouts(walk *w)
{
    TESS_TRY(enumerate(w));
    TESS_TRY(tess_step_bounds_create(w->found->mem, w->planner, &w->request->plan, &w->bounds));
    TESS_TRY(plan_best(w));
    TESS_TRY(plan_nearest(w));
    TESS_TRY(improve_best(w));
    sort(w->found);
    return check_best(w);
}

tess_status tess_search_layouts(tess_mem *mem, tess_planner *planner, const tess_search_request *request,
                                tess_search *search)
{
    walk w = {.planner = planner, .request = request, .found = search};
    *search = (tess_search){.mem = mem};
    tess_status status = search_layouts(&w);
    tess_step_bounds_destroy(&w.bounds);
    tess_mem_free(mem, w.queue);
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
