/* Follows the job that writes to a folder: from before its start until after its end, and through restarts. */
#include <math.h>

#include "base/os/os.h"
#include "doctor/dash/dash_impl.h"

/* pause between two searches, which look at all processes: it grows while nothing is found */
static const double search_s = 1, most_search_s = 5;

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

/* Takes a job that was found in place of the present one. A launcher that restarts its ranks may give them other
 * memory. Returns false if it is the present one. */
static bool take_found(dash_job *job, tess_live_job *found)
{
    if (job->open && found->device == job->live.device && found->inode == job->live.inode) {
        tess_live_close(found);
        return false;
    }
    if (job->open)
        tess_live_close(&job->live);
    forget(job);
    job->live = *found;
    job->open = true;
    job->gone_s = 0;
    return true;
}

/* Searches for the jobs of all folders whose ranks do not run. */
static void search(tess_dash *d)
{
    const char *folders[TESS_PAGE_RUNS];
    tess_live_job jobs[TESS_PAGE_RUNS];
    dash_job *of[TESS_PAGE_RUNS];
    bool found[TESS_PAGE_RUNS], any = false;
    int n = 0;
    for (int i = 0; i < d->n; i++) {
        dash_job *job = &d->jobs[i];
        if (!job->has_folder || (job->open && has_running(&job->live)))
            continue;
        folders[n] = job->folder;
        of[n++] = job;
    }
    if (n == 0 || tess_os_now_s() - d->searched_s < d->search_s)
        return;
    tess_live_find_each(folders, n, jobs, found);
    for (int i = 0; i < n; i++)
        any = (found[i] && take_found(of[i], &jobs[i])) || any;
    d->searched_s = tess_os_now_s();
    d->search_s = any ? search_s : fmin(most_search_s, d->search_s + search_s);
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

void dash_jobs_look(tess_dash *d)
{
    for (int i = 0; i < d->n; i++)
        d->jobs[i].has_folder = tess_os_is_dir(d->jobs[i].folder);
    search(d);
    for (int i = 0; i < d->n; i++)
        if (d->jobs[i].open)
            take(d->mem, &d->jobs[i]);
}

void dash_job_close(dash_job *job)
{
    if (job->open)
        tess_live_close(&job->live);
    job->open = false;
    forget(job);
}
