/* Implements checkpoint.exclude_from_loading: parts of a checkpoint that are not loaded. */
#ifndef TESS_ENGINE_MODEL_EXCLUDE_H
#define TESS_ENGINE_MODEL_EXCLUDE_H

#include "base/core/options.h"
#include "ckpt/store/tensor.h"

/* Whether a word ("optimizer", "lr_scheduler", "data") is listed. */
bool tess_excludes(const tess_text_list *patterns, const char *word);

/* Whether a pattern (with *, ? and [0-9]) matches a name, or a prefix of it that ends before a dot: "optimizer",
 * "model.layers.[0-3]". */
bool tess_matches_name(const char *pattern, const char *name);

/* Removes the tensors that a pattern matches: by the name in a checkpoint ("optimizer.layers.0.w.exp_avg",
 * "model.layers.0.w"), by a prefix of that name ("optimizer"), or by the parameter's name ("layers.0.*"), with its
 * moments. *n becomes the number of the remaining tensors. TESS_E_INVALID: a pattern matches neither a keyword nor a
 * tensor, which is a typing error; the message names it. */
tess_status tess_exclude_tensors(const tess_text_list *patterns, tess_ckpt_tensor *tensors, int *n);

#endif
