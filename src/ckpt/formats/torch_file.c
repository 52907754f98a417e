/* Opens files of torch.save: a zip archive with a pickle and the storages of its tensors. */
#include <string.h>

#include "ckpt/formats/torch_impl.h"

enum { MAX_PICKLE = 1 << 30, MAX_BYTEORDER = 16 };

/* Finds the folder in the archive that contains all entries. It has the name of the file: "R/data.pkl". */
static tess_status find_prefix(torch_file *file)
{
    static const char pickle[] = "/data.pkl";
    for (size_t i = 0; i < file->archive.n; i++) {
        const char *name = file->archive.entries[i].name, *slash = strchr(name, '/');
        if (slash == NULL || strcmp(slash, pickle) != 0 || slash - name + 2 > (ptrdiff_t)sizeof(file->prefix))
            continue;
        memcpy(file->prefix, name, (size_t)(slash - name + 1));
        return TESS_OK;
    }
    return TESS_FAIL(TESS_E_FORMAT, "the zip archive has no NAME/data.pkl: it was not written by torch.save");
}

static const zip_entry *find_record(const torch_file *file, const char *name)
{
    char path[512];
    snprintf(path, sizeof(path), "%s%s", file->prefix, name);
    return zip_find(&file->archive, path);
}

static tess_status check_byteorder(const torch_file *file)
{
    const uint8_t *bytes;
    void *unpacked;
    const zip_entry *entry = find_record(file, "byteorder");
    if (entry == NULL)
        return TESS_OK;
    TESS_TRY(zip_load(&file->archive, entry, MAX_BYTEORDER, &bytes, &unpacked));
    bool little = entry->bytes == 6 && memcmp(bytes, "little", 6) == 0;
    tess_mem_free(file->mem, unpacked);
    TESS_CHECK(little, TESS_E_UNSUPPORTED, "its numbers are not little-endian");
    return TESS_OK;
}

static bool is_storage(const torch_file *file, const zip_entry *entry)
{
    size_t n = strlen(file->prefix);
    return strncmp(entry->name, file->prefix, n) == 0 && strncmp(entry->name + n, "data/", 5) == 0;
}

tess_status torch_check_records(const torch_file *file, bool storages)
{
    for (size_t i = 0; i < file->archive.n; i++)
        if (is_storage(file, &file->archive.entries[i]) == storages)
            TESS_TRY(zip_check(&file->archive, &file->archive.entries[i], MAX_PICKLE));
    return TESS_OK;
}

tess_status torch_add_ranges(const torch_source *from)
{
    const zip *archive = &from->file->archive;
    for (size_t i = 0; i < archive->n; i++) {
        const zip_entry *entry = &archive->entries[i];
        const tess_catalog_range range = {.file = from->catalog_file,
                                          .rank = from->rank,
                                          .offset = from->file->base + entry->offset,
                                          .bytes = entry->bytes,
                                          .sum = entry->crc,
                                          .sum_kind = TESS_SUM_KIND_CRC32};
        if (is_storage(from->file, entry) && !entry->deflated && entry->crc != 0)
            TESS_TRY(tess_catalog_add_range(from->catalog, &range));
    }
    return TESS_OK;
}

static tess_status read_pickle(torch_file *file)
{
    const uint8_t *bytes;
    void *unpacked;
    const zip_entry *entry = find_record(file, "data.pkl");
    TESS_TRY(zip_load(&file->archive, entry, MAX_PICKLE, &bytes, &unpacked));
    tess_status status = tess_pickle_parse(file->mem, bytes, entry->bytes, entry->name, NULL, &file->pickle);
    tess_mem_free(file->mem, unpacked);
    if (status == TESS_OK)
        file->root = tess_pickle_root(file->pickle);
    return status;
}

static tess_status open_archive(torch_file *file, const uint8_t *data, size_t size)
{
    TESS_TRY(zip_open(file->mem, data, size, &file->archive));
    TESS_TRY(find_prefix(file));
    TESS_TRY(torch_check_records(file, false));
    TESS_TRY(check_byteorder(file));
    return read_pickle(file);
}

tess_status torch_open_slice(tess_mem *mem, const char *path, const uint8_t *data, size_t size, uint64_t base,
                             torch_file *file)
{
    *file = (torch_file){.mem = mem, .path = path, .base = base};
    tess_status status = open_archive(file, data, size);
    if (status != TESS_OK)
        torch_close(file);
    return status;
}

/* Whether torch.save wrote the file before it used zip archives. It wrote a sequence of pickles then, the first one a
 * magic number; still earlier, a tar file. */
static bool is_old(const tess_mapping *mapping)
{
    static const uint8_t magic[] = {0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};
    if (mapping->size >= 2 + sizeof(magic) && mapping->data[0] == 0x80 &&
        memcmp(mapping->data + 2, magic, sizeof(magic)) == 0)
        return true;
    return mapping->size >= 512 && memcmp(mapping->data + 257, "ustar", 5) == 0;
}

tess_status torch_open_file(tess_mem *mem, const char *path, torch_file *file)
{
    *file = (torch_file){.mem = mem, .path = path};
    TESS_TRY(tess_os_map(path, &file->mapping));
    tess_status status =
        is_old(&file->mapping)
            ? TESS_FAIL(TESS_E_UNSUPPORTED,
                        "written as PyTorch did before version 1.6: load it with torch.load and save it again")
            : open_archive(file, file->mapping.data, file->mapping.size);
    if (status != TESS_OK) {
        torch_close(file);
        tess_fail_context(status, "%s", path);
    }
    return status;
}

void torch_close(torch_file *file)
{
    if (file->mem == NULL)
        return;
    tess_pickle_destroy(&file->pickle);
    zip_close(&file->archive);
    tess_os_unmap(&file->mapping);
    *file = (torch_file){0};
}

bool torch_looks_like_archive(const char *path)
{
    tess_mapping mapping;
    if (!tess_os_is_file(path) || tess_os_map(path, &mapping) != TESS_OK)
        return false;
    bool is = (mapping.size >= 4 && memcmp(mapping.data, "PK\3\4", 4) == 0) || is_old(&mapping);
    tess_os_unmap(&mapping);
    return is;
}
