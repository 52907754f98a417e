#include "comm/tcp/tcp_busy.h"

#include <poll.h>
#include <stdlib.h>

#include "base/os/os.h"
#include "comm/tcp/tcp_impl.h"

enum { CALLERS = 64 };

static const double greeting_s = 5;

/* callers: (CALLERS) */
_Noreturn static void serve(const tcp_meeting *m, int listen_fd, const char *why, tcp_caller *callers)
{
    struct pollfd ready[CALLERS + 1];
    const tcp_desk desk = {
        .listen_fd = listen_fd, .secret = m->secret, .self = &m->hello, .patience_s = greeting_s, .busy = why};
    for (int i = 0; i < CALLERS; i++)
        callers[i].stream.fd = -1;
    for (;;) {
        tcp_accept_callers(&desk, callers, CALLERS, sizeof(*callers));
        ready[0] = (struct pollfd){.fd = listen_fd, .events = POLLIN};
        for (int i = 0; i < CALLERS; i++) {
            tcp_caller *c = &callers[i];
            if (c->stream.fd >= 0 && (tcp_greet(&c->greeting) != 0 || tess_os_now_s() > c->until_s))
                tcp_stream_end(&c->stream); /* the caller has its answer, or took too long */
            ready[1 + i] = (struct pollfd){.fd = c->stream.fd, .events = POLLIN};
        }
        poll(ready, CALLERS + 1, 500);
    }
}

tess_status tess_tcp_answer_busy(bool tls, const char *why)
{
    tess_environment e;
    tcp_secret secret = {0};
    int listen_fd;
    TESS_TRY(tess_environment_read(&e));
    tcp_meeting m = {.secret = &secret, .master = e.master, .port = e.master_port};
    tcp_hello_of(&e, &m.hello);
    m.hello.purpose = TCP_TO_MEET;
    TESS_TRY(tcp_secret_open(&secret));
    if (tls)
        TESS_TRY(tcp_tls_open(&secret));
    tcp_caller *callers = calloc(CALLERS, sizeof(*callers)); /* it lives as long as the process */
    TESS_CHECK(callers != NULL, TESS_E_NOMEM, "no memory to answer callers");
    tess_status status = tcp_listen_at_master(&m, &listen_fd);
    if (status == TESS_OK)
        serve(&m, listen_fd, why, callers);
    free(callers);
    return status;
}
