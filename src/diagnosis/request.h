/* What a rank asked for, apart from when and from where: compared, and in words. */
#ifndef TESS_DIAGNOSIS_REQUEST_H
#define TESS_DIAGNOSIS_REQUEST_H

#include "diagnosis/diagnosis.h"

bool tess_request_is_message(const tess_record *record);

/* The same operation on the same amount of the same data for the same purpose. What a source does not know
 * (TESS_DTYPE_COUNT, reduce-op 255) fits everything, and so does the count of an uneven all-to-all. */
bool tess_request_same(const tess_record *a, const tess_record *b);

/* The first thing in which two requests differ, TESS_DIAGNOSIS_HEALTHY when they do not. */
tess_diagnosis_kind tess_request_difference(const tess_record *a, const tess_record *b);

/* "all_reduce #12 of team 'world' for layer 3: 1024 float32, sum"; returns text. */
const char *tess_request_format(const tess_history *history, const tess_record *record, char *text, size_t size);

/* The same and which pieces, as a hash: for evidence, where nothing else may differ. */
const char *tess_request_format_whole(const tess_history *history, const tess_record *record, char *text, size_t size);

/* "train_step (step.c:41)", "program+0x1f30", "" when it is not known; returns text. */
const char *tess_request_site(const tess_record *record, char *text, size_t size);
bool tess_request_same_site(const tess_record *a, const tess_record *b);

/* ", in backward 12 of step 812", "" when the record does not say; returns text. */
const char *tess_request_phase(const tess_record *record, char *text, size_t size);

#endif
