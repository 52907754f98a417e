#include "base/core/reporter.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

enum { LINE_BYTES = 20 << 10 };

void tess_report_line(const tess_reporter *reporter, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list arguments;
    if (reporter->line == NULL)
        return;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    reporter->line(reporter->self, line);
}
