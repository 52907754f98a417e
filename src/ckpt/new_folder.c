#include "ckpt/new_folder.h"

#include <stdio.h>
#include <string.h>

#include "base/os/os.h"

static tess_status not_empty(void *context, const char *name)
{
    return TESS_FAIL(TESS_E_INVALID, "%s already holds '%s': name a folder that is new or empty", (const char *)context,
                     name);
}

tess_status tess_new_folder_begin(const char *path, tess_new_folder *f)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    TESS_CHECK(n > 0 && n < sizeof(f->path), TESS_E_INVALID, "name of the new folder is empty or too long");
    snprintf(f->path, sizeof(f->path), "%.*s", (int)n, path);
    snprintf(f->temporary, sizeof(f->temporary), "%s.tmp", f->path);
    if (tess_os_is_dir(f->path))
        TESS_TRY(tess_os_list(f->path, not_empty, f->path));
    return tess_os_remove_tree(f->temporary); /* left by a killed process */
}

tess_status tess_new_folder_end(const tess_new_folder *f, tess_status status)
{
    char parent[sizeof(f->path)];
    if (status == TESS_OK)
        status = tess_os_join(parent, sizeof(parent), f->path, "..");
    if (status == TESS_OK)
        status = tess_os_rename(f->temporary, f->path);
    if (status == TESS_OK)
        status = tess_os_fsync_dir(parent);
    if (status != TESS_OK)
        tess_os_remove_tree(f->temporary);
    return status;
}
