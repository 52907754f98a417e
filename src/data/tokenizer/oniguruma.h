/* The regexes of tokenizer.json, which are written for Oniguruma (Ruby syntax), on PCRE2 with its JIT.
 *
 * A pattern is rewritten where PCRE2 would match other text than Oniguruma: \s, \w and \h become explicit sets
 * (PCRE2 counts U+180E as a space and leaves marks out of \w), ^ and $ match at lines. A pattern that cannot be
 * rewritten is TESS_E_UNSUPPORTED. Searches find the first non-empty match in valid UTF-8. */
#ifndef TESS_DATA_TOKENIZER_ONIGURUMA_H
#define TESS_DATA_TOKENIZER_ONIGURUMA_H

#include "base/text/regex.h"

/* Compiles a pattern. `what` names its place in messages. TESS_E_FORMAT: the message shows the rewritten form of the
 * invalid pattern. */
tess_status tess_oniguruma_create(tess_mem *mem, const char *pattern, size_t size, const char *what,
                                  tess_regex **regex);
tess_status tess_oniguruma_scratch_create(tess_mem *mem, tess_regex_scratch **scratch);

#endif
