/* The limit on a process's address space (ulimit -v). Exceeding it looks like missing memory. */
#ifndef TESS_BASE_OS_ADDRESS_SPACE_H
#define TESS_BASE_OS_ADDRESS_SPACE_H

enum { TESS_ADDRESS_SPACE_TEXT = 160 };

/* Writes the last part of an out-of-memory message: the limit, its value and the fix. "": there is no limit. Returns
 * `text`. */
const char *tess_os_address_space_hint(char text[TESS_ADDRESS_SPACE_TEXT]);

#endif
