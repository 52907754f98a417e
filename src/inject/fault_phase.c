/* Injects faults at the beginning of a phase or step, and slows down phases. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/os/os.h"
#include "inject/inject_impl.h"

static const double least_sleep_s = 1e-3;

/* Returns the CPU time of this thread. Only compute time is stretched, not waits for peers or input. */
static double cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool phase_fits(const tess_faults *faults, const tess_fault *f)
{
    return strcmp(f->phase, faults->phase) == 0 && (f->detail < 0 || f->detail == faults->detail);
}

/* Sleeps for the time that a slow phase should lose. Short phases accumulate a debt, because a sleep of less than a
 * millisecond takes longer than requested. */
static void lose_time(tess_fault *f, double took_s)
{
    f->debt_s += took_s * f->percent / 100;
    if (f->debt_s < least_sleep_s)
        return;
    double begin_s = tess_os_now_s();
    struct timespec more = {.tv_sec = (time_t)f->debt_s,
                            .tv_nsec = (long)((f->debt_s - (double)(time_t)f->debt_s) * 1e9)};
    nanosleep(&more, NULL);
    f->debt_s -= tess_os_now_s() - begin_s;
}

void inject_phase_over(void *self)
{
    tess_faults *faults = self;
    double took_s = cpu_s() - faults->phase_cpu_s;
    for (int i = 0; i < faults->n; i++) {
        tess_fault *f = &faults->fault[i];
        if (f->kind == TESS_FAULT_SLOW && phase_fits(faults, f) && tess_fault_is_due(faults, f, TESS_FAULT_ENTER_PHASE))
            lose_time(f, took_s);
    }
}

void inject_phase(tess_runtime *rt, const char *phase, int64_t step, int64_t detail)
{
    tess_faults *faults = tess_inject_faults(rt);
    bool enters = step != faults->step;
    faults->step = step;
    faults->detail = detail;
    snprintf(faults->phase, sizeof(faults->phase), "%s", phase);
    for (int i = 0; i < faults->n; i++) {
        tess_fault *f = &faults->fault[i];
        if (f->kind == TESS_FAULT_SLOW || f->kind == TESS_FAULT_UNEVEN)
            continue;
        if ((enters && tess_fault_is_due(faults, f, TESS_FAULT_ENTER_STEP)) ||
            (phase_fits(faults, f) && tess_fault_is_due(faults, f, TESS_FAULT_ENTER_PHASE)))
            tess_fault_strike(rt, f);
    }
    faults->phase_cpu_s = cpu_s();
}

void tess_inject_moment(tess_runtime *rt, const char *name, int64_t detail)
{
    tess_faults *faults = tess_inject_faults(rt);
    if (faults == NULL)
        return;
    char phase[sizeof(faults->phase)];
    int64_t phase_detail = faults->detail;
    memcpy(phase, faults->phase, sizeof(phase));
    snprintf(faults->phase, sizeof(faults->phase), "%s", name);
    faults->detail = detail;
    for (int i = 0; i < faults->n; i++) {
        tess_fault *f = &faults->fault[i];
        if (phase_fits(faults, f) && tess_fault_is_due(faults, f, TESS_FAULT_ENTER_PHASE))
            tess_fault_strike(rt, f);
    }
    memcpy(faults->phase, phase, sizeof(phase));
    faults->detail = phase_detail;
}
