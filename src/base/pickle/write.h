/* Writing a pickle of plain values. */
#ifndef TESS_BASE_PICKLE_WRITE_H
#define TESS_BASE_PICKLE_WRITE_H

#include <jansson.h>

#include "base/text/text.h"

/* Appends the value as a pickle of protocol 2, which every Python since 2.3 reads: objects become dicts, arrays lists,
 * integers ints of any size. Recurses as deep as the value is nested. TESS_E_NOMEM. */
tess_status tess_pickle_write(const json_t *value, tess_buffer *out);

#endif
