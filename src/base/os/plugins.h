/* Finds the project's plug-ins: shared objects that are loaded at run time. */
#ifndef TESS_BASE_OS_PLUGINS_H
#define TESS_BASE_OS_PLUGINS_H

#include <limits.h>
#include <stdbool.h>

/* Finds `file` next to the program, next to the shared object that holds this code, or in one of their folders
 * (tessera, ../lib/tessera, ../lib/ARCHITECTURE/tessera). False: not found. */
bool tess_plugin_find(const char *file, char path[PATH_MAX]);

#endif
