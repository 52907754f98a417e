/* Opens a model's folder for inference in one process: configuration, tokenizer, weights in any format that
 * ckpt/catalog reads, and kernels. */
#ifndef TESS_TRAIN_TEXT_MODEL_FOLDER_H
#define TESS_TRAIN_TEXT_MODEL_FOLDER_H

#include "engine/compute.h"
#include "engine/model/weights.h"
#include "data/tokenizer/tokenizer.h"

typedef struct tess_model_folder {
    tess_mem *mem;
    char folder[1024];
    tess_model_config config;
    tess_model *model;
    tess_tokenizer *tokenizer;
    tess_stream *stream; /* host stream */
    tess_weights *weights;
    tess_hooks hooks; /* weights in host memory */
    tess_compute compute;
    tess_dtype dtype;
} tess_model_folder;

typedef struct tess_model_folder_options {
    /* compute dtype: TESS_F32 or TESS_BF16; TESS_DTYPE_COUNT: the dtype of the files (float32 if they are mixed) */
    tess_dtype dtype;
    int64_t max_length;  /* maximum position as given by --max-length; 0: the model's */
    int n_threads;       /* number of threads; 0: all cores */
    const char *device;  /* device name for tess_device_open */
    const char *adapter; /* folder with a LoRA adapter of the model, as PEFT or a run writes it; NULL: none */
} tess_model_folder_options;

tess_status tess_model_folder_open(tess_mem *mem, const char *folder, const tess_model_folder_options *options,
                                   const tess_reporter *reporter, tess_model_folder *opened);
void tess_model_folder_close(tess_model_folder *opened);

#endif
