/* Checks the processes of the host's ranks: a rank dies with its warden if the warden is killed, and no process
 * reports that. */
#include <signal.h>

#include "base/os/os.h"
#include "job/rank_end.h"
#include "control/launch/agent/agent_impl.h"

static const double look_s = 0.1, vanished_s = 0.5;

/* Marks a rank whose process has been missing for vanished_s as lost, because no warden is left to report how it
 * ended. */
static void look_at(warden_processes *p, const tess_job *job, int rank, double now_s)
{
    tess_job_row *row = &job->rows[rank];
    int pid = atomic_load(&row->pid);
    if (pid == 0 || atomic_load(&row->ended) != 0)
        return;
    char state = tess_os_process_state(pid);
    atomic_store_explicit(&row->run_state, (unsigned char)state, memory_order_relaxed);
    /* The warden of a zombie will report how it ended. An orphan has no warden, and the init process of a container
     * may never reap it. */
    bool missing = state == '\0' || (state == 'Z' && tess_os_process_parent(pid) == 1);
    if (!missing || p->vanished_s[rank] == 0) {
        p->vanished_s[rank] = missing ? now_s : 0;
    } else if (now_s - p->vanished_s[rank] >= vanished_s) {
        if (atomic_load(&row->state) != JOB_RANK_LEFT) {
            tess_ending_lose(job, rank, SIGKILL, 128 + SIGKILL);
            return;
        }
        atomic_store(&row->ended, 1);
        tess_job_wake_all(job);
    }
}

tess_status warden_processes_begin(warden_processes *p, tess_mem *mem, int world)
{
    void *memory;
    warden_processes_end(p, mem);
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)world, sizeof(double), "processes of a host", &memory));
    p->vanished_s = memory;
    p->world = world;
    return TESS_OK;
}

void warden_processes_end(warden_processes *p, tess_mem *mem)
{
    tess_mem_free(mem, p->vanished_s);
    *p = (warden_processes){0};
}

void warden_processes_look(warden_processes *p, const tess_job *job, bool is_first, double now_s)
{
    int first = tess_job_first_rank(job), last = is_first ? (int)job->header->world - 1 : first;
    if (now_s < p->next_s || p->world != job->world)
        return;
    p->next_s = now_s + look_s;
    for (int r = first; r <= last; r++)
        if (job->rows[r].host == (int32_t)job->header->host)
            look_at(p, job, r, now_s);
}
