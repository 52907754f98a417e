#include "comm/job/job.h"

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

/* A rank that died while it wrote leaves a torn operation for good: looked at a number of times, then taken as it is.
 */
static void load_op(const tess_job_row *row, tess_board_copy *copy)
{
    uint32_t version;
    int n_looks = 0;
    do {
        version = atomic_load_explicit(&row->op_version, memory_order_acquire);
        load_words(&copy->op, row->op, sizeof(copy->op) / 8);
        load_text(copy->op_team, row->op_team);
    } while ((version % 2 == 1 || atomic_load_explicit(&row->op_version, memory_order_relaxed) != version) &&
             ++n_looks < 1000);
    copy->op_state = atomic_load_explicit(&row->op_state, memory_order_relaxed);
}

void tess_board_export(const tess_job_row *row, tess_board_copy *copy)
{
    /* What says that there is an error comes before the error. */
    copy->state = atomic_load(&row->state);
    copy->ended = atomic_load(&row->ended);
    copy->run_state = atomic_load_explicit(&row->run_state, memory_order_relaxed);
    copy->pid = atomic_load(&row->pid);
    copy->signal = atomic_load(&row->signal);
    copy->exit_code = atomic_load(&row->exit_code);
    copy->blames = atomic_load(&row->blames);
    copy->broken_team = atomic_load(&row->broken_team);
    uint64_t seen = atomic_load_explicit(&row->heartbeat_ns, memory_order_relaxed), now = tess_os_now_ns();
    copy->age_ns = now > seen ? now - seen : 0;
    copy->step = atomic_load_explicit(&row->step, memory_order_relaxed);
    copy->detail = atomic_load_explicit(&row->detail, memory_order_relaxed);
    load_text(copy->phase, row->phase);
    load_op(row, copy);
    snprintf(copy->error, sizeof(copy->error), "%.*s", JOB_ERROR_BYTES - 1, row->error);
}

bool tess_board_import(tess_job_row *row, const tess_board_copy *copy)
{
    uint64_t now = tess_os_now_ns();
    bool news = false;
    store_text(row->phase, copy->phase);
    atomic_store_explicit(&row->step, copy->step, memory_order_relaxed);
    atomic_store_explicit(&row->detail, copy->detail, memory_order_relaxed);
    tess_board_op(row, &copy->op, copy->op_team, (tess_trace_state)copy->op_state);
    atomic_store_explicit(&row->heartbeat_ns, now > copy->age_ns ? now - copy->age_ns : 0, memory_order_relaxed);
    atomic_store_explicit(&row->run_state, copy->run_state, memory_order_relaxed);
    atomic_store(&row->pid, copy->pid);
    /* A copy may have caught the error half written: the longer one is the whole. */
    if (strlen(copy->error) > strnlen(row->error, sizeof(row->error))) {
        snprintf(row->error, sizeof(row->error), "%s", copy->error);
        news = true;
    }
    atomic_store(&row->blames, copy->blames);
    if (copy->broken_team != 0 && atomic_exchange(&row->broken_team, copy->broken_team) != copy->broken_team)
        news = true;
    /* How it ended, then that it has. */
    if (copy->state > atomic_load(&row->state)) {
        atomic_store(&row->signal, copy->signal);
        atomic_store(&row->exit_code, copy->exit_code);
        atomic_store(&row->state, copy->state);
        news = true;
    }
    if (copy->ended != 0 && atomic_load(&row->ended) == 0) {
        atomic_store(&row->exit_code, copy->exit_code);
        atomic_store(&row->ended, 1);
        news = true;
    }
    return news;
}
