#include "plan/memory_need.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/os/memory_group.h"
#include "base/text/text.h"
#include "job/job_memory.h"
#include "parallel/pipeline/pipeline.h"
#include "engine/offload.h"

/* ---- Settings that would fit ---- */
typedef struct memory_search {
    tess_mem *mem;
    const tess_model_config *model;
    double room;
    bool of_rank;       /* `room` is that of a rank, not of a host */
    tess_status status; /* status of the predictions */
    char *text;
    size_t size, at;
} memory_search;

/* Returns the bytes that a host or a rank needs; INFINITY: the settings exclude each other. */
static double need_of(memory_search *s, const tess_memory_plan *plan)
{
    tess_memory_need need = {0};
    s->status = tess_memory_predict(s->mem, s->model, plan, &need);
    if (s->status != TESS_E_INVALID && s->status != TESS_E_UNSUPPORTED)
        return s->status != TESS_OK ? INFINITY : s->of_rank ? tess_pools_sum(need.most.pool) : need.host;
    s->status = TESS_OK;
    tess_error_clear();
    return INFINITY;
}

static tess_status assign_all(tess_config *config, char *assignments)
{
    char *save = NULL;
    for (char *word = strtok_r(assignments, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save))
        TESS_TRY(tess_config_override(config, word));
    return TESS_OK;
}

/* Returns the need with other settings: assignments, separated by spaces. */
static __attribute__((format(printf, 3, 4))) double need_with(memory_search *s, const tess_memory_plan *plan,
                                                              const char *format, ...)
{
    char words[512];
    tess_config config;
    tess_memory_plan p = *plan;
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof(words), format, args);
    va_end(args);
    if (s->status != TESS_OK || (s->status = tess_config_copy(plan->config, &config)) != TESS_OK)
        return INFINITY;
    s->status = assign_all(&config, words);
    p.config = &config;
    const double need = s->status == TESS_OK ? need_of(s, &p) : INFINITY;
    tess_config_free(&config);
    return need;
}

/* The number of ranks along axes of a kind. */
static int ranks_of(const tess_memory_plan *plan, tess_axis_kind kind)
{
    int degree[TESS_AXES];
    tess_axes_degrees(&plan->config->parallelism, degree);
    return tess_axes_ranks(degree, kind);
}

/* Returns the need on this many hosts with n_local ranks each, and with other settings. INFINITY: a copy of the model
 * does not divide the ranks evenly. */
static double need_over(memory_search *s, const tess_memory_plan *plan, int n_hosts, int n_local, const char *settings)
{
    tess_memory_plan p = *plan;
    const int n = n_hosts * n_local, n_model = ranks_of(plan, TESS_AXIS_OF_MODEL), n_data = n / n_model;
    const int given = (int)plan->config->parallelism.data_parallel_replicate_degree;
    const int replicas = settings[0] == '\0' && n_data % given == 0 ? given : 1;
    p.n_local = n_local;
    return n % n_model != 0 ? INFINITY
                            : need_with(s, &p,
                                        "parallelism.data_parallel_shard_degree=%d "
                                        "parallelism.data_parallel_replicate_degree=%d %s",
                                        n_data / replicas, replicas, settings);
}

/* Whether the plan fits on its own ranks with settings that leave one copy of the model. */
static bool fits_same(memory_search *s, const tess_memory_plan *plan, const char *settings)
{
    return need_with(s, plan,
                     "parallelism.data_parallel_shard_degree=%d parallelism.data_parallel_replicate_degree=1 %s",
                     ranks_of(plan, TESS_AXIS_OF_BATCH), settings) <= s->room;
}

#define OFFER(s, ...)                                                                                       \
    do {                                                                                                    \
        (s)->at = tess_text_add((s)->text, (s)->size, (s)->at, "%s", (s)->at > 0 ? ", or with " : "with "); \
        (s)->at = tess_text_add((s)->text, (s)->size, (s)->at, __VA_ARGS__);                                \
    } while (0)

/* Offers a setting if the plan fits with it. */
static bool offer(memory_search *s, const tess_memory_plan *plan, const char *setting)
{
    const bool fit = need_with(s, plan, "%s", setting) <= s->room;
    if (fit)
        OFFER(s, "%s", setting);
    return fit;
}

/* Offers the first value of an option, from `first` on, with which the plan fits. */
static void offer_value(memory_search *s, const tess_memory_plan *plan, const char *key, int64_t first, int64_t last)
{
    char setting[64];
    const int64_t step = first > last ? -1 : 1, batch = plan->config->training.local_batch_size;
    for (int64_t n = first; n != last + step; n += step) {
        snprintf(setting, sizeof(setting), "%s=%lld", key, (long long)n);
        if ((step > 0 || batch % n == 0) && offer(s, plan, setting))
            return;
    }
}

/* Offers each setting that makes the plan fit by itself. */
static void offer_settings(memory_search *s, const tess_memory_plan *plan)
{
    static const char full[] = "parallelism.shard_strategy=full",
                      schedule[] = "parallelism.pipeline_parallel_schedule=1f1b";
    const tess_config *c = plan->config;
    const int world = ranks_of(plan, TESS_AXIS_OF_BATCH) * ranks_of(plan, TESS_AXIS_OF_MODEL);
    const int64_t batch = c->training.local_batch_size, passes = c->training.passes;
    for (int n = plan->n_local - 1; world == plan->n_local && n > 0; n--)
        if (need_over(s, plan, 1, n, "") <= s->room) {
            OFFER(s, "-n %d", n);
            break;
        }
    if (fits_same(s, plan, full))
        OFFER(s, "%s", full);
    if (c->parallelism.pipeline_parallel_degree > 1)
        offer(s, plan, schedule);
    offer(s, plan, "activation_checkpoint.mode=full");
    if (!tess_config_offloads_state(c))
        offer(s, plan, "offload.params=true offload.grads=true offload.optimizer=true offload.folder=A_DISK");
    if (batch > passes) {
        offer_value(s, plan, "training.local_batch_size", batch - 1, passes);
        offer_value(s, plan, "training.passes", passes + 1, batch);
    }
}

/* A number of hosts, in units of whole copies of the model, and what each of them needs. */
typedef struct host_point {
    int n;
    double need;
} host_point;

/* Guesses the smallest number that is enough, between one that is not and one that is. The state is divided by the
 * hosts, and everything else is not, so the need is a + b / n. Each third guess is the middle. */
static int guess_hosts(const host_point *below, const host_point *enough, double room, int n_guesses)
{
    const double b = (below->need - enough->need) / (1.0 / below->n - 1.0 / enough->n);
    const double guess = ceil(b / (room - enough->need + b / enough->n));
    if (n_guesses % 3 == 2 || !isfinite(guess))
        return (below->n + enough->n) / 2;
    return (int)fmin(fmax(guess, below->n + 1), enough->n - 1);
}

/* The smallest number of hosts like this one, with n_local ranks each, that is enough. Only numbers whose ranks
 * divide evenly into copies of the model are tried. 0: no number is enough. */
static int hosts_for(memory_search *s, const tess_memory_plan *plan, int n_local, const char *settings)
{
    int each = 1;
    while (each * n_local % ranks_of(plan, TESS_AXIS_OF_MODEL) != 0)
        each++;
    host_point enough = {.n = JOB_MAX_HOSTS / each}, below = {.n = 1};
    if (enough.n == 0 || (enough.need = need_over(s, plan, enough.n * each, n_local, settings)) > s->room)
        return 0;
    if (enough.n == 1 || (below.need = need_over(s, plan, each, n_local, settings)) <= s->room)
        return each;
    for (int i = 0; enough.n - below.n > 1; i++) {
        host_point p = {.n = guess_hosts(&below, &enough, s->room, i)};
        p.need = need_over(s, plan, p.n * each, n_local, settings);
        *(p.need <= s->room ? &enough : &below) = p;
    }
    return enough.n * each;
}

static void offer_hosts(memory_search *s, const tess_memory_plan *plan, const char *settings, const char *with)
{
    int n_local = plan->n_local, n = hosts_for(s, plan, n_local, settings);
    if (n == 0 && n_local > 1)
        n = hosts_for(s, plan, n_local = 1, settings);
    if (n > 1)
        OFFER(s, "%d hosts like this one, %d rank%s each%s", n, n_local, n_local > 1 ? "s" : "", with);
}

/* Lists the settings of the leanest plan that the configuration does not have, each after `between`. */
static void list_lean(const tess_config *c, const char *between, char *text, size_t size)
{
    static const char *const lean[][2] = {{"parallelism.shard_strategy", "full"},
                                          {"parallelism.fsdp_reshard_after_forward", "1"},
                                          {"activation_checkpoint.mode", "full"},
                                          {"training.local_batch_size", "1"},
                                          {"training.passes", "1"}};
    int n;
    size_t at = 0;
    const tess_option_table *tables = tess_config_tables(&n);
    text[0] = '\0';
    for (size_t i = 0; i < sizeof(lean) / sizeof(lean[0]); i++) {
        char value[64] = "";
        if (tess_options_format_key(tables, n, c, lean[i][0], value, sizeof(value)) == TESS_OK &&
            strcmp(value, lean[i][1]) != 0)
            at = tess_text_add(text, size, at, "%s%s=%s", between, lean[i][0], lean[i][1]);
    }
}

tess_status tess_memory_would_fit(tess_mem *mem, const tess_model_config *model, const tess_memory_plan *plan,
                                  double room, bool of_rank, char *text, size_t size)
{
    memory_search s = {.mem = mem, .model = model, .room = room, .of_rank = of_rank, .text = text, .size = size};
    char settings[192], with[200];
    list_lean(plan->config, " ", settings, sizeof(settings));
    list_lean(plan->config, ", ", with, sizeof(with));
    text[0] = '\0';
    offer_settings(&s, plan);
    if (s.at == 0 && settings[0] != '\0' && fits_same(&s, plan, settings))
        OFFER(&s, "%s", with + 2);
    if (plan->config->parallelism.shard_strategy == TESS_STRATEGY_FULL)
        offer_hosts(&s, plan, "", "");
    if (s.at == 0)
        offer_hosts(&s, plan, settings, with);
    if (s.at == 0)
        snprintf(text, size, "on no number of hosts like this one");
    if (s.status != TESS_E_NOMEM) /* a limit on this process's addresses; the plan does not fit anyway */
        return s.status;
    tess_error_clear();
    snprintf(text, size, "with settings that could not be tried here");
    return TESS_OK;
}

/* ---- The check ---- */
static void describe(const tess_memory_plan *plan, const tess_memory_need *need, char *text, size_t size)
{
    char bytes[32];
    const tess_memory_of_rank *r = &need->most;
    size_t at = tess_text_add(text, size, 0, "a rank%s%s: ", r->stages[0] != '\0' ? " with " : "", r->stages);
    at = tess_pools_format(r->pool, text, size, at);
    if (r->resident > 0)
        at = tess_text_add(text, size, at, "; comm has %s of what is on disk at a time (offload.resident)",
                           tess_format_bytes(r->resident, bytes, sizeof(bytes)));
    if (plan->n_drawing > 0)
        tess_text_add(text, size, at, "; %d of the ranks only draw (rollout.ranks)", plan->n_drawing);
}

tess_status tess_memory_check(tess_mem *mem, const tess_model_config *model, const tess_memory_plan *plan, double room,
                              const char *room_of)
{
    tess_memory_need need;
    char needed[32], free_bytes[32], pools[512], offers[640];
    TESS_TRY(tess_memory_predict(mem, model, plan, &need));
    TESS_TRY(tess_offload_check_space(plan->config, need.host_disk));
    if (need.host <= room)
        return TESS_OK;
    describe(plan, &need, pools, sizeof(pools));
    TESS_TRY(tess_memory_would_fit(mem, model, plan, room, false, offers, sizeof(offers)));
    return TESS_FAIL(TESS_E_INVALID,
                     "%d rank%s of this host would need %s of memory, but %s has %s left (%s). It would "
                     "fit %s. job.ignore_memory=true starts it as it is",
                     plan->n_local + plan->n_drawing, plan->n_local + plan->n_drawing > 1 ? "s" : "",
                     tess_format_bytes(need.host, needed, sizeof(needed)), room_of,
                     tess_format_bytes(room, free_bytes, sizeof(free_bytes)), pools, offers);
}

tess_status tess_memory_check_here(tess_mem *mem, const tess_model_config *model, const tess_memory_plan *plan,
                                   const tess_reporter *reporter)
{
    bool by_group;
    const tess_config *config = plan->config;
    uint64_t available = tess_memory_available(&by_group);
    if (config->job.ignore_memory)
        available = UINT64_MAX;
    if (available == UINT64_MAX && !tess_config_offloads(config) && config->activation_checkpoint.budget == 0)
        return TESS_OK;
    tess_status status = tess_memory_check(mem, model, plan, (double)available, by_group ? "its control group" : "it");
    if (status != TESS_E_NOMEM)
        return status;
    /* a limit on this process's addresses hides the need */
    tess_report_line(reporter, "warning: whether memory suffices was not checked: %s", tess_error_message());
    tess_error_clear();
    return TESS_OK;
}
