/* Finds the part of a growing text that later tokens cannot change, so that only whole characters are shown. */
#ifndef TESS_CLI_WHOLE_TEXT_H
#define TESS_CLI_WHOLE_TEXT_H

#include <string.h>

/* Returns the number of bytes of `text` that more tokens cannot change. A character may consist of several tokens.
 * Until its last byte is there, it is decoded as one U+FFFD, or as up to three of them. */
static inline size_t cli_whole_text(const char *text, size_t size)
{
    for (int i = 0; i < 3 && size >= 3 && memcmp(text + size - 3, "\xef\xbf\xbd", 3) == 0; i++)
        size -= 3;
    return size;
}

#endif
