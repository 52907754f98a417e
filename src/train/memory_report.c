#include "train/memory_report.h"

#include <stdlib.h>

#include "base/mem/scoped.h"
#include "comm/agree.h"
#include "comm/rehearsal/rehearsal.h"
#include "inject/inject.h"
#include "mesh/axes.h"
#include "tessera/comm.h"

/* Number of pools to compare: those that training fills. The pool "misc" also holds texts and the tokenizer, whose
 * size does not depend on the model. */
enum { N_COMPARED = TESS_POOL_MISC };

/* ---- The plan ---- */
/* Counts the ranks on this host that only generate samples. They are the job's last ranks. */
static int count_drawing(const tess_trainer *t)
{
    const tess_team *all = tess_runtime_team(t->runtime);
    int n = 0;
    for (int rank = t->kind->serve != NULL ? tess_team_size(t->team) : tess_team_size(all); rank < tess_team_size(all);
         rank++)
        n += tess_team_host(all, rank) == tess_runtime_host(t->runtime);
    return n;
}

tess_memory_plan tess_trainer_plan(const tess_trainer *t)
{
    tess_memory_plan plan = tess_memory_plan_of(&t->config, tess_team_size(t->hosts->mine));
    plan.kernels = tess_runtime_kernels(t->runtime);
    plan.n_drawing = count_drawing(t);
    plan.task = t->kind->dry;
    if (t->engine != NULL)
        plan.n_threads = tess_threads_count(tess_stream_threads(t->engine->stream));
    return plan;
}

/* Predicts this rank's memory, dry on the hosts of this job. The order of dry ranks is that of the engine's team, and
 * ranks that only draw follow. */
static tess_status predict(const tess_trainer *t, tess_rehearsal *rehearsal, tess_memory_of_rank *need)
{
    TESS_AUTO(tess_mem_drop) int *hosts = NULL;
    tess_memory_plan plan = tess_trainer_plan(t);
    const tess_team *all = tess_runtime_team(t->runtime), *trainers = t->engine->team;
    const int n_trainers = tess_team_size(trainers), n = n_trainers + (int)t->config.rollout.ranks;
    TESS_TRY(TESS_NEW(t->mem, n, "hosts of ranks", &hosts));
    for (int rank = 0; rank < n; rank++)
        hosts[rank] = tess_team_host(rank < n_trainers ? trainers : all, rank);
    plan.hosts = hosts;
    plan.rehearsal = rehearsal;
    return tess_memory_predict_rank(&t->model_config, &plan, t->engine->at.rank, need);
}

/* ---- Before ---- */
static tess_status rehearse(const tess_trainer *t, tess_rehearsal *mine)
{
    tess_memory_of_rank need;
    tess_team *team = t->engine->team;
    tess_status status = tess_team_agree(team, predict(t, mine, &need));
    if (status == TESS_OK)
        return tess_rehearsal_compare(team, mine);
    if (status != TESS_E_NOMEM)
        return status;
    tess_error_clear();
    return TESS_OK;
}

tess_status tess_trainer_rehearse(tess_trainer *t)
{
    const tess_engine *e = t->engine;
    if (tess_team_size(t->team) == 1 || t->kind->program != NULL)
        return TESS_OK;
    const int64_t n_micro = tess_inject_micro_batches(t->runtime, e->step + 1, tess_config_micro_batches(&t->config));
    tess_rehearsal mine = {.mem = t->mem,
                           .group = e->at.part,
                           .batch_team = tess_axis_name(TESS_AXIS_CP),
                           .what = "a step's micro-batches",
                           .number = tess_coordinates_rounds(&e->at, n_micro)};
    tess_status status = rehearse(t, &mine);
    tess_rehearsal_free(&mine);
    return status;
}

/* ---- Afterwards ---- */

/* Whether a note is due: the difference exceeds a tenth of the prediction. The prediction may be 0. */
static bool is_off(int64_t difference, int64_t predicted)
{
    return 10 * (double)difference > (double)predicted;
}

/* Values over all ranks: sums, and the largest difference of any rank. */
enum { PEAK, PREDICTED, FARTHEST, N_NUMBERS };

static void describe(const tess_trainer *t, const tess_pool_numbers all[N_NUMBERS])
{
    char line[320] = "", bytes[32];
    size_t used = 0;
    for (int pool = 0; pool < N_COMPARED; pool++) {
        const double predicted = (double)all[PREDICTED].bytes[pool], more = (double)all[PEAK].bytes[pool] - predicted;
        if (predicted > 0)
            used = tess_text_add(line, sizeof(line), used, "%s%s %+.1f%%", used > 0 ? ", " : "",
                                 tess_pool_name((tess_pool)pool), 100 * more / predicted);
        else if (more > 0)
            used = tess_text_add(line, sizeof(line), used, "%s%s +%s", used > 0 ? ", " : "",
                                 tess_pool_name((tess_pool)pool), tess_format_bytes(more, bytes, sizeof(bytes)));
    }
    int64_t most = 0;
    for (int pool = 0; pool < N_COMPARED; pool++)
        most = all[FARTHEST].bytes[pool] > most ? all[FARTHEST].bytes[pool] : most;
    tess_trainer_note(t, "memory against its prediction: %s; each pool of a rank within %s", line,
                      tess_format_bytes((double)most, bytes, sizeof(bytes)));
}

tess_status tess_trainer_compare_memory(tess_trainer *t)
{
    tess_memory_of_rank mine;
    tess_pool_numbers all[N_NUMBERS] = {{.name = "peak"}, {.name = "predicted"}, {.name = "farthest"}};
    int64_t off = 0;
    if (tess_team_agree(t->team, predict(t, NULL, &mine)) != TESS_OK) {
        tess_trainer_note(t, "memory was not compared with its prediction: %s", tess_error_message());
        tess_error_clear(); /* a failed report does not fail the run */
        return TESS_OK;
    }
    for (int pool = 0; pool < N_COMPARED; pool++) {
        const int64_t peak = (int64_t)tess_mem_stats(t->mem, (tess_pool)pool).peak_bytes;
        const int64_t predicted = (int64_t)mine.pool[pool], difference = llabs(peak - predicted);
        all[PEAK].bytes[pool] = peak;
        all[PREDICTED].bytes[pool] = predicted;
        all[FARTHEST].bytes[pool] = difference;
        off |= is_off(difference, predicted);
    }
    for (int i = 0; i < N_NUMBERS; i++)
        TESS_TRY(tess_all_reduce(t->team, all[i].bytes, all[i].bytes, TESS_POOL_COUNT, TESS_I64,
                                 i == FARTHEST ? TESS_MAX : TESS_SUM, NULL));
    TESS_TRY(tess_all_reduce(t->team, &off, &off, 1, TESS_I64, TESS_MAX, NULL));
    if (off)
        describe(t, all);
    if (t->rank == 0 && tess_metrics_pools(t->watch.lines, t->engine->step, all, N_NUMBERS) != TESS_OK)
        tess_error_clear(); /* a failed report does not fail the run */
    return TESS_OK;
}
