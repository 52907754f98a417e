/* A text file, plain or compressed (.gz, .zst, by content), in the blocks that the loader makes of it
 * (loader/blocks.h), from its beginning to its end: memory holds a block, whatever the file's size. */
#ifndef TESS_DATA_CORPUS_TEXT_STREAM_H
#define TESS_DATA_CORPUS_TEXT_STREAM_H

#include "base/text/text.h"
#include "data/files/records.h"

typedef struct tess_text_stream tess_text_stream;

/* TESS_E_NOT_FOUND, TESS_E_IO; TESS_E_INVALID: the file is empty; and the errors of tess_text_kind_of. */
tess_status tess_text_stream_open(tess_mem *mem, const char *path, tess_text_stream **stream);
void tess_text_stream_close(tess_text_stream **stream);
tess_text_kind tess_text_stream_kind(const tess_text_stream *stream);

/* Resumes after block n_blocks - 1, which ends at byte `at` of the text: at the beginning of a stream. */
tess_status tess_text_stream_skip(tess_text_stream *stream, uint64_t n_blocks, uint64_t at);

/* Replaces `text` with the next block; *end: there is none. TESS_E_FORMAT: damaged or cut-off compression; a line of
 * JSON that is too long; a JSON array that is cut off, or holds something other than objects. */
tess_status tess_text_stream_next(tess_text_stream *stream, tess_buffer *text, bool *end);
/* The end of the newest block's text, and the number of its first line, from 1; 0: not
 * known, after a skip. */
uint64_t tess_text_stream_at(const tess_text_stream *stream);
uint64_t tess_text_stream_line(const tess_text_stream *stream);
/* Bytes of the file, as it lies on disk, that are read. */
uint64_t tess_text_stream_read_bytes(const tess_text_stream *stream);

#endif
