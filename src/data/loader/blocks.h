/* Cuts files into blocks. A block of text has about 256 KiB, and ends at a line end or where an element of a JSON array
 * ends. The ends are not stored: they are found by reading the file around their nominal positions, or in the array's
 * index. A shard has its own blocks. Private to src/data. */
#ifndef TESS_DATA_LOADER_BLOCKS_H
#define TESS_DATA_LOADER_BLOCKS_H

#include "data/loader/array_index.h"
#include "data/loader/document.h"
#include "data/loader/loader.h"
#include "data/shards/token_shard.h"

typedef struct tess_block_file {
    char *path;
    tess_token_shard *shard; /* NULL: text */
    tess_text_kind kind;
    tess_array_index array; /* index of the cuts, for TESS_TEXT_ARRAY */
    uint64_t size;          /* size when the file was first opened; a later change of it is an error */
    uint64_t begin, end;    /* the part of the file that is used, at line ends */
    uint64_t n_blocks;
    /* The first member found whose name suggests a mask; "": none. Written by the thread that reads blocks */
    char mask[64];
    bool mask_told; /* whether options.warn was called for this file */
} tess_block_file;

typedef struct tess_blocks {
    tess_mem *mem;
    tess_block_file *files;
    int n_files;
    uint64_t n_blocks;
} tess_blocks;

/* Opens the files. TESS_E_NOT_FOUND, TESS_E_IO. TESS_E_INVALID: a file is empty or has one byte, or no file has a whole
 * line in its part. Also the errors of tess_token_shard_open and tess_text_kind_at. */
tess_status tess_blocks_open(tess_blocks *blocks, const tess_tokenizer *tokenizer, const tess_loader_options *options);
void tess_blocks_close(tess_blocks *blocks);

/* Returns the file of block `index`, and sets *index to the number of the block within the file. */
tess_block_file *tess_blocks_find(const tess_blocks *blocks, uint64_t *index);
/* Replaces `text` with a block of a text file; the block is empty if one line spans several blocks. *offset: where the
 * block begins. */
tess_status tess_blocks_read(const tess_block_file *file, uint64_t index, tess_buffer *text, uint64_t *offset);

/* Returns the number (from 1) of the line that contains byte `offset`, for messages; 0: the file cannot be read. */
uint64_t tess_blocks_line(const tess_block_file *file, uint64_t offset);

#endif
