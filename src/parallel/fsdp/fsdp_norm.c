/* The gradient norm: sums of squares per row in a fixed order, added exactly over rows and ranks, rounded once. */
#include "parallel/fsdp/fsdp_impl.h"

#include <math.h>

#include "base/core/exact_sum.h"

enum { ROWS_AT_ONCE = 1024 };

static tess_status add_shard(tess_stream *stream, const tess_shard *shard, tess_exact_sum *sum)
{
    double sums[ROWS_AT_ONCE];
    int64_t row = tess_shape_row_count(&shard->shape);
    const float *rows = shard->grad + (shard->primary.begin[0] - shard->box.begin[0]) * row;
    for (int64_t begin = 0; begin < shard->primary.size[0]; begin += ROWS_AT_ONCE) {
        int64_t n = shard->primary.size[0] - begin < ROWS_AT_ONCE ? shard->primary.size[0] - begin : ROWS_AT_ONCE;
        TESS_TRY(tess_stream_kernels(stream)->row_sumsq(stream, rows + begin * row, sums, n, row));
        for (int64_t i = 0; i < n; i++)
            tess_exact_add(sum, sums[i]);
    }
    return TESS_OK;
}

tess_status tess_fsdp_grad_norm(tess_fsdp *fsdp, double *norm)
{
    TESS_CHECK(fsdp->gradients_ready, TESS_E_INVALID, "fsdp: grad_norm without gradients; call step_end first");
    tess_stream *stream = NULL;
    TESS_TRY(tess_fsdp_stream(fsdp, &stream));
    tess_exact_sum sum;
    tess_exact_clear(&sum);
    for (int i = 0; i < fsdp->n_params; i++) {
        tess_shard shard;
        TESS_TRY(tess_fsdp_shard(fsdp, i, &shard));
        if (shard.grad != NULL)
            TESS_TRY_CTX(add_shard(stream, &shard, &sum), "grad_norm: '%s'", shard.name);
    }
    tess_exact_normalize(&sum);
    tess_phase phase = tess_phase_switch(fsdp->clock, TESS_PHASE_WAIT);
    tess_team_label(fsdp->data_team, "norm", -1);
    tess_status status =
        tess_all_reduce(fsdp->data_team, sum.limb, sum.limb, TESS_EXACT_LIMBS, TESS_I64, TESS_SUM, NULL);
    tess_team_label(fsdp->data_team, NULL, -1);
    TESS_TRY_CTX(status, "grad_norm");
    tess_phase_switch(fsdp->clock, phase);
    tess_exact_normalize(&sum);
    *norm = sqrt(tess_exact_value(&sum));
    return TESS_OK;
}
