/* Copies of parameters that ranks with another tess_fsdp own (tess_param_desc.elsewhere): their weights travel in
 * pieces, so that memory for messages stays small. */
#include "device/device.h"
#include "parallel/fsdp/fsdp_impl.h"

enum { PIECE = 1 << 20 }; /* elements of a message */

static tess_status transfer(tess_fsdp *fsdp, int index, tess_team *team, int peer, uint32_t tag, bool sends,
                            tess_shard *shard)
{
    tess_stream *stream;
    const tess_page_use use = sends ? TESS_PAGE_READ : TESS_PAGE_UPDATE;
    tess_fsdp_master_fetch(fsdp->params[index].unit, use);
    TESS_TRY(tess_fsdp_master_wait(fsdp->params[index].unit, use));
    TESS_TRY(tess_fsdp_shard_in_place(fsdp, index, shard));
    const size_t all = (size_t)tess_shard_count(shard);
    TESS_TRY(tess_fsdp_stream(&fsdp->place, &stream));
    TESS_TRY(tess_stream_synchronize(stream));
    for (size_t at = 0; at < all; at += PIECE) {
        const size_t n = all - at < PIECE ? all - at : PIECE;
        float *piece = shard->master + at;
        TESS_TRY(sends ? tess_send(team, piece, n, TESS_F32, peer, tag, NULL)
                       : tess_recv(team, piece, n, TESS_F32, peer, tag, NULL));
    }
    return TESS_OK;
}

static tess_status check_movable(const tess_fsdp *fsdp, int index)
{
    tess_shard shard;
    TESS_TRY(tess_fsdp_shard_in_place(fsdp, index, &shard));
    TESS_CHECK(shard.master != NULL, TESS_E_INVALID, "fsdp: '%s' is narrow: it has no master weights to move",
               shard.name);
    return TESS_OK;
}

tess_status tess_fsdp_send_weights(tess_fsdp *fsdp, int index, tess_team *team, int to, uint32_t tag)
{
    tess_shard shard;
    TESS_TRY(check_movable(fsdp, index));
    TESS_TRY(transfer(fsdp, index, team, to, tag, true, &shard));
    tess_fsdp_master_release(fsdp->params[index].unit);
    return TESS_OK;
}

/* Writes the rounded rows into a gathered copy that persists, as an update does. */
static tess_status round_into_copy(tess_fsdp *fsdp, int index, const tess_shard *shard)
{
    const int64_t before = shard->copy_box.begin[0] - shard->box.begin[0];
    if (shard->copy == NULL)
        return TESS_OK;
    return tess_fsdp_convert_rows(&fsdp->place, tess_fsdp_param_at(fsdp, index),
                                  shard->master + before * tess_shard_row(shard), shard->copy_box.size[0], shard->copy);
}

tess_status tess_fsdp_receive_weights(tess_fsdp *fsdp, int index, tess_team *team, int from, uint32_t tag)
{
    tess_shard shard;
    TESS_TRY(check_movable(fsdp, index));
    TESS_TRY(tess_fsdp_update_begin(fsdp));
    TESS_TRY(transfer(fsdp, index, team, from, tag, false, &shard));
    TESS_TRY(round_into_copy(fsdp, index, &shard));
    tess_fsdp_master_release(fsdp->params[index].unit);
    return tess_fsdp_update_end(fsdp);
}
