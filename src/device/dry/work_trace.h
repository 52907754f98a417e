/* The work of a rank's step, in order: calls of kernels, operations between ranks, and waits for them. Dry ranks record
 * it (device/dry_device.h, comm/dry/dry_runtime.h), and plan/ computes times from it. Equal calls are one entry with a
 * count, so a deep model has few entries. */
#ifndef TESS_DEVICE_DRY_WORK_TRACE_H
#define TESS_DEVICE_DRY_WORK_TRACE_H

#include "device/kernel_rows.h"
#include "tessera/clock.h"
#include "tessera/memory.h"

enum { TESS_CALL_SIZES = 4, TESS_CALL_SAMPLES = 7, TESS_WORK_NAME = 32 };

/* Calls that are no rows of a kernel table: copies and fills of a stream. Their numbers follow those of the rows. */
enum { TESS_CALL_COPY = TESS_KERNEL_ROW_COUNT, TESS_CALL_FILL, TESS_CALL_KINDS };

/* The properties that distinguish calls of kernels. There is no padding, because keys are compared as bytes. */
typedef struct tess_call_key {
    int32_t kind;                  /* a tess_kernel_row_id, or one of the numbers above */
    int32_t variant;               /* tess_kernel_row.variant */
    int32_t dtype, to_dtype;       /* dtypes of the first and the last operand that the call has */
    int64_t size[TESS_CALL_SIZES]; /* rows and columns of the first operand, and of the second */
    double bytes, flops;           /* tess_kernel_work of one call */
} tess_call_key;

typedef struct tess_call {
    tess_call_key key;
    int64_t n;     /* number of calls */
    int n_samples; /* number of measured times */
    double sample_s[TESS_CALL_SAMPLES];
} tess_call;

/* An operation between ranks. If its team is TESS_WORK_HOST_TEAM, it is a copy between the device and the host, which
 * runs next to the kernels. */
typedef struct tess_work_op {
    int32_t team; /* index of the team */
    int32_t kind; /* tess_trace_op */
    int32_t peer; /* rank of the job at the other end of a message; -1: no message */
    uint32_t tag;
    double bytes; /* received from other ranks; a SEND: sent bytes */
} tess_work_op;

#define TESS_WORK_HOST_TEAM "host"
typedef struct tess_work_team {
    char name[TESS_WORK_NAME];
    int size, n_local; /* ranks, and those on this host */
    int first, stride; /* the lowest rank of the job in it, and the distance to the next */
} tess_work_team;

typedef enum tess_work_what { TESS_WORK_CALL, TESS_WORK_ISSUE, TESS_WORK_WAIT } tess_work_what;

typedef struct tess_work_event {
    uint8_t what;   /* tess_work_what */
    uint8_t phase;  /* tess_phase */
    uint32_t index; /* index of the call or the operation */
} tess_work_event;

/* Runs and times a call that a dry stream counts. */
typedef struct tess_call_timer {
    void *self;
    int n_samples; /* times of each distinct call, at most TESS_CALL_SAMPLES */
    tess_status (*time)(void *self, const tess_kernel_row *row, const void *args, double *seconds);
} tess_call_timer;

typedef struct tess_work_trace {
    tess_mem *mem;                 /* not that of the dry rank */
    const tess_phase_clock *clock; /* its phase is that of the events; NULL: OTHER */
    const tess_call_timer *timer;  /* NULL: no call runs */
    bool even_experts;             /* experts get equal numbers of rows; false: those that need most memory */
    tess_call *calls;
    tess_work_op *ops;
    tess_work_team *teams;
    tess_work_event *events;
    size_t n_calls, n_ops, n_teams, n_events;
    size_t calls_room, ops_room, teams_room, events_room;
    uint32_t *table; /* (table_size) index + 1 of calls by their hash */
    size_t table_size;
    tess_status status; /* status of the recording; calls after a failure are not recorded */
} tess_work_trace;

/* Returns the median of a call's measured times. */
double tess_call_median(const tess_call *call);
/* Returns the name of a call's kind. */
const char *tess_call_name(int kind);

/* Adds a call. Returns its index, or -1 after a failure. */
int tess_work_trace_call(tess_work_trace *trace, const tess_call_key *key);
tess_call_key tess_call_key_of(tess_kernel_row_id id, const void *args);
/* Adds an operation. Returns its index, or -1 after a failure. */
int tess_work_trace_issue(tess_work_trace *trace, const tess_work_team *team, const tess_work_op *op);
void tess_work_trace_wait(tess_work_trace *trace, int op);
void tess_work_trace_free(tess_work_trace *trace);

#endif
