/* Breaks text into lines for a terminal. */
#ifndef TESS_DOCTOR_TABLE_WRAP_H
#define TESS_DOCTOR_TABLE_WRAP_H

#include "base/text/text.h"

/* Appends the words of `text` in lines of at most 120 columns, where words allow it. The first word goes to `column`,
 * after what the line holds already; further lines are indented by `indent`. Ends with a newline. */
tess_status tess_wrap(tess_buffer *out, size_t column, size_t indent, const char *text);

#endif
