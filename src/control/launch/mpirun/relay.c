#include "control/launch/mpirun/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/os/os.h"

tess_status launch_relay_open(launch_relay *r, int *write_end)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return tess_os_error("pipe", "for mpirun");
    r->from = ends[0];
    fcntl(r->from, F_SETFL, O_NONBLOCK); /* only this end: writes of mpirun still block */
    *write_end = ends[1];
    return TESS_OK;
}

/* ---- Reading ---- */
/* Removes the lines that `on_line` takes. An incomplete line waits for its newline, unless the pipe has ended or the
 * line fills the buffer. */
static void take_lines(launch_relay *r, const tess_launch_watch *watch)
{
    size_t kept = 0, at = 0;
    while (at < r->n) {
        char *line = r->text + at, *end = memchr(line, '\n', r->n - at);
        if (end == NULL && r->from >= 0 && r->n - at < sizeof(r->text) - 1)
            break;
        size_t length = end != NULL ? (size_t)(end - line) : r->n - at;
        line[length] = '\0';
        bool taken = r->on_line(watch->self, line);
        if (end != NULL)
            line[length++] = '\n';
        at += length;
        if (!taken) {
            memmove(r->text + kept, line, length);
            kept += length;
        }
    }
    memmove(r->text + kept, r->text + at, r->n - at);
    r->n -= at - kept;
    r->n_ready = kept;
}

/* Reads more. Returns false if there was nothing more. All data that was ready has been passed on before. */
static bool read_more(launch_relay *r, const tess_launch_watch *watch)
{
    ssize_t got;
    do
        got = read(r->from, r->text + r->n, sizeof(r->text) - 1 - r->n);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return false;
    if (got == 0)
        tess_os_close(&r->from);
    r->n += (size_t)got;
    r->n_ready = r->n;
    if (r->on_line != NULL)
        take_lines(r, watch);
    return got > 0 || r->n_ready > 0;
}

/* ---- Writing ---- */
/* Writes part of the data that is ready, at most as much as does not block after poll reports POLLOUT. Drops all
 * data if there is no reader. If the reader ends between the check and the write, the next check notices it. */
static void write_some(launch_relay *r, const tess_launch_watch *watch)
{
    size_t n = r->n_ready - r->n_sent;
    ssize_t done = -1;
    for (int i = 0; i < 2 && done < 0; i++) {
        if (watch->before_output != NULL)
            watch->before_output(watch->self, r->to);
        done = write(fileno(r->to), r->text + r->n_sent, n < PIPE_BUF ? n : PIPE_BUF);
        if (done < 0 && (errno == EINTR || errno == EAGAIN))
            return;
    }
    r->n_sent += done >= 0 ? (size_t)done : n;
    if (r->n_sent < r->n_ready)
        return;
    memmove(r->text, r->text + r->n_ready, r->n - r->n_ready);
    r->n -= r->n_ready;
    r->n_ready = r->n_sent = 0;
}

struct pollfd launch_relay_waits(const launch_relay *r)
{
    return r->n_ready > 0 ? (struct pollfd){.fd = fileno(r->to), .events = POLLOUT}
                          : (struct pollfd){.fd = r->from, .events = POLLIN};
}

void launch_relay_run(launch_relay *r, const tess_launch_watch *watch)
{
    if (r->n_ready == 0)
        read_more(r, watch);
    struct pollfd room = {.fd = fileno(r->to), .events = POLLOUT};
    if (r->n_ready > 0 && poll(&room, 1, 0) > 0)
        write_some(r, watch);
}

void launch_relay_end(launch_relay *r, const tess_launch_watch *watch)
{
    while (r->n_ready > 0 || read_more(r, watch)) {
        struct pollfd wait = launch_relay_waits(r);
        if (r->n_ready > 0 && poll(&wait, 1, -1) > 0)
            write_some(r, watch);
    }
    tess_os_close(&r->from);
}
