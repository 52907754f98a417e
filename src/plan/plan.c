#include "plan/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/core/rng.h"
#include "base/mem/dry_mem.h"
#include "base/mem/scoped.h"
#include "base/text/text.h"
#include "engine/model/adapter.h"
#include "engine/stages/rank_stage.h"
#include "nn/model.h"
#include "plan/dry_jobs.h"
#include "plan/step_spans.h"
#include "plan/step_time.h"

/* A dry rank runs this many of its micro-batches, or of a pipeline this many times its ranks, and half as many where
 * the step has more: the others repeat what lies between. */
enum { MICROS = 8, MICROS_A_STAGE = 4 };

/* This value replaces a number of micro-batches: as many run as memory depends on, and no work is recorded. */
enum { MEMORY_ONLY = -1 };

const char *tess_plan_bound_name(tess_plan_bound bound)
{
    static const char *const names[TESS_BOUNDS] = {"compute", "memory bandwidth", "link", "bubble"};
    return names[bound];
}

/* ---- Dry ranks ---- */
/* A dry rank that has run: the first rank of a stage of the pipeline. */
typedef struct planned_rank {
    struct planned_rank *next;
    uint64_t key;
    int rank;
    tess_dry_report report;
    tess_mem_peak peak;
    tess_work_trace trace;
} planned_rank;

/* The need of a host (tess_memory_need.host). */
typedef struct planned_host {
    struct planned_host *next;
    uint64_t key;
    double bytes;
} planned_host;

/* The description of a model, which dry ranks of this model share. */
typedef struct planned_model {
    struct planned_model *next;
    uint64_t key;
    tess_model *model;
} planned_model;

struct tess_planner {
    tess_mem *mem;
    tess_dry_workers *workers;
    planned_model *models;
    planned_rank *ranks;
    planned_host *hosts;
    int64_t n_dry; /* number of dry ranks that ran */
};

tess_status tess_planner_create(tess_mem *mem, tess_planner **out)
{
    TESS_TRY(TESS_NEW(mem, 1, "planner", out));
    (*out)->mem = mem;
    tess_status status = tess_dry_workers_create(mem, &(*out)->workers);
    if (status != TESS_OK)
        tess_planner_destroy(out);
    return status;
}

void tess_planner_destroy(tess_planner **handle)
{
    tess_planner *p = *handle;
    if (p == NULL)
        return;
    for (planned_rank *r = p->ranks, *next; r != NULL; r = next) {
        next = r->next;
        if (r->trace.mem != NULL)
            tess_work_trace_free(&r->trace);
        tess_mem_free(p->mem, r);
    }
    for (planned_host *h = p->hosts, *next; h != NULL; h = next) {
        next = h->next;
        tess_mem_free(p->mem, h);
    }
    for (planned_model *m = p->models, *next; m != NULL; m = next) {
        next = m->next;
        tess_model_destroy(&m->model);
        tess_mem_free(p->mem, m);
    }
    tess_dry_workers_destroy(&p->workers);
    tess_mem_free(p->mem, p);
    *handle = NULL;
}

int64_t tess_planner_dry_ranks(const tess_planner *planner)
{
    return planner->n_dry;
}

enum { SHALLOW = 2 };

/* A request with what follows from it. */
typedef struct plan_case {
    tess_planner *planner;
    tess_plan_request own; /* its configuration and model are those below */
    const tess_plan_request *request;
    tess_config config; /* its device is the machine's */
    tess_model_config model;
    /* (SHALLOW) the same with few layers in each stage, the second with one more than the first; NULL: dry ranks have
     * all layers */
    struct plan_case *shallow;
    struct plan_case *for_volume; /* (SHALLOW) the same with some layers more, which the volume needs */
    double deeper, volume_deeper; /* layers of a stage that the second of each lacks */
    tess_memory_plan plan;
    int degree[TESS_AXES];
    int *alike;   /* (n_stages) layers of each rank; 0: some of them differ from the rest. NULL: not known */
    int n_stages; /* ranks of the pipeline */
    int64_t n_micros, most_micros; /* a rank's micro-batches of a step, and those that dry ranks run */
} plan_case;

int tess_plan_ranks_a_host(const tess_plan_request *q)
{
    return q->ranks_a_host > 0 ? q->ranks_a_host : tess_machine_ranks_a_host(q->machine, q->n_ranks);
}

static int threads_of(const tess_plan_request *q)
{
    const int64_t given = q->config->training.threads, cores = q->machine->machine.devices;
    if (q->machine->machine.kind == TESS_MACHINE_GPU)
        return 1;
    return given > 0 ? (int)given : cores > tess_plan_ranks_a_host(q) ? (int)(cores / tess_plan_ranks_a_host(q)) : 1;
}

tess_status tess_plan_config_copy(const tess_plan_request *q, tess_config *config)
{
    TESS_TRY(tess_config_copy(q->config, config));
    if (q->machine->machine.kind == TESS_MACHINE_GPU)
        config->job.device = TESS_DEVICE_CUDA;
    return TESS_OK;
}

tess_memory_plan tess_plan_dry(const tess_plan_request *q, const tess_config *config)
{
    tess_memory_plan plan = tess_memory_plan_of(config, tess_plan_ranks_a_host(q));
    plan.n_threads = threads_of(q);
    plan.moves = true;
    plan.saves_beside = config->checkpoint.enable && config->checkpoint.async;
    return plan;
}

static tess_status open_flat(tess_planner *planner, const tess_plan_request *q, plan_case *c)
{
    *c = (plan_case){.planner = planner, .own = *q, .model = *q->model};
    TESS_TRY(tess_plan_config_copy(q, &c->config));
    c->own.config = &c->config;
    c->own.model = &c->model;
    c->request = &c->own;
    tess_axes_degrees(&c->config.parallelism, c->degree);
    const tess_coordinates at = tess_coordinates_by(c->degree, 0);
    c->n_stages = c->degree[TESS_AXIS_PP];
    c->n_micros = tess_coordinates_rounds(&at, tess_config_micro_batches(&c->config));
    /* Few micro-batches suffice for 1f1b, to a percent. Other schedules fill and drain for longer. */
    const int64_t kind = c->config.parallelism.pipeline_parallel_schedule;
    const bool is_short = kind == TESS_PIPELINE_1F1B;
    const int64_t of_stage = q->options.full_ranks || !is_short ? MICROS_A_STAGE : MICROS_A_STAGE / 2;
    const int64_t most = c->n_stages > 1 ? of_stage * c->n_stages : MICROS;
    /* The order of a file is that of all micro-batches. */
    const bool of_file = c->config.parallelism.pipeline_parallel_schedule_csv[0] != '\0';
    c->most_micros = c->n_micros > most && !of_file && !q->options.all_micros ? most : 0;
    c->plan = tess_plan_dry(q, &c->config);
    return TESS_OK;
}

/* ---- Depth ---- */
/* Returns the number of layers after which all are alike; the model's layers: they alternate. */
static int64_t unlike_layers(const tess_model_config *m)
{
    int64_t first = m->n_layers - 1;
    while (first > 0 && m->layers[first - 1] == m->layers[m->n_layers - 1])
        first--;
    return first;
}

/* Whether each further layer of a stage adds the same. Otherwise what a layer adds depends on its number. */
static bool adds_alike(const tess_config *c)
{
    return c->activation_checkpoint.mode != TESS_RECOMPUTE_EVERY_N && c->activation_checkpoint.budget == 0 &&
           c->parallelism.fsdp_unit_blocks == 1 && c->parallelism.fsdp_unit_bytes == 0 && c->training.freeze.n == 0 &&
           c->optimizer.name != TESS_MUON && !tess_config_offloads(c);
}

/* Removes `fewer` layers from each stage. */
static tess_status make_shallow(const plan_case *c, const tess_stage_plan *stages, int n_stages, int64_t fewer,
                                plan_case *out)
{
    tess_buffer points = {.mem = c->planner->mem};
    TESS_TRY(open_flat(c->planner, c->request, out));
    out->model.n_layers -= fewer * n_stages;
    if (n_stages == 1)
        return TESS_OK;
    out->config.parallelism.pipeline_parallel_layers_per_stage = 0;
    tess_status status = tess_buffer_printf(&points, "parallelism.pipeline_parallel_split_points=");
    for (int g = 1; g < n_stages && status == TESS_OK; g++)
        status = tess_buffer_printf(&points, "%s%lld", g > 1 ? "," : "", (long long)(stages->first[g] - g * fewer));
    if (status == TESS_OK)
        status = tess_config_override(&out->config, points.data);
    tess_buffer_free(&points);
    return status;
}

/* Makes two cases, of least_layers and one more in the stage that has fewest. */
static tess_status make_two(const plan_case *c, const tess_stage_plan *stages, int64_t layers, int64_t least_layers,
                            plan_case **out, double *deeper)
{
    const int n = stages->shape.ranks * stages->shape.chunks;
    TESS_TRY(TESS_NEW(c->planner->mem, SHALLOW, "shallow plans", out));
    for (int i = 0; i < SHALLOW; i++)
        TESS_TRY(make_shallow(c, stages, n, layers - least_layers - i, &(*out)[i]));
    *deeper = (double)(layers - least_layers - 1);
    return TESS_OK;
}

/* Makes the shallow cases, if the stages are deep enough. */
static tess_status open_shallow(plan_case *c, const tess_stage_plan *stages)
{
    const int n = stages->shape.ranks * stages->shape.chunks;
    /* Gathered units outlive a pass if there are fewer layers, so less would move. Tied weights are one unit less, and
     * a stage in the middle has no units but its layers. */
    const int64_t to_gather = n > 1 ? 6 : 5, first = unlike_layers(&c->model) + c->config.parallelism.fsdp_prefetch;
    int64_t layers = INT64_MAX;
    for (int g = 0; g < n; g++)
        layers = stages->first[g + 1] - stages->first[g] < layers ? stages->first[g + 1] - stages->first[g] : layers;
    if (layers < first + to_gather + SHALLOW)
        return TESS_OK;
    TESS_TRY(make_two(c, stages, layers, first + 2, &c->shallow, &c->deeper));
    return make_two(c, stages, layers, first + to_gather, &c->for_volume, &c->volume_deeper);
}

static tess_status count_alike(plan_case *c, const tess_stage_plan *stages)
{
    const int64_t unlike = unlike_layers(&c->model);
    TESS_TRY(TESS_NEW(c->planner->mem, c->n_stages, "stages", &c->alike));
    for (int rank = 0; rank < c->n_stages; rank++)
        for (int chunk = 0; chunk < stages->shape.chunks; chunk++) {
            const int *first = &stages->first[tess_pipeline_stage(&stages->shape, rank, chunk)];
            c->alike[rank] += first[1] - first[0];
        }
    for (int rank = 0; rank < c->n_stages && stages->first[tess_pipeline_stage(&stages->shape, rank, 0)] < unlike;
         rank++)
        c->alike[rank] = 0;
    return TESS_OK;
}

static tess_status open_case(tess_planner *planner, const tess_plan_request *q, plan_case *c)
{
    tess_stage_plan stages;
    TESS_TRY(open_flat(planner, q, c));
    /* The copies that a host's ranks save are rounded up for each rank, so their sum is not composed. */
    const bool rounds = q->machine->machine.kind == TESS_MACHINE_CPU && c->plan.saves_beside;
    const bool composes = !rounds && adds_alike(&c->config);
    if (q->options.full_ranks || (!composes && c->n_stages == 1))
        return TESS_OK;
    TESS_TRY(tess_stage_plan_create(planner->mem, &c->config, &c->model, 0, &stages));
    tess_status status = composes ? open_shallow(c, &stages) : TESS_OK;
    if (status == TESS_OK)
        status = count_alike(c, &stages);
    tess_stage_plan_free(planner->mem, &stages);
    return status;
}

static void close_case(plan_case *c)
{
    if (c->planner == NULL) /* it was not opened */
        return;
    plan_case *const cases[] = {c->shallow, c->for_volume};
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        for (int i = 0; cases[k] != NULL && i < SHALLOW; i++)
            close_case(&cases[k][i]);
        tess_mem_free(c->planner->mem, cases[k]);
    }
    tess_mem_free(c->planner->mem, c->alike);
    tess_config_free(&c->config);
}

static double beyond(double all, double half, double factor)
{
    return all + (all - half) * factor;
}

uint64_t tess_plan_key(const tess_plan_request *q)
{
    int n;
    const tess_option_table *tables = tess_config_tables(&n);
    const unsigned all = TESS_EFFECT_NOTHING | TESS_EFFECT_CALLS | TESS_EFFECT_LAYOUT | TESS_EFFECT_BITS;
    const int64_t others[] = {q->n_ranks, tess_plan_ranks_a_host(q), threads_of(q), q->machine->machine.kind};
    const uint64_t of_config = tess_options_hash(tables, n, q->config, all);
    return tess_hash_bytes(others, sizeof(others), tess_hash_bytes(q->model, sizeof(*q->model), of_config));
}

static uint64_t key_of(const plan_case *c, int rank, int64_t most_micros, bool even_experts)
{
    const int64_t others[] = {rank, most_micros, even_experts};
    return tess_hash_bytes(others, sizeof(others), tess_plan_key(c->request));
}

/* The first rank of a stage: its rows are never fewer than those of others. */
static int rank_of_stage(const plan_case *c, int stage)
{
    return stage * tess_axis_stride(c->degree, TESS_AXIS_PP);
}

/* Frees the records of work if all of them together are large. Memory and volume of the dry ranks are kept. */
static void drop_traces(tess_planner *p)
{
    enum { MOST_EVENTS = 4 << 20 };
    size_t n = 0;
    for (const planned_rank *r = p->ranks; r != NULL; r = r->next)
        n += r->trace.n_events + r->trace.n_ops;
    for (planned_rank *r = p->ranks; r != NULL && n > MOST_EVENTS; r = r->next)
        if (r->trace.mem != NULL)
            tess_work_trace_free(&r->trace);
}

tess_status tess_planner_model(tess_planner *p, const tess_config *config, const tess_model_config *sizes,
                               const tess_model **model)
{
    uint64_t key = tess_hash_bytes(sizes, sizeof(*sizes), 0);
    for (int i = 0; i < config->training.freeze.n; i++)
        key = tess_hash_bytes(config->training.freeze.item[i], strlen(config->training.freeze.item[i]) + 1, key);
    planned_model *m = p->models;
    while (m != NULL && m->key != key)
        m = m->next;
    if (m == NULL) {
        TESS_TRY(TESS_NEW(p->mem, 1, "planned model", &m));
        tess_status status = tess_model_create(p->mem, sizes, &m->model);
        if (status != TESS_OK) {
            tess_mem_free(p->mem, m);
            return status;
        }
        tess_config_freeze(config, m->model);
        m->key = key;
        m->next = p->models;
        p->models = m;
    }
    *model = m->model;
    return TESS_OK;
}

tess_dry_workers *tess_planner_workers(tess_planner *planner)
{
    return planner->workers;
}

/* A dry rank that is needed. */
typedef struct wanted_rank {
    plan_case *of;
    int rank;
    int64_t most_micros;
    bool times;
} wanted_rank;

/* Memory is that of the routing that needs most of it. Times are those of even routing: a rank with the rows of all
 * ranks would compute as many times as long. */
static bool has_even_experts(const wanted_rank *w)
{
    return w->times && w->of->model.parts.experts.n > 0;
}

/* Returns the dry rank, or NULL: it has not run yet, or its record of work is needed again and was dropped. */
static planned_rank *known_rank(const wanted_rank *w)
{
    const uint64_t key = key_of(w->of, w->rank, w->most_micros, has_even_experts(w));
    planned_rank *r = w->of->planner->ranks;
    while (r != NULL && (r->key != key || (w->times && r->trace.n_events == 0)))
        r = r->next;
    return r;
}

static tess_status start_job(const wanted_rank *w, planned_rank **out, tess_dry_job *job)
{
    tess_planner *p = w->of->planner;
    const bool records = w->most_micros != MEMORY_ONLY;
    *job = (tess_dry_job){.plan = w->of->plan, .model = w->of->request->model, .rank = w->rank};
    TESS_TRY(tess_planner_model(p, &w->of->config, &w->of->model, &job->plan.whole));
    TESS_TRY(TESS_NEW(p->mem, 1, "planned rank", out));
    planned_rank *r = *out;
    r->key = key_of(w->of, w->rank, w->most_micros, has_even_experts(w));
    r->rank = w->rank;
    r->trace.even_experts = has_even_experts(w);
    job->plan.trace = records ? &r->trace : NULL;
    job->plan.peak = &r->peak;
    job->plan.moves = records;
    job->plan.most_micros = records ? w->most_micros : w->of->most_micros;
    return TESS_OK;
}

/* Runs the dry ranks that are not known yet, next to each other. */
static tess_status run_wanted(tess_planner *p, const wanted_rank *wanted, int n)
{
    TESS_AUTO(tess_mem_drop) planned_rank **ranks = NULL;
    TESS_AUTO(tess_mem_drop) tess_dry_job *jobs = NULL;
    int n_jobs = 0;
    tess_status status = TESS_OK;
    TESS_TRY(TESS_NEW(p->mem, n, "dry ranks", &ranks));
    TESS_TRY(TESS_NEW(p->mem, n, "dry ranks", &jobs));
    for (int i = 0; i < n && status == TESS_OK; i++)
        if (known_rank(&wanted[i]) == NULL) {
            status = start_job(&wanted[i], &ranks[n_jobs], &jobs[n_jobs]);
            n_jobs += status == TESS_OK;
        }
    if (status == TESS_OK)
        tess_dry_workers_run(p->workers, jobs, n_jobs);
    for (int i = 0; i < n_jobs; i++) {
        planned_rank *r = ranks[i];
        if (status == TESS_OK)
            status = tess_dry_job_end(&jobs[i]);
        if (status != TESS_OK) {
            if (r->trace.mem != NULL)
                tess_work_trace_free(&r->trace);
            tess_mem_free(p->mem, r);
            continue;
        }
        r->report = jobs[i].report;
        p->n_dry++;
        r->next = p->ranks;
        p->ranks = r;
    }
    return status;
}

static tess_status find_rank(plan_case *c, int rank, int64_t most_micros, bool times, planned_rank **out)
{
    const wanted_rank wanted = {c, rank, most_micros, times};
    TESS_TRY(run_wanted(c->planner, &wanted, 1));
    *out = known_rank(&wanted);
    return TESS_OK;
}

/* ---- Memory ---- */
static void add_alive(const planned_rank *r, tess_plan_memory *m)
{
    memcpy(m->moment, r->peak.moment, sizeof(m->moment));
    for (int i = 0; i < r->peak.n_names; i++) {
        const tess_peak_name *name = &r->peak.names[i];
        int at = m->n_alive < TESS_PLAN_ALIVE                        ? m->n_alive++
                 : name->bytes > m->alive[TESS_PLAN_ALIVE - 1].bytes ? TESS_PLAN_ALIVE - 1
                                                                     : -1;
        if (at < 0)
            continue;
        for (; at > 0 && m->alive[at - 1].bytes < name->bytes; at--)
            m->alive[at] = m->alive[at - 1];
        m->alive[at] = (tess_plan_alive){.pool = name->pool, .bytes = name->bytes};
        memcpy(m->alive[at].what, name->what, sizeof(name->what));
    }
    while (m->n_alive > 0 && m->alive[m->n_alive - 1].bytes <= 0)
        m->n_alive--;
}

/* The bytes of a rank that count against the room of its device, or of its host. */
static double counted(const plan_case *c, const tess_memory_of_rank *need)
{
    return c->request->machine->machine.kind == TESS_MACHINE_GPU ? tess_pools_sum(need->device)
                                                                 : tess_pools_sum(need->pool);
}

/* Adds what the further layers of a stage need. */
static void go_deeper(tess_dry_report *report, const tess_dry_report *less, double deeper)
{
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        report->host[pool] = beyond(report->host[pool], less->host[pool], deeper);
        report->device[pool] = beyond(report->device[pool], less->device[pool], deeper);
        report->engine_host[pool] = beyond(report->engine_host[pool], less->engine_host[pool], deeper);
    }
    report->work = beyond(report->work, less->work, deeper);
    report->saved = beyond(report->saved, less->saved, deeper);
    report->n_units += (int64_t)((double)(report->n_units - less->n_units) * deeper);
    report->n_blocks += (int64_t)((double)(report->n_blocks - less->n_blocks) * deeper);
}

static tess_status report_of_stage(plan_case *c, int stage, int64_t micros, tess_dry_report *report,
                                   planned_rank **rank)
{
    tess_dry_report less;
    if (c->shallow == NULL) {
        TESS_TRY(find_rank(c, rank_of_stage(c, stage), micros, false, rank));
        *report = (*rank)->report;
        return TESS_OK;
    }
    TESS_TRY(report_of_stage(&c->shallow[0], stage, micros, &less, rank));
    TESS_TRY(report_of_stage(&c->shallow[1], stage, micros, report, rank));
    go_deeper(report, &less, c->deeper);
    return TESS_OK;
}

static tess_status need_of_stage(plan_case *c, int stage, int64_t micros, tess_memory_of_rank *need,
                                 planned_rank **rank)
{
    tess_dry_report report;
    TESS_TRY(report_of_stage(c, stage, micros, &report, rank));
    *need = tess_memory_of_report(&c->plan, &report);
    return TESS_OK;
}

/* Finds the bytes of all ranks of the host that needs most, and keeps them. */
static tess_status find_host(plan_case *c, double *bytes)
{
    tess_planner *p = c->planner;
    const uint64_t key = tess_plan_key(c->request);
    tess_memory_need need;
    planned_host *h = p->hosts;
    while (h != NULL && h->key != key)
        h = h->next;
    if (h == NULL) {
        tess_memory_plan plan = c->plan;
        plan.moves = false;
        TESS_TRY(tess_memory_predict(p->mem, c->request->model, &plan, &need));
        TESS_TRY(TESS_NEW(p->mem, 1, "planned host", &h));
        *h = (planned_host){.next = p->hosts, .key = key, .bytes = need.host};
        p->hosts = h;
    }
    *bytes = h->bytes;
    return TESS_OK;
}

static tess_status need_of_host(plan_case *c, double *bytes)
{
    double less;
    if (c->shallow == NULL)
        return find_host(c, bytes);
    TESS_TRY(need_of_host(&c->shallow[0], &less));
    TESS_TRY(need_of_host(&c->shallow[1], bytes));
    *bytes = beyond(*bytes, less, c->deeper);
    return TESS_OK;
}

/* Whether another rank of the pipeline needs at least as much: in these schedules a rank holds no more micro-batches
 * than the one before it, and only the first and the last have more than layers. */
static bool needs_less(const plan_case *c, int rank)
{
    const int kind = c->config.parallelism.pipeline_parallel_schedule;
    const bool falls = kind == TESS_PIPELINE_GPIPE || kind == TESS_PIPELINE_1F1B || kind == TESS_PIPELINE_INTERLEAVED;
    if (!falls || c->alike == NULL || rank == c->n_stages - 1)
        return false;
    for (int other = 1; other < rank; other++)
        if (c->alike[other] >= c->alike[rank] && c->alike[rank] > 0)
            return true;
    return false;
}

/* The micro-batches of dry ranks whose memory is planned. They are those whose time is planned, too, so that no rank
 * runs twice, unless those have even experts. */
static int64_t micros_for_memory(const plan_case *c)
{
    return c->model.parts.experts.n > 0 ? MEMORY_ONLY : c->most_micros;
}

/* Runs the dry ranks of the next stages whose memory is planned, as many as there are workers. */
static tess_status run_stages(plan_case *c, int stage, int64_t micros)
{
    enum { MOST = SHALLOW * TESS_DRY_WORKERS };
    wanted_rank wanted[MOST];
    int n = 0;
    for (int left = tess_dry_workers_count(c->planner->workers); left > 0 && stage < c->n_stages; stage++) {
        if (needs_less(c, stage))
            continue;
        left--;
        for (int i = 0; i < (c->shallow != NULL ? SHALLOW : 1); i++)
            wanted[n++] =
                (wanted_rank){c->shallow != NULL ? &c->shallow[i] : c, rank_of_stage(c, stage), micros, false};
    }
    return run_wanted(c->planner, wanted, n);
}

static tess_status plan_memory(plan_case *c, int64_t micros, tess_plan_memory *m)
{
    const tess_machine *machine = c->request->machine;
    planned_rank *worst = NULL;
    double most_of_host = 0; /* bytes of a rank in the memory of its host */
    *m = (tess_plan_memory){.rank = 0};
    const double enough =
        c->request->options.until_too_large && machine->machine.kind == TESS_MACHINE_GPU && machine->memory.gb > 0
            ? machine->memory.gb * 1e9
            : INFINITY;
    for (int stage = 0; stage < c->n_stages && counted(c, &m->most) <= enough; stage++) {
        planned_rank *r;
        tess_memory_of_rank need;
        if (needs_less(c, stage))
            continue;
        TESS_TRY(run_stages(c, stage, micros));
        TESS_TRY(need_of_stage(c, stage, micros, &need, &r));
        if (tess_pools_sum(need.pool) > most_of_host) {
            most_of_host = tess_pools_sum(need.pool);
            m->host_rank = r->rank;
        }
        if (worst == NULL || counted(c, &need) > counted(c, &m->most)) {
            m->most = need;
            m->rank = r->rank;
            worst = r;
        }
    }
    if (worst != NULL && c->shallow == NULL)
        add_alive(worst, m);
    m->room = machine->memory.gb * 1e9;
    m->bytes = tess_pools_sum(m->most.device);
    if (machine->machine.kind == TESS_MACHINE_CPU)
        TESS_TRY(need_of_host(c, &m->bytes));
    m->missing = m->room > 0 && m->bytes > m->room ? m->bytes - m->room : 0;
    if (machine->machine.kind == TESS_MACHINE_GPU) {
        m->host_bytes = most_of_host * c->plan.n_local;
        m->host_room = machine->memory.host_gb * 1e9;
        m->missing = m->host_room > 0 ? fmax(m->missing, m->host_bytes - m->host_room) : m->missing;
    }
    return TESS_OK;
}

tess_plan_shortage tess_plan_short_of(const tess_machine *machine, double bytes, double missing)
{
    const double room = machine->memory.gb * 1e9, host_room = machine->memory.host_gb * 1e9;
    const bool of_gpu_host =
        machine->machine.kind == TESS_MACHINE_GPU && host_room > 0 && (room <= 0 || bytes - room < missing);
    return (tess_plan_shortage){.of_gpu_host = of_gpu_host,
                                .bytes = of_gpu_host ? host_room + missing : bytes,
                                .room = of_gpu_host ? host_room : room,
                                .missing = missing};
}

/* ---- Time ---- */
/* Times a rank of each stage: its first one and `further` ranks. */
static tess_status time_ranks_at(plan_case *c, int further, int64_t most_micros, tess_step_spans *spans,
                                 tess_plan_time *time)
{
    const tess_plan_request *q = c->request;
    TESS_AUTO(tess_mem_drop) tess_timed_rank *ranks = NULL;
    TESS_AUTO(tess_mem_drop) wanted_rank *wanted = NULL;
    TESS_TRY(TESS_NEW(c->planner->mem, c->n_stages, "ranks of a pipeline", &ranks));
    TESS_TRY(TESS_NEW(c->planner->mem, c->n_stages, "ranks of a pipeline", &wanted));
    for (int stage = 0; stage < c->n_stages; stage++)
        wanted[stage] = (wanted_rank){c, rank_of_stage(c, stage) + further, most_micros, true};
    TESS_TRY(run_wanted(c->planner, wanted, c->n_stages));
    for (int stage = 0; stage < c->n_stages; stage++) {
        planned_rank *r;
        TESS_TRY(find_rank(c, rank_of_stage(c, stage) + further, most_micros, true, &r));
        ranks[stage] = (tess_timed_rank){.rank = r->rank, .trace = &r->trace};
    }
    const tess_step_case of = {.machine = q->machine,
                               .ranks = ranks,
                               .n = c->n_stages,
                               .n_ranks = q->n_ranks,
                               .ranks_a_host = tess_plan_ranks_a_host(q),
                               .threads = threads_of(q),
                               .straggler = q->options.straggler,
                               .spans = spans};
    return tess_step_time(c->planner->mem, &of, time);
}

/* Lets a rank wait in each phase for another one, if that takes longer: all meet in the gathers and sums of a layer. */
static void wait_in_phases(tess_plan_time *t, const tess_plan_time *other, const char *axis)
{
    double waits_s = 0;
    for (int i = 0; i < TESS_PHASE_COUNT; i++) {
        const double longer = fmax(t->phase_s[i], other->phase_s[i]);
        waits_s += longer - t->phase_s[i];
        t->phase_s[i] = longer;
    }
    t->step_s += waits_s;
    t->exposed_s += waits_s;
    for (int i = 0; i < t->n_teams; i++)
        if (strcmp(t->teams[i].name, axis) == 0)
            t->teams[i].exposed_s += waits_s;
}

/* Ranks that have tokens in order have unequal attention: forward takes longest on the last one, whose queries read all
 * keys, and a ring's backward may take longest on the first, whose keys all queries read. */
static tess_status time_ranks(plan_case *c, int64_t most_micros, tess_step_spans *spans, tess_plan_time *time)
{
    tess_plan_time first;
    const int n = c->degree[TESS_AXIS_CP];
    if (n == 1 || c->config.parallelism.context_parallel_load_balancer != TESS_BALANCER_CONTIGUOUS)
        return time_ranks_at(c, 0, most_micros, spans, time);
    TESS_TRY(time_ranks_at(c, 0, most_micros, NULL, &first));
    const int last = (n - 1) * tess_axis_stride(c->degree, TESS_AXIS_CP);
    TESS_TRY(time_ranks_at(c, last, most_micros, spans, time));
    const double alone_s = time->step_s;
    wait_in_phases(time, &first, "cp");
    if (spans != NULL)
        spans->waits_s = time->step_s - alone_s;
    tess_plan_time_find_bound(time);
    return TESS_OK;
}

/* Adds to `t` what further micro-batches take: `factor` times what it has more than `half`. */
static void go_on(tess_plan_time *t, const tess_plan_time *half, double factor)
{
    const double measured_s = t->measured_share * (t->compute_s + t->optimizer_s),
                 of_half_s = half->measured_share * (half->compute_s + half->optimizer_s);
    t->compute_s = beyond(t->compute_s, half->compute_s, factor);
    t->exposed_s = beyond(t->exposed_s, half->exposed_s, factor);
    t->bubble_s = beyond(t->bubble_s, half->bubble_s, factor);
    t->optimizer_s = beyond(t->optimizer_s, half->optimizer_s, factor);
    t->step_s = beyond(t->step_s, half->step_s, factor);
    for (int i = 0; i < TESS_PHASE_COUNT; i++)
        t->phase_s[i] = beyond(t->phase_s[i], half->phase_s[i], factor);
    for (int i = 0; i < t->n_kernels; i++)
        for (int k = 0; k < half->n_kernels; k++)
            if (t->kernels[i].name == half->kernels[k].name) {
                tess_plan_kernel *kernel = &t->kernels[i];
                kernel->n = beyond(kernel->n, half->kernels[k].n, factor);
                kernel->seconds = beyond(kernel->seconds, half->kernels[k].seconds, factor);
                kernel->flops = beyond(kernel->flops, half->kernels[k].flops, factor);
                kernel->bytes = beyond(kernel->bytes, half->kernels[k].bytes, factor);
            }
    for (int i = 0; i < t->n_teams; i++)
        for (int k = 0; k < half->n_teams; k++)
            if (strcmp(t->teams[i].name, half->teams[k].name) == 0) {
                t->teams[i].n = beyond(t->teams[i].n, half->teams[k].n, factor);
                t->teams[i].bytes = beyond(t->teams[i].bytes, half->teams[k].bytes, factor);
                t->teams[i].seconds = beyond(t->teams[i].seconds, half->teams[k].seconds, factor);
                t->teams[i].exposed_s = fmax(0, beyond(t->teams[i].exposed_s, half->teams[k].exposed_s, factor));
            }
    const double kernels_s = t->compute_s + t->optimizer_s;
    t->measured_share = kernels_s > 0 ? beyond(measured_s, of_half_s, factor) / kernels_s : 0;
    tess_plan_time_sort(t);
    tess_plan_time_find_bound(t);
}

static void add_losses(const plan_case *c, tess_plan_time *t)
{
    const tess_plan_options *o = &c->request->options;
    const double day_s = 86400, mtbf_s = o->failures_per_day > 0 ? day_s / o->failures_per_day : 0;
    t->loader_s = o->loader_s * (double)c->n_micros;
    t->step_s += t->loader_s;
    t->save_every_s = o->save_every_s > 0 ? o->save_every_s : tess_save_interval(o->save_s, mtbf_s);
    t->goodput = tess_goodput(o->save_s, t->save_every_s, mtbf_s, o->restart_s);
}

/* The peak of the whole job in the dtype of its products. */
static double peak_of(const plan_case *c)
{
    const tess_machine *m = c->request->machine;
    const double tflops =
        tess_machine_product_tflops(m, c->config.training.mixed_precision_param == TESS_PRECISION_F32);
    const double n = m->machine.kind == TESS_MACHINE_GPU
                         ? (double)c->request->n_ranks
                         : ceil((double)c->request->n_ranks / tess_plan_ranks_a_host(c->request));
    return tflops * 1e12 * n;
}

static tess_status add_rates(const plan_case *c, tess_plan_time *t)
{
    const tess_plan_request *q = c->request;
    const tess_machine *m = q->machine;
    TESS_AUTO(tess_model_destroy) tess_model *model = NULL;
    TESS_TRY(tess_model_create(c->planner->mem, q->model, &model));
    const double seq = (double)c->config.training.seq_len, n = (double)q->n_ranks;
    const double devices = m->machine.kind == TESS_MACHINE_GPU ? n : ceil(n / tess_plan_ranks_a_host(q));
    t->tokens = (double)c->config.training.global_batch_size * seq;
    t->flops = t->tokens * tess_model_flops_per_token(model, c->config.training.seq_len);
    t->tokens_per_s = t->step_s > 0 ? t->tokens / t->step_s : 0;
    t->tokens_per_s_rank = t->tokens_per_s / n;
    t->mfu = t->step_s > 0 ? t->flops / t->step_s / peak_of(c) : 0;
    t->watts = m->cost.watts * devices;
    const double useful = t->tokens_per_s * t->goodput;
    t->joules_per_token = m->cost.watts > 0 && useful > 0 ? t->watts / useful : NAN;
    t->price_per_million = m->cost.per_hour > 0 && useful > 0 ? m->cost.per_hour * devices / 3600 / useful * 1e6 : NAN;
    return TESS_OK;
}

/* The time of a step's kernels and operations. */
static tess_status time_step(plan_case *c, tess_plan_time *t)
{
    tess_plan_time less;
    /* One rank is cheap enough for the cases that gather as full ones do. */
    plan_case *cases = c->n_stages == 1 ? c->for_volume : c->shallow;
    if (cases != NULL) {
        TESS_TRY(time_step(&cases[0], &less));
        TESS_TRY(time_step(&cases[1], t));
        go_on(t, &less, c->n_stages == 1 ? c->volume_deeper : c->deeper);
        return TESS_OK;
    }
    TESS_TRY(time_ranks(c, c->most_micros, NULL, t));
    if (c->most_micros > 0) {
        tess_plan_time half;
        const int64_t less = c->most_micros / 2;
        TESS_TRY(time_ranks(c, less, NULL, &half));
        go_on(t, &half, (double)(c->n_micros - c->most_micros) / (double)(c->most_micros - less));
    }
    return TESS_OK;
}

static tess_status plan_time(plan_case *c, tess_plan_time *t)
{
    TESS_TRY(time_step(c, t));
    add_losses(c, t);
    return add_rates(c, t);
}

/* ---- Volume ---- */
/* Adds what `more` further layers or micro-batches move, if the volume has `between` more of them than `less`. */
static void extend_volume(tess_plan_volume *v, const tess_plan_volume *less, int64_t more, int64_t between)
{
    for (int i = 0; i < v->of_rank.n_rows && i < less->of_rank.n_rows; i++) {
        tess_volume_row *row = &v->of_rank.rows[i];
        row->n += (row->n - less->of_rank.rows[i].n) * more / between;
        row->bytes += (row->bytes - less->of_rank.rows[i].bytes) * more / between;
    }
    v->exchanged_bytes = beyond(v->exchanged_bytes, less->exchanged_bytes, (double)more / (double)between);
}

static tess_status plan_volume(plan_case *c, tess_plan_volume *v)
{
    planned_rank *r, *half;
    if (c->for_volume != NULL) {
        tess_plan_volume less;
        TESS_TRY(plan_volume(&c->for_volume[0], &less));
        TESS_TRY(plan_volume(&c->for_volume[1], v));
        extend_volume(v, &less, (int64_t)c->volume_deeper, 1);
        return TESS_OK;
    }
    TESS_TRY(find_rank(c, 0, c->most_micros, false, &r));
    v->of_rank = r->report.volume;
    v->exchanged_bytes = r->report.exchanged_bytes;
    if (c->most_micros == 0)
        return TESS_OK;
    const int64_t less = c->most_micros / 2;
    TESS_TRY(find_rank(c, 0, less, false, &half));
    const tess_plan_volume of_half = {.of_rank = half->report.volume, .exchanged_bytes = half->report.exchanged_bytes};
    extend_volume(v, &of_half, c->n_micros - c->most_micros, c->most_micros - less);
    return TESS_OK;
}

/* ---- All ---- */
static tess_status make(plan_case *c, tess_plan *plan)
{
    if (!c->request->options.no_memory)
        TESS_TRY(plan_memory(c, micros_for_memory(c), &plan->memory));
    plan->composed = c->shallow != NULL;
    if (!c->request->options.no_volume)
        TESS_TRY(plan_volume(c, &plan->volume));
    return plan_time(c, &plan->time);
}

tess_status tess_plan_make(tess_planner *planner, const tess_plan_request *request, tess_plan *plan)
{
    plan_case c;
    *plan = (tess_plan){.composed = false};
    tess_status status = open_case(planner, request, &c);
    if (status == TESS_OK)
        status = make(&c, plan);
    close_case(&c);
    drop_traces(planner);
    return status;
}

tess_status tess_plan_memory_of(tess_planner *planner, const tess_plan_request *request, tess_plan_memory *memory)
{
    plan_case c;
    tess_status status = open_case(planner, request, &c);
    /* A pipeline's dry ranks are those that its time needs, too. Half of the micro-batches need no more than all. */
    const int64_t micros = c.n_stages > 1 ? micros_for_memory(&c) : MEMORY_ONLY;
    const bool halves = request->options.until_too_large && micros > 0;
    memory->missing = 0;
    if (status == TESS_OK && halves)
        status = plan_memory(&c, micros / 2, memory);
    if (status == TESS_OK && memory->missing == 0)
        status = plan_memory(&c, micros, memory);
    close_case(&c);
    return status;
}

tess_status tess_plan_time_line(tess_planner *planner, const tess_plan_request *request, tess_step_spans *spans)
{
    plan_case c;
    tess_plan_time time;
    tess_plan_request full = *request;
    full.options.full_ranks = true;
    tess_status status = open_case(planner, &full, &c);
    if (status == TESS_OK)
        status = time_ranks(&c, c.most_micros, spans, &time);
    spans->all_micros = c.n_micros;
    spans->n_micros = c.most_micros > 0 ? c.most_micros : c.n_micros;
    close_case(&c);
    drop_traces(planner);
    return status;
}

void tess_plan_time_scale(tess_plan_time *t, double factor)
{
    double *const times[] = {&t->step_s, &t->compute_s, &t->exposed_s, &t->bubble_s, &t->optimizer_s};
    t->step_s -= t->loader_s;
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        *times[i] *= factor;
    t->step_s += t->loader_s;
    for (int i = 0; i < TESS_PHASE_COUNT; i++)
        t->phase_s[i] *= factor;
    for (int i = 0; i < t->n_kernels; i++)
        t->kernels[i].seconds *= factor;
    for (int i = 0; i < t->n_teams; i++) {
        t->teams[i].seconds *= factor;
        t->teams[i].exposed_s *= factor;
    }
    const double faster = t->step_s > 0 && t->tokens > 0 ? t->tokens / t->step_s / t->tokens_per_s : 1;
    t->tokens_per_s *= faster;
    t->tokens_per_s_rank *= faster;
    t->mfu *= faster;
    t->joules_per_token /= faster;
    t->price_per_million /= faster;
}

/* ---- Settings that would fit ---- */
typedef struct fit_search {
    tess_planner *planner;
    const tess_plan_request *request;
    char *text;
    size_t size, at;
} fit_search;

/* Tries settings, separated by spaces, on as many ranks. */
static tess_status try_settings(fit_search *s, const char *settings)
{
    char words[256], *save = NULL;
    tess_config config;
    tess_plan_memory memory;
    tess_plan_request request = *s->request;
    snprintf(words, sizeof(words), "%s", settings);
    TESS_TRY(tess_config_copy(s->request->config, &config));
    tess_status status = TESS_OK;
    for (char *word = strtok_r(words, " ", &save); word != NULL && status == TESS_OK; word = strtok_r(NULL, " ", &save))
        status = tess_config_override(&config, word);
    if (status == TESS_OK)
        status = tess_config_check_step(&config, request.n_ranks);
    request.config = &config;
    if (status == TESS_OK)
        status = tess_plan_memory_of(s->planner, &request, &memory);
    tess_config_free(&config);
    if (status == TESS_E_INVALID || status == TESS_E_UNSUPPORTED) {
        tess_error_clear();
        return TESS_OK;
    }
    if (status == TESS_OK && memory.missing <= 0)
        s->at = tess_text_add(s->text, s->size, s->at, "%swith %s", s->at > 0 ? ", or " : "", settings);
    return status;
}

tess_status tess_plan_would_fit(tess_planner *planner, const tess_plan_request *q, char *text, size_t size)
{
    static const char *const single[] = {"activation_checkpoint.mode=full", "parallelism.shard_strategy=full",
                                         "training.local_batch_size=1"};
    fit_search s = {.planner = planner, .request = q, .text = text, .size = size};
    char all[256], layout[128];
    text[0] = '\0';
    for (size_t i = 0; i < sizeof(single) / sizeof(single[0]); i++)
        TESS_TRY(try_settings(&s, single[i]));
    /* Tries all of them together, with more and more ranks that share layers. */
    for (int tp = 1; s.at == 0 && tp <= q->n_ranks; tp *= 2) {
        snprintf(layout, sizeof(layout),
                 "parallelism.data_parallel_shard_degree=-1 parallelism.tensor_parallel_degree=%d", tp);
        snprintf(all, sizeof(all), "%s %s %s %s", single[0], single[1], single[2], layout);
        TESS_TRY(try_settings(&s, all));
    }
    if (s.at == 0)
        snprintf(text, size, "with no layout of %d ranks that was tried: use more ranks, or offload.*", q->n_ranks);
    return TESS_OK;
}
