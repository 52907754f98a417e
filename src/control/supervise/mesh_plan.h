/* Plans the mesh that a job would have, from a configuration or a list of axes, its ranks and its hosts. Starts
 * nothing. */
#ifndef TESS_CONTROL_SUPERVISE_MESH_PLAN_H
#define TESS_CONTROL_SUPERVISE_MESH_PLAN_H

#include "mesh/mesh_layout.h"
#include "engine/stages/rank_stage.h"
#include "plan/placements.h"

typedef struct tess_mesh_request {
    int ranks;          /* number of ranks; 0: that of the hosts, or the product of `axes`, or 1 */
    const char *axes;   /* "dp=2,tp=4"; NULL: the axes of the configuration */
    const char *hosts;  /* "h1:4,h2:4", in the order of ranks; NULL: all ranks on one host */
    const char *inside; /* axis that stays inside hosts, with `axes`; NULL: ranks are numbered by place */
    const char *axis;   /* axis whose groups are shown; NULL: the groups of all axes */
    const char *config; /* path of a configuration; NULL: the defaults */
    char *const *overrides;
    int n_overrides;
} tess_mesh_request;

typedef struct tess_mesh_plan {
    tess_mem *mem;
    tess_mesh_layout layout; /* owns hosts and ranks */
    char *host_texts;        /* (n_hosts) of LAUNCH_NAME_BYTES each; NULL: one host */
    const char **host_names; /* (n_hosts) */
    int axis;                /* axis to show, as in tess_mesh_view */
    tess_stage_plan *stages; /* stages of the configuration's pipeline; NULL: it has no pipeline, or names no model */
    tess_param_placements *placements; /* NULL: the configuration names no model, or it is not known */
    char no_placements[512];           /* why the placements are not known; "": they are, or there is no model */
} tess_mesh_plan;

/* Makes the plan. Free it with tess_mesh_plan_free, also after a failure. TESS_E_INVALID: the axes do not multiply
 * to the ranks, the ranks are not those of the hosts, a name is no axis, axes are given in addition to a
 * configuration, an axis cannot stay inside hosts, or the pipeline is impossible. Errors of reading the model, with a
 * pipeline. */
tess_status tess_mesh_plan_make(tess_mem *mem, const tess_mesh_request *request, tess_mesh_plan *plan);
void tess_mesh_plan_free(tess_mesh_plan *plan);

#endif
