/* Functions that the readers of several foreign formats share. */
#include "base/os/os.h"
#include "ckpt/formats/formats.h"
#include "ckpt/formats/torch_impl.h"

tess_status formats_finish(tess_catalog **catalog, tess_status status)
{
    if (status == TESS_OK)
        status = tess_catalog_finish(*catalog);
    if (status != TESS_OK)
        tess_catalog_destroy(catalog);
    return status;
}

bool tess_folder_holds(const char *folder, const char *name)
{
    char path[4096];
    return tess_os_join(path, sizeof(path), folder, name) == TESS_OK && tess_os_is_file(path);
}
