/* Clocks. */
#include <sys/timex.h>
#include <time.h>

#include "base/os/machine.h"
#include "base/os/os.h"

uint64_t tess_os_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

double tess_os_now_s(void)
{
    return (double)tess_os_now_ns() * 1e-9;
}

uint64_t tess_os_wall_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

bool tess_os_clock_is_synced(bool *synced, double *error_s)
{
    struct timex state = {0};
    int result = adjtimex(&state);
    *synced = result != TIME_ERROR && !(state.status & STA_UNSYNC);
    *error_s = (double)state.maxerror * 1e-6;
    return result >= 0;
}

double tess_os_thread_cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
