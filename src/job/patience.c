#include "job/patience.h"

#include <string.h>

static const double lately_s = 300, usual_times = 3, most_s = 60;
static const double usual_bytes_per_s = 1e8, slowest_bytes_per_s = 1e6, slack_by_bytes = 20;

watchdog_kind watchdog_kind_of(const char *phase)
{
    static const struct {
        const char *phase;
        watchdog_kind kind;
    } kinds[] = {{"validation", WATCHDOG_EVALUATION},
                 {"evaluation", WATCHDOG_EVALUATION},
                 {"rollout", WATCHDOG_EVALUATION},
                 {"weights", WATCHDOG_EVALUATION},
                 {"checkpoint", WATCHDOG_CHECKPOINT},
                 {"export", WATCHDOG_CHECKPOINT},
                 {"setup", WATCHDOG_SETUP}};
    if (phase == NULL)
        return WATCHDOG_SETUP;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(phase, kinds[i].phase) == 0)
            return kinds[i].kind;
    return WATCHDOG_TRAINING;
}

const char *watchdog_kind_name(watchdog_kind kind)
{
    static const char *const names[] = {"training", "evaluation", "checkpoint", "setup"};
    return names[kind];
}

static double soft_factor(watchdog_kind kind)
{
    static const double factors[] = {1, 4, 8, 8};
    return factors[kind];
}

double watchdog_deadline_factor(watchdog_kind kind)
{
    static const double factors[] = {1, 3, 3, 1};
    return factors[kind];
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

double watchdog_soft_limit(double soft_s, double timeout_s, watchdog_kind kind)
{
    double limit = soft_s * soft_factor(kind), most = timeout_s * watchdog_deadline_factor(kind) / 2;
    if (timeout_s <= 0 || limit <= most)
        return limit;
    return most > soft_s ? most : soft_s;
}

void watchdog_patience_learn(watchdog_patience *patience, watchdog_kind kind, double lasted_s, double now_s)
{
    if (usual_times * lasted_s <= patience->soft_s)
        return; /* no limit depends on it */
    int at = patience->past[kind].n++ % WATCHDOG_REMEMBERED;
    patience->past[kind].lasted_s[at] = lasted_s;
    patience->past[kind].at_s[at] = now_s;
}

double watchdog_patience_limit(const watchdog_patience *patience, watchdog_kind kind, double now_s)
{
    double longest = 0, second = 0;
    for (int i = 0; i < WATCHDOG_REMEMBERED && i < patience->past[kind].n; i++) {
        double lasted = patience->past[kind].lasted_s[i];
        if (now_s - patience->past[kind].at_s[i] > lately_s)
            continue;
        if (lasted > longest) {
            second = longest;
            longest = lasted;
        } else if (lasted > second) {
            second = lasted;
        }
    }
    double least = watchdog_soft_limit(patience->soft_s, patience->timeout_s, kind);
    double most = patience->timeout_s > 0 ? smaller(most_s, patience->timeout_s / 2) : most_s;
    double usual = smaller(usual_times * second, most);
    return usual > least ? usual : least;
}

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
