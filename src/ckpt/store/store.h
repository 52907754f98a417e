/* Training checkpoints: saved by all ranks, found, and pruned. store_write.h describes their format, read.h loads them.
 *
 * Everything is stored by global name and box, so any number of ranks reads what any number wrote. There is no "latest"
 * file to go stale: the newest checkpoint is found by looking. A checkpoint counts if its marker, its manifest's
 * checksum and the sizes of its files are right. */
#ifndef TESS_CKPT_STORE_STORE_H
#define TESS_CKPT_STORE_STORE_H

#include <jansson.h>

#include "ckpt/ckpt_hosts.h"
#include "ckpt/store/tensor.h"
#include "ckpt/store/store_write.h"

/* Writes a checkpoint, and replaces one of the same step only at the end, at once. Collective: all ranks pass the same
 * names, kinds and shapes in the same order. Every rank writes its primary boxes into its own file; only their
 * positions are gathered. `meta` (borrowed; the first rank's) is stored as it is. `team` NULL: alone; `options` NULL:
 * all zero. All ranks return the same status. After TESS_E_NO_SPACE, TESS_E_IO, ... older checkpoints are untouched and
 * nothing of this one stays, unless only its last sync failed (the message says so). */
tess_status tess_ckpt_save(tess_mem *mem, tess_team *team, const char *dir, int64_t step, const json_t *meta,
                           const tess_ckpt_tensor *tensors, int n_tensors, const tess_store_options *options);

/* Checks what tess_ckpt_save refuses before it writes: a bad box, name or folder, and ranks that pass different
 * tensors. Collective, with the same status on all ranks. */
tess_status tess_ckpt_check_save(tess_team *team, const char *dir, int64_t step, const tess_ckpt_tensor *tensors,
                                 int n_tensors);

/* ---- Finding and pruning checkpoints ---- */
/* Gets a note for each checkpoint that is looked at and does not count. */
typedef struct tess_ckpt_listener {
    void *self;
    void (*note)(void *self, const char *text); /* why; names the checkpoint. May be NULL */
    const tess_io *io;                          /* hooks for each look; NULL: none */
} tess_ckpt_listener;

/* The highest complete step. Passes over damaged checkpoints, and notes each to `listener` (may be NULL). Any other
 * problem with the newest is an error, because falling back to an older one would silently lose its work:
 *   TESS_E_UNSUPPORTED       it has another format
 *   TESS_E_IO, TESS_E_NOMEM  it cannot be looked at now (the message has the cause, and what to do)
 * TESS_E_NOT_FOUND: there is no complete step, or no such folder. */
tess_status tess_ckpt_latest(const char *dir, const tess_ckpt_listener *listener, int64_t *step);
/* The same for steps up to `limit`. */
tess_status tess_ckpt_latest_until(const char *dir, int64_t limit, const tess_ckpt_listener *listener, int64_t *step);

/* The newest results of reading whole checkpoints, so that each is read only once. Zero at first. A file with a new
 * size or time makes its checkpoint a new one. */
enum { TESS_CKPT_FINDINGS = 1024 };
typedef struct tess_ckpt_findings {
    int n; /* number so far */
    struct {
        uint64_t files; /* hash of their paths, sizes and times */
        bool good;
    } items[TESS_CKPT_FINDINGS];
} tess_ckpt_findings;

typedef struct tess_ckpt_pruner {
    tess_mem *mem;
    const tess_io *io;            /* NULL: no hooks */
    tess_ckpt_findings *findings; /* findings of earlier calls; this one adds its own. NULL: every call reads again */
    void *self;
    void (*note)(void *self,
                 const char *text); /* called once for each that does not count: file, piece, why. May be NULL */
} tess_ckpt_pruner;

/* Serves a pruner's `self` and `note`, with room for one text: the note of the newest checkpoint, and the number of
 * further ones. text (size, 64 at least) is "" at first. */
typedef struct tess_ckpt_notes {
    char *text;
    size_t size;
    int n;
} tess_ckpt_notes;
void tess_ckpt_keep_note(void *notes, const char *text);

/* Keeps the newest `keep_latest_k` good checkpoints (0: all) of the complete ones up to step `newest`. Removes older
 * ones, and what killed saves left. For one process, while no save is running.
 * - A checkpoint is good if every byte has the checksum of its save. If there is anything to remove, complete
 *   checkpoints are read first; the newest may come from the page cache.
 * - One that is damaged or cannot be read does not count.
 * - One that is cut short or of another version is left alone. */
tess_status tess_ckpt_prune(const tess_ckpt_pruner *pruner, const char *dir, int keep_latest_k, int64_t newest);

/* Records that the writers of `step` have read it back: it is good, and not read again here. */
void tess_ckpt_note_good(const tess_ckpt_pruner *pruner, const char *dir, int64_t step);

/* The two halves of tess_ckpt_prune, for a checkpoint whose other parts are in other hosts' folders. */
/* The good steps up to `newest`, newest first: the first `most` go to steps[0 .. *n). If there are no more than
 * `enough`, nothing is read and *n is 0. */
tess_status tess_ckpt_list_good(const tess_ckpt_pruner *pruner, const char *dir, int64_t newest, int enough, int most,
                                int64_t *steps, int *n);
/* Removes what is older than `step`, if that itself is there, and what killed saves left. */
tess_status tess_ckpt_prune_below(const tess_ckpt_pruner *pruner, const char *dir, int64_t step);

/* Renames every checkpoint above `step` to "step-00000600.aside": damaged or not, it no longer counts, and nothing is
 * lost. *n becomes their number. For one process, while no save is running. */
tess_status tess_ckpt_set_aside(const char *dir, int64_t step, int *n);

/* ---- Host-local folders: `dir` is another folder on every host ---- A host's folder holds the rows of its ranks. Its
 * manifest lists their pieces and names the host. It is complete when the folders of all hosts are. Collective over
 * hosts->all; all ranks return the same status. ---- */
/* Collective over the host's ranks. own (n) becomes `tensors` with the rows that this rank writes into its host's
 * folder as primary boxes: ranks that hold the same box share it. */
tess_status tess_ckpt_share(tess_mem *mem, const tess_ckpt_hosts *hosts, const tess_ckpt_tensor *tensors, int n,
                            tess_ckpt_tensor *own);

/* The highest step up to `limit` that is complete on all hosts; *newest: on any host. TESS_E_NOT_FOUND: no host has
 * one; TESS_E_INVALID: some hosts have one, but no step is on all. `listener` gets the notes of this host. */
tess_status tess_ckpt_latest_local(const tess_ckpt_hosts *hosts, const char *dir, int64_t limit,
                                   const tess_ckpt_listener *listener, int64_t *step, int64_t *newest);

/* A host's newest good step up to `limit`; -1: none. */
typedef int64_t (*tess_ckpt_newest_good_fn)(void *self, int64_t limit);

/* The `keep`th newest step that is good on every host; -1: there are fewer. Collective; the first rank of each host
 * calls `newest_good`. */
tess_status tess_ckpt_keep_from(const tess_ckpt_hosts *hosts, int keep, tess_ckpt_newest_good_fn newest_good,
                                void *self, int64_t *from);

/* Does what tess_ckpt_prune does in the folders of all hosts: a checkpoint counts if it is good on each. Collective,
 * with the same status on all ranks; the first rank of a host reads and removes. */
tess_status tess_ckpt_prune_local(const tess_ckpt_pruner *pruner, const tess_ckpt_hosts *hosts, const char *dir,
                                  int keep_latest_k, int64_t newest);

#endif
