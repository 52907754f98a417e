/* Compares and formats requests. A request is what a rank called, without time and call site. */
#ifndef TESS_DIAGNOSIS_REQUEST_H
#define TESS_DIAGNOSIS_REQUEST_H

#include "diagnosis/root_cause.h"

bool tess_request_is_message(const tess_record *record);

/* Whether two requests have the same operation, arguments and label. Unknown arguments (TESS_DTYPE_COUNT, reduce-op
 * 255) match any value, and so do the counts of an uneven all-to-all. */
bool tess_request_same(const tess_record *a, const tess_record *b);

/* Returns the first difference between two requests; TESS_DIAGNOSIS_HEALTHY: there is none. */
tess_diagnosis_kind tess_request_difference(const tess_record *a, const tess_record *b);

/* Formats "all_reduce #12 of team 'world' for layer 3: 1024 float32, sum". Returns text. */
const char *tess_request_format(const tess_history *history, const tess_record *record, char *text, size_t size);

/* Does the same and appends a hash of the pieces, which may be the only difference. */
const char *tess_request_format_whole(const tess_history *history, const tess_record *record, char *text, size_t size);

enum { TESS_REQUEST_SITE_BYTES = TESS_HISTORY_TEXT + 8 }; /* size of a buffer for any text of tess_request_site */

/* Formats "train_step (step.c:41)" or "program+0x1f30"; "" if the site is not known. Returns text. */
const char *tess_request_site(const tess_record *record, char *text, size_t size);
bool tess_request_same_site(const tess_record *a, const tess_record *b);

/* Formats ", in backward 12 of step 812"; "" if the phase is not known. Returns text. */
const char *tess_request_phase(const tess_record *record, char *text, size_t size);

#endif
