/* Reads zip archives: the directory at the end of an archive, and its entries, stored or deflated. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/mem/scoped.h"
#include "ckpt/formats/zip_impl.h"

enum {
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    CENTRAL_BYTES = 46,
    LOCAL_BYTES = 30,
    MAX_COMMENT = 65535,
    STORED = 0,
    DEFLATED = 8,
    ENCRYPTED = 1, /* a bit of the flags */
    ZIP64_EXTRA = 1
};

static uint64_t get(const uint8_t *bytes, int n)
{
    uint64_t value = 0;
    for (int i = n; i-- > 0;)
        value = value << 8 | bytes[i];
    return value;
}

/* Position and size of the directory, as the record at the end of the archive states them. */
typedef struct directory {
    uint64_t offset, bytes, n;
} directory;

static tess_status check_directory(const directory *dir, size_t end)
{
    TESS_CHECK(dir->offset <= end && dir->bytes <= end - dir->offset, TESS_E_FORMAT,
               "its directory should be at [%llu, +%llu), outside of it", (unsigned long long)dir->offset,
               (unsigned long long)dir->bytes);
    TESS_CHECK(dir->n <= dir->bytes / CENTRAL_BYTES, TESS_E_FORMAT, "a directory of %llu bytes for %llu entries",
               (unsigned long long)dir->bytes, (unsigned long long)dir->n);
    return TESS_OK;
}

static tess_status find_directory(const uint8_t *data, size_t size, directory *dir)
{
    TESS_CHECK(size >= END_BYTES, TESS_E_FORMAT, "%zu bytes are not a zip archive", size);
    size_t last = size - END_BYTES, first = last > MAX_COMMENT ? last - MAX_COMMENT : 0;
    for (size_t at = last + 1; at-- > first;) {
        if (memcmp(data + at, "PK\5\6", 4) != 0 || get(data + at + 20, 2) != size - at - END_BYTES)
            continue;
        if (at >= LOCATOR_BYTES && memcmp(data + at - LOCATOR_BYTES, "PK\6\7", 4) == 0) {
            /* The locator before the end record points to a zip64 end record. */
            size_t locator = at - LOCATOR_BYTES;
            uint64_t end = get(data + locator + 8, 8);
            TESS_CHECK(end <= locator && locator - end >= END64_BYTES && memcmp(data + end, "PK\6\6", 4) == 0,
                       TESS_E_FORMAT, "the zip64 end record should be at %llu, but is not", (unsigned long long)end);
            const uint8_t *record = data + end;
            *dir = (directory){.offset = get(record + 48, 8), .bytes = get(record + 40, 8), .n = get(record + 32, 8)};
            return check_directory(dir, end);
        }
        *dir =
            (directory){.offset = get(data + at + 16, 4), .bytes = get(data + at + 12, 4), .n = get(data + at + 10, 2)};
        return check_directory(dir, at);
    }
    return TESS_FAIL(TESS_E_FORMAT, "there is no zip directory at its end: it is cut off, or not a zip archive");
}

/* Reads the zip64 extra field. It contains, in this order, each value that does not fit 32 bits and is therefore all
 * ones in the record. */
static tess_status read_zip64(const uint8_t *extra, size_t n_extra, zip_entry *entry, uint64_t *header)
{
    uint64_t *values[] = {&entry->bytes, &entry->stored, header};
    for (size_t at = 0; at + 4 <= n_extra;) {
        size_t id = get(extra + at, 2), n = get(extra + at + 2, 2), used = 0;
        TESS_CHECK(n <= n_extra - at - 4, TESS_E_FORMAT, "an extra field of %zu bytes in %zu", n, n_extra - at - 4);
        for (size_t i = 0; id == ZIP64_EXTRA && i < 3; i++) {
            if (*values[i] != UINT32_MAX)
                continue;
            TESS_CHECK(n - used >= 8, TESS_E_FORMAT, "its zip64 field is cut off");
            *values[i] = get(extra + at + 4 + used, 8);
            used += 8;
        }
        if (id == ZIP64_EXTRA)
            return TESS_OK;
        at += 4 + n;
    }
    return TESS_OK;
}

/* Finds the entry's data. It begins after the local header, whose name and extra field may have any length. */
static tess_status locate(const zip *archive, uint64_t header, zip_entry *entry)
{
    TESS_CHECK(header <= archive->size && archive->size - header >= LOCAL_BYTES &&
                   memcmp(archive->data + header, "PK\3\4", 4) == 0,
               TESS_E_FORMAT, "its header should be at %llu, but is not", (unsigned long long)header);
    const uint8_t *local = archive->data + header;
    entry->offset = header + LOCAL_BYTES + get(local + 26, 2) + get(local + 28, 2);
    TESS_CHECK(entry->offset <= archive->size && entry->stored <= archive->size - entry->offset, TESS_E_FORMAT,
               "its bytes [%llu, +%llu) are outside of the archive's %zu", (unsigned long long)entry->offset,
               (unsigned long long)entry->stored, archive->size);
    return TESS_OK;
}

/* Reads one record of the directory, at most `left` bytes. *used: length of the record. */
static tess_status read_entry(const zip *archive, const uint8_t *record, size_t left, char **names, zip_entry *entry,
                              size_t *used)
{
    TESS_CHECK(left >= CENTRAL_BYTES && memcmp(record, "PK\1\2", 4) == 0, TESS_E_FORMAT,
               "it is not a directory record");
    size_t n_name = get(record + 28, 2), n_extra = get(record + 30, 2), n_comment = get(record + 32, 2);
    *used = CENTRAL_BYTES + n_name + n_extra + n_comment;
    TESS_CHECK(*used <= left, TESS_E_FORMAT, "the directory is cut off");
    TESS_CHECK(memchr(record + CENTRAL_BYTES, '\0', n_name) == NULL, TESS_E_FORMAT, "its name has a NUL in it");
    memcpy(*names, record + CENTRAL_BYTES, n_name);
    (*names)[n_name] = '\0';
    *entry = (zip_entry){.name = *names,
                         .crc = (uint32_t)get(record + 16, 4),
                         .stored = get(record + 20, 4),
                         .bytes = get(record + 24, 4),
                         .deflated = get(record + 10, 2) == DEFLATED};
    *names += n_name + 1;
    uint64_t header = get(record + 42, 4);
    TESS_TRY_CTX(read_zip64(record + CENTRAL_BYTES + n_name, n_extra, entry, &header), "'%s'", entry->name);
    TESS_CHECK((get(record + 8, 2) & ENCRYPTED) == 0, TESS_E_UNSUPPORTED, "'%s' is encrypted", entry->name);
    TESS_CHECK(entry->deflated || get(record + 10, 2) == STORED, TESS_E_UNSUPPORTED,
               "'%s' is packed by method %d: only deflate is read", entry->name, (int)get(record + 10, 2));
    TESS_CHECK(entry->deflated || entry->stored == entry->bytes, TESS_E_FORMAT,
               "'%s' is not packed, but has %llu bytes of %llu", entry->name, (unsigned long long)entry->stored,
               (unsigned long long)entry->bytes);
    TESS_TRY_CTX(locate(archive, header, entry), "'%s'", entry->name);
    return TESS_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const zip_entry *)a)->name, ((const zip_entry *)b)->name);
}

static tess_status read_entries(zip *archive, const directory *dir)
{
    char *names = archive->names;
    uint64_t at = dir->offset, end = dir->offset + dir->bytes, left = archive->size;
    for (size_t i = 0; i < dir->n; i++, archive->n++) {
        const zip_entry *entry = &archive->entries[i];
        size_t used = 0;
        TESS_TRY_CTX(read_entry(archive, archive->data + at, end - at, &names, &archive->entries[i], &used),
                     "entry %zu", i);
        TESS_CHECK(entry->stored <= left, TESS_E_FORMAT,
                   "'%s' shares bytes with other entries: all of them have more than the archive's %zu", entry->name,
                   archive->size);
        left -= entry->stored;
        at += used;
    }
    if (archive->n > 0)
        qsort(archive->entries, archive->n, sizeof(archive->entries[0]), by_name);
    for (size_t i = 1; i < archive->n; i++)
        TESS_CHECK(strcmp(archive->entries[i - 1].name, archive->entries[i].name) != 0, TESS_E_FORMAT,
                   "'%s' comes twice", archive->entries[i].name);
    return TESS_OK;
}

static tess_status read_directory(zip *archive)
{
    directory dir = {0};
    TESS_TRY(find_directory(archive->data, archive->size, &dir));
    /* The directory's size is enough for all names: a name and its NUL are shorter than its record. */
    TESS_TRY(TESS_NEW(archive->mem, dir.bytes, "names of a zip archive", &archive->names));
    TESS_TRY(TESS_NEW(archive->mem, dir.n, "entries of a zip archive", &archive->entries));
    return read_entries(archive, &dir);
}

tess_status zip_open(tess_mem *mem, const uint8_t *data, size_t size, zip *archive)
{
    *archive = (zip){.mem = mem, .data = data, .size = size};
    tess_status status = read_directory(archive);
    if (status != TESS_OK)
        zip_close(archive);
    return status;
}

void zip_close(zip *archive)
{
    if (archive->mem == NULL)
        return;
    tess_mem_free(archive->mem, archive->entries);
    tess_mem_free(archive->mem, archive->names);
    *archive = (zip){0};
}

const zip_entry *zip_find(const zip *archive, const char *name)
{
    zip_entry key = {.name = name};
    return archive->n == 0 ? NULL : bsearch(&key, archive->entries, archive->n, sizeof(key), by_name);
}

static tess_status inflate_entry(const uint8_t *packed, const zip_entry *entry, uint8_t *out)
{
    z_stream z = {
        .next_in = (Bytef *)packed, .avail_in = (uInt)entry->stored, .next_out = out, .avail_out = (uInt)entry->bytes};
    TESS_CHECK(inflateInit2(&z, -MAX_WBITS) == Z_OK, TESS_E_NOMEM, "no memory to unpack '%s'", entry->name);
    int result = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    TESS_CHECK(result != Z_MEM_ERROR, TESS_E_NOMEM, "no memory to unpack '%s'", entry->name);
    TESS_CHECK(result == Z_STREAM_END && z.avail_out == 0, TESS_E_FORMAT, "'%s' does not unpack to its %llu bytes",
               entry->name, (unsigned long long)entry->bytes);
    return TESS_OK;
}

static tess_status check_crc(const zip_entry *entry, const uint8_t *bytes)
{
    uint32_t crc = (uint32_t)crc32_z(0, bytes, entry->bytes);
    TESS_CHECK(entry->crc == 0 || crc == entry->crc, TESS_E_FORMAT,
               "'%s' is damaged: its CRC is %08x, the directory says %08x", entry->name, crc, entry->crc);
    return TESS_OK;
}

tess_status zip_load(const zip *archive, const zip_entry *entry, size_t limit, const uint8_t **bytes, void **unpacked)
{
    tess_status status = TESS_OK;
    *bytes = archive->data + entry->offset;
    *unpacked = NULL;
    TESS_CHECK(entry->bytes <= limit && entry->bytes <= INT32_MAX && entry->stored <= INT32_MAX, TESS_E_UNSUPPORTED,
               "'%s' has %llu bytes: too many", entry->name, (unsigned long long)entry->bytes);
    if (entry->deflated) {
        TESS_TRY(tess_mem_alloc(archive->mem, TESS_POOL_MISC, entry->bytes, "unpacked zip entry", unpacked));
        status = inflate_entry(*bytes, entry, *unpacked);
        *bytes = *unpacked;
    }
    if (status == TESS_OK)
        status = check_crc(entry, *bytes);
    if (status != TESS_OK)
        tess_mem_free(archive->mem, *unpacked);
    return status;
}

tess_status zip_check(const zip *archive, const zip_entry *entry, size_t limit)
{
    const uint8_t *bytes;
    void *unpacked;
    if (!entry->deflated)
        return check_crc(entry, archive->data + entry->offset);
    TESS_TRY(zip_load(archive, entry, limit, &bytes, &unpacked));
    tess_mem_free(archive->mem, unpacked);
    return TESS_OK;
}
