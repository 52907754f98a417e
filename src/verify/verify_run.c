/* Runs a configuration for a few steps in child processes, and keeps their digests in shared memory. */
#include <string.h>

#include "base/os/os.h"
#include "control/launch/launcher.h"
#include "verify/verify_impl.h"

/* Reserves space for `count` items of `size` bytes. Returns its offset. */
static size_t place(size_t *end, size_t count, size_t size)
{
    size_t at = *end;
    *end = (at + count * size + 63) / 64 * 64;
    return at;
}

tess_status verify_run_open(verify_run *run)
{
    size_t end = 0, n = (size_t)run->n_tensors, ranks = (size_t)run->ranks;
    size_t header = place(&end, 1, sizeof(run_header) + ranks * n * 2 * sizeof(tess_verify_delta));
    size_t tensors = place(&end, n, sizeof(run_tensor));
    size_t digests = place(&end, n * (size_t)run->steps, sizeof(run_digest));
    size_t shards = place(&end, n * ranks, sizeof(run_shard));
    size_t peaks = place(&end, ranks, sizeof(run_peak));
    TESS_TRY(tess_os_share("verify", end, &run->shared));
    char *base = run->shared;
    run->shared_bytes = end;
    run->header = (run_header *)(base + header);
    run->tensors = (run_tensor *)(base + tensors);
    run->digests = (run_digest *)(base + digests);
    run->shards = (run_shard *)(base + shards);
    run->peaks = (run_peak *)(base + peaks);
    return TESS_OK;
}

void verify_run_unmap(verify_run *run)
{
    if (run->shared != NULL)
        tess_os_unmap_shared(run->shared, run->shared_bytes);
    run->shared = NULL;
}

void verify_run_close(verify_run *run)
{
    verify_run_unmap(run);
    tess_param_placements_free(&run->planned);
    tess_config_free(&run->config);
}

tess_status verify_run_steps(verify_run *run)
{
    tess_launch_result launch;
    TESS_TRY(tess_launch_function(run->ranks, verify_rank_main, run, 5, 0, &launch));
    if (launch.exit_code == 0)
        return TESS_OK;
    /* Rank 0 reports an error that all ranks have. The launcher reports why another rank ended. */
    tess_status status = (tess_status)run->header->status;
    TESS_CHECK(launch.exit_code != 128 + 2, TESS_E_INTERRUPTED, "interrupted");
    if (status != TESS_OK && status != TESS_E_PEER_LOST)
        return TESS_FAIL(status, "%s", run->header->message);
    return TESS_FAIL(TESS_E_PEER_LOST, "%s", launch.report);
}
