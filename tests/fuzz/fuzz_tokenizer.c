/* tokenizer.json from outside, then text through it: input is the file, a zero byte, the text. */
#include <string.h>

#include "base/text/text.h"
#include "data/tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run_text(tess_mem *mem, const tess_tokenizer *tokenizer, const char *text, size_t size)
{
    tess_encoder *encoder;
    tess_ids ids = {.mem = mem};
    tess_buffer back = {.mem = mem};
    if (tess_encoder_create(mem, tokenizer, &encoder) != TESS_OK)
        return;
    if (tess_encode(encoder, text, size, true, &ids) == TESS_OK &&
        tess_decode(tokenizer, ids.data, ids.size, false, &back) != TESS_OK)
        __builtin_trap(); /* encoded ids can be decoded */
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
