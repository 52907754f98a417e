/* A Hugging Face model folder to another: other shards, another dtype, the same model. */
#ifndef TESS_CKPT_CONVERT_H
#define TESS_CKPT_CONVERT_H

#include "tessera/memory.h"

typedef struct tess_convert_options {
    const tess_dtype
        *dtype;         /* F32, BF16 or F16 for the floating-point tensors; NULL: every tensor bit for bit as it is */
    size_t shard_bytes; /* 0: 5 GB */
    void (*report)(void *context,
                   const char *line); /* what a person should know: NaNs, values out of range, files left out */
    void (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes); /* of the source */
    void *context;                                                              /* of both; either may be NULL */
} tess_convert_options;

typedef struct tess_convert_result {
    int n_tensors, n_files; /* written: tensors, weight files */
    uint64_t bytes;         /* of tensors */
    uint64_t n_nan, n_inf;  /* found in the source */
    uint64_t n_overflowed;  /* finite values that are infinite in the new dtype */
} tess_convert_result;

/* Reads `in`, writes `out`, which must not exist or be an empty folder. Streams: a few MB in memory whatever the size.
 * Copies config.json (its dtype changed with the weights'), tokenizer and generation files; other formats' weights are
 * left out and reported. `out` appears when all is written and synced, or not at all. `result` may be NULL.
 * TESS_E_INVALID: in and out are the same, out holds something; TESS_E_NOT_FOUND, TESS_E_FORMAT: the source;
 * TESS_E_NO_SPACE. */
tess_status tess_convert(tess_mem *mem, const char *in, const char *out, const tess_convert_options *options,
                         tess_convert_result *result);

#endif
