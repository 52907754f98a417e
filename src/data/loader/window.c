#include "data/loader/window.h"

#include <stdio.h>
#include <string.h>

#include "base/core/rng.h"
#include "base/mem/make_room.h"

uint64_t tess_rows_window_count(const tess_blocks *blocks)
{
    return (blocks->n_blocks + TESS_WINDOW_BLOCKS - 1) / TESS_WINDOW_BLOCKS;
}

static tess_status end_document(tess_window *window)
{
    TESS_TRY(tess_mem_reserve(window->mem, TESS_POOL_MISC, window->n_documents + 2, sizeof(int64_t), "documents",
                              &window->starts_capacity, &window->starts));
    window->starts[0] = 0;
    window->starts[++window->n_documents] = (int64_t)window->tokens.size;
    return TESS_OK;
}

/* eos_id -1: none. */
static tess_status add_document(tess_window *window, const tess_prefix *bos, tess_encoder *encoder, const char *text,
                                size_t size, int32_t eos_id)
{
    for (int i = 0; i < bos->n; i++)
        TESS_TRY(tess_ids_append(&window->tokens, bos->id[i]));
    TESS_TRY(tess_encode(encoder, text, size, false, &window->tokens));
    if (eos_id >= 0)
        TESS_TRY(tess_ids_append(&window->tokens, eos_id));
    return end_document(window);
}

static tess_status add_lines(tess_window *window, const tess_loader_options *options, tess_encoder *encoder,
                             tess_block_file *file, uint64_t offset, const tess_buffer *text)
{
    const char *key = options->text_key != NULL ? options->text_key : "text";
    for (size_t at = 0; at < text->size;) {
        const char *line = text->data + at, *end = memchr(line, '\n', text->size - at);
        size_t size = end != NULL ? (size_t)(end - line) : text->size - at;
        json_t *document;
        tess_status status = tess_document_parse(line, size, key, &document);
        if (document != NULL) {
            const json_t *value = json_object_get(document, key);
            status = add_document(window, &options->bos, encoder, json_string_value(value), json_string_length(value),
                                  options->eos_id);
            const char *mask = file->mask[0] == '\0' ? tess_document_mask(document, key) : NULL;
            if (mask != NULL)
                snprintf(file->mask, sizeof(file->mask), "%s", mask);
            json_decref(document);
        }
        if (status != TESS_OK)
            return tess_fail_context(status, "%s: line %llu", file->path,
                                     (unsigned long long)tess_blocks_line(file, offset + at));
        at += size + 1;
    }
    return TESS_OK;
}

tess_status tess_rows_window_fill(tess_window *window, const tess_blocks *blocks, const tess_loader_options *options,
                                  tess_encoder *encoder, tess_buffer *text, uint64_t epoch, uint64_t index)
{
    window->filled = false;
    window->tokens.size = 0;
    window->n_documents = 0;
    uint64_t first = index * TESS_WINDOW_BLOCKS;
    for (uint64_t i = first; i < first + TESS_WINDOW_BLOCKS && i < blocks->n_blocks; i++) {
        uint64_t block =
            options->shuffle ? tess_rng_permute(options->seed, TESS_RNG_SHUFFLE, epoch, blocks->n_blocks, i) : i;
        tess_block_file *file;
        uint64_t offset;
        TESS_TRY(tess_blocks_read(blocks, block, text, &file, &offset));
        if (file->jsonl) {
            TESS_TRY(add_lines(window, options, encoder, file, offset, text));
        } else {
            TESS_TRY(
                add_document(window, &options->bos, encoder, text->data != NULL ? text->data : "", text->size, -1));
        }
    }
    if (window->n_documents == 0) /* lines that are all blank */
        TESS_TRY(end_document(window));
    TESS_TRY(tess_mem_reserve(window->mem, TESS_POOL_MISC, window->n_documents + 1, sizeof(int64_t), "documents",
                              &window->pairs_capacity, &window->pairs));
    tess_pack_count(window->starts, (int64_t)window->n_documents, window->pairs);
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
                            .starts = window->starts,
                            .pairs = window->pairs,
                            .n = (int64_t)window->n_documents};
}

void tess_rows_window_free(tess_window *window)
{
    tess_ids_free(&window->tokens);
    tess_mem_free(window->mem, window->starts);
    tess_mem_free(window->mem, window->pairs);
    *window = (tess_window){.mem = window->mem};
}
