/* The place where an executor runs: the host, or a device that computes on copies of what the host keeps. */
#ifndef TESS_ENGINE_COMPUTE_H
#define TESS_ENGINE_COMPUTE_H

#include "device/device.h"
#include "nn/staging.h"

typedef struct tess_compute {
    tess_device *device;
    tess_stream *stream;   /* the executor's */
    tess_staging *staging; /* NULL: on the host, or resident */
    tess_hooks hooks;      /* the executor's */
    bool apart;            /* the device is not the host, and the stream is this one's own */
    bool resident;         /* and parameters and gradients of hooks are its memory already */
} tess_compute;

/* Opens the device that is called `name`, for caller `number` of the host (as in tess_device_open). On the host the
 * stream is `host`, else one with as many threads. */
tess_status tess_compute_open(const char *name, int number, tess_stream *host, tess_compute *compute);
/* The same for a rank of the job, whose environment says its number on the host. */
tess_status tess_compute_open_of_rank(const char *name, int rank, tess_stream *host, tess_compute *compute);
/* Makes the executor's hooks from those of the host, or, where they are resident, takes them as they are. */
tess_status tess_compute_hooks(tess_compute *compute, const tess_model *model, const tess_hooks *hooks,
                               const tess_staging_options *options);
/* After the executor. One that was never opened is fine. */
void tess_compute_close(tess_compute *compute);

#endif
