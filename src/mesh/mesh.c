/* A mesh: its axes, its teams, and a rank's coordinates. */
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "mesh/mesh_impl.h"

static void to_coordinates(const tess_mesh *mesh, int rank, int *coordinates)
{
    for (int a = mesh->n_axes - 1; a >= 0; a--) {
        coordinates[a] = rank % mesh->sizes[a];
        rank /= mesh->sizes[a];
    }
}

static int to_rank(const tess_mesh *mesh, const int *coordinates)
{
    int rank = 0;
    for (int a = 0; a < mesh->n_axes; a++)
        rank = rank * mesh->sizes[a] + coordinates[a];
    return rank;
}

static tess_status check_axes(const tess_axis *axes, int n_axes)
{
    TESS_CHECK(axes != NULL && n_axes >= 1 && n_axes <= TESS_MESH_MAX_AXES, TESS_E_INVALID,
               "a mesh of %d axes: 1 to %d are possible", n_axes, TESS_MESH_MAX_AXES);
    int n_open = 0;
    for (int a = 0; a < n_axes; a++) {
        TESS_CHECK(axes[a].name != NULL && axes[a].name[0] != '\0', TESS_E_INVALID, "mesh: axis %d has no name", a);
        TESS_CHECK(strlen(axes[a].name) < TESS_MESH_NAME_SIZE, TESS_E_INVALID,
                   "mesh: the name '%s' is longer than %d characters", axes[a].name, TESS_MESH_NAME_SIZE - 1);
        TESS_CHECK(axes[a].size >= 1 || axes[a].size == -1, TESS_E_INVALID,
                   "mesh: axis '%s' has size %d; it must be positive, or -1 for what is left", axes[a].name,
                   axes[a].size);
        n_open += axes[a].size == -1;
        for (int b = 0; b < a; b++)
            TESS_CHECK(strcmp(axes[a].name, axes[b].name) != 0, TESS_E_INVALID, "mesh: axis '%s' is named twice",
                       axes[a].name);
    }
    TESS_CHECK(n_open <= 1, TESS_E_INVALID, "mesh: %d axes have size -1; only one can take what is left", n_open);
    return TESS_OK;
}

/* Fills in the open axis and checks the product against the world size. */
static tess_status fit_sizes(const tess_axis *axes, int n_axes, int world, int *sizes)
{
    char sum[256] = "";
    size_t at = 0;
    long long product = 1;
    int open = -1;
    for (int a = 0; a < n_axes; a++) {
        sizes[a] = axes[a].size;
        at = tess_text_add(sum, sizeof(sum), at, a > 0 ? " x %d" : "%d", axes[a].size);
        if (axes[a].size == -1)
            open = a;
        else
            product *= axes[a].size;
        TESS_CHECK(product <= world, TESS_E_INVALID, "mesh: %s... (axis '%s') is more than the %d ranks of the job",
                   sum, axes[a].name, world);
    }
    if (open >= 0) {
        TESS_CHECK(world % product == 0, TESS_E_INVALID,
                   "mesh: %d ranks do not divide by %lld, so axis '%s' of %s cannot take what is left", world, product,
                   axes[open].name, sum);
        sizes[open] = (int)(world / product);
        return TESS_OK;
    }
    TESS_CHECK(product == world, TESS_E_INVALID, "mesh: %s = %lld, but the job has %d ranks", sum, product, world);
    return TESS_OK;
}

/* A team for every axis: ranks that agree in all other coordinates, ordered along it. Collective over mesh->all. */
static tess_status make_teams(tess_mesh *mesh)
{
    for (int a = 0; a < mesh->n_axes; a++) {
        int corner[TESS_MESH_MAX_AXES];
        memcpy(corner, mesh->mine, sizeof(corner));
        corner[a] = 0;
        TESS_TRY_CTX(tess_team_split(mesh->all, to_rank(mesh, corner), mesh->mine[a], mesh->names[a], &mesh->teams[a]),
                     "mesh axis '%s'", mesh->names[a]);
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

/* Needs the mesh's team. Collective over it. */
static tess_status find_hosts_and_make_teams(tess_mesh *mesh)
{
    TESS_TRY(tess_mem_alloc_array(tess_runtime_mem(mesh->runtime), TESS_POOL_MISC, (size_t)mesh->size, sizeof(int),
                                  "mesh", (void **)&mesh->hosts));
    for (int rank = 0; rank < mesh->size; rank++)
        mesh->hosts[rank] = tess_team_host(mesh->all, rank);
    return make_teams(mesh);
}

tess_status tess_mesh_create(tess_runtime *runtime, const tess_axis *axes, int n_axes, tess_mesh **out)
{
    TESS_CHECK(runtime != NULL && out != NULL, TESS_E_INVALID, "tess_mesh_create: a NULL argument");
    *out = NULL;
    int sizes[TESS_MESH_MAX_AXES] = {0};
    TESS_TRY(check_axes(axes, n_axes));
    TESS_TRY(fit_sizes(axes, n_axes, tess_runtime_world(runtime), sizes));
    tess_mesh *mesh;
    TESS_TRY(new_mesh(runtime, &mesh));
    mesh->n_axes = n_axes;
    mesh->size = tess_runtime_world(runtime);
    memcpy(mesh->sizes, sizes, sizeof(sizes));
    for (int a = 0; a < n_axes; a++)
        snprintf(mesh->names[a], sizeof(mesh->names[a]), "%s", axes[a].name);
    mesh->all = tess_runtime_team(runtime);
    to_coordinates(mesh, tess_team_rank(mesh->all), mesh->mine);
    tess_status status = find_hosts_and_make_teams(mesh);
    if (status != TESS_OK) {
        tess_mesh_destroy(&mesh);
        return status;
    }
    *out = mesh;
    return TESS_OK;
}

void tess_mesh_destroy(tess_mesh **handle)
{
    if (handle == NULL || *handle == NULL)
        return;
    tess_mesh *mesh = *handle;
    *handle = NULL;
    for (int a = 0; a < mesh->n_axes; a++)
        tess_team_destroy(&mesh->teams[a]);
    if (mesh->owns_all)
        tess_team_destroy(&mesh->all);
    tess_mem_free(tess_runtime_mem(mesh->runtime), mesh->hosts);
    tess_mem_free(tess_runtime_mem(mesh->runtime), mesh);
}

/* Marks the named axes. The slice has them in the mesh's order. */
static tess_status pick_axes(const tess_mesh *mesh, const char *const *names, int n_names, bool *picked)
{
    TESS_CHECK(names != NULL && n_names >= 1, TESS_E_INVALID, "tess_mesh_slice: no axis is named");
    for (int i = 0; i < n_names; i++) {
        int axis = names[i] != NULL ? tess_mesh_axis(mesh, names[i]) : -1;
        if (axis < 0) {
            char text[256];
            size_t at = 0;
            for (int a = 0; a < mesh->n_axes; a++)
                at = tess_text_add(text, sizeof(text), at, " %s", mesh->names[a]);
            return TESS_FAIL(TESS_E_INVALID, "tess_mesh_slice: there is no axis '%s'; the mesh has%s",
                             names[i] != NULL ? names[i] : "(NULL)", text);
        }
        TESS_CHECK(!picked[axis], TESS_E_INVALID, "tess_mesh_slice: axis '%s' is named twice", names[i]);
        picked[axis] = true;
    }
    return TESS_OK;
}

tess_status tess_mesh_slice(tess_mesh *mesh, const char *const *names, int n_names, tess_mesh **out)
{
    TESS_CHECK(mesh != NULL && out != NULL, TESS_E_INVALID, "tess_mesh_slice: a NULL argument");
    *out = NULL;
    bool picked[TESS_MESH_MAX_AXES] = {false};
    TESS_TRY(pick_axes(mesh, names, n_names, picked));
    tess_mesh *slice;
    TESS_TRY(new_mesh(mesh->runtime, &slice));
    int corner[TESS_MESH_MAX_AXES];
    char name[2 * TESS_MESH_MAX_AXES * TESS_MESH_NAME_SIZE] = "";
    size_t at = 0;
    slice->size = 1;
    for (int a = 0; a < mesh->n_axes; a++) {
        corner[a] = picked[a] ? 0 : mesh->mine[a];
        if (!picked[a])
            continue;
        int b = slice->n_axes++;
        memcpy(slice->names[b], mesh->names[a], sizeof(slice->names[b]));
        slice->sizes[b] = mesh->sizes[a];
        slice->mine[b] = mesh->mine[a];
        slice->size *= mesh->sizes[a];
        at = tess_text_add(name, sizeof(name), at, b > 0 ? "+%s" : "%s", mesh->names[a]);
    }
    tess_status status =
        tess_team_split(mesh->all, to_rank(mesh, corner), to_rank(slice, slice->mine), name, &slice->all);
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
    return mesh->n_axes;
}

int tess_mesh_axis(const tess_mesh *mesh, const char *name)
{
    for (int a = 0; a < mesh->n_axes; a++)
        if (strcmp(mesh->names[a], name) == 0)
            return a;
    return -1;
}

const char *tess_mesh_axis_name(const tess_mesh *mesh, int axis)
{
    return axis >= 0 && axis < mesh->n_axes ? mesh->names[axis] : "";
}

int tess_mesh_axis_size(const tess_mesh *mesh, int axis)
{
    return axis >= 0 && axis < mesh->n_axes ? mesh->sizes[axis] : -1;
}

int tess_mesh_coordinate(const tess_mesh *mesh, int axis)
{
    return axis >= 0 && axis < mesh->n_axes ? mesh->mine[axis] : -1;
}

tess_status tess_mesh_coordinates(const tess_mesh *mesh, int rank, int *coordinates)
{
    TESS_CHECK(rank >= 0 && rank < mesh->size, TESS_E_INVALID, "rank %d is outside the mesh of %d ranks", rank,
               mesh->size);
    to_coordinates(mesh, rank, coordinates);
    return TESS_OK;
}

int tess_mesh_rank(const tess_mesh *mesh, const int *coordinates)
{
    for (int a = 0; a < mesh->n_axes; a++)
        if (coordinates[a] < 0 || coordinates[a] >= mesh->sizes[a])
            return -1;
    return to_rank(mesh, coordinates);
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
