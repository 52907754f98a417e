/* Creates meshes whose ranks are in an order of their own: a list of the caller's, or one that keeps an axis inside
 * hosts. */
#include "base/core/rng.h"
#include "mesh/mesh_impl.h"
#include "mesh/rank_order.h"

/* Checks that the list has each rank once, and finds this rank's place. */
static tess_status find_place(const tess_team *team, const int *ranks, int *place)
{
    const int size = tess_team_size(team);
    for (int i = 0; i < size; i++) {
        TESS_CHECK(ranks[i] >= 0 && ranks[i] < size, TESS_E_INVALID,
                   "mesh: place %d of the list has rank %d; ranks are 0 to %d", i, ranks[i], size - 1);
        for (int before = 0; before < i; before++)
            TESS_CHECK(ranks[before] != ranks[i], TESS_E_INVALID,
                       "mesh: places %d and %d of the list both have rank %d", before, i, ranks[i]);
        *place = ranks[i] == tess_team_rank(team) ? i : *place;
    }
    return TESS_OK;
}

/* Checks that all ranks have the same list. Collective. */
static tess_status compare_lists(tess_team *team, const int *ranks)
{
    const int64_t hash = (int64_t)(tess_hash_bytes(ranks, sizeof(ranks[0]) * (size_t)tess_team_size(team), 0) >> 1);
    int64_t ends[2] = {hash, -hash};
    TESS_TRY(tess_all_reduce(team, ends, ends, 2, TESS_I64, TESS_MIN, NULL));
    TESS_CHECK(ends[0] == -ends[1], TESS_E_MISMATCH,
               "mesh: ranks have different lists of ranks: pass the same list on all of them");
    return TESS_OK;
}

tess_status tess_rank_order_team(tess_team *team, const int *ranks, tess_team **ordered)
{
    int place = 0;
    TESS_TRY(compare_lists(team, ranks));
    TESS_TRY(find_place(team, ranks, &place));
    return tess_team_split(team, 0, place, "mesh", ordered);
}

tess_status tess_mesh_create_ranks(tess_team *team, const tess_axis *axes, int n_axes, const int *ranks,
                                   tess_mesh **out)
{
    TESS_CHECK(team != NULL && ranks != NULL && out != NULL, TESS_E_INVALID, "tess_mesh_create_ranks: a NULL argument");
    tess_mesh_layout layout;
    tess_team *all;
    *out = NULL;
    TESS_TRY(tess_mesh_layout_fit(axes, n_axes, tess_team_size(team), &layout));
    TESS_TRY(tess_rank_order_team(team, ranks, &all));
    const tess_status status = tess_mesh_create_over(all, axes, n_axes, out);
    if (status != TESS_OK)
        tess_team_destroy(&all);
    else
        (*out)->owns_all = true;
    return status;
}

tess_status tess_mesh_create_inside(tess_team *team, const tess_axis *axes, int n_axes, const char *inside,
                                    tess_mesh **out)
{
    TESS_CHECK(team != NULL && inside != NULL && out != NULL, TESS_E_INVALID,
               "tess_mesh_create_inside: a NULL argument");
    tess_mesh_layout layout;
    int axis;
    TESS_AUTO(tess_mem_drop) int *hosts = NULL;
    *out = NULL;
    TESS_TRY(tess_mesh_layout_fit(axes, n_axes, tess_team_size(team), &layout));
    TESS_TRY(tess_mesh_layout_axis(&layout, inside, &axis));
    TESS_TRY(TESS_NEW(tess_runtime_mem(tess_team_runtime(team)), 2 * layout.size, "mesh", &hosts));
    layout.hosts = hosts;
    for (int rank = 0; rank < layout.size; rank++)
        hosts[rank] = tess_team_host(team, rank);
    TESS_TRY(tess_mesh_layout_inside(&layout, axis, hosts + layout.size));
    return tess_mesh_create_ranks(team, axes, n_axes, hosts + layout.size, out);
}
