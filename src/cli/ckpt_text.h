/* What commands below `tessera ckpt` print and match alike. */
#ifndef TESS_CLI_CKPT_TEXT_H
#define TESS_CLI_CKPT_TEXT_H

#include <jansson.h>
#include <stdbool.h>

#include "tessera/status.h"

/* Prints an object, indented, to standard output, and takes it; NULL: TESS_E_NOMEM. */
tess_status cli_print_json(json_t *object);

/* Whether a name has `pattern` in it, or, where that has one of "*?[", is matched by it. NULL fits all. */
bool cli_name_fits(const char *name, const char *pattern);

#endif
