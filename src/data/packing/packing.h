/* Packs documents into rows of equal length, without padding between them: pure functions.
 *
 * A document of n tokens has n - 1 pairs (token, next token). The pairs of all documents, one after another, are cut
 * into rows of seq_len. A document cut by a row's end continues in the next row, whose first input is the last row's
 * last target. So every token is a target exactly once, except the first of each document. Each stretch of one document
 * in a row is a sequence of its own: attention never crosses it. The last row is filled up with one sequence without
 * targets. */
#ifndef TESS_DATA_PACKING_PACKING_H
#define TESS_DATA_PACKING_PACKING_H

#include "tessera/types.h"

typedef struct tess_documents {
    const int32_t *tokens;
    const uint8_t *loss;   /* per token: 0 means that it is not a target; NULL: all may be */
    const int64_t *starts; /* (n + 1) first token of each document; the last is the number of tokens */
    const int64_t *pairs;  /* (n + 1) pairs before each document, by tess_pack_count */
    int64_t n;
} tess_documents;

/* Destination of a row: row j of a micro-batch gets ids + j * seq_len and so on. */
typedef struct tess_row {
    int32_t *ids, *pos, *targets; /* (seq_len); target -1: no loss here */
    int32_t *ends;                /* gets base + the end of each sequence: room for seq_len */
    int32_t base;
} tess_row;

/* Fills pairs (n + 1) from starts; returns how many there are. */
int64_t tess_pack_count(const int64_t *starts, int64_t n, int64_t *pairs);

/* Number of rows that the documents fill; the last one may be part padding. */
int64_t tess_pack_rows(const tess_documents *documents, int64_t seq_len);

/* Writes row `index`; a row behind the last is all padding. Returns its number of sequences. */
int64_t tess_pack_row(const tess_documents *documents, int64_t index, int64_t seq_len, int32_t pad_id,
                      const tess_row *row);

#endif
