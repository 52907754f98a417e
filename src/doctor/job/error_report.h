/* Writes error.json of a job's folder for people: how the job ended, who is to blame, and what that rank printed. */
#ifndef TESS_DOCTOR_JOB_ERROR_REPORT_H
#define TESS_DOCTOR_JOB_ERROR_REPORT_H

#include "base/text/text.h"
#include "trace/error_file.h"

/* Reads error.json in `folder`, or next to a folder "trace". *record NULL: there is none. A file that cannot be read
 * counts as none, and `why` (256 bytes) says what is wrong with it; "": nothing. */
tess_status tess_error_report_read(tess_mem *mem, const char *folder, tess_error_file **record, char why[256]);

/* Appends the record. */
tess_status tess_error_report_put(const tess_error_file *record, tess_buffer *out);

#endif
