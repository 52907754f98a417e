/* Packs documents into rows of equal length. All functions are pure.
 *
 * A document of n tokens has n - 1 pairs (token, next token). Documents are placed one after another on a line that is
 * cut into rows of seq_len pairs; tess_pack_place computes where.
 *
 * A document that may be split begins where the previous one ended. If a row's end cuts it, it continues in the next
 * row, whose first input is the previous row's last target. So every token is a target exactly once, except the first
 * of each document. A document that may not be split begins a new row if the rest of the current one is too short for
 * it; if it is longer than a row, it is cut at the end of the row.
 *
 * Each stretch of one document in a row is a separate sequence, which attention never crosses. The part of a row that
 * no document fills is always at its end, and is one sequence without targets. */
#ifndef TESS_DATA_PACKING_PACKING_H
#define TESS_DATA_PACKING_PACKING_H

#include "tessera/types.h"

typedef struct tess_documents {
    const int32_t *tokens;
    const uint8_t *loss;   /* one byte per token, 0: it is not a target; NULL: all may be targets */
    const int64_t *starts; /* (n + 1) index of each document's first token; the last entry is the number of tokens */
    /* (n + 1) position of each document's first pair on the line; the last entry is the end of all (tess_pack_place) */
    const int64_t *places;
    int64_t n;
} tess_documents;

/* The destination of a row. Row j of a micro-batch is written to ids + j * seq_len, and so on. */
typedef struct tess_row {
    int32_t *ids, *pos, *targets; /* (seq_len) each; target -1: no loss at this token */
    int32_t *ends;                /* receives base + the end of each sequence; room for seq_len entries */
    int32_t base;
} tess_row;

/* Computes places (n + 1) from starts, and returns the end of all documents. whole (n): 1 for a document that must not
 * be split; NULL: all may be split. */
int64_t tess_pack_place(const int64_t *starts, const uint8_t *whole, int64_t n, int64_t seq_len, int64_t *places);

/* Returns the number of rows that all documents fill. The last row may be partly padding. */
int64_t tess_pack_rows(const tess_documents *documents, int64_t seq_len);

/* Writes row `index`. A row after the last one is all padding. Returns its number of sequences. */
int64_t tess_pack_row(const tess_documents *documents, int64_t index, int64_t seq_len, int32_t pad_id,
                      const tess_row *row);

#endif
