/* Remembers in the run's own folder which checkpoint a program has stored last. So a run that starts again does not
 * give it the same one again. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/rng.h"
#include "ckpt/store/copies_impl.h"
#include "ckpt/store/store_impl.h"

enum { RECORD_BYTES = 256 };

/* Describes the checkpoint in `folder` and the program: the marker has the checksum of the manifest, which has those of
 * all pieces. Returns false if there is no marker. */
static bool describe(const tess_ckpt_place *place, const char *folder, int64_t step, char record[RECORD_BYTES])
{
    char path[TESS_CKPT_PATH], name[COPY_NAME], *marker = NULL;
    size_t size = 0;
    bool known = tess_os_join(path, sizeof(path), folder, TESS_STORE_MARKER) == TESS_OK &&
                 tess_io_read(NULL, path, TESS_STORE_MARKER_BYTES, &marker, &size) == TESS_OK;
    uint64_t hash = known ? tess_hash_bytes(marker, size, 0) : 0;
    for (int i = 0; i < place->n_words; i++)
        hash = tess_hash_bytes(place->command[i], strlen(place->command[i]) + 1, hash);
    free(marker);
    tess_error_clear();
    copy_name(step, name);
    snprintf(record, RECORD_BYTES, "%s %016" PRIx64 "%s\n", name, hash, place->trusts_command ? "" : " read back");
    return known;
}

static tess_status find(const char *dir, const char *scratch, char path[TESS_CKPT_PATH])
{
    char name[COPY_NAME + 16];
    snprintf(name, sizeof(name), "%.60s.stored", scratch);
    return tess_os_join(path, TESS_CKPT_PATH, dir, name);
}

bool copy_record_has(const tess_ckpt_place *place, const char *dir, const char *scratch, const char *folder,
                     int64_t step)
{
    char path[TESS_CKPT_PATH], record[RECORD_BYTES], *text = NULL;
    size_t size = 0;
    bool same = describe(place, folder, step, record) && find(dir, scratch, path) == TESS_OK &&
                tess_io_read(NULL, path, RECORD_BYTES, &text, &size) == TESS_OK && size == strlen(record) &&
                memcmp(text, record, size) == 0;
    free(text);
    tess_error_clear();
    return same;
}

void copy_record_write(const tess_ckpt_place *place, const char *dir, const char *scratch, const char *folder,
                       int64_t step)
{
    char path[TESS_CKPT_PATH], record[RECORD_BYTES];
    if (describe(place, folder, step, record) && find(dir, scratch, path) == TESS_OK)
        (void)tess_os_write_atomic(path, record, strlen(record)); /* if this fails, the copy is made once more */
    tess_error_clear();
}
