/* The bytes of a connection: plain, or by TLS. Only tcp_stream_move waits. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/os/os.h"
#include "base/os/sockets.h"
#include "comm/tcp/tcp_impl.h"

enum { RECORD_BYTES = 16 << 10 }; /* most data of a record of TLS */

bool tcp_stream_begin(tcp_stream *s, const tcp_secret *secret, int fd, bool calls)
{
    *s = (tcp_stream){.fd = fd};
    if (secret->tls != NULL)
        s->session = tcp_session_begin(secret->tls, fd, calls);
    return secret->tls == NULL || s->session != NULL;
}

void tcp_stream_end(tcp_stream *s)
{
    tcp_session_end(&s->session);
    tess_os_close(&s->fd);
}

static ptrdiff_t plain_result(tcp_stream *s, ssize_t n)
{
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    s->why = n < 0 ? strerror(errno) : NULL;
    return n > 0 ? n : -1;
}

/* A record carries parts together, so that a short message is one record. Bytes that were not sent are sent again the
 * same, as libssl wants it. */
static ptrdiff_t send_record(tcp_stream *s, const struct iovec *parts, int n_parts)
{
    uint8_t record[RECORD_BYTES];
    size_t n = 0;
    if (n_parts == 1 || parts[0].iov_len >= RECORD_BYTES)
        return tcp_session_send(s->session, parts[0].iov_base, parts[0].iov_len, &s->why);
    for (int i = 0; i < n_parts && n < RECORD_BYTES; i++) {
        const size_t left = RECORD_BYTES - n, size = parts[i].iov_len < left ? parts[i].iov_len : left;
        memcpy(record + n, parts[i].iov_base, size);
        n += size;
    }
    return tcp_session_send(s->session, record, n, &s->why);
}

ptrdiff_t tcp_stream_send(tcp_stream *s, struct iovec *parts, int n_parts)
{
    if (s->session != NULL)
        return send_record(s, parts, n_parts);
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)n_parts};
    return plain_result(s, sendmsg(s->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT));
}

ptrdiff_t tcp_stream_receive(tcp_stream *s, struct iovec *parts, int n_parts)
{
    if (s->session != NULL)
        return tcp_session_receive(s->session, parts[0].iov_base, parts[0].iov_len, &s->why);
    return plain_result(s, readv(s->fd, parts, n_parts));
}

bool tcp_stream_has_more(const tcp_stream *s)
{
    return s->session != NULL && tcp_session_has_more(s->session);
}

bool tcp_stream_move(tcp_stream *s, void *data, size_t bytes, bool sends, double until_s)
{
    for (size_t at = 0; at < bytes;) {
        struct pollfd ready = {.fd = s->fd, .events = sends ? POLLOUT : POLLIN};
        struct iovec part = {(uint8_t *)data + at, bytes - at};
        ptrdiff_t n = sends ? tcp_stream_send(s, &part, 1) : tcp_stream_receive(s, &part, 1);
        if (n < 0 || (n == 0 && tess_os_now_s() >= until_s))
            return false;
        at += (size_t)n;
        if (n == 0)
            poll(&ready, 1, tcp_left_ms(until_s, 1000));
    }
    return true;
}

int tcp_left_ms(double until_s, int most)
{
    double left = (until_s - tess_os_now_s()) * 1e3;
    return left <= 0 ? 0 : left < most ? (int)left + 1 : most;
}
