/* Completes a folder from the parts of all writers: writes manifest and marker. show.c then gives the folder its
 * name. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/text/json.h"
#include "ckpt/store/part.h"
#include "ckpt/store/store_impl.h"

tess_status tess_store_begin(const tess_io *io, const char *dir, int64_t step, char folder[TESS_CKPT_PATH])
{
    TESS_TRY(tess_ckpt_folder(dir, step, TESS_CKPT_TEMPORARY, folder));
    TESS_TRY(tess_os_make_dirs(dir));
    TESS_TRY(tess_store_sweep(io, dir, step, TESS_SAVE_CLEAR));
    return tess_io_make_folder(io, folder);
}

/* ---- Manifest and marker ---- */
json_t *tess_store_describe_host(const tess_ckpt_hosts *hosts)
{
    json_t *names = json_array();
    for (int host = 0; host < hosts->n; host++) {
        char text[TESS_CKPT_HOST_TEXT];
        json_array_append_new(names, tess_json_text(tess_ckpt_hosts_format(hosts, host, text)));
    }
    return json_pack("{s:i, s:o}", "number", hosts->host, "of", names);
}

size_t tess_store_format_marker(int64_t step, size_t bytes, uint64_t xxh3, char text[TESS_STORE_MARKER_BYTES])
{
    int n = snprintf(text, TESS_STORE_MARKER_BYTES,
                     "{\"format\": %d, \"step\": %" PRId64 ", \"manifest_bytes\": %zu, \"manifest_xxh3\": \"%016" PRIx64
                     "\"}\n",
                     TESS_STORE_FORMAT, step, bytes, xxh3);
    return (size_t)n;
}

/* Writes the manifest, then the marker with the manifest's checksum. */
static tess_status write_manifest(const tess_io *io, const char *folder, int64_t step, const char *manifest)
{
    char path[TESS_CKPT_PATH], marker[TESS_STORE_MARKER_BYTES];
    size_t size = strlen(manifest), n = tess_store_format_marker(step, size, XXH3_64bits(manifest, size), marker);
    TESS_TRY(tess_os_join(path, sizeof(path), folder, TESS_STORE_MANIFEST));
    TESS_TRY(tess_io_write_file(io, TESS_SAVE_WRITE_MANIFEST, path, manifest, size));
    TESS_TRY(tess_os_join(path, sizeof(path), folder, TESS_STORE_MARKER));
    TESS_TRY(tess_io_write_file(io, TESS_SAVE_WRITE_MARKER, path, marker, n));
    return tess_io_sync_folder(io, TESS_SAVE_SYNC_FOLDER, folder);
}

static tess_status seal(const tess_io *io, const char *folder, int64_t step, const json_t *all,
                        const tess_store_facts *facts)
{
    TESS_AUTO(tess_malloc_drop) char *text = NULL;
    json_auto_t *manifest = json_pack(
        "{s:i, s:I, s:s, s:i, s:O, s:O, s:O*, s:O*}", "format", TESS_STORE_FORMAT, "step", (json_int_t)step, "version",
        TESS_VERSION, "world_size", facts->world_size, "files", json_object_get(all, "files"), "tensors",
        json_object_get(all, "tensors"), "meta", (json_t *)facts->meta, "host", (json_t *)facts->host);
    TESS_TRY(tess_part_format(manifest, &text));
    return write_manifest(io, folder, step, text);
}

tess_status tess_store_seal(const tess_io *io, const char *dir, int64_t step, json_t *const *parts, int n_parts,
                            const tess_store_facts *facts)
{
    char folder[TESS_CKPT_PATH];
    json_auto_t *all = NULL;
    TESS_TRY(tess_ckpt_folder(dir, step, TESS_CKPT_TEMPORARY, folder));
    TESS_TRY(tess_part_create(&all));
    for (int i = 0; i < n_parts; i++)
        TESS_TRY(tess_part_merge(all, parts[i]));
    if (facts->host == NULL)
        TESS_TRY(tess_part_check_complete(all));
    return seal(io, folder, step, all, facts);
}

tess_status tess_store_commit(const tess_io *io, const char *dir, int64_t step, json_t *const *parts, int n_parts,
                              const tess_store_facts *facts)
{
    TESS_TRY(tess_store_seal(io, dir, step, parts, n_parts, facts));
    return tess_store_show(io, dir, step);
}
