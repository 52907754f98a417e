/* Decides what a waiting rank does before it sleeps. If it is alone on its core, it polls for a while; if ranks
 * share cores, it yields. Waking up may take longer than polling, so two ranks could put each other to sleep
 * forever. Therefore, after several consecutive sleeps, a rank polls long enough to be awake when the other wakes. */
#include <immintrin.h>
#include <sched.h>

#include "base/os/os.h"
#include "comm/comm_impl.h"

enum {
    WAITS_AFTER_SLOW_YIELD = 1000,
    PATIENT_SPINS = 4000, /* about 100 us */
    LEAST_SLEEPS_TO_PATIENCE = 4,
    MOST_SLEEPS_TO_PATIENCE = 1024
};

static const uint64_t longest_yield_ns = 100000;

static bool spin(tess_work *work, int n)
{
    for (int i = 0; i < n; i++) {
        tess_team_progress(work->team);
        if (work->done)
            return true;
        _mm_pause();
    }
    return false;
}

/* Yields the core repeatedly. If a yield takes long, the core runs other work than ranks that are about to arrive,
 * and this gives up. The scheduler queues a thread that yields after the others, but favours one that wakes. */
static bool yield(tess_work *work, int n)
{
    tess_team *team = work->team;
    if (team->n_waits_without_yield > 0) {
        team->n_waits_without_yield--;
        return false;
    }
    for (int i = 0; i < n; i++) {
        uint64_t before_ns = tess_os_now_ns();
        sched_yield();
        bool slow = tess_os_now_ns() - before_ns >= longest_yield_ns;
        tess_team_progress(team);
        if (work->done)
            return true;
        if (slow) {
            team->n_waits_without_yield = WAITS_AFTER_SLOW_YIELD;
            return false;
        }
    }
    return false;
}

bool tess_work_look(tess_work *work, bool has_slept)
{
    tess_team *team = work->team;
    const tess_runtime *rt = team->runtime;
    if (team->n_sleeps_to_patience == 0)
        team->n_sleeps_to_patience = LEAST_SLEEPS_TO_PATIENCE;
    bool patient = !has_slept && rt->n_spins > 1 && team->n_sleeps >= team->n_sleeps_to_patience;
    if (spin(work, patient ? PATIENT_SPINS : rt->n_spins)) {
        if (!has_slept)
            team->n_sleeps = 0;
        if (patient)
            team->n_sleeps_to_patience = LEAST_SLEEPS_TO_PATIENCE;
        return true;
    }
    if (patient) { /* longer polling did not help: require more sleeps before the next attempt */
        team->n_sleeps = 0;
        if (team->n_sleeps_to_patience < MOST_SLEEPS_TO_PATIENCE)
            team->n_sleeps_to_patience *= 2;
    }
    return yield(work, rt->n_yields);
}
