/* Writes a report. A report is a JSON document. Programs get it as it is, browsers as a page of HTML, and a monitoring
 * system as metrics. A form describes the text for people.
 *
 * A form is a list of texts with cells. A cell is {KEY} or {KEY:FORMAT}. KEY names a member of the report, or of the
 * item that the text is repeated for. "a.b" is a member of a member, "a.0" the first item of an array, and "" the item
 * itself. A member that is absent or null prints as "-". FORMAT is a width (negative: the value stands at the left), a
 * dot and digits (of a text: the most bytes that print), and one of these:
 *
 *   g f e   a number as printf prints it          +   like f, always with a sign
 *   %       a fraction as a percentage            B   bytes, such as "1.50 GiB"
 *   c       a count, such as "12.3 M"             m   a measured value: four digits, such as "12.34" or "1234"
 *   !       nothing: the cell is only a condition
 *   s       "s", but nothing for the number 1
 *   ?A|B    the text A if the value is not empty, else B
 *   A|B     the text A if the value is the number 1, else B
 *   w       words, wrapped at the form's last column; the width is the indent of further lines
 *
 * A value is empty if it is absent, null, false, 0, "" or a list without items. A text in [brackets] is left out if the
 * value of its first cell is empty. In [A|B], the text B replaces a text A that is left out. Brackets nest. {[} and {]}
 * are brackets that print.
 *
 * {*KEY}TEXT{/} repeats a text for each item of a list, and {*KEY:, } puts ", " between items. {*KEY:9, } shortens a
 * list of more than 9 items to the first 8 and the last one, with "..." between them. Loops nest.
 *
 * Lines with "\t" or "\v" between their cells get columns that are as wide as their widest cell, up to an empty line.
 * Text stands at the left of its column after "\t" and at the right after "\v", which may also begin a line. A table
 * whose rows print as they come has cells with widths instead: one form for its head, and one for each row. */
#ifndef TESS_BASE_REPORT_FORM_H
#define TESS_BASE_REPORT_FORM_H

#include <jansson.h>

#include "base/text/text.h"

enum { TESS_FORM_WIDTH = 120 };

typedef enum tess_form_style { TESS_FORM_TEXT, TESS_FORM_JSON, TESS_FORM_HTML, TESS_FORM_METRICS } tess_form_style;

/* A part without a text ends the form. */
typedef struct tess_form_part {
    const char *list; /* name of an array in the report: the text is repeated for each item. NULL: it comes once */
    const char *text;
} tess_form_part;

/* Appends a report as its form says. Words are wrapped at column `n_columns`. */
tess_status tess_form_print(tess_buffer *out, const tess_form_part *form, int n_columns, const json_t *report);
/* Appends a text with cells, such as a sentence. A member that is absent or null prints nothing. */
tess_status tess_form_fill(tess_buffer *out, const char *text, const json_t *members);
/* Returns a number of a report. Infinities and NaN, which JSON lacks, are null as JSON and texts for people. */
json_t *tess_form_number(double value, bool as_json);
/* Appends a report in a style. Takes over the report. TESS_E_NOMEM: also if it is NULL.
 *   text     as its form says, wrapped at TESS_FORM_WIDTH
 *   JSON     with jansson's `flags`
 *   HTML     one page: objects and lists are tables
 *   metrics  Prometheus' text format: a number a.b is the gauge tessera_a_b; a short text is a label of a gauge of 1;
 *            objects in a list have their name, rank or pid as a label, or else their first member, and also their
 *            index if two of them have the same; other lists are left out, and so is a key whose name is taken */
tess_status tess_form_put(json_t *report, const tess_form_part *form, tess_form_style style, size_t flags,
                          tess_buffer *out);

#endif
