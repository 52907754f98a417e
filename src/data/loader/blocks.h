/* Cuts files into blocks. A block of text has about 256 KiB. It ends at a line end, or where an element of a JSON array
 * ends. The ends are not stored: they are found by looking at the file around their nominal places, or in the array's
 * index. A shard has blocks of its own. Private to src/data. */
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
    tess_array_index array; /* the cuts of a TESS_TEXT_ARRAY */
    uint64_t size;          /* the size at the first opening: a file that changes later is an error */
    uint64_t begin, end;    /* the part in use, at line ends */
    uint64_t n_blocks;
    char mask[64];  /* the first member found with the name of a mask; "": none. Written by who reads the blocks */
    bool mask_told; /* options.warn was called */
} tess_block_file;

typedef struct tess_blocks {
    tess_mem *mem;
    tess_block_file *files;
    int n_files;
    uint64_t n_blocks;
} tess_blocks;

/* TESS_E_NOT_FOUND, TESS_E_INVALID (empty, one byte, no whole line in the part of any file), TESS_E_IO, and the errors
 * of tess_token_shard_open and tess_text_kind_at. */
tess_status tess_blocks_open(tess_blocks *blocks, const tess_tokenizer *tokenizer, const tess_loader_options *options);
void tess_blocks_close(tess_blocks *blocks);

/* The file of block `index`, which becomes the number of the block in it. */
tess_block_file *tess_blocks_find(const tess_blocks *blocks, uint64_t *index);
/* Reads a block of a text file (empty when one line spans several blocks) and replaces `text` with it; *offset: where
 * it begins. */
tess_status tess_blocks_read(const tess_block_file *file, uint64_t index, tess_buffer *text, uint64_t *offset);

/* Number (from 1) of the line that holds byte `offset`; 0 when the file cannot be read. For messages. */
uint64_t tess_blocks_line(const tess_block_file *file, uint64_t offset);

#endif
