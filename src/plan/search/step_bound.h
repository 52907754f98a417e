/* Lower bounds of the memory and the time of a layout, in microseconds of work. A search plans a layout only if its
 * bounds allow it to be among the best.
 *
 * The bounds stand on pieces. A piece is a dry rank of few layers, without a pipeline or shards. So layouts with the
 * same tensor, context and expert parallelism, micro-batch and recomputation share it. The difference of two depths is
 * what a layer computes, exchanges and keeps for one micro-batch. For the rank with most layers, the time is at least
 * that of all its micro-batches and of the fill of the pipeline, or that of all bytes of its shards on their link. Its
 * memory has at least its weights, gradients and moments, and the activations of the micro-batches in flight.
 * Everything else only adds to that: embedding, gathered weights, optimizer, waits. A model with fewer layers than a
 * piece needs has the bounds 0. Each level of bounds may run further dry ranks. */
#ifndef TESS_PLAN_STEP_BOUND_H
#define TESS_PLAN_STEP_BOUND_H

#include "plan/search/search_layout.h"

typedef struct tess_step_bounds tess_step_bounds;

/* `planner` and `request` are borrowed. */
tess_status tess_step_bounds_create(tess_mem *mem, tess_planner *planner, const tess_plan_request *request,
                                    tess_step_bounds **bounds);
void tess_step_bounds_destroy(tess_step_bounds **bounds);
/* Sets bound_s, bound_bytes and bound_level of the layout; 0: nothing is known. Each level costs more and bounds
 * better: it runs two dry ranks if their piece is new.
 * TESS_E_NOMEM; nothing else: a piece that is refused has no bounds */
tess_status tess_step_bounds_of(tess_step_bounds *bounds, tess_search_layout *layout, tess_bound_level level);
/* Checks what refuses a layout whatever its memory and time: its schedule does not take its micro-batches, or its
 * layers cannot be cut into its stages. TESS_E_INVALID: the message says why */
tess_status tess_step_bounds_check(tess_step_bounds *bounds, const tess_search_layout *layout);
/* Returns the machine of layouts with this precision: products in FP8 are those of precision fp8, or of all layouts if
 * precision is not varied. */
const tess_machine *tess_step_bounds_machine(const tess_step_bounds *bounds, int64_t precision);
int64_t tess_step_bounds_dry_ranks(const tess_step_bounds *bounds); /* number of dry ranks that have run */

#endif
