#include "comm/hosts/session.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/core/variables.h"
#include "base/os/os.h"
#include "comm/wire/wire_load.h"
#include "job/warden_call.h"

enum { LONGEST_CLOSE_S = 30 };

/* The only state of the library that belongs to the process rather than to a runtime, because MPI_Init can be called
 * only once. */
static const wire_table *table;
static wire_process process;
static pthread_t opener;
static pid_t opener_pid;
static atomic_flag busy = ATOMIC_FLAG_INIT;
static atomic_bool given_up, in_job;

/* Exits the process if MPI_Finalize does not return: it may wait forever for a rank that fails at the very end. All
 * work is done by then. */
static void *end_anyway(void *status)
{
    nanosleep(&(struct timespec){.tv_sec = LONGEST_CLOSE_S}, NULL);
    _exit((int)(intptr_t)status);
}

static void at_exit(int status, TESS_UNUSED void *unused)
{
    if (getpid() != opener_pid)
        return; /* a forked child must not use its parent's MPI */
    pthread_t thread;
    bool orderly = !atomic_load(&given_up) && !atomic_load(&in_job);
    if (orderly && pthread_create(&thread, NULL, end_anyway, (void *)(intptr_t)status) == 0)
        pthread_detach(thread);
    table->close(orderly);
}

/* A value that is no number counts as 0. */
static size_t read_part_bytes(void)
{
    const char *text = tess_variable_value(TESS_VAR_MPI_PART_BYTES);
    long long bytes = text != NULL ? atoll(text) : 0;
    return bytes > 0 ? (size_t)bytes : 0;
}

static void say(void *self, const char *line)
{
    tess_warden_say((int)(intptr_t)self, line);
}

tess_status tess_wire_open(const tess_environment *environment, int warden, double timeout_s, bool tls,
                           const wire_process **out)
{
    char error[WIRE_ERROR_BYTES];
    *out = &process;
    if (table != NULL)
        return TESS_OK;
    const wire_table *loaded;
    TESS_TRY(tess_wire_load(environment->starter, &loaded));
    TESS_CHECK(!tls || strcmp(loaded->name, "tcp") == 0, TESS_E_UNSUPPORTED,
               "comm.tls=true, but an MPI connects the hosts, and Tessera does not encrypt its connections: start the "
               "hosts with `tessera launch --rdzv`, or leave comm.tls out");
    process.tls = tls;
    process.part_bytes = read_part_bytes();
    process.timeout_s = timeout_s;
    process.say = say;
    process.self = (void *)(intptr_t)warden;
    process.failure = TESS_OK;
    TESS_CHECK(loaded->open(&process, error) == 0, process.failure != TESS_OK ? process.failure : TESS_E_UNSUPPORTED,
               "%s", error);
    table = loaded;
    opener = pthread_self();
    opener_pid = getpid();
    /* Ignores SIGPIPE. Otherwise MPI's write to a rank that has just died would end this process too, before the board
     * names the first rank that failed. */
    struct sigaction action;
    if (sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == SIG_DFL)
        signal(SIGPIPE, SIG_IGN);
    on_exit(at_exit, NULL);
    return TESS_OK;
}

const wire_process *tess_wire_opened(void)
{
    return table != NULL ? &process : NULL;
}

const char *tess_wire_name(void)
{
    return table->name;
}

int tess_wire_most_tag(void)
{
    return process.most_tag;
}

void tess_wire_in_job(bool in)
{
    atomic_store(&in_job, in);
}

void tess_wire_give_up(void)
{
    atomic_store(&given_up, true);
}

bool tess_wire_is_mine(void)
{
    return !process.funneled || pthread_equal(pthread_self(), opener);
}

static tess_status enter(void)
{
    TESS_CHECK(!atomic_load(&given_up), TESS_E_CANCELLED,
               "teams over several hosts are at an end in this process, since one of them failed");
    TESS_CHECK(tess_wire_is_mine(), TESS_E_UNSUPPORTED,
               "%s offers MPI_THREAD_FUNNELED only: teams over several hosts may be used by the thread that made the "
               "runtime alone; build or choose an MPI with MPI_THREAD_SERIALIZED",
               process.library);
    while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire))
        sched_yield();
    return TESS_OK;
}

static void leave(void)
{
    atomic_flag_clear_explicit(&busy, memory_order_release);
}

static tess_status outcome(int result, const char *what, const char *error)
{
    leave();
    TESS_CHECK(result >= 0, TESS_E_IO, "%s over %s: %s", what, process.library, error);
    return TESS_OK;
}

tess_status tess_wire_make_group(const int *ranks, int n, int tag, wire_group **group)
{
    char error[WIRE_ERROR_BYTES] = "";
    TESS_TRY(enter());
    return outcome(table->make_group(ranks, n, tag, group, error), "make a communicator", error);
}

void tess_wire_free_group(wire_group **group)
{
    if (*group == NULL || atomic_load(&given_up) || enter() != TESS_OK)
        return;
    table->free_group(group);
    leave();
}

tess_status tess_wire_send(wire_group *group, const void *data, size_t bytes, int to, int tag, wire_request **request)
{
    char error[WIRE_ERROR_BYTES] = "";
    TESS_TRY(enter());
    return outcome(table->send(group, data, bytes, to, tag, request, error), "send", error);
}

tess_status tess_wire_recv(wire_group *group, void *data, size_t bytes, int from, int tag, wire_request **request)
{
    char error[WIRE_ERROR_BYTES] = "";
    TESS_TRY(enter());
    return outcome(table->recv(group, data, bytes, from, tag, request, error), "receive", error);
}

tess_status tess_wire_all_reduce(wire_group *group, const void *in, void *out, size_t n, wire_type type, wire_op op,
                                 wire_request **request)
{
    char error[WIRE_ERROR_BYTES] = "";
    TESS_TRY(enter());
    return outcome(table->all_reduce(group, in, out, n, type, op, request, error), "all_reduce", error);
}

tess_status tess_wire_reduce_scatter(wire_group *group, const void *in, void *out, size_t n, wire_type type, wire_op op,
                                     wire_request **request)
{
    char error[WIRE_ERROR_BYTES] = "";
    TESS_TRY(enter());
    return outcome(table->reduce_scatter(group, in, out, n, type, op, request, error), "reduce_scatter", error);
}

tess_status tess_wire_test(wire_request **request, bool *done)
{
    char error[WIRE_ERROR_BYTES] = "";
    *done = *request == NULL;
    if (*done)
        return TESS_OK;
    TESS_TRY(enter());
    int result = table->test(request, error);
    *done = result > 0;
    return outcome(result, "a message", error);
}

void tess_wire_poll(void)
{
    if (atomic_load(&given_up) || !tess_wire_is_mine())
        return;
    if (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire))
        return; /* another thread progresses MPI */
    table->poll();
    leave();
}

void tess_wire_cancel(wire_request **request)
{
    if (*request != NULL && !atomic_load(&given_up) && enter() == TESS_OK) {
        table->cancel(request);
        leave();
    }
    *request = NULL;
}

tess_status tess_wire_gather(const void *mine, void *all, size_t bytes, double timeout_s)
{
    char error[WIRE_ERROR_BYTES] = "";
    wire_request *request = NULL;
    bool done = false;
    double begin_s = tess_os_now_s();
    TESS_TRY(enter());
    TESS_TRY(outcome(table->all_gather(process.world, mine, all, bytes, &request, error), "all_gather", error));
    while (!done) {
        TESS_TRY(tess_wire_test(&request, &done));
        if (!done && tess_os_now_s() - begin_s > timeout_s) {
            tess_wire_cancel(&request);
            return TESS_FAIL(TESS_E_TIMEOUT, "not all of the %d processes of the job came within %.3g s", process.size,
                             timeout_s);
        }
        if (!done)
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
    return TESS_OK;
}
