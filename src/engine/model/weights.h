/* The weights of a checkpoint of any format (ckpt/catalog), matched against a model's parameters by name and shape. */
#ifndef TESS_ENGINE_MODEL_WEIGHTS_H
#define TESS_ENGINE_MODEL_WEIGHTS_H

#include "base/core/reporter.h"
#include "ckpt/formats/export_catalog.h"

typedef struct tess_weights tess_weights;

/* Opens the checkpoint at `path`. Every parameter must be there with its shape, but for those of adapters, and those
 * that stand next to a model (tess_param.beside), which then begin as they are made; TESS_E_NOT_FOUND and TESS_E_FORMAT
 * name the first that is not. Reports tensors that the model does not use. `model` is borrowed. */
tess_status tess_weights_open(tess_mem *mem, const char *path, const tess_model *model, const tess_reporter *reporter,
                              tess_weights **weights);
/* The adapter's parameters from a folder of PEFT's, or a run's. TESS_E_NOT_FOUND, TESS_E_FORMAT: it is not one of this
 * model, whole. Before this call nothing may be asked of them. */
tess_status tess_weights_add_adapter(tess_weights *weights, const char *folder);
void tess_weights_close(tess_weights **weights);

/* A tess_fill_fn: context is the tess_weights. Remembers which tensors hold NaN or infinite values. */
tess_status tess_weights_fill(void *weights, const char *name, const tess_shape *shape, const tess_box *box,
                              float *dst);

/* (n_params) 1: values read so far are NaN or infinite. Ranks that read different parts may merge these (max) before
 * they report. */
int32_t *tess_weights_broken(tess_weights *weights);
void tess_weights_report_broken(const tess_weights *weights);

/* BF16 if every weight of the model, without its adapter, is stored in it, else F32. */
tess_dtype tess_weights_dtype(const tess_weights *weights);

/* A whole parameter where it lies in its file, mapped until `weights` is closed; *data NULL: it is stored in another
 * dtype than `dtype`, in pieces, packed or not aligned. By one thread at a time. */
tess_status tess_weights_map(tess_weights *weights, tess_dtype dtype, int index, const void **data);

/* All parameters whole in `dtype`, in the model's order, for inference in one process. A tensor is mapped from the file
 * if its dtype is the same and its data is aligned, else converted (params pool). `weights` owns the array. Reports
 * each tensor with NaN or infinite values. */
tess_status tess_weights_whole(tess_weights *weights, tess_stream *stream, tess_dtype dtype, const void *const **w);

/* The same fill from random initial values. */
typedef struct tess_random_weights {
    const tess_model *model;
    uint64_t seed;
    tess_threads *threads;
} tess_random_weights;
tess_status tess_random_weights_fill(void *random, const char *name, const tess_shape *shape, const tess_box *box,
                                     float *dst);

/* ---- Names, also for those that read a catalog themselves ---- */
/* Lists a catalog under Tessera's names, in which the model's parameters have their own, whatever stands around them in
 * the catalog. */
tess_status tess_weights_list(const tess_catalog *catalog, const tess_model *model, tess_export **list);
/* The tensor of a parameter; NULL: none. */
const tess_catalog_tensor *tess_weights_find(const tess_export *list, const char *name);
/* Counts the tensors of a list that no request reads; *first names one. Does not count state of optimizers, known
 * buffers, or (`tied`) a language model's head that the model does not have. */
int tess_weights_count_unused(const tess_export *list, const tess_catalog_request *requests, int n, bool tied,
                              const char **first);

#endif
