/* Tables that come as data files: what the doctor knows of error texts and of variables. A file has one section a row,
 * named by the row's id, and in it plain texts:
 *
 *     nccl-remote-error:
 *       cause: the peer's process ended
 *
 * The files of the project are part of the binary (tools/embed.cmake); users add files, whose rows replace those of the
 * same id. What no table has (an unknown field, a row without a field that it needs) is an error that names file and
 * line. */
#ifndef TESS_DOCTOR_TABLE_TABLE_H
#define TESS_DOCTOR_TABLE_TABLE_H

#include "tessera/memory.h"

/* Where a field's text goes: a `const char *` of the row. */
typedef struct tess_table_field {
    const char *name;
    size_t offset;
    bool required;
} tess_table_field;

/* What every row begins with. Texts are owned by the table; a field that the file does not give is NULL. */
typedef struct tess_table_row {
    const char *id;
    const char *file; /* where it was read, and on which line it begins */
    int line;
} tess_table_row;

typedef struct tess_table {
    tess_mem *mem;
    const tess_table_field *fields;
    int n_fields;
    size_t row_size;
    char *rows;
    int n, capacity;
} tess_table;

enum { TESS_TABLE_MOST_ROWS = 4096, TESS_TABLE_MOST_TEXT = 8192, TESS_TABLE_MOST_FILE = 4 << 20 };

/* Adds the rows of a file's text. `what` names it in messages (copied). TESS_E_FORMAT names file and line; the table
 * then holds what came before. */
tess_status tess_table_parse(tess_table *table, const char *text, size_t size, const char *what);
/* Same, from a file of at most TESS_TABLE_MOST_FILE bytes. */
tess_status tess_table_load(tess_table *table, const char *path);
/* ~/.config/tessera/NAME (or below $XDG_CONFIG_HOME), where there is one. */
tess_status tess_table_load_own(tess_table *table, const char *name);
void tess_table_free(tess_table *table);

/* Row `i` of the table, in the order of the files. */
void *tess_table_at(const tess_table *table, int i);
/* NULL: there is none. */
void *tess_table_find(const tess_table *table, const char *id);

#endif
