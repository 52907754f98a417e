/* Finds the root cause of a job's failure. Only the lowest connected host reports it, once. */
#include "base/os/os.h"
#include "job/rank_end.h"
#include "control/launch/agent/agent_impl.h"

bool ending_in_touch(const tess_job *job, int host)
{
    const tess_job_host *entry = &job->header->hosts[host];
    if (host == (int)job->header->host)
        return true;
    uint64_t heard = atomic_load(&entry->heard_ns), now = tess_os_now_ns();
    return atomic_load(&entry->state) == JOB_HOST_UP && (double)(now - heard) * 1e-9 < TESS_AGENT_SILENCE_S;
}

bool ending_is_running(const tess_job *job, int host)
{
    for (int r = 0; r < (int)job->header->world; r++) {
        const tess_job_row *row = &job->rows[r];
        if ((host < 0 || row->host == host) && atomic_load(&row->state) != JOB_RANK_ABSENT &&
            atomic_load(&row->ended) == 0 && ending_in_touch(job, row->host))
            return true;
    }
    return false;
}

int ending_find(const tess_job *job, bool early, int *code)
{
    int cause = tess_ending_find(job, atomic_load(&job->header->first_lost), early, code);
    /* A cause without an exit code gets the code of another failed rank, if there is one yet. */
    for (int r = 0; *code == 0 && r < (int)job->header->world; r++)
        if (atomic_load(&job->rows[r].state) == JOB_RANK_LOST)
            *code = atomic_load(&job->rows[r].exit_code);
    return cause;
}

bool ending_take(const tess_job *job, int rank, int code)
{
    tess_job_header *header = job->header;
    uint32_t none = JOB_DIAGNOSIS_NONE;
    if (!atomic_compare_exchange_strong(&header->diagnosis_state, &none, JOB_DIAGNOSIS_WRITING))
        return false;
    atomic_store(&header->diagnosis_rank, rank);
    atomic_store(&header->diagnosis_code, code);
    atomic_store(&header->diagnosis_state, JOB_DIAGNOSIS_HERE);
    return true;
}
