#include "engine/learning_rate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "tessera/optim.h"

static const char *const keys[] = {"optimizer.lr",
                                   "training.steps",
                                   "lr_scheduler.steps",
                                   "lr_scheduler.warmup_steps",
                                   "lr_scheduler.decay_type",
                                   "lr_scheduler.min_lr_factor",
                                   "lr_scheduler.decay_ratio"};
/* PARTS: the rest of the run is divided into this many parts, and the rates at their ends are compared. */
enum { N_KEYS = sizeof(keys) / sizeof(keys[0]), PARTS = 64 };

static int64_t schedule_steps(const tess_config *config)
{
    return tess_lr_scheduler_steps(&config->lr_scheduler, config->training.steps);
}

double tess_config_lr(const tess_config *config, int64_t begin, int64_t step)
{
    int64_t steps = schedule_steps(config) - begin;
    const tess_schedule schedule = {
        .kind = (tess_schedule_kind)config->lr_scheduler.decay_type,
        .lr = config->optimizer.lr,
        .min_lr_factor = config->lr_scheduler.min_lr_factor,
        .warmup_steps = config->lr_scheduler.warmup_steps,
        .steps = steps,
        .decay_steps = llround(config->lr_scheduler.decay_ratio * (double)steps),
    };
    return tess_schedule_lr(&schedule, step - begin);
}

/* Formats a value of the saved configuration as text. Returns false if an older checkpoint does not have it. */
static bool format_saved(const json_t *saved, const char *key, char *text, size_t size)
{
    const char *dot = strchr(key, '.');
    char section[32];
    snprintf(section, sizeof(section), "%.*s", (int)(dot - key), key);
    const json_t *value = json_object_get(json_object_get(saved, section), dot + 1);
    if (json_is_string(value))
        snprintf(text, size, "%s", json_string_value(value));
    else if (json_is_integer(value))
        snprintf(text, size, "%lld", (long long)json_integer_value(value));
    else
        snprintf(text, size, "%.17g", json_number_value(value));
    return json_is_string(value) || json_is_number(value);
}

tess_lr_settings tess_lr_settings_of(const tess_config *config)
{
    return (tess_lr_settings){.lr = config->optimizer.lr,
                              .min_lr_factor = config->lr_scheduler.min_lr_factor,
                              .decay_ratio = config->lr_scheduler.decay_ratio,
                              .steps = config->training.steps,
                              .schedule_steps = config->lr_scheduler.steps,
                              .warmup_steps = config->lr_scheduler.warmup_steps,
                              .decay_type = config->lr_scheduler.decay_type};
}

/* Copies the sections that the keys belong to, and makes all else zero. Their lists stay those of `config`. */
static void take_sections(const tess_config *config, tess_config *sections)
{
    *sections = (tess_config){
        .optimizer = config->optimizer, .training = config->training, .lr_scheduler = config->lr_scheduler};
}

tess_lr_settings tess_lr_settings_read(const tess_config *config, const json_t *saved)
{
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    tess_config then;
    take_sections(config, &then);
    for (int i = 0; i < N_KEYS; i++) {
        char text[64];
        if (format_saved(saved, keys[i], text, sizeof(text)) &&
            tess_options_set(tables, n_tables, &then, keys[i], text, "checkpoint") != TESS_OK)
            tess_error_clear();
    }
    return tess_lr_settings_of(&then);
}

/* Sets *then to the sections of `now` with the settings `before`, and lists those that have changed: "training.steps
 * was 60, now 120".
 */
static void compare_settings(const tess_config *now, const tess_lr_settings *before, tess_config *then, char *changes,
                             size_t size)
{
    int n_tables;
    size_t at = 0;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    take_sections(now, then);
    then->optimizer.lr = before->lr;
    then->lr_scheduler.min_lr_factor = before->min_lr_factor;
    then->lr_scheduler.decay_ratio = before->decay_ratio;
    then->training.steps = before->steps;
    then->lr_scheduler.steps = before->schedule_steps;
    then->lr_scheduler.warmup_steps = before->warmup_steps;
    then->lr_scheduler.decay_type = before->decay_type;
    changes[0] = '\0';
    for (int i = 0; i < N_KEYS; i++) {
        char was[64], is[64];
        if (tess_options_format_key(tables, n_tables, then, keys[i], was, sizeof(was)) != TESS_OK ||
            tess_options_format_key(tables, n_tables, now, keys[i], is, sizeof(is)) != TESS_OK)
            tess_error_clear();
        else if (strcmp(was, is) != 0)
            at = tess_text_add(changes, size, at, "%s%s was %s, now %s", at > 0 ? "; " : "", keys[i], was, is);
    }
}

void tess_config_compare_lr(const tess_config *config, const tess_lr_settings *settings, int64_t begin, int64_t step,
                            char *text, size_t size)
{
    tess_config then;
    char changes[640], hint[96] = "";
    const int64_t first = step + 1, last = config->training.steps;
    text[0] = '\0';
    compare_settings(config, settings, &then, changes, sizeof(changes));
    if (schedule_steps(&then) != schedule_steps(config))
        snprintf(hint, sizeof(hint), "; lr_scheduler.steps=%lld keeps the schedule's length",
                 (long long)schedule_steps(&then));
    for (int i = 0; i <= PARTS && text[0] == '\0' && first <= last; i++) {
        const int64_t at = first + (int64_t)((double)(last - first) * i / PARTS);
        double rate = tess_config_lr(config, begin, at), before = tess_config_lr(&then, begin, at);
        if (fabs(rate - before) > 1e-9 * fabs(before))
            snprintf(text, size,
                     "the learning rate has another schedule than until here: step %lld gets %.4g, not %.4g (%s)%s",
                     (long long)at, rate, before, changes, hint);
    }
}
