/* Checks a schedule: each list by itself, then all ranks together. Reports what the schedule costs. */
#include <math.h>

#include "parallel/pipeline/pipeline_check_impl.h"
#include "base/mem/scoped.h"

static tess_status check_costs(const tess_pipeline_schedule *s, const tess_pipeline_costs *costs)
{
    const struct {
        const char *name;
        double value;
    } all[] = {{"F", costs->forward},
               {"B", costs->backward},
               {"BI", costs->input},
               {"BW", costs->weight},
               {"a message", costs->send}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        TESS_CHECK(isfinite(all[i].value) && all[i].value >= 0, TESS_E_INVALID,
                   "pipeline: %s costs %g; give a time of 0 or more", all[i].name, all[i].value);
    for (int g = 0; costs->share != NULL && g < s->ranks * s->chunks; g++)
        TESS_CHECK(isfinite(costs->share[g]) && costs->share[g] >= 0, TESS_E_INVALID,
                   "pipeline: the share of stage %d is %g; give 0 or more", g, costs->share[g]);
    for (int i = 0; costs->stages != NULL && i < s->ranks * s->chunks * (TESS_PIPELINE_BW + 1); i++) {
        tess_pipeline_op op = (tess_pipeline_op)(i % (TESS_PIPELINE_BW + 1));
        int g = i / (TESS_PIPELINE_BW + 1);
        TESS_CHECK(isfinite(costs->stages[g].of[op]) && costs->stages[g].of[op] >= 0, TESS_E_INVALID,
                   "pipeline: %s of stage %d costs %g; give a time of 0 or more", tess_pipeline_op_name(op), g,
                   costs->stages[g].of[op]);
    }
    TESS_CHECK(costs->buffers >= 0, TESS_E_INVALID,
               "pipeline: %d message buffers between stages; give 1 or more, or 0 for as many as come", costs->buffers);
    return TESS_OK;
}

tess_status tess_pipeline_report_create(const tess_pipeline_schedule *s, tess_pipeline_report *report)
{
    static const char what[] = "report of a pipeline";
    const size_t ranks = (size_t)s->ranks;
    size_t n = 0;
    *report = (tess_pipeline_report){.busy = NULL};
    for (size_t r = 0; r < ranks; r++)
        n += (size_t)s->lists[r].n;
    TESS_TRY(TESS_NEW(s->mem, 2 * ranks, what, &report->busy));
    TESS_TRY(TESS_PART(report->busy, ranks * (1 + (size_t)s->chunks), what, &report->in_flight));
    TESS_TRY(TESS_PART(report->busy, ranks, what, &report->times));
    TESS_TRY(TESS_PART(report->busy, n, what, &report->all_times));
    report->idle = report->busy + ranks;
    report->slots = report->in_flight + ranks;
    n = 0;
    for (size_t r = 0; r < ranks; r++) {
        report->times[r] = report->all_times + n;
        n += (size_t)s->lists[r].n;
    }
    return TESS_OK;
}

void tess_pipeline_report_free(tess_pipeline_report *report)
{
    tess_mem_drop(&report->busy);
    *report = (tess_pipeline_report){0};
}

tess_status tess_pipeline_check(const tess_pipeline_schedule *s, const tess_pipeline_costs *costs,
                                tess_pipeline_report *report)
{
    TESS_AUTO(tess_pipeline_report_free) tess_pipeline_report own = {.busy = NULL};
    TESS_AUTO(tess_mem_drop) int *work = NULL;
    if (report != NULL)
        *report = own;
    TESS_TRY(check_costs(s, costs));
    TESS_TRY(tess_pipeline_report_create(s, &own));
    TESS_TRY(TESS_NEW(s->mem, pipeline_list_work(s), "report of a pipeline", &work));
    for (int r = 0; r < s->ranks; r++)
        TESS_TRY(pipeline_check_list(s, r, work, &own));
    TESS_TRY(pipeline_simulate(s, costs, &own));
    if (report != NULL) {
        *report = own;
        own.busy = NULL;
    }
    return TESS_OK;
}
