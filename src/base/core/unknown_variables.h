/* Finds variables that a user has set and that nobody reads. */
#ifndef TESS_BASE_CORE_UNKNOWN_VARIABLES_H
#define TESS_BASE_CORE_UNKNOWN_VARIABLES_H

#include <stdbool.h>

#include "base/core/variables.h"

/* The next name in `environment` (NAME=VALUE, up to NULL), from entry *at on, that begins with TESSERA_ and is not in
 * the list. `near`: a similar name of the list, NULL if none is similar. Sets *at to the entry after it. False: there
 * are no more. `name` is cut at its end. */
bool tess_variable_unknown(char *const *environment, int *at, char name[TESS_VARIABLE_NAME], const char **near);

#endif
