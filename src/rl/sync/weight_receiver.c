/* The receiving side of weight transfers, on ranks that only draw: buckets are received into the copy that is not in
 * use. */
#include <inttypes.h>
#include <string.h>

#include "rl/sync/weight_sync_impl.h"
#include "tessera/comm.h"

/* Returns the copy that is not used for drawing. */
static int spare(const tess_weight_receiver *r)
{
    return r->present == 0;
}

/* ---- Receiving ---- */
static tess_status post(tess_weight_receiver *r)
{
    const weight_layout *layout = &r->layout;
    for (; r->n_posted < layout->n_buckets && r->n_posted < r->n_come + WEIGHT_SYNC_SLOTS; r->n_posted++)
        TESS_TRY(tess_recv(r->sync.all, r->copy[spare(r)] + (size_t)r->n_posted * layout->bucket_bytes,
                           weight_layout_bucket_size(layout, r->n_posted), TESS_U8, r->source, WEIGHT_SYNC_TAG,
                           &r->works[r->n_posted % WEIGHT_SYNC_SLOTS]));
    if (r->n_come < layout->n_buckets || r->digests_work != NULL)
        return TESS_OK;
    return tess_recv(r->sync.all, r->digests, (size_t)tess_model_n_units(layout->model), TESS_I64, r->source,
                     WEIGHT_SYNC_TAG, &r->digests_work);
}

tess_status tess_weights_receive(tess_weight_receiver *r)
{
    TESS_CHECK(!r->is_receiving, TESS_E_INTERNAL, "weights come before those on their way were taken");
    r->is_receiving = true;
    r->n_posted = r->n_come = weight_layout_first_bucket(&r->layout, r->n_taken);
    return post(r);
}

static tess_status take_in(tess_weight_receiver *r)
{
    TESS_TRY_CTX(tess_work_wait(&r->works[r->n_come % WEIGHT_SYNC_SLOTS], 0), "receive weights");
    r->n_come++;
    return post(r);
}

tess_status tess_weights_receive_some(tess_weight_receiver *r)
{
    while (r->is_receiving && r->n_come < r->n_posted && tess_work_done(r->works[r->n_come % WEIGHT_SYNC_SLOTS]))
        TESS_TRY(take_in(r));
    return TESS_OK;
}

tess_status tess_weights_receive_rest(tess_weight_receiver *r)
{
    while (r->is_receiving && r->n_come < r->layout.n_buckets)
        TESS_TRY(take_in(r));
    return r->digests_work == NULL ? TESS_OK : tess_work_wait(&r->digests_work, 0);
}

/* ---- Taking ---- */
static tess_status compare(const tess_weight_receiver *r, int64_t step)
{
    for (int unit = 0; unit < tess_model_n_units(r->layout.model); unit++) {
        int first, n;
        tess_model_unit_params(r->layout.model, unit, &first, &n);
        const uint64_t digest = weight_layout_digest(&r->layout, unit, r->w[spare(r)] + first);
        TESS_CHECK(digest == r->digests[unit], TESS_E_MISMATCH,
                   "weights after step %" PRId64 ": unit '%s' of rank %d is not that of rank %d, which sent it: digest "
                   "%016" PRIx64 ", sent %016" PRIx64 "; bytes were changed on the way or in memory",
                   step, tess_model_unit_name(r->layout.model, unit), tess_team_rank(r->sync.all), r->source, digest,
                   r->digests[unit]);
    }
    return TESS_OK;
}

tess_status tess_weights_take(tess_weight_receiver *r, int64_t step)
{
    TESS_CHECK(r->is_receiving, TESS_E_INTERNAL, "no weights are on their way");
    TESS_TRY(tess_weights_receive_rest(r));
    r->is_receiving = false;
    TESS_TRY(compare(r, step));
    r->present = spare(r);
    r->n_taken++;
    return TESS_OK;
}

const void *const *tess_weights_present(const tess_weight_receiver *r)
{
    return r->present >= 0 ? r->w[r->present] : NULL;
}

const void *const *tess_weights_next(const tess_weight_receiver *r)
{
    return r->w[spare(r)];
}

/* ---- Making ---- */
static tess_status make(tess_weight_receiver *r, const tess_model *model, tess_dtype dtype)
{
    const size_t n_params = (size_t)tess_model_n_params(model);
    TESS_TRY(weight_layout_create(tess_scope_of(r), model, dtype, r->sync.bucket_bytes, &r->layout));
    TESS_TRY(TESS_PART(r, tess_model_n_units(model), "digests of weights", &r->digests));
    for (int c = 0; c < WEIGHT_SYNC_COPIES; c++) {
        TESS_TRY(tess_scope_alloc(tess_scope_of(r), TESS_POOL_PARAMS, r->layout.bytes, 1, "copy of weights",
                                  (void **)&r->copy[c]));
        TESS_TRY(TESS_PART(r, n_params, "copy of weights", &r->w[c]));
        for (size_t i = 0; i < n_params; i++)
            r->w[c][i] = r->copy[c] + r->layout.at[i];
    }
    return TESS_OK;
}

tess_status tess_weight_receiver_create(tess_mem *mem, const tess_model *model, tess_dtype dtype,
                                        const tess_weight_sync *sync, tess_weight_receiver **out)
{
    TESS_AUTO(tess_weight_receiver_destroy) tess_weight_receiver *r = NULL;
    *out = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "receiver of weights", &r));
    *r = (tess_weight_receiver){.sync = *sync, .present = -1};
    r->source = tess_weight_sync_source(sync, tess_team_rank(sync->all) - sync->n_trainers);
    TESS_TRY(make(r, model, dtype));
    *out = TESS_GIVE(r);
    return TESS_OK;
}

void tess_weight_receiver_destroy(tess_weight_receiver **handle)
{
    tess_weight_receiver *r = *handle;
    if (r == NULL)
        return;
    for (int slot = 0; slot < WEIGHT_SYNC_SLOTS; slot++)
        tess_work_cancel(&r->works[slot]);
    tess_work_cancel(&r->digests_work);
    tess_mem_drop(handle);
}
