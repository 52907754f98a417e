/* Computes with axes and their sizes, ranks and their coordinates. All functions are pure. */
#include "mesh/mesh_layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Axes ---- */
static tess_status parse_axis(const char *word, size_t length, tess_axis_list *axes)
{
    const char *equals = memchr(word, '=', length);
    char *end;
    size_t name = equals != NULL ? (size_t)(equals - word) : 0;
    TESS_CHECK(axes->n < TESS_MESH_MAX_AXES, TESS_E_INVALID, "mesh: more than %d axes", TESS_MESH_MAX_AXES);
    TESS_CHECK(name > 0 && name < TESS_MESH_NAME_SIZE && equals[1] != ',' && equals[1] != '\0', TESS_E_INVALID,
               "mesh: '%.*s' is no axis; write NAME=SIZE, as in dp=2,tp=4, with names below %d characters", (int)length,
               word, TESS_MESH_NAME_SIZE);
    long size = strtol(equals + 1, &end, 10);
    TESS_CHECK(end == word + length && size >= -1 && size <= INT32_MAX, TESS_E_INVALID,
               "mesh: the size in '%.*s' is no number of ranks; write 1 or more, or -1 for what is left", (int)length,
               word);
    memcpy(axes->names[axes->n], word, name);
    axes->names[axes->n][name] = '\0';
    axes->axis[axes->n] = (tess_axis){axes->names[axes->n], (int)size};
    axes->n++;
    return TESS_OK;
}

tess_status tess_axis_list_parse(const char *text, tess_axis_list *axes)
{
    axes->n = 0;
    for (;;) {
        size_t length = strcspn(text, ",");
        TESS_TRY(parse_axis(text, length, axes));
        if (text[length] == '\0')
            return TESS_OK;
        text += length + 1;
    }
}

tess_status tess_axis_list_product(const tess_axis_list *axes, int *product)
{
    int64_t n = 1;
    *product = 0;
    for (int a = 0; a < axes->n; a++) {
        if (axes->axis[a].size <= 0)
            return TESS_OK;
        n *= axes->axis[a].size;
        TESS_CHECK(n <= TESS_MESH_MOST_RANKS, TESS_E_INVALID,
                   "mesh: axis '%s' makes it a job of %" PRId64 " ranks; at most %d are possible: make an axis smaller",
                   axes->axis[a].name, n, TESS_MESH_MOST_RANKS);
    }
    *product = (int)n;
    return TESS_OK;
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
                   "mesh: axis '%s' has size %d; give it 1 or more ranks, or -1 for what is left", axes[a].name,
                   axes[a].size);
        n_open += axes[a].size == -1;
        for (int b = 0; b < a; b++)
            TESS_CHECK(strcmp(axes[a].name, axes[b].name) != 0, TESS_E_INVALID, "mesh: axis '%s' is named twice",
                       axes[a].name);
    }
    TESS_CHECK(n_open <= 1, TESS_E_INVALID, "mesh: %d axes have size -1; only one can take what is left", n_open);
    return TESS_OK;
}

/* Computes the size of the axis with size -1, and checks the product of all sizes against the world size. */
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
        TESS_CHECK(
            product <= world, TESS_E_INVALID,
            "mesh: %s... (axis '%s') is more than the %d ranks of the job: make an axis smaller, or start more ranks",
            sum, axes[a].name, world);
    }
    if (open >= 0) {
        TESS_CHECK(world % product == 0, TESS_E_INVALID,
                   "mesh: %d ranks do not divide by %lld, so axis '%s' of %s cannot take what is left: start a "
                   "multiple of %lld",
                   world, product, axes[open].name, sum, product);
        sizes[open] = (int)(world / product);
        return TESS_OK;
    }
    TESS_CHECK(
        product == world, TESS_E_INVALID,
        "mesh: %s = %lld, but the job has %d ranks: start %lld, or give one axis the size -1, which takes what is left",
        sum, product, world, product);
    return TESS_OK;
}

tess_status tess_mesh_layout_fit(const tess_axis *axes, int n_axes, int world, tess_mesh_layout *layout)
{
    *layout = (tess_mesh_layout){.n_axes = n_axes, .size = world};
    TESS_TRY(check_axes(axes, n_axes));
    TESS_TRY(fit_sizes(axes, n_axes, world, layout->sizes));
    for (int a = 0; a < n_axes; a++)
        snprintf(layout->names[a], sizeof(layout->names[a]), "%s", axes[a].name);
    return TESS_OK;
}

/* ---- Ranks ---- */
void tess_mesh_layout_coordinates(const tess_mesh_layout *layout, int rank, int *coordinates)
{
    for (int a = layout->n_axes - 1; a >= 0; a--) {
        coordinates[a] = rank % layout->sizes[a];
        rank /= layout->sizes[a];
    }
}

int tess_mesh_layout_rank(const tess_mesh_layout *layout, const int *coordinates)
{
    int rank = 0;
    for (int a = 0; a < layout->n_axes; a++)
        rank = rank * layout->sizes[a] + coordinates[a];
    return rank;
}

tess_status tess_mesh_layout_axis(const tess_mesh_layout *layout, const char *name, int *axis)
{
    char names[256] = "";
    size_t at = 0;
    for (int a = 0; a < layout->n_axes; a++) {
        at = tess_text_add(names, sizeof(names), at, " %s", layout->names[a]);
        if (strcmp(layout->names[a], name) == 0) {
            *axis = a;
            return TESS_OK;
        }
    }
    return TESS_FAIL(TESS_E_INVALID, "there is no axis '%s'; the mesh has%s", name, names);
}

int tess_mesh_layout_stride(const tess_mesh_layout *layout, int axis)
{
    int stride = 1;
    for (int a = axis + 1; a < layout->n_axes; a++)
        stride *= layout->sizes[a];
    return stride;
}

int tess_mesh_layout_first(const tess_mesh_layout *layout, int axis, int group)
{
    int stride = tess_mesh_layout_stride(layout, axis);
    return group / stride * stride * layout->sizes[axis] + group % stride;
}

bool tess_mesh_layout_crosses(const tess_mesh_layout *layout, int axis)
{
    int size = layout->sizes[axis], stride = tess_mesh_layout_stride(layout, axis);
    for (int group = 0; layout->hosts != NULL && group < layout->size / size; group++) {
        int first = tess_mesh_layout_first(layout, axis, group);
        for (int i = 1; i < size; i++)
            if (tess_mesh_layout_host(layout, first + i * stride) != tess_mesh_layout_host(layout, first))
                return true;
    }
    return false;
}

/* Places the ranks of the host of rank `first` into the groups from *group on. */
static tess_status fill_groups(const tess_mesh_layout *layout, int axis, int first, int *group, int *ranks)
{
    const int size = layout->sizes[axis], stride = tess_mesh_layout_stride(layout, axis);
    int n = 0;
    for (int rank = first; rank < layout->size; rank++) {
        if (layout->hosts != NULL && layout->hosts[rank] != layout->hosts[first])
            continue;
        ranks[tess_mesh_layout_first(layout, axis, *group) + n++ % size * stride] = rank;
        *group += n % size == 0;
    }
    TESS_CHECK(n % size == 0, TESS_E_INVALID,
               "mesh: axis '%s' cannot stay inside hosts: the host of rank %d has %d ranks, which groups of %d do not "
               "divide: give the axis a divisor of every host's ranks",
               layout->names[axis], first, n, size);
    return TESS_OK;
}

static bool is_first_of_host(const tess_mesh_layout *layout, int rank)
{
    for (int before = 0; before < rank; before++)
        if (layout->hosts == NULL || layout->hosts[before] == layout->hosts[rank])
            return false;
    return true;
}

tess_status tess_mesh_layout_inside(const tess_mesh_layout *layout, int axis, int *ranks)
{
    int group = 0;
    for (int rank = 0; rank < layout->size; rank++)
        if (is_first_of_host(layout, rank))
            TESS_TRY(fill_groups(layout, axis, rank, &group, ranks));
    return TESS_OK;
}

tess_status tess_mesh_layout_check(const tess_mesh_layout *layout, int axis, int rank, const int64_t *gathered,
                                   int64_t sum)
{
    int at[TESS_MESH_MAX_AXES];
    int64_t want = 0;
    tess_mesh_layout_coordinates(layout, rank, at);
    for (at[axis] = 0; at[axis] < layout->sizes[axis]; at[axis]++) {
        int member = tess_mesh_layout_rank(layout, at);
        want += member;
        TESS_CHECK(gathered[at[axis]] == member, TESS_E_MISMATCH,
                   "mesh: axis '%s': rank %d has %" PRId64 " at place %d of its group, which is that of rank %d",
                   layout->names[axis], rank, gathered[at[axis]], at[axis], member);
    }
    TESS_CHECK(sum == want, TESS_E_MISMATCH,
               "mesh: axis '%s': the ranks of rank %d's group sum to %" PRId64 ", and %" PRId64 " is right",
               layout->names[axis], rank, sum, want);
    return TESS_OK;
}
