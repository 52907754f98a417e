/* Saves training checkpoints with all ranks, finds the newest, and prunes old ones. store_write.h describes the format;
 * read.h loads checkpoints.
 *
 * Everything is stored by global name and box, so any number of ranks can read what any number wrote. There is no
 * "latest" file that could become stale: the newest checkpoint is found by looking at the folder. A checkpoint counts
 * if its marker, its manifest's checksum and the sizes of its files are right. */
#ifndef TESS_CKPT_STORE_STORE_H
#define TESS_CKPT_STORE_STORE_H

#include <jansson.h>

#include "ckpt/ckpt_hosts.h"
#include "ckpt/store/tensor.h"
#include "ckpt/store/store_write.h"

/* Writes a checkpoint. One of the same step is replaced only at the end, in one step. Collective: all ranks pass the
 * same names, kinds and shapes in the same order. Every rank writes its primary boxes into its own file; only their
 * positions are gathered. `meta` (borrowed; the first rank's) is stored unchanged. `team` NULL: this process alone.
 * `options` NULL: all zero. All ranks return the same status. After TESS_E_NO_SPACE, TESS_E_IO, ... older checkpoints
 * are unchanged and nothing of this one remains, unless only its last sync failed (the message says so). */
tess_status tess_ckpt_save(tess_mem *mem, tess_team *team, const char *dir, int64_t step, const json_t *meta,
                           const tess_ckpt_tensor *tensors, int n_tensors, const tess_store_options *options);

/* Checks what tess_ckpt_save checks before it writes: boxes, names, the folder, and that all ranks pass the same
 * tensors. Collective, with the same status on all ranks. */
tess_status tess_ckpt_check_save(tess_team *team, const char *dir, int64_t step, const tess_ckpt_tensor *tensors,
                                 int n_tensors);

/* ---- Finding and pruning checkpoints ---- */
/* Receives a note for each checkpoint that was looked at and does not count. */
typedef struct tess_ckpt_listener {
    void *self;
    void (*note)(void *self, const char *text); /* text: names the checkpoint and says why. May be NULL */
    const tess_io *io;                          /* hooks for each look at the disk; NULL: none */
} tess_ckpt_listener;

/* Finds the highest complete step. Skips damaged checkpoints, and passes a note about each to `listener` (may be NULL).
 * Any other problem with the newest checkpoint is an error, because using an older one would silently lose its work:
 *   TESS_E_UNSUPPORTED       it has another format
 *   TESS_E_IO, TESS_E_NOMEM  it cannot be looked at now (the message has the cause, and what to do)
 * TESS_E_NOT_FOUND: there is no complete step, or no such folder. */
tess_status tess_ckpt_latest(const char *dir, const tess_ckpt_listener *listener, int64_t *step);
/* Like tess_ckpt_latest, but only for steps up to `limit`. */
tess_status tess_ckpt_latest_until(const char *dir, int64_t limit, const tess_ckpt_listener *listener, int64_t *step);

/* The most recent results of reading whole checkpoints, so that each is read only once. Zero-initialise it. If a file
 * has a new size or time, its checkpoint counts as a new one. */
enum { TESS_CKPT_FINDINGS = 1024 };
typedef struct tess_ckpt_findings {
    int n; /* number of results so far */
    struct {
        uint64_t files; /* hash of the checkpoint's paths, sizes and times */
        bool good;
    } items[TESS_CKPT_FINDINGS];
} tess_ckpt_findings;

typedef struct tess_ckpt_pruner {
    tess_mem *mem;
    const tess_io *io;            /* NULL: no hooks */
    tess_ckpt_findings *findings; /* results of earlier calls; each call adds its own. NULL: every call reads again */
    void *self;
    void (*note)(void *self,
                 /* Called once for each checkpoint that does not count, with file, piece and reason; may be NULL */
                 const char *text);
} tess_ckpt_pruner;

/* State for tess_ckpt_keep_note, which keeps one text: the note about the newest checkpoint, and the number of further
 * notes. text (size, at least 64) is "" at first. */
typedef struct tess_ckpt_notes {
    char *text;
    size_t size;
    int n;
} tess_ckpt_notes;
void tess_ckpt_keep_note(void *notes, const char *text);

/* Keeps the newest `keep_latest_k` good checkpoints (0: all) of the complete ones up to step `newest`. Removes older
 * ones, and what killed saves left. Only one process may call it, while no save is running.
 * - A checkpoint is good if every byte has the checksum that was computed when it was saved. If there is anything to
 *   remove, complete checkpoints are read first; the newest may be read from the page cache.
 * - A checkpoint that is damaged or cannot be read does not count.
 * - A checkpoint that is cut short or has another version is never removed. */
tess_status tess_ckpt_prune(const tess_ckpt_pruner *pruner, const char *dir, int keep_latest_k, int64_t newest);

/* Records that the writers of `step` have read it back: it is good, and is not read again here. */
void tess_ckpt_note_good(const tess_ckpt_pruner *pruner, const char *dir, int64_t step);

/* ---- The two halves of tess_ckpt_prune, for a checkpoint whose other parts are in other hosts' folders ---- */
/* Lists the good steps up to `newest`, newest first; the first `most` are stored in steps[0 .. *n). If there are at
 * most `enough` steps, nothing is read and *n is 0. */
tess_status tess_ckpt_list_good(const tess_ckpt_pruner *pruner, const char *dir, int64_t newest, int enough, int most,
                                int64_t *steps, int *n);
/* Removes the checkpoints older than `step`, if that step exists, and what killed saves left. */
tess_status tess_ckpt_prune_below(const tess_ckpt_pruner *pruner, const char *dir, int64_t step);

/* Renames every checkpoint above `step` to "step-00000600.aside". Damaged or not, it no longer counts, and nothing is
 * lost. *n is the number of renamed checkpoints. Only one process may call it, while no save is running. */
tess_status tess_ckpt_set_aside(const char *dir, int64_t step, int *n);

/* ---- Host-local folders: `dir` is a separate folder on every host ----
 * A host's folder contains the rows of its ranks. Its manifest lists their pieces and names the host. A checkpoint is
 * complete if the folders of all hosts are complete. Functions are collective over hosts->all; all ranks return the
 * same status. */
/* Divides a host's rows among its ranks: own (n) becomes `tensors` with the rows that this rank writes as primary
 * boxes. Ranks that hold the same box share it. Collective over the host's ranks. */
tess_status tess_ckpt_share(tess_mem *mem, const tess_ckpt_hosts *hosts, const tess_ckpt_tensor *tensors, int n,
                            tess_ckpt_tensor *own);

/* Finds the highest step up to `limit` that is complete on all hosts. *newest: the highest on any host. `listener` gets
 * the notes of this host. TESS_E_NOT_FOUND: no host has a complete step. TESS_E_INVALID: some hosts have one, but no
 * step is on all. */
tess_status tess_ckpt_latest_local(const tess_ckpt_hosts *hosts, const char *dir, int64_t limit,
                                   const tess_ckpt_listener *listener, int64_t *step, int64_t *newest);

/* Returns a host's newest good step up to `limit`; -1: none. */
typedef int64_t (*tess_ckpt_newest_good_fn)(void *self, int64_t limit);

/* Finds the `keep`th newest step that is good on every host; -1: there are fewer. Collective; the first rank of each
 * host calls `newest_good`. */
tess_status tess_ckpt_keep_from(const tess_ckpt_hosts *hosts, int keep, tess_ckpt_newest_good_fn newest_good,
                                void *self, int64_t *from);

/* Like tess_ckpt_prune, in the folders of all hosts: a checkpoint counts if it is good on each host. Collective, with
 * the same status on all ranks; the first rank of each host reads and removes. */
tess_status tess_ckpt_prune_local(const tess_ckpt_pruner *pruner, const tess_ckpt_hosts *hosts, const char *dir,
                                  int keep_latest_k, int64_t newest);

#endif
