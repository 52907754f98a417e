/* Tables read from data files: what the doctor knows of error texts and of variables. A file has one section per
 * row, named by the row's id. A section holds texts:
 *
 *     nccl-remote-error:
 *       cause: the peer's process ended
 *
 * The project's files are part of the binary (tools/embed.cmake). Users can add files; their rows replace rows with
 * the same id. An unknown field, or a row without a required field, is an error that names file and line. */
#ifndef TESS_DOCTOR_TABLE_TABLE_H
#define TESS_DOCTOR_TABLE_TABLE_H

#include "tessera/memory.h"

/* A field of a row: its name in the file, and the offset of the `const char *` in the row that holds its text. */
typedef struct tess_table_field {
    const char *name;
    size_t offset;
    bool required;
} tess_table_field;

/* The first member of every row. The table owns the texts; a field that is missing in the file is NULL. */
typedef struct tess_table_row {
    const char *id;
    const char *file; /* the file, and the line where the row begins */
    int line;
} tess_table_row;

typedef struct tess_table {
    tess_mem *mem;
    const tess_table_field *fields;
    int n_fields;
    size_t row_size;
    char *rows;
    int n;
    size_t capacity;
} tess_table;

enum { TESS_TABLE_MOST_ROWS = 4096, TESS_TABLE_MOST_TEXT = 8192, TESS_TABLE_MOST_FILE = 4 << 20 };

/* Adds the rows in the text of a file. `what` names the file in messages (copied). TESS_E_FORMAT names file and
 * line; the table then holds the rows before the error. */
tess_status tess_table_parse(tess_table *table, const char *text, size_t size, const char *what);
/* Adds the rows of a file of at most TESS_TABLE_MOST_FILE bytes. */
tess_status tess_table_load(tess_table *table, const char *path);
/* Adds the rows of ~/.config/tessera/NAME (or of NAME below $XDG_CONFIG_HOME), if the file exists. */
tess_status tess_table_load_own(tess_table *table, const char *name);
void tess_table_free(tess_table *table);

/* Returns row `i` of the table, in file order. */
void *tess_table_at(const tess_table *table, int i);
/* Returns the row with that id, or NULL if there is none. */
void *tess_table_find(const tess_table *table, const char *id);

#endif
