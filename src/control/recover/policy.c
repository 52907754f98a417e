#include "control/recover/policy.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/core/rng.h"
#include "base/text/text.h"

/* Replacements in a row without a completed step after which the ranks' memory is suspected. */
enum { RESPAWNS_IN_VAIN = 3 };

/* ---- The record ---- */
static int oldest(const tess_record_of_failures *record)
{
    return record->n > TESS_RECORD_NEWEST ? record->n - TESS_RECORD_NEWEST : 0;
}

/* Shortens a text that is too long: it ends after a word, with "...". */
static void shorten(const char *from, char to[TESS_RECORD_TEXT])
{
    snprintf(to, TESS_RECORD_TEXT, "%s", from);
    if (strlen(from) < TESS_RECORD_TEXT)
        return;
    to[TESS_RECORD_TEXT - 4] = '\0';
    char *end = strrchr(to, ' ');
    strcpy(end != NULL ? end : to + TESS_RECORD_TEXT - 4, "...");
}

/* Adds a failure and returns it, so that the caller can fill in `done`. The pointer is valid until
 * TESS_RECORD_NEWEST more are added. */
static tess_recorded_failure *add(tess_record_of_failures *record, const tess_failure *failure, double now_s)
{
    tess_recorded_failure *new = &record->newest[record->n++ % TESS_RECORD_NEWEST];
    *new = (tess_recorded_failure){.at_s = now_s,
                                   .class = tess_failure_classify(failure),
                                   .rank = failure->rank,
                                   .group = -1,
                                   .step = failure->step,
                                   .evaluating = failure->evaluating};
    shorten(failure->text, new->text);
    return new;
}

int tess_record_count(const tess_record_of_failures *record, double now_s, double window_s)
{
    int n = 0;
    for (int i = oldest(record); i < record->n; i++) {
        const tess_recorded_failure *f = &record->newest[i % TESS_RECORD_NEWEST];
        n += !f->forgiven && now_s - f->at_s <= window_s;
    }
    return n;
}

/* Whether the record holds a failure of this class at this step that is not forgiven and did not happen in an
 * evaluation. */
static bool knows(const tess_record_of_failures *record, tess_failure_class class, int64_t step)
{
    for (int i = oldest(record); i < record->n; i++) {
        const tess_recorded_failure *f = &record->newest[i % TESS_RECORD_NEWEST];
        if (!f->forgiven && !f->evaluating && f->class == class && f->step == step)
            return true;
    }
    return false;
}

/* Whether the evaluation after this step has ended ranks before, by a cause that would come again. */
static bool has_failed(const tess_record_of_failures *record, int64_t step)
{
    for (int i = oldest(record); i < record->n; i++) {
        const tess_recorded_failure *f = &record->newest[i % TESS_RECORD_NEWEST];
        if (f->evaluating && f->step == step && tess_failure_is_of_step(f->class))
            return true;
    }
    return false;
}

/* ---- The decision ---- */
void tess_recover_begin(tess_recover *recover, const tess_recover_settings *settings, const tess_worlds *worlds)
{
    recover->settings = *settings;
    recover->worlds = *worlds;
    recover->record.n = 0;
    recover->best_step = -1;
    recover->n_in_a_row = 0;
}

double tess_backoff_s(double first_s, double max_s, uint64_t seed, int n_in_a_row)
{
    double pause_s = first_s;
    if (n_in_a_row < 2)
        return 0;
    for (int i = 2; i < n_in_a_row && pause_s < max_s; i++)
        pause_s *= 2;
    if (pause_s > max_s)
        pause_s = max_s;
    return pause_s * (1 - 0.5 * (double)tess_rng_uniform(seed, TESS_RNG_RECOVER, (uint64_t)n_in_a_row, 0));
}

static void say(tess_recovery *recovery, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(tess_recovery *recovery, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(recovery->what, sizeof(recovery->what), format, arguments);
    va_end(arguments);
}

/* Whether a failure may be caused by the rank's place. */
static bool is_of_place(tess_failure_class class)
{
    return class == TESS_FAILURE_CRASH || class == TESS_FAILURE_KILLED || class == TESS_FAILURE_LOST ||
           class == TESS_FAILURE_STUCK || class == TESS_FAILURE_IO || class == TESS_FAILURE_DEVICE ||
           class == TESS_FAILURE_UNKNOWN;
}

/* Chooses the state to restart from. The ranks' memory is not used if it may have caused the failure. It is not used
 * a second time either if it led to no further step. */
static const char *choose_state(const tess_recover *recover, bool brings_on, tess_recovery *recovery)
{
    bool by_memory = recovery->class == TESS_FAILURE_MISMATCH || recovery->class == TESS_FAILURE_NUMBERS;
    recovery->from_memory = recover->settings.remembers && brings_on && !by_memory;
    return recovery->from_memory ? "what they keep in memory" : "the newest checkpoint";
}

/* Decides to stop if another attempt would not help. Returns whether it decided. */
static bool stop_at_once(const tess_recover *recover, tess_recovery *recovery)
{
    if (recovery->action != TESS_ACTION_STOP &&
        (recovery->class != TESS_FAILURE_NUMBERS || recover->settings.rolls_back))
        return false;
    say(recovery, "%s", tess_failure_advice(recovery->class));
    recovery->action = TESS_ACTION_STOP;
    return true;
}

static void shrink(tess_recover *recover, tess_recorded_failure *recorded, tess_recovery *recovery)
{
    char rung[300];
    recovery->reset = tess_ladder_climb(&recover->ladder);
    recovery->action = recovery->reset ? TESS_ACTION_RESTART : TESS_ACTION_STOP;
    if (!recovery->reset) {
        say(recovery, "nothing is left that would need less memory, the job stops; %s",
            tess_failure_advice(recovery->class));
        return;
    }
    recorded->forgiven = true; /* this configuration did not cause the failure */
    say(recovery, "all ranks start again from %s; %s", choose_state(recover, true, recovery),
        tess_ladder_report(&recover->ladder, rung, sizeof(rung)));
}

/* Whether weights and moments fill the memory before the first step. More recomputation or smaller batches do not
 * reduce them. */
static bool memory_is_hopeless(const tess_failure *failure, tess_recovery *recovery)
{
    if (recovery->class != TESS_FAILURE_OOM_KILLED || failure->step >= 0 || failure->steps_done > 0)
        return false;
    recovery->action = TESS_ACTION_STOP;
    say(recovery,
        "memory ran out before the first step, where no setting of activations or micro-batches helps: the job stops; "
        "%s",
        tess_failure_advice(recovery->class));
    return true;
}

static void drop_place(tess_recover *recover, const tess_failure *failure, int group, tess_recovery *recovery)
{
    const char *host = recover->slots.groups[group].host;
    char place[96];
    snprintf(place, sizeof(place), "the place of rank %d", failure->rank);
    if (host[0] != '\0')
        snprintf(place, sizeof(place), "host %s", host);
    for (int i = 0; i < TESS_RECORD_NEWEST && i < recover->record.n; i++)
        recover->record.newest[i].forgiven |= recover->record.newest[i].group == group;
    recovery->action = TESS_ACTION_RESTART;
    recovery->n_ranks = recover->slots.n_ranks;
    recovery->resized = true;
    say(recovery, "%s failed %d times and is left out: %d %s on from %s; it is %s again in %g s", place,
        TESS_SLOT_FAILURES, recovery->n_ranks, recovery->n_ranks == 1 ? "rank goes" : "ranks go",
        choose_state(recover, recover->n_in_a_row == 1, recovery), host[0] != '\0' ? "asked" : "tried",
        recover->settings.retry_s);
}

static void go_on(tess_recover *recover, const tess_failure *failure, int n, tess_recovery *recovery)
{
    const tess_recover_settings *s = &recover->settings;
    char pause[48] = "at once", limit[96] = "", omitted[64] = "", start[64] = "that rank is replaced, the others stay,";
    if (recovery->action == TESS_ACTION_RESPAWN && (!s->respawns || recover->n_in_a_row > RESPAWNS_IN_VAIN))
        recovery->action = TESS_ACTION_RESTART;
    if (recovery->action == TESS_ACTION_RESTART) {
        recovery->delay_s = tess_backoff_s(s->backoff_s, s->backoff_max_s, s->seed, recover->n_in_a_row);
        snprintf(start, sizeof(start), "all ranks start again from %s",
                 choose_state(recover, recover->n_in_a_row == 1, recovery));
    }
    if (recovery->delay_s > 0)
        snprintf(pause, sizeof(pause), "in %.1f s", recovery->delay_s);
    if (s->max_failures > 0)
        snprintf(limit, sizeof(limit), "; failure %d, %d within %g s end the job", n, s->max_failures, s->window_s);
    if (recovery->omits)
        snprintf(omitted, sizeof(omitted), "; the evaluation of step %lld is left out", (long long)failure->step);
    say(recovery, "%s %s%s%s", start, pause, omitted, limit);
}

static void choose_action(tess_recover *recover, const tess_failure *failure, bool known,
                          tess_recorded_failure *recorded, double now_s, tess_recovery *recovery)
{
    const tess_recover_settings *s = &recover->settings;
    if (stop_at_once(recover, recovery) || memory_is_hopeless(failure, recovery))
        return;
    if (recovery->action == TESS_ACTION_SHRINK) {
        shrink(recover, recorded, recovery);
        return;
    }
    if (is_of_place(recovery->class) && tess_slots_fail(&recover->slots, recorded->group, &recover->worlds, now_s)) {
        /* A bad place also fails at the same step each time. */
        drop_place(recover, failure, recorded->group, recovery);
        return;
    }
    if (known && tess_failure_is_of_step(recovery->class)) {
        char where[48] = "before the first step";
        if (failure->step >= 0)
            snprintf(where, sizeof(where), "at step %lld", (long long)failure->step);
        say(recovery, "the same (%s) %s for the second time: it would come again, the job stops; %s",
            tess_failure_name(recovery->class), where, tess_failure_advice(recovery->class));
        recovery->action = TESS_ACTION_STOP;
        return;
    }
    int n = tess_record_count(&recover->record, now_s, s->window_s);
    if (s->max_failures > 0 && n >= s->max_failures) {
        recovery->action = TESS_ACTION_STOP;
        say(recovery, "%d failures within %g s (recovery.max_failures, recovery.window_s): the job stops; %s", n,
            s->window_s, tess_failure_advice(recovery->class));
        return;
    }
    go_on(recover, failure, n, recovery);
}

void tess_recover_decide(tess_recover *recover, const tess_failure *failure, double now_s, tess_recovery *recovery)
{
    tess_failure_class class = tess_failure_classify(failure);
    bool known = !failure->evaluating && knows(&recover->record, class, failure->step);
    *recovery = (tess_recovery){.action = tess_failure_action(class),
                                .class = class,
                                .n_ranks = recover->slots.n_ranks,
                                .omits = failure->evaluating && tess_failure_is_of_step(class) &&
                                         has_failed(&recover->record, failure->step)};
    recover->n_in_a_row = failure->steps_done > recover->best_step ? 1 : recover->n_in_a_row + 1;
    if (failure->steps_done > recover->best_step)
        recover->best_step = failure->steps_done;
    tess_recorded_failure *recorded = add(&recover->record, failure, now_s);
    recorded->group = tess_slots_group_of(&recover->slots, failure->rank, failure->host);
    choose_action(recover, failure, known, recorded, now_s, recovery);
    if (failure->stopping && recovery->action == TESS_ACTION_RESTART) {
        /* The job can save only with its present ranks and their state. */
        recovery->action = TESS_ACTION_STOP;
        recovery->delay_s = 0;
        say(recovery, "the job was asked to stop and does not start again; the newest complete checkpoint stands");
    }
    shorten(recovery->what, recorded->done);
}

const char *tess_recover_report(const tess_recover *recover, double now_s, char *text, size_t size)
{
    const tess_recorded_failure *before = NULL;
    text[0] = '\0';
    if (recover->record.n < 2)
        return text;
    size_t at = tess_text_add(text, size, 0, "%d failures in all:", recover->record.n);
    for (int i = oldest(&recover->record); i < recover->record.n; i++) {
        const tess_recorded_failure *f = &recover->record.newest[i % TESS_RECORD_NEWEST];
        bool again = before != NULL && strcmp(before->text, f->text) == 0;
        at = tess_text_add(text, size, at, "\n  %.1f s ago: %s%s%s", now_s - f->at_s, again ? "the same" : f->text,
                           f->done[0] != '\0' ? "; " : "", f->done);
        before = f;
    }
    return text;
}
