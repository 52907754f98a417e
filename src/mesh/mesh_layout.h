/* The places of ranks in a mesh, computed without a job or teams. Row-major: the last axis varies fastest. */
#ifndef TESS_MESH_MESH_LAYOUT_H
#define TESS_MESH_MESH_LAYOUT_H

#include "base/report/form.h"
#include "tessera/mesh.h"

typedef struct tess_mesh_layout {
    int n_axes, size; /* size: number of ranks */
    char names[TESS_MESH_MAX_AXES][TESS_MESH_NAME_SIZE];
    int sizes[TESS_MESH_MAX_AXES];
    int *hosts; /* (size) number of each rank's host; NULL: one host. Not owned */
    int *ranks; /* (size) the rank at each place of the grid; NULL: ranks are numbered by place. Not owned */
} tess_mesh_layout;

/* A list of axes, with memory for their names. */
typedef struct tess_axis_list {
    int n;
    tess_axis axis[TESS_MESH_MAX_AXES];
    char names[TESS_MESH_MAX_AXES][TESS_MESH_NAME_SIZE];
} tess_axis_list;

/* Parses "dp=2,tp=4"; a size may be -1. Do not move *axes afterwards, since it contains pointers into itself.
 * TESS_E_INVALID: the message names the word and what it should be */
tess_status tess_axis_list_parse(const char *text, tess_axis_list *axes);
enum { TESS_MESH_MOST_RANKS = 1 << 20 }; /* largest number of ranks of a layout without a job */
/* Computes the number of ranks, the product of all sizes; 0: a size is -1 or 0.
 * TESS_E_INVALID: more than TESS_MESH_MOST_RANKS; the message names the first axis that exceeds it */
tess_status tess_axis_list_product(const tess_axis_list *axes, int *product);

/* Makes a layout; computes the size of the axis with size -1. Errors are those of tess_mesh_create. */
tess_status tess_mesh_layout_fit(const tess_axis *axes, int n_axes, int world, tess_mesh_layout *layout);

void tess_mesh_layout_coordinates(const tess_mesh_layout *layout, int rank, int *coordinates);
int tess_mesh_layout_rank(const tess_mesh_layout *layout, const int *coordinates);
/* Finds the axis of this name. TESS_E_INVALID: there is none; the message lists the axes. */
tess_status tess_mesh_layout_axis(const tess_mesh_layout *layout, const char *name, int *axis);
/* The difference between the rank numbers of neighbours along an axis. */
int tess_mesh_layout_stride(const tess_mesh_layout *layout, int axis);
/* The first rank of group `group` (0 .. size / sizes[axis]) of an axis; the others follow at the stride. Groups are
 * ordered by their first ranks. */
int tess_mesh_layout_first(const tess_mesh_layout *layout, int axis, int group);
/* Whether a group of the axis has ranks on different hosts. */
bool tess_mesh_layout_crosses(const tess_mesh_layout *layout, int axis);

/* Returns the rank at a place of the grid. */
static inline int tess_mesh_layout_at(const tess_mesh_layout *layout, int place)
{
    return layout->ranks != NULL ? layout->ranks[place] : place;
}

/* Returns the number of the host at a place. */
static inline int tess_mesh_layout_host(const tess_mesh_layout *layout, int place)
{
    return layout->hosts != NULL ? layout->hosts[tess_mesh_layout_at(layout, place)] : 0;
}

/* Orders the ranks so that each group of the axis is on one host. The layout still numbers ranks by place. ranks (size)
 * receives the rank at each place of the grid. A host's ranks fill groups in their order.
 * TESS_E_INVALID: the axis's size does not divide the number of ranks of a host; the message names its first rank */
tess_status tess_mesh_layout_inside(const tess_mesh_layout *layout, int axis, int *ranks);

/* Checks the communication along an axis. Each rank has sent its number; `rank` has received `gathered`
 * (sizes[axis]) and the sum of its group. Compares both with the expected values.
 * TESS_E_MISMATCH: the message names the axis and the first wrong value */
tess_status tess_mesh_layout_check(const tess_mesh_layout *layout, int axis, int rank, const int64_t *gathered,
                                   int64_t sum);

/* ---- Output for people and programs ---- */
/* The speed of an axis, measured on all its groups at once. */
enum { TESS_MESH_SPEEDS = 8 };
typedef struct tess_mesh_speed {
    size_t bytes;               /* bytes of an all_reduce */
    double us, bus_bytes_per_s; /* time and speed of the slowest group */
} tess_mesh_speed;

typedef struct tess_mesh_view {
    const tess_mesh_layout *layout;
    const char *const *host_names;               /* name of each host; NULL: one host */
    int axis;                                    /* show the groups of this axis; -1: of all axes */
    int n_speeds;                                /* number of measured sizes; 0: nothing was measured or checked */
    tess_mesh_speed (*speeds)[TESS_MESH_SPEEDS]; /* (n_axes) measured speeds of each axis */
} tess_mesh_view;

/* Describes axes, groups, ranks, and the bandwidth of axes. `for_people`: with what tess_mesh_form, the form of the
 * report, also shows: a picture, or how to measure. Returns a new reference; NULL: memory ran out. */
json_t *tess_mesh_view_json(const tess_mesh_view *view, bool for_people);
extern const tess_form_part tess_mesh_form[];

#endif
