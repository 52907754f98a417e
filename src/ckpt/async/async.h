/* Saves checkpoints while training continues. Ranks copy their rows into shared memory and continue; one writer process
 * per host makes a checkpoint of the copies.
 *
 *     starter of ranks -------- keeper ---- writer         keeper: starts another writer when one dies
 *             |                    (area: a memory file)
 *           ranks ----- stage ------- doorbell ----------> writes, commits, prunes, reports the outcome
 *
 * The memory file ("area") holds the state of the newest save, and a stage for each rank. The file outlives the ranks:
 * once all have copied, the save becomes a checkpoint even if ranks die.
 *
 *     idle -> staging -> queued -> writing -> committed | failed -> staging ...
 *
 * Each rank has only one stage, so a save waits until the previous one has ended. All ranks learn of a failed save in
 * the same step. */
#ifndef TESS_CKPT_ASYNC_ASYNC_H
#define TESS_CKPT_ASYNC_ASYNC_H

#include "base/os/threads.h"
#include "ckpt/ckpt_hosts.h"
#include "ckpt/store/tensor.h"
#include "ckpt/store/store_write.h"

/* ---- The service: for the process that starts ranks, before it has threads ---- */
typedef struct tess_async_service tess_async_service;

/* Creates the area and forks the keeper, which forks the writer. The variable TESSERA_SAVES names the area to programs
 * and forked children that this process starts from now on. Only one service at a time per process. */
tess_status tess_async_service_start(tess_async_service **service);
/* Reaps a keeper that was killed. The ranks notice its end themselves and report it. NULL is fine. */
void tess_async_service_look(tess_async_service *service);
/* Lets the writer finish its save, waits until it has ended, frees everything and nulls the handle. NULL is fine. If
 * this process dies instead, the writer finishes its save and ends. */
void tess_async_service_stop(tess_async_service **service);

/* ---- A rank's side; collective calls are collective over hosts->all ---- */
typedef struct tess_saver tess_saver;

typedef struct tess_saver_options {
    tess_codec codec;
    bool direct;        /* bypass the page cache */
    bool host_local;    /* each host has its own folder */
    int keep_latest_k;  /* number of checkpoints that the writer keeps when it prunes after a commit; 0: all */
    double host_wait_s; /* longest time that one host's writer waits for another's */
    const char *fault;  /* fault to inject into the writer's saves (src/inject); NULL: none; borrowed */
    uint64_t fault_seed;
} tess_saver_options;

/* Creates a rank's side of the service. Collective. *saver becomes NULL on all ranks if a host has no service. The
 * arguments are borrowed. */
tess_status tess_saver_create(tess_runtime *runtime, const tess_ckpt_hosts *hosts, tess_threads *threads,
                              const tess_saver_options *options, tess_saver **saver);
void tess_saver_destroy(tess_saver **saver); /* NULL is fine; a save in progress continues */

/* Allocates the stage for these tensors now instead of in the first save. Collective. Counted in MISC. TESS_E_NOMEM on
 * all ranks: a host lacks the memory (the message says how much is needed and free). */
tess_status tess_saver_prepare(tess_saver *saver, const tess_ckpt_tensor *tensors, int n_tensors);

typedef struct tess_saver_times {
    double waited_s; /* time that this save waited for the previous one */
    double staged_s; /* time of the copy, during which training stood still */
    int64_t bytes;   /* bytes that this rank copied */
} tess_saver_times;

/* Copies the tensors and queues the save for the writer. Collective; the arguments are those of tess_ckpt_save. After
 * tess_saver_prepare for the same tensors it fails only if a rank is lost. */
tess_status tess_saver_save(tess_saver *saver, const char *dir, int64_t step, const json_t *meta,
                            const tess_ckpt_tensor *tensors, int n_tensors, tess_saver_times *times);

/* Turns off pruning in all later saves: a job that must end soon has no time to read checkpoints back. */
void tess_saver_hurry(tess_saver *saver);

/* Whether this rank has an outcome or a warning to report. If any rank has, all ranks call tess_saver_hear. Costs a few
 * loads. */
bool tess_saver_has_news(const tess_saver *saver);

typedef struct tess_saver_outcome {
    /* Whether a save of this host was committed since the last call; if so, the next three members are set */
    bool committed;
    int64_t step;
    double seconds; /* time from the end of the last rank's copy to the end of the save */
    uint64_t bytes; /* bytes of this host's files */
    /* A writer died and was replaced, or a checkpoint is damaged and does not count for keep_latest_k; "": no
     * warning */
    char warning[1024];
} tess_saver_outcome;

/* Returns the outcome of the newest save once; *outcome is empty if there is nothing new. Collective. A save that
 * failed on any host is an error on all ranks. Older checkpoints are unchanged then, and later saves may succeed. */
tess_status tess_saver_hear(tess_saver *saver, tess_saver_outcome *outcome);

/* Whether this host's writer still has a save to write. */
bool tess_saver_is_busy(const tess_saver *saver);
/* Waits until this host's writer has nothing to write. TESS_E_PEER_LOST: a rank was lost meanwhile. */
tess_status tess_saver_wait(tess_saver *saver);

#endif
