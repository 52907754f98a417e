/* Opens checkpoints of other programs as catalogs. Reads only headers; ckpt/catalog reads tensors. Files are untrusted:
 * pickles are read as data and never executed, and every size is checked before it is used.
 *
 * Tensors keep the names of the source. A nested dict gives dotted names ("model" above "layers.0.w" gives
 * "model.layers.0.w"); other values are stored in the catalog's `meta` with the same nesting. If the format says which
 * dict contains the model, meta has its "model_prefix" (such as "model."; "" for names without a prefix).
 * ckpt/formats/export_catalog.h translates all names into one set. */
#ifndef TESS_CKPT_FORMATS_FORMATS_H
#define TESS_CKPT_FORMATS_FORMATS_H

#include "ckpt/catalog/catalog.h"

/* All openers return a finished catalog that belongs to the caller, or an error whose message says what is wrong:
 *   TESS_E_NOT_FOUND    a file is missing
 *   TESS_E_FORMAT       a file is damaged; the message has the offset or entry
 *   TESS_E_UNSUPPORTED  the checkpoint uses something that is not read */

/* Opens what torch.save wrote: a file; a model folder with pytorch_model.bin or its shards; or a folder with one file
 * per rank ("*_rank_0.pt" ..). Parts of DTensor and ShardedTensor state their place in the whole tensor; other tensors
 * are taken from the lowest rank that has them. Views of shared storages and any strides are read. */
tess_status tess_torch_open(tess_mem *mem, const char *path, tess_catalog **catalog);

/* Opens PyTorch's distributed checkpoint: a folder with .metadata. Also opens Megatron's folder:
 * latest_checkpointed_iteration.txt names the iter_%07d to read, and meta gets "iteration". Objects of up to 1 MiB each
 * are read into meta. */
tess_status tess_dcp_open(tess_mem *mem, const char *path, tess_catalog **catalog);

/* Opens DeepSpeed's ZeRO 1, 2 and 3: the folder with `latest`, or the folder of a step. float32 masters become
 * "model.<name>", moments "optimizer.<name>.exp_avg" and "..._sq". Parameters and buffers without a master come from
 * the model file. */
tess_status tess_deepspeed_open(tess_mem *mem, const char *path, tess_catalog **catalog);

/* Opens a .safetensors file, or a Hugging Face folder with one file or with shards (ckpt/safetensors). */
tess_status tess_catalog_open_safetensors(tess_mem *mem, const char *path, tess_catalog **catalog);

/* Whether a path looks like a checkpoint of the format. If it is damaged, only the opener reports how. */
bool tess_torch_is_at(const char *path);
bool tess_dcp_is_at(const char *path);
bool tess_deepspeed_is_at(const char *path);

/* Whether a folder contains a regular file with that name. */
bool tess_folder_holds(const char *folder, const char *name);

#endif
