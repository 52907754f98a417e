#include "job/board_waits.h"

#include <string.h>

#include "base/os/os.h"

char tess_board_process_state(const tess_job *job, int rank, int pid)
{
    const tess_job_row *row = &job->rows[rank];
    return row->host == (int32_t)job->header->host ? tess_os_process_state(pid)
                                                   : (char)atomic_load_explicit(&row->run_state, memory_order_relaxed);
}

tess_status tess_board_waits_create(tess_mem *mem, int world, tess_board_waits *waits)
{
    const size_t n = (size_t)world, words = tess_bits_words(world);
    void *memory;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, n * sizeof(tess_wait) + (n + 1) * words * sizeof(uint64_t),
                            "ranks that wait", &memory));
    waits->of = memory;
    waits->missing = (uint64_t *)(waits->of + n);
    waits->missed = waits->missing + n * words;
    return TESS_OK;
}

void tess_board_waits_free(tess_mem *mem, tess_board_waits *waits)
{
    tess_mem_free(mem, waits->of);
    *waits = (tess_board_waits){0};
}

/* Returns since when `rank` has waited, according to its row; 0: it does not wait. */
static uint64_t waits_since(const tess_job *job, int rank)
{
    const tess_job_row *row = &job->rows[rank];
    uint64_t since_ns = atomic_load_explicit(&row->wait_since_ns, memory_order_acquire);
    return atomic_load(&row->state) == JOB_RANK_JOINED && atomic_load(&row->ended) == 0 ? since_ns : 0;
}

static bool is_stopped(const tess_job *job, int rank)
{
    const char state = tess_board_process_state(job, rank, atomic_load(&job->rows[rank].pid));
    return state == 'T' || state == 't';
}

/* Returns since when `rank` has waited; 0: it does not wait. The ranks that it waits for are added to `missed`. */
static uint64_t read_wait(const tess_job *job, int rank, uint64_t *missing, uint64_t *missed)
{
    uint64_t since_ns = waits_since(job, rank), any = 0;
    if (since_ns == 0)
        return 0;
    const _Atomic uint64_t *awaited = tess_job_awaited(job, rank);
    for (size_t i = 0; i < tess_bits_words(job->world); i++) {
        missing[i] = atomic_load_explicit(&awaited[i], memory_order_relaxed);
        missed[i] |= missing[i];
        any |= missing[i];
    }
    return any != 0 ? since_ns : 0;
}

void tess_board_read_waits(const tess_job *job, tess_board_waits *waits)
{
    const int world = job->world;
    const size_t words = tess_bits_words(world);
    memset(waits->missed, 0, words * sizeof(uint64_t));
    for (int r = 0; r < world; r++) {
        uint64_t *missing = waits->missing + (size_t)r * words;
        waits->of[r] = (tess_wait){read_wait(job, r, missing, waits->missed), missing};
    }
    for (int r = 0; r < world; r++)
        if (waits->of[r].since_ns != 0 && tess_bits_has(waits->missed, r) && is_stopped(job, r))
            waits->of[r].since_ns = 0;
}

uint64_t tess_board_awaited_waits(const tess_job *job, int rank)
{
    uint64_t since_ns = waits_since(job, rank), any = 0;
    const _Atomic uint64_t *awaited = tess_job_awaited(job, rank);
    for (size_t i = 0; since_ns != 0 && i < tess_bits_words(job->world); i++)
        any |= atomic_load_explicit(&awaited[i], memory_order_relaxed);
    return any != 0 && !is_stopped(job, rank) ? since_ns : 0;
}
