/* The canonical batch: micro-batches as a function of the data and the config alone.
 *
 * Files are cut into blocks of about 256 KiB at document ends (jsonl) or line ends (plain text); an epoch visits the
 * blocks in a permuted order, 64 at a time (a window); a window's documents are tokenized, packed into rows of seq_len
 * tokens, and its rows visited in a permuted order. All orders come from tess_rng_permute(seed, epoch): no index array.
 * A thread reads and tokenizes one window ahead. Rank and world arrive as integers: rank r of W takes micro-batches g
 * with g % W == r. */
#ifndef TESS_DATA_LOADER_H
#define TESS_DATA_LOADER_H

#include "data/tokenizer/tokenizer.h"

typedef struct tess_loader_options {
    const char *const *files; /* plain text, or *.jsonl with a "text" member per line */
    int n_files;
    const char *text_key; /* NULL: "text" */
    int64_t seq_len;      /* tokens a row */
    int64_t micro_batch;  /* rows a micro-batch */
    uint64_t seed;
    bool shuffle;      /* false: file order */
    bool repeat;       /* start over after the last row (training); false: *end is set (validation) */
    double begin, end; /* part of each file to use, by bytes, cut at line ends: training 0..0.95, validation 0.95..1 */
    int32_t eos_id, bos_id; /* appended / prepended to each jsonl document; -1: none */
} tess_loader_options;

/* Where the loader stands: everything that a resume needs. */
typedef struct tess_data_cursor {
    uint64_t epoch, window, row; /* next row: row-th of the permuted rows of window-th window */
} tess_data_cursor;

typedef struct tess_micro_batch {
    int64_t
        n_tokens; /* micro_batch * seq_len, always: short rows are padded with sequences of their own without targets */
    int64_t n_seqs;
    int64_t n_targets;                               /* tokens with a target */
    const int32_t *ids, *pos, *targets, *cu_seqlens; /* owned by the loader until the next call */
    uint64_t n_bytes; /* of text that the targets stand for (validation: bits per byte) */
    uint64_t epoch;
} tess_micro_batch;

typedef struct tess_loader tess_loader;

/* TESS_E_INVALID: no files, an empty file, a file too short for one row of two tokens. Tokenizer borrowed. */
tess_status tess_loader_create(tess_mem *mem, const tess_tokenizer *tokenizer, const tess_loader_options *options,
                               tess_loader **loader);
void tess_loader_destroy(tess_loader **loader);

/* Skips `skip` micro-batches (those of other ranks), then returns the next one. Without shuffle: *end is set after the
 * last. The batch's text is the same whatever was skipped. */
tess_status tess_loader_next(tess_loader *loader, int64_t skip, tess_micro_batch *batch, bool *end);
void tess_loader_cursor(const tess_loader *loader, tess_data_cursor *cursor);
tess_status tess_loader_seek(tess_loader *loader, const tess_data_cursor *cursor);

#endif
