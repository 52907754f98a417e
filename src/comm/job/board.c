#include "comm/job/job.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"

_Static_assert(sizeof(tess_fingerprint) % 8 == 0, "the board copies it by words");

/* Words, so that a reader never sees half of one and no thread checker sees a race. Each store stays behind what was
 * stored before it and each load before what is loaded after it, so that a version around them tells a torn copy. */
static void store_words(_Atomic uint64_t *to, const void *from, size_t n_words)
{
    for (size_t i = 0; i < n_words; i++) {
        uint64_t word;
        memcpy(&word, (const char *)from + i * 8, 8);
        atomic_store_explicit(&to[i], word, memory_order_release);
    }
}

static void load_words(void *to, const _Atomic uint64_t *from, size_t n_words)
{
    for (size_t i = 0; i < n_words; i++) {
        uint64_t word = atomic_load_explicit(&from[i], memory_order_acquire);
        memcpy((char *)to + i * 8, &word, 8);
    }
}

static void store_text(_Atomic uint64_t *to, const char *text)
{
    char copy[JOB_TEXT_BYTES] = {0};
    size_t n = strnlen(text, sizeof(copy) - 1);
    memcpy(copy, text, n);
    store_words(to, copy, sizeof(copy) / 8);
}

static void load_text(char *to, const _Atomic uint64_t *from)
{
    load_words(to, from, JOB_TEXT_BYTES / 8);
    to[JOB_TEXT_BYTES - 1] = '\0';
}

void tess_board_phase(tess_job_row *row, const char *phase, int64_t step, int64_t detail)
{
    store_text(row->phase, phase);
    atomic_store_explicit(&row->step, step, memory_order_relaxed);
    atomic_store_explicit(&row->detail, detail, memory_order_relaxed);
    atomic_store_explicit(&row->heartbeat_ns, tess_os_now_ns(), memory_order_relaxed);
}

void tess_board_op(tess_job_row *row, const tess_fingerprint *fp, const char *team, tess_trace_state state)
{
    uint32_t version = atomic_load_explicit(&row->op_version, memory_order_relaxed);
    /* Two threads on two teams may come at once: the board shows one of them. */
    if ((version & 1) != 0 || !atomic_compare_exchange_strong(&row->op_version, &version, version + 1))
        return;
    store_words(row->op, fp, sizeof(*fp) / 8);
    store_text(row->op_team, team);
    atomic_store_explicit(&row->op_state, (uint32_t)state, memory_order_relaxed);
    atomic_store_explicit(&row->op_version, version + 2, memory_order_release);
    atomic_store_explicit(&row->heartbeat_ns, tess_os_now_ns(), memory_order_relaxed);
}

void tess_board_op_state(tess_job_row *row, const tess_fingerprint *fp, tess_trace_state state)
{
    tess_fingerprint now;
    load_words(&now, row->op, sizeof(now) / 8);
    if (now.team == fp->team && now.sequence == fp->sequence && now.kind == fp->kind)
        atomic_store_explicit(&row->op_state, (uint32_t)state, memory_order_relaxed);
}

void tess_board_error(tess_job_row *row, const char *message, int blames)
{
    if (row->error[0] == '\0')
        snprintf(row->error, sizeof(row->error), "%s", message);
    if (blames >= 0)
        atomic_store(&row->blames, blames + 1);
}

static size_t clamp(int written, size_t size)
{
    return written < 0 ? 0 : (size_t)written < size ? (size_t)written : size - 1;
}

/* "in X" while it goes on, "after X" when it is done; "before its first operation". */
static size_t describe_op(const tess_job_row *row, char *text, size_t size)
{
    tess_fingerprint fp;
    char team[JOB_TEXT_BYTES], what[256];
    uint32_t version;
    int n_looks = 0; /* a rank that died while it wrote leaves a torn row for good */
    do {
        version = atomic_load_explicit(&row->op_version, memory_order_acquire);
        load_words(&fp, row->op, sizeof(fp) / 8);
        load_text(team, row->op_team);
    } while ((version % 2 == 1 || atomic_load_explicit(&row->op_version, memory_order_relaxed) != version) &&
             ++n_looks < 1000);
    if (fp.kind == TESS_TRACE_NONE)
        return clamp(snprintf(text, size, "before its first operation"), size);
    uint32_t state = atomic_load_explicit(&row->op_state, memory_order_relaxed);
    return clamp(snprintf(text, size, "%s %s", state == TESS_TRACE_COMPLETED ? "after" : "in",
                          tess_fingerprint_format(&fp, team, what, sizeof(what))),
                 size);
}

static size_t describe_phase(const tess_job_row *row, char *text, size_t size)
{
    char phase[JOB_TEXT_BYTES];
    load_text(phase, row->phase);
    if (phase[0] == '\0')
        return 0;
    size_t at = clamp(snprintf(text, size, ", in phase '%s'", phase), size);
    int64_t step = atomic_load_explicit(&row->step, memory_order_relaxed);
    int64_t detail = atomic_load_explicit(&row->detail, memory_order_relaxed);
    if (step >= 0)
        at += clamp(snprintf(text + at, size - at, " of step %lld", (long long)step), size - at);
    if (detail >= 0)
        at += clamp(snprintf(text + at, size - at, " (%lld)", (long long)detail), size - at);
    return at;
}

const char *tess_board_describe(const tess_job_row *row, char *text, size_t size)
{
    if (atomic_load(&row->state) == JOB_RANK_ABSENT) {
        snprintf(text, size, "has not joined the job");
        return text;
    }
    size_t at = clamp(snprintf(text, size, "is "), size);
    at += describe_op(row, text + at, size - at);
    at += describe_phase(row, text + at, size - at);
    uint64_t seen = atomic_load_explicit(&row->heartbeat_ns, memory_order_relaxed);
    snprintf(text + at, size - at, ", last seen %.1f s ago", (double)(tess_os_now_ns() - seen) * 1e-9);
    return text;
}

const char *tess_board_describe_end(const tess_job *job, int rank, char *text, size_t size)
{
    const tess_job_row *row = &job->rows[rank];
    int signal = atomic_load(&row->signal), code = atomic_load(&row->exit_code);
    uint32_t state = atomic_load(&row->state);
    size_t at;
    if (state == JOB_RANK_LOST && signal != 0) {
        const char *name = sigabbrev_np(signal);
        at = clamp(
            snprintf(text, size, "rank %d was killed by signal %d (SIG%s) ", rank, signal, name != NULL ? name : "?"),
            size);
    } else if (state == JOB_RANK_LOST) {
        at = clamp(snprintf(text, size, "rank %d exited with code %d ", rank, code), size);
    } else if (state == JOB_RANK_GONE) {
        at = clamp(
            snprintf(text, size, "rank %d exited with code 0 without leaving the job (tess_runtime_destroy) ", rank),
            size);
    } else {
        at = clamp(snprintf(text, size, "rank %d left the job (tess_runtime_destroy) ", rank), size);
    }
    at += describe_op(row, text + at, size - at);
    describe_phase(row, text + at, size - at);
    return text;
}
