/* Finds the project's plug-ins: shared objects that are loaded at run time. */
#ifndef TESS_BASE_OS_PLUGINS_H
#define TESS_BASE_OS_PLUGINS_H

#include <limits.h>
#include <stdbool.h>

/* Looks for `file` next to the program and next to the shared object that holds this code, and in the folders that
 * belong to them (tessera, ../lib/tessera, ../lib/ARCHITECTURE/tessera). */
bool tess_plugin_find(const char *file, char path[PATH_MAX]);

#endif
