/* A job that communicates as training does, without computing: phases, labelled gathers and sums that overlap, messages
 * around a ring, a second team, checkpoints and evaluations. A step takes two milliseconds. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/os.h"
#include "drills/drill.h"
#include "tessera/comm.h"

enum { LAYERS = 4, ELEMENTS = 256, MOST_RANKS = 16 };

typedef struct job {
    tess_runtime *runtime;
    tess_team *world, *copy;
    int rank, size;
    float x[ELEMENTS * MOST_RANKS], y[LAYERS][ELEMENTS * MOST_RANKS];
} job;

static void compute(double seconds)
{
    for (double end_s = tess_os_now_s() + seconds; tess_os_now_s() < end_s;)
        ;
}

static tess_status gather(job *j, int layer, tess_work **work)
{
    tess_team_label(j->world, "layers", layer);
    return tess_all_gather(j->world, j->x, j->y[layer], ELEMENTS, TESS_F32, work);
}

static tess_status forward(job *j, int64_t step)
{
    tess_work *work = NULL, *next = NULL;
    TESS_TRY(gather(j, 0, &work));
    for (int layer = 0; layer < LAYERS; layer++) {
        tess_runtime_phase(j->runtime, "forward", step, layer);
        if (layer + 1 < LAYERS)
            TESS_TRY(gather(j, layer + 1, &next));
        TESS_TRY(tess_work_wait(&work, 0));
        compute(1e-4);
        work = next;
        next = NULL;
    }
    return TESS_OK;
}

static tess_status backward(job *j, int64_t step)
{
    for (int layer = LAYERS - 1; layer >= 0; layer--) {
        tess_runtime_phase(j->runtime, "backward", step, layer);
        compute(1e-4);
        tess_team_label(j->world, "layers", layer);
        TESS_TRY(tess_reduce_scatter(j->world, j->y[layer], j->x, ELEMENTS, TESS_F32, TESS_SUM, NULL));
    }
    return TESS_OK;
}

static tess_status exchange(job *j, int64_t step)
{
    tess_work *work = NULL;
    tess_runtime_phase(j->runtime, "exchange", step, -1);
    int to = (j->rank + 1) % j->size, from = (j->rank + j->size - 1) % j->size;
    TESS_TRY(tess_send(j->world, j->x, ELEMENTS, TESS_F32, to, (uint32_t)step, &work));
    TESS_TRY(tess_recv(j->world, j->y[0], ELEMENTS, TESS_F32, from, (uint32_t)step, NULL));
    return tess_work_wait(&work, 0);
}

static tess_status update(job *j, int64_t step)
{
    int64_t loss = step;
    float norm = 1;
    tess_runtime_phase(j->runtime, "optimizer", step, -1);
    tess_team_label(j->world, "loss", -1);
    TESS_TRY(tess_all_reduce(j->world, &loss, &loss, 1, TESS_I64, TESS_SUM, NULL));
    tess_team_label(j->copy, "norm", -1);
    return tess_all_reduce(j->copy, &norm, &norm, 1, TESS_F32, TESS_MAX, NULL);
}

static tess_status save_and_evaluate(job *j, int64_t step)
{
    float loss = 2;
    tess_runtime_phase(j->runtime, "checkpoint", step, -1);
    tess_team_label(j->world, "save", -1);
    TESS_TRY(tess_barrier(j->world, NULL));
    tess_runtime_phase(j->runtime, "validation", step, -1);
    tess_team_label(j->world, "report", -1);
    return tess_broadcast(j->world, &loss, 1, TESS_F32, 0, NULL);
}

static tess_status run_step(job *j, int64_t step)
{
    tess_runtime_phase(j->runtime, "data", step, j->rank);
    compute(2e-4);
    TESS_TRY(forward(j, step));
    TESS_TRY(backward(j, step));
    TESS_TRY(exchange(j, step));
    TESS_TRY(update(j, step));
    return save_and_evaluate(j, step);
}

static tess_status run(job *j, int64_t n_steps)
{
    TESS_TRY(tess_team_split(j->world, 0, j->rank, "copy", &j->copy));
    tess_status status = TESS_OK;
    for (int64_t step = 1; step <= n_steps && status == TESS_OK; step++)
        status = run_step(j, step);
    tess_team_destroy(&j->copy);
    return status;
}

int drill_job(int64_t n_steps)
{
    static job j;
    if (tess_runtime_create(NULL, &j.runtime) != TESS_OK)
        return 1;
    j.world = tess_runtime_team(j.runtime);
    j.rank = tess_runtime_rank(j.runtime);
    j.size = tess_runtime_world(j.runtime);
    tess_status status = j.size <= MOST_RANKS ? run(&j, n_steps) : TESS_E_INVALID;
    tess_runtime_destroy(&j.runtime);
    return status == TESS_OK ? 0 : 1;
}
