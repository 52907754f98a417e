/* The area: memory that the ranks of a host, its writer and the writer's keeper share.
 *
 * Who may write what: the first rank of the host begins a save (request, generation, STAGING); each rank its own slot;
 * whichever rank is the last to be staged makes it QUEUED; the writer takes it (WRITING) and ends it; the keeper ends
 * or queues again what a dead writer had taken. Each step is one compare-and-swap of `state`, so a process may be
 * killed between any two stores: a save that not all have staged is begun anew by the next. */
#ifndef TESS_CKPT_ASYNC_ASYNC_IMPL_H
#define TESS_CKPT_ASYNC_ASYNC_IMPL_H

#include <stdatomic.h>

#include <jansson.h>

#include "base/os/os.h"
#include "ckpt/async/async.h"
#include "ckpt/store/store.h"
#include "inject/inject.h"

enum {
    ASYNC_VERSION = 3,
    ASYNC_SLOTS = 512,
    ASYNC_TEXT = 1024,
    ASYNC_GOOD = 1024, /* steps of a host's own folder that its writer tells of */
    ASYNC_ATTEMPTS = 2 /* at writing one save, by writers that die */
};

#define ASYNC_STAGE_SPAN ((size_t)1 << 40) /* of addresses in the file, not of memory */
#define ASYNC_VARIABLE "TESSERA_SAVES"

typedef enum async_state {
    ASYNC_IDLE,
    ASYNC_STAGING,
    ASYNC_QUEUED,
    ASYNC_WRITING,
    ASYNC_COMMITTED,
    ASYNC_FAILED
} async_state;

/* One rank's stage: [0, data_bytes) is the content of its file, then the text that says what is where. */
typedef struct async_slot {
    _Alignas(64) _Atomic uint64_t staged; /* generation that is whole in here */
    uint64_t data_bytes, text_bytes;
    int32_t rank; /* of the job */
} async_slot;

/* What the writer is asked for; texts (folder, meta, fault, host) are in the first rank's stage. */
typedef struct async_request {
    tess_saver_options options; /* without `fault` */
    int64_t step;
    int64_t keep_from; /* the step before which no host needs its part any more, -1: not known */
    uint64_t job;      /* differs from job to job: files of several hosts' writers carry it */
    int32_t world, host, n_hosts;
} async_request;

typedef struct async_outcome {
    int32_t status; /* tess_status */
    int64_t step;
    uint64_t bytes;
    double seconds;
    char message[ASYNC_TEXT]; /* of a save that failed: why; of others: what all should know, "": nothing */
    /* What is good in a host's own folder, newest first, once that holds more than is to be kept. */
    int32_t n_good;
    int64_t good[ASYNC_GOOD];
} async_outcome;

typedef struct async_header {
    uint32_t version;
    int32_t keeper_pid;
    _Atomic int32_t writer_pid;
    _Alignas(64) _Atomic uint32_t doorbell; /* the writer sleeps on it */
    _Atomic uint32_t changed;               /* ranks and the owner sleep on it */
    _Atomic uint32_t closing;
    _Alignas(64) _Atomic uint32_t state; /* async_state */
    _Atomic uint64_t generation;         /* of the newest save that was begun */
    _Atomic uint64_t heard;              /* generation whose end the ranks know */
    async_request request;               /* of the first rank */
    uint32_t n_slots;                    /* that take part in it */
    uint32_t attempts;                   /* writers that took it */
    _Atomic uint64_t queued_ns;
    async_outcome outcome;            /* valid once COMMITTED or FAILED */
    _Atomic uint32_t deaths;          /* of writers */
    _Atomic uint32_t deaths_reported; /* that the ranks know */
    char death[ASYNC_TEXT / 4];       /* the newest */
    async_slot slots[ASYNC_SLOTS];
} async_header;

typedef struct async_area {
    async_header *header;
    int fd;
} async_area;

tess_status async_area_create(async_area *area);
/* Maps the one behind `fd`, which stays the caller's. TESS_E_INVALID: it is none of this version. */
tess_status async_area_open(int fd, async_area *area);
void async_area_close(async_area *area, bool close_fd);
/* The first `bytes` of a stage. */
tess_status async_area_map_stage(const async_area *area, int slot, size_t bytes, uint8_t **address);

bool async_is_busy(const async_header *header); /* QUEUED or WRITING */
/* One step of the state; everybody who sleeps is woken. False: it was not in `from`. */
bool async_step(async_header *header, async_state from, async_state to);
/* Ends a save that is in `from`. */
void async_end(async_header *header, async_state from, const async_outcome *outcome);

/* ---- stage_copy.c: `to` is at a page */
void async_copy(void *to, const void *from, size_t size);

/* ---- async_request.c: what a rank says of its stage, as JSON behind the data ---- */
/* Where the primary rows of a tensor lie in it. */
typedef struct async_piece {
    tess_ckpt_tensor tensor;
    uint64_t offset, bytes;
} async_piece;

/* `request` (the first rank's; NULL: none): the texts of what the writer is asked for. *text: free. */
tess_status async_request_format(const async_piece *pieces, int n, json_t *request, char **text);
/* Piece `i` of what was formatted, of a stage at `data`; its name and dtype are borrowed. TESS_E_FORMAT: it is not
 * inside `data_bytes`. */
tess_status async_request_piece(const json_t *request, size_t i, const uint8_t *data, uint64_t data_bytes,
                                tess_store_piece *piece);

/* ---- writer.c ---- */
/* A writer's process, from its start to its end. */
typedef struct async_writer {
    tess_mem *mem;
    const async_area *area;
    int owner_fd;         /* of the process that started the service: readable once it has ended */
    tess_faults **faults; /* to inject, by slot; NULL: not known yet. They count from save to save */
    int n_faults;
    tess_ckpt_findings findings; /* of checkpoints that it read back */
} async_writer;

/* Makes a checkpoint of what is staged; fills step and bytes of *outcome. */
typedef tess_status (*async_write_fn)(async_writer *writer, async_outcome *outcome);

/* Returns when the area is closing, or its owner has ended. */
void async_writer_run(const async_area *area, int owner_fd, async_write_fn write);
bool async_owner_has_ended(const async_writer *writer);

/* tess_async_service_start with another way of writing. */
tess_status async_service_start(async_write_fn write, tess_async_service **service);

/* save_stages.c: through ckpt/store. */
tess_status async_write_checkpoint(async_writer *writer, async_outcome *outcome);

/* ---- retain.c ---- */
typedef struct async_retention {
    tess_mem *mem;
    const tess_io *io;
    tess_ckpt_findings *findings;
    async_outcome *outcome; /* takes a note of what is damaged; of a part: what is good */
    const char *dir;
    int64_t step; /* that was just made */
    int keep_latest_k;
    bool was_read;     /* by the writers, before it was committed */
    bool is_part;      /* `dir` is this host's alone, and others have the rest: */
    int64_t keep_from; /* what is older is not needed on any, -1: not known */
} async_retention;

/* Removes what is no longer wanted, once enough newer ones were read and found good. */
tess_status async_retain(const async_retention *retention);

/* ---- parts.c: a checkpoint that the writers of several hosts make together, through files in its folder ---- */
typedef struct async_meeting {
    const char *folder;
    uint64_t job, generation; /* files of other saves are not looked at */
    int host, n_hosts;
    double wait_s;
} async_meeting;

/* The first host's writer has made the folder; the others wait until it has. */
tess_status async_meeting_open(const async_meeting *meeting);
tess_status async_meeting_await_open(const async_meeting *meeting);
/* What a host's writer wrote; where it could not (`part` NULL) `made` and the current error's message say why. */
tess_status async_meeting_leave_part(const async_meeting *meeting, const json_t *part, tess_status made);
/* Waits for the part of `host`, and removes the file. *part is a new reference. TESS_E_TIMEOUT; the error that was
 * left. */
tess_status async_meeting_take_part(const async_meeting *meeting, int host, json_t **part);
void async_meeting_close(const async_meeting *meeting);

#endif
