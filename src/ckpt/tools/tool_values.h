/* Converts elements of any numeric dtype to doubles. */
#ifndef TESS_CKPT_TOOLS_TOOL_VALUES_H
#define TESS_CKPT_TOOLS_TOOL_VALUES_H

#include <stdbool.h>
#include <stdint.h>

/* True of F64, F32, F16, BF16, integers and BOOL. */
bool tess_values_are_numbers(const char *dtype);
/* Converts `n` elements of such a dtype, at any address. Rounds integers beyond 2^53. */
void tess_values_decode(const char *dtype, const void *src, int64_t n, double *dst);

#endif
