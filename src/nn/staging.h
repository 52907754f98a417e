/* Hooks for an executor whose device is not the host. They wrap hooks whose parameters and gradients are in host
 * memory: a unit's parameters are brought to the device before it runs, and its gradients are taken home before they
 * are reduced (device/home/home.h). No hook releases host memory that a copy still reads or writes. */
#ifndef TESS_NN_STAGING_H
#define TESS_NN_STAGING_H

#include "device/home/home.h"
#include "nn/model.h"

typedef struct tess_staging tess_staging;

typedef struct tess_staging_options {
    tess_dtype dtype; /* type of parameters */
    /* The weights never change: each unit has its own place and is uploaded once; there are no gradients */
    bool constant;
    /* The device may pin the memory of the inner hooks' parameters, or gradients, for faster copies. That memory
     * must not move until the staging is destroyed. */
    bool pins_params, pins_grads;
} tess_staging_options;

typedef tess_home_pins tess_staging_pins;

/* Creates the staging. `stream` is the executor's. Borrows model, stream and *inner->self; copies inner. */
tess_status tess_staging_create(tess_stream *stream, const tess_model *model, const tess_hooks *inner,
                                const tess_staging_options *options, tess_staging **staging);
/* Destroys the staging. The executor must be destroyed before, or make no more calls. */
void tess_staging_destroy(tess_staging **staging);

tess_hooks tess_staging_hooks(tess_staging *staging);

/* Bytes of device memory in use once every unit has run. It is less if some units never open their gradients. */
size_t tess_staging_bytes(const tess_model *model, const tess_staging_options *options);

const tess_staging_pins *tess_staging_pinned(const tess_staging *staging);

#endif
