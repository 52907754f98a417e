/* Finds a stop text in the newest tokens. Decoders write the first token of a text differently than the same token
 * after others (for example without its space), so decoding begins one token earlier, and not inside a run of byte
 * tokens. */
#include "data/tokenizer/stop_texts.h"

#include <string.h>

#include "base/text/text.h"

/* Tokens that are decoded in addition: a token has at least one byte of text, and a few more tokens cost little. */
enum { SPARE_TOKENS = 8 };

static size_t longest_of(const char *const *stops)
{
    size_t longest = 0;
    for (int i = 0; stops[i] != NULL; i++)
        longest = strlen(stops[i]) > longest ? strlen(stops[i]) : longest;
    return longest;
}

static bool contains(const tess_buffer *text, size_t begin, const char *const *stops)
{
    for (int i = 0; stops[i] != NULL; i++)
        if (text->size > begin && memmem(text->data + begin, text->size - begin, stops[i], strlen(stops[i])) != NULL)
            return true;
    return false;
}

tess_status tess_stop_texts_end(const tess_tokenizer *tokenizer, const char *const *stops, const int32_t *ids, size_t n,
                                size_t first, tess_mem *mem, bool *ends)
{
    const size_t window = longest_of(stops) + SPARE_TOKENS;
    tess_buffer before = {.mem = mem}, text = {.mem = mem};
    *ends = false;
    if (stops[0] == NULL || n <= first)
        return TESS_OK;
    /* A run of byte tokens that began before the turn is compared with what it was when the turn began. */
    const size_t newest = n - first > window ? n - window : first;
    size_t context = tess_decode_from(tokenizer, ids, newest, false);
    if (context < first)
        context = tess_decode_from(tokenizer, ids, first, false);
    else
        first = newest;
    tess_status status = tess_decode(tokenizer, ids + context, first - context, false, &before);
    if (status == TESS_OK)
        status = tess_decode(tokenizer, ids + context, n - context, false, &text);
    *ends = status == TESS_OK && contains(&text, tess_text_common(&before, &text), stops);
    tess_buffer_free(&before);
    tess_buffer_free(&text);
    return status;
}
