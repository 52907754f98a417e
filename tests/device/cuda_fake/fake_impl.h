/* The parts of the fake driver. All functions but fake_lock's own are called with the lock held unless they say
 * otherwise. */
#ifndef TESS_TESTS_DEVICE_CUDA_FAKE_FAKE_IMPL_H
#define TESS_TESTS_DEVICE_CUDA_FAKE_FAKE_IMPL_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "device/cuda/cuda_driver.h"
#include "device/cuda_fake/fake_wishes.h"
#include "device/cuda_fake/fake_work.h"

#define EXPORT __attribute__((visibility("default")))
enum {
    INVALID_VALUE = 1,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    PEER_UNSUPPORTED = 217,
    INVALID_HANDLE = 400,
    NOT_READY = 600,
    ALREADY_REGISTERED = 712,
    NOT_SUPPORTED = 801,
    FAKE_DEVICES = 16,
    FAKE_QUEUES = 256 /* the first FAKE_DEVICES are the default queues of the devices */
};

struct CUctx_st {
    bool retained;
};

/* The newest operation of each queue that comes before a point. */
typedef struct fake_clock {
    long at[FAKE_QUEUES];
} fake_clock;

typedef struct fake_operation fake_operation;

struct CUstream_st {
    int slot, device;
    bool lives;
    long enqueued, done; /* numbers of the newest operation that was enqueued, and that has ended */
    fake_clock order;    /* the operations before the next one */
    fake_operation *first, **last;
};

struct CUevent_st {
    bool timed;
    int device;
    cuda_queue queue; /* the queue that it was recorded on; NULL: none */
    long number;      /* the queue's newest operation then */
    fake_clock order;
    struct timespec when;
};

/* ---- fake_driver.c ---- */
extern pthread_mutex_t fake_lock;
long fake_setting(const char *key, long fallback);
/* An error of the program that no real driver needs to report: a message, and the process ends. */
_Noreturn void fake_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool fake_is_broken(void);
bool fake_only_counts(void); /* counts=1 */

/* ---- fake_queue.c: queues and the thread that runs them ---- */
cuda_queue fake_default_queue(int device);
cuda_queue fake_queue_new(int device); /* NULL: there are too many */
void fake_queue_end(cuda_queue queue);
/* Appends an operation. It takes work->self. */
void fake_append(cuda_queue queue, const fake_work *work);
/* The queue's next operation waits until the event's operations have ended. */
void fake_append_wait(cuda_queue queue, const struct CUevent_st *event);
/* Writes the time into the event when the queue comes there. */
void fake_append_stamp(cuda_queue queue, cuda_ticket event);
void fake_forget_ticket(const struct CUevent_st *event);
/* No operation after those that are enqueued ever runs. */
void fake_append_end_of_all(cuda_queue queue);
/* The host waits until the queue's first `number` operations have ended. */
void fake_wait(cuda_queue queue, long number);
void fake_wait_device(int device);

/* ---- fake_order.c: the order of operations ---- */
/* The host has seen what is before this point end. */
void fake_host_sees(const fake_clock *order);
bool fake_host_has_seen(const struct CUstream_st *queue, long number);
void fake_order_begin(cuda_queue queue); /* a new operation of the queue: it comes after all that the host has seen */
/* The queue's newest operation uses memory. A fault: another operation does that nothing puts before it, and one
 * writes. */
void fake_order_use(const struct CUstream_st *queue, const char *name, const fake_operand *operand);
/* Whether an operation writes there of which the host has not seen the end. */
bool fake_order_is_written(const char *begin, size_t bytes);
/* The kernel writes its operand at this place, as was seen. */
void fake_order_learn(const char *name, int place);
bool fake_order_has_learned(const char *name, int place);
/* Faults if an operation uses the memory of which the host has not seen the end. */
void fake_order_expect_unused(const char *begin, size_t bytes, const char *what);

/* ---- fake_memory.c ---- */
/* The end of a block's file, after its memory. */
typedef struct fake_shared {
    int freed; /* 1: its owner has freed it */
} fake_shared;

typedef struct fake_block {
    char *begin;
    size_t bytes;
    bool freed;
    int device;
    int file, owner;     /* file -1: it cannot be shown to others, or is another's */
    int source, opens;   /* another process's block: its owner's file; how often it is open */
    fake_shared *shared; /* NULL: the block is not shown to others */
} fake_block;

/* Faults if the block was freed, by this process or by its owner. */
void fake_block_expect_live(const fake_block *block, const char *what);
/* The block that holds the address, or held it; NULL: it is the host's. */
const fake_block *fake_block_of(const char *at);
size_t fake_memory_used(void);
/* The calls of the driver that are named alike. Each returns the driver's error. */
int fake_room_new(cuda_address *memory, size_t bytes, int device);
int fake_room_free(cuda_address memory);
int fake_room_show(cuda_ipc *ipc, cuda_address memory);
int fake_room_open(cuda_address *memory, const cuda_ipc *ipc, int device);
int fake_room_close(cuda_address memory);
int fake_host_add(void *host, size_t bytes);
int fake_host_remove(void *host);
int fake_host_is_pinned(const char *at, size_t bytes, bool *pinned);

#endif
