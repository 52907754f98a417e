/* Extracts the text of a file on which a tokenizer is trained: all of it, or the texts of its records. */
#ifndef TESS_DATA_CORPUS_TRAINING_TEXT_H
#define TESS_DATA_CORPUS_TRAINING_TEXT_H

#include "base/os/os.h"
#include "base/text/text.h"
#include "data/files/records.h"
#include "data/loader/document.h"

/* The first record that is not used, because it does not end within the first `limit` bytes. */
typedef struct tess_cut_record {
    size_t line, size; /* 0: there is none */
} tess_cut_record;

/* Appends the text in the first `limit` bytes of a mapped file of this kind. `cut` may be NULL. Errors: a bad record,
 * with file and line; TESS_E_INVALID: a conversation, which cannot be written before there is a tokenizer. */
tess_status tess_training_text_add(const char *path, const tess_mapping *file, tess_text_kind kind, size_t limit,
                                   const tess_document_keys *keys, tess_buffer *text, tess_cut_record *cut);

#endif
