/* A rank's side of asynchronous saves: definitions shared by saver.c, stage.c and room.c. */
#ifndef TESS_CKPT_ASYNC_SAVER_IMPL_H
#define TESS_CKPT_ASYNC_SAVER_IMPL_H

#include "ckpt/async/async_impl.h"

struct tess_saver {
    tess_runtime *runtime;
    tess_mem *mem;
    const tess_ckpt_hosts *hosts;
    tess_threads *threads;
    tess_saver_options options;
    async_area area;
    bool owns_fd;    /* area.fd belongs to the saver */
    int keeper_fd;   /* descriptor of the keeper process; readable once the keeper has ended */
    int slot;        /* number of this rank's slot */
    int n_slots;     /* number of ranks on the host */
    uint64_t staged; /* newest generation that this rank has staged, 0: none */
    uint64_t job;    /* unique number of the job, as in async_request */

    tess_ckpt_tensor *own; /* host_local: (n_pieces) the caller's tensors with this rank's share as primary boxes */
    async_piece *pieces;   /* (n_pieces) the pieces in the order of the stage */
    int n_pieces;
    size_t data_bytes, payload; /* size with and without the padding of blocks */
    uint8_t *stage;
    size_t stage_bytes; /* bytes that are mapped */
};

/* ---- stage.c ---- */
/* Assigns the tensors' primary boxes to places in the stage. */
tess_status async_stage_plan(tess_saver *saver, const tess_ckpt_tensor *tensors, int n_tensors);
size_t async_stage_bytes(const tess_saver *saver, size_t text_bytes);
/* Maps memory for the planned pieces and a text. */
tess_status async_stage_map(tess_saver *saver, size_t text_bytes);
void async_stage_unmap(tess_saver *saver);
void async_stage_copy(tess_saver *saver, const tess_ckpt_tensor *tensors);

/* ---- room.c ---- */
/* Checks that the host's memory has room for stages of `bytes` on this rank, the other ranks' stages, and what this job
 * has allocated but not touched yet. Collective over the host's ranks. TESS_E_NOMEM on all of them. */
tess_status async_check_room(const tess_saver *saver, size_t bytes);

#endif
