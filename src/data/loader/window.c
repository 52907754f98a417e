#include "data/loader/window.h"

#include <stdio.h>
#include <string.h>

#include "base/core/rng.h"
#include "base/mem/make_room.h"

uint64_t tess_rows_window_count(const tess_blocks *blocks)
{
    return (blocks->n_blocks + TESS_WINDOW_BLOCKS - 1) / TESS_WINDOW_BLOCKS;
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

/* Says whether the tokens that were added since the last call may be targets. */
static tess_status mark(tess_window *window, bool counts)
{
    char marks[1024];
    memset(marks, counts, sizeof(marks));
    for (size_t left; (left = window->tokens.size - window->loss.size) > 0;)
        TESS_TRY(tess_buffer_append(&window->loss, marks, left < sizeof(marks) ? left : sizeof(marks)));
    return TESS_OK;
}

/* Takes the document that begins at `start` back if no token of it would be a target. */
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

static tess_status add_conversation(tess_window *window, const tess_chat *chat, tess_encoder *encoder,
                                    const tess_document *document)
{
    TESS_CHECK(chat != NULL, TESS_E_UNSUPPORTED,
               "a conversation, but there is no chat template: name one, or a model's folder that has one, with "
               "data.chat_template (eval: --chat-template)");
    return tess_conversation_encode(chat, encoder, document->messages, document->n_prompt, document->tools,
                                    &window->tokens, &window->loss);
}

static tess_status add_tokens(tess_window *window, const tess_loader_options *options, tess_encoder *encoder,
                              const tess_document *document, bool ends)
{
    if (document->text == NULL)
        return add_conversation(window, options->chat, encoder, document);
    for (int i = 0; i < options->bos.n; i++)
        TESS_TRY(tess_ids_append(&window->tokens, options->bos.id[i]));
    if (document->prompt != NULL) {
        TESS_TRY(tess_encode(encoder, document->prompt, document->prompt_size, false, &window->tokens));
        TESS_TRY(mark(window, false));
    }
    TESS_TRY(tess_encode(encoder, document->text, document->size, false, &window->tokens));
    return ends && options->eos_id >= 0 ? tess_ids_append(&window->tokens, options->eos_id) : TESS_OK;
}

/* ends: with the eos, if there is one. */
static tess_status add_document(tess_window *window, const tess_loader_options *options, tess_encoder *encoder,
                                const tess_document *document, bool ends)
{
    size_t start = window->tokens.size;
    bool omitted = false, paired = document->prompt != NULL || document->text == NULL;
    bool whole = options->split == TESS_SPLIT_FALSE || (options->split == TESS_SPLIT_AUTO && paired);
    TESS_TRY(add_tokens(window, options, encoder, document, ends));
    TESS_TRY(mark(window, true));
    if (whole || paired)
        omit_without_targets(window, start, whole ? options->seq_len : INT64_MAX, &omitted);
    return omitted ? TESS_OK : end_document(window, whole);
}

static tess_status add_lines(tess_window *window, const tess_loader_options *options, tess_encoder *encoder,
                             tess_block_file *file, uint64_t offset, const tess_buffer *text)
{
    const tess_document_keys keys =
        tess_document_keys_of(options->text_key, options->prompt_key, options->completion_key);
    for (size_t at = 0; at < text->size;) {
        const char *line = text->data + at, *end = memchr(line, '\n', text->size - at);
        size_t size = end != NULL ? (size_t)(end - line) : text->size - at;
        tess_document document;
        tess_status status = tess_document_parse(line, size, &keys, &document);
        if (document.line != NULL) {
            status = add_document(window, options, encoder, &document, true);
            const char *mask = file->mask[0] == '\0' ? tess_document_mask(&document, &keys) : NULL;
            if (mask != NULL)
                snprintf(file->mask, sizeof(file->mask), "%s", mask);
            tess_document_free(&document);
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
    window->tokens.size = window->loss.size = window->whole.size = window->n_documents = 0;
    window->n_cut = window->n_omitted = 0;
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
            const tess_document all = {.text = text->data != NULL ? text->data : "", .size = text->size};
            TESS_TRY(add_document(window, options, encoder, &all, false));
        }
    }
    if (window->n_documents == 0) /* lines that are all blank, or nothing to train on */
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
    tess_mem_free(window->mem, window->starts);
    tess_mem_free(window->mem, window->places);
    *window = (tess_window){.mem = window->mem};
}
