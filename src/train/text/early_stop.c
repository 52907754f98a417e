#include "train/text/early_stop.h"

#include <string.h>

enum {
    N_WORSE_BITS = 20
}; /* bits for the count in a word that also holds the step; larger counts are stored as the maximum */

tess_early_stop tess_early_stop_begin(void)
{
    return (tess_early_stop){.best_step = -1, .last_step = -1};
}

bool tess_early_stop_judge(tess_early_stop *s, const tess_validation_report *report, double min_delta)
{
    if (report->outcome != TESS_VALIDATION_WHOLE)
        return false;
    if (report->step <= s->last_step)
        return report->step == s->best_step;
    bool better = s->best_step < 0 || report->loss < s->best_loss - min_delta;
    s->last_step = report->step;
    if (better) {
        s->best_loss = report->loss;
        s->best_step = report->step;
        s->n_worse = 0;
    } else if (s->n_worse < (1 << N_WORSE_BITS) - 1) {
        s->n_worse++;
    }
    return better;
}

bool tess_early_stop_is_due(const tess_early_stop *s, int64_t patience)
{
    return patience > 0 && s->n_worse >= patience;
}

json_t *tess_early_stop_to_json(const tess_early_stop *s)
{
    return json_pack("{s:f, s:I, s:I, s:I}", "best_loss", s->best_loss, "best_step", (json_int_t)s->best_step,
                     "last_step", (json_int_t)s->last_step, "worse", (json_int_t)s->n_worse);
}

tess_early_stop tess_early_stop_from_json(const json_t *json)
{
    tess_early_stop s = tess_early_stop_begin();
    if (!json_is_object(json))
        return s;
    s.best_loss = json_number_value(json_object_get(json, "best_loss"));
    s.best_step = json_integer_value(json_object_get(json, "best_step"));
    s.last_step = json_integer_value(json_object_get(json, "last_step"));
    s.n_worse = json_integer_value(json_object_get(json, "worse"));
    return s;
}

/* Step and count share one word. If they were two, a process killed between writing them would judge the newest
 * evaluation twice. */
void tess_early_stop_pack(const tess_early_stop *s, int64_t words[TESS_EARLY_STOP_WORDS])
{
    memcpy(&words[0], &s->best_loss, sizeof(s->best_loss));
    words[1] = s->best_step;
    words[2] = (s->last_step + 1) << N_WORSE_BITS | s->n_worse;
}

tess_early_stop tess_early_stop_unpack(const int64_t words[TESS_EARLY_STOP_WORDS])
{
    tess_early_stop s = {.best_step = words[1],
                         .last_step = (words[2] >> N_WORSE_BITS) - 1,
                         .n_worse = words[2] & ((1 << N_WORSE_BITS) - 1)};
    memcpy(&s.best_loss, &words[0], sizeof(s.best_loss));
    return s;
}
