/* The weights of a checkpoint of any format (ckpt/catalog), matched against a model's parameters by name and shape. */
#ifndef TESS_ENGINE_MODEL_WEIGHTS_H
#define TESS_ENGINE_MODEL_WEIGHTS_H

#include "base/core/reporter.h"
#include "ckpt/formats/export_catalog.h"

typedef struct tess_weights tess_weights;

/* Opens the checkpoint at `path`. Every parameter must be present with its shape, except those of adapters and of
 * value heads (tess_param.beside), which then have their initial values. Reports tensors that the model does not
 * use. Borrows `model`.
 * TESS_E_NOT_FOUND, TESS_E_FORMAT: the message names the first parameter that is missing or has another shape */
tess_status tess_weights_open(tess_mem *mem, const char *path, const tess_model *model, const tess_reporter *reporter,
                              tess_weights **weights);
/* Adds the adapter's parameters from a folder written by PEFT or by a run. Before this call no adapter parameter may
 * be requested.
 * TESS_E_NOT_FOUND, TESS_E_FORMAT: the folder is not a complete adapter of this model */
tess_status tess_weights_add_adapter(tess_weights *weights, const char *folder);
void tess_weights_close(tess_weights **weights);

/* A tess_fill_fn whose context is the tess_weights. Remembers which tensors hold NaN or infinite values. */
tess_status tess_weights_fill(void *weights, const char *name, const tess_shape *shape, const tess_box *box,
                              float *dst);

/* Returns an array (n_params). 1: some of the values read so far are NaN or infinite. Ranks that read different
 * parts may merge their arrays (max) before they report. */
int32_t *tess_weights_broken(tess_weights *weights);
void tess_weights_report_broken(const tess_weights *weights);

/* BF16 if every weight of the model, without its adapter, is stored as BF16; else F32. */
tess_dtype tess_weights_dtype(const tess_weights *weights);

/* Maps a whole parameter from its file until `weights` is closed. *data becomes NULL if it is stored in another
 * dtype than `dtype`, in pieces, packed or not aligned. Only one thread at a time may call it. */
tess_status tess_weights_map(tess_weights *weights, tess_dtype dtype, int index, const void **data);

/* Returns all parameters whole in `dtype` (tess_param_dtype), in the model's order, for inference in one process. A
 * tensor is mapped from the file if its dtype is the same and its data is aligned; otherwise it is converted (params
 * pool). `weights` owns the array. Reports each tensor with NaN or infinite values. */
tess_status tess_weights_whole(tess_weights *weights, tess_stream *stream, tess_dtype dtype, const void *const **w);

/* Context of tess_random_weights_fill, a tess_fill_fn that gives random initial values. */
typedef struct tess_random_weights {
    const tess_model *model;
    uint64_t seed;
    tess_threads *threads;
} tess_random_weights;
tess_status tess_random_weights_fill(void *random, const char *name, const tess_shape *shape, const tess_box *box,
                                     float *dst);

/* ---- Names, also for callers that read a catalog directly ---- */
/* Lists a catalog under Tessera's names. The model's parameters have their own names there, without prefixes that
 * the catalog puts around them. */
tess_status tess_weights_list(const tess_catalog *catalog, const tess_model *model, tess_export **list);
/* Returns the tensor of a parameter, or NULL if there is none. */
const tess_catalog_tensor *tess_weights_find(const tess_export *list, const char *name);
/* Counts the tensors of a list that no request reads; *first names one of them. Does not count optimizer state,
 * known buffers, or (`tied`) the head of a language model if the model has none of its own. */
int tess_weights_count_unused(const tess_export *list, const tess_catalog_request *requests, int n, bool tied,
                              const char **first);

#endif
