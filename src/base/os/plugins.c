#include "base/os/plugins.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Finds the file in `folder`/../lib/<architecture>/tessera, where an installation puts it. */
static bool find_installed(const char *folder, const char *file, char path[PATH_MAX])
{
    char pattern[PATH_MAX];
    if (snprintf(pattern, sizeof(pattern), "%s/../lib/*/tessera/%s", folder, file) >= (int)sizeof(pattern))
        return false;
    glob_t found;
    bool any = glob(pattern, 0, NULL, &found) == 0 && strlen(found.gl_pathv[0]) < PATH_MAX;
    if (any)
        strcpy(path, found.gl_pathv[0]);
    globfree(&found);
    return any;
}

/* Finds the file next to the object `of`, or in the folders that belong to the object. */
static bool find_near(const char *of, const char *file, char path[PATH_MAX])
{
    char folder[PATH_MAX];
    if (realpath(of, folder) == NULL)
        return false;
    *strrchr(folder, '/') = '\0';
    const char *const places[] = {"", "/tessera", "/../lib/tessera"};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (snprintf(path, PATH_MAX, "%s%s/%s", folder, places[i], file) < PATH_MAX && access(path, R_OK) == 0)
            return true;
    }
    return find_installed(folder, file, path);
}

bool tess_plugin_find(const char *file, char path[PATH_MAX])
{
    static const char here; /* an address in the object that holds this code */
    Dl_info self;
    return find_near("/proc/self/exe", file, path) ||
           (dladdr(&here, &self) != 0 && find_near(self.dli_fname, file, path));
}
