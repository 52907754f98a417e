/* The board: each rank writes its own row, and others read copies of it. */
#include "job/job_memory.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"

_Static_assert(sizeof(tess_fingerprint) % 8 == 0, "the board copies it by words");

/* Copies whole words atomically, so that no reader sees half a word, and thread checkers see no race. Each store is
 * ordered after earlier stores, and each load before later loads. So a version before and after the words reveals a
 * torn copy. */
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

static void store_text(_Atomic uint64_t *to, const char *text, size_t size)
{
    char copy[JOB_WHY_BYTES] = {0};
    size_t n = strnlen(text, size - 1);
    memcpy(copy, text, n);
    store_words(to, copy, size / 8);
}

static void load_text(char *to, const _Atomic uint64_t *from, size_t size)
{
    load_words(to, from, size / 8);
    to[size - 1] = '\0';
}

void tess_board_phase(tess_job_row *row, const char *phase, int64_t step, int64_t detail, uint64_t now_ns)
{
    store_text(row->phase, phase, JOB_TEXT_BYTES);
    atomic_store_explicit(&row->step, step, memory_order_relaxed);
    atomic_store_explicit(&row->detail, detail, memory_order_relaxed);
    atomic_store_explicit(&row->phase_since_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&row->heartbeat_ns, now_ns, memory_order_relaxed);
}

void tess_board_phase_of(const tess_job_row *row, char phase[TESS_TRACE_PHASE_BYTES])
{
    enum { WORDS = (TESS_TRACE_PHASE_BYTES + 7) / 8 };
    _Static_assert(WORDS * 8 <= JOB_TEXT_BYTES, "an event keeps the beginning of the board's text");
    char text[WORDS * 8];
    load_words(text, row->phase, WORDS);
    memcpy(phase, text, TESS_TRACE_PHASE_BYTES);
    phase[TESS_TRACE_PHASE_BYTES - 1] = '\0';
}

void tess_board_op(tess_job_row *row, const tess_fingerprint *fp, const char *team, uint64_t now_ns)
{
    uint32_t version = atomic_load_explicit(&row->op_version, memory_order_relaxed);
    /* Threads of two teams may write at the same time: the board shows only one of them. */
    if ((version & 1) != 0 || !atomic_compare_exchange_strong(&row->op_version, &version, version + 1))
        return;
    bool same_team =
        atomic_load_explicit(&row->op[offsetof(tess_fingerprint, team) / 8], memory_order_relaxed) == fp->team;
    store_words(row->op, fp, sizeof(*fp) / 8);
    if (!same_team)
        store_text(row->op_team, team, JOB_TEXT_BYTES);
    atomic_store_explicit(&row->op_state, TESS_TRACE_ENQUEUED, memory_order_relaxed);
    atomic_store_explicit(&row->op_since_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&row->op_version, version + 2, memory_order_release);
    atomic_store_explicit(&row->heartbeat_ns, now_ns, memory_order_relaxed);
}

static bool shows(const _Atomic uint64_t *words, const tess_fingerprint *fp)
{
    return atomic_load_explicit(&words[offsetof(tess_fingerprint, team) / 8], memory_order_relaxed) == fp->team &&
           atomic_load_explicit(&words[offsetof(tess_fingerprint, sequence) / 8], memory_order_relaxed) == fp->sequence;
}

void tess_board_op_state(tess_job_row *row, const tess_fingerprint *fp, tess_trace_state state)
{
    if (shows(row->op, fp))
        atomic_store_explicit(&row->op_state, (uint32_t)state, memory_order_relaxed);
}

void tess_board_wait(const tess_job *job, int rank, const tess_fingerprint *fp, const char *team, uint64_t since_ns,
                     const uint64_t *missing)
{
    tess_job_row *row = &job->rows[rank];
    uint32_t version = atomic_load_explicit(&row->wait_version, memory_order_relaxed);
    if ((version & 1) != 0 || !atomic_compare_exchange_strong(&row->wait_version, &version, version + 1))
        return;
    store_words(row->wait_op, fp, sizeof(*fp) / 8);
    store_text(row->wait_team, team, JOB_TEXT_BYTES);
    if (missing != NULL)
        store_words(tess_job_awaited(job, rank), missing, tess_bits_words(job->world));
    atomic_store_explicit(&row->wait_since_ns, since_ns, memory_order_release);
    atomic_store_explicit(&row->wait_version, version + 2, memory_order_release);
}

void tess_board_wait_over(tess_job_row *row, const tess_fingerprint *fp)
{
    if (shows(row->wait_op, fp))
        atomic_store_explicit(&row->wait_since_ns, 0, memory_order_release);
}

void tess_board_situation(tess_job_row *row, uint32_t situation, const char *why)
{
    store_text(row->why, why, JOB_WHY_BYTES);
    atomic_store_explicit(&row->situation_ns, tess_os_now_ns(), memory_order_relaxed);
    atomic_store_explicit(&row->situation, situation, memory_order_release);
}

void tess_board_error(tess_job_row *row, const char *message, int blames)
{
    if (row->error[0] == '\0')
        snprintf(row->error, sizeof(row->error), "%s", message);
    if (blames >= 0)
        atomic_store(&row->blames, blames + 1);
}

/* Copies the operation. A rank that died while writing leaves a torn operation: the reader retries some times, then
 * accepts it. */
static void load_op(const tess_job_row *row, tess_board_copy *copy)
{
    uint32_t version;
    int n_looks = 0;
    do {
        version = atomic_load_explicit(&row->op_version, memory_order_acquire);
        load_words(&copy->op, row->op, sizeof(copy->op) / 8);
        load_text(copy->op_team, row->op_team, sizeof(copy->op_team));
    } while ((version % 2 == 1 || atomic_load_explicit(&row->op_version, memory_order_relaxed) != version) &&
             ++n_looks < 1000);
    copy->op_state = atomic_load_explicit(&row->op_state, memory_order_relaxed);
}

static uint64_t age(uint64_t since_ns, uint64_t now_ns)
{
    return now_ns > since_ns ? now_ns - since_ns : 0;
}

static void load_wait(const tess_job_row *row, uint64_t now_ns, tess_board_copy *copy)
{
    uint32_t version;
    uint64_t since_ns;
    int n_looks = 0;
    do {
        version = atomic_load_explicit(&row->wait_version, memory_order_acquire);
        since_ns = atomic_load_explicit(&row->wait_since_ns, memory_order_acquire);
        load_words(&copy->wait_op, row->wait_op, sizeof(copy->wait_op) / 8);
        load_text(copy->wait_team, row->wait_team, sizeof(copy->wait_team));
    } while ((version % 2 == 1 || atomic_load_explicit(&row->wait_version, memory_order_relaxed) != version) &&
             ++n_looks < 1000);
    copy->wait_age_ns = since_ns == 0 ? 0 : age(since_ns, now_ns) + 1;
}

void tess_board_export(const tess_job_row *row, tess_board_copy *copy)
{
    /* The fields that announce an error are read before the error. */
    copy->state = atomic_load(&row->state);
    copy->ended = atomic_load(&row->ended);
    copy->run_state = atomic_load_explicit(&row->run_state, memory_order_relaxed);
    copy->pid = atomic_load(&row->pid);
    copy->signal = atomic_load(&row->signal);
    copy->exit_code = atomic_load(&row->exit_code);
    copy->blames = atomic_load(&row->blames);
    copy->broken_team = atomic_load(&row->broken_team);
    uint64_t now = tess_os_now_ns();
    copy->age_ns = age(atomic_load_explicit(&row->heartbeat_ns, memory_order_relaxed), now);
    copy->phase_age_ns = age(atomic_load_explicit(&row->phase_since_ns, memory_order_relaxed), now);
    copy->op_age_ns = age(atomic_load_explicit(&row->op_since_ns, memory_order_relaxed), now);
    copy->step = atomic_load_explicit(&row->step, memory_order_relaxed);
    copy->detail = atomic_load_explicit(&row->detail, memory_order_relaxed);
    load_text(copy->phase, row->phase, sizeof(copy->phase));
    load_op(row, copy);
    load_wait(row, now, copy);
    copy->n_steps = atomic_load_explicit(&row->n_steps, memory_order_relaxed);
    copy->n_tokens = atomic_load_explicit(&row->n_tokens, memory_order_relaxed);
    copy->loss = atomic_load_explicit(&row->loss, memory_order_relaxed);
    copy->step_ns = atomic_load_explicit(&row->step_ns, memory_order_relaxed);
    load_words(copy->phase_ns, row->phase_ns, TESS_PHASE_COUNT);
    load_words(copy->pool_bytes, row->pool_bytes, TESS_POOL_COUNT);
    copy->disk_bytes = atomic_load_explicit(&row->disk_bytes, memory_order_relaxed);
    copy->situation = atomic_load_explicit(&row->situation, memory_order_acquire);
    copy->status = atomic_load(&row->status);
    load_text(copy->why, row->why, sizeof(copy->why));
    snprintf(copy->error, sizeof(copy->error), "%.*s", JOB_ERROR_BYTES - 1, row->error);
}

void tess_board_export_awaited(const tess_job *job, int rank, uint64_t *set)
{
    load_words(set, tess_job_awaited(job, rank), tess_bits_words(job->world));
}

bool tess_board_import(const tess_job *job, int rank, const tess_board_copy *copy)
{
    tess_job_row *row = &job->rows[rank];
    uint64_t now = tess_os_now_ns();
    bool news = false;
    tess_board_phase(row, copy->phase, copy->step, copy->detail, age(copy->phase_age_ns, now));
    tess_board_op(row, &copy->op, copy->op_team, age(copy->op_age_ns, now));
    tess_board_op_state(row, &copy->op, (tess_trace_state)copy->op_state);
    tess_board_wait(job, rank, &copy->wait_op, copy->wait_team,
                    copy->wait_age_ns == 0 ? 0 : age(copy->wait_age_ns, now), NULL);
    atomic_store_explicit(&row->n_steps, copy->n_steps, memory_order_relaxed);
    atomic_store_explicit(&row->n_tokens, copy->n_tokens, memory_order_relaxed);
    atomic_store_explicit(&row->loss, copy->loss, memory_order_relaxed);
    atomic_store_explicit(&row->step_ns, copy->step_ns, memory_order_relaxed);
    store_words(row->phase_ns, copy->phase_ns, TESS_PHASE_COUNT);
    store_words(row->pool_bytes, copy->pool_bytes, TESS_POOL_COUNT);
    atomic_store_explicit(&row->disk_bytes, copy->disk_bytes, memory_order_relaxed);
    tess_board_situation(row, copy->situation, copy->why);
    atomic_store(&row->status, copy->status);
    atomic_store_explicit(&row->heartbeat_ns, age(copy->age_ns, now), memory_order_relaxed);
    atomic_store_explicit(&row->run_state, copy->run_state, memory_order_relaxed);
    atomic_store(&row->pid, copy->pid);
    /* A copy may have caught the error half written: the longer text is complete. */
    if (strlen(copy->error) > strnlen(row->error, sizeof(row->error))) {
        snprintf(row->error, sizeof(row->error), "%s", copy->error);
        news = true;
    }
    atomic_store(&row->blames, copy->blames);
    if (copy->broken_team != 0 && atomic_exchange(&row->broken_team, copy->broken_team) != copy->broken_team)
        news = true;
    /* Signal and exit code are stored before the state that makes them valid. */
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
