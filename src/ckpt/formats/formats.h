/* Opens checkpoints of other programs as catalogs. Only headers are read here; ckpt/catalog reads tensors. Files are
 * hostile: pickles are read as data and nothing in them is executed; every size is checked before it is used.
 *
 * Tensors keep the names of the source. A nested dict gives dotted names ("model" above "layers.0.w" gives
 * "model.layers.0.w"); other values go to the catalog's `meta` in the same nesting. If the format tells which dict
 * holds the model, meta has its "model_prefix" (such as "model."; "" for names that stand alone):
 * ckpt/formats/export_catalog.h turns all into one set of names. */
#ifndef TESS_CKPT_FORMATS_FORMATS_H
#define TESS_CKPT_FORMATS_FORMATS_H

#include "ckpt/catalog/catalog.h"

/* All openers: TESS_E_NOT_FOUND names what is missing; TESS_E_FORMAT names the damaged file, offset or entry;
 * TESS_E_UNSUPPORTED names what we do not read. *catalog is finished, and the caller's. */

/* torch.save: a file; a model folder with pytorch_model.bin or its shards; or a folder with one file per rank
 * ("*_rank_0.pt" ..). Parts of DTensor and ShardedTensor state their place in the whole; other tensors come from the
 * lowest rank that has them. Views of one storage and any strides are read. */
tess_status tess_torch_open(tess_mem *mem, const char *path, tess_catalog **catalog);

/* PyTorch's distributed checkpoint: a folder with .metadata. Also Megatron's folder: latest_checkpointed_iteration.txt
 * names the iter_%07d that is read, and meta gets "iteration". Objects of up to 1 MiB each are read into meta. */
tess_status tess_dcp_open(tess_mem *mem, const char *path, tess_catalog **catalog);

/* DeepSpeed's ZeRO 1, 2 and 3: the folder with `latest`, or the step's own. float32 masters are "model.<name>", moments
 * "optimizer.<name>.exp_avg", "..._sq"; parameters and buffers that the optimizer does not hold come from the model's
 * file. */
tess_status tess_deepspeed_open(tess_mem *mem, const char *path, tess_catalog **catalog);

/* A .safetensors file, or a Hugging Face folder of one or of shards (ckpt/safetensors). */
tess_status tess_catalog_open_safetensors(tess_mem *mem, const char *path, tess_catalog **catalog);

/* Whether a path looks like one of these. If it is damaged, the opener says how. */
bool tess_torch_is_at(const char *path);
bool tess_dcp_is_at(const char *path);
bool tess_deepspeed_is_at(const char *path);

/* Whether a folder has a regular file of that name. */
bool tess_folder_holds(const char *folder, const char *name);

#endif
