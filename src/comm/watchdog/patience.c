#include "comm/watchdog/patience.h"

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

void watchdog_patience_learn(watchdog_patience *patience, watchdog_kind kind, double lasted_s, double now_s)
{
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
    double least = patience->soft_s * watchdog_soft_factor(kind), usual = usual_times * second;
    if (usual > most_s)
        usual = most_s;
    return usual > least ? usual : least;
}
