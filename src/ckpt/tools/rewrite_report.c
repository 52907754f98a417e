/* Reports to the user what a conversion changes (values) and what it leaves unchanged (files and dtypes). */
#include <stdarg.h>
#include <stdio.h>

#include "ckpt/tools/rewrite_impl.h"

void rewrite_progress(rewriting *r, uint64_t bytes)
{
    r->done += bytes;
    if (r->options->progress != NULL)
        r->options->progress(r->options->self, "write", r->done, r->result->bytes);
}

void rewrite_report(const rewriting *r, const char *format, ...)
{
    char line[2048];
    va_list args;
    if (r->options->report == NULL)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    r->options->report(r->options->self, line);
}
