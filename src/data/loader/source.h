/* A stream of rows from some files, one epoch after another (loader.h). Private to this folder. */
#ifndef TESS_DATA_LOADER_SOURCE_H
#define TESS_DATA_LOADER_SOURCE_H

#include "data/loader/loader.h"
#include "data/packing/packing.h"

typedef struct tess_source tess_source;

/* Creates a source and reads its first window; fails as tess_loader_create does. The tokenizer and the options, except
 * their files, are borrowed. After a change of options->bos call tess_source_forget. */
tess_status tess_source_create(tess_mem *mem, const tess_tokenizer *tokenizer, const tess_loader_options *options,
                               const char *const *files, int n_files, tess_source **source);
void tess_source_destroy(tess_source **source);

/* tess_source_row: writes the next row (padding after the last one) and moves past it
 * tess_source_skip: moves past `rows` rows */
tess_status tess_source_row(tess_source *source, const tess_row *row, int64_t *n_seqs);
tess_status tess_source_skip(tess_source *source, uint64_t rows);
/* Moves to the next row that exists; *end: there is none. */
tess_status tess_source_settle(tess_source *source, bool *end);

const tess_source_cursor *tess_source_cursor_of(const tess_source *source);
tess_status tess_source_seek(tess_source *source, const tess_source_cursor *cursor);
/* Moves back to the beginning; windows are read again. */
void tess_source_forget(tess_source *source);
/* Whether any window so far had a conversation. */
bool tess_source_has_conversations(const tess_source *source);
int64_t tess_source_estimate_rows(const tess_source *source);

#endif
