/* Shows a report to people. A report is a JSON document, which programs get as it is. A form describes the text for
 * people.
 *
 * A form is a list of texts with cells. A cell is {KEY} or {KEY:FORMAT}. KEY names a member of the report, or of the
 * item that the text is repeated for. "a.b" is a member of a member, "a.0" the first item of an array, and "" the item
 * itself. A member that is absent or null prints as "-". FORMAT is a width (negative: the value stands at the left), a
 * dot and digits, and one of these:
 *
 *   g f e   a number as printf prints it          +   like f, always with a sign
 *   %       a fraction as a percentage            B   bytes, such as "1.50 GiB"
 *   s       "s", but nothing for the number 1     !   nothing: the cell is only a condition
 *   ?A|B    the text A if the value is not empty, else B
 *   w       words, wrapped at the form's last column; the width is the indent of further lines
 *
 * A value is empty if it is absent, null, false, 0 or "". A text in [brackets] is left out if the value of its first
 * cell is empty. In [A|B], the text B replaces a text A that is left out. Brackets nest. */
#ifndef TESS_BASE_REPORT_FORM_H
#define TESS_BASE_REPORT_FORM_H

#include <jansson.h>

#include "base/text/text.h"

enum { TESS_FORM_WIDTH = 120 };

/* A part without a text ends the form. */
typedef struct tess_form_part {
    const char *list; /* name of an array in the report: the text is repeated for each item. NULL: it comes once */
    const char *text;
} tess_form_part;

/* Appends a report as its form says. Words are wrapped at `columns`. */
tess_status tess_form_print(tess_buffer *out, const tess_form_part *form, int columns, const json_t *report);
/* Returns a number of a report. Infinities and NaN, which JSON lacks, are null as JSON and texts for people. */
json_t *tess_form_number(double value, bool as_json);
/* Appends a report as its form says, wrapped at TESS_FORM_WIDTH, or as JSON with jansson's `flags`. Takes over the
 * report. TESS_E_NOMEM: also if it is NULL. */
tess_status tess_form_put(json_t *report, const tess_form_part *form, bool as_json, size_t flags, tess_buffer *out);

#endif
