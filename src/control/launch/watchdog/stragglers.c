/* Finds stragglers in the counters on the board. */
#include <stdio.h>

#include "base/os/os.h"
#include "control/launch/watchdog/watchdog_impl.h"

static const uint64_t pause_ns = 60000000000;
/* Time between samples. A slowdown of less than 20 samples is a burst of a neighbouring process, even if steps are
 * very short. */
static const uint64_t sample_ns = 100000000;

tess_status watchdog_stragglers_begin(tess_mem *mem, const tess_job *job, watchdog_stragglers *s)
{
    *s = (watchdog_stragglers){.job = job, .rank = -1};
    return tess_pace_create(mem, (int)job->header->world, &s->pace);
}

static bool is_here(const tess_job *job, int rank)
{
    return (uint32_t)job->rows[rank].host == job->header->host;
}

static bool sample(watchdog_stragglers *s)
{
    bool any = false;
    for (int r = 0; r < (int)s->job->header->world; r++) {
        const tess_job_row *row = &s->job->rows[r];
        /* A rank adds up its phases before it counts the step. */
        tess_pace_counters counters = {.n_steps = atomic_load_explicit(&row->n_steps, memory_order_acquire)};
        for (int phase = 0; phase < TESS_PHASE_COUNT; phase++)
            counters.phase_ns[phase] = atomic_load_explicit(&row->phase_ns[phase], memory_order_relaxed);
        if (!tess_pace_is_new(s->pace, r, counters.n_steps))
            continue;
        if (is_here(s->job, r))
            counters.starved_ns = tess_os_process_starved_ns(atomic_load(&row->pid));
        any = tess_pace_add(s->pace, r, &counters) || any;
    }
    return any;
}

static void describe(const tess_pace_finding *f, char *line, size_t size)
{
    if (f->starved)
        snprintf(line, size,
                 "rank %d is slow because it does not get its core: %.1f ms of each step it was ready to run and did "
                 "not, the others hardly (%s %.0f%% longer, step %llu): another program runs there",
                 f->rank, f->starved_s * 1e3, tess_phase_name(f->phase), 100 * (f->ratio - 1),
                 (unsigned long long)f->n_steps);
    else
        snprintf(line, size,
                 "rank %d is %.0f%% slow in %s: %.1f ms longer than the others in each step, for the last "
                 "20 (step %llu)",
                 f->rank, 100 * (f->ratio - 1), tess_phase_name(f->phase), f->excess_s * 1e3,
                 (unsigned long long)f->n_steps);
}

bool watchdog_stragglers_look(watchdog_stragglers *s, uint64_t now_ns, char line[WATCHDOG_STRAGGLER_LINE])
{
    tess_pace_finding finding;
    if (now_ns - s->sampled_ns < sample_ns)
        return false;
    s->sampled_ns = now_ns;
    if (!sample(s) || (s->reported_ns != 0 && now_ns - s->reported_ns < pause_ns))
        return false;
    bool found = tess_pace_find(s->pace, &finding) && is_here(s->job, finding.rank);
    if (found ? finding.rank == s->rank && finding.phase == s->phase : s->rank < 0)
        return false;
    if (found)
        describe(&finding, line, WATCHDOG_STRAGGLER_LINE);
    else
        snprintf(line, WATCHDOG_STRAGGLER_LINE, "rank %d keeps up with the others again", s->rank);
    s->rank = found ? finding.rank : -1;
    s->phase = finding.phase;
    s->reported_ns = now_ns;
    return true;
}
