/* Converts checkpoints from any format that Tessera reads to any format that it writes. */
#ifndef TESS_CKPT_TOOLS_REWRITE_H
#define TESS_CKPT_TOOLS_REWRITE_H

#include "tessera/dtensor.h"

typedef enum tess_target {
    TESS_TO_HF,          /* a model folder: safetensors, config.json, tokenizer */
    TESS_TO_SAFETENSORS, /* one file */
    TESS_TO_TORCH,       /* one file in the format of torch.save */
    TESS_TO_DCP,         /* a folder that torch.distributed.checkpoint.load reads */
    TESS_TO_MEGATRON,    /* FOLDER/iter_%07d with the same content as DCP, and the file that names the step */
    TESS_TO_TESSERA,     /* FOLDER/step-%08d */
    TESS_TARGETS
} tess_target;

const char *tess_target_name(tess_target target);                     /* "hf", ... */
tess_status tess_target_parse(const char *text, tess_target *target); /* TESS_E_INVALID: the message lists the names */

/* A change of values while they are written to a Hugging Face folder. `apply` adds to (or otherwise changes) the values
 * of a slice of a tensor that `concerns` selects; the tensor has 2 dimensions, and the values are row-major. The slices
 * of a tensor follow each other. */
typedef struct tess_rewrite_change {
    void *self;
    bool (*concerns)(void *self, const char *name); /* selects the tensors to change; NULL: nothing is changed */
    tess_status (*apply)(void *self, const char *name, const tess_box *slice, float *values);
} tess_rewrite_change;

typedef struct tess_rewrite_options {
    tess_target target;
    const char *weights_dtype; /* "F32", "BF16" or "F16" for the model's floating-point tensors; NULL: unchanged */
    bool model_only;           /* leave out the optimizer; HF implies it */
    bool bare_names;           /* use "layers.0.w" instead of "model.layers.0.w"; implies model_only; HF implies it */
    /* TESSERA: number of data files; DCP, MEGATRON: as in tess_write_options. 0: one for each rank of the source */
    int n_files;
    int64_t step;               /* -1: the step of the source */
    size_t shard_bytes;         /* HF: size limit of a weight file; 0: 5 GB */
    const char *assets;         /* HF: folder with config.json and tokenizer; NULL: searched in and above the source */
    tess_rewrite_change change; /* HF: the tensors that it selects are written with changes, and not compared */
    bool unchecked;             /* do not read back what was written */
    void *self;                 /* argument of the two callbacks; either may be NULL */
    /* Receives lines about NaN, overflows, and files and dtypes that stay unchanged */
    void (*report)(void *self, const char *line);
    /* doing: "write" or "check"; done and all are bytes */
    void (*progress)(void *self, const char *doing, uint64_t done, uint64_t all);
} tess_rewrite_options;

typedef struct tess_rewrite_result {
    char path[4096]; /* path of the new checkpoint */
    char source[24]; /* format of the source */
    int n_tensors;
    uint64_t bytes;        /* bytes of all tensors */
    int64_t step;          /* -1: not known */
    int n_files;           /* HF, SAFETENSORS: weight files written; otherwise 0, like the three members below */
    uint64_t n_nan, n_inf; /* number of such values in the source */
    uint64_t n_overflowed; /* number of finite values that became infinite in the new dtype */
} tess_rewrite_result;

/* Converts the checkpoint at `in` and reads the result back: every tensor must be equal bit for bit. Uses about 64 MiB
 * of memory for models of any size.
 *
 * `out` is, depending on the target:
 * - SAFETENSORS, TORCH: a new file
 * - HF, DCP: a new or empty folder
 * - MEGATRON, TESSERA: a folder of checkpoints; "DIR/step-00000012" means DIR and step 12
 * Nothing is replaced.
 *
 * From a model folder to HF (without `assets` and `bare_names`) all names, metadata and other files stay the same, and
 * only the dtype in config.json changes. Any other HF folder gets only the model's parameters under their own names,
 * without the words and dicts that programs put around them; names and shapes must be those of config.json.
 *   TESS_E_INVALID      something is at `out`; the model is not that of config.json (the message lists why); or the
 *     target needs a step and none is known
 *   TESS_E_UNSUPPORTED  the target cannot store a dtype (the message names the tensor)
 *   TESS_E_IO           a tensor reads back different
 *   TESS_E_NO_SPACE; errors of reading
 * After a failure nothing of the new checkpoint remains, unless it only reads back different. */
tess_status tess_ckpt_rewrite(tess_mem *mem, const char *in, const char *out, const tess_rewrite_options *options,
                              tess_rewrite_result *result);

#endif
