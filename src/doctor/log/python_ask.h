/* Asks a running Python process, of any framework, where it is. */
#ifndef TESS_DOCTOR_LOG_PYTHON_ASK_H
#define TESS_DOCTOR_LOG_PYTHON_ASK_H

#include <stdbool.h>

#include "base/text/text.h"

/* Whether `pid` is the number of a process that runs Python. */
bool tess_python_is(const char *pid);
/* Prints where it is and the stacks of its threads, as py-spy sees them. TESS_E_UNSUPPORTED says what to do: py-spy is
 * missing, or has no right to look. */
tess_status tess_python_report(tess_mem *mem, const char *pid, tess_buffer *out);

#endif
