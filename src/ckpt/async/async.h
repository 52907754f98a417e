/* Saving while training goes on: ranks copy what they own into shared memory and go on; one writer process a host makes
 * a checkpoint of the copies.
 *
 *     whoever starts ranks ---- keeper ---- writer         keeper: starts a writer anew when it dies, says what of
 *             |                    (area: a memory file)
 *           ranks ----- stage ------- doorbell ----------> writes, commits, prunes, says how it went
 *
 * The memory file ("area") holds the state of the newest save, and a stage a rank. It outlives ranks: what they had
 * all copied becomes a checkpoint whatever happens to them.
 *
 *     idle -> staging -> queued -> writing -> committed | failed -> staging ...
 *
 * A save waits for the one before: there is one stage. Errors of a save are heard of by all ranks, in one step. */
#ifndef TESS_CKPT_ASYNC_ASYNC_H
#define TESS_CKPT_ASYNC_ASYNC_H

#include "base/os/threads.h"
#include "ckpt/ckpt_hosts.h"
#include "ckpt/store/tensor.h"
#include "ckpt/store/store_write.h"

/* ---- The service: for whoever starts ranks, before it has threads ---- */
typedef struct tess_async_service tess_async_service;

/* Makes the area and forks the keeper, which forks the writer. Processes that this one starts from now on find the area
 * by the variable TESSERA_SAVES, programs and forked children alike. One at a time in a process. */
tess_status tess_async_service_start(tess_async_service **service);
/* Waits until nothing is left to write: before ranks are started anew. Not longer than timeout_s. */
void tess_async_service_drain(tess_async_service *service, double timeout_s);
/* Lets the writer finish what it has, waits until it has ended, gives everything back and nulls the handle. NULL is
 * fine. If this process dies instead, the writer finishes and ends by itself. */
void tess_async_service_stop(tess_async_service **service);

/* ---- A rank's side; calls that are collective are so over hosts->all ---- */
typedef struct tess_saver tess_saver;

typedef struct tess_saver_options {
    tess_codec codec;
    bool direct;        /* past the page cache */
    bool host_local;    /* a folder of its own on every host */
    int keep_latest_k;  /* pruned to by the writer after a commit; 0: all are kept */
    double host_wait_s; /* how long one host's writer waits for another's */
    const char *fault;  /* to inject where the writer saves, NULL: none (src/inject); borrowed */
    uint64_t fault_seed;
} tess_saver_options;

/* Collective. *saver becomes NULL, on all ranks, where those of a host have no service. What is passed is borrowed. */
tess_status tess_saver_create(tess_runtime *runtime, const tess_ckpt_hosts *hosts, tess_threads *threads,
                              const tess_saver_options *options, tess_saver **saver);
void tess_saver_destroy(tess_saver **saver); /* NULL is fine; a save under way goes on */

/* Makes room for copies of these tensors now, so that the first save does not have to. Collective. TESS_E_NOMEM on all
 * ranks: a host's memory does not allow it (the message says how much was missing). Counted in MISC. */
tess_status tess_saver_prepare(tess_saver *saver, const tess_ckpt_tensor *tensors, int n_tensors);

typedef struct tess_saver_times {
    double waited_s; /* for the save before */
    double staged_s; /* in which training stood still, without that */
    int64_t bytes;   /* that this rank copied */
} tess_saver_times;

/* Copies, and leaves the rest to the writer. Collective; the arguments are those of tess_ckpt_save. After
 * tess_saver_prepare for the same tensors nothing but a lost rank can fail here. */
tess_status tess_saver_save(tess_saver *saver, const char *dir, int64_t step, const json_t *meta,
                            const tess_ckpt_tensor *tensors, int n_tensors, tess_saver_times *times);

/* From here on saves remove nothing: a job that has to end soon has no time to read back what older ones go for. */
void tess_saver_hurry(tess_saver *saver);

/* Whether this rank knows of something that all have to hear of: then they call tess_saver_hear. A few loads. */
bool tess_saver_has_news(const tess_saver *saver);

typedef struct tess_saver_outcome {
    bool committed; /* since the last call a save of this host was finished, and well: */
    int64_t step;
    double seconds;     /* from the copies being whole to the end */
    uint64_t bytes;     /* of this host's files */
    char warning[1024]; /* a writer died, and another took its place; a checkpoint is damaged and does not count among
                           those that are kept; "": nothing of the kind */
} tess_saver_outcome;

/* How the newest save went, if that is known and was not heard yet; else *outcome is empty. Collective. A failed save
 * is an error on all ranks alike, of the host where it failed; older checkpoints stand, and saving may go on. */
tess_status tess_saver_hear(tess_saver *saver, tess_saver_outcome *outcome);

/* Waits until this host's writer has nothing left to write. TESS_E_PEER_LOST: a rank was lost meanwhile. */
tess_status tess_saver_wait(tess_saver *saver);
/* Whether it has. */
bool tess_saver_is_busy(const tess_saver *saver);

#endif
