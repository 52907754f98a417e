#include "plan/search/step_bound.h"

#include <math.h>
#include <string.h>

#include "base/mem/make_room.h"
#include "base/mem/scoped.h"
#include "comm/leaf_sum.h"
#include "engine/stages/rank_stage.h"
#include "nn/model.h"
#include "parallel/pipeline/pipeline.h"
#include "plan/dry_jobs.h"
#include "plan/search/search_axes.h"
#include "plan/step_time.h"
#include "tessera/fsdp.h"

/* The share of a bound that counts. Composed plans of pipelines time the shallowest stages, and a first or last
 * micro-batch may gather less than others. */
static const double certain = 0.98;

enum {
    PIECE_LAYERS = 3, /* layers of a piece. A model has more */
    MOST_KINDS = 8,
    DEPTHS = 2,       /* a piece has PIECE_LAYERS layers, and one more */
    LEAST_WORDS = 256 /* words of a small head */
};

/* The settings of a layout that a piece depends on. There is no padding, because they are compared as bytes. */
typedef struct layer_piece_key {
    int32_t tp, cp, ep, method, recompute, sequence, precision, unused;
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
    double forward_s;              /* the part of layer_s that is forward */
    double floor_s;                /* the part of layer_s that grows with the rows of a micro-batch, at least */
    double arithmetic_s;           /* the part of floor_s that is arithmetic */
    double state[TESS_POOL_COUNT]; /* bytes without shards, but those of activations that a micro-batch keeps */
    double beside;                 /* bytes of activations next to those that such layers keep, with the head */
    double in_layer;               /* the same without the head, at least: what a layer in progress takes */
    double again_s;                /* time of recomputing a layer once more, where a backward has two parts */
    double weights, experts;       /* elements of all parameters, and of those that are experts' */
} layer_piece;

/* The layers of each stage of a pipeline. */
typedef struct stage_counts {
    struct stage_counts *next;
    int ranks, schedule, chunks, n;
    int *layers; /* (n = ranks * chunks) layers that are alike, by stage; then (n) all layers; NULL: no such stages */
    char reason[TESS_SEARCH_TEXT]; /* why there are none */
} stage_counts;

/* The slots of each stage: the micro-batches whose activations it holds at a time. */
typedef struct slot_counts {
    struct slot_counts *next;
    int ranks, chunks, schedule, micros;
    int *slots, *parts; /* (ranks * chunks each) by stage; parts: backwards that have two parts. NULL: not known */
} slot_counts;

struct tess_step_bounds {
    tess_mem *mem;
    tess_planner *planner; /* it keeps the descriptions of models */
    const tess_plan_request *request;
    tess_machine plain; /* the machine without fp8_products */
    /* Number of layers after which all are alike, and the kinds of those (tess_model_config.layers). If kinds
     * alternate, all layers count as if they were the least of them in each respect. */
    int64_t unlike;
    uint8_t kinds[MOST_KINDS];
    int n_kinds;
    layer_piece *pieces;
    size_t n_pieces, room;
    stage_counts *stages;
    slot_counts *slots;
    int64_t n_dry;
};

tess_status tess_step_bounds_create(tess_mem *mem, tess_planner *planner, const tess_plan_request *request,
                                    tess_step_bounds **out)
{
    const tess_model_config *m = request->model;
    TESS_TRY(TESS_NEW(mem, 1, "bounds", out));
    tess_step_bounds *b = *out;
    b->mem = mem;
    b->planner = planner;
    b->request = request;
    b->plain = *request->machine;
    b->plain.fp8_products = false;
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
    for (slot_counts *c = b->slots, *next; c != NULL; c = next) {
        next = c->next;
        tess_mem_free(b->mem, c->slots);
        tess_mem_free(b->mem, c);
    }
    tess_mem_free(b->mem, b->pieces);
    tess_mem_free(b->mem, b);
    *handle = NULL;
}

const tess_machine *tess_step_bounds_machine(const tess_step_bounds *b, int64_t precision)
{
    return precision == TESS_SEARCH_BF16 || precision == TESS_SEARCH_FP32 ? &b->plain : b->request->machine;
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
    double with_head; /* bytes of activations, with the head and even routing */
    double seconds, forward_s, floor_s, arithmetic_s;
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

static tess_status time_piece(tess_step_bounds *b, const tess_machine *machine, const tess_memory_plan *plan,
                              tess_work_trace *trace, int n_ranks, layer_piece_run *out)
{
    tess_plan_time time;
    const tess_timed_rank rank = {.rank = 0, .trace = trace};
    tess_machine prompt = *machine; /* the machine without launch times and latencies */
    tess_step_case of = {.machine = machine,
                         .ranks = &rank,
                         .n = 1,
                         .n_ranks = n_ranks,
                         .ranks_a_host = plan->n_local,
                         .threads = plan->n_threads,
                         .straggler = b->request->options.straggler};
    keep_layers(trace);
    TESS_TRY(tess_step_time(b->mem, &of, &time));
    out->seconds = time.compute_s + time.exposed_s;
    out->forward_s = time.phase_s[TESS_PHASE_FORWARD];
    prompt.compute.launch_us = 0;
    for (int kind = 0; kind < TESS_LINKS; kind++)
        prompt.links[kind].latency_us = 0;
    of.machine = &prompt;
    TESS_TRY(tess_step_time(b->mem, &of, &time));
    out->arithmetic_s = arithmetic_s(&of, trace);
    out->floor_s = out->arithmetic_s + (prompt.times == NULL ? time.exposed_s : 0);
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

/* Whether the memory of experts is that of another routing than their times: times are those of even routing, and
 * memory is that of the routing that needs most of it. */
static bool has_routing(const tess_step_bounds *b)
{
    return b->request->model->parts.experts.n > 0 && b->request->machine->machine.kind == TESS_MACHINE_GPU;
}

/* The dry ranks of a piece with a number of layers: [0] with even routing, whose work is recorded; [1] with the routing
 * that needs most memory. The second has a small head, so that its layers decide how many bytes of activations are in
 * use at a time. */
enum { ROUTINGS = 2 };

static tess_status prepare_piece(tess_step_bounds *b, const tess_config *config, const tess_memory_plan *plan,
                                 tess_model_config models[ROUTINGS], tess_dry_job jobs[ROUTINGS])
{
    models[1] = models[0];
    models[1].vocab_size = models[0].vocab_size < LEAST_WORDS ? models[0].vocab_size : LEAST_WORDS;
    for (int i = 0; i < ROUTINGS; i++) {
        jobs[i] = (tess_dry_job){.plan = *plan, .model = &models[i]};
        TESS_TRY(tess_planner_model(b->planner, config, &models[i], &jobs[i].plan.whole));
    }
    jobs[1].plan.trace = NULL;
    return TESS_OK;
}

/* Runs the piece with PIECE_LAYERS layers and with one more. */
static tess_status run_pieces(tess_step_bounds *b, const tess_config *config, const layer_piece_key *key, int kind,
                              int n_ranks, layer_piece_run out[DEPTHS])
{
    tess_model_config models[DEPTHS][ROUTINGS];
    tess_dry_job jobs[DEPTHS * ROUTINGS];
    tess_work_trace traces[DEPTHS];
    tess_memory_plan plan = tess_plan_dry(b->request, config);
    const int n = has_routing(b) ? ROUTINGS : 1;
    tess_status status = TESS_OK;
    plan.most_micros = 1;
    plan.gradients_only = true;
    for (int depth = 0; depth < DEPTHS; depth++) {
        tess_dry_job own[ROUTINGS];
        models[depth][0] = shallow_model(b, kind, PIECE_LAYERS + depth);
        traces[depth] = (tess_work_trace){.even_experts = true};
        plan.trace = &traces[depth];
        TESS_TRY(prepare_piece(b, config, &plan, models[depth], own));
        memcpy(&jobs[depth * n], own, (size_t)n * sizeof(*own));
    }
    tess_dry_workers_run(tess_planner_workers(b->planner), jobs, DEPTHS * n);
    b->n_dry += DEPTHS * n;
    for (int i = 0; i < DEPTHS * n && status == TESS_OK; i++)
        status = tess_dry_job_end(&jobs[i]);
    for (int depth = 0; depth < DEPTHS; depth++) {
        const tess_dry_job *job = &jobs[depth * n];
        if (status == TESS_OK)
            status = time_piece(b, tess_step_bounds_machine(b, key->precision), &job->plan, &traces[depth], n_ranks,
                                &out[depth]);
        out[depth].with_head = job->report.device[TESS_POOL_ACTIVATIONS];
        out[depth].report = job[n - 1].report;
        tess_work_trace_free(&traces[depth]);
    }
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
    layer_piece_run runs[DEPTHS];
    TESS_TRY(run_pieces(b, config, &p->key, kind, n_ranks, runs));
    const layer_piece_run less = runs[0], more = runs[1];
    const bool gpu = b->request->machine->machine.kind == TESS_MACHINE_GPU;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        p->state[pool] =
            gpu ? more.report.device[pool] - less.report.device[pool] : more.report.host[pool] - less.report.host[pool];
    p->layer_s = more.seconds - less.seconds;
    p->ends_s = fmax(0, less.seconds - PIECE_LAYERS * p->layer_s);
    if (gpu) {
        p->beside = fmax(0, less.with_head - PIECE_LAYERS * fmax(0, more.with_head - less.with_head));
        if (has_routing(b)) /* otherwise these bytes may be the head's */
            p->in_layer = fmax(0, less.report.device[TESS_POOL_ACTIVATIONS] -
                                      PIECE_LAYERS * fmax(0, p->state[TESS_POOL_ACTIVATIONS]));
    }
    p->forward_s = fmax(0, fmin(p->layer_s, more.forward_s - less.forward_s));
    p->floor_s = more.floor_s - less.floor_s;
    p->arithmetic_s = more.arithmetic_s - less.arithmetic_s;
    p->known = true;
    return TESS_OK;
}

/* Takes the values of a kind of layers, or the smaller ones of both kinds. */
static void take_least(layer_piece *p, const layer_piece *of_kind, bool is_first)
{
    double *const values[] = {&p->layer_s,      &p->ends_s, &p->forward_s, &p->floor_s,
                              &p->arithmetic_s, &p->beside, &p->in_layer,  &p->experts};
    const double others[] = {of_kind->layer_s,      of_kind->ends_s, of_kind->forward_s, of_kind->floor_s,
                             of_kind->arithmetic_s, of_kind->beside, of_kind->in_layer,  of_kind->experts};
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
                            .sequence = key->sequence,
                            .precision = key->precision,
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
    if (b->request->model->n_layers <= b->unlike + PIECE_LAYERS || b->n_kinds == MOST_KINDS)
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
                                 .method = (int32_t)l->method,
                                 .recompute = l->recompute == TESS_RECOMPUTE_EVERY_N ? TESS_RECOMPUTE_NONE
                                                                                     : (int32_t)l->recompute,
                                 .sequence = l->degree[TESS_AXIS_TP] > 1 ? (int32_t)l->sequence : 1,
                                 .precision = (int32_t)l->precision,
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
/* The micro-batches of a rank. */
static double micros_of(const tess_step_bounds *b, const tess_search_layout *l)
{
    const double copies = (double)l->degree[TESS_AXIS_REPLICATE] * l->degree[TESS_AXIS_SHARD];
    return ceil((double)b->request->config->training.global_batch_size / ((double)l->micro * copies));
}

/* Stages do not depend on the number of micro-batches, so they are cut for one that the schedule allows. */
static tess_status count_layers(tess_step_bounds *b, const tess_search_layout *l, stage_counts *s)
{
    TESS_AUTO(tess_config_free) tess_config config = {0};
    tess_stage_plan plan;
    TESS_TRY(tess_plan_config_copy(b->request, &config));
    tess_search_configure(l, &config);
    if (s->ranks > 1)
        config.training.global_batch_size =
            l->micro * l->degree[TESS_AXIS_REPLICATE] * l->degree[TESS_AXIS_SHARD] *
            tess_pipeline_fill_up((tess_pipeline_kind)l->schedule, s->ranks, (int)micros_of(b, l));
    TESS_TRY(tess_stage_plan_create(b->mem, &config, b->request->model, 0, &plan));
    s->chunks = plan.shape.chunks;
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
    const int ranks = l->degree[TESS_AXIS_PP], schedule = (int)l->schedule;
    stage_counts *s = b->stages;
    while (s != NULL && (s->ranks != ranks || s->schedule != schedule))
        s = s->next;
    if (s == NULL) {
        TESS_TRY(TESS_NEW(b->mem, 1, "stages", &s));
        *s = (stage_counts){.next = b->stages, .ranks = ranks, .schedule = schedule};
        b->stages = s;
        tess_status status = count_layers(b, l, s);
        if (status == TESS_E_NOMEM)
            return status;
        if (status != TESS_OK) {
            tess_text_add(s->reason, sizeof(s->reason), 0, "%s", tess_error_message());
            tess_error_clear();
        }
    }
    *out = s;
    return TESS_OK;
}

/* Counts the slots of a schedule, and the backwards that it splits. */
static tess_status count_slots(tess_step_bounds *b, slot_counts *c)
{
    TESS_AUTO(tess_pipeline_free) tess_pipeline_schedule schedule = {0};
    TESS_TRY(tess_pipeline_build(b->mem, (tess_pipeline_kind)c->schedule, c->ranks, c->chunks, c->micros, &schedule));
    TESS_TRY(TESS_NEW(b->mem, 2 * c->ranks * c->chunks, "slots", &c->slots));
    c->parts = c->slots + c->ranks * c->chunks;
    for (int r = 0; r < c->ranks; r++) {
        const tess_pipeline_list *list = &schedule.lists[r];
        for (int chunk = 0; chunk < c->chunks; chunk++)
            c->slots[tess_pipeline_stage(&schedule, r, chunk)] = list->slots[chunk];
        for (int i = 0; i < list->n; i++)
            c->parts[tess_pipeline_stage(&schedule, r, list->actions[i].chunk)] +=
                list->actions[i].op == TESS_PIPELINE_BW;
    }
    return TESS_OK;
}

/* Finds the slots of the layout's schedule. More micro-batches than some take no more slots, but for gpipe, whose
 * stages hold all. *out NULL: it has no pipeline, or gpipe. The slots of a schedule that a file describes, or that
 * cannot be built, are not known. */
static tess_status find_slots(tess_step_bounds *b, const tess_search_layout *l, const stage_counts *s,
                              const slot_counts **out)
{
    enum { MICROS_A_RANK = 4 };
    const int m = (int)micros_of(b, l), most = MICROS_A_RANK * s->ranks, schedule = (int)l->schedule,
              micros = m < most ? m : most;
    slot_counts *c = b->slots;
    *out = NULL;
    if (s->ranks == 1 || l->schedule == TESS_PIPELINE_GPIPE)
        return TESS_OK;
    while (c != NULL &&
           (c->ranks != s->ranks || c->chunks != s->chunks || c->schedule != schedule || c->micros != micros))
        c = c->next;
    if (c == NULL) {
        TESS_TRY(TESS_NEW(b->mem, 1, "slots", &c));
        *c = (slot_counts){
            .next = b->slots, .ranks = s->ranks, .chunks = s->chunks, .schedule = schedule, .micros = micros};
        b->slots = c;
        const bool of_file = b->request->config->parallelism.pipeline_parallel_schedule_csv[0] != '\0';
        const tess_status status = of_file ? TESS_OK : count_slots(b, c);
        if (status == TESS_E_NOMEM)
            return status;
        tess_error_clear();
    }
    *out = c;
    return TESS_OK;
}

tess_status tess_step_bounds_check(tess_step_bounds *b, const tess_search_layout *l)
{
    const tess_parallelism_section *p = &b->request->config->parallelism;
    const stage_counts *s;
    if (l->degree[TESS_AXIS_PP] == 1)
        return TESS_OK;
    TESS_TRY(find_stages(b, l, &s));
    TESS_CHECK(s->layers != NULL, TESS_E_INVALID, "%s", s->reason);
    return p->pipeline_parallel_schedule_csv[0] != '\0'
               ? TESS_OK
               : tess_pipeline_allows((tess_pipeline_kind)l->schedule, s->ranks, s->chunks, (int)micros_of(b, l));
}

/* ---- Bounds ---- */
static int shards_of(const tess_search_layout *l)
{
    return l->degree[TESS_AXIS_SHARD] * l->degree[TESS_AXIS_CP];
}

/* The bytes of an element in the compute dtype. */
static double element_size(const tess_step_bounds *b, const tess_search_layout *l)
{
    if (l->precision != TESS_SEARCH_AS_GIVEN)
        return l->precision == TESS_SEARCH_FP32 ? 4 : 2;
    return (double)tess_dtype_size(tess_precision_dtype(b->request->config->training.mixed_precision_param));
}

/* The bytes of an element of gathered weights, and of gradients between ranks. */
static double weight_size(const tess_step_bounds *b, const tess_search_layout *l)
{
    return b->request->config->training.gather == TESS_GATHER_FP8 ? 1 : element_size(b, l);
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
    const double gathered = gathers ? 2 * weight_size(b, l) * fmax(0, n - PIECE_LAYERS) : 0,
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

/* Whether a backward is one piece, and stages are passed in one direction: then a step ends with a backward through the
 * ranks before the last one. */
static bool drains(const tess_search_layout *l)
{
    return l->schedule == TESS_PIPELINE_GPIPE || l->schedule == TESS_PIPELINE_1F1B ||
           l->schedule == TESS_PIPELINE_INTERLEAVED;
}

/* The time for which `rank` waits at least, for the stages before its first one: one forward through them begins the
 * step, and, unless the schedule splits backwards, one backward ends it. */
static double fill_s(const stage_counts *s, const tess_search_layout *l, const layer_piece *p, int rank)
{
    double n = 0;
    for (int g = 0; g < rank; g++)
        n += s->layers[g];
    return n * (drains(l) ? p->layer_s : p->forward_s);
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

/* The share of a layer's moments that a rank has, in bytes: those of a family of parameters over its shards. */
static double moments_of(const tess_search_layout *l, const layer_piece *p)
{
    const int shards = l->strategy > TESS_STRATEGY_NONE ? shards_of(l) : 1, neighbours = neighbours_of(&p->key);
    const double share = p->weights > 0 ? p->experts / p->weights : 0, bytes = p->state[TESS_POOL_OPTIMIZER],
                 expert_shards = shards > neighbours ? (double)shards / neighbours : 1;
    return bytes * (1 - share) / shards + bytes * share / expert_shards;
}

/* The time for which the update waits for moments of n layers that come from the host: all but a few chunks, which may
 * come before. */
static double offload_s(const tess_step_bounds *b, const tess_search_layout *l, const layer_piece *p, double n)
{
    static const double early = 4.0 * (1 << 20) * 2 * sizeof(float);
    const tess_machine_link *link = &b->request->machine->links[TESS_LINK_PCIE];
    if (l->offload < TESS_SEARCH_OFFLOAD_OPTIMIZER || link->gb_per_s <= 0 ||
        b->request->machine->machine.kind != TESS_MACHINE_GPU)
        return 0;
    return fmax(0, n * moments_of(l, p) - early) / (link->gb_per_s * 1e9 * link->efficiency);
}

/* The time in which a rank computes layers again for the second part of backwards that have two. If not all of the
 * schedule's backwards have two parts, further micro-batches may have none. */
static double again_s(const tess_search_layout *l, const stage_counts *s, const slot_counts *slots, int rank, double m,
                      double layer_s)
{
    const tess_pipeline_schedule shape = {
        .kind = (tess_pipeline_kind)l->schedule, .ranks = s->ranks, .chunks = s->chunks};
    double n = 0;
    for (int chunk = 0; slots != NULL && slots->parts != NULL && chunk < s->chunks; chunk++) {
        const int stage = tess_pipeline_stage(&shape, rank, chunk);
        n += s->layers[stage] * (slots->parts[stage] == slots->micros ? m : slots->parts[stage]);
    }
    return n * layer_s;
}

static double bound_time(const tess_step_bounds *b, const tess_search_layout *l, const layer_piece *p,
                         const stage_counts *s, const slot_counts *slots)
{
    const double m = micros_of(b, l), last = layers_of_rank(s, l, head_rank(s, l), false);
    if (s->ranks == 1)
        return fmax(m * (last * p->layer_s + p->ends_s), m * links_s(b, l, p, last)) + offload_s(b, l, p, last);
    double kernels_s = 0, most = 0;
    for (int r = 0; r < s->ranks; r++) {
        const double n = layers_of_rank(s, l, r, false), fill = fill_s(s, l, p, r);
        /* Next to the head, the embedding takes no time. */
        const double ends_s = r == head_rank(s, l) ? p->ends_s : 0;
        kernels_s = fmax(kernels_s, m * (n * p->layer_s + ends_s) + again_s(l, s, slots, r, m, p->again_s) + fill);
        most = fmax(most, n);
    }
    return fmax(kernels_s, m * links_s(b, l, p, most)) + offload_s(b, l, p, most);
}

/* Whether the gradients of all layers of a rank, and not only those in progress, are held until they are summed. */
static bool holds_gradients(const tess_search_layout *l)
{
    return l->strategy == TESS_STRATEGY_ZERO1 && l->degree[TESS_AXIS_PP] > 1;
}

/* Returns the bytes of one layer's weights, gradients and moments on a rank, for the parameters of a family that
 * `shards` ranks share: `share` of the layer's elements. */
static double state_bytes(const tess_step_bounds *b, const tess_search_layout *l, const layer_piece *p, double elements,
                          int shards)
{
    const double f32 = sizeof(float), share = p->weights > 0 ? elements / p->weights : 0;
    const tess_offload_section *o = &b->request->config->offload;
    const int replicas = l->degree[TESS_AXIS_REPLICATE], portion = shards * replicas;
    const bool keeps = l->strategy < TESS_STRATEGY_FULL || l->reshard == 0, cuts = l->strategy > TESS_STRATEGY_NONE;
    double bytes = 0;
    if (b->request->config->job.shards == TESS_SHARDS_HOST) /* all of it is the host's */
        return 0;
    if (!o->optimizer && l->offload < TESS_SEARCH_OFFLOAD_OPTIMIZER)
        bytes += share * p->state[TESS_POOL_OPTIMIZER] / (cuts ? shards : 1);
    const bool away = o->params || l->offload >= TESS_SEARCH_OFFLOAD_ALL;
    if (!away)
        bytes += f32 * elements / (cuts ? shards : 1);
    if (!o->grads && l->offload < TESS_SEARCH_OFFLOAD_GRADS) {
        if (portion == 1)
            return bytes + f32 * elements;
        /* The sums of the leaves of a step, and next to them a gradient of their own for replicas and without shards.
         */
        bytes += f32 * elements / portion * tess_leaf_memory((int64_t)micros_of(b, l) * portion, portion, false);
        bytes += replicas > 1 ? f32 * elements / shards : cuts ? 0 : f32 * elements;
    }
    if (shards == 1 || away)
        return bytes;
    bytes += keeps ? elements * weight_size(b, l) : 0;
    return bytes + (holds_gradients(l) ? elements * gradient_size(b) : 0);
}

/* The micro-batches whose activations a stage holds at a time. */
static double slots_of(const tess_step_bounds *b, const tess_search_layout *l, const stage_counts *s,
                       const slot_counts *slots, int stage)
{
    if (slots != NULL && slots->slots != NULL)
        return slots->slots[stage];
    return slots == NULL && s->ranks > 1 ? micros_of(b, l) : 1;
}

/* Counts the layers of a rank, each as often as it holds activations; `all`: also those that are not alike. */
static double layers_in_flight(const tess_step_bounds *b, const tess_search_layout *l, const stage_counts *s,
                               const slot_counts *slots, int rank, bool all)
{
    const tess_pipeline_schedule shape = {
        .kind = (tess_pipeline_kind)(l->schedule >= 0 ? l->schedule : 0), .ranks = s->ranks, .chunks = s->chunks};
    double n = 0;
    for (int chunk = 0; chunk < s->chunks; chunk++) {
        const int stage = tess_pipeline_stage(&shape, rank, chunk);
        n += slots_of(b, l, s, slots, stage) * s->layers[(all ? s->n : 0) + stage];
    }
    return n;
}

/* Bounds the bytes of the streams that a GPU receives from the ranks before and after it, and sends to them: each slot
 * has a buffer for both sides of its stage. */
static double stream_bytes(const tess_step_bounds *b, const tess_search_layout *l, const stage_counts *s,
                           const slot_counts *slots, int rank)
{
    const tess_pipeline_schedule shape = {
        .kind = (tess_pipeline_kind)(l->schedule >= 0 ? l->schedule : 0), .ranks = s->ranks, .chunks = s->chunks};
    const int64_t passes = b->request->config->training.passes,
                  tokens = l->micro / passes * b->request->config->training.seq_len / l->degree[TESS_AXIS_CP],
                  rows = l->sequence != 0 ? tokens / l->degree[TESS_AXIS_TP] : tokens;
    double n = 0;
    for (int chunk = 0; chunk < s->chunks; chunk++) {
        const int stage = tess_pipeline_stage(&shape, rank, chunk);
        const int sides = tess_pipeline_crosses(&shape, stage - 1) + (stage < s->n - 1);
        n += slots_of(b, l, s, slots, stage) * sides;
    }
    return n * (double)(rows * b->request->model->hidden_size) * element_size(b, l);
}

static double bound_memory(const tess_step_bounds *b, const tess_search_layout *l, const layer_piece *p,
                           const stage_counts *s, const slot_counts *slots)
{
    const int shards = shards_of(l);
    const double layer = state_bytes(b, l, p, p->weights - p->experts, shards) +
                         state_bytes(b, l, p, p->experts, shards / neighbours_of(&p->key)),
                 kept = fmax(0, p->state[TESS_POOL_ACTIVATIONS]);
    /* The gradients of the units in progress, and their weights, unless all are held. */
    const bool gathers = l->strategy >= TESS_STRATEGY_FULL && l->reshard != 0;
    const double unit = fmax(p->experts, p->weights - p->experts),
                 element = (holds_gradients(l) ? 0 : gradient_size(b)) + (gathers ? weight_size(b, l) : 0),
                 comm = shards > 1 ? unit * element : 0;
    const double in_progress = b->request->config->parallelism.fsdp_prefetch > 0 ? 2 : 1;
    /* A layer that recomputes in a split backward also keeps the gradient of its output until its weight part. */
    const bool splits = l->schedule == TESS_PIPELINE_ZB_H1 || l->schedule == TESS_PIPELINE_ZBV ||
                        l->schedule == TESS_PIPELINE_DUALPIPEV;
    const double streams = splits && l->recompute == TESS_RECOMPUTE_FULL ? 2 : 1;
    double most = 0;
    for (int r = 0; r < s->ranks; r++) {
        /* The rank with the head has all that a piece has next to its layers, and others what a layer in progress
         * takes. */
        const bool has_layers = layers_of_rank(s, l, r, false) > 0;
        const double beside = !has_layers ? 0 : r == head_rank(s, l) ? fmax(p->beside, p->in_layer) : p->in_layer;
        /* Layers that recompute keep their input, whatever their kind. */
        const double keep = layers_in_flight(b, l, s, slots, r, l->recompute == TESS_RECOMPUTE_FULL),
                     n = layers_of_rank(s, l, r, false);
        most = fmax(most, n * layer + keep * streams * kept + beside + comm * fmin(n, in_progress) +
                              stream_bytes(b, l, s, slots, r));
    }
    return most;
}

/* Bounds the bytes that the ranks of a GPU host offload to its memory: as if all had the fewest layers. */
static double bound_host(const tess_step_bounds *b, const tess_search_layout *l, const layer_piece *p,
                         const stage_counts *s)
{
    const double f32 = sizeof(float);
    const int shards = l->strategy > TESS_STRATEGY_NONE ? shards_of(l) : 1;
    double layer = 0, least = INFINITY;
    if (l->offload >= TESS_SEARCH_OFFLOAD_OPTIMIZER)
        layer += moments_of(l, p);
    if (l->offload >= TESS_SEARCH_OFFLOAD_GRADS)
        layer += f32 * p->weights / ((double)shards_of(l) * l->degree[TESS_AXIS_REPLICATE]);
    if (l->offload >= TESS_SEARCH_OFFLOAD_ALL)
        layer += f32 * p->weights / shards;
    for (int r = 0; r < s->ranks; r++)
        least = fmin(least, layers_of_rank(s, l, r, false));
    return b->request->config->offload.folder[0] != '\0' ? 0 : least * layer * tess_plan_ranks_a_host(b->request);
}

/* Returns the piece of larger micro-batches, as far as it is known. */
static layer_piece scaled(const layer_piece *p, double floor_s, int64_t micro)
{
    layer_piece larger = *p;
    larger.layer_s = floor_s * (double)micro;
    larger.ends_s = larger.forward_s = 0;
    larger.state[TESS_POOL_ACTIVATIONS] *= (double)micro; /* `beside` is at least that of one row */
    return larger;
}

/* Some layers recompute: none takes less time than one that does not, and nothing is certain of what they keep. */
static layer_piece without_activations(const layer_piece *p)
{
    layer_piece other = *p;
    other.state[TESS_POOL_ACTIVATIONS] = 0;
    other.beside = other.in_layer = 0;
    return other;
}

/* Whether some backwards have two parts. */
static bool splits(const slot_counts *slots)
{
    for (int stage = 0; slots != NULL && slots->parts != NULL && stage < slots->ranks * slots->chunks; stage++)
        if (slots->parts[stage] > 0)
            return true;
    return false;
}

tess_status tess_step_bounds_of(tess_step_bounds *b, tess_search_layout *l, tess_bound_level level)
{
    const layer_piece *found;
    const stage_counts *s;
    tess_search_layout of = *l;
    /* Ranks that all have the whole stream have the same arithmetic as those that share it, and no less memory. */
    const bool borrows = level == TESS_BOUND_OF_ROW && l->degree[TESS_AXIS_TP] > 1 && l->sequence == 0;
    of.sequence = borrows ? 1 : l->sequence;
    l->bound_s = l->bound_bytes = l->bound_host = 0;
    l->bound_level = level == TESS_BOUND_OF_ROW && l->micro == 1 && !borrows ? TESS_BOUND_OF_MICRO : level;
    TESS_TRY(find_piece(b, &of, level == TESS_BOUND_OF_MICRO ? l->micro : 1, level != TESS_BOUND_OF_WEIGHTS, &found));
    TESS_TRY(find_stages(b, l, &s));
    if (s->layers == NULL)
        return TESS_OK;
    layer_piece p = l->bound_level == TESS_BOUND_OF_ROW
                        ? scaled(found, borrows ? found->arithmetic_s : found->floor_s, l->micro)
                        : *found;
    if (l->recompute == TESS_RECOMPUTE_EVERY_N)
        p = without_activations(&p);
    const slot_counts *slots;
    TESS_TRY(find_slots(b, l, s, &slots));
    if (level == TESS_BOUND_OF_MICRO && l->recompute == TESS_RECOMPUTE_FULL && splits(slots)) {
        of.recompute = TESS_RECOMPUTE_NONE;
        TESS_TRY(find_piece(b, &of, l->micro, true, &found));
        p.again_s = found->known ? fmax(0, p.layer_s - found->layer_s) : 0;
    }
    l->bound_s = certain * bound_time(b, l, &p, s, slots);
    if (b->request->machine->machine.kind == TESS_MACHINE_GPU) {
        l->bound_bytes = certain * bound_memory(b, l, &p, s, slots);
        l->bound_host = certain * bound_host(b, l, &p, s);
    }
    return TESS_OK;
}
