#include "train/memory_report.h"

#include <math.h>
#include <stdio.h>

#include "comm/agree.h"
#include "tessera/comm.h"
#include "train/memory_need.h"

/* Pools that a training fills; misc has what does not grow with the model, too: texts, the tokenizer. */
enum { N_COMPARED = TESS_POOL_COMM + 1 };

static tess_status predict_mine(const tess_trainer *t, tess_memory_of_rank *mine)
{
    tess_mem *apart; /* this must not raise the peaks that it is compared with */
    tess_memory_plan plan = tess_memory_plan_of(&t->config, tess_team_size(t->hosts->mine));
    plan.kernels = tess_runtime_kernels(t->runtime);
    plan.n_threads = tess_threads_count(tess_stream_threads(t->engine->stream));
    TESS_TRY(tess_mem_create(&apart));
    tess_status status = t->kind->predict_memory(apart, t->engine->whole, &plan, t->rank, mine);
    tess_mem_destroy(&apart);
    return status;
}

/* The pool of a rank that is farthest from its prediction, in parts of a million of that. */
static int64_t farthest(const tess_pool_numbers *peak, const tess_pool_numbers *predicted)
{
    double most = 0;
    for (int pool = 0; pool < N_COMPARED; pool++)
        most = fmax(most, 1e6 * fabs((double)(peak->bytes[pool] - predicted->bytes[pool])) /
                              fmax((double)predicted->bytes[pool], 1));
    return (int64_t)fmin(most, 1e15);
}

static void describe(const tess_trainer *t, const tess_pool_numbers all[2], int64_t worst)
{
    char line[256] = "";
    size_t used = 0;
    for (int pool = 0; pool < N_COMPARED; pool++)
        if (all[1].bytes[pool] > 0)
            used = tess_text_add(line, sizeof(line), used, "%s%s %+.1f%%", used > 0 ? ", " : "",
                                 tess_pool_name((tess_pool)pool),
                                 100 * ((double)all[0].bytes[pool] / (double)all[1].bytes[pool] - 1));
    tess_trainer_note(t, "memory against its prediction: %s; each pool of a rank within %.1f%%", line,
                      (double)worst * 1e-4);
}

tess_status tess_trainer_compare_memory(tess_trainer *t)
{
    tess_memory_of_rank mine;
    tess_pool_numbers all[2] = {{.name = "peak"}, {.name = "predicted"}};
    TESS_TRY(tess_team_agree(t->team, predict_mine(t, &mine)));
    for (int pool = 0; pool < N_COMPARED; pool++) {
        all[0].bytes[pool] = (int64_t)tess_mem_stats(t->mem, (tess_pool)pool).peak_bytes;
        all[1].bytes[pool] = (int64_t)mine.pool[pool];
    }
    int64_t worst = farthest(&all[0], &all[1]);
    for (int i = 0; i < 2; i++)
        TESS_TRY(tess_all_reduce(t->team, all[i].bytes, all[i].bytes, TESS_POOL_COUNT, TESS_I64, TESS_SUM, NULL));
    TESS_TRY(tess_all_reduce(t->team, &worst, &worst, 1, TESS_I64, TESS_MAX, NULL));
    describe(t, all, worst);
    if (t->rank == 0 && tess_metrics_pools(t->memory, t->engine->step, all, 2) != TESS_OK)
        tess_error_clear(); /* the note has said it */
    return TESS_OK;
}
