/* Whether the size of a collective can be why it timed out. */
#ifndef TESS_DOCTOR_LOG_ARITHMETIC_H
#define TESS_DOCTOR_LOG_ARITHMETIC_H

#include "doctor/log/log.h"

/* Fills bytes, traffic_bytes and mb_per_s of the verdict from its work and world, and writes the sentence to `text`
 * ("" when the counts are not known). Elements are taken as 4 bytes: logs do not say the dtype, and it seldom is more.
 */
void log_do_arithmetic(tess_log_verdict *verdict, char *text, size_t size);

#endif
