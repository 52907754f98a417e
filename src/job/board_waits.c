#include "job/board_waits.h"

#include "base/os/os.h"

char tess_board_process_state(const tess_job *job, int rank, int pid)
{
    const tess_job_row *row = &job->rows[rank];
    return row->host == (int32_t)job->header->host ? tess_os_process_state(pid)
                                                   : (char)atomic_load_explicit(&row->run_state, memory_order_relaxed);
}

/* Since when `rank` has waited, and for which ranks; 0: it waits for none. */
static uint64_t read_wait(const tess_job *job, int rank, uint64_t *missing)
{
    const tess_job_row *row = &job->rows[rank];
    uint64_t since_ns = atomic_load_explicit(&row->wait_since_ns, memory_order_acquire), any = 0;
    if (since_ns == 0 || atomic_load(&row->state) != JOB_RANK_JOINED || atomic_load(&row->ended) != 0)
        return 0;
    for (int i = 0; i < JOB_RANK_WORDS; i++) {
        missing[i] = atomic_load_explicit(&row->wait_missing[i], memory_order_relaxed);
        any |= missing[i];
    }
    return any != 0 ? since_ns : 0;
}

void tess_board_read_waits(const tess_job *job, tess_board_waits *waits)
{
    const int world = (int)job->header->world;
    uint64_t missed[JOB_RANK_WORDS] = {0};
    for (int r = 0; r < world; r++) {
        waits->of[r] = (tess_wait){read_wait(job, r, waits->missing[r]), waits->missing[r]};
        for (int i = 0; waits->of[r].since_ns != 0 && i < JOB_RANK_WORDS; i++)
            missed[i] |= waits->missing[r][i];
    }
    for (int r = 0; r < world; r++) {
        if (waits->of[r].since_ns == 0 || (missed[r / 64] >> r % 64 & 1) == 0)
            continue;
        const char state = tess_board_process_state(job, r, atomic_load(&job->rows[r].pid));
        if (state == 'T' || state == 't')
            waits->of[r].since_ns = 0;
    }
}
