/* Finds environment variables of users that Tessera does not read. */
#ifndef TESS_BASE_CORE_UNKNOWN_VARIABLES_H
#define TESS_BASE_CORE_UNKNOWN_VARIABLES_H

#include <stdbool.h>

#include "base/core/variables.h"

/* Finds the next name in `environment` (NAME=VALUE entries, ended by NULL), from entry *at on, that begins with
 * TESSERA_ and is not in the list of variables. Sets *near to a similar name of the list, NULL if none is similar,
 * and *at to the entry after it. A name that is too long for `name` is cut. Returns false if there are no more. */
bool tess_variable_unknown(char *const *environment, int *at, char name[TESS_VARIABLE_NAME], const char **near);

#endif
