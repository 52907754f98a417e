/* SHA-256 of a text in base64, as a Content-Security-Policy names the scripts that it allows. */
#ifndef TESS_PAGE_PAGE_HASH_H
#define TESS_PAGE_PAGE_HASH_H

#include <stddef.h>

enum { PAGE_HASH_TEXT = 45 };

/* Writes the hash as 44 characters. Returns text. */
const char *page_hash(const void *data, size_t size, char text[PAGE_HASH_TEXT]);

#endif
