#include "launch/failure_facts.h"

#include "diagnosis/history.h"

void tess_ending_facts(const tess_job *job, int cause, const tess_launch_result *result, tess_launch_failure *out)
{
    const tess_job_header *header = job->header;
    const tess_job_row *row = &job->rows[result->failed_rank];
    int signal = atomic_load(&row->signal), code = atomic_load(&row->exit_code);
    /* Between a recovery and their next step ranks show no step: resumed_step says where they continue. */
    int64_t most_steps = atomic_load(&header->resumed_step);
    for (int r = 0; r < (int)header->world; r++) {
        int64_t steps = (int64_t)atomic_load_explicit(&job->rows[r].n_steps, memory_order_relaxed);
        most_steps = steps > most_steps ? steps : most_steps;
    }
    bool with_host = atomic_load(&row->state) == JOB_RANK_LOST && signal == 0 && code == 0;
    *out = (tess_launch_failure){.rank = result->failed_rank,
                                 .host = header->n_hosts > 1 ? header->hosts[row->host].name : "",
                                 .signal = signal,
                                 .exit_code = result->exit_code,
                                 .status = (tess_status)atomic_load(&job->rows[cause].status),
                                 .stuck = result->failed_rank != cause,
                                 .step = atomic_load(&row->step),
                                 .situation = with_host ? TESS_RANK_HOST_LOST : (int)atomic_load(&row->situation),
                                 .n_ranks = (int)header->world,
                                 .steps = most_steps,
                                 .stopping = atomic_load(&header->stop) == JOB_STOP_NOW,
                                 .report = result->report};
    tess_board_phase_of(row, out->phase);
}
