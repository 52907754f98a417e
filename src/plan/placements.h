/* Designs the placement of a model on a mesh: for every parameter, the stage that holds it, and what the ranks of each
 * axis hold of it. Starts nothing and holds no weights. */
#ifndef TESS_PLAN_PLACEMENTS_H
#define TESS_PLAN_PLACEMENTS_H

#include <jansson.h>

#include "base/text/text.h"
#include "config/config.h"
#include "mesh/coordinates.h"
#include "nn/model.h"
#include "tessera/dtensor.h"

/* The placement of a parameter's master weights. Its moments have the same one. Ranks whose place along "pp" is
 * `owner` hold it. They cut it along "tp" first, and along "dp_shard" and "cp" together then. */
typedef struct tess_param_placement {
    const tess_param *param; /* parameter of the whole model; borrowed from it */
    tess_shape shape;        /* shape of the whole parameter, with one dimension or more */
    int stage;               /* stage of the pipeline that it belongs to */
    int owner;               /* place along "pp" of the ranks that hold it */
    int copy;                /* place along "pp" of the ranks that have a copy for their embedding, or -1 */
    int expert;              /* 1 + the place of the rank that has it among those that divide experts; 0: all have it */
    bool stacked;            /* the ranks that divide experts have equal shares of its dimension 0 */
    int64_t unit;            /* "tp" cuts its dimension in multiples of it; 0: "tp" does not cut it */
    tess_place place[TESS_AXES]; /* placement over the ranks that differ only on this axis; not used for "pp" */
} tess_param_placement;

typedef struct tess_param_placements {
    tess_mem *mem;
    tess_parallelism_section parallelism; /* the degrees are set */
    int degree[TESS_AXES];
    int n_stages;      /* number of stages of the pipeline */
    tess_model *model; /* the whole model */
    int n;
    tess_param_placement *list; /* (n) in the order of the model's parameters */
} tess_param_placements;

/* Designs the placements of a configuration whose degrees are set. Free them with tess_param_placements_free, also
 * after a failure.
 * TESS_E_INVALID: the model cannot be cut into these stages */
tess_status tess_param_placements_create(tess_mem *mem, const tess_config *config, const tess_model_config *sizes,
                                         tess_param_placements *placements);
void tess_param_placements_free(tess_param_placements *placements);

/* Returns the box of the parameter that the rank at these coordinates holds. It is empty on other stages. */
tess_box tess_param_placement_box(const tess_param_placement *placement, const tess_coordinates *at);

/* Defined in placements_view.c. Prints a line for each parameter. Neighbouring layers with the same placements are one
 * line, such as model.layers.0-5.mlp.up_proj.weight. */
tess_status tess_param_placements_print(const tess_param_placements *placements, tess_buffer *out);
/* Returns an array (a new reference): {"name", "shape", "pp", "copy", "largest_part", "placements": {"tp":
 * "Shard(0)", ...}} for each parameter. */
json_t *tess_param_placements_json(const tess_param_placements *placements);

#endif
