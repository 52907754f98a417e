/* Reads Megatron's folder: one distributed checkpoint per iteration, and a file that names the newest. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/formats/dcp_impl.h"
#include "ckpt/formats/formats.h"
#include "ckpt/formats/torch_impl.h"

enum { MAX_POINTER = 4096 };

/* Parses the file that names the newest iteration: "100\
 * ", or "release" for weights that were converted and never trained. */
static tess_status read_pointer(const char *path, const char *text, int64_t *iteration, char *name, size_t size)
{
    char *end;
    *iteration = 0;
    if (strncmp(text, "release", 7) == 0 && strspn(text + 7, " \r\n\t") == strlen(text + 7)) {
        snprintf(name, size, "release");
        return TESS_OK;
    }
    errno = 0;
    *iteration = strtoll(text, &end, 10);
    TESS_CHECK(end != text && errno == 0 && *iteration >= 0 && strspn(end, " \r\n\t") == strlen(end), TESS_E_FORMAT,
               "%s: the number of an iteration expected", path);
    snprintf(name, size, MEGATRON_FOLDER, (long long)*iteration);
    return TESS_OK;
}

tess_status megatron_resolve(tess_mem *mem, const char *path, char *folder, size_t size, int64_t *iteration)
{
    char pointer[4096], name[64], *text;
    size_t n;
    *iteration = -1;
    TESS_CHECK(snprintf(folder, size, "%s", path) < (int)size, TESS_E_INVALID, "a path of more than %zu bytes", size);
    if (tess_folder_holds(path, DCP_METADATA) || !tess_folder_holds(path, MEGATRON_POINTER))
        return TESS_OK;
    TESS_TRY(tess_os_join(pointer, sizeof(pointer), path, MEGATRON_POINTER));
    TESS_TRY(tess_os_read(mem, pointer, MAX_POINTER, &text, &n));
    tess_status status = read_pointer(pointer, text, iteration, name, sizeof(name));
    tess_mem_free(mem, text);
    TESS_TRY(status);
    TESS_TRY(tess_os_join(folder, size, path, name));
    TESS_CHECK(tess_os_is_dir(folder), TESS_E_NOT_FOUND, "%s: %s names it, but it is not there", folder, pointer);
    TESS_CHECK(tess_folder_holds(folder, DCP_METADATA), TESS_E_UNSUPPORTED,
               "%s: it has no .metadata: of Megatron's checkpoints those of --dist-ckpt-format torch_dist are read",
               folder);
    return TESS_OK;
}

tess_status megatron_read_common(tess_catalog *catalog, const char *folder, int64_t iteration)
{
    torch_file file;
    char path[4096];
    int left = TORCH_META_VALUES;
    if (tess_folder_holds(folder, "common.pt")) {
        TESS_TRY(tess_os_join(path, sizeof(path), folder, "common.pt"));
        TESS_TRY(torch_open_file(catalog->mem, path, &file));
        /* All records, since the file is small and no catalog verifies its tensors later */
        tess_status status = torch_check_records(&file, true);
        json_t *common = torch_to_json(file.root, &left);
        if (json_is_object(common))
            json_object_update_missing(catalog->meta, common);
        json_decref(common);
        torch_close(&file);
        TESS_TRY_CTX(status, "%s", path);
    }
    if (iteration >= 0)
        json_object_set_new(catalog->meta, "iteration", json_integer(iteration));
    return TESS_OK;
}

tess_status tess_megatron_write(const tess_export *out, const char *folder, const tess_write_options *options)
{
    char name[64], path[4096], pointer[4096], text[32];
    TESS_CHECK(out->step >= 0, TESS_E_INVALID, "%s does not state its step, and Megatron's folders are named after it",
               out->catalog->path);
    snprintf(name, sizeof(name), MEGATRON_FOLDER, (long long)out->step);
    snprintf(text, sizeof(text), "%lld", (long long)out->step);
    TESS_TRY(tess_os_join(path, sizeof(path), folder, name));
    TESS_TRY(tess_os_join(pointer, sizeof(pointer), folder, MEGATRON_POINTER));
    TESS_TRY(tess_dcp_write(out, path, options));
    return tess_os_write_atomic(pointer, text, strlen(text));
}
