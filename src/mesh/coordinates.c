#include "mesh/coordinates.h"

#include "mesh/mesh_impl.h"

tess_coordinates tess_coordinates_of(const tess_mesh *mesh, int rank)
{
    static const char *const data_axes[] = {"dp_replicate", "dp_shard"};
    tess_coordinates at = {.rank = rank, .world = mesh->grid.size, .n_data = 1, .n_stages = 1, .n_tp = 1};
    int place[TESS_MESH_MAX_AXES] = {0};
    tess_mesh_coordinates(mesh, rank, place);
    for (int i = 0; i < 2; i++) {
        int axis = tess_mesh_axis(mesh, data_axes[i]);
        if (axis < 0)
            continue;
        at.data = at.data * mesh->grid.sizes[axis] + place[axis];
        at.n_data *= mesh->grid.sizes[axis];
    }
    int pp = tess_mesh_axis(mesh, "pp"), tp = tess_mesh_axis(mesh, "tp");
    if (pp >= 0) {
        at.stage = place[pp];
        at.n_stages = mesh->grid.sizes[pp];
    }
    if (tp >= 0) {
        at.tp = place[tp];
        at.n_tp = mesh->grid.sizes[tp];
    }
    return at;
}
