/* The canonical batch: micro-batches that depend only on the data and the configuration.
 *
 * Files are cut into blocks of about 256 KiB. A block ends at a document end (jsonl) or line end (plain text; if there
 * is none for 256 KiB, at a character). An epoch visits the blocks in a permuted order, 64 at a time: a window. A
 * window's documents (a line of jsonl; a block of plain text) are tokenized and packed (packing/packing.h) into rows of
 * seq_len tokens. What they leave of a row is padded with eos (or 0) without targets. The rows of a window are visited
 * in a permuted order. Micro-batch g has the micro_batch rows from number g * micro_batch on, across windows and
 * epochs. So every token of an epoch's texts is a target once, except the first of each document (its bos, if documents
 * begin with one), and no sequence crosses documents.
 *
 * A line of jsonl may contain a prompt and a completion instead of a text. Its document is the tokens of the prompt,
 * those of the completion, and the eos; prompt and completion are tokenized separately. Only tokens after the prompt
 * are targets. Such a document is not split over rows unless `split` says so, because its second part would lack the
 * prompt. If it is longer than a row, it is cut at the end; if no target remains, it is omitted. Both are counted and
 * reported. A line with messages is a conversation (conversation/conversation.h). `chat` writes it, with bos and eos
 * only where the template has them. Only the tokens of the assistant are targets. It is not split either.
 *
 * All orders come from tess_rng_permute(seed, epoch), so there is no index array. A window is a pure function of (data,
 * options, epoch, number), so a cursor is enough to find any row again. Memory holds the current window and the next
 * one (tokens of 16 MiB of text each); a thread reads and tokenizes the next one. Rank and world are passed as
 * integers: rank r of W takes the micro-batches g with g % W == r.
 *
 * The files of one source are one text. In a mixture each source has its own windows, epochs and position. Rows are
 * taken from the sources in the order of mixture.h: after any number of rows each source has given its exact share,
 * rounded to a row. Every token of a source appears once per epoch of that source.
 *
 * Without shuffle, blocks and rows come in file order. Without repeat there is only one epoch, and its last micro-batch
 * is filled with rows without targets. Text must be UTF-8; special tokens such as "<|endoftext|>" in it are recognized.
 * Lines of jsonl may be blank. Every other line must be an object with a string text_key, or with a pair, of at most 64
 * MiB (document.h). The elements of a JSON array are read like lines. */
#ifndef TESS_DATA_LOADER_LOADER_H
#define TESS_DATA_LOADER_LOADER_H

#include "data/conversation/conversation.h"
#include "data/shards/token_shard.h"

/* Whether a document may be split over rows. AUTO: texts may be split, completions and conversations may not. */
typedef enum tess_split { TESS_SPLIT_AUTO, TESS_SPLIT_TRUE, TESS_SPLIT_FALSE } tess_split;

typedef struct tess_loader_options {
    const char *const *files; /* plain text, JSON records (files/text_kind.h), or shards (shards/token_shard.h) */
    int n_files;
    tess_data_format format; /* content of .bin files that do not state it */
    /* Token that ends each document in shards that do not state where documents end; -1: none */
    int32_t end_id;
    /* A mixture has n_weights sources; the first one has the first counts[0] files, and so on. NULL: all files are one
     * source. */
    const int64_t *weights; /* >= 1 */
    const int *counts;
    int n_weights;
    const char *text_key, *prompt_key, *completion_key; /* NULL: "text", "prompt", "completion" */
    tess_split split;
    const tess_chat *chat; /* writes conversations; NULL: conversations are refused. Borrowed */
    int64_t seq_len;       /* tokens per row */
    int64_t micro_batch;   /* rows per micro-batch */
    uint64_t seed;
    bool shuffle; /* false: file order */
    bool repeat;  /* start over after the last row (training); false: *end is set (validation) */
    /* Part of each file that is used, by bytes, cut at line ends: training 0..0.95, validation 0.95..1 */
    double begin, end;
    tess_prefix bos; /* tokens that begin each document */
    int32_t eos_id;  /* token that ends each document of jsonl; -1: none */
    /* Receives a line for people: once for each file whose members look like masks, which are ignored; once if
     * documents are cut; once if conversations become a document for each turn; once if no token ends documents. May be
     * NULL. */
    void (*warn)(void *self, const char *text);
    void *warn_self;
} tess_loader_options;

enum { TESS_DATA_SOURCES = 32 }; /* largest number of sources in a mixture */

/* The loader's position, which is all that a resume needs. */
typedef struct tess_source_cursor {
    uint64_t epoch, window, row; /* position of the next row: number `row` of the permuted rows of window `window` */
    uint64_t taken;              /* number of rows taken from the source since the mixture began */
} tess_source_cursor;

typedef struct tess_data_cursor {
    int n; /* number of sources; 0: the beginning of all data */
    tess_source_cursor source[TESS_DATA_SOURCES];
} tess_data_cursor;

typedef struct tess_micro_batch {
    int64_t n_tokens; /* always micro_batch * seq_len: short rows are padded with separate sequences without targets */
    int64_t n_seqs;
    int64_t n_targets;                               /* number of tokens with a target */
    const int32_t *ids, *pos, *targets, *cu_seqlens; /* owned by the loader; valid until the next call */
    uint64_t n_bytes; /* bytes of text that the targets stand for (validation uses them for bits per byte) */
    uint64_t epoch;   /* epoch of the source of the first row */
} tess_micro_batch;

typedef struct tess_loader tess_loader;

/* Creates a loader and reads the first window. The tokenizer is borrowed; everything else is copied.
 *   TESS_E_INVALID: no files, an empty file, a file of one byte, no whole line in the part begin..end of any file, or
 *     nothing to predict
 *   TESS_E_NOT_FOUND, TESS_E_IO: the message names the file
 *   TESS_E_FORMAT, TESS_E_UNSUPPORTED: a bad line of jsonl; the message names file and line */
tess_status tess_loader_create(tess_mem *mem, const tess_tokenizer *tokenizer, const tess_loader_options *options,
                               tess_loader **loader);
void tess_loader_destroy(tess_loader **loader);

/* Skips `skip` micro-batches (those of other ranks), then returns the next one. Without repeat, *end is set after the
 * last one. The content of a batch does not depend on what was skipped. Reading a later window can fail as create can;
 * TESS_E_IO if a file's size has changed since create. */
tess_status tess_loader_next(tess_loader *loader, int64_t skip, tess_micro_batch *batch, bool *end);
/* tess_loader_cursor: returns the position of the next call
 * tess_loader_seek: moves to a position. In this or another process with the same data and options, the same
 * micro-batches follow. TESS_E_INVALID: the data do not have such a window */
void tess_loader_cursor(const tess_loader *loader, tess_data_cursor *cursor);
tess_status tess_loader_seek(tess_loader *loader, const tess_data_cursor *cursor);
/* Makes all documents begin with `bos`, which are ids of the vocabulary, and moves to the beginning of the data. */
tess_status tess_loader_set_bos(tess_loader *loader, const tess_prefix *bos);
/* Sets the number of rows of the following micro-batches: from 1 to the number at create (not checked). */
void tess_loader_set_rows(tess_loader *loader, int64_t micro_batch);
/* Estimates the number of rows of an epoch without reading it. Exact if the text is one window; otherwise assumes that
 * every window has as many rows as the current one. */
int64_t tess_loader_estimate_rows(const tess_loader *loader);
/* Whether any document read so far was a conversation. */
bool tess_loader_has_conversations(const tess_loader *loader);

#endif
