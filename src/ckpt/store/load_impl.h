/* Shared by loading from one folder and from one folder per host. */
#ifndef TESS_CKPT_STORE_LOAD_IMPL_H
#define TESS_CKPT_STORE_LOAD_IMPL_H

#include "ckpt/store/read.h"

typedef struct tess_load {
    tess_mem *mem;
    const tess_ckpt_tensor *tensors;
    int n;
    tess_ckpt_load_options options;
    tess_catalog *catalog;
    tess_catalog_request *requests; /* (n) one per tensor; an empty box requests nothing */
} tess_load;

/* Opens the checkpoint and finds every tensor, on this rank alone. Close it also after a failure. */
tess_status tess_load_open(tess_load *l, const char *dir, int64_t step);
void tess_load_close(tess_load *l);

/* Reads the rows, and agrees on the outcome with all ranks of the team. Collective. */
tess_status tess_load_read(tess_load *l, tess_team *team);
/* Takes the caller's object out, closes, and adds context to an error. */
tess_status tess_load_finish(tess_load *l, tess_status status, int64_t step, json_t **meta);

/* The first row of a tensor that this rank needs and the checkpoint lacks; -1: none. */
tess_status tess_load_first_missing(const tess_load *l, int tensor, int64_t *row);

/* duty.c: of the ranks of a host that read a piece, one is to verify it. Collective over the host's ranks. */
tess_status tess_load_share_duty(const tess_load *l);

#endif
