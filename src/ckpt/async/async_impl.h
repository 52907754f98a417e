/* The area: memory that the ranks of a host, its writer and the writer's keeper share.
 *
 * Each field of the area has one writer at a time:
 * - The first rank of the host begins a save (request, generation, STAGING).
 * - Each rank fills its own slot, and the last rank to stage makes the save QUEUED.
 * - The writer process takes the save (WRITING) and ends it.
 * - If the writer dies, the keeper queues its save again or ends it.
 * Each step is one compare-and-swap of `state`, so a process may be killed between any two stores. If not all ranks
 * have staged a save, the next save replaces it. */
#ifndef TESS_CKPT_ASYNC_ASYNC_IMPL_H
#define TESS_CKPT_ASYNC_ASYNC_IMPL_H

#include <stdatomic.h>

#include <jansson.h>

#include "base/os/os.h"
#include "ckpt/async/async.h"
#include "ckpt/store/store.h"
#include "inject/inject.h"

enum {
    ASYNC_VERSION = 5,
    ASYNC_SLOTS = 512,
    ASYNC_TEXT = 1024,
    ASYNC_GOOD = 1024, /* number of good steps in a host's own folder that its writer can report */
    ASYNC_ATTEMPTS = 2 /* number of attempts at one save if writers die */
};

#define ASYNC_STAGE_SPAN ((size_t)1 << 40) /* addresses in the file, not memory */

typedef enum async_state {
    ASYNC_IDLE,
    ASYNC_STAGING,
    ASYNC_QUEUED,
    ASYNC_WRITING,
    ASYNC_COMMITTED,
    ASYNC_FAILED
} async_state;

/* One rank's stage: [0, data_bytes) is the content of its file; the text that follows describes the pieces. */
typedef struct async_slot {
    _Alignas(64) _Atomic uint64_t staged; /* generation of the save that the stage holds */
    uint64_t data_bytes, text_bytes;
    int32_t rank; /* rank in the job */
    int32_t life; /* number of the rank's life, from 1 (inject/inject.h) */
} async_slot;

/* A save to write. Its texts (folder, meta, fault, host) are in the first rank's stage. */
typedef struct async_request {
    tess_saver_options options; /* the options; `fault` is not used here */
    int64_t step;
    int64_t keep_from; /* every host can do without its parts of steps before this one; -1: not known */
    uint64_t job;      /* unique number of the job; names the files through which the writers of several hosts meet */
    int32_t world, host, n_hosts;
} async_request;

typedef struct async_outcome {
    int32_t status; /* the save's tess_status */
    int64_t step;
    uint64_t bytes;
    double seconds;
    char message[ASYNC_TEXT]; /* why the save failed; after success a warning, or "" */
    /* The good steps in a host's own folder, newest first, if the folder holds more than are to be kept. */
    int32_t n_good;
    int64_t good[ASYNC_GOOD];
} async_outcome;

typedef struct async_header {
    uint32_t version;
    int32_t keeper_pid;
    _Atomic uint32_t keeper_ended; /* the keeper has ended and was reaped, so another process may have its pid */
    _Atomic int32_t writer_pid;
    _Alignas(64) _Atomic uint32_t doorbell; /* the writer sleeps on it until a save is queued */
    _Atomic uint32_t changed;               /* ranks and the owner sleep on it until the state changes */
    _Atomic uint32_t closing;
    _Alignas(64) _Atomic uint32_t state; /* async_state */
    _Atomic uint64_t generation;         /* number of the newest save that has begun */
    _Atomic uint64_t reported;           /* number of the newest save whose end the ranks know */
    async_request request;               /* written by the first rank */
    uint32_t n_slots;                    /* number of ranks that take part in the save */
    uint32_t attempts;                   /* number of writers that have tried the save */
    _Atomic uint64_t queued_ns;
    async_outcome outcome;            /* valid once COMMITTED or FAILED */
    _Atomic uint32_t deaths;          /* number of writers that have died */
    _Atomic uint32_t deaths_reported; /* number of deaths that the ranks have reported */
    char death[ASYNC_TEXT / 4];       /* how the last writer died */
    async_slot slots[ASYNC_SLOTS];
} async_header;

typedef struct async_area {
    async_header *header;
    int fd;
} async_area;

tess_status async_area_create(async_area *area);
/* Maps the area of `fd`, which remains the caller's. TESS_E_INVALID: it is not an area of this version. */
tess_status async_area_open(int fd, async_area *area);
void async_area_close(async_area *area, bool close_fd);
/* Maps the first `bytes` of a stage. */
tess_status async_area_map_stage(const async_area *area, int slot, size_t bytes, uint8_t **address);

bool async_has_ended(int pid_fd);               /* whether the process has ended */
bool async_is_busy(const async_header *header); /* QUEUED or WRITING */
/* Changes the state and wakes all sleepers. False: the state was not `from`. */
bool async_step(async_header *header, async_state from, async_state to);
/* Ends a save whose state is `from`. */
void async_end(async_header *header, async_state from, const async_outcome *outcome);

/* ---- stage_copy.c: memcpy to the beginning of a page, bypassing the caches */
void async_copy(void *to, const void *from, size_t size);

/* ---- async_request.c: the text of a stage, JSON ---- */
/* A tensor's primary box in the stage: its elements, row-major. */
typedef struct async_piece {
    tess_ckpt_tensor tensor;
    uint64_t offset, bytes;
} async_piece;

/* Formats the text of a stage. `request`: the texts of the save, which only the first rank passes; NULL: none. Free
 * *text. */
tess_status async_request_format(const async_piece *pieces, int n, json_t *request, char **text);
/* Reads piece `i` of a stage at `data`. The piece's name and dtype are borrowed. TESS_E_FORMAT: the piece is not inside
 * `data_bytes`. */
tess_status async_request_piece(const json_t *request, size_t i, const uint8_t *data, uint64_t data_bytes,
                                tess_store_piece *piece);

/* ---- service.c ---- */
/* The faults of a rank that the writer injects. They are counted across all saves of this writer. */
typedef struct async_faults {
    int32_t life; /* the rank's life for which they were made; 0: not made yet */
    tess_rank_past past;
    tess_faults *faults; /* NULL: none */
} async_faults;

/* The state of the writer process. */
typedef struct async_writer {
    tess_mem *mem;
    const async_area *area;
    int owner_fd;         /* the process that started the service: readable once it has ended */
    async_faults *faults; /* (n_faults) the faults by slot; NULL: no faults are injected */
    int n_faults;
    tess_ckpt_findings findings; /* results for the checkpoints that it has read back */
} async_writer;

/* Makes a checkpoint of the stages. Sets step and bytes of *outcome. */
typedef tess_status (*async_write_fn)(async_writer *writer, async_outcome *outcome);

/* Like tess_async_service_start, but writes with `write`. */
tess_status async_service_start(async_write_fn write, tess_async_service **service);

/* ---- save_stages.c: writes through ckpt/store */
tess_status async_write_checkpoint(async_writer *writer, async_outcome *outcome);

/* ---- async_meeting.c: lets the writers of several hosts make one checkpoint together, through files in its folder
 * ---- */
typedef struct async_meeting {
    uint64_t job, generation; /* identify the save; files of other saves are ignored */
    int host, n_hosts;
    double wait_s;
    const char *folder; /* the checkpoint's folder, set when the save begins */
} async_meeting;

/* Returns the peers for tess_store_save. `meeting` is borrowed. TESS_E_TIMEOUT: another writer did not come. If another
 * writer fails, the first host's writer fails with the same error. */
tess_store_peers async_meeting_peers(async_meeting *meeting);

#endif
