#include "train/memory_report.h"

#include <math.h>
#include <stdio.h>

#include "comm/agree.h"
#include "tessera/comm.h"
#include "train/memory_need.h"

/* Pools that a training fills; misc has what does not grow with the model, too: texts, the tokenizer. */
enum { N_COMPARED = TESS_POOL_COMM + 1 };

static tess_status predict_mine(tess_trainer *t, tess_memory_of_rank *mine)
{
    tess_memory_of_rank *ranks;
    tess_mem *apart; /* this must not raise the peaks that it is compared with */
    tess_memory_plan plan = tess_memory_plan_of(&t->config, tess_team_size(t->hosts->mine));
    plan.n_threads = tess_threads_count(tess_stream_threads(t->engine->stream));
    TESS_TRY(tess_mem_create(&apart));
    tess_status status = tess_mem_alloc_array(apart, TESS_POOL_MISC, (size_t)t->world, sizeof(*ranks),
                                              "memory of ranks", (void **)&ranks);
    if (status == TESS_OK) {
        status = tess_memory_predict_ranks(apart, t->engine->whole, &plan, ranks);
        *mine = ranks[t->rank];
        tess_mem_free(apart, ranks);
    }
    tess_mem_destroy(&apart);
    return status;
}

typedef struct compared_pools {
    int64_t peak[N_COMPARED], predicted[N_COMPARED]; /* of all ranks */
} compared_pools;

static void add_metrics(tess_trainer *t, const compared_pools *all, double worst)
{
    static const char *const names[2][N_COMPARED] = {
        {"memory_peak/params", "memory_peak/grads", "memory_peak/optimizer", "memory_peak/activations",
         "memory_peak/comm"},
        {"memory_predicted/params", "memory_predicted/grads", "memory_predicted/optimizer",
         "memory_predicted/activations", "memory_predicted/comm"}};
    tess_metric metrics[2 * N_COMPARED + 1];
    for (int pool = 0; pool < N_COMPARED; pool++) {
        metrics[pool] = (tess_metric){names[0][pool], (double)all->peak[pool]};
        metrics[N_COMPARED + pool] = (tess_metric){names[1][pool], (double)all->predicted[pool]};
    }
    metrics[2 * N_COMPARED] = (tess_metric){"memory_predicted/worst", worst};
    tess_trainer_add_metrics(t, metrics, 2 * N_COMPARED + 1);
}

tess_status tess_trainer_compare_memory(tess_trainer *t)
{
    tess_memory_of_rank mine;
    compared_pools all = {0};
    char line[256] = "";
    size_t used = 0;
    int64_t worst = 0; /* parts of a million */
    TESS_TRY(tess_team_agree(t->team, predict_mine(t, &mine)));
    for (int pool = 0; pool < N_COMPARED; pool++) {
        all.peak[pool] = (int64_t)tess_mem_stats(t->mem, (tess_pool)pool).peak_bytes;
        all.predicted[pool] = (int64_t)mine.pool[pool];
        double most = fmax((double)all.predicted[pool], 1);
        worst = (int64_t)fmax((double)worst, 1e6 * fabs((double)all.peak[pool] - most) / most);
    }
    TESS_TRY(tess_all_reduce(t->team, &all, &all, 2 * N_COMPARED, TESS_I64, TESS_SUM, NULL));
    TESS_TRY(tess_all_reduce(t->team, &worst, &worst, 1, TESS_I64, TESS_MAX, NULL));
    for (int pool = 0; pool < N_COMPARED; pool++)
        if (all.predicted[pool] > 0)
            used = tess_text_add(line, sizeof(line), used, "%s%s %+.1f%%", used > 0 ? ", " : "",
                                 tess_pool_name((tess_pool)pool),
                                 100 * ((double)all.peak[pool] / (double)all.predicted[pool] - 1));
    tess_trainer_note(t, "memory against its prediction: %s; each pool of a rank within %.1f%%", line,
                      (double)worst * 1e-4);
    add_metrics(t, &all, (double)worst * 1e-6);
    return TESS_OK;
}
