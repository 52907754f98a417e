/* Writes report.html into a run's folder when the run has ended, however it ended (metrics.report). */
#ifndef TESS_CONTROL_SUPERVISE_END_PAGE_H
#define TESS_CONTROL_SUPERVISE_END_PAGE_H

#include "base/core/reporter.h"
#include "config/config.h"
#include "train/task.h"

/* Writes the page if the run has written anything since `begun_s` (seconds since 1970). `code` is the job's exit code.
 * A run that was stopped or failed gives the page 2 s, so that its end is not delayed, and other runs give it 11 s. A
 * failure is a warning. */
void tess_end_page_write(const tess_config *config, const tess_task_kind *kind, double begun_s, int code,
                         const tess_reporter *reporter);

#endif
