/* Adds lines of evidence to a diagnosis. */
#include "doctor/log/log_impl.h"

#include <stdarg.h>
#include <stdio.h>

void log_add_evidence(tess_log_diagnosis *v, const char *format, ...)
{
    if (v->n_evidence == TESS_LOG_MOST_EVIDENCE)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(v->evidence[v->n_evidence++], sizeof(v->evidence[0]), format, args);
    va_end(args);
}
