/* Which format lies at a path. A format is one row of the table, asked in this order. */
#include <string.h>

#include "base/os/os.h"
#include "ckpt/catalog/openers.h"

enum { PATH_SIZE = 4096 };

typedef struct opener {
    const char *what; /* for the message when nothing fits */
    bool (*fits)(const char *path);
    tess_status (*open)(tess_mem *mem, const char *path, tess_catalog **catalog);
} opener;

static bool holds(const char *folder, const char *name)
{
    char path[PATH_SIZE];
    return tess_os_join(path, sizeof(path), folder, name) == TESS_OK && tess_os_is_file(path);
}

static bool is_safetensors(const char *path)
{
    const char *dot = strrchr(path, '.');
    if (tess_os_is_file(path))
        return dot != NULL && strcmp(dot, ".safetensors") == 0;
    return holds(path, "model.safetensors") || holds(path, "model.safetensors.index.json");
}

static const opener openers[] = {
    {"a safetensors file or model folder", is_safetensors, tess_catalog_open_safetensors},
};

tess_status tess_catalog_open(tess_mem *mem, const char *path, tess_catalog **catalog)
{
    *catalog = NULL;
    TESS_CHECK(tess_os_is_dir(path) || tess_os_is_file(path), TESS_E_NOT_FOUND, "%s: no such file or folder", path);
    for (size_t i = 0; i < sizeof(openers) / sizeof(openers[0]); i++)
        if (openers[i].fits(path))
            return openers[i].open(mem, path, catalog);
    return TESS_FAIL(TESS_E_UNSUPPORTED, "%s: not %s", path, openers[0].what);
}
