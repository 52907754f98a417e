/* Hooks for an executor whose device is not the host, around hooks whose parameters and gradients lie in host memory: a
 * unit's parameters go to the device before it runs, its gradients come back before they are reduced.
 *
 * Copies have streams of their own, one each way. A parameter's upload waits for the last use of its place on the
 * device, the unit waits for its upload, and no hook releases host memory that a copy still reads or writes. Where
 * parameters, or gradients, of a unit follow each other, and fill pages of their own, these are pinned when they
 * are first met: a gathered copy and a window are used again and again. */
#ifndef TESS_NN_STAGING_H
#define TESS_NN_STAGING_H

#include "nn/model.h"

typedef struct tess_staging tess_staging;

typedef struct tess_staging_options {
    tess_dtype dtype; /* type of parameters */
    bool constant;    /* weights never change: each unit is uploaded once, and has its own place; no gradients */
    /* The device may pin the memory of the inner hooks' parameters, or gradients, for faster copies: it stays where it
     * is until the staging is destroyed. */
    bool pins_params, pins_grads;
} tess_staging_options;

/* The result of pinning. */
typedef struct tess_staging_pins {
    size_t pinned_bytes, refused_bytes;
    char refusal[400]; /* the first one's reason; "" */
} tess_staging_pins;

/* `stream` is the executor's. model, stream and *inner->self are borrowed; inner is copied. */
tess_status tess_staging_create(tess_stream *stream, const tess_model *model, const tess_hooks *inner,
                                const tess_staging_options *options, tess_staging **staging);
/* The executor is destroyed, or makes no more calls. */
void tess_staging_destroy(tess_staging **staging);

tess_hooks tess_staging_hooks(tess_staging *staging);

/* Bytes of the device's memory once every unit has run. A unit whose gradients are never asked for takes less. */
size_t tess_staging_bytes(const tess_model *model, const tess_staging_options *options);

const tess_staging_pins *tess_staging_pinned(const tess_staging *staging);

#endif
