/* A rank's side of asynchronous saves, private to saver.c, stage.c and room.c. */
#ifndef TESS_CKPT_ASYNC_SAVER_IMPL_H
#define TESS_CKPT_ASYNC_SAVER_IMPL_H

#include "ckpt/async/async_impl.h"

enum { TESS_SAVER_META_BYTES = 256 << 10 }; /* room kept for what the caller says of a save */

struct tess_saver {
    tess_runtime *runtime;
    tess_mem *mem;
    const tess_ckpt_hosts *hosts;
    tess_threads *threads;
    tess_saver_options options;
    async_area area;
    bool owns_fd;    /* of the area */
    int keeper_fd;   /* of the keeper's process: readable once it has ended */
    int slot;        /* this rank's */
    int n_slots;     /* ranks of the host */
    uint64_t staged; /* newest generation that this rank has staged, 0: none */
    uint64_t job;    /* differs from job to job: files of several hosts' writers carry it */

    tess_ckpt_tensor *own; /* host_local: (n_pieces) what is passed, with the rows that this rank writes there */
    async_piece *pieces;   /* (n_pieces) as they lie in the stage */
    int n_pieces;
    size_t data_bytes, payload; /* with and without what fills blocks */
    uint8_t *stage;
    size_t stage_bytes; /* mapped */
};

/* ---- stage.c ---- */
/* Lays the tensors' primary rows out. */
tess_status async_stage_plan(tess_saver *saver, const tess_ckpt_tensor *tensors, int n_tensors);
size_t async_stage_bytes(const tess_saver *saver, size_t text_bytes);
/* Memory for what was planned and a text. */
tess_status async_stage_map(tess_saver *saver, size_t text_bytes);
void async_stage_unmap(tess_saver *saver);
void async_stage_copy(tess_saver *saver, const tess_ckpt_tensor *tensors);

/* ---- agree_on_save.c ---- */
/* Every host has a folder of its own. */
bool async_is_apart(const tess_saver *saver);
bool async_keeper_has_ended(const tess_saver *saver);
/* Generation of the next save into `dir`, on all hosts alike; of hosts that have folders of their own, the step before
 * which they need none any more, -1: not known. Collective, once everybody has waited for the writer. */
tess_status async_agree_on_save(tess_saver *saver, const char *dir, uint64_t *generation, int64_t *keep_from);

/* ---- room.c ---- */
/* Collective over the host's ranks. TESS_E_NOMEM, on all of them: stages of `bytes` on this rank, and what the others
 * ask for, do not fit beside what this job has allocated and not touched yet. */
tess_status async_check_room(const tess_saver *saver, size_t bytes);

#endif
