#include "tessera/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/core/redact.h"

enum { MESSAGE_SIZE = 2048 };

static _Thread_local char message[MESSAGE_SIZE];
static _Thread_local char where[160];

const char *tess_status_name(tess_status status)
{
    switch (status) {
#define X(name, number, text) \
    case name:                \
        return #name;
        TESS_STATUS_LIST(X)
#undef X
    }
    return "TESS_E_UNKNOWN";
}

const char *tess_status_text(tess_status status)
{
    switch (status) {
#define X(name, number, text) \
    case name:                \
        return text;
        TESS_STATUS_LIST(X)
#undef X
    }
    return "unknown status";
}

const char *tess_error_message(void)
{
    return message;
}

const char *tess_error_where(void)
{
    return where;
}

void tess_error_clear(void)
{
    message[0] = '\0';
    where[0] = '\0';
}

tess_status tess_fail_at(const char *file, int line, tess_status status, const char *format, ...)
{
    char text[MESSAGE_SIZE]; /* a copy: the arguments may point into the old message */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    memcpy(message, tess_redact_urls(text), sizeof(text));
    snprintf(where, sizeof(where), "%s:%d", file, line);
    return status;
}

tess_status tess_fail_context(tess_status status, const char *format, ...)
{
    char text[MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (n < 0 || n + 3 >= MESSAGE_SIZE)
        return status; /* no room for the outer text: the inner message matters more */
    snprintf(text + n, sizeof(text) - (size_t)n, ": %s", message);
    memcpy(message, tess_redact_urls(text), sizeof(text));
    return status;
}
