/* Runs the watchdog in a warden. */
#include "control/launch/agent/agent_impl.h"

/* Whether this job is being watched. False if the watchdog belongs to an earlier job. */
static bool is_watched(const warden_watch *watch, const tess_job *job)
{
    return watch->header != NULL && watch->header == job->header && watch->world == job->header->world;
}

static void watch_job(warden_watch *watch, const warden_client *client, const tess_launch_options *options)
{
    const tess_job_header *header = client->job.header;
    if (is_watched(watch, &client->job))
        return;
    tess_watchdog_destroy(&watch->watchdog);
    watch->job = &client->job;
    watch->header = header;
    watch->world = header->world;
    tess_watchdog_options asked = {.soft_s = options->soft_timeout_s,
                                   .timeout_s = options->timeout_s,
                                   .waits_on = options->waits_on,
                                   .reporter = options->reporter};
    (void)tess_watchdog_create(client->mem, watch->job, &asked, &watch->watchdog);
    watchdog_job_record_free(&watch->record);
    if (watchdog_job_record_begin(&watch->record, client->mem, watch->job->world, true) != TESS_OK)
        tess_error_clear();
}

void warden_watch_look(warden_watch *watch, const warden_client *client, const tess_launch_options *options,
                       bool is_first)
{
    watch_job(watch, client, options);
    if (!is_first)
        return;
    tess_watchdog_look(watch->watchdog);
    watchdog_job_record_look(&watch->record, watch->job);
}

void warden_watch_ended(warden_watch *watch, int rank, int pid, int wait_status, bool asked)
{
    if (is_watched(watch, watch->job))
        tess_watchdog_ended(watch->watchdog, rank, pid, wait_status, asked);
}

void warden_watch_end(warden_watch *watch, const tess_launch_result *result, bool is_first)
{
    if (watch->header != NULL && is_first)
        watchdog_job_record_end(&watch->record, watch->job, result);
    watchdog_job_record_free(&watch->record);
    tess_watchdog_destroy(&watch->watchdog);
}
