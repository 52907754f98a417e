#include "doctor/prometheus/exporter.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/os/machine.h"
#include "doctor/prometheus/exporter_impl.h"
#include "health/facts.h"

void tess_exporter_free(tess_exporter *e)
{
    tess_counters_free(&e->counters);
}

static double percent_of(tess_health_reading reading)
{
    return reading.known ? reading.value : -1;
}

static void look(tess_exporter *e, const tess_live_job *live, const tess_exporter_facts *facts, exporter_view *view)
{
    *view = (exporter_view){.exporter = e,
                            .facts = facts,
                            .wall_s = (double)tess_os_wall_ns() * 1e-9,
                            .memory_percent = percent_of(tess_health_read_memory("")),
                            .group_percent = -1};
    if (facts->folder != NULL)
        exporter_read_alerts(e, facts->folder);
    if (live == NULL)
        return;
    exporter_read_notices(e, live);
    view->group_percent = percent_of(tess_health_read_group(live->pid));
}

static tess_status put(tess_exporter *e, exporter_view *view, const tess_top_snapshot *job, tess_buffer *out)
{
    char host[HOST_NAME_MAX + 1] = "", path[PATH_MAX];
    const char *folder = view->facts->folder, *run = "";
    gethostname(host, sizeof(host) - 1);
    if (folder != NULL)
        run = realpath(folder, path) != NULL ? path : folder;
    const tess_label common[] = {{"run", run}, {"host", host}};
    tess_exposition page;
    view->job = job;
    if (job != NULL)
        view->totals = tess_top_sum(job, NULL);
    tess_exposition_begin(&page, common, 2, &e->counters, out);
    tess_status status = exporter_put_families(&page, view);
    tess_exposition_end(&page);
    return status;
}

tess_status tess_exporter_page(tess_exporter *e, const tess_live_job *live, const tess_exporter_facts *facts,
                               tess_buffer *out)
{
    TESS_AUTO(tess_top_snapshot_destroy) tess_top_snapshot *job = NULL;
    exporter_view view;
    look(e, live, facts, &view);
    if (live != NULL)
        TESS_TRY(tess_top_snapshot_take(e->mem, live, &job));
    return put(e, &view, job, out);
}
