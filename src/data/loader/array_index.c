#include "data/loader/array_index.h"

#include "base/mem/make_room.h"
#include "base/os/os.h"
#include "data/loader/document.h"

enum { CHUNK = 64 << 10 };

/* A reader of the file that starts at a cut. */
typedef struct array_reader {
    int fd;
    const char *path;
    uint64_t size, at;     /* size of the file, offset of the next byte to scan */
    uint64_t begin, ahead; /* offset of the chunk in memory, and its number of bytes */
    tess_array_scan scan;
    char chunk[CHUNK];
} array_reader;

/* Moves `at` to the next cut; *found is false at the end of the file. */
static tess_status next_cut(array_reader *r, bool *found)
{
    size_t taken;
    for (*found = false; !*found && r->at < r->size; r->at += taken) {
        if (r->at >= r->begin + r->ahead) {
            r->begin = r->at;
            r->ahead = r->size - r->at < CHUNK ? r->size - r->at : CHUNK;
            TESS_TRY(tess_os_read_at(r->fd, r->at, r->chunk, (size_t)r->ahead, r->path));
        }
        size_t from = (size_t)(r->at - r->begin);
        tess_status status = tess_array_scan_go(&r->scan, r->chunk + from, (size_t)r->ahead - from, &taken, found);
        if (status != TESS_OK)
            r->at += taken;
        TESS_TRY(status);
    }
    return TESS_OK;
}

static tess_status add_cut(tess_array_index *index, uint64_t cut)
{
    TESS_TRY(tess_mem_reserve(index->mem, TESS_POOL_MISC, index->n + 1, sizeof(uint64_t), "a JSON array's index",
                              &index->capacity, &index->cuts));
    index->cuts[index->n++] = cut;
    return TESS_OK;
}

static tess_status make(tess_array_index *index, array_reader *r)
{
    uint64_t last = 0;
    for (bool found = true; found; last = r->at) {
        TESS_TRY(next_cut(r, &found));
        TESS_CHECK(r->at - last <= TESS_LINE_BYTES, TESS_E_FORMAT,
                   "an element has %llu bytes, at most %d MiB are read: split the document",
                   (unsigned long long)(r->at - last), TESS_LINE_BYTES >> 20);
        while (found && r->at >= index->n * TESS_BLOCK_BYTES)
            TESS_TRY(add_cut(index, r->at));
    }
    return tess_array_scan_end(&r->scan);
}

tess_status tess_array_index_make(tess_array_index *index, int fd, const char *path, uint64_t size, uint64_t *at)
{
    array_reader r = {.fd = fd, .path = path, .size = size};
    tess_status status = make(index, &r);
    *at = r.at;
    return status;
}

tess_status tess_array_index_find(const tess_array_index *index, int fd, const char *path, uint64_t size, uint64_t x,
                                  uint64_t *at)
{
    uint64_t j = x / TESS_BLOCK_BYTES;
    *at = size;
    if (j >= index->n)
        return TESS_OK;
    array_reader r = {.fd = fd, .path = path, .size = size, .at = index->cuts[j], .scan.state = TESS_ARRAY_NEXT};
    for (bool found = true; r.at < x && found;)
        TESS_TRY(next_cut(&r, &found));
    *at = r.at;
    return TESS_OK;
}

void tess_array_index_free(tess_array_index *index)
{
    tess_mem_free(index->mem, index->cuts);
    *index = (tess_array_index){.mem = index->mem};
}
