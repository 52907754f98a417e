/* Zip archives: reads the directory of one in memory, and writes one as a stream, as torch.save does. Format: PKWARE's
 * APPNOTE 6.3, sections 4.3 and 4.5.3. The reader treats the archive as hostile. */
#ifndef TESS_CKPT_FORMATS_ZIP_IMPL_H
#define TESS_CKPT_FORMATS_ZIP_IMPL_H

#include "base/text/text.h"

typedef struct zip_entry {
    const char *name;
    uint64_t offset; /* offset of its data in the archive */
    uint64_t stored, bytes;
    uint32_t crc; /* checksum of the unpacked bytes; 0: the writer did not compute it (or it is 0) */
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

/* Reads the directory of the archive data[0, size). Every entry lies inside the archive, has a name of its own, is not
 * encrypted, and is packed by deflate or not at all. All entries together have no more bytes than the archive, so that
 * reading each of them is linear work. TESS_E_FORMAT, TESS_E_UNSUPPORTED; the caller adds the file name. */
tess_status zip_open(tess_mem *mem, const uint8_t *data, size_t size, zip *archive);
void zip_close(zip *archive);
const zip_entry *zip_find(const zip *archive, const char *name); /* NULL: no such entry */

/* Returns the bytes of an entry, checked against its CRC. *bytes points into the archive, or into *unpacked, which the
 * caller frees (NULL if the entry was not packed). TESS_E_UNSUPPORTED: larger than `limit`. */
tess_status zip_load(const zip *archive, const zip_entry *entry, size_t limit, const uint8_t **bytes, void **unpacked);
/* Checks the bytes of an entry against its CRC. TESS_E_UNSUPPORTED: packed, and larger than `limit`. */
tess_status zip_check(const zip *archive, const zip_entry *entry, size_t limit);

/* ---- zip_write.c ---- */
/* A file that is written from begin to end. */
typedef struct output {
    char path[4096];
    int fd;
    uint64_t at;        /* bytes so far */
    tess_buffer buffer; /* those not written yet */
} output;

tess_status output_create(tess_mem *mem, const char *path, output *out);
tess_status output_write(output *out, const void *data, size_t size);
/* Writes what is buffered, syncs, closes; after a failure (`status`) only closes. Returns the first failure. */
tess_status output_finish(output *out, tess_status status);

/* Writes entries one after the other, each in any number of writes, none packed. Data begins at a multiple of 64 bytes
 * in the archive, as with torch.save, so that it can be mapped. */
typedef struct zip_written {
    char name[64];
    uint64_t header, bytes; /* header: its offset in the archive */
    uint32_t crc;
} zip_written;

typedef struct zip_writer {
    output *out;
    uint64_t begin; /* offset of the archive in its file */
    zip_written *entries;
    size_t n, room;
    uint64_t left; /* bytes that the current entry still needs */
} zip_writer;

void zip_writer_begin(output *out, zip_writer *writer);
/* Begins an entry. `bytes` of data must follow, by zip_writer_data. A name has at most 63 bytes. */
tess_status zip_writer_entry(zip_writer *writer, const char *name, uint64_t bytes);
tess_status zip_writer_data(zip_writer *writer, const void *data, size_t size);
tess_status zip_writer_add(zip_writer *writer, const char *name, const void *data, size_t size); /* both */
/* Writes the directory and frees the writer's memory. After a failure, zip_writer_drop frees it. */
tess_status zip_writer_end(zip_writer *writer);
void zip_writer_drop(zip_writer *writer);

#endif
