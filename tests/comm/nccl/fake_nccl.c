/* A libnccl.so.2 for tests without a GPU: ranks of one machine over Unix sockets, memory of GPUs is the host's. A call
 * that needs other ranks goes on in a thread, and its communicator is in progress until it has ended. As the real one
 * does, it wants a GPU's context in the thread that makes a communicator, refuses two members on one GPU of a host
 * (NCCL_HOSTID names it), waits forever for a member that does not come, and matches messages between two ranks
 * in their order. An exchange has its place in the queue; its communicator is in progress until it has ended.
 * NCCL_FAKE="version=21700,fail=ncclGroupEnd:2:6": fake_wishes.h; "hang": it stays in progress. */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "comm/nccl/nccl_library.h"
#include "device/cuda/cuda_driver.h"
#include "device/cuda_fake/fake_wishes.h"
#include "device/cuda_fake/fake_work.h"

#define EXPORT __attribute__((visibility("default")))
enum { MOST_RANKS = 64, TICK_MS = 5 };

typedef struct message {
    struct message *next;
    char *data;
    uint64_t bytes, done;
    size_t head_done; /* bytes of the head, which goes first */
} message;

/* Messages of one direction, in order. */
typedef struct lane {
    message *first, **last;
} lane;

typedef struct hello {
    int rank;
    char host[64], bus[32];
} hello;

/* The place of an exchange in its queue: what is enqueued before it ends first, and what comes after waits for it. */
typedef struct turn {
    atomic_bool has_come, is_over;
    atomic_int users;
} turn;

enum { MOST_OPERANDS = 256 };

struct ncclComm {
    int rank, size, listener;
    uint64_t number;
    hello me;
    int fd[MOST_RANKS];
    lane out[MOST_RANKS], in[MOST_RANKS];
    atomic_int state;
    atomic_bool stops;
    bool hangs, in_group;
    pthread_t thread;
    turn *turn;       /* the newest exchange's; NULL: none */
    cuda_queue queue; /* the group's queue */
    fake_operand operands[MOST_OPERANDS];
    int n_operands;
    struct ncclComm *next_in_group;
};

static _Thread_local struct ncclComm *group;
static _Thread_local int depth;
static char newest[256];

#define X(type, name, symbol, parameters) EXPORT type fake_##name parameters __asm__(symbol);
NCCL_LIST(X)
#undef X

static void tick(void)
{
    nanosleep(&(struct timespec){.tv_nsec = TICK_MS * 1000000}, NULL);
}

/* ---- Meeting ---- */
/* A file: the hosts that tests make of network namespaces have one file system. */
static struct sockaddr_un address_of(uint64_t number, int rank, socklen_t *size)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof(a.sun_path), "/tmp/fake-nccl-%016llx-%d", (unsigned long long)number, rank);
    *size = (socklen_t)sizeof(a);
    return a;
}

/* Nobody comes any more. */
static void forget_address(const struct ncclComm *c)
{
    socklen_t size;
    unlink(address_of(c->number, c->rank, &size).sun_path);
}

static int swap_hellos(int fd, const hello *mine, hello *theirs)
{
    return send(fd, mine, sizeof(*mine), MSG_NOSIGNAL) == (ssize_t)sizeof(*mine) &&
                   recv(fd, theirs, sizeof(*theirs), MSG_WAITALL) == (ssize_t)sizeof(*theirs)
               ? 0
               : -1;
}

static int greet(struct ncclComm *c, int fd)
{
    hello peer;
    if (swap_hellos(fd, &c->me, &peer) != 0)
        return NCCL_REMOTE_ERROR;
    c->fd[peer.rank] = fd;
    if (strcmp(peer.host, c->me.host) != 0 || strcmp(peer.bus, c->me.bus) != 0)
        return NCCL_SUCCESS;
    snprintf(newest, sizeof(newest), "Duplicate GPU detected : rank %d and rank %d both on %s", c->rank, peer.rank,
             c->me.bus);
    return NCCL_INVALID_USAGE;
}

/* Ranks above this one come to it; it goes to those below. */
static int meet(struct ncclComm *c)
{
    int error = NCCL_SUCCESS, n_met = 0;
    for (int peer = 0; peer < c->rank && error == NCCL_SUCCESS; peer++) {
        socklen_t size;
        struct sockaddr_un a = address_of(c->number, peer, &size);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        while (connect(fd, (struct sockaddr *)&a, size) != 0) {
            if (c->stops)
                return NCCL_SUCCESS;
            tick();
        }
        error = greet(c, fd);
    }
    while (n_met < c->size - 1 - c->rank && error == NCCL_SUCCESS && !c->stops) {
        struct pollfd p = {.fd = c->listener, .events = POLLIN};
        if (poll(&p, 1, TICK_MS) != 1)
            continue;
        error = greet(c, accept4(c->listener, NULL, NULL, SOCK_CLOEXEC));
        n_met++;
    }
    forget_address(c);
    return error;
}

/* ---- Messages ---- */
static void push(lane *l, message *m)
{
    if (l->first == NULL)
        l->last = &l->first;
    *l->last = m;
    l->last = &m->next;
}

static void pop(lane *l)
{
    message *m = l->first;
    l->first = m->next;
    free(m);
}

static int receive_or_send(int fd, bool sends, void *data, size_t bytes, ssize_t *n)
{
    *n = sends ? send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, data, bytes, MSG_DONTWAIT);
    if (*n > 0)
        return NCCL_SUCCESS;
    bool waits = *n < 0 && (errno == EAGAIN || errno == EINTR);
    *n = 0;
    return waits ? NCCL_IN_PROGRESS : NCCL_REMOTE_ERROR;
}

/* A part of a lane's first message. */
static int advance(int fd, lane *l, bool sends)
{
    message *m = l->first;
    ssize_t n;
    uint64_t bytes = m->bytes;
    if (m->head_done < sizeof(bytes)) {
        char *head = (char *)&m->bytes;
        static _Thread_local char theirs[sizeof(bytes)];
        int error = receive_or_send(fd, sends, sends ? head + m->head_done : theirs + m->head_done,
                                    sizeof(bytes) - m->head_done, &n);
        m->head_done += (size_t)n;
        if (!sends && m->head_done == sizeof(bytes) && memcmp(theirs, head, sizeof(bytes)) != 0) {
            snprintf(newest, sizeof(newest), "a message has another size than its receiver expects");
            return NCCL_INTERNAL_ERROR;
        }
        return error;
    }
    int error = receive_or_send(fd, sends, m->data + m->done, bytes - m->done, &n);
    m->done += (uint64_t)n;
    if (m->done == bytes)
        pop(l);
    return error;
}

static int drain(int fd, lane *l, bool sends)
{
    int error = NCCL_SUCCESS;
    while (l->first != NULL && error == NCCL_SUCCESS)
        error = advance(fd, l, sends);
    return error == NCCL_IN_PROGRESS ? NCCL_SUCCESS : error;
}

static int exchange(struct ncclComm *c)
{
    for (; !c->stops;) {
        struct pollfd polled[MOST_RANKS];
        int n = 0, error = NCCL_SUCCESS;
        for (lane *out = &c->out[c->rank], *in = &c->in [c->rank]; out->first != NULL && in->first != NULL;) {
            memmove(in->first->data, out->first->data, in->first->bytes);
            pop(out);
            pop(in);
        }
        for (int peer = 0; peer < c->size && error == NCCL_SUCCESS; peer++) {
            if (peer == c->rank)
                continue;
            error = drain(c->fd[peer], &c->out[peer], true);
            if (error == NCCL_SUCCESS)
                error = drain(c->fd[peer], &c->in[peer], false);
            int events = (c->out[peer].first != NULL ? POLLOUT : 0) | (c->in[peer].first != NULL ? POLLIN : 0);
            if (events != 0)
                polled[n++] = (struct pollfd){.fd = c->fd[peer], .events = (short)events};
        }
        if (error != NCCL_SUCCESS || n == 0)
            return error;
        poll(polled, (nfds_t)n, TICK_MS);
    }
    return NCCL_SUCCESS;
}

/* ---- Communicators ---- */
static void *meet_in_thread(void *c)
{
    ((struct ncclComm *)c)->state = meet(c);
    return NULL;
}

static void *exchange_in_thread(void *self)
{
    struct ncclComm *c = self;
    while (!c->turn->has_come && !c->stops)
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    int error = exchange(c);
    c->turn->is_over = true;
    c->state = error;
    return NULL;
}

/* ---- The queue ---- */
static void leave_turn(void *self)
{
    turn *t = self;
    if (atomic_fetch_sub(&t->users, 1) == 1)
        free(t);
}

static bool take_turn(void *self)
{
    turn *t = self;
    t->has_come = true;
    return t->is_over;
}

/* The newest exchange has ended, or is given up. */
static void end_turn(struct ncclComm *c)
{
    if (c->turn == NULL)
        return;
    c->turn->is_over = true;
    leave_turn(c->turn);
    c->turn = NULL;
}

static int enqueue_turn(struct ncclComm *c)
{
    const fake_enqueue enqueue = fake_find_enqueue();
    turn *t = calloc(1, sizeof(*t));
    t->users = 2;
    c->turn = t;
    if (enqueue != NULL && enqueue(c->queue, &(fake_work){"an exchange of NCCL", NULL, take_turn, leave_turn, t,
                                                          c->operands, c->n_operands}) == 0)
        return NCCL_SUCCESS;
    leave_turn(t);
    return NCCL_CUDA_ERROR;
}

/* Joins the thread before, which was seen to have ended, or shall stop. */
static void join(struct ncclComm *c)
{
    if (c->thread != 0)
        pthread_join(c->thread, NULL);
    c->thread = 0;
}

static int go_on(struct ncclComm *c, void *(*work)(void *))
{
    join(c);
    c->state = NCCL_IN_PROGRESS;
    if (!c->hangs && pthread_create(&c->thread, NULL, work, c) != 0)
        return NCCL_SYSTEM_ERROR;
    return NCCL_IN_PROGRESS;
}

/* Finds the GPU as NCCL does, by asking CUDA. */
static int find_gpu(char bus[32])
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    int (*get_device)(int *), (*get_bus)(char *, int, int), device = 0;
    if (driver == NULL)
        return NCCL_CUDA_ERROR;
    void *found[] = {dlsym(driver, "cuCtxGetDevice"), dlsym(driver, "cuDeviceGetPCIBusId")};
    memcpy(&get_device, &found[0], sizeof(found[0]));
    memcpy(&get_bus, &found[1], sizeof(found[1]));
    return get_device(&device) == 0 && get_bus(bus, 32, device) == 0 ? NCCL_SUCCESS : NCCL_CUDA_ERROR;
}

int fake_version(int *version)
{
    *version = (int)fake_number("NCCL_FAKE", "version", 22809);
    return NCCL_SUCCESS;
}

const char *fake_error_text(int error)
{
    return error == NCCL_REMOTE_ERROR    ? "remote process exited or there was a network error"
           : error == NCCL_INVALID_USAGE ? "invalid usage"
                                         : "as the test wished";
}

const char *fake_newest_error(nccl_communicator c)
{
    (void)c;
    return newest;
}

int fake_id_create(nccl_id *id)
{
    memset(id, 0, sizeof(*id));
    int error = fake_due("NCCL_FAKE", "ncclGetUniqueId");
    return error != 0 ? error : getrandom(id->bytes, sizeof(uint64_t), 0) == sizeof(uint64_t) ? 0 : NCCL_SYSTEM_ERROR;
}

int fake_create(nccl_communicator *out, int size, nccl_id id, int rank, nccl_config *config)
{
    int error = fake_due("NCCL_FAKE", "ncclCommInitRankConfig");
    if (error > 0)
        return error;
    if (size > MOST_RANKS || rank < 0 || rank >= size || config->magic != (unsigned)NCCL_MAGIC ||
        config->size != sizeof(*config) || config->blocking != 0)
        return NCCL_INVALID_ARGUMENT;
    struct ncclComm *c = calloc(1, sizeof(*c));
    const char *host = getenv("NCCL_HOSTID");
    char here[64] = "";
    socklen_t bytes;
    *c = (struct ncclComm){.rank = rank, .size = size, .me = {.rank = rank}, .hangs = error == FAKE_HANGS};
    memset(c->fd, -1, sizeof(c->fd));
    gethostname(here, sizeof(here) - 1);
    snprintf(c->me.host, sizeof(c->me.host), "%s", host != NULL ? host : here);
    memcpy(&c->number, id.bytes, sizeof(c->number));
    c->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un a = address_of(c->number, rank, &bytes);
    *out = c;
    error = find_gpu(c->me.bus);
    if (error != NCCL_SUCCESS)
        return error;
    return bind(c->listener, (struct sockaddr *)&a, bytes) == 0 && listen(c->listener, MOST_RANKS) == 0
               ? go_on(c, meet_in_thread)
               : NCCL_SYSTEM_ERROR;
}

int fake_state(nccl_communicator c, int *error)
{
    int due = fake_due("NCCL_FAKE", "ncclCommGetAsyncError");
    *error = due > 0 ? due : c->state;
    return NCCL_SUCCESS;
}

int fake_finalize(nccl_communicator c)
{
    return c->state == NCCL_SUCCESS ? fake_due("NCCL_FAKE", "ncclCommFinalize") : NCCL_INVALID_USAGE;
}

int fake_abort(nccl_communicator c)
{
    c->stops = true;
    join(c);
    end_turn(c);
    for (int peer = 0; peer < c->size; peer++) {
        while (c->out[peer].first != NULL)
            pop(&c->out[peer]);
        while (c->in[peer].first != NULL)
            pop(&c->in[peer]);
        if (c->fd[peer] >= 0)
            close(c->fd[peer]);
    }
    forget_address(c);
    close(c->listener);
    free(c);
    return NCCL_SUCCESS;
}

int fake_destroy(nccl_communicator c)
{
    return c->state == NCCL_SUCCESS ? fake_abort(c) : NCCL_INVALID_USAGE;
}

/* ---- Groups ---- */
int fake_group_start(void)
{
    depth++;
    return NCCL_SUCCESS;
}

int fake_group_end(void)
{
    int result = NCCL_SUCCESS, due = fake_due("NCCL_FAKE", "ncclGroupEnd");
    if (depth-- != 1)
        return NCCL_INVALID_USAGE;
    for (struct ncclComm *c = group; c != NULL; c = c->next_in_group) {
        c->in_group = false;
        c->hangs = due == FAKE_HANGS;
        join(c);
        end_turn(c);
        result = due > 0 ? due : enqueue_turn(c);
        if (result == NCCL_SUCCESS)
            result = go_on(c, exchange_in_thread);
    }
    group = NULL;
    return result;
}

static int add(lane *lanes, void *data, size_t n, int type, int peer, nccl_communicator c, void *queue, fake_use use)
{
    if (type != NCCL_BYTES || queue == NULL || peer < 0 || peer >= c->size || depth != 1)
        return NCCL_INVALID_ARGUMENT;
    if (c->state != NCCL_SUCCESS)
        return NCCL_INVALID_USAGE;
    message *m = calloc(1, sizeof(*m));
    *m = (message){.data = data, .bytes = n};
    push(&lanes[peer], m);
    if (!c->in_group) {
        c->in_group = true;
        c->n_operands = 0;
        c->queue = queue;
        c->next_in_group = group;
        group = c;
    }
    if (c->queue != queue || c->n_operands == MOST_OPERANDS)
        return NCCL_INVALID_ARGUMENT;
    c->operands[c->n_operands] = (fake_operand){data, n, use, c->n_operands};
    c->n_operands++;
    return NCCL_SUCCESS;
}

int fake_send(const void *from, size_t n, int type, int peer, nccl_communicator c, void *queue)
{
    int error = fake_due("NCCL_FAKE", "ncclSend");
    return error != 0 ? error : add(c->out, (void *)(uintptr_t)from, n, type, peer, c, queue, FAKE_READS);
}

int fake_recv(void *to, size_t n, int type, int peer, nccl_communicator c, void *queue)
{
    int error = fake_due("NCCL_FAKE", "ncclRecv");
    return error != 0 ? error : add(c->in, to, n, type, peer, c, queue, FAKE_WRITES);
}
