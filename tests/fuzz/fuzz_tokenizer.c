/* tokenizer.json from outside, then text through it: input is the file, a zero byte, the text. */
#include <string.h>

#include "base/text/text.h"
#include "data/tokenizer/stop_texts.h"
#include "data/tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every settled text must begin the whole, and the search for stop texts must succeed. */
static void check_growing(tess_mem *mem, const tess_tokenizer *tokenizer, const tess_ids *ids)
{
    static const char *const stops[] = {"\n", "ab", NULL};
    const size_t n = ids->size < 64 ? ids->size : 64;
    for (int skip = 0; skip < 2; skip++) {
        tess_buffer whole = {.mem = mem};
        if (tess_decode(tokenizer, ids->data, n, skip, &whole) != TESS_OK)
            __builtin_trap();
        for (size_t i = 0; i <= n; i++) {
            tess_buffer part = {.mem = mem};
            bool ends;
            if (tess_decode_settled(tokenizer, ids->data, i, skip, &part) != TESS_OK ||
                tess_stop_texts_end(tokenizer, stops, ids->data, i, 0, mem, &ends) != TESS_OK)
                __builtin_trap();
            if (part.size > whole.size || memcmp(part.data, whole.data, part.size) != 0)
                __builtin_trap();
            tess_buffer_free(&part);
        }
        tess_buffer_free(&whole);
    }
}

static void run_text(tess_mem *mem, const tess_tokenizer *tokenizer, const char *text, size_t size)
{
    tess_encoder *encoder;
    tess_ids ids = {.mem = mem};
    tess_buffer back = {.mem = mem};
    if (tess_encoder_create(mem, tokenizer, &encoder) != TESS_OK)
        return;
    if (tess_encode(encoder, text, size, true, &ids) == TESS_OK) {
        if (tess_decode(tokenizer, ids.data, ids.size, false, &back) != TESS_OK)
            __builtin_trap(); /* encoded ids can be decoded */
        check_growing(mem, tokenizer, &ids);
    }
    tess_ids_free(&ids);
    tess_buffer_free(&back);
    tess_encoder_destroy(&encoder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tess_mem *mem;
    tess_tokenizer *tokenizer;
    const uint8_t *zero = size > 0 ? memchr(data, 0, size) : NULL;
    size_t n_json = zero != NULL ? (size_t)(zero - data) : size;
    if (tess_mem_create(&mem) != TESS_OK)
        return 0;
    if (tess_tokenizer_parse(mem, (const char *)data, n_json, "tokenizer.json", &tokenizer) == TESS_OK) {
        if (zero != NULL)
            run_text(mem, tokenizer, (const char *)zero + 1, size - n_json - 1);
        tess_tokenizer_destroy(&tokenizer);
    }
    if (tess_mem_destroy(&mem) != 0)
        __builtin_trap(); /* something leaked */
    return 0;
}
