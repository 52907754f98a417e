/* Shows a report to people. A report is a JSON document, which programs get as it is. A form describes the text for
 * people.
 *
 * A form is a list of parts: texts with cells, and tables. A cell in a text is {KEY} or {KEY:FORMAT}. KEY names a
 * member of the report, or of the item that the part is repeated for; "a.b" is a member of a member, and "" the item
 * itself. A member that is absent or null prints as "-", a null with a format of
 * numbers as "nan". FORMAT is a width (negative: the value stands at the left), a
 * dot and digits, and one of these:
 *
 *   g f e   a number as printf prints it          %    a fraction as a percentage
 *   +       as f, always with a sign
 *   B       bytes, such as "1.5 GiB"
 *   s       "s", but nothing for the number 1     !    nothing: the cell is only a condition
 *   ?A|B    the text A if the value is not empty, else B
 *   w       words, wrapped at column 120 or the given one; the width is the indent of further lines
 *
 * A text in [brackets] is left out if the value of its first cell is empty: absent, null, false, 0, "", [] or {}. In
 * [A|B], the text B replaces a text A that is left out. Brackets nest. */
#ifndef TESS_BASE_REPORT_FORM_H
#define TESS_BASE_REPORT_FORM_H

#include <jansson.h>

#include "base/text/text.h"

enum { TESS_FORM_COLUMNS = 12, TESS_FORM_WIDTH = 120 };

typedef struct tess_form_column {
    const char *title;
    const char *cell; /* text with cells, filled from the row */
    int width;        /* least width; negative: the column stands at the left. A longer cell widens its column. */
} tess_form_column;

/* A text, or a table if it has columns. A part with neither a text nor a list ends the form. */
typedef struct tess_form_part {
    const char *list; /* array in the report: the part has a text or a row for each item. NULL: one text */
    const char *text; /* the text with its cells. A table has it after each row, if not NULL. */
    int indent, gap;  /* columns before a row and between its cells */
    tess_form_column columns[TESS_FORM_COLUMNS + 1]; /* a column without a cell ends the list */
} tess_form_part;

/* Appends a text, with its cells filled from the members of `object`. */
tess_status tess_form_fill(tess_buffer *out, const char *text, const json_t *object);
/* Appends a report as its form says. Texts are wrapped at `columns`. */
tess_status tess_form_print(tess_buffer *out, const tess_form_part *form, int columns, const json_t *report);
/* Appends a report, which it takes over, as its form says, or as JSON with jansson's `flags`. TESS_E_NOMEM: also if
 * `report` is NULL. */
tess_status tess_form_put(json_t *report, const tess_form_part *form, bool as_json, size_t flags, tess_buffer *out);

#endif
