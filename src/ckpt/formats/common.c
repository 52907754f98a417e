#include <string.h>

#include "base/os/os.h"
#include "ckpt/formats/formats_impl.h"

tess_status formats_finish(tess_catalog **catalog, tess_status status)
{
    if (status == TESS_OK)
        status = tess_catalog_finish(*catalog);
    if (status != TESS_OK)
        tess_catalog_destroy(catalog);
    return status;
}

json_t *formats_meta_folder(json_t *meta, const char *prefix)
{
    char key[256];
    if (prefix[0] == '\0')
        return meta;
    snprintf(key, sizeof(key), "%.*s", (int)(strlen(prefix) - 1), prefix);
    json_t *folder = json_object_get(meta, key);
    if (!json_is_object(folder)) {
        folder = json_object();
        json_object_set_new(meta, key, folder);
    }
    return folder;
}

bool tess_folder_holds(const char *folder, const char *name)
{
    char path[4096];
    return tess_os_join(path, sizeof(path), folder, name) == TESS_OK && tess_os_is_file(path);
}
