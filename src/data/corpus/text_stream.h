/* Reads a text file, plain or compressed (.gz, .zst, recognised by content), in the blocks that the loader would make
 * of it (loader/blocks.h), from beginning to end. Memory holds one block, whatever the file's size. */
#ifndef TESS_DATA_CORPUS_TEXT_STREAM_H
#define TESS_DATA_CORPUS_TEXT_STREAM_H

#include "base/text/text.h"
#include "data/files/records.h"

typedef struct tess_text_stream tess_text_stream;

/* Opens a file. TESS_E_NOT_FOUND, TESS_E_IO. TESS_E_INVALID: the file is empty. Also the errors of
 * tess_text_kind_of. */
tess_status tess_text_stream_open(tess_mem *mem, const char *path, tess_text_stream **stream);
void tess_text_stream_close(tess_text_stream **stream);
tess_text_kind tess_text_stream_kind(const tess_text_stream *stream);

/* Resumes after block n_blocks - 1, which ends at byte `at` of the text. Call it at the beginning of a stream. */
tess_status tess_text_stream_skip(tess_text_stream *stream, uint64_t n_blocks, uint64_t at);

/* Replaces `text` with the next block; *end: there is none. TESS_E_FORMAT: compressed data is damaged or cut off, a
 * line of JSON is too long, or a JSON array is cut off or contains something other than objects. */
tess_status tess_text_stream_next(tess_text_stream *stream, tess_buffer *text, bool *end);
/* tess_text_stream_at: where the text of the newest block ends
 * tess_text_stream_line: number (from 1) of its first line; 0: not known after a skip */
uint64_t tess_text_stream_at(const tess_text_stream *stream);
uint64_t tess_text_stream_line(const tess_text_stream *stream);
/* Returns the number of bytes of the file on disk that have been read. */
uint64_t tess_text_stream_read_bytes(const tess_text_stream *stream);

#endif
