/* Zip archives: reading the directory of one that lies in memory, and writing one as a stream, as torch.save does.
 * Format: PKWARE's APPNOTE 6.3, sections 4.3 and 4.5.3. Readers treat the archive as hostile. */
#ifndef TESS_CKPT_FORMATS_ZIP_IMPL_H
#define TESS_CKPT_FORMATS_ZIP_IMPL_H

#include "tessera/memory.h"

typedef struct zip_entry {
    const char *name;
    uint64_t offset; /* of its data in the archive */
    uint64_t stored, bytes;
    uint32_t crc; /* of the unpacked bytes; 0: the writer did not compute it (or it is 0) */
    bool deflated;
} zip_entry;

typedef struct zip {
    tess_mem *mem;
    const uint8_t *data; /* borrowed */
    size_t size;
    size_t n;
    zip_entry *entries; /* by name */
    char *names;
} zip;

/* Reads the directory of the archive data[0, size). Every entry lies inside, is neither encrypted nor packed otherwise
 * than by deflate, and its name comes once. TESS_E_FORMAT, TESS_E_UNSUPPORTED; names of files are the caller's to add.
 */
tess_status zip_open(tess_mem *mem, const uint8_t *data, size_t size, zip *archive);
void zip_close(zip *archive);
const zip_entry *zip_find(const zip *archive, const char *name); /* NULL: none */

/* The bytes of an entry, checked against its CRC: *bytes points into the archive, or into *unpacked, which is the
 * caller's to free (NULL when nothing had to be unpacked). TESS_E_UNSUPPORTED: larger than `limit`. */
tess_status zip_load(const zip *archive, const zip_entry *entry, size_t limit, const uint8_t **bytes, void **unpacked);

#endif
