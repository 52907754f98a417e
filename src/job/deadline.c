#include "job/deadline.h"

#include "job/patience.h"

static const double usual_bytes_per_s = 1e8, slowest_bytes_per_s = 1e6, slack_by_bytes = 20;

double watchdog_deadline_by_size(uint64_t n_elements)
{
    return n_elements < 10000000 ? 1 : n_elements < 100000000 ? 1.5 : 3;
}

double watchdog_deadline_by_bytes(uint64_t bytes, double bytes_per_s)
{
    double speed = bytes_per_s > 0 && bytes_per_s < usual_bytes_per_s ? bytes_per_s : usual_bytes_per_s;
    return slack_by_bytes * (double)bytes / (speed > slowest_bytes_per_s ? speed : slowest_bytes_per_s);
}

double watchdog_deadline(double timeout_s, const char *phase, uint64_t n_elements, uint64_t bytes, double bytes_per_s)
{
    double by_phase = timeout_s * (phase != NULL ? watchdog_deadline_factor(watchdog_kind_of(phase)) : 1);
    double by_size = timeout_s * watchdog_deadline_by_size(n_elements);
    double by_bytes = watchdog_deadline_by_bytes(bytes, bytes_per_s);
    double longest = by_phase > by_size ? by_phase : by_size;
    return longest > by_bytes ? longest : by_bytes;
}

double watchdog_learn_speed(double known, double seen)
{
    double before = known > 0 ? known : usual_bytes_per_s;
    return before + (seen - before) / (seen < before ? 2 : 8);
}
