/* Requests: what a rank called, without time and call site. Compared, and as text. */
#ifndef TESS_DIAGNOSIS_REQUEST_H
#define TESS_DIAGNOSIS_REQUEST_H

#include "diagnosis/diagnosis.h"

bool tess_request_is_message(const tess_record *record);

/* The same operation with the same arguments and label. Unknown arguments (TESS_DTYPE_COUNT, reduce-op 255) and the
 * counts of an uneven all-to-all match any. */
bool tess_request_same(const tess_record *a, const tess_record *b);

/* The first difference between two requests; TESS_DIAGNOSIS_HEALTHY: none. */
tess_diagnosis_kind tess_request_difference(const tess_record *a, const tess_record *b);

/* "all_reduce #12 of team 'world' for layer 3: 1024 float32, sum"; returns text. */
const char *tess_request_format(const tess_history *history, const tess_record *record, char *text, size_t size);

/* The same with a hash of the pieces, which may be the only difference. */
const char *tess_request_format_whole(const tess_history *history, const tess_record *record, char *text, size_t size);

enum { TESS_REQUEST_SITE_BYTES = TESS_HISTORY_TEXT + 8 }; /* room for any text of tess_request_site */

/* "train_step (step.c:41)", "program+0x1f30", "" if it is not known; returns text. */
const char *tess_request_site(const tess_record *record, char *text, size_t size);
bool tess_request_same_site(const tess_record *a, const tess_record *b);

/* ", in backward 12 of step 812", "" if it is not known; returns text. */
const char *tess_request_phase(const tess_record *record, char *text, size_t size);

#endif
