#include "bench/measuring_ranks.h"

#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "control/launch/launcher.h"

/* Memory shared with the ranks: status and message of rank 0, then every rank's result. */
typedef struct ranks_outcome {
    int32_t status;
    char message[1024];
    _Alignas(64) char results[];
} ranks_outcome;

typedef struct ranks_job {
    const tess_bench_ranks *ranks;
    ranks_outcome *outcome;
    size_t size; /* size of one rank's result */
} ranks_job;

static int rank_main(void *context)
{
    const ranks_job *j = context;
    const tess_bench_ranks *ranks = j->ranks;
    tess_runtime *runtime;
    if (tess_runtime_create(&ranks->options, &runtime) != TESS_OK)
        return 1;
    int rank = tess_runtime_rank(runtime);
    if (ranks->bind && ranks->n <= tess_os_cores()) /* otherwise, a scheduler may keep two ranks on one core */
        tess_os_bind(rank);
    tess_status status = ranks->run(runtime, ranks->plan, j->outcome->results + (size_t)rank * j->size);
    if (rank == 0) {
        j->outcome->status = status;
        snprintf(j->outcome->message, sizeof(j->outcome->message), "%s", tess_error_message());
    }
    if (status != TESS_OK)
        tess_runtime_report(runtime, tess_error_message());
    tess_runtime_destroy(&runtime);
    return status == TESS_OK ? 0 : 1;
}

tess_status tess_bench_ranks_run(const tess_bench_ranks *ranks, void *result, size_t size)
{
    void *shared;
    tess_launch_result launch;
    size_t place = (size + 63) / 64 * 64, bytes = sizeof(ranks_outcome) + (size_t)ranks->n * place;
    TESS_TRY(tess_os_share("bench", bytes, &shared));
    ranks_job j = {ranks, shared, place};
    tess_status status = tess_launch_function(ranks->n, rank_main, &j, 5, 0, &launch);
    if (status == TESS_OK && launch.exit_code != 0) {
        /* All ranks refuse in the same way. The launcher reports a rank that ended in another way. */
        const ranks_outcome *rank0 = j.outcome;
        bool refused = rank0->status != TESS_OK && rank0->status != TESS_E_PEER_LOST;
        status = TESS_FAIL(refused ? (tess_status)rank0->status : TESS_E_PEER_LOST, "%s",
                           refused ? rank0->message : launch.report);
    }
    memcpy(result, j.outcome->results, size);
    tess_os_unmap_shared(shared, bytes);
    return status;
}

tess_status tess_bench_reduce_s(tess_team *team, tess_op op, double *seconds)
{
    int64_t ns = (int64_t)(*seconds * 1e9);
    TESS_TRY(tess_all_reduce(team, &ns, &ns, 1, TESS_I64, op, NULL));
    *seconds = (double)ns * 1e-9;
    return TESS_OK;
}
