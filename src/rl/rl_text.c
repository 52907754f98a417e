/* Text of what was drawn. */
#include "rl/rl_impl.h"

tess_status rl_text(const rl *r, const int32_t *ids, int64_t n, tess_buffer *text)
{
    const tess_tokenizer *tokenizer = tess_trainer_tokenizer_of(r->trainer);
    const int64_t vocabulary = tess_tokenizer_vocab_size(tokenizer);
    for (int64_t begin = 0, end; begin < n; begin = end + 1) {
        for (end = begin; end < n && ids[end] < vocabulary; end++)
            continue;
        TESS_TRY(tess_decode(tokenizer, ids + begin, (size_t)(end - begin), true, text));
    }
    return tess_buffer_append(text, "", 0); /* a text, even if there is none */
}
