#include "job/patience.h"

#include <string.h>

static const double lately_s = 300, usual_times = 3, most_s = 60;

watchdog_kind watchdog_kind_of(const char *phase)
{
    static const struct {
        const char *phase;
        watchdog_kind kind;
    } kinds[] = {{"validation", WATCHDOG_EVALUATION},
                 {"evaluation", WATCHDOG_EVALUATION},
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

double watchdog_soft_factor(watchdog_kind kind)
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
    double limit = soft_s * watchdog_soft_factor(kind), most = timeout_s * watchdog_deadline_factor(kind) / 2;
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
