/* Lists the running jobs for other programs. */
#include <stdio.h>
#include <stdlib.h>

#include "doctor/table/clean.h"
#include "job/find.h"
#include "tessera/diagnosis.h"

static void describe(const tess_live_job *live, tess_running_job *job)
{
    *job = (tess_running_job){.pid = live->pid, .world = live->world, .n_hosts = live->n_hosts};
    snprintf(job->folder, sizeof(job->folder), "%.*s", JOB_FOLDER_BYTES, live->job.header->trace_folder);
    tess_clean_text(live->command, sizeof(live->command), job->command, sizeof(job->command));
}

tess_status tess_jobs_list(tess_running_job **jobs, int *n)
{
    tess_live_job live[TESS_LIVE_MAX];
    *jobs = NULL;
    *n = 0;
    TESS_TRY(tess_live_find(NULL, live, TESS_LIVE_MAX, n));
    *jobs = calloc((size_t)*n, sizeof(**jobs));
    for (int i = 0; i < *n; i++) {
        if (*jobs != NULL)
            describe(&live[i], &(*jobs)[i]);
        tess_live_close(&live[i]);
    }
    if (*jobs != NULL)
        return TESS_OK;
    tess_status status = TESS_FAIL(TESS_E_NOMEM, "the list of %d jobs", *n);
    *n = 0;
    return status;
}
