#include "comm/watchdog/timers.h"

#include <stdio.h>
#include <string.h>

#include "comm/ending.h"

static const double usual_bytes_per_s = 1e8, slowest_bytes_per_s = 1e6, slack_by_bytes = 20;
static const double look_s = 0.05;

static const char *const notice_names[WATCHDOG_KINDS] = {"notice, training", "notice, evaluation", "notice, checkpoint",
                                                         "notice, setup"};
static const char *const deadline_names[WATCHDOG_KINDS] = {"deadline, training", "deadline, evaluation",
                                                           "deadline, checkpoint", "deadline, setup"};
static const char *const notice_from[WATCHDOG_KINDS] = {"comm.soft_timeout_s", "4 x comm.soft_timeout_s",
                                                        "8 x comm.soft_timeout_s", "8 x comm.soft_timeout_s"};
static const char *const deadline_from[WATCHDOG_KINDS] = {"comm.timeout_s", "3 x comm.timeout_s", "3 x comm.timeout_s",
                                                          "comm.timeout_s"};

static void add(tess_timers *timers, const char *name, double seconds, const char *from, const char *does)
{
    timers->rows[timers->n++] = (tess_timer){.name = name, .from = from, .does = does, .seconds = seconds};
}

void tess_timers_make(const tess_timer_settings *s, tess_timers *timers)
{
    *timers = (tess_timers){0};
    add(timers, "look", look_s, "fixed", "the watchdog reads the board");
    for (int k = 0; k < WATCHDOG_KINDS && s->soft_s > 0; k++)
        add(timers, notice_names[k], watchdog_soft_limit(s->soft_s, s->timeout_s, (watchdog_kind)k), notice_from[k],
            "who keeps others waiting is named; longer where such waits are usual");
    for (int k = 0; k < WATCHDOG_KINDS; k++)
        add(timers, deadline_names[k], s->timeout_s * watchdog_deadline_factor((watchdog_kind)k), deadline_from[k],
            "ranks give up a collective (comm.on_timeout)");
    add(timers, "deadline, 1e7 elements", s->timeout_s * 1.5, "3/2 x comm.timeout_s", "the same for large operations");
    add(timers, "deadline, 1e8 elements", s->timeout_s * 3, "3 x comm.timeout_s", "the same");
    add(timers, "deadline, 1 GB", slack_by_bytes * 1e9 / usual_bytes_per_s, "20 x at 100 MB/s",
        "the same, if longer; slower links get as much more");
    add(timers, "agent silence", TESS_AGENT_SILENCE_S, "fixed", "a host that is not heard of is out of touch");
    add(timers, "grace", s->grace_s, "the launcher", "survivors of a failure end by themselves");
    add(timers, "kill after grace", TESS_KILL_AFTER_S, "fixed", "from SIGTERM to SIGKILL");
}

static const tess_timer *find(const tess_timers *timers, const char *name)
{
    for (int i = 0; i < timers->n; i++)
        if (strcmp(timers->rows[i].name, name) == 0)
            return &timers->rows[i];
    return NULL;
}

/* A timer that is off is in nobody's way. */
static tess_status expect_shorter(const tess_timers *timers, const char *shorter, const char *longer)
{
    const tess_timer *a = find(timers, shorter), *b = find(timers, longer);
    TESS_CHECK(a == NULL || b == NULL || a->seconds < b->seconds, TESS_E_INVALID,
               "timer '%s' is %g s (%s) and must be shorter than '%s', which is %g s (%s)", a->name, a->seconds,
               a->from, b->name, b->seconds, b->from);
    return TESS_OK;
}

tess_status tess_timers_check(const tess_timers *timers)
{
    for (int k = 0; k < WATCHDOG_KINDS; k++) {
        TESS_TRY(expect_shorter(timers, "look", notice_names[k]));
        TESS_TRY(expect_shorter(timers, notice_names[k], deadline_names[k]));
    }
    TESS_TRY(expect_shorter(timers, "look", "deadline, training"));
    TESS_TRY(expect_shorter(timers, "notice, training", "grace"));
    return expect_shorter(timers, "look", "agent silence");
}

tess_status tess_timers_print(const tess_timers *timers, tess_buffer *out)
{
    TESS_TRY(tess_buffer_printf(out, "%-24s %9s  %-24s %s\n", "timer", "seconds", "from", "what happens then"));
    for (int i = 0; i < timers->n; i++) {
        const tess_timer *t = &timers->rows[i];
        TESS_TRY(tess_buffer_printf(out, "%-24s %9g  %-24s %s\n", t->name, t->seconds, t->from, t->does));
    }
    return TESS_OK;
}

double tess_timers_deadline(double timeout_s, const char *phase, uint64_t n_elements, uint64_t bytes,
                            double bytes_per_s)
{
    double by_phase = timeout_s * (phase != NULL ? watchdog_deadline_factor(watchdog_kind_of(phase)) : 1);
    double by_size = timeout_s * (n_elements < 10000000 ? 1 : n_elements < 100000000 ? 1.5 : 3);
    double speed = bytes_per_s > 0 && bytes_per_s < usual_bytes_per_s ? bytes_per_s : usual_bytes_per_s;
    double by_bytes = slack_by_bytes * (double)bytes / (speed > slowest_bytes_per_s ? speed : slowest_bytes_per_s);
    double longest = by_phase > by_size ? by_phase : by_size;
    return longest > by_bytes ? longest : by_bytes;
}

double tess_timers_learn_speed(double known, double seen)
{
    double before = known > 0 ? known : usual_bytes_per_s;
    return before + (seen - before) / (seen < before ? 2 : 8);
}
