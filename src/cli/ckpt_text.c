#include "cli/ckpt_text.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"

tess_status cli_print_json(json_t *object)
{
    char *text = object != NULL ? json_dumps(object, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(object);
    TESS_CHECK(text != NULL, TESS_E_NOMEM, "no memory for JSON");
    puts(text);
    free(text);
    return TESS_OK;
}

const char *cli_format_dims(int n_dims, const int64_t *dim, char *text, size_t size)
{
    size_t at = tess_text_add(text, size, 0, "[");
    for (int d = 0; d < n_dims; d++)
        at = tess_text_add(text, size, at, "%s%" PRId64, d > 0 ? ", " : "", dim[d]);
    tess_text_add(text, size, at, "]");
    return text;
}

bool cli_name_fits(const char *name, const char *pattern)
{
    if (pattern == NULL)
        return true;
    return strpbrk(pattern, "*?[") != NULL ? fnmatch(pattern, name, 0) == 0 : strstr(name, pattern) != NULL;
}
