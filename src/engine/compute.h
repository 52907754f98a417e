/* The device on which an executor runs: the host, or a device that computes on copies of host memory. */
#ifndef TESS_ENGINE_COMPUTE_H
#define TESS_ENGINE_COMPUTE_H

#include "device/device.h"
#include "nn/staging.h"

enum { TESS_SHARDS_TEXT = 320 };

typedef struct tess_compute {
    tess_device *device;
    tess_stream *stream;   /* the executor's stream */
    tess_staging *staging; /* copies between host and device; NULL: the device is the host, or resident */
    tess_hooks hooks;      /* hooks of the executor */
    bool apart;            /* the device is not the host, and this object owns the stream */
    bool resident;         /* apart, and parameters and gradients of hooks are already in its memory */
    double team_flops;     /* peak operations per second of the devices of all ranks together; 0: not measured */
    char shards_note[TESS_SHARDS_TEXT]; /* the place of the shards, and the reason (shards.h); "": nothing to report */
} tess_compute;

/* Opens the device `name` for caller `number` on this host (as in tess_device_open). On the host the stream is
 * `host`; otherwise it is a new stream with as many threads. */
tess_status tess_compute_open(const char *name, int number, tess_stream *host, tess_compute *compute);
/* Returns the number of a rank on its host, by the environment: the device that it opens follows from it. */
tess_status tess_compute_number(int rank, int *number);
/* Opens the device for a rank of the job. */
tess_status tess_compute_open_of_rank(const char *name, int rank, tess_stream *host, tess_compute *compute);
/* Makes the executor's hooks: wraps `hooks` in staging if their memory is on the host and the device is not;
 * otherwise uses them unchanged. */
tess_status tess_compute_hooks(tess_compute *compute, const tess_model *model, const tess_hooks *hooks,
                               const tess_staging_options *options);
/* Closes the device. Destroy the executor first. A zeroed object that was never opened is allowed. */
void tess_compute_close(tess_compute *compute);

#endif
