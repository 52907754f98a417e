/* Text that grows by tokens, shown as it grows: what of it is whole. */
#ifndef TESS_CLI_WHOLE_TEXT_H
#define TESS_CLI_WHOLE_TEXT_H

#include <string.h>

/* A character may come in several tokens, and shows as U+FFFD until its last byte is there: as one, or as one for each
 * of at most three bytes. Bytes of `text` that more tokens do not change. */
static inline size_t cli_whole_text(const char *text, size_t size)
{
    for (int i = 0; i < 3 && size >= 3 && memcmp(text + size - 3, "\xef\xbf\xbd", 3) == 0; i++)
        size -= 3;
    return size;
}

#endif
