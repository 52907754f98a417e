#include "device/cuda/cuda_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/core/variables.h"
#include "device/cuda/cuda_find.h"

const char *tess_cuda_library_bind(void *library, const cuda_symbol *symbols, size_t n, void *table)
{
    for (size_t i = 0; i < n; i++) {
        void *found = dlsym(library, symbols[i].name);
        if (found == NULL)
            return symbols[i].name;
        memcpy((char *)table + symbols[i].offset, &found, sizeof(found));
    }
    return NULL;
}

static const char *does_without(const cuda_library *l)
{
    return l->instead != NULL ? l->instead : "off";
}

static tess_status find(cuda_library *l)
{
    const char *variable = tess_variable_name(l->variable), *wish = tess_variable_value(l->variable);
    if (wish == NULL || wish[0] == '\0') {
        TESS_CHECK(tess_cuda_find_library(l->pattern, l->path), TESS_E_NOT_FOUND,
                   "%s is not installed: install %s, or name its file with %s", l->name, l->packages, variable);
        return TESS_OK;
    }
    TESS_CHECK(strcmp(wish, "off") != 0 && strcmp(wish, does_without(l)) != 0, TESS_E_NOT_FOUND, "%s is %s", variable,
               wish);
    TESS_CHECK(strchr(wish, '/') != NULL, TESS_E_INVALID,
               "%s is '%s', expected off%s%s%s or the path of %s (with a '/' in it)", variable, wish,
               l->instead != NULL ? ", " : "", l->instead != NULL ? l->instead : "", l->instead != NULL ? "," : "",
               l->file);
    snprintf(l->path, sizeof(l->path), "%s", wish);
    return TESS_OK;
}

static tess_status load(cuda_library *l)
{
    TESS_TRY(find(l));
    void *library = dlopen(l->path, RTLD_NOW | RTLD_LOCAL);
    TESS_CHECK(library != NULL, TESS_E_UNSUPPORTED, "cannot load %s: %s; %s=%s does without", l->name, dlerror(),
               tess_variable_name(l->variable), does_without(l));
    const char *missing = tess_cuda_library_bind(library, l->symbols, l->n_symbols, l->table);
    TESS_CHECK(missing == NULL, TESS_E_UNSUPPORTED, "%s is no %s that Tessera can use: it has no %s", l->path, l->name,
               missing);
    return TESS_OK;
}

tess_status tess_cuda_library_open(cuda_library *l)
{
    pthread_mutex_lock(&l->lock);
    tess_status status = l->is_open ? TESS_OK : load(l);
    l->is_open = status == TESS_OK;
    pthread_mutex_unlock(&l->lock);
    return status;
}
