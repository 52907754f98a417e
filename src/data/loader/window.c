#include "data/loader/window.h"

#include <string.h>

#include "base/core/rng.h"
#include "base/mem/make_room.h"
#include "data/loader/encode_block.h"

tess_window tess_rows_window_of(tess_mem *mem)
{
    return (tess_window){.mem = mem,
                         .tokens = {.mem = mem},
                         .loss = {.mem = mem},
                         .whole = {.mem = mem},
                         .block = tess_token_block_of(mem)};
}

static tess_status end_document(tess_window *window, bool whole)
{
    const char mark = (char)whole;
    TESS_TRY(tess_buffer_append(&window->whole, &mark, 1));
    TESS_TRY(tess_mem_reserve(window->mem, TESS_POOL_MISC, window->n_documents + 2, sizeof(int64_t), "documents",
                              &window->starts_capacity, &window->starts));
    window->starts[0] = 0;
    window->starts[++window->n_documents] = (int64_t)window->tokens.size;
    return TESS_OK;
}

/* Sets for the tokens that were added since the last call whether they may be targets. */
static tess_status mark(tess_window *window, bool counts)
{
    char marks[1024];
    memset(marks, counts, sizeof(marks));
    for (size_t left; (left = window->tokens.size - window->loss.size) > 0;)
        TESS_TRY(tess_buffer_append(&window->loss, marks, left < sizeof(marks) ? left : sizeof(marks)));
    return TESS_OK;
}

/* Removes the document that begins at `start` if none of its tokens would be a target. */
static void omit_without_targets(tess_window *window, size_t start, int64_t seq_len, bool *omitted)
{
    size_t size = window->tokens.size - start, n = (size_t)seq_len < size ? (size_t)seq_len + 1 : size;
    *omitted = n < 2 || memchr(window->loss.data + start + 1, 1, n - 1) == NULL;
    if (*omitted) {
        window->tokens.size = window->loss.size = start;
        window->n_omitted++;
    } else if (n < size) {
        window->n_cut++;
    }
}

/* Appends n tokens of the block, starting at number `at`, with bos and eos as the document's kind requires. */
static tess_status add_tokens(tess_window *window, const tess_loader_options *options, size_t at, size_t n,
                              tess_document_kind kind)
{
    const tess_token_block *block = &window->block;
    for (int i = 0; i < options->bos.n && kind != TESS_DOCUMENT_CONVERSATION; i++)
        TESS_TRY(tess_ids_append(&window->tokens, options->bos.id[i]));
    TESS_TRY(mark(window, kind != TESS_DOCUMENT_PAIR));
    TESS_TRY(tess_ids_reserve(&window->tokens, n));
    if (n > 0)
        memcpy(window->tokens.data + window->tokens.size, block->ids.data + at, n * sizeof(*block->ids.data));
    window->tokens.size += n;
    if (n > 0 && block->loss.size > 0)
        TESS_TRY(tess_buffer_append(&window->loss, block->loss.data + at, n));
    window->conversations = window->conversations || kind == TESS_DOCUMENT_CONVERSATION;
    bool ends = kind == TESS_DOCUMENT_LINE || kind == TESS_DOCUMENT_PAIR;
    window->without_end = window->without_end || (ends && options->eos_id < 0);
    if (ends && options->eos_id >= 0)
        TESS_TRY(tess_ids_append(&window->tokens, options->eos_id));
    return mark(window, true);
}

static tess_status add_document(tess_window *window, const tess_loader_options *options, size_t at,
                                tess_token_document document)
{
    size_t start = window->tokens.size;
    tess_document_kind kind = (tess_document_kind)document.kind;
    bool omitted = false, paired = kind == TESS_DOCUMENT_PAIR || kind == TESS_DOCUMENT_CONVERSATION;
    bool whole = options->split == TESS_SPLIT_FALSE || (options->split == TESS_SPLIT_AUTO && paired);
    TESS_TRY(add_tokens(window, options, at, document.n_tokens, kind));
    window->n_read++;
    if (whole || paired)
        omit_without_targets(window, start, whole ? options->seq_len : INT64_MAX, &omitted);
    return omitted ? TESS_OK : end_document(window, whole);
}

/* Reads a block of a text file or a shard; tokenizes text. */
static tess_status read_block(tess_window *window, const tess_loader_options *options, tess_encoder *encoder,
                              tess_buffer *text, tess_block_file *file, uint64_t index)
{
    const tess_text_rules rules = {
        tess_document_keys_of(options->text_key, options->prompt_key, options->completion_key), options->chat};
    uint64_t offset;
    size_t bad_at;
    if (file->shard != NULL)
        return tess_token_shard_read(file->shard, index, &window->block);
    TESS_TRY(tess_blocks_read(file, index, text, &offset));
    tess_status status = tess_encode_block(&rules, encoder, file->kind, text, &window->block, &bad_at);
    if (status != TESS_OK)
        tess_fail_context(status, "%s: line %llu", file->path,
                          (unsigned long long)tess_blocks_line(file, offset + bad_at));
    if (file->mask[0] == '\0')
        memcpy(file->mask, window->block.mask, sizeof(file->mask));
    window->by_turns = window->by_turns || window->block.by_turns;
    return status;
}

static tess_status add_block(tess_window *window, const tess_loader_options *options)
{
    const tess_token_block *block = &window->block;
    size_t at = 0;
    for (size_t d = 0; d < block->n_documents; at += block->documents[d++].n_tokens)
        TESS_TRY(add_document(window, options, at, block->documents[d]));
    return TESS_OK;
}

tess_status tess_rows_window_fill(tess_window *window, const tess_blocks *blocks, const tess_loader_options *options,
                                  tess_encoder *encoder, tess_buffer *text, uint64_t epoch, uint64_t index)
{
    window->filled = window->conversations = window->by_turns = window->without_end = false;
    window->tokens.size = window->loss.size = window->whole.size = window->n_documents = 0;
    window->n_read = window->n_cut = window->n_omitted = 0;
    uint64_t first = index * TESS_WINDOW_BLOCKS;
    for (uint64_t i = first; i < first + TESS_WINDOW_BLOCKS && i < blocks->n_blocks; i++) {
        uint64_t block =
            options->shuffle ? tess_rng_permute(options->seed, TESS_RNG_SHUFFLE, epoch, blocks->n_blocks, i) : i;
        tess_block_file *file = tess_blocks_find(blocks, &block);
        TESS_TRY(read_block(window, options, encoder, text, file, block));
        TESS_TRY(add_block(window, options));
    }
    if (window->n_documents == 0) /* all lines are blank, or there is nothing to train on */
        TESS_TRY(end_document(window, false));
    TESS_TRY(tess_mem_reserve(window->mem, TESS_POOL_MISC, window->n_documents + 1, sizeof(int64_t), "documents",
                              &window->places_capacity, &window->places));
    tess_pack_place(window->starts, (const uint8_t *)window->whole.data, (int64_t)window->n_documents, options->seq_len,
                    window->places);
    const tess_documents documents = tess_rows_window_documents(window);
    const uint64_t name[2] = {epoch, index};
    window->n_rows = tess_pack_rows(&documents, options->seq_len);
    window->order = tess_hash_bytes(name, sizeof(name), TESS_RNG_SHUFFLE);
    window->epoch = epoch;
    window->index = index;
    window->filled = true;
    return TESS_OK;
}

tess_documents tess_rows_window_documents(const tess_window *window)
{
    return (tess_documents){.tokens = window->tokens.data,
                            .loss = (const uint8_t *)window->loss.data,
                            .starts = window->starts,
                            .places = window->places,
                            .n = (int64_t)window->n_documents};
}

void tess_rows_window_free(tess_window *window)
{
    tess_ids_free(&window->tokens);
    tess_buffer_free(&window->loss);
    tess_buffer_free(&window->whole);
    tess_token_block_free(&window->block);
    tess_mem_free(window->mem, window->starts);
    tess_mem_free(window->mem, window->places);
    *window = tess_rows_window_of(window->mem);
}
