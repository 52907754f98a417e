#include "data/corpus/training_text.h"

#include <string.h>

static tess_status add_document(const tess_document *document, tess_buffer *text)
{
    TESS_CHECK(document->messages == NULL, TESS_E_INVALID,
               "a conversation: there is no tokenizer that its chat template is for; set tokenizer.path or model.path");
    if (document->prompt_size > 0)
        TESS_TRY(tess_buffer_append(text, document->prompt, document->prompt_size));
    if (document->size > 0)
        TESS_TRY(tess_buffer_append(text, document->text, document->size));
    return tess_buffer_append(text, "\n", 1);
}

static tess_status add_record(const char *record, size_t size, const tess_document_keys *keys, tess_buffer *text)
{
    TESS_AUTO(tess_document_free) tess_document document = {0};
    TESS_TRY(tess_document_parse(record, size, keys, &document));
    return add_document(&document, text);
}

static size_t count_lines(const char *from, const char *to)
{
    size_t n = 0;
    for (; (from = memchr(from, '\n', (size_t)(to - from))) != NULL; from++)
        n++;
    return n;
}

tess_status tess_training_text_add(const char *path, const tess_mapping *file, tess_text_kind kind, size_t limit,
                                   const tess_document_keys *keys, tess_buffer *text, tess_cut_record *cut)
{
    const char *data = (const char *)file->data, *counted = data;
    size_t line = 1;
    bool there = true;
    if (kind == TESS_TEXT_PLAIN)
        return tess_buffer_append(text, data, limit);
    tess_records r = tess_records_of(kind, data, file->size);
    while (there && r.next < limit) {
        tess_status status = tess_records_next(&r, &there);
        bool whole = r.begin + r.length <= limit || r.length > TESS_LINE_BYTES;
        line += count_lines(counted, data + r.begin);
        counted = data + r.begin;
        if (status == TESS_OK && there && whole)
            status = add_record(data + r.begin, r.length, keys, text);
        else if (there && cut != NULL)
            *cut = (tess_cut_record){line, r.length};
        TESS_TRY_CTX(status, "%s: line %zu", path, line);
    }
    if (limit == file->size)
        TESS_TRY_CTX(tess_records_end(&r), "%s", path);
    return TESS_OK;
}
