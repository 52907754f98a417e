#include "plan/search/step_bound.h"

#include <math.h>
#include <string.h>

#include "base/mem/make_room.h"
#include "base/mem/scoped.h"
#include "comm/leaf_sum.h"
#include "engine/stages/rank_stage.h"
#include "nn/model.h"
#include "parallel/pipeline/pipeline.h"
#include "plan/dry_rank.h"
#include "plan/step_time.h"
#include "tessera/fsdp.h"

/* The share of a bound that counts. Composed plans of pipelines time the shallowest stages, and a first or last
 * micro-batch may gather less than others. */
static const double certain = 0.98;

enum { BESIDE = 3, MOST_KINDS = 8 }; /* BESIDE: layers of a piece. A model has more */

/* The settings of a layout that a piece depends on. There is no padding, because they are compared as bytes. */
typedef struct layer_piece_key {
    int32_t tp, cp, ep, method, recompute, unused;
    int64_t micro;
} layer_piece_key;

/* The ranks with other tokens that divide the experts. */
static int neighbours_of(const layer_piece_key *key)
{
    return key->ep > key->tp ? key->ep / key->tp : 1;
}

/* A rank's part of one layer of those that are alike, for one micro-batch. */
typedef struct layer_piece {
    layer_piece_key key;
    bool known, is_refused;        /* it was measured; it cannot be */
    double layer_s, ends_s;        /* its kernels and exchanges; those of everything but such layers */
    double floor_s;                /* the part of layer_s that grows with the rows of a micro-batch, at least */
    double state[TESS_POOL_COUNT]; /* bytes without shards, but those of activations that a micro-batch keeps */
    double beside;                 /* bytes of activations next to those that such layers keep */
    double weights, experts;       /* elements of all parameters, and of those that are experts' */
} layer_piece;

/* The layers of each stage of a pipeline. */
typedef struct stage_counts {
    struct stage_counts *next;
    int ranks, chunks, schedule, n;
    int *layers; /* (n = ranks * chunks) layers that are alike, by stage; then (n) all layers */
} stage_counts;

struct tess_step_bounds {
    tess_mem *mem;
    const tess_plan_request *request;
    /* Number of layers after which all are alike, and the kinds of those (tess_model_config.layers). If kinds
     * alternate, all layers count as if they were the least of them in each respect. */
    int64_t unlike;
    uint8_t kinds[MOST_KINDS];
    int n_kinds;
    layer_piece *pieces;
    size_t n_pieces, room;
    stage_counts *stages;
    int64_t n_dry;
};

tess_status tess_step_bounds_create(tess_mem *mem, const tess_plan_request *request, tess_step_bounds **out)
{
    const tess_model_config *m = request->model;
    TESS_TRY(TESS_NEW(mem, 1, "bounds", out));
    tess_step_bounds *b = *out;
    b->mem = mem;
    b->request = request;
    b->unlike = m->n_layers - 1;
    while (b->unlike > 0 && m->layers[b->unlike - 1] == m->layers[m->n_layers - 1])
        b->unlike--;
    if (b->unlike > m->n_layers / 2)
        b->unlike = 0;
    for (int64_t layer = b->unlike; layer < m->n_layers; layer++) {
        int kind = 0;
        while (kind < b->n_kinds && b->kinds[kind] != m->layers[layer])
            kind++;
        if (kind == b->n_kinds && kind < MOST_KINDS)
            b->kinds[b->n_kinds++] = m->layers[layer];
    }
    return TESS_OK;
}

void tess_step_bounds_destroy(tess_step_bounds **handle)
{
    tess_step_bounds *b = *handle;
    if (b == NULL)
        return;
    for (stage_counts *s = b->stages, *next; s != NULL; s = next) {
        next = s->next;
        tess_mem_free(b->mem, s->layers);
        tess_mem_free(b->mem, s);
    }
    tess_mem_free(b->mem, b->pieces);
    tess_mem_free(b->mem, b);
    *handle = NULL;
}

int64_t tess_step_bounds_dry_ranks(const tess_step_bounds *bounds)
{
    return bounds->n_dry;
}

/* ---- Pieces ---- */
/* Whether an event is part of forward and backward alone: kernels of the layers, and exchanges inside them. Gathered
 * weights and gradients depend on shards. */
static bool is_of_layers(const tess_work_trace *t, const tess_work_event *e)
{
    static const char *const inside[] = {"tp", "cp", "experts"};
    if (e->what == TESS_WORK_CALL)
        return e->phase != TESS_PHASE_GATHER && e->phase != TESS_PHASE_REDUCE;
    for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++)
        if (strcmp(t->teams[t->ops[e->index].team].name, inside[i]) == 0)
            return true;
    return false;
}

/* Removes all other events, and everything from the optimizer on. */
static void keep_layers(tess_work_trace *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n_events && t->events[i].phase != TESS_PHASE_OPTIMIZER; i++)
        if (is_of_layers(t, &t->events[i]))
            t->events[n++] = t->events[i];
    t->n_events = n;
}

/* The result of a dry rank of a piece. */
typedef struct layer_piece_run {
    tess_dry_report report;
    double seconds, floor_s;
} layer_piece_run;

/* Returns the time of arithmetic, which grows in proportion to the rows. Measured rates may grow with the size of a
 * call, and launches take times that do not depend on it. */
static double arithmetic_s(const tess_step_case *of, const tess_work_trace *t)
{
    double seconds = 0;
    for (size_t i = 0; i < t->n_events; i++)
        if (t->events[i].what == TESS_WORK_CALL)
            seconds += tess_call_floor(of->machine, &t->calls[t->events[i].index].key, of->threads);
    return seconds;
}

static tess_status time_piece(tess_step_bounds *b, const tess_memory_plan *plan, tess_work_trace *trace, int n_ranks,
                              layer_piece_run *out)
{
    const tess_plan_request *q = b->request;
    tess_plan_time time;
    const tess_timed_rank rank = {.rank = 0, .trace = trace};
    tess_machine prompt = *q->machine; /* the machine without launch times and latencies */
    tess_step_case of = {.machine = q->machine,
                         .ranks = &rank,
                         .n = 1,
                         .n_ranks = n_ranks,
                         .ranks_a_host = plan->n_local,
                         .threads = plan->n_threads,
                         .straggler = q->options.straggler};
    keep_layers(trace);
    TESS_TRY(tess_step_time(b->mem, &of, &time));
    out->seconds = time.compute_s + time.exposed_s;
    prompt.compute.launch_us = 0;
    for (int kind = 0; kind < TESS_LINKS; kind++)
        prompt.links[kind].latency_us = 0;
    of.machine = &prompt;
    TESS_TRY(tess_step_time(b->mem, &of, &time));
    out->floor_s = arithmetic_s(&of, trace) + (prompt.times == NULL ? time.exposed_s : 0);
    return TESS_OK;
}

/* Returns the model with a number of layers of one kind. */
static tess_model_config shallow_model(const tess_step_bounds *b, int kind, int64_t layers)
{
    tess_model_config model = *b->request->model;
    model.n_layers = layers;
    memset(model.layers, b->kinds[kind], (size_t)layers);
    return model;
}

/* Runs the piece with a number of layers. */
static tess_status run_piece(tess_step_bounds *b, const tess_config *config, int kind, int64_t layers, int n_ranks,
                             layer_piece_run *out)
{
    const tess_model_config model = shallow_model(b, kind, layers);
    tess_work_trace trace = {.mem = b->mem, .even_experts = true};
    tess_memory_plan plan = tess_plan_dry(b->request, config);
    plan.trace = &trace;
    plan.most_micros = 1;
    plan.gradients_only = true;
    b->n_dry++;
    tess_status status = tess_dry_rank(&plan, &model, 0, &out->report);
    if (status == TESS_OK)
        status = time_piece(b, &plan, &trace, n_ranks, out);
    tess_work_trace_free(&trace);
    return status;
}

/* Counts the elements of the last layer's parameters that a rank has. */
static tess_status count_weights(tess_step_bounds *b, const tess_config *config, int kind, layer_piece *p)
{
    TESS_AUTO(tess_model_destroy) tess_model *part = NULL;
    const tess_model_config model = shallow_model(b, kind, 1);
    TESS_TRY(tess_stage_create_part(b->mem, config, &model, 0, 0, &part));
    for (int i = 0; i < tess_model_n_params(part); i++) {
        const tess_param *param = tess_model_param(part, i);
        if (param->unit != model.n_layers || param->frozen)
            continue;
        const double n = (double)tess_shape_count(&param->shape);
        p->weights += n;
        p->experts += param->expert ? n : 0;
    }
    return TESS_OK;
}

static tess_status measure_piece(tess_step_bounds *b, const tess_config *config, int kind, int n_ranks, layer_piece *p)
{
    layer_piece_run less, more;
    TESS_TRY(run_piece(b, config, kind, BESIDE, n_ranks, &less));
    TESS_TRY(run_piece(b, config, kind, BESIDE + 1, n_ranks, &more));
    const bool gpu = b->request->machine->machine.kind == TESS_MACHINE_GPU;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        p->state[pool] =
            gpu ? more.report.device[pool] - less.report.device[pool] : more.report.host[pool] - less.report.host[pool];
    p->layer_s = more.seconds - less.seconds;
    p->ends_s = fmax(0, less.seconds - BESIDE * p->layer_s);
    if (gpu)
        p->beside =
            fmax(0, less.report.device[TESS_POOL_ACTIVATIONS] - BESIDE * fmax(0, p->state[TESS_POOL_ACTIVATIONS]));
    p->floor_s = more.floor_s - less.floor_s;
    p->known = true;
    return TESS_OK;
}

/* Takes the values of a kind of layers, or the smaller ones of both kinds. */
static void take_least(layer_piece *p, const layer_piece *of_kind, bool is_first)
{
    double *const values[] = {&p->layer_s, &p->ends_s, &p->floor_s, &p->beside, &p->experts};
    const double others[] = {of_kind->layer_s, of_kind->ends_s, of_kind->floor_s, of_kind->beside, of_kind->experts};
    /* Experts have shards of their own, so each family of weights has its least. */
    const double shared = p->weights - p->experts, other_shared = of_kind->weights - of_kind->experts;
    p->known = of_kind->known;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        *values[i] = is_first ? others[i] : fmin(*values[i], others[i]);
    p->weights = p->experts + (is_first ? other_shared : fmin(shared, other_shared));
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        p->state[pool] = is_first ? of_kind->state[pool] : fmin(p->state[pool], of_kind->state[pool]);
}

static tess_status make_piece(tess_step_bounds *b, layer_piece *p, bool measures)
{
    TESS_AUTO(tess_config_free) tess_config config = {0};
    const layer_piece_key *key = &p->key;
    /* Two shards or more: a team of all ranks would have another name (is_of_layers). */
    const int shards = neighbours_of(key) > 2 * key->cp ? neighbours_of(key) / key->cp : 2;
    tess_search_layout l = {.strategy = TESS_STRATEGY_NONE,
                            .schedule = -1,
                            .method = key->method,
                            .recompute = key->recompute,
                            .micro = key->micro,
                            .reshard = 1};
    for (int axis = 0; axis < TESS_AXES; axis++)
        l.degree[axis] = 1;
    l.degree[TESS_AXIS_TP] = key->tp;
    l.degree[TESS_AXIS_CP] = key->cp;
    l.degree[TESS_AXIS_SHARD] = shards;
    l.degree[TESS_SEARCH_EP] = key->ep;
    TESS_TRY(tess_plan_config_copy(b->request, &config));
    tess_search_configure(&l, &config);
    config.training.global_batch_size = key->micro * shards;
    TESS_TRY(tess_config_check_step(&config, key->tp * key->cp * shards));
    const layer_piece before = *p;
    for (int kind = 0; kind < b->n_kinds; kind++) {
        layer_piece of_kind = before;
        TESS_TRY(measures ? measure_piece(b, &config, kind, key->tp * key->cp * shards, &of_kind)
                          : count_weights(b, &config, kind, &of_kind));
        take_least(p, &of_kind, kind == 0);
    }
    return TESS_OK;
}

/* Measures a piece, or only counts its parameters. One that is refused stays unknown: the layout's own plan says why.
 */
static tess_status complete_piece(tess_step_bounds *b, layer_piece *p, bool measures)
{
    tess_status status = TESS_OK;
    if (b->request->model->n_layers <= b->unlike + BESIDE || b->n_kinds == MOST_KINDS)
        return TESS_OK;
    if (p->weights == 0 && !p->is_refused)
        status = make_piece(b, p, false);
    if (status == TESS_OK && measures && !p->known && !p->is_refused)
        status = make_piece(b, p, true);
    if (status == TESS_OK || status == TESS_E_NOMEM)
        return status;
    p->is_refused = true;
    tess_error_clear();
    return TESS_OK;
}

static tess_status find_piece(tess_step_bounds *b, const tess_search_layout *l, int64_t micro, bool measures,
                              const layer_piece **out)
{
    const layer_piece_key key = {.tp = l->degree[TESS_AXIS_TP],
                                 .cp = l->degree[TESS_AXIS_CP],
                                 .ep = l->degree[TESS_SEARCH_EP],
                                 .method = l->method,
                                 .recompute =
                                     l->recompute == TESS_RECOMPUTE_EVERY_N ? TESS_RECOMPUTE_NONE : l->recompute,
                                 .micro = micro};
    size_t i = 0;
    while (i < b->n_pieces && memcmp(&b->pieces[i].key, &key, sizeof(key)) != 0)
        i++;
    if (i == b->n_pieces) {
        TESS_TRY(tess_mem_make_room(b->mem, TESS_POOL_MISC, b->n_pieces, sizeof(*b->pieces), "pieces", &b->room,
                                    &b->pieces));
        b->pieces[b->n_pieces++] = (layer_piece){.key = key};
    }
    *out = &b->pieces[i];
    return complete_piece(b, &b->pieces[i], measures);
}

/* ---- Stages ---- */
static tess_status count_layers(tess_step_bounds *b, const tess_search_layout *l, stage_counts *s)
{
    TESS_AUTO(tess_config_free) tess_config config = {0};
    tess_stage_plan plan;
    TESS_TRY(tess_plan_config_copy(b->request, &config));
    tess_search_configure(l, &config);
    TESS_TRY(tess_stage_plan_create(b->mem, &config, b->request->model, 0, &plan));
    s->n = plan.shape.ranks * plan.shape.chunks;
    tess_status status = TESS_NEW(b->mem, 2 * s->n, "stages", &s->layers);
    for (int g = 0; g < s->n && status == TESS_OK; g++) {
        const int64_t begin = plan.first[g] > b->unlike ? plan.first[g] : b->unlike;
        s->layers[g] = plan.first[g + 1] > begin ? (int)(plan.first[g + 1] - begin) : 0;
        s->layers[s->n + g] = plan.first[g + 1] - plan.first[g];
    }
    tess_stage_plan_free(b->mem, &plan);
    return status;
}

/* Finds the layers of the layout's stages. *out NULL: it cannot have such stages. */
static tess_status find_stages(tess_step_bounds *b, const tess_search_layout *l, const stage_counts **out)
{
    const int ranks = l->degree[TESS_AXIS_PP],
              chunks = ranks > 1 ? tess_pipeline_usual_chunks((tess_pipeline_kind)l->schedule) : 1;
    stage_counts *s = b->stages;
    while (s != NULL && (s->ranks != ranks || s->chunks != chunks || s->schedule != l->schedule))
        s = s->next;
    if (s == NULL) {
        TESS_TRY(TESS_NEW(b->mem, 1, "stages", &s));
        *s = (stage_counts){.next = b->stages, .ranks = ranks, .chunks = chunks, .schedule = l->schedule};
        b->stages = s;
        tess_status status = count_layers(b, l, s);
        if (status == TESS_E_NOMEM)
            return status;
        if (status != TESS_OK)
            tess_error_clear();
    }
    *out = s->layers != NULL ? s : NULL;
    return TESS_OK;
}

/* ---- Bounds ---- */
static int shards_of(const tess_search_layout *l)
{
    return l->degree[TESS_AXIS_SHARD] * l->degree[TESS_AXIS_CP];
}

/* The micro-batches of a rank. */
static double micros_of(const tess_step_bounds *b, const tess_search_layout *l)
{
    const double copies = (double)l->degree[TESS_AXIS_REPLICATE] * l->degree[TESS_AXIS_SHARD];
    return ceil((double)b->request->config->training.global_batch_size / ((double)l->micro * copies));
}

/* The bytes of an element of gathered weights, and of gradients between ranks. */
static double weight_size(const tess_step_bounds *b)
{
    const tess_training_section *t = &b->request->config->training;
    return t->gather == TESS_GATHER_FP8 ? 1 : (double)tess_dtype_size(tess_precision_dtype(t->mixed_precision_param));
}

static double gradient_size(const tess_step_bounds *b)
{
    return (double)tess_dtype_size(tess_precision_dtype(b->request->config->training.mixed_precision_reduce));
}

/* Returns the time of all bytes that the ranks of a family of parameters exchange for a micro-batch: the gradients of n
 * layers and, if they are gathered for forward and for backward, the weights of all but a few that are kept. */
static double link_s(const tess_step_bounds *b, const tess_search_layout *l, double elements, double n, int stride,
                     int size)
{
    const tess_plan_request *q = b->request;
    const bool gathers = l->strategy >= TESS_STRATEGY_FULL && l->reshard != 0;
    const double gathered = gathers ? 2 * weight_size(b) * fmax(0, n - BESIDE) : 0,
                 bytes = elements * (size - 1) / size * (n * gradient_size(b) + gathered);
    tess_link_kind kind;
    if (size == 1 || q->machine->times != NULL)
        return 0;
    if (tess_machine_link_of(q->machine, 0, stride, size, tess_plan_ranks_a_host(q), &kind) != TESS_OK) {
        tess_error_clear();
        return 0;
    }
    const tess_machine_link *link = &q->machine->links[kind];
    return bytes / (link->gb_per_s * 1e9 * link->efficiency);
}

/* The time for which the links of a rank with n layers are busy for a micro-batch. Each family of parameters has a
 * stream of its own. */
static double links_s(const tess_step_bounds *b, const tess_search_layout *l, const layer_piece *p, double n)
{
    const int tp = l->degree[TESS_AXIS_TP], shards = shards_of(l), neighbours = neighbours_of(&p->key);
    return fmax(link_s(b, l, p->weights - p->experts, n, tp, shards),
                link_s(b, l, p->experts, n, tp * neighbours, shards / neighbours));
}

/* The layers of the ranks before the last one whose forward and backward the last rank waits for, with the fewest
 * chunks: one forward and one backward through them begin and end the step. */
static double fill_layers(const stage_counts *s, const tess_search_layout *l)
{
    double n = 0;
    if (l->schedule != TESS_PIPELINE_GPIPE && l->schedule != TESS_PIPELINE_1F1B &&
        l->schedule != TESS_PIPELINE_INTERLEAVED)
        return 0;
    for (int g = 0; g + 1 < s->ranks; g++)
        n += s->layers[g];
    return n;
}

/* Counts the layers of a rank that are alike, or all of them. */
static int layers_of_rank(const stage_counts *s, const tess_search_layout *l, int rank, bool all)
{
    const tess_pipeline_schedule shape = {
        .kind = (tess_pipeline_kind)(l->schedule >= 0 ? l->schedule : 0), .ranks = s->ranks, .chunks = s->chunks};
    int n = 0;
    for (int chunk = 0; chunk < s->chunks; chunk++)
        n += s->layers[(all ? s->n : 0) + tess_pipeline_stage(&shape, rank, chunk)];
    return n;
}

/* The rank with the head: a V ends where it begins. */
static int head_rank(const stage_counts *s, const tess_search_layout *l)
{
    return l->schedule == TESS_PIPELINE_ZBV || l->schedule == TESS_PIPELINE_DUALPIPEV ? 0 : s->ranks - 1;
}

static double bound_time(const tess_step_bounds *b, const tess_search_layout *l, const layer_piece *p,
                         const stage_counts *s)
{
    const double m = micros_of(b, l), last = layers_of_rank(s, l, head_rank(s, l), false);
    double most = last;
    if (s->ranks == 1)
        return fmax(m * (last * p->layer_s + p->ends_s), m * links_s(b, l, p, last));
    for (int r = 0; r < s->ranks; r++)
        most = fmax(most, layers_of_rank(s, l, r, false));
    /* Next to the head, the embedding takes no time. */
    const double kernels_s =
        fmax(m * most * p->layer_s, m * (last * p->layer_s + p->ends_s) + fill_layers(s, l) * p->layer_s);
    return fmax(kernels_s, m * links_s(b, l, p, most));
}

/* Returns the bytes of one layer's weights, gradients and moments on a rank, for the parameters of a family that
 * `shards` ranks share: `share` of the layer's elements. */
static double state_bytes(const tess_step_bounds *b, const tess_search_layout *l, const layer_piece *p, double elements,
                          int shards)
{
    const double f32 = sizeof(float), share = p->weights > 0 ? elements / p->weights : 0;
    if (tess_config_offloads_state(b->request->config))
        return 0;
    const int replicas = l->degree[TESS_AXIS_REPLICATE], portion = shards * replicas;
    const bool keeps = l->strategy < TESS_STRATEGY_FULL || l->reshard == 0, cuts = l->strategy > TESS_STRATEGY_NONE;
    double bytes = (f32 * elements + share * p->state[TESS_POOL_OPTIMIZER]) / (cuts ? shards : 1);
    if (portion == 1)
        return bytes + f32 * elements;
    /* The sums of the leaves of a step, and next to them a gradient of their own for replicas and without shards. */
    bytes += f32 * elements / portion * tess_leaf_memory((int64_t)micros_of(b, l) * portion, portion, false);
    bytes += replicas > 1 ? f32 * elements / shards : cuts ? 0 : f32 * elements;
    if (shards == 1)
        return bytes;
    bytes += keeps ? elements * weight_size(b) : 0;
    return bytes +
           (l->strategy == TESS_STRATEGY_ZERO1 && l->degree[TESS_AXIS_PP] > 1 ? elements * gradient_size(b) : 0);
}

static double bound_memory(const tess_step_bounds *b, const tess_search_layout *l, const layer_piece *p,
                           const stage_counts *s)
{
    const int shards = shards_of(l);
    const double layer = state_bytes(b, l, p, p->weights - p->experts, shards) +
                         state_bytes(b, l, p, p->experts, shards / neighbours_of(&p->key)),
                 kept = fmax(0, p->state[TESS_POOL_ACTIVATIONS]), m = micros_of(b, l);
    const bool drains = l->schedule == TESS_PIPELINE_1F1B || l->schedule == TESS_PIPELINE_ZB_H1;
    /* The gradients of the units in progress, and their weights unless all are kept. */
    const bool gathers = l->strategy >= TESS_STRATEGY_FULL && l->reshard != 0;
    const double unit = fmax(p->experts, p->weights - p->experts),
                 comm = shards > 1 ? unit * (gradient_size(b) + (gathers ? weight_size(b) : 0)) : 0;
    const double in_progress = b->request->config->parallelism.fsdp_prefetch > 0 ? 2 : 1;
    double most = 0;
    for (int r = 0; r < s->ranks; r++) {
        const double in_flight = l->schedule == TESS_PIPELINE_GPIPE ? m : drains ? fmin(m, s->ranks - r) : 1;
        /* The rank with the head has all that a piece has next to its layers. */
        const double beside = r == head_rank(s, l) && layers_of_rank(s, l, r, false) > 0 ? p->beside : 0;
        /* Layers that recompute keep their input, whatever their kind. */
        const int keep = layers_of_rank(s, l, r, l->recompute == TESS_RECOMPUTE_FULL),
                  n = layers_of_rank(s, l, r, false);
        most = fmax(most, n * layer + keep * in_flight * kept + beside + comm * fmin(n, in_progress));
    }
    return most;
}

/* Returns the piece of larger micro-batches, as far as it is known. */
static layer_piece scaled(const layer_piece *p, int64_t micro)
{
    layer_piece larger = *p;
    larger.layer_s = p->floor_s * (double)micro;
    larger.ends_s = 0;
    larger.state[TESS_POOL_ACTIVATIONS] *= (double)micro; /* `beside` is at least that of one row */
    return larger;
}

/* Some layers recompute: none takes less time than one that does not, and nothing is certain of what they keep. */
static layer_piece without_activations(const layer_piece *p)
{
    layer_piece other = *p;
    other.state[TESS_POOL_ACTIVATIONS] = 0;
    other.beside = 0;
    return other;
}

tess_status tess_step_bounds_of(tess_step_bounds *b, tess_search_layout *l, tess_bound_level level)
{
    const layer_piece *found;
    const stage_counts *s;
    l->bound_s = l->bound_bytes = 0;
    l->bound_level = level == TESS_BOUND_OF_ROW && l->micro == 1 ? TESS_BOUND_OF_MICRO : level;
    TESS_TRY(find_piece(b, l, level == TESS_BOUND_OF_MICRO ? l->micro : 1, level != TESS_BOUND_OF_WEIGHTS, &found));
    TESS_TRY(find_stages(b, l, &s));
    if (s == NULL)
        return TESS_OK;
    layer_piece p = l->bound_level == TESS_BOUND_OF_ROW ? scaled(found, l->micro) : *found;
    if (l->recompute == TESS_RECOMPUTE_EVERY_N)
        p = without_activations(&p);
    l->bound_s = certain * bound_time(b, l, &p, s);
    if (b->request->machine->machine.kind == TESS_MACHINE_GPU)
        l->bound_bytes = certain * bound_memory(b, l, &p, s);
    return TESS_OK;
}
