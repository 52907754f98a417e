/* A checkpoint of any format that is read, written as one of any format that is written. */
#ifndef TESS_CKPT_TOOLS_REWRITE_H
#define TESS_CKPT_TOOLS_REWRITE_H

#include "tessera/memory.h"

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

typedef struct tess_rewrite_options {
    tess_target target;
    const char *weights_dtype; /* "F32", "BF16" or "F16" for the model's floating-point tensors; NULL: as they are */
    bool model_only;           /* HF implies it */
    bool bare_names;           /* "layers.0.w" and not "model.layers.0.w"; implies model_only; HF implies it */
    int n_files;               /* TESSERA: data files, as of so many writers; DCP, MEGATRON: as tess_write_options.
                                  0: as many as the source has ranks */
    int64_t step;              /* -1: that of the source */
    size_t shard_bytes;        /* HF: largest weight file; 0: 5 GB */
    const char *assets;        /* HF: folder with config.json and tokenizer; NULL: looked for around the source */
    bool unchecked;            /* what was written is not read again */
    void *self;                /* of the two below, either may be NULL */
    void (*report)(void *self, const char *line);                                 /* what a person should know */
    void (*progress)(void *self, const char *doing, uint64_t done, uint64_t all); /* "write", "check"; bytes */
} tess_rewrite_options;

typedef struct tess_rewrite_result {
    char path[4096]; /* of what was written */
    char source[24]; /* format of the source */
    int n_tensors;
    uint64_t bytes; /* of tensors */
    int64_t step;   /* -1: not known */
} tess_rewrite_result;

/* Streams: some 64 MiB in memory whatever the size of the model. `out` is a file for SAFETENSORS and TORCH, a new or
 * empty folder for HF and DCP, a folder of checkpoints for MEGATRON and TESSERA ("DIR/step-00000012" is taken for DIR
 * and step 12). Nothing that is there is replaced. What was written is opened, and every tensor is compared with the
 * source bit for bit; a difference is TESS_E_IO and names the tensor.
 * TESS_E_INVALID: something is at `out`; the step is not known and the target needs one; TESS_E_UNSUPPORTED: a dtype
 * that the target cannot hold (the message names the tensor); errors of reading; TESS_E_NO_SPACE. After a failure
 * nothing of the new checkpoint stays, except of one that was written whole and did not compare equal. */
tess_status tess_ckpt_rewrite(tess_mem *mem, const char *in, const char *out, const tess_rewrite_options *options,
                              tess_rewrite_result *result);

#endif
