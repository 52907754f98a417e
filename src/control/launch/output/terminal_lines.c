#include "control/launch/output/terminal_lines.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"
#include "control/launch/output/rank_output.h"

enum { WAITING_BYTES = 256 << 10 };
/* Seconds that a full buffer delays the ranks until it is half empty again, and seconds without a byte after which the
 * terminal takes nothing at the end. */
static const double patience_s = 2;
/* Seconds that a terminal that takes lines slowly has at the end. */
static const double longest_end_s = 10;

struct terminal_lines {
    int fd;
    char folder[OUTPUT_TEXT_BYTES * 4];
    tess_reporter reporter;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under the lock */
    char *bytes; /* (WAITING_BYTES) whole lines that wait at `begin`, n bytes */
    size_t begin, n;
    double moved_s; /* when the terminal last took bytes */
    bool gone;      /* nobody will read them */
    bool ends;      /* no more lines come */
    bool is_left;   /* the terminal takes nothing: the thread frees everything if it ever returns */
    bool has_ended;
    /* the caller of terminal_lines_put has the rest for itself */
    bool leaves_out;
    double waited_s; /* since the buffer was half empty */
    long long n_left_out;
};

static void destroy(terminal_lines *t)
{
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t->bytes);
    free(t);
}

static void wait_for_change(terminal_lines *t, double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    const long long ns = until.tv_nsec + (long long)(seconds * 1e9);
    until.tv_sec += (time_t)(ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    pthread_cond_timedwait(&t->changed, &t->lock, &until);
}

/* ---- The thread ---- */
/* Writes the lines. Returns false if nobody reads them. Called without the lock. */
static bool write_lines(terminal_lines *t, const char *text, size_t n)
{
    while (n > 0) {
        const ssize_t done = write(t->fd, text, n);
        if (done < 0 && errno == EAGAIN)
            poll(&(struct pollfd){.fd = t->fd, .events = POLLOUT}, 1, 100);
        const bool is_read = done >= 0 || errno == EAGAIN || errno == EINTR;
        pthread_mutex_lock(&t->lock);
        const bool is_left = t->is_left;
        if (done > 0)
            t->moved_s = tess_os_now_s();
        pthread_mutex_unlock(&t->lock);
        if (is_left)
            return true;
        if (!is_read)
            return false;
        text += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
    return true;
}

/* Takes as many whole lines as one write can keep together. */
static size_t take(terminal_lines *t, char lines[OUTPUT_LINE_BYTES])
{
    size_t n = t->n < OUTPUT_LINE_BYTES ? t->n : OUTPUT_LINE_BYTES;
    const char *end = memrchr(t->bytes + t->begin, '\n', n);
    if (end != NULL)
        n = (size_t)(end + 1 - (t->bytes + t->begin));
    memcpy(lines, t->bytes + t->begin, n);
    t->begin += n;
    t->n -= n;
    return n;
}

static void *run(void *self)
{
    terminal_lines *t = self;
    char lines[OUTPUT_LINE_BYTES];
    pthread_mutex_lock(&t->lock);
    while (!t->is_left && !(t->ends && t->n == 0)) {
        if (t->n == 0) {
            pthread_cond_wait(&t->changed, &t->lock);
            continue;
        }
        const size_t n = take(t, lines);
        pthread_cond_broadcast(&t->changed);
        pthread_mutex_unlock(&t->lock);
        const bool is_read = write_lines(t, lines, n);
        if (!is_read)
            tess_report_line(&t->reporter, "nobody reads standard %s: the run goes on, and the ranks' lines are in %s",
                             t->fd == STDOUT_FILENO ? "output" : "error", t->folder);
        pthread_mutex_lock(&t->lock);
        if (!is_read) {
            t->gone = true;
            t->n = 0;
        }
    }
    const bool is_left = t->is_left;
    t->has_ended = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    if (is_left)
        destroy(t);
    return NULL;
}

/* ---- The other side ---- */
tess_status terminal_lines_open(int fd, const char *folder, const tess_reporter *reporter, terminal_lines **out)
{
    pthread_condattr_t clock;
    terminal_lines *t = calloc(1, sizeof(*t)); /* not of the caller's memory: the thread may outlive that */
    *out = NULL;
    TESS_CHECK(t != NULL, TESS_E_NOMEM, "no memory for the ranks' lines");
    *t = (terminal_lines){.fd = fd, .reporter = *reporter, .bytes = malloc(WAITING_BYTES)};
    snprintf(t->folder, sizeof(t->folder), "%s", folder);
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&t->changed, &clock);
    pthread_condattr_destroy(&clock);
    t->moved_s = tess_os_now_s();
    if (t->bytes == NULL || pthread_create(&t->thread, NULL, run, t) != 0) {
        destroy(t);
        return TESS_FAIL(TESS_E_NOMEM, "no thread for the ranks' lines");
    }
    *out = t;
    return TESS_OK;
}

/* Waits until the buffer has room for n bytes. Returns false if the terminal is too slow. */
static bool has_room(terminal_lines *t, size_t n)
{
    if (t->n <= WAITING_BYTES / 2) {
        t->leaves_out = false;
        t->waited_s = 0;
    }
    while (!t->gone && !t->leaves_out && WAITING_BYTES - t->n < n) {
        const double before_s = tess_os_now_s();
        wait_for_change(t, patience_s - t->waited_s);
        t->waited_s += tess_os_now_s() - before_s;
        t->leaves_out = t->waited_s >= patience_s;
    }
    return !t->gone && !t->leaves_out && WAITING_BYTES - t->n >= n;
}

static void add(terminal_lines *t, const char *text, size_t n)
{
    if (t->begin + t->n + n > WAITING_BYTES) {
        memmove(t->bytes, t->bytes + t->begin, t->n);
        t->begin = 0;
    }
    memcpy(t->bytes + t->begin + t->n, text, n);
    t->n += n;
    pthread_cond_broadcast(&t->changed);
}

/* Adds a line about those that were left out, if there are any. It has room: it comes when half of the buffer is empty,
 * or at the end, where it may be missing itself. */
static void tell(terminal_lines *t)
{
    char note[OUTPUT_LINE_BYTES];
    if (t->n_left_out == 0 || t->gone)
        return;
    const int n = snprintf(note, sizeof(note),
                           "--- tessera: %lld lines are left out here: this output was not read; %s has them ---\n",
                           t->n_left_out, t->folder);
    if (WAITING_BYTES - t->n < (size_t)n)
        return;
    add(t, note, (size_t)n);
    t->n_left_out = 0;
}

void terminal_lines_put(terminal_lines *t, const char *text, size_t n)
{
    pthread_mutex_lock(&t->lock);
    if (has_room(t, n)) {
        tell(t);
        if (WAITING_BYTES - t->n >= n)
            add(t, text, n);
    } else if (!t->gone) {
        t->n_left_out++;
    }
    pthread_mutex_unlock(&t->lock);
}

void terminal_lines_close(terminal_lines **out)
{
    terminal_lines *t = *out;
    if (t == NULL)
        return;
    *out = NULL;
    pthread_mutex_lock(&t->lock);
    const double begin_s = tess_os_now_s();
    for (double now_s = begin_s; !t->has_ended && now_s < begin_s + longest_end_s; now_s = tess_os_now_s()) {
        tell(t);
        t->ends = t->n_left_out == 0 || t->gone;
        pthread_cond_broadcast(&t->changed);
        const double since_s = t->moved_s > begin_s ? t->moved_s : begin_s;
        if (now_s >= since_s + patience_s)
            break;
        wait_for_change(t, 0.05);
    }
    t->is_left = !t->has_ended;
    const bool is_left = t->is_left;
    const pthread_t thread = t->thread;
    pthread_mutex_unlock(&t->lock);
    if (is_left) {
        pthread_detach(thread);
    } else {
        pthread_join(thread, NULL);
        destroy(t);
    }
}
