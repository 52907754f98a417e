/* Finds the newest good checkpoint of all places at the start of a job, and brings it home. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ckpt/store/copies_impl.h"
#include "ckpt/store/store_impl.h"

enum { NOTE_BYTES = 2560, ASK_PARTS = 12 };

typedef struct bring_search {
    const tess_ckpt_bringer *b;
    tess_ckpt_place_steps home, *steps; /* steps[i]: those in place i */
    bool *answered;                     /* (n_places) */
} bring_search;

__attribute__((format(printf, 2, 3))) static void note(const tess_ckpt_bringer *b, const char *format, ...)
{
    char text[NOTE_BYTES];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    if (b->note != NULL)
        b->note(b->self, text);
}

/* ---- Looking ---- */
static tess_status look_at_home(bring_search *s)
{
    tess_store_names names;
    TESS_TRY(tess_os_make_dirs(s->b->dir));
    TESS_TRY(tess_store_list(NULL, s->b->dir, &names));
    for (size_t i = 0; i < names.n && s->home.n < TESS_CKPT_PLACE_STEPS; i++)
        if (tess_store_counts(&names, i))
            s->home.step[s->home.n++] = names.items[i].step;
    free(names.items);
    return TESS_OK;
}

/* Asks every place that has not answered yet. Returns the number of those that have not answered now. */
static int ask_places(bring_search *s, double part_s, bool last)
{
    int n_missing = 0;
    for (int i = 0; i < s->b->n_places; i++) {
        tess_ckpt_place place = s->b->places[i];
        if (s->answered[i])
            continue;
        /* one place that hangs must not use up the time of the others, and may answer when it is asked again */
        place.wait_s = part_s;
        s->answered[i] = tess_ckpt_place_list(&place, &s->steps[i]) == TESS_OK;
        n_missing += !s->answered[i];
        if (!s->answered[i] && last)
            note(s->b, "copies of checkpoints: %s cannot be used, and is passed over: %s", tess_ckpt_place_name(&place),
                 tess_error_message());
        tess_error_clear();
    }
    return n_missing;
}

/* Asks all places until each has answered or the time is over. Each round has twice the patience of the one before. */
static void look_at_places(bring_search *s)
{
    const double least_s = s->b->wait_s / ASK_PARTS, until_s = tess_os_now_s() + s->b->wait_s;
    double part_s = least_s;
    while (ask_places(s, part_s, false) > 0 && tess_os_now_s() < until_s) {
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        part_s = fmin(2 * part_s, fmax(until_s - tess_os_now_s(), least_s));
    }
    ask_places(s, least_s, true);
}

/* ---- Choosing ---- */
static bool holds(const tess_ckpt_place_steps *steps, int64_t step)
{
    for (int i = 0; i < steps->n; i++)
        if (steps->step[i] == step)
            return true;
    return false;
}

/* Returns the highest step below `limit` in any place; -1: none. */
static int64_t next_step(const bring_search *s, int64_t limit)
{
    int64_t next = -1;
    for (int p = -1; p < s->b->n_places; p++) {
        const tess_ckpt_place_steps *steps = p < 0 ? &s->home : &s->steps[p];
        for (int i = 0; i < steps->n; i++)
            if (steps->step[i] < limit && steps->step[i] > next)
                next = steps->step[i];
    }
    return next;
}

static bool is_good_at_home(const bring_search *s, int64_t step)
{
    char folder[TESS_CKPT_PATH];
    if (!holds(&s->home, step))
        return false;
    if (tess_ckpt_find(NULL, s->b->dir, step, folder) == TESS_OK && copy_verify(folder, step, NULL) == TESS_OK)
        return true;
    note(s->b, "step %lld is not good here, a copy is looked for: %s", (long long)step, tess_error_message());
    tess_error_clear();
    return false;
}

/* Brings a step from the first place that has it good. */
static bool bring_step(const bring_search *s, int64_t step)
{
    if (copy_is_aside(s->b->dir, step))
        return false;
    for (int i = 0; i < s->b->n_places; i++) {
        const tess_ckpt_place *place = &s->b->places[i];
        if (!holds(&s->steps[i], step))
            continue;
        if (tess_ckpt_place_get(place, s->b->dir, step) == TESS_OK) {
            note(s->b, "step %lld was brought from %s: every byte is as it was saved", (long long)step,
                 tess_ckpt_place_name(place));
            return true;
        }
        note(s->b, "the copy of step %lld in %s is passed over: %s", (long long)step, tess_ckpt_place_name(place),
             tess_error_message());
        tess_error_clear();
    }
    return false;
}

static void choose(const bring_search *s, int64_t only, int64_t *brought)
{
    int64_t step = only >= 0 ? only : next_step(s, INT64_MAX);
    for (; step >= 0; step = only >= 0 ? -1 : next_step(s, step)) {
        if (is_good_at_home(s, step))
            return;
        if (bring_step(s, step)) {
            *brought = step;
            return;
        }
    }
}

tess_status tess_ckpt_bring(const tess_ckpt_bringer *b, int64_t only, int64_t *brought)
{
    size_t n = (size_t)b->n_places + 1;
    bring_search s = {.b = b, .steps = calloc(n, sizeof(*s.steps)), .answered = calloc(n, sizeof(*s.answered))};
    *brought = -1;
    tess_status status = s.steps != NULL && s.answered != NULL
                             ? look_at_home(&s)
                             : TESS_FAIL(TESS_E_NOMEM, "no memory to look for copies of checkpoints");
    if (status == TESS_OK) {
        look_at_places(&s);
        choose(&s, only, brought);
    }
    free(s.steps);
    free(s.answered);
    return status;
}
