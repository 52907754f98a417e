/* Appends HTML to a buffer. The first failure is kept and ends the output, so that callers check only once. */
#ifndef TESS_PAGE_PAGE_OUT_H
#define TESS_PAGE_PAGE_OUT_H

#include "base/text/text.h"

typedef struct page_out {
    tess_buffer *to;
    tess_status status;  /* the first failure */
    const char *section; /* id of the section; ids of its pictures begin with it */
    int n_pictures;
} page_out;

/* Appends markup of this program. Arguments are numbers and constant words only; texts of files go through
 * page_put_text. */
void page_put(page_out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends escaped text, as tess_page_put_text. */
void page_put_text(page_out *out, const char *text);
/* Appends escaped text of at most n characters, and "..." in place of the rest. */
void page_put_some(page_out *out, const char *text, int n);
/* Appends a coordinate with two digits after the point, without trailing zeros. */
void page_put_at(page_out *out, double value);

/* Writes a value as people read it, such as "0.00015", "12.3 M" or "1.2e-7". Returns text. */
const char *page_number(double value, char *text, size_t size);

/* Appends a row of a table: <tr><th>name<td>value. The value is a text of a file or a formatted one. */
void page_put_row(page_out *out, const char *name, const char *value);

#endif
