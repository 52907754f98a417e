/* The text of a file as a tokenizer is trained on it: all of it, or the texts of its records. */
#ifndef TESS_DATA_CORPUS_TRAINING_TEXT_H
#define TESS_DATA_CORPUS_TRAINING_TEXT_H

#include "base/os/os.h"
#include "base/text/text.h"
#include "data/files/records.h"
#include "data/loader/document.h"

/* The first record that is not used, because it goes beyond the part. */
typedef struct tess_cut_record {
    size_t line, size; /* 0: there is none */
} tess_cut_record;

/* Appends what is in the first `limit` bytes of a mapped file of this kind. Errors: of a record, by file and line, and
 * a conversation (TESS_E_INVALID), which no tokenizer can write yet. `cut` may be NULL. */
tess_status tess_training_text_add(const char *path, const tess_mapping *file, tess_text_kind kind, size_t limit,
                                   const tess_document_keys *keys, tess_buffer *text, tess_cut_record *cut);

#endif
