/* Hooks for an executor whose device is not the host, around hooks whose parameters and gradients lie in host memory: a
 * unit's parameters go to the device before it runs, its gradients come back before they are reduced.
 *
 * Copies have streams of their own, one each way. A parameter's upload waits for the last use of its place on the
 * device, the unit waits for its upload, and no hook lets go of host memory that a copy still reads or writes. */
#ifndef TESS_NN_STAGING_H
#define TESS_NN_STAGING_H

#include "nn/model.h"

typedef struct tess_staging tess_staging;

typedef struct tess_staging_options {
    tess_dtype dtype; /* of parameters */
    bool constant;    /* weights never change: each unit is uploaded once, and has its own place; no gradients */
} tess_staging_options;

/* `stream` is the executor's. model, stream and *inner->self are borrowed; inner is copied. */
tess_status tess_staging_create(tess_stream *stream, const tess_model *model, const tess_hooks *inner,
                                const tess_staging_options *options, tess_staging **staging);
/* The executor is destroyed, or makes no more calls. */
void tess_staging_destroy(tess_staging **staging);

tess_hooks tess_staging_hooks(tess_staging *staging);

#endif
