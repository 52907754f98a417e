/* Asks a running Python process, of any framework, what it is doing. */
#ifndef TESS_DOCTOR_LOG_PYTHON_ASK_H
#define TESS_DOCTOR_LOG_PYTHON_ASK_H

#include <stdbool.h>

#include "base/text/text.h"

/* Whether `pid` is the number of a process that runs Python. */
bool tess_python_is(const char *pid);
/* Prints what the process is doing and the stacks of its threads, as py-spy reports them. TESS_E_UNSUPPORTED: py-spy
 * is missing or has no permission; the message says what to do. */
tess_status tess_python_report(tess_mem *mem, const char *pid, tess_buffer *out);

#endif
