/* Computes the figures of a schedule from times that ranks have measured. */
#include <math.h>

#include "parallel/pipeline/pipeline.h"

static bool is_computation(const tess_pipeline_action *a)
{
    return a->op <= TESS_PIPELINE_BW;
}

/* The start of the first computation and the end of the last one. */
static tess_pipeline_time extent(const tess_pipeline_schedule *s, const tess_pipeline_report *report)
{
    tess_pipeline_time all = {.start = INFINITY, .end = -INFINITY};
    for (int r = 0; r < s->ranks; r++)
        for (int i = 0; i < s->lists[r].n; i++) {
            if (!is_computation(&s->lists[r].actions[i]))
                continue;
            all.start = fmin(all.start, report->times[r][i].start);
            all.end = fmax(all.end, report->times[r][i].end);
        }
    return all;
}

void tess_pipeline_measure(const tess_pipeline_schedule *s, tess_pipeline_report *report)
{
    const tess_pipeline_time all = extent(s, report);
    double busy = 0;
    report->makespan = all.end - all.start;
    for (int r = 0; r < s->ranks; r++) {
        report->busy[r] = 0;
        for (int i = 0; i < s->lists[r].n; i++) {
            tess_pipeline_time *t = &report->times[r][i];
            *t = (tess_pipeline_time){t->start - all.start, t->end - all.start, t->other};
            report->busy[r] += is_computation(&s->lists[r].actions[i]) ? t->end - t->start : 0;
        }
        report->idle[r] = 1 - report->busy[r] / report->makespan;
        busy += report->busy[r];
    }
    report->bubble = 1 - busy / (report->makespan * s->ranks);
}

/* Mean time of the actions of a kind in a rank's chunk; 0: no such action. */
static double mean_time(const tess_pipeline_schedule *s, const tess_pipeline_report *report, int rank, int chunk,
                        tess_pipeline_op op)
{
    double sum = 0;
    int n = 0;
    for (int i = 0; i < s->lists[rank].n; i++) {
        const tess_pipeline_action *a = &s->lists[rank].actions[i];
        if (a->chunk != chunk || a->op != op)
            continue;
        sum += report->times[rank][i].end - report->times[rank][i].start;
        n++;
    }
    return n > 0 ? sum / n : 0;
}

void tess_pipeline_mean_costs(const tess_pipeline_schedule *s, const tess_pipeline_report *report,
                              tess_pipeline_stage_costs *stages)
{
    for (int g = 0; g < s->ranks * s->chunks; g++)
        for (int op = 0; op <= TESS_PIPELINE_BW; op++)
            stages[g].of[op] =
                mean_time(s, report, tess_pipeline_rank_of(s, g), tess_pipeline_chunk_of(s, g), (tess_pipeline_op)op);
}
