#include "job/rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/core/variables.h"
#include "base/os/os.h"
#include "base/os/sockets.h"
#include "base/text/text.h"
#include "job/job_memory.h"

enum { RETRY_MS = 20 };
/* Timeout for a caller that has connected. Callers send their rank at once; one that does not delays the others by
 * at most this time. */
static const double caller_s = 5;

/* The message of a rank. The first rank answers with the same message and the file descriptor. */
typedef struct hello {
    int32_t rank, world;
} hello;

static tess_status check(const tess_environment *e)
{
    TESS_CHECK(e->local_world > 0, TESS_E_INVALID,
               "RANK=%d and WORLD_SIZE=%d are set, but LOCAL_WORLD_SIZE is not: torchrun sets all three", e->rank,
               e->world);
    TESS_CHECK(e->master_port > 0, TESS_E_INVALID,
               "RANK=%d and WORLD_SIZE=%d are set, but MASTER_PORT is not: torchrun sets all three", e->rank, e->world);
    return TESS_OK;
}

/* The first byte of the path is 0: a name in the network name space, which vanishes with its socket. The attempt is
 * part of the name, so that ranks restarted by torchrun do not meet those of the attempt before. */
static socklen_t make_address(const tess_environment *e, struct sockaddr_un *address)
{
    const char *run = tess_variable_value(TESS_VAR_TORCH_RUN_ID),
               *attempt = tess_variable_value(TESS_VAR_TORCH_RESTARTS);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "tessera-%u-%d-%.8s-%.60s",
                     (unsigned)geteuid(), e->master_port, attempt != NULL ? attempt : "0", run != NULL ? run : "");
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int left_ms(double deadline_s)
{
    double left_s = deadline_s - tess_os_now_s();
    return left_s > 0 ? (int)(left_s * 1e3) + 1 : 0;
}

static bool is_same_user(int connection)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

static bool wait_readable(int fd, double deadline_s)
{
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    int ready = -1, ms;
    while (ready < 0 && (ms = left_ms(deadline_s)) > 0) {
        ready = poll(&wanted, 1, ms);
        if (ready < 0 && errno != EINTR)
            return false;
    }
    return ready > 0;
}

/* ---- The first rank ---- */

static tess_status listen_for_ranks(const tess_environment *e, int *listener)
{
    struct sockaddr_un address;
    socklen_t size = make_address(e, &address);
    *listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (*listener >= 0 && bind(*listener, (struct sockaddr *)&address, size) == 0 && listen(*listener, e->world) == 0)
        return TESS_OK;
    int error = errno;
    tess_os_close(listener);
    return TESS_FAIL(error == EADDRINUSE ? TESS_E_INVALID : TESS_E_IO, "rank 0 cannot offer its shared memory: %s%s",
                     strerror(error),
                     error == EADDRINUSE ? " by a second rank 0, or by another job with the same MASTER_PORT" : "");
}

/* Answers one caller. Closes the connection to other users and on unknown messages. */
static tess_status answer(const tess_environment *e, int connection, int fd, double deadline_s, bool *came, int *n_came)
{
    hello said;
    int passed;
    double left_s = deadline_s - tess_os_now_s();
    if (!is_same_user(connection) ||
        tess_os_receive_message(connection, &said, sizeof(said), left_s < caller_s ? left_s : caller_s, &passed) !=
            TESS_OK) {
        tess_error_clear();
        return TESS_OK;
    }
    tess_os_close(&passed);
    TESS_CHECK(said.world == e->world, TESS_E_INVALID, "WORLD_SIZE is %d here (rank %d), but %d in rank %d", e->world,
               e->rank, said.world, said.rank);
    TESS_CHECK(said.rank > 0 && said.rank < e->world && !came[said.rank], TESS_E_INVALID, "two processes have RANK=%d",
               said.rank);
    const hello mine = {.rank = e->rank, .world = e->world};
    came[said.rank] = tess_os_send_message(connection, &mine, sizeof(mine), fd) == TESS_OK;
    if (!came[said.rank])
        tess_error_clear(); /* the caller closed the connection, and may call again */
    *n_came += came[said.rank];
    return TESS_OK;
}

static tess_status name_missing(const bool *came, int world, double timeout_s)
{
    char names[128] = "";
    size_t n = 0;
    for (int rank = 1; rank < world; rank++)
        if (!came[rank] && n + 8 < sizeof(names))
            n = tess_text_add(names, sizeof(names), n, "%s%d", n > 0 ? ", " : "", rank);
    return TESS_FAIL(TESS_E_TIMEOUT, "rank %s did not come within %g s", names, timeout_s);
}

/* `came` (world) must be all false. */
static tess_status serve(const tess_environment *e, int listener, int fd, double timeout_s, bool *came)
{
    int n_came = 1;
    double deadline_s = tess_os_now_s() + timeout_s;
    tess_status status = TESS_OK;
    while (status == TESS_OK && n_came < e->world) {
        if (!wait_readable(listener, deadline_s))
            return name_missing(came, e->world, timeout_s);
        int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (connection < 0)
            return tess_os_error("accept", "a rank's connection");
        status = answer(e, connection, fd, deadline_s, came, &n_came);
        tess_os_close(&connection);
    }
    return status;
}

tess_status tess_rendezvous_offer(const tess_environment *environment, int fd, double timeout_s)
{
    TESS_AUTO(tess_os_close) int listener = -1;
    TESS_TRY(check(environment));
    TESS_AUTO(tess_malloc_drop) bool *came = calloc((size_t)environment->world, sizeof(*came));
    TESS_CHECK(came != NULL, TESS_E_NOMEM, "no memory to meet %d ranks", environment->world);
    TESS_TRY(listen_for_ranks(environment, &listener));
    return serve(environment, listener, fd, timeout_s, came);
}

/* ---- The others ---- */

/* Connects, and retries until the first rank listens. */
static tess_status call_first(const tess_environment *e, double deadline_s, int *connection)
{
    struct sockaddr_un address;
    socklen_t size = make_address(e, &address);
    *connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (*connection < 0)
        return tess_os_error("make", "a Unix socket");
    while (connect(*connection, (struct sockaddr *)&address, size) != 0) {
        if (left_ms(deadline_s) == 0) {
            tess_os_close(connection);
            return TESS_FAIL(TESS_E_TIMEOUT, "rank 0 did not offer its shared memory in time: did it start?");
        }
        poll(NULL, 0, RETRY_MS);
    }
    return TESS_OK;
}

static tess_status ask(const tess_environment *e, int connection, double deadline_s, int *fd)
{
    TESS_CHECK(is_same_user(connection), TESS_E_INVALID,
               "the name of this job's rank 0 (MASTER_PORT=%d) is taken by another user's process", e->master_port);
    hello said = {.rank = e->rank, .world = e->world};
    bool answered =
        tess_os_send_message(connection, &said, sizeof(said), -1) == TESS_OK &&
        tess_os_receive_message(connection, &said, sizeof(said), deadline_s - tess_os_now_s(), fd) == TESS_OK;
    TESS_CHECK(answered && *fd >= 0, TESS_E_TIMEOUT,
               "rank 0 hung up or did not answer in time: its own error says why");
    return TESS_OK;
}

tess_status tess_rendezvous_take(const tess_environment *environment, double timeout_s, int *fd)
{
    TESS_AUTO(tess_os_close) int connection = -1;
    double deadline_s = tess_os_now_s() + timeout_s;
    TESS_TRY(check(environment));
    TESS_TRY(call_first(environment, deadline_s, &connection));
    return ask(environment, connection, deadline_s, fd);
}
