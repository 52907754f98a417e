/* Creates a mesh with its teams, and answers questions about its axes and a rank's coordinates. */
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "comm/split.h"
#include "mesh/mesh_impl.h"

/* The axes along which a split's new teams extend, and the layout of those teams. */
typedef struct mesh_split {
    const tess_mesh_layout *grid, *team;
    bool picked[TESS_MESH_MAX_AXES];
} mesh_split;

/* Ranks with the same coordinates on all other axes form a team, row-major along the picked ones. */
static tess_split_place place_of(const void *context, int rank)
{
    const mesh_split *s = context;
    int at[TESS_MESH_MAX_AXES], inside[TESS_MESH_MAX_AXES] = {0}, n = 0;
    tess_mesh_layout_coordinates(s->grid, rank, at);
    for (int a = 0; a < s->grid->n_axes; a++)
        if (s->picked[a]) {
            inside[n++] = at[a];
            at[a] = 0;
        }
    const int key = n > 1 ? tess_mesh_layout_rank(s->team, inside) : inside[0];
    return (tess_split_place){tess_mesh_layout_rank(s->grid, at), key};
}

/* Makes a team for every axis. Collective over mesh->all. */
static tess_status make_teams(tess_mesh *mesh)
{
    for (int a = 0; a < mesh->grid.n_axes; a++) {
        mesh_split split = {.grid = &mesh->grid};
        split.picked[a] = true;
        TESS_TRY_CTX(tess_team_split_by(mesh->all, place_of, &split, mesh->grid.names[a], &mesh->teams[a]),
                     "mesh axis '%s'", mesh->grid.names[a]);
    }
    return TESS_OK;
}

static tess_status new_mesh(tess_runtime *runtime, tess_mesh **out)
{
    void *memory;
    TESS_TRY(tess_mem_alloc(tess_runtime_mem(runtime), TESS_POOL_MISC, sizeof(tess_mesh), "mesh", &memory));
    *out = memory;
    (*out)->runtime = runtime;
    return TESS_OK;
}

/* Finds the host of every rank, and makes the teams. The mesh's team must exist. Collective over it. */
static tess_status find_hosts_and_make_teams(tess_mesh *mesh)
{
    TESS_TRY(tess_mem_alloc_array(tess_runtime_mem(mesh->runtime), TESS_POOL_MISC, (size_t)mesh->grid.size, sizeof(int),
                                  "mesh", (void **)&mesh->grid.hosts));
    for (int rank = 0; rank < mesh->grid.size; rank++)
        mesh->grid.hosts[rank] = tess_team_host(mesh->all, rank);
    return make_teams(mesh);
}

tess_status tess_mesh_create(tess_runtime *runtime, const tess_axis *axes, int n_axes, tess_mesh **out)
{
    TESS_CHECK(runtime != NULL, TESS_E_INVALID, "tess_mesh_create: a NULL argument");
    return tess_mesh_create_over(tess_runtime_team(runtime), axes, n_axes, out);
}

tess_status tess_mesh_create_over(tess_team *team, const tess_axis *axes, int n_axes, tess_mesh **out)
{
    TESS_CHECK(team != NULL && out != NULL, TESS_E_INVALID, "tess_mesh_create: a NULL argument");
    *out = NULL;
    tess_mesh_layout grid;
    TESS_TRY(tess_mesh_layout_fit(axes, n_axes, tess_team_size(team), &grid));
    TESS_AUTO(tess_mesh_destroy) tess_mesh *mesh = NULL;
    TESS_TRY(new_mesh(tess_team_runtime(team), &mesh));
    mesh->grid = grid;
    mesh->all = team;
    tess_mesh_layout_coordinates(&mesh->grid, tess_team_rank(mesh->all), mesh->mine);
    TESS_TRY(find_hosts_and_make_teams(mesh));
    *out = TESS_GIVE(mesh);
    return TESS_OK;
}

void tess_mesh_destroy(tess_mesh **handle)
{
    if (handle == NULL || *handle == NULL)
        return;
    tess_mesh *mesh = *handle;
    *handle = NULL;
    for (int a = 0; a < mesh->grid.n_axes; a++)
        tess_team_destroy(&mesh->teams[a]);
    if (mesh->owns_all)
        tess_team_destroy(&mesh->all);
    tess_mem_free(tess_runtime_mem(mesh->runtime), mesh->grid.hosts);
    tess_mem_free(tess_runtime_mem(mesh->runtime), mesh);
}

/* Marks the named axes. A slice has its axes in the mesh's order, whatever the order of the names. */
static tess_status pick_axes(const tess_mesh *mesh, const char *const *names, int n_names, bool *picked)
{
    TESS_CHECK(names != NULL && n_names >= 1, TESS_E_INVALID, "tess_mesh_slice: no axis is named");
    for (int i = 0; i < n_names; i++) {
        int axis;
        TESS_TRY_CTX(tess_mesh_layout_axis(&mesh->grid, names[i] != NULL ? names[i] : "(NULL)", &axis),
                     "tess_mesh_slice");
        TESS_CHECK(!picked[axis], TESS_E_INVALID, "tess_mesh_slice: axis '%s' is named twice", names[i]);
        picked[axis] = true;
    }
    return TESS_OK;
}

tess_status tess_mesh_slice(tess_mesh *mesh, const char *const *names, int n_names, tess_mesh **out)
{
    TESS_CHECK(mesh != NULL && out != NULL, TESS_E_INVALID, "tess_mesh_slice: a NULL argument");
    *out = NULL;
    mesh_split split = {.grid = &mesh->grid};
    TESS_TRY(pick_axes(mesh, names, n_names, split.picked));
    tess_mesh *slice;
    TESS_TRY(new_mesh(mesh->runtime, &slice));
    split.team = &slice->grid;
    char name[2 * TESS_MESH_MAX_AXES * TESS_MESH_NAME_SIZE] = "";
    size_t at = 0;
    slice->grid.size = 1;
    for (int a = 0; a < mesh->grid.n_axes; a++) {
        if (!split.picked[a])
            continue;
        int b = slice->grid.n_axes++;
        memcpy(slice->grid.names[b], mesh->grid.names[a], sizeof(slice->grid.names[b]));
        slice->grid.sizes[b] = mesh->grid.sizes[a];
        slice->mine[b] = mesh->mine[a];
        slice->grid.size *= mesh->grid.sizes[a];
        at = tess_text_add(name, sizeof(name), at, b > 0 ? "+%s" : "%s", mesh->grid.names[a]);
    }
    tess_status status = tess_team_split_by(mesh->all, place_of, &split, name, &slice->all);
    slice->owns_all = status == TESS_OK;
    if (status == TESS_OK)
        status = find_hosts_and_make_teams(slice);
    if (status != TESS_OK) {
        tess_mesh_destroy(&slice);
        return tess_fail_context(status, "slice '%s' of the mesh", name);
    }
    *out = slice;
    return TESS_OK;
}

int tess_mesh_axes(const tess_mesh *mesh)
{
    return mesh->grid.n_axes;
}

int tess_mesh_axis(const tess_mesh *mesh, const char *name)
{
    for (int a = 0; a < mesh->grid.n_axes; a++)
        if (strcmp(mesh->grid.names[a], name) == 0)
            return a;
    return -1;
}

const char *tess_mesh_axis_name(const tess_mesh *mesh, int axis)
{
    return axis >= 0 && axis < mesh->grid.n_axes ? mesh->grid.names[axis] : "";
}

int tess_mesh_axis_size(const tess_mesh *mesh, int axis)
{
    return axis >= 0 && axis < mesh->grid.n_axes ? mesh->grid.sizes[axis] : -1;
}

int tess_mesh_coordinate(const tess_mesh *mesh, int axis)
{
    return axis >= 0 && axis < mesh->grid.n_axes ? mesh->mine[axis] : -1;
}

tess_status tess_mesh_coordinates(const tess_mesh *mesh, int rank, int *coordinates)
{
    TESS_CHECK(rank >= 0 && rank < mesh->grid.size, TESS_E_INVALID, "rank %d is outside the mesh of %d ranks", rank,
               mesh->grid.size);
    tess_mesh_layout_coordinates(&mesh->grid, rank, coordinates);
    return TESS_OK;
}

int tess_mesh_rank(const tess_mesh *mesh, const int *coordinates)
{
    for (int a = 0; a < mesh->grid.n_axes; a++)
        if (coordinates[a] < 0 || coordinates[a] >= mesh->grid.sizes[a])
            return -1;
    return tess_mesh_layout_rank(&mesh->grid, coordinates);
}

tess_team *tess_mesh_team(const tess_mesh *mesh, const char *axis)
{
    int a = tess_mesh_axis(mesh, axis);
    return a >= 0 ? mesh->teams[a] : NULL;
}

tess_team *tess_mesh_all(const tess_mesh *mesh)
{
    return mesh->all;
}
