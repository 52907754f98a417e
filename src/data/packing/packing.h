/* Packs documents into rows of equal length: pure functions.
 *
 * A document of n tokens has n - 1 pairs (token, next token). Documents lie one after another on a line that is cut
 * into rows of seq_len pairs; tess_pack_place says where. One that may be split lies wherever the last one ended: where
 * a row's end cuts it, it continues in the next row, whose first input is the last row's last target. So every token is
 * a target exactly once, except the first of each document. One that may not begins a row of its own where the rest of
 * the last one is too short for it; what is longer than a row is cut at its end. Each stretch of one document in a row
 * is a sequence of its own: attention never crosses it. What no document fills of a row, always at its end, is one
 * sequence without targets. */
#ifndef TESS_DATA_PACKING_PACKING_H
#define TESS_DATA_PACKING_PACKING_H

#include "tessera/types.h"

typedef struct tess_documents {
    const int32_t *tokens;
    const uint8_t *loss;   /* per token: 0 means that it is not a target; NULL: all may be */
    const int64_t *starts; /* (n + 1) first token of each document; the last is the number of tokens */
    const int64_t *places; /* (n + 1) of its first pair on the line; the last is the end of all: tess_pack_place */
    int64_t n;
} tess_documents;

/* Destination of a row: row j of a micro-batch gets ids + j * seq_len and so on. */
typedef struct tess_row {
    int32_t *ids, *pos, *targets; /* (seq_len); target -1: no loss here */
    int32_t *ends;                /* gets base + the end of each sequence: room for seq_len */
    int32_t base;
} tess_row;

/* Fills places (n + 1) from starts; returns the end of all. whole (n): 1 for documents that may not be split; NULL: all
 * may. */
int64_t tess_pack_place(const int64_t *starts, const uint8_t *whole, int64_t n, int64_t seq_len, int64_t *places);

/* Number of rows that all documents fill; the last one may be part padding. */
int64_t tess_pack_rows(const tess_documents *documents, int64_t seq_len);

/* Writes row `index`; a row after the last is all padding. Returns its number of sequences. */
int64_t tess_pack_row(const tess_documents *documents, int64_t index, int64_t seq_len, int32_t pad_id,
                      const tess_row *row);

#endif
