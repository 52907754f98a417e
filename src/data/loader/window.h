/* A window: the tokens of up to 64 blocks, packed into rows. A pure function of the data, the options, the epoch and
 * the window's number. Private to this folder. */
#ifndef TESS_DATA_LOADER_WINDOW_H
#define TESS_DATA_LOADER_WINDOW_H

#include "data/loader/blocks.h"
#include "data/packing/packing.h"

enum { TESS_WINDOW_BLOCKS = 64 };

typedef struct tess_window {
    tess_mem *mem;
    bool filled;
    uint64_t epoch, index;
    tess_ids tokens;
    tess_buffer loss;         /* one byte per token, as in tess_documents; empty: all may be targets */
    tess_buffer whole;        /* one byte per document; 1: it must not be split */
    int64_t *starts, *places; /* one value per document, as in tess_documents */
    size_t n_documents, starts_capacity, places_capacity;
    int64_t n_read; /* number of documents, including omitted ones */
    /* Number of documents longer than a row: those that were cut, and those omitted because no target was left */
    int64_t n_cut, n_omitted;
    bool conversations;         /* whether a document is a conversation */
    bool by_turns, without_end; /* a conversation became one text per turn; a text has no token that ends it */
    int64_t n_rows;
    uint64_t order;         /* the stream that permutes its rows */
    tess_token_block block; /* the newest block */
} tess_window;

tess_window tess_rows_window_of(tess_mem *mem);

/* Reads the blocks of a window and tokenizes those that are text. `text` is scratch memory. */
tess_status tess_rows_window_fill(tess_window *window, const tess_blocks *blocks, const tess_loader_options *options,
                                  tess_encoder *encoder, tess_buffer *text, uint64_t epoch, uint64_t index);
tess_documents tess_rows_window_documents(const tess_window *window);
void tess_rows_window_free(tess_window *window);

#endif
