/* The text form of a list, as users write it: items separated by commas. An item that contains a comma is quoted.
 *
 *   a.txt, b.txt      "a,b.txt", 'c,d.txt'      "with \" and \\ inside"
 *
 * An item that begins with " or ' ends at the next quote of that kind. Between double quotes a backslash makes a quote
 * or a backslash part of the item; before any other character it stands for itself. Spaces around items are not part of
 * them. */
#ifndef TESS_BASE_TEXT_LIST_TEXT_H
#define TESS_BASE_TEXT_LIST_TEXT_H

#include "tessera/memory.h"

enum { TESS_LIST_MAX_ITEM = 4096, TESS_LIST_MAX_QUOTED = 2 * TESS_LIST_MAX_ITEM + 3 };

/* Reads the item at *at, which ends at `end` at the latest, and moves *at after the comma that follows it. The item is
 * NUL-terminated and may be empty.
 * TESS_E_INVALID: a quote is not closed, text follows a closing quote, or the item does not fit into `size`. */
tess_status tess_list_read(const char **at, const char *end, char *item, size_t size);

/* Writes an item so that tess_list_read reads it back, in double quotes if needed. `item` has at most
 * TESS_LIST_MAX_ITEM bytes. Returns `quoted`. */
const char *tess_list_quote(const char *item, char quoted[TESS_LIST_MAX_QUOTED]);

#endif
