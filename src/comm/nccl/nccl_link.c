/* Exchanges GPU memory through NCCL. Communicators are non-blocking: a call that needs other ranks only begins, and
 * the communicator's state tells when it has ended. So this file does the waiting, and can stop it at any time. */
#include "comm/nccl/nccl_link.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/os/os.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_report.h"

struct tess_nccl_link {
    const nccl_library *nccl;
    tess_mem *mem;
    tess_device *device;
    tess_nccl_seat seat;
    nccl_communicator communicator;
    const char *what; /* newest call, as messages name it */
    bool broken;      /* the communicator was aborted after an error */
};

static const struct {
    int error;
    tess_status status;
    const char *advice;
} meanings[] = {
    {NCCL_CUDA_ERROR, TESS_E_INTERNAL,
     "a call of CUDA failed: NCCL_DEBUG=WARN names it; the GPU's memory may be full, or the driver older than this "
     "NCCL"},
    {NCCL_SYSTEM_ERROR, TESS_E_IO,
     "NCCL_DEBUG=INFO names the address; NCCL_SOCKET_IFNAME chooses the network, and `tessera doctor env` explains the "
     "variables that are set"},
    {NCCL_INVALID_USAGE, TESS_E_INVALID,
     "two ranks may share a GPU, which NCCL refuses: start one rank a GPU, or give each its own NCCL_HOSTID, with "
     "which "
     "they use the network"},
    {NCCL_REMOTE_ERROR, TESS_E_PEER_LOST, "another rank has ended, or its connection broke"},
};

static tess_status fail_nccl(const nccl_library *nccl, nccl_communicator c, int error, const char *team,
                             const char *what)
{
    tess_status status = TESS_E_INTERNAL;
    const char *advice = "NCCL_DEBUG=WARN says more; all ranks need the same NCCL", *more = nccl->newest_error(c);
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
        if (meanings[i].error == error) {
            status = meanings[i].status;
            advice = meanings[i].advice;
        }
    }
    return TESS_FAIL(status, "team '%s': %s: NCCL (%s): %s (%d)%s%s; %s", team, what, nccl->path,
                     nccl->error_text(error), error, more != NULL && more[0] != '\0' ? ": " : "",
                     more != NULL ? more : "", advice);
}

typedef struct abort_call {
    const nccl_library *nccl;
    nccl_communicator communicator;
} abort_call;

static void *run_abort(void *self)
{
    abort_call *call = self;
    call->nccl->abort(call->communicator); /* NCCL itself makes the GPU's context current */
    free(call);
    return NULL;
}

/* Aborts a communicator. If the GPU itself hangs, NCCL's abort does not return. So another thread calls it, and the
 * rank waits for it for some seconds only: then it reports the error that it has. */
static void abort_within(const nccl_library *nccl, nccl_communicator communicator)
{
    enum { MOST_S = 10 };
    pthread_t thread;
    struct timespec until;
    abort_call *call = malloc(sizeof(*call));
    if (call == NULL)
        return;
    *call = (abort_call){nccl, communicator};
    if (pthread_create(&thread, NULL, run_abort, call) != 0) {
        free(call);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += MOST_S;
    if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until) != 0)
        pthread_detach(thread);
}

/* Ends what the link has enqueued. Until then its streams do not end, and freeing any memory of the GPU would wait for
 * them forever. */
static void give_up(tess_nccl_link *link)
{
    link->broken = true;
    if (link->communicator != NULL)
        abort_within(link->nccl, link->communicator);
    link->communicator = NULL;
}

/* Returns the status of a call on the link. After an error the link is given up. */
static tess_status check(tess_nccl_link *link, int error)
{
    if (error == NCCL_SUCCESS || error == NCCL_IN_PROGRESS)
        return TESS_OK;
    tess_status status = fail_nccl(link->nccl, link->communicator, error, link->seat.name, link->what);
    give_up(link);
    return status;
}

static tess_status look(const tess_nccl_link *link, double waited_s)
{
    const tess_nccl_seat *seat = &link->seat;
    if (seat->look != NULL)
        TESS_TRY_CTX(seat->look(seat->self, waited_s), "team '%s': %s", seat->name, link->what);
    TESS_CHECK(waited_s < seat->deadline_s, TESS_E_TIMEOUT,
               "team '%s': %s: not all %d ranks came within %.3g s; NCCL_DEBUG=INFO says who was reached", seat->name,
               link->what, seat->size, seat->deadline_s);
    return TESS_OK;
}

static tess_status check_whole(const tess_nccl_link *link)
{
    TESS_CHECK(!link->broken, TESS_E_INVALID, "team '%s': NCCL's link has failed before", link->seat.name);
    return TESS_OK;
}

tess_status tess_nccl_settled(tess_nccl_link *link, bool *settled)
{
    int state = NCCL_SUCCESS;
    TESS_TRY(check_whole(link));
    TESS_TRY(check(link, link->nccl->state(link->communicator, &state)));
    TESS_TRY(check(link, state));
    *settled = state == NCCL_SUCCESS;
    return TESS_OK;
}

/* Most calls have ended at the first check. */
tess_status tess_nccl_wait(tess_nccl_link *link)
{
    enum { QUICK_LOOKS = 200 };
    static const struct timespec quick = {.tv_nsec = 20000}, slow = {.tv_nsec = 2000000};
    double begin_s = tess_os_now_s();
    for (int n = 0;; n++) {
        bool settled = false;
        TESS_TRY(tess_nccl_settled(link, &settled));
        if (settled)
            return TESS_OK;
        tess_status status = n < QUICK_LOOKS ? TESS_OK : look(link, tess_os_now_s() - begin_s);
        if (status != TESS_OK)
            give_up(link);
        TESS_TRY(status);
        nanosleep(n < QUICK_LOOKS ? &quick : &slow, NULL);
    }
}

tess_status tess_nccl_id_create(nccl_id *id)
{
    const nccl_library *nccl;
    TESS_TRY(tess_nccl_open(&nccl));
    int error = nccl->id_create(id);
    return error == NCCL_SUCCESS ? TESS_OK : fail_nccl(nccl, NULL, error, "new", "make an id");
}

/* ---- Creation ---- */
tess_status tess_nccl_check(tess_device *device)
{
    const nccl_library *nccl;
    TESS_TRY(tess_nccl_open(&nccl));
    return tess_cuda_device_enter(device);
}

tess_status tess_nccl_check_overlap(tess_device *device)
{
    const nccl_library *nccl;
    TESS_TRY(tess_nccl_open(&nccl));
    const int version = nccl->version_number;
    TESS_CHECK(version >= NCCL_OVERLAP_VERSION, TESS_E_UNSUPPORTED,
               "%s is NCCL %d.%d.%d, in which a thread can have one unfinished group: 2.27.3 or newer is needed; "
               "install " TESS_NCCL_PACKAGES,
               nccl->path, version / 10000, version / 100 % 100, version % 100);
    return tess_cuda_device_enter(device);
}

static tess_status begin(tess_nccl_link *link)
{
    const tess_nccl_seat *seat = &link->seat;
    nccl_config config = {.size = sizeof(config),
                          .magic = NCCL_MAGIC,
                          .version = NCCL_LEAST_VERSION,
                          .blocking = 0,
                          .cluster_size = NCCL_UNDEFINED,
                          .least_blocks = NCCL_UNDEFINED,
                          .most_blocks = NCCL_UNDEFINED,
                          .network = NULL,
                          .shares_resources = NCCL_UNDEFINED};
    TESS_TRY(tess_nccl_open(&link->nccl));
    TESS_TRY(tess_cuda_device_enter(link->device));
    return check(link, link->nccl->create(&link->communicator, seat->size, seat->id, seat->rank, &config));
}

tess_status tess_nccl_link_create(tess_mem *mem, tess_device *device, const tess_nccl_seat *seat, tess_nccl_link **out)
{
    tess_nccl_link *link;
    *out = NULL;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_COMM, sizeof(*link), "NCCL's link", (void **)&link));
    *link = (tess_nccl_link){.mem = mem, .device = device, .seat = *seat, .what = "connect to the other ranks"};
    tess_status status = begin(link);
    if (status != TESS_OK)
        tess_nccl_link_destroy(&link, false);
    *out = link;
    return status;
}

/* ---- Use ---- */
static int enqueue(const tess_nccl_link *link, void *queue, const tess_nccl_message *m)
{
    return m->sends ? link->nccl->send(m->data, m->bytes, NCCL_BYTES, m->peer, link->communicator, queue)
                    : link->nccl->recv(m->data, m->bytes, NCCL_BYTES, m->peer, link->communicator, queue);
}

tess_status tess_nccl_begin(tess_nccl_link *link, tess_stream *stream, const tess_nccl_message *messages, int n)
{
    void *queue;
    TESS_TRY(check_whole(link));
    TESS_CHECK(tess_stream_device(stream) == link->device, TESS_E_INVALID,
               "team '%s': the stream belongs to another device than the link", link->seat.name);
    TESS_TRY(tess_cuda_stream_queue(stream, &queue));
    link->what = "exchange messages";
    TESS_TRY(check(link, link->nccl->group_start()));
    int error = NCCL_SUCCESS;
    for (int i = 0; i < n && (error == NCCL_SUCCESS || error == NCCL_IN_PROGRESS); i++)
        if (messages[i].bytes > 0)
            error = enqueue(link, queue, &messages[i]);
    int at_end = link->nccl->group_end(); /* called even after an error, because the group belongs to the thread */
    TESS_TRY(check(link, error));
    return check(link, at_end);
}

void tess_nccl_link_destroy(tess_nccl_link **handle, bool orderly)
{
    tess_nccl_link *link = *handle;
    if (link == NULL)
        return;
    if (link->communicator != NULL) {
        link->what = "take leave of the other ranks";
        tess_cuda_device_enter(link->device);
        orderly = orderly && check(link, link->nccl->finalize(link->communicator)) == TESS_OK &&
                  tess_nccl_wait(link) == TESS_OK;
        if (orderly)
            link->nccl->destroy(link->communicator);
        else
            give_up(link);
    }
    tess_mem_free(link->mem, link);
    *handle = NULL;
}
