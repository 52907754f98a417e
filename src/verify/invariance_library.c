/* Loads a user's kernel from a shared library. */
#include <dlfcn.h>
#include <string.h>

#include "verify/invariance.h"

tess_status tess_invariance_load(const char *library, const char *symbol, tess_invariance_fn *function)
{
    char path[4096];
    /* The linker searches its own folders for a name without a slash, but a user who names a file means that file. */
    size_t n = strlen(library);
    TESS_CHECK(n + 3 < sizeof(path), TESS_E_INVALID, "--library: a path of %zu bytes is too long", n);
    memcpy(path, "./", 3);
    strcpy(strchr(library, '/') != NULL ? path : path + 2, library);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    TESS_CHECK(handle != NULL, TESS_E_NOT_FOUND, "--library: %s; build it with: cc -O2 -shared -fPIC -o %s kernel.c",
               dlerror(), library);
    void *found = dlsym(handle, symbol);
    if (found == NULL) {
        dlclose(handle);
        return TESS_FAIL(TESS_E_NOT_FOUND,
                         "--symbol: %s has no function '%s'; it must be extern \"C\", and visible: void %s(const float "
                         "*x, float *y, int64_t rows, int64_t width)",
                         library, symbol, symbol);
    }
    memcpy(function, &found, sizeof(found)); /* ISO C has no conversion from object pointers to function pointers */
    return TESS_OK;
}
