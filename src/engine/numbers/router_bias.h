/* Balances experts without an auxiliary loss (arXiv:2408.15664). Routers of DeepSeek-V3 add a bias to the scores by
 * which experts are chosen. After each optimizer step an expert's bias rises by training.router_bias_update_rate if the
 * expert had fewer tokens in the step than the mean of its layer, and falls by it if it had more.
 *
 * The tokens are those of all micro-batches of the step, summed over all ranks as integers. So every rank computes the
 * same values in any layout. The new values are in memory that outlives the process before the step is committed, so
 * a process that finishes the step only writes them once more. */
#ifndef TESS_ENGINE_NUMBERS_ROUTER_BIAS_H
#define TESS_ENGINE_NUMBERS_ROUTER_BIAS_H

#include "engine/engine.h"

/* TESS_E_INVALID: the configuration changes biases that the model does not have, or that an adapter keeps frozen */
tess_status tess_router_bias_check(const tess_config *config, const tess_model *model);
/* Creates e->router_bias, unless the configuration leaves biases as they are. */
tess_status tess_router_bias_create(tess_engine *engine);
void tess_router_bias_free(tess_engine *engine);
/* Call this after anything but an optimizer step changed the weights: the next step reads them again. */
void tess_router_bias_forget(tess_engine *engine);
/* Computes the biases after the step whose loads tess_loads_measure has just summed. Does not change weights. */
tess_status tess_router_bias_choose(tess_engine *engine);
/* Makes these biases the weights. It may be called again. Gathered copies may be out of date afterwards. */
tess_status tess_router_bias_write(tess_engine *engine);
/* Calls tess_router_bias_write between the updates of other weights, and keeps gathered copies up to date. Collective.
 */
tess_status tess_router_bias_update(tess_engine *engine);

#endif
