/* Resharding to groups: reshard_after_forward = n frees gathered copies after forward, but each rank keeps 1/n of
 * the bytes, its stash. Until the weights change, the copy is gathered from the stashes of n consecutive shards.
 *
 * If every group is within one host, the host's shared copy is kept instead, because the stashes of its ranks would
 * take at least as much memory. If a group spans hosts, all groups have stashes, and the ranks of a group share
 * copies on each host. On a device no ranks share copies, so each counts as a host. */
#include "comm/device_windows.h"
#include "comm/split.h"
#include "parallel/fsdp/fsdp_impl.h"
#include "base/mem/scoped.h"

enum { LINE = 64 }; /* bytes; gathered copies end with whole ones */

static size_t stash_lines(const tess_unit *unit, size_t *first)
{
    const int n = unit->fsdp->policy.reshard_after_forward;
    int64_t begin, lines;
    tess_shard_rows((int64_t)(unit->layout.full_bytes / LINE), n, unit->family->teams.shard % n, &begin, &lines);
    *first = (size_t)begin;
    return (size_t)lines;
}

size_t tess_fsdp_stash_bytes(const tess_unit *unit)
{
    size_t first;
    return stash_lines(unit, &first) * LINE;
}

static tess_status alloc_stash(tess_unit *unit)
{
    static const char what[] = "stash of gathered parameters";
    const tess_fsdp *fsdp = unit->fsdp;
    const size_t bytes = tess_fsdp_stash_bytes(unit);
    unit->stash.piece = (tess_piece){.n_rows = unit->layout.full_bytes / LINE, .row = LINE};
    return fsdp->place.device != NULL
               ? tess_device_window_alloc(unit->family->teams.group_team, TESS_POOL_COMM, bytes, what,
                                          &unit->stash.bytes)
               : tess_mem_alloc(fsdp->place.mem, TESS_POOL_COMM, bytes, what, &unit->stash.bytes);
}

static tess_split_place group_of(const void *fsdp, int shard)
{
    return (tess_split_place){.color = shard / ((const tess_fsdp *)fsdp)->policy.reshard_after_forward};
}

tess_status tess_fsdp_stashes_alloc(tess_fsdp *fsdp)
{
    tess_status status = TESS_OK;
    for (int i = 0; i < fsdp->n_families; i++)
        if (fsdp->families[i]->facts.grouped)
            TESS_TRY_CTX(tess_team_split_by(fsdp->families[i]->teams.shard_team, group_of, fsdp, "reshard",
                                            &fsdp->families[i]->teams.group_team),
                         "fsdp: team of a group of reshard_after_forward");
    for (int u = 0; u < fsdp->n_units && status == TESS_OK; u++)
        if (fsdp->units[u]->family->facts.grouped)
            status = alloc_stash(fsdp->units[u]);
    return status;
}

void tess_fsdp_stashes_free(tess_fsdp *fsdp)
{
    for (int u = 0; u < fsdp->n_units; u++) {
        tess_unit *unit = fsdp->units[u];
        if (fsdp->place.device != NULL && unit->stash.bytes != NULL)
            tess_device_window_free(unit->family->teams.group_team, unit->stash.bytes);
        else
            tess_mem_drop(&unit->stash.bytes);
        unit->stash.fresh = false;
    }
    for (int i = 0; i < fsdp->n_families; i++)
        tess_team_destroy(&fsdp->families[i]->teams.group_team);
}

tess_status tess_fsdp_stash_take(tess_unit *unit)
{
    tess_fsdp *fsdp = unit->fsdp;
    tess_stream *stream = NULL;
    size_t first, lines;
    if (!unit->family->facts.grouped || unit->stash.fresh || fsdp->state != TESS_FSDP_STEP)
        return TESS_OK;
    lines = stash_lines(unit, &first);
    tess_phase phase = tess_phase_switch(fsdp->clock, TESS_PHASE_GATHER);
    TESS_TRY(tess_fsdp_stream(&fsdp->place, &stream));
    TESS_TRY_CTX(
        tess_stream_copy(stream, unit->stash.bytes, (const char *)unit->slot->data + first * LINE, lines * LINE),
        "stash of unit '%s'", unit->name);
    fsdp->traffic.gathered_bytes += 2 * lines * LINE;
    unit->stash.fresh = true;
    tess_phase_switch(fsdp->clock, phase);
    return TESS_OK;
}

tess_status tess_fsdp_gather_stashes(tess_unit *unit, tess_fsdp_slot *slot)
{
    tess_team_label(unit->family->teams.group_team, unit->label, unit->number);
    tess_status status = tess_all_gather_pieces(unit->family->teams.group_team, unit->stash.bytes, TESS_U8, slot->data,
                                                TESS_U8, &unit->stash.piece, 1, &slot->work);
    tess_team_label(unit->family->teams.group_team, NULL, -1);
    TESS_TRY(status);
    tess_fsdp_stamp_now(unit->family, slot->number); /* the call has written this rank's part */
    return TESS_OK;
}
