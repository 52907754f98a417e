#include "control/timers.h"

#include <stdio.h>
#include <string.h>

#include "job/patience.h"
#include "job/rank_end.h"
#include "control/launch/agent/agent.h"

enum { ALL_PHASES = -1, NAME = 40 };
static const double look_s = 0.05, half_an_hour_s = 1800;

/* ---- Defaults that follow from other settings ---- */
/* The limit is the setting, or else half the deadline, so that the alert comes while the job still hangs. */
double tess_timers_silence(const tess_config *config, watchdog_kind kind)
{
    double set_s = config->health.heartbeat_s;
    return watchdog_deadline_factor(kind) * (set_s < 0 ? config->comm.timeout_s / 2 : set_s);
}

static double longest_evaluation(const tess_config *config)
{
    return config->validation.enable ? config->validation.timeout_s : 0;
}

double tess_timers_stall(const tess_config *config)
{
    double evaluation_s = longest_evaluation(config), timeout_s = config->comm.timeout_s;
    if (config->health.stall_s >= 0)
        return config->health.stall_s;
    return half_an_hour_s + (evaluation_s > timeout_s ? evaluation_s : timeout_s);
}

static const char *stall_from(const tess_config *config)
{
    if (config->health.stall_s >= 0)
        return "health.stall_s";
    return longest_evaluation(config) > config->comm.timeout_s ? "1800 + validation.timeout_s"
                                                               : "1800 + comm.timeout_s";
}

/* ---- The table ---- */
/* Adds a timer for phases of a kind. A timer of 0 is off. */
static void add_for(tess_timers *timers, int kind, const char *name, double seconds, const char *from, const char *does)
{
    if (seconds > 0)
        timers->rows[timers->n++] =
            (tess_timer){.name = name, .from = from, .does = does, .kind = kind, .seconds = seconds};
}

static void add(tess_timers *timers, const char *name, double seconds, const char *from, const char *does)
{
    add_for(timers, ALL_PHASES, name, seconds, from, does);
}

static void add_notices(tess_timers *timers, const tess_config *config)
{
    static const char *const from[WATCHDOG_KINDS] = {"comm.soft_timeout_s", "4 x comm.soft_timeout_s",
                                                     "8 x comm.soft_timeout_s", "8 x comm.soft_timeout_s"};
    for (int k = 0; k < WATCHDOG_KINDS && config->comm.soft_timeout_s > 0; k++)
        add_for(timers, k, "notice",
                watchdog_soft_limit(config->comm.soft_timeout_s, config->comm.timeout_s, (watchdog_kind)k), from[k],
                "who keeps others waiting is named; longer where such waits are usual");
}

static void add_alerts(tess_timers *timers, const tess_config *config)
{
    static const char *const set[WATCHDOG_KINDS] = {"health.heartbeat_s", "3 x health.heartbeat_s",
                                                    "3 x health.heartbeat_s", "health.heartbeat_s"};
    static const char *const follows[WATCHDOG_KINDS] = {"1/2 x comm.timeout_s", "3/2 x comm.timeout_s",
                                                        "3/2 x comm.timeout_s", "1/2 x comm.timeout_s"};
    if (!config->health.enable)
        return;
    add(timers, "health look", config->health.interval_s, "health.interval_s", "host and board are looked at");
    for (int k = 0; k < WATCHDOG_KINDS; k++)
        add_for(timers, k, "silence", tess_timers_silence(config, (watchdog_kind)k),
                config->health.heartbeat_s < 0 ? follows[k] : set[k], "alert: a rank gives no sign of life");
    add(timers, "no step", tess_timers_stall(config), stall_from(config), "alert: no step was finished");
    add(timers, "alert command", config->health.alert_timeout_s, "health.alert_timeout_s", "the program is killed");
}

static void add_deadlines(tess_timers *timers, const tess_config *config)
{
    static const char *const from[WATCHDOG_KINDS] = {"comm.timeout_s", "3 x comm.timeout_s", "3 x comm.timeout_s",
                                                     "comm.timeout_s"};
    double timeout_s = config->comm.timeout_s;
    for (int k = 0; k < WATCHDOG_KINDS; k++)
        add_for(timers, k, "deadline", timeout_s * watchdog_deadline_factor((watchdog_kind)k), from[k],
                "ranks give up a collective (comm.on_timeout)");
    add(timers, "deadline, 1e7 elements", timeout_s * watchdog_deadline_by_size(10000000), "3/2 x comm.timeout_s",
        "the same for large operations");
    add(timers, "deadline, 1e8 elements", timeout_s * watchdog_deadline_by_size(100000000), "3 x comm.timeout_s",
        "the same");
    add(timers, "deadline, 1 GB", watchdog_deadline_by_bytes(1000000000, 0), "20 x at 100 MB/s",
        "the same, if longer; slower links get as much more");
    add(timers, "evaluation", longest_evaluation(config), "validation.timeout_s",
        "all ranks end it together; it counts as partial");
}

static void add_meetings(tess_timers *timers, const tess_config *config)
{
    add(timers, "ranks meet", config->comm.timeout_s, "comm.timeout_s",
        "a rank has not joined the job, at its start or after a loss");
    add(timers, "a host is reached", TESS_AGENT_REACH_S, "fixed", "its agent cannot be connected to");
    add(timers, "a host calls", TESS_AGENT_CALLED_S, "fixed", "its agent has not called the others");
    add(timers, "agent silence", TESS_AGENT_SILENCE_S, "fixed", "a host that is not heard of is out of touch");
    if (config->checkpoint.enable && config->checkpoint.async)
        add(timers, "hosts save", config->comm.timeout_s, "comm.timeout_s",
            "a host's part of a checkpoint does not come: that save has failed");
}

static void add_ends(tess_timers *timers, const tess_config *config, double grace_s)
{
    add(timers, "grace", grace_s, "the launcher", "survivors of a failure get SIGTERM");
    add(timers, "kill after grace", TESS_KILL_AFTER_S, "fixed", "from SIGTERM to SIGKILL");
    add(timers, "emergency save", config->checkpoint.emergency_grace_s, "checkpoint.emergency_grace_s",
        "ranks that were asked to stop are killed");
}

static void add_recovery(tess_timers *timers, const tess_config *config)
{
    if (!config->recovery.enable)
        return;
    add(timers, "back-off, first", config->recovery.backoff_s, "recovery.backoff_s",
        "ranks start again, where no step was done since the failure before");
    add(timers, "back-off, longest", config->recovery.backoff_max_s, "recovery.backoff_max_s", "the same");
    if (config->recovery.max_failures > 0)
        add(timers, "failures count", config->recovery.window_s, "recovery.window_s",
            "a failure no longer counts (recovery.max_failures)");
    if (config->elastic.min_ranks > 0 || config->elastic.max_ranks > 0)
        add(timers, "elastic retry", config->elastic.retry_s, "elastic.retry_s",
            "a place that was left out is tried again, at the next checkpoint");
}

void tess_timers_make(const tess_config *config, double grace_s, tess_timers *timers)
{
    *timers = (tess_timers){0};
    add(timers, "look", look_s, "fixed", "the watchdog reads the board");
    add_notices(timers, config);
    add_alerts(timers, config);
    add_deadlines(timers, config);
    add_meetings(timers, config);
    add_ends(timers, config, grace_s);
    add_recovery(timers, config);
}

/* ---- Order of timers ---- */
typedef struct rule {
    const char *shorter, *longer;
    bool may_be_equal;
    const char *why;
} rule;

/* Rules: which timer must be shorter than which. A rule between timers with kinds holds for each kind. */
static const rule rules[] = {
    {"look", "notice", false, "an event is seen before it is reported"},
    {"look", "deadline", false, "an event is seen before it is reported"},
    {"look", "agent silence", false, "a message of a host must have been read"},
    {"notice", "deadline", false, "who keeps others waiting is to be named before they give up"},
    {"silence", "deadline", false, "an alert must come while the job hangs, not after its end"},
    {"evaluation", "no step", true, "an evaluation that takes as long as it may is no stall"},
    {"back-off, first", "back-off, longest", true, "pauses double up to the longest"},
    {"back-off, longest", "failures count", false, "else failures would not add up to recovery.max_failures"},
};
enum { RULES = sizeof(rules) / sizeof(rules[0]) };

static const tess_timer *find(const tess_timers *timers, const char *name, int kind)
{
    for (int i = 0; i < timers->n; i++)
        if (strcmp(timers->rows[i].name, name) == 0 &&
            (timers->rows[i].kind == ALL_PHASES || timers->rows[i].kind == kind))
            return &timers->rows[i];
    return NULL;
}

/* Formats "notice, training". Returns text. */
static const char *full_name(const tess_timer *t, char text[NAME])
{
    snprintf(text, NAME, "%s%s%s", t->name, t->kind == ALL_PHASES ? "" : ", ",
             t->kind == ALL_PHASES ? "" : watchdog_kind_name((watchdog_kind)t->kind));
    return text;
}

tess_status tess_timers_check(const tess_timers *timers)
{
    char shorter[NAME], longer[NAME];
    for (int i = 0; i < RULES * WATCHDOG_KINDS; i++) {
        const rule *r = &rules[i / WATCHDOG_KINDS];
        const tess_timer *a = find(timers, r->shorter, i % WATCHDOG_KINDS);
        const tess_timer *b = find(timers, r->longer, i % WATCHDOG_KINDS);
        if (a == NULL || b == NULL || a->seconds < b->seconds || (r->may_be_equal && a->seconds == b->seconds))
            continue; /* the order is right, or one of the timers is off */
        return TESS_FAIL(TESS_E_INVALID,
                         "timer '%s' is %g s (%s) and must be shorter than '%s', which is %g s (%s): %s",
                         full_name(a, shorter), a->seconds, a->from, full_name(b, longer), b->seconds, b->from, r->why);
    }
    return TESS_OK;
}

static const tess_form_part form[] = {
    {.text = "timer                      seconds  from                         what happens then\n"},
    {.list = "timers", .text = "{timer:-24} {seconds:9g}  {from:-28} {does}\n"},
    {.text = "\nthis one must be         shorter than             because\n"},
    {.list = "order", .text = "{shorter:-24} {longer:-24} {why}\n"},
    {NULL, NULL}};

tess_status tess_timers_put(const tess_timers *timers, tess_form_style style, tess_buffer *out)
{
    char name[NAME];
    json_t *rows = json_array(), *order = json_array();
    for (const tess_timer *t = timers->rows; t < timers->rows + timers->n; t++)
        json_array_append_new(rows, json_pack("{s:s, s:f, s:s, s:s}", "timer", full_name(t, name), "seconds",
                                              t->seconds, "from", t->from, "does", t->does));
    for (const rule *r = rules; r < rules + RULES; r++)
        if (find(timers, r->shorter, 0) != NULL && find(timers, r->longer, 0) != NULL)
            json_array_append_new(
                order, json_pack("{s:s, s:s, s:s}", "shorter", r->shorter, "longer", r->longer, "why", r->why));
    return tess_form_put(json_pack("{s:i, s:o, s:o}", "version", 1, "timers", rows, "order", order), form, style,
                         JSON_INDENT(2), out);
}
