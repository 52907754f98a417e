/* Turns the drawn tokens into text. */
#include "rl/rl_impl.h"

tess_status rl_text(const rl *r, const int32_t *ids, int64_t n, tess_buffer *text)
{
    TESS_TRY(tess_decode(r->text.tokenizer, ids, (size_t)n, true, text));
    return tess_buffer_append(text, "", 0); /* an empty text, not NULL */
}
