#include "cli/ckpt_text.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tess_status cli_print_json(json_t *object)
{
    char *text = object != NULL ? json_dumps(object, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(object);
    TESS_CHECK(text != NULL, TESS_E_NOMEM, "no memory for JSON");
    puts(text);
    free(text);
    return TESS_OK;
}

bool cli_name_fits(const char *name, const char *pattern)
{
    if (pattern == NULL)
        return true;
    return strpbrk(pattern, "*?[") != NULL ? fnmatch(pattern, name, 0) == 0 : strstr(name, pattern) != NULL;
}
