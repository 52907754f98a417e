#include "train/auto_batch.h"

#include <math.h>

#include "base/os/memory_group.h"
#include "base/text/text.h"
#include "comm/agree.h"
#include "engine/compute.h"
#include "engine/model/model_file.h"
#include "plan/batch_choice.h"
#include "tessera/comm.h"
#include "train/device_room.h"
#include "train/memory_report.h"
#include "train/trainer_impl.h"

/* The share of the free memory that a run may take. The rest is for texts, code, buffers of files and other programs.
 */
static const double free_share = 0.9;

/* The memory that a micro-batch is chosen for. */
typedef struct batch_memory {
    tess_mem *mem;
    const tess_model_config *model;
    const tess_memory_plan *plan; /* the plan of a run, without a size of the micro-batch */
    int n_ranks;                  /* ranks that train */
    double room;                  /* bytes; zero: not known */
    bool of_rank;                 /* `room` is that of a rank, not that of all ranks of a host */
} batch_memory;

static bool has_budget(const tess_config *config)
{
    return config->training.memory_budget > 0;
}

/* Whether the room is that of a rank: it has a budget or a GPU of its own. */
static bool is_by_rank(const tess_config *config)
{
    return has_budget(config) || tess_config_is_on_gpu(config);
}

/* Whether the room is what is free on the ranks' GPUs. */
static bool is_by_gpu(const tess_config *config)
{
    return !has_budget(config) && tess_config_is_on_gpu(config);
}

/* Returns the bytes that the ranks of this host may take, or a rank by its budget. 0: not known. */
static int64_t room_here(const tess_config *config)
{
    bool by_group;
    if (has_budget(config))
        return config->training.memory_budget;
    const uint64_t available = tess_memory_available(&by_group);
    return available != UINT64_MAX ? (int64_t)(free_share * (double)available) : 0;
}

/* Returns the bytes that a rank may take of its GPU, as the ranks see theirs. */
static int64_t room_of_gpu(const tess_device_seen *seen, int n)
{
    return (int64_t)(free_share * (double)tess_device_least_share(seen, n));
}

/* The same before any rank is started. All of them are on this host. */
static tess_status look_at_gpus(tess_mem *mem, const tess_config *config, int n_ranks, int64_t *room)
{
    TESS_AUTO(tess_mem_drop) tess_device_seen *seen = NULL;
    TESS_TRY(TESS_NEW(mem, (size_t)n_ranks, "GPUs of ranks", &seen));
    TESS_TRY_CTX(tess_device_look(config, 0, n_ranks, seen), "training.local_batch_size=auto");
    *room = room_of_gpu(seen, n_ranks);
    return TESS_OK;
}

/* Returns the bytes of the rank that needs most of its device. */
static tess_status need_of_device(const batch_memory *m, const tess_memory_plan *plan, double *bytes)
{
    TESS_AUTO(tess_memory_ranks_close) tess_memory_ranks *ranks = NULL;
    const tess_memory_of_rank *need;
    TESS_TRY(tess_memory_ranks_open(m->mem, m->model, plan, false, &ranks));
    for (int rank = 0; rank < m->n_ranks; rank++) {
        TESS_TRY(tess_memory_ranks_need(ranks, rank, &need));
        *bytes = fmax(*bytes, tess_pools_sum(need->device));
    }
    return TESS_OK;
}

static tess_status need_of(void *self, const tess_config *config, double *bytes)
{
    const batch_memory *m = self;
    tess_memory_plan plan = *m->plan;
    tess_memory_need need;
    plan.config = config;
    *bytes = 0;
    if (tess_config_is_on_gpu(config))
        return need_of_device(m, &plan, bytes);
    TESS_TRY(tess_memory_predict(m->mem, m->model, &plan, &need));
    *bytes = m->of_rank ? tess_pools_sum(need.most.pool) : need.host;
    return TESS_OK;
}

/* Says what the room is. */
static const char *owner_of_room(const batch_memory *m, const tess_config *config)
{
    return has_budget(config)              ? "training.memory_budget of each rank"
           : tess_config_is_on_gpu(config) ? "a rank's share of nine tenths of what is free on its GPU"
           : m->of_rank                    ? "a rank's share of nine tenths of what is free on its host"
                                           : "nine tenths of what is free on the host";
}

static tess_status refuse(const batch_memory *m, const tess_config *config, const tess_batch_choice *smallest)
{
    char needed[32], room[32], missing[32], offers[640] = "with activation_checkpoint.mode=full, or on more ranks";
    tess_memory_plan plan = *m->plan;
    plan.config = config;
    if (!tess_config_is_on_gpu(config))
        TESS_TRY(tess_memory_would_fit(m->mem, m->model, &plan, m->room, m->of_rank, offers, sizeof(offers)));
    return TESS_FAIL(
        TESS_E_INVALID,
        "training.local_batch_size=auto: not even a micro-batch of %lld row%s fits: %s %s, but %s is %s, %s too "
        "little. It would fit %s",
        (long long)smallest->rows, smallest->rows == 1 ? "" : "s", m->of_rank ? "a rank needs" : "the ranks need",
        tess_format_bytes(smallest->bytes, needed, sizeof(needed)), owner_of_room(m, config),
        tess_format_bytes(m->room, room, sizeof(room)),
        tess_format_bytes(smallest->bytes - m->room, missing, sizeof(missing)), offers);
}

static void report(const batch_memory *m, const tess_config *config, const tess_batch_choice *found,
                   const tess_reporter *reporter)
{
    char bytes[32], room[32], next[96] = "", more[32];
    const bool is_one = found->rows == 1;
    if (found->next_rows > 0)
        snprintf(next, sizeof(next), "; %lld rows would need %s", (long long)found->next_rows,
                 tess_format_bytes(found->next_bytes, more, sizeof(more)));
    tess_report_line(reporter, "training.local_batch_size=auto: %lld row%s, which need%s %s of %s (%s)%s",
                     (long long)found->rows, is_one ? "" : "s", is_one ? "s" : "",
                     tess_format_bytes(found->bytes, bytes, sizeof(bytes)),
                     tess_format_bytes(m->room, room, sizeof(room)), owner_of_room(m, config), next);
}

/* Chooses for a room of `room` bytes, by the plan of a run. */
static tess_status choose(const tess_task_kind *kind, const batch_memory *m, int world, const tess_reporter *reporter,
                          tess_config *config)
{
    tess_batch_choice found;
    TESS_AUTO(tess_config_free) tess_config smallest = {0};
    TESS_CHECK(m->room > 0, TESS_E_INVALID,
               "training.local_batch_size=auto: the free memory of %s is not known: set training.memory_budget, or a "
               "number of rows",
               tess_config_is_on_gpu(config) ? "a GPU" : "this host");
    const tess_batch_search search = {.config = config,
                                      .model = m->model,
                                      .n_ranks = world,
                                      .room = m->room,
                                      .sizes_step = kind->has_own_batches,
                                      .check = kind->check,
                                      .need = need_of,
                                      .self = (void *)(uintptr_t)m};
    TESS_TRY(tess_batch_choose(m->mem, &search, &found));
    if (!found.fits) {
        TESS_TRY(tess_config_copy(config, &smallest));
        smallest.training.local_batch_size = found.rows;
        TESS_TRY(tess_config_check_step(&smallest, world));
        if (kind->check != NULL)
            TESS_TRY(kind->check(&smallest));
        return refuse(m, &smallest, &found);
    }
    report(m, config, &found, reporter);
    config->training.local_batch_size = found.rows;
    return TESS_OK;
}

tess_status tess_train_choose_batch(tess_mem *mem, const tess_task_kind *kind, int n_ranks,
                                    const tess_reporter *reporter, tess_config *config)
{
    tess_model_config model;
    TESS_TRY(tess_config_check_trainers(config, n_ranks));
    TESS_TRY(tess_config_load_model(config, NULL, &model));
    const int n_trainers = tess_config_trainers(config, n_ranks);
    tess_memory_plan plan = tess_memory_plan_of(config, n_trainers);
    plan.n_drawing = n_ranks - n_trainers;
    plan.task = kind->dry;
    int64_t room = 0;
    if (is_by_gpu(config))
        TESS_TRY(look_at_gpus(mem, config, n_ranks, &room));
    else
        room = room_here(config);
    const batch_memory m = {mem, &model, &plan, n_trainers, (double)room, is_by_rank(config)};
    return choose(kind, &m, n_ranks, reporter, config);
}

/* ---- Ranks ---- */
static void report_line(void *self, const char *text)
{
    tess_trainer_note(self, "%s", text);
}

/* Returns the number of ranks of this rank's host before it, and of the host that has most. */
static int turn_of(const tess_team *all, int *n_turns)
{
    const int rank = tess_team_rank(all), size = tess_team_size(all);
    int turn = 0;
    *n_turns = 0;
    for (int i = 0; i < size; i++) {
        int before = 0;
        for (int j = 0; j < i; j++)
            before += tess_team_host(all, j) == tess_team_host(all, i);
        *n_turns = before + 1 > *n_turns ? before + 1 : *n_turns;
        turn = i == rank ? before : turn;
    }
    return turn;
}

/* Finds what a rank may take of its GPU. Each rank looks at its own, which its launcher may hide from the others. Ranks
 * of a host take turns: they may share a GPU. Collective. */
static tess_status ask_gpus(tess_trainer *t, int64_t *room)
{
    TESS_AUTO(tess_mem_drop) tess_device_seen *seen = NULL;
    tess_team *all = tess_runtime_team(t->runtime);
    tess_device_seen mine = {.left = 0};
    tess_status status = TESS_OK;
    int number, n_turns;
    const int turn = turn_of(all, &n_turns), n = tess_team_size(all);
    TESS_TRY(tess_compute_number(tess_team_rank(all), &number));
    TESS_TRY(TESS_NEW(t->mem, (size_t)n, "GPUs of ranks", &seen));
    for (int i = 0; i < n_turns; i++) {
        if (i == turn)
            status = tess_device_look(&t->config, number, 1, &mine);
        TESS_TRY(tess_barrier(all, NULL));
    }
    mine.host = tess_team_host(all, tess_team_rank(all));
    TESS_TRY_CTX(tess_team_agree(all, status), "training.local_batch_size=auto");
    TESS_TRY(tess_all_gather(all, &mine, seen, sizeof(mine), TESS_U8, NULL));
    *room = room_of_gpu(seen, n);
    return TESS_OK;
}

/* Returns the room of the host that has least. If hosts have different numbers of ranks, it is that of a rank.
 * Collective. */
static tess_status ask_hosts(tess_trainer *t, const tess_memory_plan *plan, int64_t *room, bool *of_rank)
{
    const int64_t n_here = plan->n_local + plan->n_drawing, mine = room_here(&t->config);
    int64_t least[] = {mine, mine / n_here, n_here, -n_here};
    TESS_TRY(tess_all_reduce(tess_runtime_team(t->runtime), least, least, 4, TESS_I64, TESS_MIN, NULL));
    const bool is_even = least[2] == -least[3];
    *of_rank = is_by_rank(&t->config) || !is_even;
    *room = is_by_rank(&t->config) || is_even ? least[0] : least[1];
    return TESS_OK;
}

static tess_status choose_on_first(tess_trainer *t, int64_t room, bool of_rank)
{
    tess_model_config model;
    const tess_reporter reporter = {report_line, t};
    const int world = tess_runtime_world(t->runtime);
    tess_mem *apart = NULL; /* a separate counter: the predictions must not raise the run's peaks */
    TESS_TRY(tess_config_load_model(&t->config, NULL, &model));
    TESS_TRY(tess_mem_create(&apart));
    const tess_memory_plan plan = tess_trainer_plan(t);
    const batch_memory m = {apart, &model, &plan, tess_team_size(t->team), (double)room, of_rank};
    tess_status status = choose(t->kind, &m, world, &reporter, &t->config);
    tess_mem_destroy(&apart);
    return status;
}

tess_status tess_trainer_choose_batch(tess_trainer *t)
{
    tess_team *all = tess_runtime_team(t->runtime);
    const tess_memory_plan plan = tess_trainer_plan(t);
    int64_t room = 0;
    bool of_rank = true;
    TESS_TRY(is_by_gpu(&t->config) ? ask_gpus(t, &room) : ask_hosts(t, &plan, &room, &of_rank));
    const tess_status status = tess_team_rank(all) == 0 ? choose_on_first(t, room, of_rank) : TESS_OK;
    TESS_TRY(tess_team_agree(all, status));
    return tess_broadcast(all, &t->config.training.local_batch_size, 1, TESS_I64, 0, NULL);
}
