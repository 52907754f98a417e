/* The table of metrics. A row is a family: what a job, a rank, or an item of one of them has. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "doctor/prometheus/exporter_impl.h"

/* A family of samples. Exactly one of `of_job`, `of_rank`, `key` and `item` is set. */
typedef struct family {
    const char *name;
    tess_metric_type type;
    const char *help;
    bool (*of_job)(const exporter_view *v, double *value); /* returns false if the value is not known */
    bool (*of_rank)(const exporter_view *v, int rank, double *value);
    const char *key; /* key of a number in the newest line of metrics.jsonl, of the host with rank 0 */
    double scale;    /* factor for that number */
    /* A list of the job, or of each rank. `item` returns the value of `label`; NULL: there is no such item. */
    const char *label;
    int n_items;
    bool is_of_rank;
    bool from_first; /* the source counts on from an earlier launch, so the counter begins at 0 */
    const char *(*item)(const exporter_view *v, int rank, int i, double *value);
} family;

static const tess_top_rank *rank_of(const exporter_view *v, int rank)
{
    return &v->job->ranks[rank];
}

static double known_s(uint64_t ns)
{
    return (double)ns * 1e-9;
}

/* ---- The job ---- */
static bool is_running(const tess_top_rank *rank)
{
    return rank->is_here && rank->board.state == JOB_RANK_JOINED && rank->board.ended == 0;
}

static bool get_up(const exporter_view *v, double *value)
{
    *value = 0;
    for (int r = 0; v->job != NULL && r < v->job->world; r++)
        *value = is_running(rank_of(v, r)) && v->job->running ? 1 : *value;
    return true;
}

static bool get_page_time(const exporter_view *v, double *value)
{
    *value = v->wall_s;
    return true;
}

static bool get_page_interval(const exporter_view *v, double *value)
{
    *value = v->facts->interval_s;
    return *value > 0;
}

static bool get_start(const exporter_view *v, double *value)
{
    *value = v->job != NULL ? v->wall_s - v->job->age_s : 0;
    return v->job != NULL && v->job->age_s > 0;
}

static bool get_world(const exporter_view *v, double *value)
{
    *value = v->job != NULL ? v->job->world : 0;
    return v->job != NULL;
}

static bool get_hosts(const exporter_view *v, double *value)
{
    *value = v->job != NULL ? v->job->n_hosts : 0;
    return v->job != NULL;
}

static bool get_restarts(const exporter_view *v, double *value)
{
    *value = v->job != NULL ? (double)v->job->n_restarts : 0;
    return v->job != NULL;
}

static bool get_stalled(const exporter_view *v, double *value)
{
    const tess_top_totals *t = &v->totals;
    if (v->job == NULL || v->facts->stall_s <= 0)
        return false;
    *value = (t->culprit >= 0 && t->waited_s >= v->facts->stall_s) || t->is_halted;
    return true;
}

static bool get_culprit(const exporter_view *v, double *value)
{
    if (v->job == NULL || v->facts->stall_s <= 0)
        return false;
    *value = v->totals.waited_s >= v->facts->stall_s ? v->totals.culprit : -1;
    return true;
}

static bool get_longest_wait(const exporter_view *v, double *value)
{
    *value = v->totals.waited_s;
    return v->job != NULL;
}

/* Whether this host shows what belongs to the whole job. */
static bool has_first(const exporter_view *v)
{
    return v->job != NULL && rank_of(v, 0)->is_here && rank_of(v, 0)->board.n_steps > 0;
}

static bool get_loss(const exporter_view *v, double *value)
{
    if (has_first(v))
        memcpy(value, &rank_of(v, 0)->board.loss, sizeof(*value));
    return has_first(v);
}

static bool get_tokens(const exporter_view *v, double *value)
{
    *value = has_first(v) ? (double)rank_of(v, 0)->board.n_tokens : 0;
    return has_first(v);
}

static bool get_speed(const exporter_view *v, double *value)
{
    *value = v->totals.tokens_per_s;
    return has_first(v);
}

static bool get_degraded(const exporter_view *v, double *value)
{
    *value = v->job != NULL && v->job->health[0] != '\0';
    return v->job != NULL;
}

static bool get_host_memory(const exporter_view *v, double *value)
{
    *value = v->memory_percent / 100;
    return v->memory_percent >= 0;
}

static bool get_group_memory(const exporter_view *v, double *value)
{
    *value = v->group_percent / 100;
    return v->group_percent >= 0;
}

static bool get_checkpoint_time(const exporter_view *v, double *value)
{
    *value = v->facts->checkpoint_s;
    return v->facts->checkpoint_step >= 0;
}

static bool get_checkpoint_step(const exporter_view *v, double *value)
{
    *value = (double)v->facts->checkpoint_step;
    return v->facts->checkpoint_step >= 0;
}

/* ---- Ranks ---- */
static bool get_rank_up(const exporter_view *v, int rank, double *value)
{
    *value = is_running(rank_of(v, rank));
    return true;
}

static bool get_step(const exporter_view *v, int rank, double *value)
{
    *value = (double)rank_of(v, rank)->board.n_steps;
    return *value > 0;
}

static bool get_step_seconds(const exporter_view *v, int rank, double *value)
{
    *value = known_s(rank_of(v, rank)->board.step_ns);
    return rank_of(v, rank)->board.n_steps > 0;
}

static bool get_step_time(const exporter_view *v, int rank, double *value)
{
    *value = v->wall_s - rank_of(v, rank)->step_age_s;
    return rank_of(v, rank)->step_age_s >= 0;
}

static bool get_heartbeat_age(const exporter_view *v, int rank, double *value)
{
    *value = known_s(rank_of(v, rank)->board.age_ns);
    return is_running(rank_of(v, rank));
}

static bool get_waiting(const exporter_view *v, int rank, double *value)
{
    *value = known_s(rank_of(v, rank)->board.wait_age_ns);
    return true;
}

static bool get_waits_for(const exporter_view *v, int rank, double *value)
{
    int first;
    tess_top_missing(v->job, rank, &first);
    *value = first;
    return true;
}

static bool get_waited_for(const exporter_view *v, int rank, double *value)
{
    const tess_top_snapshot *s = v->job;
    *value = 0;
    for (int other = 0; other < s->world; other++)
        *value += s->ranks[other].board.wait_age_ns > 0 && tess_bits_has(s->ranks[other].awaited, rank);
    return true;
}

static bool get_stopped(const exporter_view *v, int rank, double *value)
{
    *value = tess_top_is_stopped(rank_of(v, rank));
    return true;
}

static bool get_resident(const exporter_view *v, int rank, double *value)
{
    *value = (double)rank_of(v, rank)->rss_bytes;
    return *value >= 0;
}

static bool get_disk(const exporter_view *v, int rank, double *value)
{
    *value = (double)rank_of(v, rank)->board.disk_bytes;
    return true;
}

/* ---- Lists ---- */
static const char *get_build(TESS_UNUSED const exporter_view *v, TESS_UNUSED int rank, TESS_UNUSED int i, double *value)
{
    *value = 1;
    return TESS_VERSION;
}

static const char *get_notices(const exporter_view *v, TESS_UNUSED int rank, int i, double *value)
{
    *value = (double)v->exporter->n_notices[i];
    return tess_notice_name((uint32_t)i);
}

static const char *get_health_alerts(const exporter_view *v, TESS_UNUSED int rank, int i, double *value)
{
    *value = (double)v->exporter->n_health[i];
    return v->facts->folder != NULL ? exporter_health_states[i] : NULL;
}

static const char *get_recovery_alerts(const exporter_view *v, TESS_UNUSED int rank, int i, double *value)
{
    *value = (double)v->exporter->n_recovery[i];
    return v->facts->folder != NULL ? exporter_recovery_states[i] : NULL;
}

static const char *get_phase(const exporter_view *v, int rank, int i, double *value)
{
    *value = known_s(rank_of(v, rank)->board.phase_ns[i]);
    return tess_phase_name((tess_phase)i);
}

static const char *get_pool(const exporter_view *v, int rank, int i, double *value)
{
    *value = (double)rank_of(v, rank)->board.pool_bytes[i];
    return tess_pool_name((tess_pool)i);
}

/* Returns the rank's counts of an axis; NULL: it has none. */
static const tess_traffic *traffic_of(const exporter_view *v, int rank, int i)
{
    const tess_traffic *traffic = &rank_of(v, rank)->traffic[i];
    for (int before = 0; before < i; before++) /* names of a broken program may come twice */
        if (strcmp(rank_of(v, rank)->traffic[before].name, traffic->name) == 0)
            return NULL;
    return traffic->name[0] != '\0' ? traffic : NULL;
}

static const char *get_traffic_bytes(const exporter_view *v, int rank, int i, double *value)
{
    const tess_traffic *traffic = traffic_of(v, rank, i);
    *value = traffic != NULL ? (double)traffic->bytes : 0;
    return traffic != NULL ? traffic->name : NULL;
}

static const char *get_traffic_count(const exporter_view *v, int rank, int i, double *value)
{
    const tess_traffic *traffic = traffic_of(v, rank, i);
    *value = traffic != NULL ? (double)traffic->n : 0;
    return traffic != NULL ? traffic->name : NULL;
}

static const char *get_traffic_seconds(const exporter_view *v, int rank, int i, double *value)
{
    const tess_traffic *traffic = traffic_of(v, rank, i);
    *value = traffic != NULL ? known_s(traffic->moving_ns) : 0;
    return traffic != NULL ? traffic->name : NULL;
}

static const char *get_traffic_waits(const exporter_view *v, int rank, int i, double *value)
{
    const tess_traffic *traffic = traffic_of(v, rank, i);
    *value = traffic != NULL ? known_s(traffic->waited_ns) : 0;
    return traffic != NULL ? traffic->name : NULL;
}

/* ---- The table ---- */
#define GAUGE(name_, help_, ...)                                                        \
    {                                                                                   \
        .name = "tessera_" name_, .type = TESS_METRIC_GAUGE, .help = help_, __VA_ARGS__ \
    }
#define COUNTER(name_, help_, ...)                                                                 \
    {                                                                                              \
        .name = "tessera_" name_ "_total", .type = TESS_METRIC_COUNTER, .help = help_, __VA_ARGS__ \
    }

static const family families[] = {
    GAUGE("build_info", "Version of the program.", .label = "version", .n_items = 1, .item = get_build),
    GAUGE("up", "1 while a rank of the job runs on this host.", .of_job = get_up),
    GAUGE("page_timestamp_seconds", "Time when this page was made.", .of_job = get_page_time),
    GAUGE("page_interval_seconds", "Seconds between two pages of a text file.", .of_job = get_page_interval),
    GAUGE("start_time_seconds", "Time when the job was started.", .of_job = get_start),
    GAUGE("ranks", "Ranks of the job, on all hosts.", .of_job = get_world),
    GAUGE("hosts", "Hosts of the job.", .of_job = get_hosts),
    COUNTER("restarts", "Restarts and recoveries since the job was started.", .of_job = get_restarts),
    COUNTER("notices", "Reports of the watchdog and of ranks, by kind.", .label = "kind", .n_items = TESS_NOTICE_COUNT,
            .item = get_notices),
    COUNTER("health_alerts", "Alerts about the health of a host of the run, by the new state.", .label = "state",
            .n_items = TESS_EXPORTER_STATES, .item = get_health_alerts),
    COUNTER("recovery_alerts", "Alerts about failures of the run, by what was done.", .label = "state",
            .n_items = TESS_EXPORTER_STATES, .item = get_recovery_alerts),
    GAUGE("stalled", "1 while ranks wait for another one for longer than comm.soft_timeout_s.", .of_job = get_stalled),
    GAUGE("culprit_rank", "Rank that keeps others waiting for that long; -1: none.", .of_job = get_culprit),
    GAUGE("longest_wait_seconds", "Time that a rank has waited for the rank that most ranks wait for.",
          .of_job = get_longest_wait),
    GAUGE("host_degraded", "1 if the newest health alert of this job is not that all is well.", .of_job = get_degraded),
    GAUGE("host_memory_used_ratio", "Used share of the machine's memory.", .of_job = get_host_memory),
    GAUGE("cgroup_memory_used_ratio", "Used share of the memory that the control group allows.",
          .of_job = get_group_memory),
    GAUGE("checkpoint_timestamp_seconds", "Time when the newest complete checkpoint was completed.",
          .of_job = get_checkpoint_time),
    GAUGE("checkpoint_step", "Step of the newest complete checkpoint.", .of_job = get_checkpoint_step),
    GAUGE("loss", "Loss of the newest step.", .of_job = get_loss),
    GAUGE("trained_tokens", "Tokens of all steps of the run, with those of earlier launches.", .of_job = get_tokens),
    COUNTER("tokens", "Tokens of the steps that were done since the metrics began.", .of_job = get_tokens,
            .from_first = true),
    GAUGE("tokens_per_second", "Tokens of all ranks, over the time of the newest step.", .of_job = get_speed),
    GAUGE("grad_norm", "Norm of the gradient of the newest step.", .key = "grad_norm", .scale = 1),
    GAUGE("learning_rate", "Learning rate of the newest step.", .key = "lr", .scale = 1),
    GAUGE("mfu_ratio", "Model FLOP/s of the newest step over the peak of the devices.", .key = "mfu", .scale = 1),
    GAUGE("flops_per_second", "Model FLOP/s of all ranks in the newest step.", .key = "tflops", .scale = 1e12),
    GAUGE("loss_scale", "Scale of the loss of the newest step.", .key = "loss_scale", .scale = 1),
    GAUGE("rank_up", "1 while the rank runs.", .of_rank = get_rank_up),
    GAUGE("rank_stopped", "1 while a signal or a debugger has stopped the rank.", .of_rank = get_stopped),
    GAUGE("step", "Steps that are done.", .of_rank = get_step),
    GAUGE("step_seconds", "Time of the newest step.", .of_rank = get_step_seconds),
    GAUGE("last_step_timestamp_seconds", "Time when the newest step was done.", .of_rank = get_step_time),
    GAUGE("heartbeat_age_seconds", "Time since the rank was last heard.", .of_rank = get_heartbeat_age),
    COUNTER("phase_seconds", "Time that the rank has spent in each phase of its steps.", .label = "phase",
            .n_items = TESS_PHASE_COUNT, .is_of_rank = true, .item = get_phase),
    GAUGE("waiting_seconds", "Time that the rank has waited in its present operation; 0: it does not wait.",
          .of_rank = get_waiting),
    GAUGE("waits_for_rank", "Lowest rank that this rank waits for; -1: none.", .of_rank = get_waits_for),
    GAUGE("waited_for_by_ranks", "Number of ranks that wait for this rank.", .of_rank = get_waited_for),
    COUNTER("collectives", "Operations with other ranks that are complete.", .label = "axis", .n_items = JOB_TRAFFIC,
            .is_of_rank = true, .item = get_traffic_count),
    COUNTER("collective_bytes", "Bytes that these operations have brought from other ranks.", .label = "axis",
            .n_items = JOB_TRAFFIC, .is_of_rank = true, .item = get_traffic_bytes),
    COUNTER("collective_seconds", "Time from when all ranks had met until such an operation was complete.",
            .label = "axis", .n_items = JOB_TRAFFIC, .is_of_rank = true, .item = get_traffic_seconds),
    COUNTER("wait_seconds", "Time that the rank has slept in such operations.", .label = "axis", .n_items = JOB_TRAFFIC,
            .is_of_rank = true, .item = get_traffic_waits),
    GAUGE("memory_bytes", "Bytes that the rank has in use, by pool.", .label = "pool", .n_items = TESS_POOL_COUNT,
          .is_of_rank = true, .item = get_pool),
    GAUGE("disk_bytes", "Bytes of the rank's pools that are on disk.", .of_rank = get_disk),
    GAUGE("resident_memory_bytes", "Resident memory of the rank's process, with shared pages.",
          .of_rank = get_resident),
};

/* Keys of metrics.jsonl that have a family, or that another family shows. All others are samples of tessera_metric. */
static bool is_shown(const char *key)
{
    static const char *const others[] = {"step", "loss", "n_tokens", "tps", "ranks"};
    bool is = false;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        is = is || strcmp(others[i], key) == 0;
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        is = is || (families[i].key != NULL && strcmp(families[i].key, key) == 0);
    return is;
}

/* Writes the numbers that depend on the task, such as a reward or the load of experts. */
static tess_status put_rest(tess_exposition *page, const exporter_view *v)
{
    enum { MOST = 64 };
    const char *key;
    json_t *value;
    int n = 0;
    if (!has_first(v))
        return TESS_OK;
    tess_exposition_family(page, "tessera_metric", TESS_METRIC_GAUGE,
                           "Other numbers of the newest step, by their name in metrics.jsonl.");
    json_object_foreach (v->job->metrics, key, value)
        if (!is_shown(key) && n++ < MOST)
            TESS_TRY(tess_exposition_add(page, &(tess_label){"name", key}, 1, json_number_value(value)));
    return TESS_OK;
}

/* ---- Writing ---- */
static tess_status put_item(tess_exposition *page, const exporter_view *v, const family *f, int rank,
                            const char *number)
{
    for (int i = 0; i < f->n_items; i++) {
        double value;
        const char *item = f->item(v, rank, i, &value);
        const tess_label labels[] = {{f->label, item}, {"rank", number}};
        if (item != NULL)
            TESS_TRY(tess_exposition_add(page, labels, number != NULL ? 2 : 1, value));
    }
    return TESS_OK;
}

static tess_status put_rank(tess_exposition *page, const exporter_view *v, const family *f, int rank)
{
    char number[16];
    double value;
    snprintf(number, sizeof(number), "%d", rank);
    if (f->item != NULL)
        return put_item(page, v, f, rank, number);
    if (f->of_rank(v, rank, &value))
        return tess_exposition_add(page, &(tess_label){"rank", number}, 1, value);
    return TESS_OK;
}

static tess_status put_ranks(tess_exposition *page, const exporter_view *v, const family *f)
{
    for (int r = 0; v->job != NULL && r < v->job->world; r++)
        if (rank_of(v, r)->is_here)
            TESS_TRY(put_rank(page, v, f, r));
    return TESS_OK;
}

static tess_status put_family(tess_exposition *page, const exporter_view *v, const family *f)
{
    double value;
    tess_exposition_family(page, f->name, f->type, f->help);
    page->from_first = f->from_first || (f->is_of_rank && v->exporter->is_later);
    if (f->of_rank != NULL || f->is_of_rank)
        return put_ranks(page, v, f);
    if (f->item != NULL)
        return put_item(page, v, f, -1, NULL);
    const json_t *number = f->key != NULL && has_first(v) ? json_object_get(v->job->metrics, f->key) : NULL;
    if (number != NULL)
        return tess_exposition_add(page, NULL, 0, json_number_value(number) * f->scale);
    return f->of_job != NULL && f->of_job(v, &value) ? tess_exposition_add(page, NULL, 0, value) : TESS_OK;
}

tess_status exporter_put_families(tess_exposition *page, const exporter_view *v)
{
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        TESS_TRY(put_family(page, v, &families[i]));
    return put_rest(page, v);
}
