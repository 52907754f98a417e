#include "doctor/run/run_numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "doctor/top/top_memory.h"

/* Weight of a line in the means of the newest ones. */
static const double newest_weight = 0.1;

static double get(const json_t *line, const char *key)
{
    const json_t *value = json_object_get(line, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* Moves a mean towards a value; the first value is the mean. */
static void move(double *mean, double value, bool first)
{
    if (isfinite(value))
        *mean = first ? value : *mean + newest_weight * (value - *mean);
}

static void add_times(tess_run_numbers *r, const json_t *times, double *total)
{
    *total = get(times, "total");
    for (int phase = 0; phase < TESS_PHASE_COUNT; phase++) {
        double seconds = get(times, tess_phase_name((tess_phase)phase));
        r->phase_s[phase] += isfinite(seconds) ? seconds : 0;
    }
    double hidden = get(times, "hidden");
    r->hidden_s += isfinite(hidden) ? hidden : 0;
}

static void add_loss(tess_run_numbers *r, const json_t *line)
{
    double loss = get(line, "loss");
    r->n_bad += !isfinite(loss);
    r->n_jumps += r->n_steps > 0 && isfinite(loss) && r->loss > 0 && loss > 3 * r->loss;
    r->loss = isfinite(loss) ? loss : r->loss;
}

static void add_step(tess_run_numbers *r, const json_t *line, int64_t step)
{
    double total = NAN, tokens = get(line, "n_tokens"), ranks = get(line, "ranks");
    bool first = r->n_steps == 0;
    add_times(r, json_object_get(line, "time_s"), &total);
    add_loss(r, line);
    move(&r->newest_tps, get(line, "tps"), first);
    move(&r->newest_mfu, get(line, "mfu"), first);
    move(&r->newest_step_s, total, first);
    if (isfinite(ranks))
        r->n_ranks = (int)ranks;
    if (isfinite(total)) {
        r->step_s += total;
        r->rank_s += total * (r->n_ranks > 0 ? r->n_ranks : 1);
    }
    if (isfinite(tokens))
        r->n_tokens = (int64_t)tokens;
    r->first_step = first ? step : r->first_step;
    r->last_step = step;
    r->n_steps++;
}

void tess_run_numbers_add(tess_run_numbers *r, const char *text, size_t n)
{
    json_t *line;
    int64_t step;
    if (tess_json_parse(text, n, "metrics", false, &line) == TESS_OK) {
        if (json_object_get(line, "loss") != NULL && tess_json_get_int(line, "step", "metrics", &step) == TESS_OK)
            add_step(r, line, step);
        json_decref(line);
    }
    tess_error_clear();
}

tess_status tess_run_numbers_read(const char *folder, tess_run_numbers *numbers)
{
    char path[4096], *line = NULL;
    size_t room = 0;
    *numbers = (tess_run_numbers){0};
    TESS_TRY(tess_os_join(path, sizeof(path), folder, "metrics.jsonl"));
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return tess_os_error("open", path);
    for (ssize_t n; (n = getline(&line, &room, file)) > 0;)
        tess_run_numbers_add(numbers, line, (size_t)n);
    bool failed = ferror(file) != 0;
    fclose(file);
    free(line);
    TESS_CHECK(!failed, TESS_E_IO, "%s cannot be read to its end", path);
    TESS_CHECK(numbers->n_steps > 0, TESS_E_NOT_FOUND, "%s has no step yet", path);
    return TESS_OK;
}

bool tess_run_memory_growth(const char *folder, double *growth)
{
    tess_top_memory memory;
    double middle = 0, end = 0;
    if (tess_top_memory_read(folder, &memory) != TESS_OK || memory.n < 4) {
        tess_error_clear();
        return false;
    }
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        middle += memory.bytes[pool][memory.n / 2];
        end += memory.bytes[pool][memory.n - 1];
    }
    *growth = middle > 0 ? end / middle - 1 : 0;
    return true;
}
