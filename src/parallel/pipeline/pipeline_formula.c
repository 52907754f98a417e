/* The bubble by the papers' formulas, and the number of micro-batches that makes it small. */
#include <math.h>

#include "parallel/pipeline/pipeline.h"

/* Returns the idle share of ranks that work for `busy` and wait for `idle`. */
static double share(double idle, double busy)
{
    return idle / (busy + idle);
}

double tess_pipeline_formula(const tess_pipeline_schedule *s, const tess_pipeline_costs *c, const char **formula)
{
    const double p = s->ranks, v = s->chunks, m = s->micros;
    const bool equal = c->forward == c->input && c->input == c->weight;
    *formula = NULL;
    if (c->send > 0 || c->share != NULL || c->stages != NULL || c->buffers > 0 || c->forward <= 0)
        return NAN;
    switch (s->kind) {
    case TESS_PIPELINE_GPIPE:
    case TESS_PIPELINE_1F1B:
        *formula = "(p-1)/(m+p-1)";
        return share(p - 1, m);
    case TESS_PIPELINE_INTERLEAVED:
        *formula = "(p-1)/(vm+p-1)";
        return share(p - 1, v * m);
    case TESS_PIPELINE_ZB_H1: /* holds if BW fits into the time in which other schedules wait */
        if (c->weight > c->forward || c->weight > c->input || s->micros < s->ranks)
            return NAN;
        *formula = equal ? "(p-1)/(3m+p-1)" : "(p-1)(F+I-W) idle";
        return share((p - 1) * (c->forward + c->input - c->weight), m * (c->forward + c->input + c->weight));
    case TESS_PIPELINE_ZBV:
        if (!equal || s->micros < 2 * s->ranks)
            return NAN;
        *formula = "(p-1)/(6m+p-1)";
        return share(p - 1, 6 * m);
    default: /* DeepSeek-V3 states (p-1)(F&B + B - 3W), with a forward and a backward that overlap as one action */
        if (!equal || c->backward != 2 * c->forward)
            return NAN;
        *formula = "(p-1)/(6m+p-1)";
        return share(p - 1, 6 * m);
    }
}

/* The bubble with `micros` micro-batches. */
static tess_status bubble_of(const tess_pipeline_schedule *like, const tess_pipeline_costs *costs, int micros,
                             double *bubble)
{
    tess_pipeline_schedule s = *like;
    tess_pipeline_report report;
    const char *formula;
    s.micros = micros;
    *bubble = tess_pipeline_formula(&s, costs, &formula);
    if (formula != NULL)
        return TESS_OK;
    TESS_TRY(tess_pipeline_build(like->mem, like->kind, like->ranks, like->chunks, micros, &s));
    tess_status status = tess_pipeline_check(&s, costs, &report);
    *bubble = report.bubble;
    tess_pipeline_report_free(&report);
    tess_pipeline_free(&s);
    return status;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

tess_status tess_pipeline_least_micros(const tess_pipeline_schedule *s, const tess_pipeline_costs *costs, double bubble,
                                       int *micros)
{
    static const double rounding = 1e-9;
    const int stages = s->ranks * s->chunks, step = s->kind == TESS_PIPELINE_INTERLEAVED ? s->ranks : 1;
    const int most = least(100 * stages, TESS_PIPELINE_MAX_MICROS / stages) / step * step;
    int enough = s->kind == TESS_PIPELINE_DUALPIPEV ? 2 * s->ranks : step, too_few = enough - step;
    double now = 1;
    *micros = 0;
    for (;; too_few = enough,
            enough = least(2 * enough, most)) { /* the bubble shrinks as the number of micro-batches grows */
        if (enough > most || enough == too_few)
            return TESS_OK;
        TESS_TRY(bubble_of(s, costs, enough, &now));
        if (now < bubble - rounding)
            break;
    }
    while (enough - too_few > step) {
        int middle = too_few + (enough - too_few) / step / 2 * step;
        TESS_TRY(bubble_of(s, costs, middle, &now));
        if (now < bubble - rounding)
            enough = middle;
        else
            too_few = middle;
    }
    *micros = enough;
    return TESS_OK;
}
