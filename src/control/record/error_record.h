/* Writes error.json (trace/error_file.h) into a job's folder at every end that is not a success, and into the file that
 * torchrun names. A job that its input refuses leaves none: exit code 2 promises that nothing was written. */
#ifndef TESS_CONTROL_RECORD_ERROR_RECORD_H
#define TESS_CONTROL_RECORD_ERROR_RECORD_H

#include "control/launch/launcher.h"
#include "tessera/runtime.h"

/* Moves the record of an earlier job in `folder` to error.previous.json, so that it cannot be taken for that of this
 * one. Also called at the end of a job that went on after a failure and ended well. NULL: does nothing. */
void tess_error_record_begin(const char *folder);

/* The same for a process of which a host has several: the host's first does it, since a late one would move the record
 * of this job. */
void tess_error_record_begin_host(const char *folder);

/* Writes the record of a job of this process or of its ranks into options->record_folder. A failure to write it is
 * reported. if_absent: another process may have written a better one. */
void tess_error_record_end(const tess_launch_options *options, const tess_launch_result *result, bool if_absent);

/* The same for a warden, which does so for its host. */
void tess_error_record_end_warden(const tess_launch_options *options, const tess_launch_result *result);

/* The same for a job whose ranks did not start, or whose end only its exit code tells. `report` says what is known.
 * steps_done: the newest step that an earlier life of the job has done; -1: none. */
void tess_error_record_plain(const tess_launch_options *options, int exit_code, bool asked, const char *report,
                             int64_t steps_done, bool if_absent);

/* The same for a process that is a rank itself, and that nobody watches. `code`: its exit code. */
void tess_error_record_own(const char *folder, const tess_runtime *runtime, tess_status status, int code);

#endif
