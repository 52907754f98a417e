#include "engine/stages/stage_times.h"

#include <string.h>

#include "base/os/os.h"
#include "comm/agree.h"

double tess_stage_now(void)
{
    return (double)tess_os_now_ns() * 1e-6;
}

static size_t longest_list(const tess_pipeline_schedule *s)
{
    int n = 0;
    for (int r = 0; r < s->ranks; r++)
        n = s->lists[r].n > n ? s->lists[r].n : n;
    return (size_t)n;
}

tess_status tess_stage_times_open(tess_mem *mem, const tess_pipeline_schedule *s, tess_stage_times *times)
{
    size_t n = longest_list(s);
    *times = (tess_stage_times){.mem = mem};
    TESS_TRY(TESS_NEW(mem, n, "times of a pipeline", &times->own));
    TESS_TRY(TESS_PART(times->own, s->ranks * n, "times of a pipeline", &times->gathered));
    return tess_pipeline_report_create(s, &times->report);
}

void tess_stage_times_close(tess_stage_times *times)
{
    if (times->mem == NULL)
        return;
    tess_pipeline_report_free(&times->report);
    tess_mem_free(times->mem, times->own);
    *times = (tess_stage_times){0};
}

tess_status tess_stage_times_gather(tess_stage_times *times, tess_team *team, const tess_pipeline_schedule *s)
{
    size_t n = longest_list(s);
    int rank = tess_team_rank(team);
    double common = 0;
    if (!tess_team_is_local(team)) {
        TESS_TRY(tess_barrier(team, NULL));
        common = tess_stage_now();
    }
    for (int i = 0; i < s->lists[rank].n; i++)
        times->own[i] = (tess_pipeline_time){times->own[i].start - common, times->own[i].end - common, 0};
    tess_team_label(team, "timeline", -1);
    tess_status status =
        tess_gather(team, times->own, rank == 0 ? times->gathered : NULL, n * sizeof(*times->own), TESS_U8, 0, NULL);
    tess_team_label(team, NULL, -1);
    TESS_TRY(status);
    if (rank != 0)
        return TESS_OK;
    for (int r = 0; r < s->ranks; r++)
        memcpy(times->report.times[r], times->gathered + (size_t)r * n,
               (size_t)s->lists[r].n * sizeof(*times->gathered));
    tess_pipeline_measure(s, &times->report);
    times->is_new = true;
    return TESS_OK;
}
