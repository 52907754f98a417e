#include "rl/reward/grader_worker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/os.h"

static const double FIRST_PAUSE_S = 0.05, LONGEST_PAUSE_S = 5, MUTE_S = 1;
static const double FIRST_LOOK_S = 1; /* a program with a missing dependency ends within this time */
enum { LOOK_MS = 50 };

tess_status grader_worker_init(tess_mem *mem, size_t room, grader_worker *worker)
{
    worker->process = (grader_process){.in = -1, .out = -1, .err = -1};
    worker->to.mem = mem;
    worker->room = room;
    return tess_mem_alloc(mem, TESS_POOL_MISC, room, "a grader's answers", (void **)&worker->from);
}

void grader_worker_free(grader_worker *worker)
{
    int state;
    if (worker->process.pid != 0)
        grader_process_end(&worker->process, &state);
    tess_buffer_free(&worker->to);
    tess_mem_drop(&worker->from);
}

tess_status grader_worker_start(const grader_command *command, grader_worker *worker)
{
    worker->n_starts++;
    worker->n_answers = 0;
    worker->closed_s = 0;
    worker->got = worker->written = worker->to.size = worker->tail_size = 0;
    return grader_process_start(command, &worker->process);
}

void grader_worker_end(grader_worker *worker, int *state)
{
    grader_worker_read_errors(worker);
    grader_process_end(&worker->process, state);
    worker->strikes = worker->n_answers > 0 ? 0 : worker->strikes + 1;
    double pause_s = 0;
    for (int i = 1; i < worker->strikes && pause_s < LONGEST_PAUSE_S; i++)
        pause_s = pause_s == 0 ? FIRST_PAUSE_S : 2 * pause_s;
    worker->not_before_s = tess_os_now_s() + pause_s;
    worker->n_sent = 0;
    worker->alone = false;
}

void grader_worker_write(grader_worker *worker)
{
    while (worker->process.in >= 0 && worker->written < worker->to.size) {
        ssize_t n = write(worker->process.in, worker->to.data + worker->written, worker->to.size - worker->written);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) { /* it no longer reads; other code detects that it has ended or is late */
            tess_os_close(&worker->process.in);
            return;
        }
        worker->written += (size_t)n;
    }
    worker->to.size = worker->written = 0;
}

bool grader_worker_read(grader_worker *worker)
{
    ssize_t n = 0;
    if (worker->process.out < 0)
        return false;
    do
        n = read(worker->process.out, worker->from + worker->got, worker->room - worker->got);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        worker->got += (size_t)n;
    if (n > 0 || (n < 0 && errno == EAGAIN))
        return true;
    tess_os_close(&worker->process.out);
    worker->closed_s = tess_os_now_s();
    return false;
}

bool grader_worker_is_mute(const grader_worker *worker)
{
    return worker->closed_s > 0 && tess_os_now_s() - worker->closed_s > MUTE_S;
}

static void keep_tail(grader_worker *worker, const char *text, size_t size)
{
    if (size > sizeof(worker->tail)) {
        text += size - sizeof(worker->tail);
        size = sizeof(worker->tail);
    }
    size_t kept = sizeof(worker->tail) - size;
    kept = worker->tail_size < kept ? worker->tail_size : kept;
    memmove(worker->tail, worker->tail + worker->tail_size - kept, kept);
    memcpy(worker->tail + kept, text, size);
    worker->tail_size = kept + size;
}

void grader_worker_read_errors(grader_worker *worker)
{
    enum { MOST_READS = 64 }; /* output that never stops must not keep this process */
    char text[4096];
    for (int i = 0; i < MOST_READS && worker->process.err >= 0; i++) {
        ssize_t n = read(worker->process.err, text, sizeof(text));
        if (n > 0)
            keep_tail(worker, text, (size_t)n);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            tess_os_close(&worker->process.err);
        else if (errno == EAGAIN)
            return;
    }
}

const char *grader_worker_tail(const grader_command *command, const grader_worker *worker, char *text, size_t size)
{
    size_t end = worker->tail_size, at = 0;
    text[0] = '\0';
    while (end > 0 && worker->tail[end - 1] == '\n')
        end--;
    if (end == 0)
        return text;
    at = tess_text_add(text, size, at, "; it wrote: '");
    char *const words = text + at;
    for (size_t i = 0; i < end; i++) {
        char c = worker->tail[i];
        const char *shown = c == '\n' ? " | " : c == '\t' ? " " : c >= ' ' && c <= '~' ? NULL : "?";
        at = shown != NULL ? tess_text_add(text, size, at, "%s", shown) : tess_text_add(text, size, at, "%c", c);
    }
    grader_command_redact(command, words);
    tess_text_add(text, size, strlen(text), "'");
    return text;
}

const char *grader_end_text(int state, char *text, size_t size)
{
    if (WIFEXITED(state))
        snprintf(text, size, "exit code %d", WEXITSTATUS(state));
    else
        snprintf(text, size, "signal %d: %s", WTERMSIG(state), sigdescr_np(WTERMSIG(state)));
    return text;
}

tess_status grader_worker_check(const grader_command *command, grader_worker *worker, const char *key,
                                const char *program)
{
    char tail[GRADER_STDERR * 3 + 32], how[64];
    int state;
    if (worker->process.pid == 0 && grader_worker_start(command, worker) != TESS_OK)
        return tess_fail_context(TESS_E_INVALID, "%s", key);
    const double until_s = tess_os_now_s() + FIRST_LOOK_S;
    while (!grader_process_has_ended(&worker->process)) {
        grader_worker_read_errors(worker);
        if (tess_os_now_s() >= until_s)
            return TESS_OK;
        poll(&(struct pollfd){worker->process.err, POLLIN, 0}, 1, LOOK_MS);
    }
    grader_worker_end(worker, &state);
    return TESS_FAIL(TESS_E_INVALID, "%s: '%s' ended (%s) before it was given anything%s", key, program,
                     grader_end_text(state, how, sizeof(how)), grader_worker_tail(command, worker, tail, sizeof(tail)));
}

void grader_worker_drop(grader_worker *worker, int i)
{
    memmove(&worker->sent[i], &worker->sent[i + 1], (size_t)(worker->n_sent - i - 1) * sizeof(worker->sent[0]));
    worker->n_sent--;
}
