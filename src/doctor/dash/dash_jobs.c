/* Follows the job that writes to a folder: from before its start until after its end, and through restarts. */
#include "base/os/os.h"
#include "doctor/dash/dash_impl.h"

static const double search_s = 1; /* pause between two searches, which look at all processes */

static bool has_running(const tess_live_job *live)
{
    for (int r = 0; r < live->world; r++)
        if (atomic_load(&live->job.rows[r].state) == JOB_RANK_JOINED && atomic_load(&live->job.rows[r].ended) == 0)
            return true;
    return false;
}

static void forget(dash_job *job)
{
    tess_top_snapshot_destroy(&job->now);
    tess_top_snapshot_destroy(&job->before);
}

/* Searches for a job, and takes it in place of the present one. A launcher that restarts its ranks may give them other
 * memory. */
static void search(dash_job *job)
{
    tess_live_job found;
    int n = 0;
    job->looked_s = tess_os_now_s();
    const bool is_found = tess_live_find(job->folder, &found, 1, &n) == TESS_OK;
    tess_error_clear();
    if (!is_found)
        return;
    if (job->open && found.device == job->live.device && found.inode == job->live.inode) {
        tess_live_close(&found);
        return;
    }
    if (job->open)
        tess_live_close(&job->live);
    forget(job);
    job->live = found;
    job->open = true;
    job->gone_s = 0;
}

static uint64_t steps_of(const tess_top_snapshot *s)
{
    uint64_t most = 0;
    for (int r = 0; r < s->world; r++)
        most = s->ranks[r].board.n_steps > most ? s->ranks[r].board.n_steps : most;
    return most;
}

static void take(tess_mem *mem, dash_job *job)
{
    tess_top_snapshot *next = NULL;
    if (tess_top_snapshot_take(mem, &job->live, &next) != TESS_OK) {
        tess_error_clear();
        return;
    }
    if (job->now != NULL && steps_of(next) > steps_of(job->now)) {
        tess_top_snapshot_destroy(&job->before);
        job->before = job->now;
        job->now = NULL;
    }
    tess_top_snapshot_destroy(&job->now);
    job->now = next;
    if (next->running)
        return;
    tess_live_close(&job->live); /* the job's memory can be released now */
    job->open = false;
    job->gone_s = tess_os_now_s();
}

void dash_job_look(tess_mem *mem, dash_job *job)
{
    job->has_folder = tess_os_is_dir(job->folder);
    const bool is_due = tess_os_now_s() - job->looked_s >= search_s;
    if (is_due && job->has_folder && !(job->open && has_running(&job->live)))
        search(job);
    if (job->open)
        take(mem, job);
}

void dash_job_close(dash_job *job)
{
    if (job->open)
        tess_live_close(&job->live);
    job->open = false;
    forget(job);
}
