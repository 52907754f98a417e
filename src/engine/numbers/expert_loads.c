#include "engine/numbers/expert_loads.h"

#include <string.h>

/* The layers with experts are those that have counts. */
static int64_t count_words(const tess_engine *e)
{
    const tess_model_config *c = tess_model_get_config(e->whole);
    return c->n_layers * c->parts.experts.n;
}

/* The counts, then room for the sums of all ranks: limbs of the losses, and counts. */
tess_status tess_loads_create(tess_engine *e)
{
    const int64_t n = count_words(e);
    return n > 0 ? TESS_PART(e, 2 * n + TESS_EXACT_LIMBS, "loads of experts", &e->loads.counts) : TESS_OK;
}

void tess_loads_begin(tess_engine *e)
{
    if (e->loads.counts == NULL)
        return;
    memset(e->loads.counts, 0, (size_t)count_words(e) * sizeof(int64_t));
    tess_exact_clear(&e->loads.aux);
}

static int64_t *sums_of(const tess_engine *e)
{
    return e->loads.counts + count_words(e) + TESS_EXACT_LIMBS;
}

const int64_t *tess_loads_of_layer(const tess_engine *e, int64_t layer)
{
    return sums_of(e) + layer * tess_model_get_config(e->whole)->parts.experts.n;
}

/* Adds the counts (E) of one layer to the report. */
static void add_layer(tess_load_report *report, const int64_t *counts, int64_t E)
{
    int64_t most = 0, all = 0, n_idle = 0;
    for (int64_t i = 0; i < E; i++) {
        most = counts[i] > most ? counts[i] : most;
        all += counts[i];
        n_idle += counts[i] == 0;
    }
    if (all == 0)
        return;
    const double load = (double)most * (double)E / (double)all;
    report->max_over_mean = load > report->max_over_mean ? load : report->max_over_mean;
    report->n_idle += n_idle;
}

tess_status tess_loads_measure(tess_engine *e, double divisor, tess_load_report *report)
{
    *report = (tess_load_report){0};
    if (e->loads.counts == NULL)
        return TESS_OK;
    const int64_t n = count_words(e), E = tess_model_get_config(e->whole)->parts.experts.n;
    int64_t *limbs = e->loads.counts + n, *counts = sums_of(e);
    tess_exact_sum aux = e->loads.aux;
    memset(limbs, 0, (size_t)(TESS_EXACT_LIMBS + n) * sizeof(int64_t));
    if (tess_coordinates_counts(&e->at)) {
        tess_exact_normalize(&aux);
        memcpy(limbs, aux.limb, sizeof(aux.limb));
        memcpy(counts, e->loads.counts, (size_t)n * sizeof(int64_t));
    }
    tess_team_label(e->team, "loads of experts", -1);
    tess_status status =
        tess_all_reduce(e->team, limbs, limbs, (size_t)(TESS_EXACT_LIMBS + n), TESS_I64, TESS_SUM, NULL);
    tess_team_label(e->team, NULL, -1);
    TESS_TRY(status);
    memcpy(aux.limb, limbs, sizeof(aux.limb));
    report->aux_loss = tess_exact_value(&aux) / divisor;
    for (int64_t at = 0; at < n; at += E)
        add_layer(report, counts + at, E);
    return TESS_OK;
}
