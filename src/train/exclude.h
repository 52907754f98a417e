/* checkpoint.exclude_from_loading: what of a checkpoint is not taken over. */
#ifndef TESS_TRAIN_EXCLUDE_H
#define TESS_TRAIN_EXCLUDE_H

#include "base/core/options.h"
#include "ckpt/store/tensor.h"

/* Whether a word ("optimizer", "lr_scheduler", "data") is listed. */
bool tess_excludes(const tess_text_list *patterns, const char *word);

/* Whether a tensor is: by its name in a checkpoint ("optimizer.layers.0.w.exp_avg", "model.layers.0.w"), by the words
 * that this begins with ("optimizer"), or by its parameter's name ("layers.0.*"), with its moments. */
bool tess_excludes_tensor(const tess_text_list *patterns, const tess_ckpt_tensor *tensor);

/* Puts the tensors that are not excluded first; returns how many they are. */
int tess_exclude_tensors(const tess_text_list *patterns, tess_ckpt_tensor *tensors, int n);

/* TESS_E_INVALID names a pattern that is neither one of the words nor fits any tensor: a slip of the pen would be
 * obeyed without a word. */
tess_status tess_exclude_check(const tess_text_list *patterns, const tess_ckpt_tensor *tensors, int n);

#endif
