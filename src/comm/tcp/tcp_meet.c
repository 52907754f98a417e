/* The meeting. Rank 0 listens at the job's address. All others call it, and say who they are and where they listen.
 * When all have come, rank 0 sends each of them the whole table. A caller stays connected until then, so its end is
 * noticed. Nothing here keeps a caller that does not know the secret from calling again. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/os/os.h"
#include "base/os/sockets.h"
#include "base/text/text.h"
#include "comm/tcp/tcp_impl.h"

enum { STRANGERS = 64, ADDRESSES = 8 };

/* Pauses between calls and between reports, and the time in which a caller must say who it is. */
static const double pause_s = 0.1, report_s = 5, stranger_s = 10, connect_s = 3;

/* The message of rank 0 when the meeting is over. The addresses of all ranks follow, unless it has failed. */
typedef struct verdict {
    int32_t status;
    int32_t world;
    uint8_t job[TCP_JOB_BYTES];
    char text[512];
} verdict;

__attribute__((format(printf, 2, 3))) static void say(const tcp_meeting *m, const char *format, ...)
{
    char line[480];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (m->say != NULL)
        m->say(m->self, line);
}

/* ---- Rank 0 ---- */
typedef struct caller {
    tcp_caller base; /* `at`: bytes of the address that have come, then of the end's message that were sent */
    bool complete;
    bool takes; /* its socket has room for the message of the end */
    tess_agent_address address;
} caller;

typedef struct host {
    const tcp_meeting *m;
    tcp_guests guests;
    int listen_fd, n_callers, n_refused, n_complete;
    caller *callers; /* (n_callers) */
    struct pollfd *polls;
} host;

/* Whether other hosts reach this machine by the one address of `name`. Debian gives a host's own name as 127.0.1.1. */
static bool is_for_all(const char *name, const char *address, int n)
{
    const bool is_loopback = strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
    return strcmp(name, "localhost") == 0 || (n == 1 && (!is_loopback || strcmp(name, address) == 0));
}

tess_status tcp_listen_at_master(const tcp_meeting *m, int *fd)
{
    char addresses[ADDRESSES][OS_ADDRESS_BYTES];
    int n;
    uint16_t port;
    TESS_TRY(tess_os_resolve(m->master, addresses, ADDRESSES, &n));
    errno = 0;
    tess_status status = n > 0 && is_for_all(m->master, addresses[0], n)
                             ? tess_os_listen(addresses[0], m->port, m->port, fd, &port)
                             : TESS_E_NOT_FOUND;
    bool is_taken = status != TESS_OK && errno == EADDRINUSE;
    if (status != TESS_OK && !is_taken) {
        tess_error_clear();
        errno = 0;
        status = tess_os_listen(NULL, m->port, m->port, fd, &port);
        is_taken = status != TESS_OK && errno == EADDRINUSE;
    }
    TESS_CHECK(!is_taken, TESS_E_INVALID,
               "rank 0 cannot listen at %s:%d: another program does, such as a second rank 0 or another job: choose "
               "another port",
               m->master, m->port);
    return status;
}

static void drop(caller *c)
{
    tcp_stream_end(&c->base.stream);
}

static void accept_callers(const host *h)
{
    const tcp_desk desk = {
        .listen_fd = h->listen_fd, .secret = h->m->secret, .self = &h->m->hello, .patience_s = stranger_s};
    tcp_accept_callers(&desk, h->callers, h->n_callers, sizeof(h->callers[0]));
}

static void report_refusal(host *h, const caller *c)
{
    char address[OS_ADDRESS_BYTES];
    tess_os_peer_address(c->base.stream.fd, address);
    if (h->n_refused++ < TCP_MOST_REFUSALS)
        say(h->m, "a caller from %s was refused: %s%s", address, c->base.greeting.reason,
            h->n_refused == TCP_MOST_REFUSALS ? "; further ones are not reported" : "");
}

/* Serves a caller without waiting. Fails if a rank does not fit, or has ended. */
static tess_status serve(host *h, caller *c)
{
    const tcp_hello *hello = &c->base.greeting.hello;
    int greeted = c->base.greeted ? 1 : tcp_greet(&c->base.greeting);
    if (greeted < 0 || (greeted == 0 && tess_os_now_s() >= c->base.until_s)) {
        if (greeted < 0 && c->base.greeting.reply.refused) /* others have only tried whether the port is open */
            report_refusal(h, c);
        drop(c);
        return TESS_OK;
    }
    if (greeted == 0)
        return TESS_OK;
    if (!c->base.greeted) {
        c->base.greeted = true;
        TESS_TRY(tcp_guests_add(&h->guests, hello));
    }
    uint8_t beyond;
    struct iovec part = c->complete
                            ? (struct iovec){&beyond, 1}
                            : (struct iovec){(uint8_t *)&c->address + c->base.at, sizeof(c->address) - c->base.at};
    ptrdiff_t n = tcp_stream_receive(&c->base.stream, &part, 1);
    TESS_CHECK(n == 0 || (n > 0 && !c->complete), TESS_E_PEER_LOST,
               "rank %d on host %s came to the meeting and ended: see its output", hello->rank, hello->host);
    c->base.at += (size_t)n;
    if (c->base.at < sizeof(c->address) || c->complete)
        return TESS_OK;
    c->complete = true;
    h->n_complete++;
    for (int i = 0; i < AGENT_ADDRESSES; i++)
        c->address.address[i][AGENT_ADDRESS_BYTES - 1] = '\0';
    h->m->addresses[hello->rank] = c->address;
    return TESS_OK;
}

static int watch(host *h)
{
    int n = 0;
    h->polls[n++] = (struct pollfd){.fd = h->listen_fd, .events = POLLIN};
    for (int i = 0; i < h->n_callers; i++)
        if (h->callers[i].base.stream.fd >= 0)
            h->polls[n++] = (struct pollfd){.fd = h->callers[i].base.stream.fd, .events = POLLIN};
    return n;
}

static tess_status await_all(host *h)
{
    const tcp_meeting *m = h->m;
    double begin_s = tess_os_now_s(), until_s = begin_s + m->timeout_s, next_s = begin_s + report_s;
    char missing[400];
    while (h->n_complete + 1 < m->hello.world) {
        double now_s = tess_os_now_s();
        TESS_CHECK(now_s < until_s, TESS_E_TIMEOUT, "rank 0 at %s:%d has waited %.0f s for %s", m->master, m->port,
                   m->timeout_s, tcp_guests_missing(&h->guests, missing, sizeof(missing)));
        if (now_s >= next_s) {
            say(m, "rank 0 at %s:%d has waited %.0f s for %s", m->master, m->port, now_s - begin_s,
                tcp_guests_missing(&h->guests, missing, sizeof(missing)));
            next_s = now_s + report_s;
        }
        poll(h->polls, (nfds_t)watch(h), tcp_left_ms(next_s < until_s ? next_s : until_s, 500));
        accept_callers(h);
        for (int i = 0; i < h->n_callers; i++)
            if (h->callers[i].base.stream.fd >= 0)
                TESS_TRY(serve(h, &h->callers[i]));
    }
    return TESS_OK;
}

/* Sends the caller what it has not had yet of the end's message, as far as it takes it. Then hangs up. */
static void tell(caller *c, uint8_t *message, size_t bytes)
{
    ptrdiff_t n = 1;
    while (n > 0 && c->base.at < bytes) {
        n = tcp_stream_send(&c->base.stream, &(struct iovec){message + c->base.at, bytes - c->base.at}, 1);
        c->base.at += n > 0 ? (size_t)n : 0;
    }
    if (n == 0 && c->base.at < bytes)
        return;
    tess_os_end_sending(
        c->base.stream.fd); /* a caller that has hung up fails at its first message, or its warden names it */
    drop(c);
}

/* Sends the message to all callers at once, so that a slow one does not delay the others. */
static void tell_all(host *h, uint8_t *message, size_t bytes, double until_s)
{
    int n_left;
    do {
        n_left = 0;
        for (int i = 0; i < h->n_callers; i++) {
            caller *c = &h->callers[i];
            if (c->base.stream.fd >= 0 && c->takes)
                tell(c, message, bytes);
            if (c->base.stream.fd >= 0)
                h->polls[n_left++] = (struct pollfd){.fd = c->base.stream.fd, .events = POLLOUT};
        }
        if (n_left > 0)
            poll(h->polls, (nfds_t)n_left, tcp_left_ms(until_s, 1000));
        for (int i = 0, n = 0; i < h->n_callers; i++)
            if (h->callers[i].base.stream.fd >= 0)
                h->callers[i].takes = h->polls[n++].revents != 0;
    } while (n_left > 0 && tess_os_now_s() < until_s);
    for (int i = 0; i < h->n_callers; i++)
        drop(&h->callers[i]);
}

/* Tells all ranks that have come how the meeting ended. */
static void dismiss(host *h, tess_status status)
{
    const tcp_meeting *m = h->m;
    const size_t all = sizeof(*m->addresses) * (size_t)m->hello.world;
    verdict end = {.status = status, .world = m->hello.world};
    memcpy(end.job, m->job, sizeof(end.job));
    if (status != TESS_OK)
        snprintf(end.text, sizeof(end.text), "%s", tess_error_message());
    uint8_t *message = malloc(sizeof(end) + all); /* if NULL, callers notice that their connection ends */
    for (int i = 0; i < h->n_callers; i++) {
        h->callers[i].base.at = 0;
        h->callers[i].takes = true;
        if (!h->callers[i].base.greeted || message == NULL)
            drop(&h->callers[i]);
    }
    if (message == NULL)
        return;
    memcpy(message, &end, sizeof(end));
    memcpy(message + sizeof(end), m->addresses, all);
    tell_all(h, message, sizeof(end) + (status == TESS_OK ? all : 0),
             tess_os_now_s() + (status == TESS_OK ? m->timeout_s : 1));
    free(message);
}

static tess_status receive_ranks(tcp_meeting *m)
{
    host h = {.m = m, .listen_fd = -1, .n_callers = m->hello.world - 1 + STRANGERS};
    TESS_TRY(tcp_guests_begin(&h.guests, &m->hello));
    h.callers = calloc((size_t)h.n_callers, sizeof(*h.callers));
    h.polls = calloc((size_t)h.n_callers + 1, sizeof(*h.polls));
    tess_status status = TESS_OK;
    if (h.callers == NULL || h.polls == NULL || getrandom(m->job, sizeof(m->job), 0) != (ssize_t)sizeof(m->job))
        status = TESS_FAIL(TESS_E_NOMEM, "no memory, or no random bytes, to meet %d ranks", m->hello.world);
    for (int i = 0; h.callers != NULL && i < h.n_callers; i++)
        h.callers[i].base.stream.fd = -1;
    if (status == TESS_OK)
        status = tcp_listen_at_master(m, &h.listen_fd);
    if (status == TESS_OK) {
        status = await_all(&h);
        dismiss(&h, status);
    }
    tess_os_close(&h.listen_fd);
    free(h.callers);
    free(h.polls);
    tcp_guests_free(&h.guests);
    return status;
}

/* ---- The others ---- */
bool tcp_reach(const tcp_meeting *m, const char *address, double until_s, tcp_stream *stream, tcp_greeting *greeting,
               char *why, size_t size)
{
    int fd = tess_os_connect(address, (uint16_t)m->port), greeted = 0;
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    double now_s = tess_os_now_s(), connected_s = now_s + connect_s < until_s ? now_s + connect_s : until_s;
    int reason = fd < 0                                                    ? errno
                 : poll(&ready, 1, tcp_left_ms(connected_s, INT_MAX)) <= 0 ? ETIMEDOUT
                                                                           : tess_os_connected(fd);
    if (reason != 0)
        tess_os_close(&fd);
    else if (!tcp_stream_begin(stream, m->secret, fd, true))
        reason = ENOMEM;
    snprintf(why, size, "%s", strerror(reason));
    if (reason == 0) {
        const double greeted_s = tess_os_now_s() + stranger_s < until_s ? tess_os_now_s() + stranger_s : until_s;
        tcp_greet_begin(greeting, m->secret, stream, &m->hello, 0);
        ready.events = POLLIN;
        while ((greeted = tcp_greet(greeting)) == 0 && tess_os_now_s() < greeted_s)
            poll(&ready, 1, tcp_left_ms(greeted_s, 500));
        snprintf(why, size, "%s", greeted < 0 ? greeting->reason : "it does not answer");
    }
    return greeted > 0;
}

/* Receives what rank 0 says when all have come, or when it has waited long enough. */
static tess_status hear_verdict(tcp_meeting *m, tcp_stream *stream, double until_s)
{
    verdict end;
    TESS_CHECK(tcp_stream_move(stream, &end, sizeof(end), false, until_s), TESS_E_PEER_LOST,
               "rank 0 at %s:%d has ended before all ranks came: see its output", m->master, m->port);
    end.text[sizeof(end.text) - 1] = '\0';
    if (end.status != TESS_OK)
        return TESS_FAIL(end.status < 0 ? (tess_status)end.status : TESS_E_IO, "%s", end.text);
    TESS_CHECK(end.world == m->hello.world &&
                   tcp_stream_move(stream, m->addresses, sizeof(*m->addresses) * (size_t)end.world, false, until_s),
               TESS_E_PEER_LOST, "rank 0 at %s:%d has ended before it sent the addresses of all ranks", m->master,
               m->port);
    memcpy(m->job, end.job, sizeof(m->job));
    for (int r = 0; r < end.world; r++)
        for (int i = 0; i < AGENT_ADDRESSES; i++)
            m->addresses[r].address[i][AGENT_ADDRESS_BYTES - 1] = '\0';
    return TESS_OK;
}

/* Tries once. `why` is empty if the meeting is over. *busy: rank 0 prepares, and wants to be called again. */
static tess_status call(tcp_meeting *m, const tess_agent_address *mine, const char *address, double until_s, bool *busy,
                        char *why, size_t size)
{
    tcp_greeting greeting = {0};
    tess_agent_address copy = *mine;
    TESS_AUTO(tcp_stream_end) tcp_stream stream = {.fd = -1};
    const bool reached = tcp_reach(m, address, until_s, &stream, &greeting, why, size);
    TESS_CHECK(!greeting.refused, TESS_E_INVALID, "rank 0 at %s:%d refuses this process: %s", m->master, m->port,
               greeting.reason);
    *busy = !reached && greeting.reply.refused == TCP_REFUSED_LATER;
    if (!reached || !tcp_stream_move(&stream, &copy, sizeof(copy), true, until_s))
        return TESS_OK;
    why[0] = '\0';
    return hear_verdict(m, &stream, until_s + m->timeout_s + report_s);
}

static tess_status call_first(tcp_meeting *m, const tess_agent_address *mine, bool reports)
{
    char addresses[ADDRESSES][OS_ADDRESS_BYTES];
    double begin_s = tess_os_now_s(), until_s = begin_s + m->timeout_s, next_s = begin_s + report_s;
    const double last_s = until_s + m->busy_s;
    char why[TCP_TEXT_BYTES];
    bool busy = false;
    for (int i = 0, n = 0;; i++) {
        if (n == 0 && (tess_os_resolve(m->master, addresses, ADDRESSES, &n) != TESS_OK || n == 0)) {
            snprintf(why, sizeof(why), "%s", tess_error_message()); /* its name may become known when it starts */
            tess_error_clear();
            n = 0;
        } else {
            TESS_TRY(call(m, mine, addresses[i % n], until_s, &busy, why, sizeof(why)));
            if (why[0] == '\0')
                return TESS_OK;
            until_s = busy ? tess_os_now_s() + m->timeout_s : until_s;
            until_s = until_s < last_s ? until_s : last_s;
        }
        double now_s = tess_os_now_s();
        TESS_CHECK(now_s < until_s, TESS_E_TIMEOUT,
                   "rank %d on host %s did not reach rank 0 at %s:%d within %.0f s: %s (did rank 0 start?)",
                   m->hello.rank, m->hello.host, m->master, m->port, until_s - begin_s, why);
        if (reports && now_s >= next_s) {
            say(m, "rank %d on host %s has tried for %.0f s to reach rank 0 at %s:%d: %s", m->hello.rank, m->hello.host,
                now_s - begin_s, m->master, m->port, why);
            next_s = now_s + report_s;
        }
        poll(NULL, 0, tcp_left_ms(tess_os_now_s() + pause_s, 1000));
    }
}

tess_status tcp_meet(tcp_meeting *m, const tess_agent_address *mine)
{
    m->hello.purpose = TCP_TO_MEET;
    m->addresses[m->hello.rank] = *mine;
    if (m->hello.rank == 0)
        return receive_ranks(m);
    /* one rank of each host reports */
    return call_first(m, mine, m->hello.local_world <= 0 || m->hello.rank % m->hello.local_world == 0);
}
