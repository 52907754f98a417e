#include "device/cuda/cuda_find.h"

#include <glob.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/variables.h"

/* Folders that are searched: a pattern of glob(3), which follows the value of a variable or, without one, is
 * absolute. */
static const struct {
    tess_variable variable;
    const char *pattern;
} folders[] = {
    {TESS_VAR_CUDA_HOME, "/lib64"},
    {TESS_VAR_CUDA_PATH, "/lib64"},
    {TESS_VARIABLE_NONE, "/usr/local/cuda/lib64"},
    {TESS_VARIABLE_NONE, "/usr/lib/*-linux-gnu"},
    {TESS_VARIABLE_NONE, "/usr/lib64"},
    {TESS_VAR_VIRTUAL_ENV, "/lib/python3*/site-packages/nvidia/*/lib"},
    {TESS_VAR_CONDA_PREFIX, "/lib"},
    {TESS_VAR_CONDA_PREFIX, "/lib/python3*/site-packages/nvidia/*/lib"},
    {TESS_VAR_HOME, "/.local/lib/python3*/site-packages/nvidia/*/lib"},
    {TESS_VARIABLE_NONE, "/usr/local/lib/python3*/dist-packages/nvidia/*/lib"},
};

static bool find_in(const char *folder, const char *pattern, const char *file, char path[PATH_MAX])
{
    char whole[PATH_MAX];
    glob_t found;
    if (snprintf(whole, sizeof(whole), "%s%s/%s", folder, pattern, file) >= (int)sizeof(whole))
        return false;
    bool any = glob(whole, 0, NULL, &found) == 0 && realpath(found.gl_pathv[0], path) != NULL;
    globfree(&found);
    return any;
}

/* Finds a file in the folders where pip installs NVIDIA's libraries. `folder` holds a python3: the folder of an
 * environment, of the system, or of pyenv's shims. */
static bool find_beside_python(const char *folder, const char *file, char path[PATH_MAX])
{
    static const char *const patterns[] = {"/../lib/python3*/site-packages/nvidia/*/lib",
                                           "/../lib/python3*/dist-packages/nvidia/*/lib",
                                           "/../versions/*/lib/python3*/site-packages/nvidia/*/lib"};
    bool found = false;
    for (size_t i = 0; !found && i < sizeof(patterns) / sizeof(patterns[0]); i++)
        found = find_in(folder, patterns[i], file, path);
    return found;
}

/* Searches the environment of each python3 in PATH, then the environment that its link points to. */
static bool find_by_python(const char *file, char path[PATH_MAX])
{
    char python[PATH_MAX], target[PATH_MAX];
    const char *at = tess_variable_value(TESS_VAR_PATH);
    for (size_t n; at != NULL && *at != '\0'; at += n + (at[n] == ':')) {
        n = strcspn(at, ":");
        if (snprintf(python, sizeof(python), "%.*s/python3", (int)n, at) >= (int)sizeof(python) ||
            access(python, X_OK) != 0)
            continue;
        bool resolves = realpath(python, target) != NULL;
        if (find_beside_python(dirname(python), file, path) ||
            (resolves && find_beside_python(dirname(target), file, path)))
            return true;
    }
    return false;
}

static bool find_in_library_path(const char *file, char path[PATH_MAX])
{
    char folder[PATH_MAX];
    const char *at = tess_variable_value(TESS_VAR_LD_LIBRARY_PATH);
    for (size_t n; at != NULL && *at != '\0'; at += n + (at[n] == ':')) {
        n = strcspn(at, ":");
        snprintf(folder, sizeof(folder), "%.*s", (int)n, at);
        if (n > 0 && find_in(folder, "", file, path))
            return true;
    }
    return false;
}

bool tess_cuda_find_library(const char *file, char path[PATH_MAX])
{
    bool found = find_in_library_path(file, path);
    for (size_t i = 0; !found && i < sizeof(folders) / sizeof(folders[0]); i++) {
        const char *folder = folders[i].variable != TESS_VARIABLE_NONE ? tess_variable_value(folders[i].variable) : "";
        found = folder != NULL && find_in(folder, folders[i].pattern, file, path);
    }
    return found || find_by_python(file, path);
}
