/* The table of axes and its questions. */
#include "mesh/axes.h"

#include <string.h>

typedef struct axis_row {
    const char *name;
    tess_axis_kind kind;
} axis_row;

#define AXIS(id, name, kind) {name, TESS_AXIS_OF_##kind},
static const axis_row rows[TESS_AXES] = {TESS_AXIS_ROWS(AXIS)};
#undef AXIS

const char *tess_axis_name(int axis)
{
    return rows[axis].name;
}

tess_axis_kind tess_axis_kind_of(int axis)
{
    return rows[axis].kind;
}

int tess_axis_find(const char *name)
{
    for (int axis = 0; axis < TESS_AXES; axis++)
        if (strcmp(rows[axis].name, name) == 0)
            return axis;
    return -1;
}

/* Returns the first option if the axis has none. A test checks that each axis has one. */
const tess_option *tess_axis_option(int axis)
{
    const tess_option_section *section = &tess_section_parallelism;
    for (int i = 0; i < section->n_rows; i++)
        if (section->rows[i].axis != NULL && strcmp(section->rows[i].axis, rows[axis].name) == 0)
            return &section->rows[i];
    return section->rows;
}

int64_t *tess_axis_degree(tess_parallelism_section *parallelism, int axis)
{
    return (void *)((char *)parallelism + tess_axis_option(axis)->offset);
}

static int64_t degree_of(const tess_parallelism_section *parallelism, const tess_option *option)
{
    return *(const int64_t *)(const void *)((const char *)parallelism + option->offset);
}

int tess_axes_of(const tess_parallelism_section *parallelism, tess_axis axes[TESS_MESH_MAX_AXES])
{
    int n = 0;
    for (int axis = 0; axis < TESS_AXES; axis++) {
        const tess_option *option = tess_axis_option(axis);
        const int64_t degree = degree_of(parallelism, option);
        if (degree > 1 || option->least < 0)
            axes[n++] = (tess_axis){rows[axis].name, (int)degree};
    }
    return n;
}

int tess_axes_join(tess_axis axes[TESS_MESH_MAX_AXES], int n)
{
    for (int i = 1; i < n; i++)
        if (strcmp(axes[i].name, tess_axis_name(TESS_AXIS_CP)) == 0) {
            axes[i - 1].size *= axes[i].size;
            memmove(&axes[i], &axes[i + 1], (size_t)(n - i - 1) * sizeof(axes[0]));
            return n - 1;
        }
    return n;
}

void tess_axes_degrees(const tess_parallelism_section *parallelism, int degrees[TESS_AXES])
{
    for (int axis = 0; axis < TESS_AXES; axis++) {
        const int64_t degree = degree_of(parallelism, tess_axis_option(axis));
        degrees[axis] = degree > 0 ? (int)degree : 1;
    }
}

int tess_axes_ranks(const int degrees[TESS_AXES], tess_axis_kind kind)
{
    int64_t n = 1;
    for (int axis = 0; axis < TESS_AXES && n < INT32_MAX; axis++)
        n *= rows[axis].kind == kind ? degrees[axis] : 1;
    return (int)(n < INT32_MAX ? n : INT32_MAX);
}

tess_shares tess_axes_shares(const int degrees[TESS_AXES])
{
    return tess_shares_equal(tess_axes_ranks(degrees, TESS_AXIS_OF_BATCH));
}
