#include "supervise/launch_failure.h"

#include <stdio.h>
#include <string.h>

#include "diagnosis/history.h"

static const char evaluating[] = "validation"; /* the phase */

void tess_failure_of_launch(const tess_launch_failure *failure, tess_failure *facts)
{
    *facts = (tess_failure){.rank = failure->rank,
                            .signal = failure->signal,
                            .exit_code = failure->exit_code,
                            .status = failure->status,
                            .oom_killed = failure->situation == TESS_RANK_OOM_KILLED,
                            .stuck = failure->stuck,
                            .stopping = failure->stopping,
                            .host_lost = failure->situation == TESS_RANK_HOST_LOST,
                            .evaluating = strcmp(failure->phase, evaluating) == 0,
                            .step = failure->step,
                            .steps_done = failure->steps};
    snprintf(facts->host, sizeof(facts->host), "%s", failure->host);
    snprintf(facts->text, sizeof(facts->text), "%s", failure->report);
}

void tess_failure_to_launch(const tess_failure *facts, tess_launch_failure *failure)
{
    tess_situation situation = facts->oom_killed  ? TESS_RANK_OOM_KILLED
                               : facts->host_lost ? TESS_RANK_HOST_LOST
                                                  : TESS_RANK_WELL;
    *failure = (tess_launch_failure){.rank = facts->rank,
                                     .host = facts->host,
                                     .signal = facts->signal,
                                     .exit_code = facts->exit_code,
                                     .status = facts->status,
                                     .stuck = facts->stuck,
                                     .stopping = facts->stopping,
                                     .step = facts->step,
                                     .situation = (int)situation,
                                     .steps = facts->steps_done,
                                     .report = facts->text};
    snprintf(failure->phase, sizeof(failure->phase), "%s", facts->evaluating ? evaluating : "");
}
