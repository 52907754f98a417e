/* Changes the case of strings. */
#include <utf8proc.h>

#include "data/template/template_impl.h"

static bool is_cased(uint32_t c)
{
    return template_is_upper(c) || template_is_lower(c) ||
           utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_LT;
}
static tess_status put_case(tess_buffer *out, uint32_t c, bool upper)
{
    uint8_t bytes[4];
    if (upper && c == 0xdf)
        return tess_buffer_append(out, "SS", 2);
    c = (uint32_t)(upper ? utf8proc_toupper((utf8proc_int32_t)c) : utf8proc_tolower((utf8proc_int32_t)c));
    return tess_buffer_append(out, bytes, (size_t)tess_utf8_encode(c, bytes));
}

static tess_status put_all(template_text text, template_case how, tess_buffer *out)
{
    uint32_t c;
    bool inside = false; /* inside a word */
    for (size_t at = 0; at < text.size;) {
        bool upper = how == CASE_UPPER || (how == CASE_TITLE && !inside) || (how == CASE_CAPITAL && at == 0);
        at += (size_t)template_decode(text, at, &c);
        TESS_TRY(put_case(out, c, how == CASE_SWAP ? template_is_lower(c) : upper));
        inside = is_cased(c);
    }
    return TESS_OK;
}

tess_status template_change_case(template_run *run, template_text text, template_case how, template_value *out)
{
    tess_buffer buffer = {.mem = run->arena.mem};
    TESS_TRY(template_step(run, text.size / 16));
    return template_take(run, &buffer, put_all(text, how, &buffer), out);
}
