/* What loading from one folder and from a folder a host have in common. */
#ifndef TESS_CKPT_STORE_LOAD_IMPL_H
#define TESS_CKPT_STORE_LOAD_IMPL_H

#include "ckpt/store/read.h"

typedef struct tess_load {
    tess_mem *mem;
    const tess_ckpt_tensor *tensors;
    int n;
    tess_ckpt_load_options options;
    tess_catalog *catalog;
    tess_catalog_request *requests; /* (n) one a tensor; boxes without rows ask for nothing */
} tess_load;

/* Opens the checkpoint and finds every tensor; on this rank alone. Close it also after a failure. */
tess_status tess_load_open(tess_load *l, const char *dir, int64_t step);
void tess_load_close(tess_load *l);

/* Reads the rows, and agrees with all ranks of the team on the outcome. Collective. */
tess_status tess_load_read(tess_load *l, tess_team *team);
/* Takes the caller's object out, and tells what was being done. */
tess_status tess_load_finish(tess_load *l, tess_status status, int64_t step, json_t **meta);

/* The first row of a tensor that this rank needs and the checkpoint has not; -1: all are there. */
tess_status tess_load_first_missing(const tess_load *l, int tensor, int64_t *row);

/* duty.c: of the pieces that several ranks of a host read, each is left to one to verify. Collective over the host's
 * ranks. */
tess_status tess_load_share_duty(const tess_load *l);

#endif
