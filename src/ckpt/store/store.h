/* Training checkpoints: saved by all ranks, found, and pruned. store_write.h has what they look like, read.h loads
 * them.
 *
 * Everything is by global name and row, so any number of ranks reads what any number wrote. There is no "latest" file
 * to go stale: the newest is found by looking, and a checkpoint counts when its marker, its manifest's checksum and the
 * sizes of its files are right. */
#ifndef TESS_CKPT_STORE_STORE_H
#define TESS_CKPT_STORE_STORE_H

#include <jansson.h>

#include "ckpt/ckpt_hosts.h"
#include "ckpt/store/tensor.h"
#include "ckpt/store/store_write.h"

/* Writes a checkpoint; one of the same step is replaced at the end, in one step. Collective: all ranks pass the same
 * names, kinds and shapes in the same order. Every rank writes its primary rows into a file of its own; nothing but
 * what is where is gathered. `meta` (borrowed; the first rank's counts) is kept as it is. `team` NULL: alone; `options`
 * NULL: all zero. TESS_E_NO_SPACE, TESS_E_IO, ... on every rank alike: older checkpoints are untouched and nothing of
 * this one stays, unless no more than its last sync failed (the message says so). */
tess_status tess_ckpt_save(tess_mem *mem, tess_team *team, const char *dir, int64_t step, const json_t *meta,
                           const tess_ckpt_tensor *tensors, int n_tensors, const tess_store_options *options);

/* ---- Which checkpoints there are */
/* Hears of what is looked at and does not count. */
typedef struct tess_ckpt_listener {
    void *self;
    void (*note)(void *self, const char *text); /* why; it names the checkpoint. May be NULL */
    const tess_io *io;                          /* asked before each look; NULL: nothing is asked */
} tess_ckpt_listener;

/* The highest complete step; TESS_E_NOT_FOUND when there is none (or no such folder). Damaged ones are passed over;
 * `listener` (may be NULL) hears which, and why. To go on from an older one would lose the work of the newest quietly
 * where that is no damage: TESS_E_UNSUPPORTED: it is of another format; TESS_E_IO, TESS_E_NOMEM: it cannot be looked at
 * now (the message has the cause, and what to do). */
tess_status tess_ckpt_latest(const char *dir, const tess_ckpt_listener *listener, int64_t *step);
/* Of those up to `limit`. */
tess_status tess_ckpt_latest_until(const char *dir, int64_t limit, const tess_ckpt_listener *listener, int64_t *step);

/* What checkpoints were found to be when they were read whole, so that each is read once: of the newest of them. Zeroed
 * at first; a file that was written since, by its size and time, makes a checkpoint another one. */
enum { TESS_CKPT_FINDINGS = 1024 };
typedef struct tess_ckpt_findings {
    int n; /* so far */
    struct {
        uint64_t files; /* hash of their paths, sizes and times */
        bool good;
    } items[TESS_CKPT_FINDINGS];
} tess_ckpt_findings;

typedef struct tess_ckpt_pruner {
    tess_mem *mem;
    const tess_io *io;            /* NULL: nothing is asked */
    tess_ckpt_findings *findings; /* of earlier calls, with this one's; NULL: every call reads anew */
    void *self;
    void (*note)(void *self, const char *text); /* of each that does not count, once: file, piece, why. May be NULL */
} tess_ckpt_pruner;

/* For a pruner's `self` and `note` where there is room for one text: that of the newest, and how many more there are.
 * text (size, 64 at least) is "" at first. */
typedef struct tess_ckpt_notes {
    char *text;
    size_t size;
    int n;
} tess_ckpt_notes;
void tess_ckpt_keep_note(void *notes, const char *text);

/* Of the complete checkpoints up to step `newest`, keeps the newest `keep_latest_k` good ones (0: all) and removes the
 * older ones; and what killed saves left behind. Good is one whose every byte has the checksum of its save: as long as
 * there is something to remove, those that count are read first, the just written one perhaps out of the page cache.
 * One that cannot be read, or is damaged, does not count; what is cut short or of another version is left alone. For
 * one process, while no save is running. */
tess_status tess_ckpt_prune(const tess_ckpt_pruner *pruner, const char *dir, int keep_latest_k, int64_t newest);

/* Those who wrote `step` have read it back: it is good, and is not read here. */
void tess_ckpt_note_good(const tess_ckpt_pruner *pruner, const char *dir, int64_t step);

/* The same in two halves, for a folder of which other hosts have the other parts. */
/* Those that are good and at most `newest`, newest first: the first `most` become steps[0 .. *n). As long as there are
 * no more than `enough` none is read, and *n is 0. */
tess_status tess_ckpt_list_good(const tess_ckpt_pruner *pruner, const char *dir, int64_t newest, int enough, int most,
                                int64_t *steps, int *n);
/* Removes what is older than `step`, unless that itself is not there; and what killed saves left behind. */
tess_status tess_ckpt_prune_below(const tess_ckpt_pruner *pruner, const char *dir, int64_t step);

/* Gives every checkpoint above `step` another name, "step-00000600.aside": damaged or not, it no longer counts, and
 * nothing is lost. *n becomes their number. For one process, while no save is running. */
tess_status tess_ckpt_set_aside(const char *dir, int64_t step, int *n);

/* ---- Host-local folders: `dir` is another folder on every host
 *
 * A host's folder holds the rows of its ranks; its manifest has their pieces and says which host's they are. It is
 * complete when those of all hosts are. Collective over hosts->all, one answer for all. */
tess_status tess_ckpt_save_local(tess_mem *mem, const tess_ckpt_hosts *hosts, const char *dir, int64_t step,
                                 const json_t *meta, const tess_ckpt_tensor *tensors, int n_tensors,
                                 const tess_store_options *options);

/* Collective over the host's ranks. own (n) becomes `tensors` with, as primary rows, those that this rank writes into
 * its host's folder: ranks that hold the same rows share them. */
tess_status tess_ckpt_share(tess_mem *mem, const tess_ckpt_hosts *hosts, const tess_ckpt_tensor *tensors, int n,
                            tess_ckpt_tensor *own);

/* The highest step up to `limit` that is complete on all hosts; *newest: on any of them. TESS_E_NOT_FOUND: no host has
 * one; TESS_E_INVALID: one host has and another has not, or none that is the same. `listener` hears of this host's. */
tess_status tess_ckpt_latest_local(const tess_ckpt_hosts *hosts, const char *dir, int64_t limit,
                                   const tess_ckpt_listener *listener, int64_t *step, int64_t *newest);

/* The newest good step up to `limit` that a host has; -1: none. */
typedef int64_t (*tess_ckpt_newest_good_fn)(void *self, int64_t limit);

/* The `keep`th newest step that is good on every host; -1: there are fewer. Collective; the first rank of a host is
 * asked for it. */
tess_status tess_ckpt_keep_from(const tess_ckpt_hosts *hosts, int keep, tess_ckpt_newest_good_fn newest_good,
                                void *self, int64_t *from);

/* As tess_ckpt_prune, in the folders of all hosts: what counts is good on each of them. Collective, one answer for all;
 * the first rank of a host reads and removes. */
tess_status tess_ckpt_prune_local(const tess_ckpt_pruner *pruner, const tess_ckpt_hosts *hosts, const char *dir,
                                  int keep_latest_k, int64_t newest);

#endif
