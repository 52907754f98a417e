/* The limit of a process's address space (ulimit -v), which looks like missing memory where it strikes. */
#ifndef TESS_BASE_OS_ADDRESS_SPACE_H
#define TESS_BASE_OS_ADDRESS_SPACE_H

enum { TESS_ADDRESS_SPACE_TEXT = 160 };

/* Writes the end of a message about memory that could not be had: the limit, its value and the fix; "": no limit.
 * Returns `text`. */
const char *tess_os_address_space_hint(char text[TESS_ADDRESS_SPACE_TEXT]);

#endif
