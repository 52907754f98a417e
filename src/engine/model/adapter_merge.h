/* Merges an adapter into its model: W + scale B A, summed in double, rounded once. */
#ifndef TESS_ENGINE_MODEL_ADAPTER_MERGE_H
#define TESS_ENGINE_MODEL_ADAPTER_MERGE_H

#include "ckpt/tools/rewrite.h"
#include "engine/model/weights.h"

typedef struct tess_adapter_merge tess_adapter_merge;

/* Opens a model and its adapter.
 * model: weights of any format
 * config: the folder of its config.json
 * adapter: a folder written by PEFT or by a run
 * TESS_E_NOT_FOUND, TESS_E_FORMAT, TESS_E_INVALID: one of them is incomplete, or the adapter belongs to another
 * model */
tess_status tess_adapter_merge_open(tess_mem *mem, const char *model, const char *config, const char *adapter,
                                    const tess_reporter *reporter, tess_adapter_merge **merge);
void tess_adapter_merge_close(tess_adapter_merge **merge);

/* Returns the change that a rewrite of the model applies to its tensors. It is valid until the merge is closed. */
tess_rewrite_change tess_adapter_merge_change(tess_adapter_merge *merge);

#endif
