/* Checkpoints of an engine of your own: a tess_fsdp with its tess_optimizer, tensors that you hold yourself, and a JSON
 * object. They are the checkpoints of `tessera train`: `tessera ckpt`, `tessera convert` and any number of ranks read
 * them, however the ranks that saved were sharded.
 *
 * `folder` is one folder that all ranks see. It holds a folder "step-00001000" for each checkpoint. A checkpoint is
 * complete or does not exist: it gets its name when every byte is on disk. Each piece has a checksum, which a load
 * verifies.
 *
 * In a checkpoint a tensor NAME is "model.NAME", and a state of its optimizer "optimizer.NAME.exp_avg" and so on
 * (tess_optimizer_state).
 *
 * Errors name the file, the tensor, the rank that wrote it and the bytes. After one of a call that is collective, all
 * ranks have the same status. One thread of a rank at a time. */
#ifndef TESSERA_CKPT_H
#define TESSERA_CKPT_H

#include "tessera/dtensor.h"
#include "tessera/fsdp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor of your own on this rank. */
typedef struct tess_checkpoint_tensor {
    const char *name;
    tess_dtype
        dtype; /* type of `data`, and in the checkpoint. A load converts other floating-point dtypes to float32 */
    tess_shape shape; /* shape of the whole tensor */
    tess_box box;     /* the elements of it that this rank holds, of a scalar as of [1]; a size of 0: none */
    void *data;       /* those elements, row-major; borrowed. A save reads them, a load writes them */
} tess_checkpoint_tensor;

/* Describes a tess_dtensor, whose memory it borrows, as does `name`. TESS_E_INVALID: it has a TESS_PARTIAL axis, so no
 * rank holds the values: redistribute it first. */
TESS_API tess_status tess_checkpoint_describe(const char *name, tess_dtensor *tensor,
                                              tess_checkpoint_tensor *described);

/* The contents of a checkpoint. All members may be 0. Ranks pass the same tensors in the same order, boxes and data
 * aside.
 */
typedef struct tess_checkpoint_state {
    tess_fsdp *fsdp;           /* its weights: float32 masters */
    tess_optimizer *optimizer; /* made by tess_fsdp_optimizer_create for `fsdp`; otherwise TESS_E_INVALID */
    const tess_checkpoint_tensor *tensors;
    int n_tensors;
    bool partial; /* a load leaves out what the checkpoint holds besides; false: that is TESS_E_INVALID, because a model
                   * with fewer layers would lose them silently */
} tess_checkpoint_state;

/* Writes a checkpoint, and replaces one of the same step only at the end, at once. Collective over the runtime's ranks.
 * Each rank writes what it holds; ranks that hold the same box share it. `meta` is the text of a JSON object, or NULL;
 * the first rank's is stored. Everything is borrowed until the call returns.
 *   TESS_E_INVALID                  a name twice or none, no dtype, a box outside of its tensor, elements that no rank
 * holds, boxes of two ranks that overlap in part, `meta` is no object TESS_E_MISMATCH                 ranks pass
 * different tensors TESS_E_NO_SPACE, TESS_E_IO      older checkpoints are untouched, and nothing of this one stays
 *   TESS_E_NOMEM and the errors of collectives */
TESS_API tess_status tess_checkpoint_save(tess_runtime *runtime, const char *folder, int64_t step,
                                          const tess_checkpoint_state *state, const char *meta);

/* ---- Saves during your computation ----
 * Ranks copy what they hold into memory that outlives them, and go on; a separate process writes the checkpoint.
 * `tessera run` and `tessera train` start this process, one a host. Once all ranks have copied, the checkpoint comes
 * even if they end; `tessera run` waits for it.
 *
 * The copy takes as much memory of a host as its ranks' part of the checkpoint, from the saver's creation to its end
 * (TESS_POOL_MISC). Where that memory is not there, or nobody started the process, saves stop their ranks as
 * tess_checkpoint_save does, and tess_runtime_warn says so. */
typedef struct tess_checkpoint_saver tess_checkpoint_saver;

/* Takes the memory for saves of `state`. Collective; `state` is borrowed for the call. One at a time in a process.
 * keep  good checkpoints that stay in the folder after each save, as tess_checkpoint_prune; 0: all
 * The errors of tess_checkpoint_save that concern `state`, and those of collectives. */
TESS_API tess_status tess_checkpoint_saver_create(tess_runtime *runtime, const tess_checkpoint_state *state, int keep,
                                                  tess_checkpoint_saver **saver);
/* Frees it and nulls the handle, before `runtime` is destroyed. A save that was started goes on. Collective over
 * several hosts. NULL is fine. */
TESS_API void tess_checkpoint_saver_destroy(tess_checkpoint_saver **saver);
/* Whether a separate process writes. The same on all ranks. */
TESS_API bool tess_checkpoint_saver_is_async(const tess_checkpoint_saver *saver);

/* Copies `state` and starts a save, which otherwise is that of tess_checkpoint_save, as are the errors. Everything may
 * be changed or freed after the call. Collective.
 * There is one copy, so this first waits for the save before. If that failed, its error is returned and nothing is
 * started. */
TESS_API tess_status tess_checkpoint_save_start(tess_checkpoint_saver *saver, const char *folder, int64_t step,
                                                const tess_checkpoint_state *state, const char *meta);
/* Whether nothing is left to write on this rank's host, so that a wait is short. Ranks may see it at different times.
 * A few loads; not collective. */
TESS_API bool tess_checkpoint_save_done(const tess_checkpoint_saver *saver);
/* Waits until the save is on disk, or has failed: then its error, once, on all ranks; older checkpoints are untouched,
 * and later saves may succeed. TESS_OK: also if none was started since the last wait. Collective. */
TESS_API tess_status tess_checkpoint_save_wait(tess_checkpoint_saver *saver);

/* ---- Loading, and looking after the folder ---- */
/* Reads the checkpoint of a step into `state`, at any number of ranks and in any layout: weights, moments, and the data
 * of `tensors`. `fsdp` is materialized before; its gathered copies are renewed. Collective. After a failure the data is
 * undefined.
 *   TESS_E_NOT_FOUND    no such checkpoint
 *   TESS_E_FORMAT       it is damaged
 *   TESS_E_INVALID      it belongs to another model: a tensor is missing, too many, has another shape, or a dtype that
 *                       is not read as the tensor's; or any reason of a save
 *   TESS_E_UNSUPPORTED  the checkpoint has another version */
TESS_API tess_status tess_checkpoint_load(tess_runtime *runtime, const char *folder, int64_t step,
                                          const tess_checkpoint_state *state);

/* Loads the newest checkpoint of the folder, if there is one: *step becomes its step, else 0 (nothing is loaded, and
 * the status is TESS_OK). Collective. */
TESS_API tess_status tess_checkpoint_resume(tess_runtime *runtime, const char *folder,
                                            const tess_checkpoint_state *state, int64_t *step);

/* The newest complete step. Passes over checkpoints that are cut short or damaged at a look, with a warning
 * (tess_runtime_warn). Collective; `runtime` NULL: this process alone. TESS_E_NOT_FOUND: no complete step. */
TESS_API tess_status tess_checkpoint_newest(tess_runtime *runtime, const char *folder, int64_t *step);

/* Keeps the newest `keep` (1 at least) good checkpoints, which are read back first, and removes older ones and what
 * killed saves left. Collective; the first rank works. A damaged one does not count, with a warning. Wait for a save
 * that was started first: what it has written would be removed. */
TESS_API tess_status tess_checkpoint_prune(tess_runtime *runtime, const char *folder, int keep);

/* ---- Not collective, for any process; thread-safe ---- */
/* The JSON object that was saved with a step, as text for free(); NULL: none was. Read it before a model exists. */
TESS_API tess_status tess_checkpoint_meta(const char *folder, int64_t step, char **meta);

/* Reads every byte of a checkpoint. TESS_E_FORMAT: it is damaged, see above. TESS_E_NOT_FOUND. */
TESS_API tess_status tess_checkpoint_verify(const char *folder, int64_t step);

typedef struct tess_checkpoint_entry {
    int64_t step; /* -1: not stated */
    uint64_t bytes;
    double written_s;  /* since 1970 */
    bool complete;     /* marker, manifest and sizes are right; tess_checkpoint_verify says more */
    char name[256];    /* name in the folder */
    char problem[512]; /* "": complete */
} tess_checkpoint_entry;

/* *entries (*n, for free()): what is in the folder, by step; also saves that did not finish and checkpoints of other
 * formats that Tessera reads. TESS_E_NOT_FOUND: no such folder, or no checkpoint in it. */
TESS_API tess_status tess_checkpoint_list(const char *folder, tess_checkpoint_entry **entries, int *n);

#ifdef __cplusplus
}
#endif

#endif
