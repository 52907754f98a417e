/* Zip archives: reads the directory of an archive in memory, and writes an archive as a stream, as torch.save does. The
 * format is described in PKWARE's APPNOTE 6.3, sections 4.3 and 4.5.3. The reader does not trust the archive. */
#ifndef TESS_CKPT_FORMATS_ZIP_IMPL_H
#define TESS_CKPT_FORMATS_ZIP_IMPL_H

#include "base/text/text.h"

typedef struct zip_entry {
    const char *name;
    uint64_t offset; /* offset of its data in the archive */
    uint64_t stored, bytes;
    uint32_t crc; /* checksum of the unpacked bytes; 0: the writer did not compute it, or it happens to be 0 */
    bool deflated;
} zip_entry;

typedef struct zip {
    tess_mem *mem;
    const uint8_t *data; /* borrowed */
    size_t size;
    size_t n;
    zip_entry *entries; /* sorted by name */
    char *names;
} zip;

/* Reads the directory of the archive data[0, size). Checks that every entry is inside the archive, has a unique name,
 * is not encrypted, and is either stored or deflated. All entries together must not have more bytes than the archive,
 * so that reading each of them is linear work. TESS_E_FORMAT, TESS_E_UNSUPPORTED; the caller adds the file name. */
tess_status zip_open(tess_mem *mem, const uint8_t *data, size_t size, zip *archive);
void zip_close(zip *archive);
const zip_entry *zip_find(const zip *archive, const char *name); /* NULL: no such entry */

/* Returns the bytes of an entry after checking its CRC. *bytes points into the archive or into *unpacked, which the
 * caller frees (NULL if the entry was not packed). TESS_E_UNSUPPORTED: the entry is larger than `limit`. */
tess_status zip_load(const zip *archive, const zip_entry *entry, size_t limit, const uint8_t **bytes, void **unpacked);
/* Checks the CRC of an entry's bytes. TESS_E_UNSUPPORTED: the entry is packed and larger than `limit`. */
tess_status zip_check(const zip *archive, const zip_entry *entry, size_t limit);

/* ---- zip_write.c ---- */
/* A file that is written sequentially. */
typedef struct output {
    char path[4096];
    int fd;
    uint64_t at;        /* number of bytes so far */
    tess_buffer buffer; /* the bytes that are not written yet */
} output;

tess_status output_create(tess_mem *mem, const char *path, output *out);
/* Writes what is buffered, syncs and closes the file. After a failure (`status`) only closes it. Returns the first
 * failure. */
tess_status output_finish(output *out, tess_status status);

/* An entry that was written. Entries follow each other; each is written in any number of calls, and none is packed.
 * Data begins at a multiple of 64 bytes in the archive, as with torch.save, so that it can be mapped. */
typedef struct zip_written {
    char name[64];
    uint64_t header, bytes; /* header: offset of the entry's header in the archive */
    uint32_t crc;
} zip_written;

typedef struct zip_writer {
    output *out;
    uint64_t begin; /* offset of the archive in its file */
    zip_written *entries;
    size_t n, room;
    uint64_t left; /* number of bytes that the current entry still needs */
} zip_writer;

/* Begins an entry with a name of at most 63 bytes. The caller must then pass exactly `bytes` bytes to
 * zip_writer_data. */
tess_status zip_writer_entry(zip_writer *writer, const char *name, uint64_t bytes);
tess_status zip_writer_data(zip_writer *writer, const void *data, size_t size);
/* Begins an entry and writes its data */
tess_status zip_writer_add(zip_writer *writer, const char *name, const void *data, size_t size);
/* Writes the directory and frees the writer's memory. After a failure, drop writer->entries. */
tess_status zip_writer_end(zip_writer *writer);

#endif
