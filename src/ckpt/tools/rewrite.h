/* Converts checkpoints: from any format that Tessera reads to any format that it writes. */
#ifndef TESS_CKPT_TOOLS_REWRITE_H
#define TESS_CKPT_TOOLS_REWRITE_H

#include "tessera/dtensor.h"

typedef enum tess_target {
    TESS_TO_HF,          /* a model folder: safetensors, config.json, tokenizer */
    TESS_TO_SAFETENSORS, /* one file */
    TESS_TO_TORCH,       /* one file, as of torch.save */
    TESS_TO_DCP,         /* a folder that torch.distributed.checkpoint.load reads */
    TESS_TO_MEGATRON,    /* FOLDER/iter_%07d of the same, and the file that names the step */
    TESS_TO_TESSERA,     /* FOLDER/step-%08d */
    TESS_TARGETS
} tess_target;

const char *tess_target_name(tess_target target);                     /* "hf", ... */
tess_status tess_target_parse(const char *text, tess_target *target); /* TESS_E_INVALID lists the names */

/* A change of values on their way to a Hugging Face folder. apply: adds to (or else changes) the values of a slice of a
 * tensor of 2 dimensions, row-major, that `concerns`; a tensor's slices follow each other. */
typedef struct tess_rewrite_change {
    void *self;
    bool (*concerns)(void *self, const char *name); /* NULL: nothing is changed */
    tess_status (*apply)(void *self, const char *name, const tess_box *slice, float *values);
} tess_rewrite_change;

typedef struct tess_rewrite_options {
    tess_target target;
    const char *weights_dtype;  /* "F32", "BF16" or "F16" for the model's floating-point tensors; NULL: as they are */
    bool model_only;            /* leave out the optimizer; HF implies it */
    bool bare_names;            /* "layers.0.w" and not "model.layers.0.w"; implies model_only; HF implies it */
    int n_files;                /* TESSERA: number of data files; DCP, MEGATRON: as in tess_write_options.
                                   0: as many as the source has ranks */
    int64_t step;               /* -1: that of the source */
    size_t shard_bytes;         /* HF: largest weight file; 0: 5 GB */
    const char *assets;         /* HF: folder with config.json and tokenizer; NULL: searched around the source */
    tess_rewrite_change change; /* HF: tensors that it concerns are written changed, and not compared */
    bool unchecked;             /* does not read back what was written */
    void *self;                 /* argument of the two below; either may be NULL */
    void (*report)(void *self, const char *line); /* NaN, overflows, files and dtypes that stay as they are */
    void (*progress)(void *self, const char *doing, uint64_t done, uint64_t all); /* "write", "check"; bytes */
} tess_rewrite_options;

typedef struct tess_rewrite_result {
    char path[4096]; /* path of the new checkpoint */
    char source[24]; /* format of the source */
    int n_tensors;
    uint64_t bytes;        /* bytes of tensors */
    int64_t step;          /* -1: not known */
    int n_files;           /* HF, SAFETENSORS: weight files written; 0 for the others, as the three below */
    uint64_t n_nan, n_inf; /* values of the source */
    uint64_t n_overflowed; /* finite values that are infinite in the new dtype */
} tess_rewrite_result;

/* Converts the checkpoint at `in` and reads the result back: every tensor must be equal bit for bit. Streams: some
 * 64 MiB in memory whatever the size of the model.
 * out  SAFETENSORS, TORCH: a new file. HF, DCP: a new or empty folder. MEGATRON, TESSERA: a folder of checkpoints;
 *      "DIR/step-00000012" means DIR and step 12. Nothing is replaced.
 * From a model folder to HF (without `assets` and `bare_names`) all names, metadata and other files stay, and
 * config.json changes only its dtype.
 * Another HF folder gets the model's parameters under its own names, without the words and dicts that programs put
 * around them, and nothing else: names and shapes must be those of config.json.
 * TESS_E_INVALID: something is at `out`; it is not the model of config.json (the message lists why); the step is not
 * known and the target needs one; TESS_E_UNSUPPORTED: the target cannot hold a dtype (the message names the tensor);
 * TESS_E_IO: a tensor reads back different; TESS_E_NO_SPACE; errors of reading. After a failure nothing of the new
 * checkpoint stays, unless it only reads back different. */
tess_status tess_ckpt_rewrite(tess_mem *mem, const char *in, const char *out, const tess_rewrite_options *options,
                              tess_rewrite_result *result);

#endif
