/* The canonical batch: micro-batches as a function of the data and the config alone.
 *
 * Files are cut into blocks of about 256 KiB at document ends (jsonl) or line ends (plain text; without a line end for
 * 256 KiB, at a character). An epoch visits the blocks in a permuted order, 64 at a time: a window. A window's
 * documents (a line of jsonl; a block of plain text) are tokenized and packed (packing/packing.h) into rows of seq_len
 * tokens, what they leave of a row padded with eos (or 0) without targets, and its rows are visited in a permuted
 * order. Micro-batch g takes rows g * micro_batch and on, across windows and epochs. So every token of an epoch's texts
 * is a target once, except the first of each document (its bos, where documents begin with one), and no sequence
 * crosses documents.
 *
 * A line of jsonl may hold a prompt and a completion instead of a text: the tokens of the prompt, then those of the
 * completion and the eos, each tokenized by itself. Only those after the prompt are targets. Such a document is not
 * split over rows, unless `split` says so: it would go on without its prompt. One that is longer than a row is cut at
 * the end; where no target is left it is omitted; both are counted and reported. A line with messages is a conversation
 * (conversation/conversation.h): `chat` writes it, with bos and eos as the template has them, and the tokens of the
 * assistant alone are targets; it is not split either.
 *
 * All orders come from tess_rng_permute(seed, epoch): there is no index array. A window is a pure function of (data,
 * options, epoch, number), so a cursor is enough to find any row again. Memory holds one window and the next (tokens of
 * 16 MiB of text each); a thread reads and tokenizes the next one. Rank and world arrive as integers: rank r of W takes
 * micro-batches g with g % W == r.
 *
 * Files of one source are one text. In a mixture each source has its own windows, epochs and position, and rows are
 * taken from them in the order of mixture.h: after any number of rows each has given its exact share, rounded to a row,
 * and every token of a source once an epoch of that source.
 *
 * Without shuffle the blocks and rows come in file order. Without repeat there is one epoch, whose last micro-batch is
 * filled up with rows without targets. Text must be UTF-8; specials such as "<|endoftext|>" in it
 * are recognized. Lines of jsonl may be blank; every other line must be an object with a string text_key, or with a
 * pair, of at most 64 MiB (document.h). The elements of a JSON array are read like lines. */
#ifndef TESS_DATA_LOADER_LOADER_H
#define TESS_DATA_LOADER_LOADER_H

#include "data/conversation/conversation.h"
#include "data/shards/token_shard.h"

/* Whether a document may be split over rows. AUTO: a text may, a completion may not. */
typedef enum tess_split { TESS_SPLIT_AUTO, TESS_SPLIT_TRUE, TESS_SPLIT_FALSE } tess_split;

typedef struct tess_loader_options {
    const char *const *files; /* plain text, JSON records (files/text_kind.h), or shards (shards/token_shard.h) */
    int n_files;
    tess_data_format format; /* format of .bin files that do not say what they hold */
    int32_t end_id;          /* ends each document in shards that do not say where one ends; -1: none */
    /* A mixture: n_weights sources, of which the first has counts[0] files, and so on. NULL: all files are one. */
    const int64_t *weights; /* >= 1 */
    const int *counts;
    int n_weights;
    const char *text_key, *prompt_key, *completion_key; /* NULL: "text", "prompt", "completion" */
    tess_split split;
    const tess_chat *chat; /* writes conversations; NULL: they are refused. Borrowed */
    int64_t seq_len;       /* tokens per row */
    int64_t micro_batch;   /* rows per micro-batch */
    uint64_t seed;
    bool shuffle;      /* false: file order */
    bool repeat;       /* start over after the last row (training); false: *end is set (validation) */
    double begin, end; /* part of each file in use, by bytes, cut at line ends: training 0..0.95, validation 0.95..1 */
    tess_prefix bos;   /* begins each document */
    int32_t eos_id;    /* ends each document of jsonl; -1: none */
    /* Gets a line for people: once for each file with members like masks, which are not obeyed, and once if documents
     * are cut, if conversations become a document for each turn, and if no token ends documents. May be NULL. */
    void (*warn)(void *self, const char *text);
    void *warn_self;
} tess_loader_options;

enum { TESS_DATA_SOURCES = 32 }; /* most sources of a mixture */

/* The loader's position: all that a resume needs. */
typedef struct tess_source_cursor {
    uint64_t epoch, window, row; /* next row: number `row` of the permuted rows of window `window` */
    uint64_t taken;              /* rows that came from it since the mixture began */
} tess_source_cursor;

typedef struct tess_data_cursor {
    int n; /* 0: the beginning of all */
    tess_source_cursor source[TESS_DATA_SOURCES];
} tess_data_cursor;

typedef struct tess_micro_batch {
    int64_t
        n_tokens; /* always micro_batch * seq_len: short rows are padded with sequences of their own without targets */
    int64_t n_seqs;
    int64_t n_targets;                               /* tokens with a target */
    const int32_t *ids, *pos, *targets, *cu_seqlens; /* owned by the loader until the next call */
    uint64_t n_bytes; /* bytes of text that the targets stand for (validation: bits per byte) */
    uint64_t epoch;   /* epoch of the source of its first row */
} tess_micro_batch;

typedef struct tess_loader tess_loader;

/* Reads the first window. TESS_E_INVALID: no files, an empty file, a file of one byte, a part begin..end without a
 * whole line in any file, nothing to predict in them. TESS_E_NOT_FOUND, TESS_E_IO: the message names the file.
 * TESS_E_FORMAT, TESS_E_UNSUPPORTED: a bad line of jsonl, by file and line. The tokenizer is borrowed, the rest is
 * copied. */
tess_status tess_loader_create(tess_mem *mem, const tess_tokenizer *tokenizer, const tess_loader_options *options,
                               tess_loader **loader);
void tess_loader_destroy(tess_loader **loader);

/* Skips `skip` micro-batches (those of other ranks), then returns the next one. Without repeat: *end is set after the
 * last. A batch's text does not depend on what was skipped. Reading a later window has the errors of create; a file
 * whose size has changed since is TESS_E_IO. */
tess_status tess_loader_next(tess_loader *loader, int64_t skip, tess_micro_batch *batch, bool *end);
/* The position of the next call. A seek to it, in this or another process with the same data and options, gives the
 * same micro-batches. TESS_E_INVALID (seek): a window that the data do not have. */
void tess_loader_cursor(const tess_loader *loader, tess_data_cursor *cursor);
tess_status tess_loader_seek(tess_loader *loader, const tess_data_cursor *cursor);
/* Makes documents begin with `bos`, ids of the vocabulary, from now on. The position is the beginning of the data. */
tess_status tess_loader_set_bos(tess_loader *loader, const tess_prefix *bos);
/* Sets the rows of the micro-batches that follow: 1 up to the number at create, which is not checked. */
void tess_loader_set_rows(tess_loader *loader, int64_t micro_batch);
/* Estimates the rows of an epoch without reading it: exact for a text of one window, else as if every window had as
 * many rows as the current one. */
int64_t tess_loader_estimate_rows(const tess_loader *loader);
/* True if a conversation was among all documents read so far. */
bool tess_loader_has_conversations(const tess_loader *loader);

#endif
