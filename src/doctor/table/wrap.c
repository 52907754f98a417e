#include "doctor/table/wrap.h"

#include <string.h>

enum { WIDTH = 120 };

tess_status tess_wrap(tess_buffer *out, size_t column, size_t indent, const char *text)
{
    bool first = true; /* of its line */
    text += strspn(text, " \n");
    while (*text != '\0') {
        size_t n = strcspn(text, " \n");
        if (!first && column + 1 + n > WIDTH) {
            TESS_TRY(tess_buffer_printf(out, "\n%*s", (int)indent, ""));
            column = indent;
            first = true;
        }
        TESS_TRY(tess_buffer_printf(out, "%s%.*s", first ? "" : " ", (int)n, text));
        column += n + !first;
        first = false;
        text += n + strspn(text + n, " \n");
    }
    return tess_buffer_append(out, "\n", 1);
}
