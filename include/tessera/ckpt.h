/* Checkpoints of your own engine: a tess_fsdp with its tess_optimizer, tensors that you hold yourself, and a JSON
 * object. They have the format of `tessera train`. `tessera ckpt`, `tessera convert` and any number of ranks read
 * them, whatever the sharding of the ranks that saved them.
 *
 * `folder` is one folder that all ranks can access. It contains a folder "step-00001000" for each checkpoint. A
 * checkpoint is complete or does not exist: it gets its name when every byte is on disk. Each piece has a checksum,
 * which a load verifies.
 *
 * In a checkpoint a tensor NAME is called "model.NAME", and a state of its optimizer "optimizer.NAME.exp_avg" and so
 * on (tess_optimizer_state).
 *
 * Errors name the file, the tensor, the rank that wrote it and the bytes. If a collective call fails, it returns the
 * same status on all ranks. Only one thread of a rank may call these functions at a time. */
#ifndef TESSERA_CKPT_H
#define TESSERA_CKPT_H

#include "tessera/dtensor.h"
#include "tessera/fsdp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* This rank's part of one of your own tensors. */
typedef struct tess_checkpoint_tensor {
    const char *name;
    /* Type of `data`, and of the tensor in the checkpoint. A load converts other floating-point types to float32. */
    tess_dtype dtype;
    tess_shape shape; /* shape of the whole tensor */
    tess_box box;     /* the elements that this rank holds; a scalar counts as [1]; a size of 0: none */
    void *data;       /* these elements, row-major; borrowed. A save reads them, a load writes them */
} tess_checkpoint_tensor;

/* Describes a tess_dtensor. The description borrows the tensor's memory and `name`.
 * TESS_E_INVALID: the tensor has a TESS_PARTIAL axis, so no rank holds its values: redistribute it first */
TESS_API tess_status tess_checkpoint_describe(const char *name, tess_dtensor *tensor,
                                              tess_checkpoint_tensor *described);

/* The contents of a checkpoint. All members may be 0. Ranks must pass the same tensors in the same order; only boxes
 * and data differ. */
typedef struct tess_checkpoint_state {
    tess_fsdp *fsdp;           /* its weights are saved: the float32 masters */
    tess_optimizer *optimizer; /* made by tess_fsdp_optimizer_create for `fsdp`; otherwise TESS_E_INVALID */
    const tess_checkpoint_tensor *tensors;
    int n_tensors;
    /* true: a load ignores tensors of the checkpoint that are not in this state; false: they are TESS_E_INVALID,
     * because a model with fewer layers would otherwise lose them silently */
    bool partial;
} tess_checkpoint_state;

/* Writes a checkpoint. An older one of the same step is replaced only at the end, atomically. Collective over the
 * runtime's ranks. Each rank writes its own elements; ranks that hold the same box divide it among themselves.
 * `meta` is the text of a JSON object, or NULL; the first rank's is stored. All arguments are borrowed until the
 * call returns.
 *   TESS_E_INVALID: a name that is missing or used twice, an unknown dtype, a box outside of its tensor, elements
 *     that no rank holds, boxes of two ranks that overlap in part, or a `meta` that is no object
 *   TESS_E_MISMATCH: ranks pass different tensors
 *   TESS_E_NO_SPACE, TESS_E_IO: nothing of this checkpoint remains; older checkpoints are unchanged
 *   TESS_E_NOMEM, and the errors of collectives */
TESS_API tess_status tess_checkpoint_save(tess_runtime *runtime, const char *folder, int64_t step,
                                          const tess_checkpoint_state *state, const char *meta);

/* ---- Saves during your computation ----
 * Ranks copy their elements into memory that outlives them, and continue; a separate process writes the checkpoint.
 * `tessera run` and `tessera train` start one such process on each host. Once all ranks have copied, the checkpoint
 * will be written even if the ranks end; `tessera run` waits for it.
 *
 * From the saver's creation to its end, the copy takes as much memory on a host as its ranks' part of the checkpoint
 * (TESS_POOL_MISC). If that memory is not available, or no such process is running, saves block their ranks like
 * tess_checkpoint_save, and a warning says so (tess_runtime_warn). */
typedef struct tess_checkpoint_saver tess_checkpoint_saver;

/* Creates a saver and allocates the memory for saves of `state`, which is borrowed during the call. Collective. A
 * process may have one saver at a time.
 *   keep: how many good checkpoints remain in the folder after each save, as in tess_checkpoint_prune; 0: all
 * Errors are those of tess_checkpoint_save that concern `state`, and those of collectives. */
TESS_API tess_status tess_checkpoint_saver_create(tess_runtime *runtime, const tess_checkpoint_state *state, int keep,
                                                  tess_checkpoint_saver **saver);
/* Frees the saver and nulls the handle. Call it before `runtime` is destroyed. A save in progress continues.
 * Collective if there are several hosts. NULL is allowed. */
TESS_API void tess_checkpoint_saver_destroy(tess_checkpoint_saver **saver);
/* Whether a separate process writes the checkpoints. The same on all ranks. */
TESS_API bool tess_checkpoint_saver_is_async(const tess_checkpoint_saver *saver);

/* Copies `state` and starts a save. The result and the errors are those of tess_checkpoint_save. After the call all
 * arguments may be changed or freed. Collective.
 * There is only one copy, so this call first waits for the previous save. If that has failed, it returns its error
 * and starts nothing. */
TESS_API tess_status tess_checkpoint_save_start(tess_checkpoint_saver *saver, const char *folder, int64_t step,
                                                const tess_checkpoint_state *state, const char *meta);
/* Whether this rank's host has nothing left to write, so that a wait is short. Ranks may see it at different times.
 * Costs a few loads; not collective. */
TESS_API bool tess_checkpoint_save_done(const tess_checkpoint_saver *saver);
/* Waits until the save is on disk or has failed. A failure is returned once, on all ranks; older checkpoints are
 * unchanged, and later saves may succeed. Also returns TESS_OK if no save was started since the last wait.
 * Collective. */
TESS_API tess_status tess_checkpoint_save_wait(tess_checkpoint_saver *saver);

/* ---- Loading, and managing the folder ---- */
/* Reads the checkpoint of a step into `state`: weights, moments, and the data of `tensors`. It works on any number
 * of ranks and in any layout. `fsdp` must have been materialized; its gathered copies are refreshed. Collective.
 * After a failure the data is undefined.
 *   TESS_E_NOT_FOUND: there is no such checkpoint
 *   TESS_E_FORMAT: the checkpoint is damaged
 *   TESS_E_INVALID: the checkpoint belongs to another model: a tensor is missing or superfluous, or has another
 *     shape, or has a dtype that cannot be converted; also any reason for which a save is invalid
 *   TESS_E_UNSUPPORTED: the checkpoint has another version */
TESS_API tess_status tess_checkpoint_load(tess_runtime *runtime, const char *folder, int64_t step,
                                          const tess_checkpoint_state *state);

/* Loads the newest checkpoint of the folder and sets *step to its step. If there is no checkpoint, *step is 0,
 * nothing is loaded and the status is TESS_OK. Collective. */
TESS_API tess_status tess_checkpoint_resume(tess_runtime *runtime, const char *folder,
                                            const tess_checkpoint_state *state, int64_t *step);

/* Finds the newest complete step. Skips checkpoints that are truncated or damaged as far as a quick look shows, with
 * a warning (tess_runtime_warn). Collective; if `runtime` is NULL, only for this process.
 * TESS_E_NOT_FOUND: there is no complete step */
TESS_API tess_status tess_checkpoint_newest(tess_runtime *runtime, const char *folder, int64_t *step);

/* Keeps the newest `keep` (at least 1) good checkpoints, which it first reads back. Removes older ones, and files
 * that killed saves have left. A damaged checkpoint does not count, and causes a warning. Collective; the first rank
 * does the work. Wait for a save that you have started first: its files would be removed. */
TESS_API tess_status tess_checkpoint_prune(tess_runtime *runtime, const char *folder, int keep);

/* ---- Not collective, for any process; thread-safe ---- */
/* Returns the JSON object that was saved with a step, as text for free(); NULL: there was none. It can be read
 * before a model exists. */
TESS_API tess_status tess_checkpoint_meta(const char *folder, int64_t step, char **meta);

/* Reads and verifies every byte of a checkpoint.
 * TESS_E_FORMAT: the checkpoint is damaged
 * TESS_E_NOT_FOUND: there is no such checkpoint */
TESS_API tess_status tess_checkpoint_verify(const char *folder, int64_t step);

typedef struct tess_checkpoint_entry {
    int64_t step; /* -1: unknown */
    uint64_t bytes;
    double written_s;  /* time of writing, in seconds since 1970 */
    bool complete;     /* marker, manifest and sizes are correct; tess_checkpoint_verify checks more */
    char name[256];    /* name in the folder */
    char problem[512]; /* why the checkpoint is incomplete; "": it is complete */
} tess_checkpoint_entry;

/* Lists the folder in *entries (*n entries, for free()), by step. The list includes saves that did not finish and
 * checkpoints of other formats that Tessera can read.
 * TESS_E_NOT_FOUND: no such folder, or no checkpoint in it */
TESS_API tess_status tess_checkpoint_list(const char *folder, tess_checkpoint_entry **entries, int *n);

#ifdef __cplusplus
}
#endif

#endif
