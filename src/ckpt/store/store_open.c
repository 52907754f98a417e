/* Checks whether a folder is a complete checkpoint, by its marker, its manifest's checksum and its files' sizes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/text/json.h"
#include "ckpt/store/store_impl.h"

static const size_t manifest_limit = (size_t)1 << 30;

typedef struct marker {
    int64_t step, manifest_bytes;
    uint64_t manifest_xxh3;
} marker;

static tess_status get_marker(const char *folder, int64_t step, const json_t *json, marker *m)
{
    int64_t format = -1;
    const char *sum = NULL;
    *m = (marker){.step = -1, .manifest_bytes = -1};
    TESS_TRY(tess_json_get_int(json, "format", folder, &format));
    TESS_CHECK(format > 0, TESS_E_FORMAT, "%s/" TESS_STORE_MARKER ": no 'format'", folder);
    TESS_CHECK(format <= TESS_STORE_FORMAT, TESS_E_UNSUPPORTED,
               "%s: format %" PRId64 " is newer than this version's %d: resume it with the version that wrote it",
               folder, format, TESS_STORE_FORMAT);
    TESS_TRY(tess_json_get_int(json, "step", folder, &m->step));
    TESS_TRY(tess_json_get_int(json, "manifest_bytes", folder, &m->manifest_bytes));
    TESS_TRY(tess_json_get_string(json, "manifest_xxh3", folder, &sum));
    TESS_CHECK(m->step == step || step == TESS_STORE_ANY_STEP, TESS_E_FORMAT,
               "%s/" TESS_STORE_MARKER " says step %" PRId64 ": the folder was renamed, its name says step %" PRId64
               "; name it step-%08" PRId64 " again",
               folder, m->step, step, m->step);
    TESS_CHECK(sum != NULL && strlen(sum) == 16, TESS_E_FORMAT, "%s/" TESS_STORE_MARKER ": no checksum of the manifest",
               folder);
    m->manifest_xxh3 = strtoull(sum, NULL, 16);
    return TESS_OK;
}

/* Parses the marker. Every byte of it must be as written: a JSON parser would ignore a changed byte between tokens. */
static tess_status parse_marker(const char *folder, int64_t step, const char *path, const char *text, size_t size,
                                marker *m)
{
    char written[TESS_STORE_MARKER_BYTES];
    json_t *json;
    TESS_CHECK(size > 0, TESS_E_FORMAT, "%s has no bytes: it is damaged", path);
    TESS_TRY(tess_json_parse(text, size, path, true, &json));
    tess_status status = get_marker(folder, step, json, m);
    json_decref(json);
    TESS_TRY(status);
    size_t n = tess_store_format_marker(m->step, (size_t)m->manifest_bytes, m->manifest_xxh3, written);
    TESS_CHECK(size == n && memcmp(text, written, n) == 0, TESS_E_FORMAT, "%s is damaged: it is not what a save writes",
               path);
    return TESS_OK;
}

/* Checks that marker and manifest state the same: both come from one save. */
static tess_status check_manifest(const char *path, const marker *m, const json_t *manifest)
{
    int64_t format = -1, step = -1;
    TESS_TRY(tess_json_get_int(manifest, "format", path, &format));
    TESS_TRY(tess_json_get_int(manifest, "step", path, &step));
    TESS_CHECK(format == TESS_STORE_FORMAT, TESS_E_FORMAT,
               "%s says format %" PRId64 ", " TESS_STORE_MARKER " beside it %d: they are not of one save; copy the "
               "folder anew from where it comes from, or take another step",
               path, format, TESS_STORE_FORMAT);
    TESS_CHECK(step == m->step, TESS_E_FORMAT,
               "%s says step %" PRId64 ", " TESS_STORE_MARKER " beside it %" PRId64
               ": they are not of one save; copy the folder anew from where it comes from, or take another step",
               path, step, m->step);
    return TESS_OK;
}

/* Reads the manifest. If its size and checksum are those in the marker, its content is as it was written. */
static tess_status read_manifest(const tess_io *io, const char *folder, const marker *m, json_t **manifest)
{
    char path[TESS_CKPT_PATH], *text;
    size_t size;
    TESS_TRY(tess_os_join(path, sizeof(path), folder, TESS_STORE_MANIFEST));
    TESS_TRY(tess_io_read(io, path, manifest_limit, &text, &size));
    tess_status status;
    if ((json_int_t)size != m->manifest_bytes)
        status = TESS_FAIL(TESS_E_FORMAT, "%s has %zu bytes, not the %" PRId64 " of its save", path, size,
                           m->manifest_bytes);
    else if (XXH3_64bits(text, size) != m->manifest_xxh3)
        status =
            TESS_FAIL(TESS_E_FORMAT, "%s does not have the checksum of its save: the disk or a copy damaged it", path);
    else
        status = tess_json_parse(text, size, path, true, manifest);
    free(text);
    if (status == TESS_OK)
        status = check_manifest(path, m, *manifest);
    return status;
}

static tess_status check_file(const tess_io *io, const char *folder, const char *name, const json_t *bytes)
{
    char path[TESS_CKPT_PATH];
    tess_os_entry entry;
    TESS_CHECK(name[0] != '\0' && strchr(name, '/') == NULL, TESS_E_FORMAT,
               "%s/" TESS_STORE_MANIFEST ": file '%s' lies elsewhere", folder, name);
    TESS_TRY(tess_os_join(path, sizeof(path), folder, name));
    TESS_TRY(tess_io_look_up(io, path, &entry));
    TESS_CHECK(entry.kind == TESS_OS_FILE, TESS_E_FORMAT, "%s is missing", path);
    TESS_CHECK(json_is_integer(bytes) && (json_int_t)entry.bytes == json_integer_value(bytes), TESS_E_FORMAT,
               "%s has %" PRIu64 " bytes, not the %lld of its save", path, entry.bytes,
               (long long)json_integer_value(bytes));
    return TESS_OK;
}

static tess_status check_files(const tess_io *io, const char *folder, const json_t *manifest)
{
    const char *name;
    json_t *bytes;
    const json_t *files = json_object_get(manifest, "files");
    TESS_CHECK(json_is_object(files), TESS_E_FORMAT, "%s/" TESS_STORE_MANIFEST ": no object 'files'", folder);
    json_object_foreach ((json_t *)files, name, bytes)
        TESS_TRY(check_file(io, folder, name, bytes));
    return TESS_OK;
}

/* Fails for checkpoints of formats 1 and 2, which have no marker. They must not be mistaken for unfinished ones, or
 * their work would be lost silently. */
static tess_status refuse_old(const tess_io *io, const char *folder)
{
    char path[TESS_CKPT_PATH];
    tess_os_entry entry;
    TESS_TRY(tess_os_join(path, sizeof(path), folder, "meta.json"));
    TESS_TRY(tess_io_look_up(io, path, &entry));
    TESS_CHECK(
        entry.kind != TESS_OS_FILE, TESS_E_UNSUPPORTED,
        "%s is of the format before %d (safetensors and meta.json), which this version does not read: export its "
        "weights with the version that wrote it, or start anew with checkpoint.resume=false",
        folder, TESS_STORE_FORMAT);
    return TESS_FAIL(TESS_E_FORMAT,
                     "%s has no " TESS_STORE_MARKER ": its save was never finished, or it was removed since", folder);
}

tess_status tess_store_look(const tess_io *io, const char *folder, int64_t step, json_t **manifest)
{
    char path[TESS_CKPT_PATH], *text;
    size_t size;
    tess_os_entry entry;
    marker m;
    *manifest = NULL;
    TESS_TRY(tess_io_look_up(io, folder, &entry));
    TESS_CHECK(entry.kind == TESS_OS_FOLDER, TESS_E_NOT_FOUND, "%s: no such checkpoint", folder);
    TESS_TRY(tess_os_join(path, sizeof(path), folder, TESS_STORE_MARKER));
    TESS_TRY(tess_io_look_up(io, path, &entry));
    if (entry.kind != TESS_OS_FILE)
        return refuse_old(io, folder);
    TESS_TRY(tess_io_read(io, path, TESS_STORE_MARKER_BYTES - 1, &text, &size));
    tess_status status = parse_marker(folder, step, path, text, size, &m);
    free(text);
    TESS_TRY(status);
    status = read_manifest(io, folder, &m, manifest);
    if (status == TESS_OK)
        status = check_files(io, folder, *manifest);
    if (status != TESS_OK) {
        json_decref(*manifest);
        *manifest = NULL;
    }
    return status;
}

tess_status tess_store_open_manifest(const char *folder, int64_t step, json_t **manifest)
{
    return tess_store_look(NULL, folder, step, manifest);
}
