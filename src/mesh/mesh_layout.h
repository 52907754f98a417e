/* The places of ranks in a mesh, as arithmetic without a job or teams. Row-major: the last axis varies fastest. */
#ifndef TESS_MESH_MESH_LAYOUT_H
#define TESS_MESH_MESH_LAYOUT_H

#include <jansson.h>

#include "base/text/text.h"
#include "tessera/mesh.h"

typedef struct tess_mesh_layout {
    int n_axes, size; /* size: ranks */
    char names[TESS_MESH_MAX_AXES][TESS_MESH_NAME_SIZE];
    int sizes[TESS_MESH_MAX_AXES];
    int *hosts; /* (size) the number of each rank's host; NULL: one host. Not owned */
} tess_mesh_layout;

/* A list of axes with its texts. */
typedef struct tess_axis_list {
    int n;
    tess_axis axis[TESS_MESH_MAX_AXES];
    char names[TESS_MESH_MAX_AXES][TESS_MESH_NAME_SIZE];
} tess_axis_list;

/* Reads "dp=2,tp=4"; a size may be -1. Do not move *axes afterwards. TESS_E_INVALID names the word and what it should
 * be. */
tess_status tess_axis_list_parse(const char *text, tess_axis_list *axes);
enum { TESS_MESH_MOST_RANKS = 1 << 20 }; /* most ranks of a layout without a job */
/* The ranks that the axes make; 0: one of them has size -1 or 0. TESS_E_INVALID: more than TESS_MESH_MOST_RANKS; the
 * message names the first axis that makes them too many. */
tess_status tess_axis_list_product(const tess_axis_list *axes, int *product);

/* Fills in the axis of size -1. TESS_E_INVALID as for tess_mesh_create. */
tess_status tess_mesh_layout_fit(const tess_axis *axes, int n_axes, int world, tess_mesh_layout *layout);

void tess_mesh_layout_coordinates(const tess_mesh_layout *layout, int rank, int *coordinates);
int tess_mesh_layout_rank(const tess_mesh_layout *layout, const int *coordinates);
/* TESS_E_INVALID: there is no such axis; the message lists those that are there. */
tess_status tess_mesh_layout_axis(const tess_mesh_layout *layout, const char *name, int *axis);
/* The distance of neighbours along an axis. */
int tess_mesh_layout_stride(const tess_mesh_layout *layout, int axis);
/* The first rank of group `group` (0 .. size / sizes[axis]) of an axis; the others follow at the stride. Groups are in
 * the order of their first ranks. */
int tess_mesh_layout_first(const tess_mesh_layout *layout, int axis, int group);
/* Whether a group of the axis has ranks on different hosts. */
bool tess_mesh_layout_crosses(const tess_mesh_layout *layout, int axis);

/* Compares what `rank` got from its group of an axis, when each rank gave its number, with the arithmetic: `gathered`
 * (sizes[axis]) and the sum. TESS_E_MISMATCH names the axis and the first that is wrong. */
tess_status tess_mesh_layout_check(const tess_mesh_layout *layout, int axis, int rank, const int64_t *gathered,
                                   int64_t sum);

/* ---- Output for people and programs ---- */
/* How fast an axis is: all its groups at once. */
enum { TESS_MESH_SPEEDS = 8 };
typedef struct tess_mesh_speed {
    size_t bytes;               /* size of an all_reduce */
    double us, bus_bytes_per_s; /* speed of the slowest group */
} tess_mesh_speed;

typedef struct tess_mesh_view {
    const tess_mesh_layout *layout;
    const char *const *host_names;               /* name of each host; NULL: one host */
    int axis;                                    /* shows the groups of this one; -1: of all */
    int n_speeds;                                /* 0: not measured, and not checked */
    tess_mesh_speed (*speeds)[TESS_MESH_SPEEDS]; /* (n_axes) */
} tess_mesh_view;

/* Axes, groups, a table of ranks, a picture, and the bandwidth or how to measure it. TESS_E_NOMEM. */
tess_status tess_mesh_view_print(const tess_mesh_view *view, tess_buffer *out);
/* The same as a JSON object (a new reference). */
tess_status tess_mesh_view_json(const tess_mesh_view *view, json_t **json);

#endif
