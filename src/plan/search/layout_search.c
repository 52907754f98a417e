#include "plan/search/layout_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem/make_room.h"
#include "base/mem/scoped.h"
#include "parallel/pipeline/pipeline.h"
#include "plan/dry_rank.h"
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
    request.options.no_volume = true;
    request.options.until_too_large = !exact;
    tess_status status = tess_plan_memory_of(w->planner, &request, &plan->memory);
    if (status == TESS_OK) {
        l->bytes = plan->memory.bytes;
        l->most_rank = plan->memory.rank;
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

/* ---- Enumeration ---- */
static tess_status add_layout(walk *w, const tess_search_layout *l)
{
    tess_search *s = w->found;
    if (!tess_search_is_asked_for(&w->conditions, l))
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

static tess_status add_micro_batches(walk *w, tess_search_layout l)
{
    const int64_t rows = w->request->plan.config->training.global_batch_size,
                  copies = (int64_t)l.degree[TESS_AXIS_REPLICATE] * l.degree[TESS_AXIS_SHARD],
                  asked = tess_search_asked_value(&w->conditions, "micro", 0);
    for (l.micro = asked > 0 ? asked : 1; rows % (copies * l.micro) == 0 && l.micro <= MOST_ROWS; l.micro *= 2) {
        TESS_TRY(add_strategies(w, l));
        if (asked > 0)
            break;
    }
    return TESS_OK;
}

static tess_status add_variants(walk *w, tess_search_layout l)
{
    l.schedule =
        l.degree[TESS_AXIS_PP] > 1 ? (int)tess_search_asked_value(&w->conditions, "schedule", TESS_PIPELINE_1F1B) : -1;
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

/* ---- All layouts ---- */
static double room_of(const walk *w)
{
    const tess_machine *m = w->request->plan.machine;
    return m->machine.kind == TESS_MACHINE_GPU && m->memory.gb > 0 ? m->memory.gb * 1e9 : INFINITY;
}

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

/* Bounds a layout. If it cannot fit, it recomputes, and if it cannot fit then either, it needs no plan. The latter is
 * found out first, because it is what large models need. */
static tess_status bound_layout(const walk *w, tess_search_layout *l, tess_bound_level level)
{
    const double room = w->request->exhaustive ? INFINITY : room_of(w);
    tess_search_layout full = *l;
    if (level == TESS_BOUND_OF_WEIGHTS && check_links(w, l) != TESS_OK) {
        refuse(l);
        return TESS_OK;
    }
    full.recompute = TESS_RECOMPUTE_FULL;
    TESS_TRY(tess_step_bounds_of(w->bounds, &full, level));
    if (l->recompute == TESS_RECOMPUTE_NONE && full.bound_bytes <= room)
        TESS_TRY(tess_step_bounds_of(w->bounds, l, level));
    if (l->recompute != TESS_RECOMPUTE_NONE || full.bound_bytes > room || l->bound_bytes > room)
        *l = full;
    l->outcome = l->bound_bytes > room ? TESS_SEARCH_TOO_LARGE : TESS_SEARCH_SLOWER;
    if (l->bound_bytes > room) {
        l->bytes = l->bound_bytes;
        l->missing = l->bytes - room;
    }
    return TESS_OK;
}

/* A heap of layouts that are not planned, by their bounds: the one that may be the fastest first. */
typedef struct layout_queue {
    const tess_search_layout *layouts;
    int *items; /* (n) numbers of layouts */
    int n;
} layout_queue;

static bool is_sooner(const layout_queue *q, int i, int k)
{
    const double x = q->layouts[q->items[i]].bound_s, y = q->layouts[q->items[k]].bound_s;
    return x < y || (x == y && q->items[i] < q->items[k]);
}

static void swap_items(layout_queue *q, int i, int k)
{
    const int item = q->items[i];
    q->items[i] = q->items[k];
    q->items[k] = item;
}

static void push_layout(layout_queue *q, int item)
{
    int at = q->n++;
    q->items[at] = item;
    for (; at > 0 && is_sooner(q, at, (at - 1) / 2); at = (at - 1) / 2)
        swap_items(q, at, (at - 1) / 2);
}

static int pop_layout(layout_queue *q)
{
    const int first = q->items[0];
    swap_items(q, 0, --q->n);
    for (int at = 0, next = 1; next < q->n; at = next, next = 2 * at + 1) {
        next += next + 1 < q->n && is_sooner(q, next + 1, next);
        if (is_sooner(q, at, next))
            break;
        swap_items(q, at, next);
    }
    return first;
}

/* Returns the time of the slowest step that is among the best; INFINITY: there are too few. */
static double best_s(const tess_search *s)
{
    double best[N_BEST];
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        if (s->layouts[i].outcome != TESS_SEARCH_FITS)
            continue;
        int at = n < N_BEST ? n++ : s->layouts[i].step_s < best[N_BEST - 1] ? N_BEST - 1 : -1;
        for (; at > 0 && best[at - 1] > s->layouts[i].step_s; at--)
            best[at] = best[at - 1];
        if (at >= 0)
            best[at] = s->layouts[i].step_s;
    }
    return n == N_BEST ? best[N_BEST - 1] : INFINITY;
}

/* Plans a layout and, if it does not fit, the same with recomputation. */
static tess_status plan_or_recompute(walk *w, tess_search_layout *l)
{
    TESS_TRY(plan_layout(w, w->request->exhaustive, l));
    tell(w, 1);
    if (l->outcome != TESS_SEARCH_TOO_LARGE || l->recompute != TESS_RECOMPUTE_NONE)
        return TESS_OK;
    l->recompute = TESS_RECOMPUTE_FULL;
    return bound_layout(w, l, TESS_BOUND_OF_MICRO);
}

/* Plans layouts in the order of their bounds, until no other one can be among the best. */
static tess_status plan_queue(walk *w, layout_queue *q)
{
    tess_search *s = w->found;
    for (int i = 0; i < s->n; i++) {
        TESS_TRY(bound_layout(w, &s->layouts[i], TESS_BOUND_OF_WEIGHTS));
        if (s->layouts[i].outcome == TESS_SEARCH_SLOWER)
            push_layout(q, i);
    }
    while (q->n > 0) {
        const int item = pop_layout(q);
        tess_search_layout *l = &s->layouts[item];
        if (l->bound_s >= best_s(s) && !w->request->exhaustive)
            return TESS_OK;
        if (l->bound_level == TESS_BOUND_OF_MICRO)
            TESS_TRY(plan_or_recompute(w, l));
        else {
            TESS_TRY(bound_layout(w, l, l->bound_level + 1));
            tell(w, 0);
        }
        if (l->outcome == TESS_SEARCH_SLOWER)
            push_layout(q, item);
    }
    return TESS_OK;
}

static tess_status plan_best(walk *w)
{
    TESS_AUTO(tess_mem_drop) int *items = NULL;
    TESS_TRY(TESS_NEW(w->found->mem, w->found->n, "layouts", &items));
    return plan_queue(w, &(layout_queue){.layouts = w->found->layouts, .items = items});
}

/* If nothing fits, plans some of those that may miss least, so that the first of them is planned. */
static tess_status plan_nearest(walk *w)
{
    tess_search_layout *layouts = w->found->layouts;
    sort(w->found);
    if (w->found->n_fits > 0 || w->request->without_nearest)
        return TESS_OK;
    for (int i = 0; i < N_NEAREST && i < w->found->n && layouts[i].outcome == TESS_SEARCH_TOO_LARGE; i++) {
        TESS_TRY(plan_layout(w, true, &layouts[i]));
        tell(w, 1);
    }
    sort(w->found);
    return TESS_OK;
}

/* ---- Improvements ---- */
static bool has_settings(const tess_search_layout *a, const tess_search_layout *b)
{
    return memcmp(a->degree, b->degree, sizeof(a->degree)) == 0 && a->strategy == b->strategy &&
           a->schedule == b->schedule && a->method == b->method && a->recompute == b->recompute &&
           a->micro == b->micro && a->reshard == b->reshard;
}

/* Plans a layout and adds it to those that are found, unless it is known or cannot be faster than `than`. *better: it
 * is. */
static tess_status try_layout(walk *w, tess_search_layout other, const tess_search_layout *than,
                              tess_search_layout *best)
{
    tess_search *s = w->found;
    if (!tess_search_is_asked_for(&w->conditions, &other))
        return TESS_OK;
    for (int i = 0; i < s->n; i++)
        if (has_settings(&s->layouts[i], &other) && s->layouts[i].outcome != TESS_SEARCH_SLOWER)
            return TESS_OK;
    TESS_TRY(tess_step_bounds_of(w->bounds, &other, TESS_BOUND_OF_MICRO));
    if ((other.bound_s >= than->step_s || other.bound_bytes > room_of(w)) && !w->request->exhaustive)
        return TESS_OK;
    TESS_TRY(plan_layout(w, w->request->exhaustive, &other));
    TESS_TRY(add_layout(w, &other));
    tell(w, 1);
    if (other.outcome == TESS_SEARCH_FITS && other.step_s < best->step_s)
        *best = other;
    return TESS_OK;
}

/* Tries the neighbours of a layout: the layouts that differ in one setting that was not enumerated. */
static tess_status try_neighbours(walk *w, const tess_search_layout *l, tess_search_layout *best)
{
    tess_search_layout other = *l;
    for (int kind = 0; l->schedule >= 0 && kind < TESS_PIPELINE_KINDS; kind++) {
        other.schedule = kind;
        TESS_TRY(try_layout(w, other, l, best));
    }
    other = *l;
    for (other.recompute = TESS_RECOMPUTE_NONE; other.recompute <= TESS_RECOMPUTE_EVERY_N; other.recompute++)
        TESS_TRY(try_layout(w, other, l, best));
    return TESS_OK;
}

static tess_status improve_best(walk *w)
{
    const int n = w->found->n_fits < N_IMPROVED ? w->found->n_fits : N_IMPROVED;
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
    tess_search_layout first = {.micro = 1, .reshard = 1, .recompute = TESS_RECOMPUTE_NONE};
    TESS_TRY(tess_search_conditions_parse(w->request->only, &w->conditions));
    TESS_TRY(factorise(w, 0, w->request->plan.n_ranks, &first));
    TESS_CHECK(w->found->n > 0, TESS_E_INVALID,
               "no layout of %d ranks and %lld rows a step%s%s: ranks that divide the batch divide its rows",
               w->request->plan.n_ranks, (long long)w->request->plan.config->training.global_batch_size,
               w->request->only != NULL ? " meets " : "", w->request->only != NULL ? w->request->only : "");
    return TESS_OK;
}

/* ---- The best ones ---- */
/* Runs a dry rank of full depth in the place of the rank that needs most, and takes its bytes. */
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
    TESS_TRY(tess_dry_rank(&plan, q->model, l->most_rank, &report));
    l->bytes = tess_pools_sum(tess_memory_of_report(&plan, &report).device);
    l->missing = fmax(0, l->bytes - room_of(w));
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
    TESS_TRY(tess_step_bounds_create(w->found->mem, &w->request->plan, &w->bounds));
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
