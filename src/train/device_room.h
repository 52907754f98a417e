/* The memory that ranks find on their GPUs, before any rank has opened one. */
#ifndef TESS_TRAIN_DEVICE_ROOM_H
#define TESS_TRAIN_DEVICE_ROOM_H

#include "config/config.h"
#include "tessera/memory.h"

/* A GPU as a rank of a host sees it. */
typedef struct tess_device_seen {
    int32_t host;   /* number of the host */
    char place[32]; /* the GPU's address in its host */
    int64_t left;   /* bytes that are free; 0: the device does not say */
} tess_device_seen;

/* Looks at the GPUs of the configuration that ranks first .. first + n of this host get, and sets `host` to 0. A child
 * process opens them, one after another, so that this one has none open when it starts ranks or opens its own. Ranks
 * that may share a GPU must not look at the same time, because an open GPU has less memory left.
 * TESS_E_*: a GPU cannot be opened; the message is the device's. TESS_E_TIMEOUT: its driver does not answer */
tess_status tess_device_look(const tess_config *config, int first, int n, tess_device_seen *seen);

/* Returns the bytes that are free for the rank that has least of `n`. Ranks that share a GPU share its memory. 0: a
 * device does not say. */
int64_t tess_device_least_share(const tess_device_seen *seen, int n);

#endif
