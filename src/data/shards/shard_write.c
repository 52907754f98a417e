#define XXH_INLINE_ALL
#include <xxhash.h>

#include "data/shards/shard_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem/make_room.h"
#include "base/os/os.h"
#include "data/shards/token_shard_impl.h"

struct tess_token_shard_writer {
    tess_mem *mem;
    char path[TESS_SHARD_PATH], partial[TESS_SHARD_PATH];
    int fd;
    shard_header header;
    shard_index *index; /* index entries of the blocks written */
    size_t n_blocks, capacity;
    uint64_t at, n_tokens, n_documents;
    uint32_t max_id;
    tess_buffer bytes; /* the bytes of one block */
};

/* ---- Resuming ---- */
static tess_status add_entry(tess_token_shard_writer *w, const shard_block *head)
{
    TESS_TRY(tess_mem_reserve(w->mem, TESS_POOL_MISC, w->n_blocks + 1, sizeof(shard_index), "index of a shard",
                              &w->capacity, &w->index));
    w->index[w->n_blocks++] = (shard_index){w->at, w->n_tokens, head->hash};
    w->at += shard_block_bytes(head, w->header.width);
    w->n_tokens += head->n_tokens;
    w->n_documents += head->n_documents;
    w->max_id = head->max_id > w->max_id ? head->max_id : w->max_id;
    return TESS_OK;
}

/* Reads the complete blocks that a killed writer has left. */
static tess_status take_blocks(tess_token_shard_writer *w, const tess_mapping *file, tess_token_shard_place *place)
{
    while (file->size - w->at >= sizeof(shard_block)) {
        shard_block head;
        memcpy(&head, file->data + w->at, sizeof(head));
        uint64_t bytes = shard_block_bytes(&head, w->header.width);
        if (head.magic != TESS_SHARD_BLOCK_MAGIC || bytes > file->size - w->at ||
            XXH3_64bits(file->data + w->at + 8, bytes - 8) != head.hash)
            return TESS_OK;
        *place = (tess_token_shard_place){head.source, head.source == place->source ? place->n_blocks + 1 : 1,
                                          head.source_at};
        TESS_TRY(add_entry(w, &head));
    }
    return TESS_OK;
}

static tess_status go_on(tess_token_shard_writer *w, tess_token_shard_place *place)
{
    TESS_AUTO(tess_os_unmap) tess_mapping file = {0};
    TESS_TRY(tess_os_map(w->partial, &file));
    if (file.size < sizeof(shard_header))
        return TESS_OK;
    TESS_CHECK(memcmp(file.data, &w->header, sizeof(w->header)) == 0, TESS_E_INVALID,
               "%s: what was begun there is of other text, options or another tokenizer: remove it, or name another "
               "file",
               w->partial);
    return take_blocks(w, &file, place);
}

static tess_status open_file(tess_token_shard_writer *w, tess_token_shard_place *place)
{
    TESS_CHECK(!tess_os_is_file(w->path) && !tess_os_is_dir(w->path), TESS_E_INVALID,
               "%s: it is there already: remove it, or name another file", w->path);
    bool is_there = tess_os_is_file(w->partial);
    if (!is_there)
        TESS_TRY(tess_os_create(w->partial, 0));
    TESS_TRY(tess_os_open(w->partial, &w->fd));
    TESS_CHECK(tess_os_lock(w->fd), TESS_E_INVALID, "%s: another process is writing it", w->partial);
    w->at = sizeof(w->header);
    return is_there ? go_on(w, place) : TESS_OK;
}

tess_status tess_token_shard_writer_open(tess_mem *mem, const char *path, const tess_tokenizer *tokenizer,
                                         uint64_t source, tess_token_shard_writer **out, tess_token_shard_place *place)
{
    TESS_AUTO(tess_token_shard_writer_close) tess_token_shard_writer *w = NULL;
    *out = NULL;
    *place = (tess_token_shard_place){0};
    TESS_TRY(TESS_NEW(mem, 1, "shard", &w));
    uint64_t vocab_size = (uint64_t)tess_tokenizer_vocab_size(tokenizer);
    *w = (tess_token_shard_writer){.mem = mem, .fd = -1, .bytes = {.mem = mem}};
    w->header = (shard_header){.magic = TESS_SHARD_MAGIC,
                               .version = TESS_SHARD_VERSION,
                               .width = vocab_size <= 1 << 16 ? 2 : 4,
                               .vocab_size = vocab_size,
                               .source = source};
    TESS_TRY(tess_os_join(w->path, sizeof(w->path), "", path));
    TESS_TRY(tess_tokenizer_digest(tokenizer, &w->header.tokenizer));
    w->header.hash = XXH3_64bits(&w->header, offsetof(shard_header, hash));
    size_t n = (size_t)snprintf(w->partial, sizeof(w->partial), "%s.partial", path);
    TESS_CHECK(n < sizeof(w->partial), TESS_E_INVALID, "%s: the path is too long", path);
    TESS_TRY(open_file(w, place));
    TESS_TRY(tess_os_write_at(w->fd, 0, &w->header, sizeof(w->header), w->partial));
    *out = TESS_GIVE(w);
    return TESS_OK;
}

tess_status tess_token_shard_is_of(const char *path, const tess_tokenizer *tokenizer, uint64_t source, bool *is,
                                   uint64_t *n_tokens, uint64_t *n_documents)
{
    tess_mapping file;
    shard_header header = {0};
    shard_trailer trailer = {0};
    uint64_t digest;
    *is = false;
    if (!tess_os_is_file(path))
        return TESS_OK;
    TESS_TRY(tess_tokenizer_digest(tokenizer, &digest));
    TESS_TRY(tess_os_map(path, &file));
    if (file.size >= sizeof(header) + sizeof(trailer)) {
        memcpy(&header, file.data, sizeof(header));
        memcpy(&trailer, file.data + file.size - sizeof(trailer), sizeof(trailer));
    }
    tess_os_unmap(&file);
    *is = header.magic == TESS_SHARD_MAGIC && header.source == source && header.tokenizer == digest;
    *n_tokens = trailer.n_tokens;
    *n_documents = trailer.n_documents;
    return TESS_OK;
}

/* ---- Blocks ---- */
static tess_status put_ids(tess_token_shard_writer *w, const tess_ids *ids, uint32_t *max_id)
{
    for (size_t i = 0; i < ids->size; i++)
        *max_id = (uint32_t)ids->data[i] > *max_id ? (uint32_t)ids->data[i] : *max_id;
    if (w->header.width == 4)
        return tess_buffer_append(&w->bytes, ids->data, 4 * ids->size);
    uint16_t some[2048];
    for (size_t i = 0, n; i < ids->size; i += n) {
        n = ids->size - i < 2048 ? ids->size - i : 2048;
        for (size_t k = 0; k < n; k++)
            some[k] = (uint16_t)ids->data[i + k];
        TESS_TRY(tess_buffer_append(&w->bytes, some, 2 * n));
    }
    return TESS_OK;
}

tess_status tess_token_shard_writer_append(tess_token_shard_writer *w, const tess_token_block *block,
                                           const tess_token_shard_place *place)
{
    const tess_buffer *loss = &block->loss;
    bool has_loss = loss->size > 0 && memchr(loss->data, 0, loss->size) != NULL;
    shard_block head = {.magic = TESS_SHARD_BLOCK_MAGIC,
                        .n_tokens = (uint32_t)block->ids.size,
                        .n_documents = (uint32_t)block->n_documents,
                        .has_loss = has_loss,
                        .source = place->source,
                        .source_at = place->source_at};
    w->bytes.size = 0;
    TESS_TRY(tess_buffer_append(&w->bytes, &head, sizeof(head)));
    TESS_TRY(tess_buffer_append(&w->bytes, block->documents, 4 * block->n_documents));
    TESS_TRY(put_ids(w, &block->ids, &head.max_id));
    if (has_loss)
        TESS_TRY(tess_buffer_append(&w->bytes, loss->data, loss->size));
    size_t size = (size_t)shard_block_bytes(&head, w->header.width);
    TESS_TRY(tess_buffer_append(&w->bytes, "\0\0\0\0\0\0\0", size - w->bytes.size));
    memcpy(w->bytes.data, &head, sizeof(head));
    head.hash = XXH3_64bits(w->bytes.data + 8, size - 8);
    memcpy(w->bytes.data, &head.hash, sizeof(head.hash));
    TESS_TRY(tess_os_write_at(w->fd, w->at, w->bytes.data, size, w->partial));
    return add_entry(w, &head);
}

uint64_t tess_token_shard_writer_tokens(const tess_token_shard_writer *writer)
{
    return writer->n_tokens;
}

uint64_t tess_token_shard_writer_documents(const tess_token_shard_writer *writer)
{
    return writer->n_documents;
}

/* ---- The end ---- */
tess_status tess_token_shard_writer_finish(tess_token_shard_writer *w)
{
    shard_trailer trailer = {.n_blocks = w->n_blocks,
                             .n_tokens = w->n_tokens,
                             .n_documents = w->n_documents,
                             .max_id = w->max_id,
                             .index_at = w->at,
                             .magic = TESS_SHARD_END_MAGIC};
    TESS_TRY(tess_mem_reserve(w->mem, TESS_POOL_MISC, w->n_blocks + 1, sizeof(shard_index), "index of a shard",
                              &w->capacity, &w->index));
    w->index[w->n_blocks] = (shard_index){w->at, w->n_tokens, 0};
    size_t size = (w->n_blocks + 1) * sizeof(shard_index);
    trailer.index_hash = XXH3_64bits(w->index, size);
    trailer.hash =
        XXH3_64bits_withSeed(&w->header, sizeof(w->header), XXH3_64bits(&trailer, offsetof(shard_trailer, hash)));
    TESS_TRY(tess_os_write_at(w->fd, w->at, w->index, size, w->partial));
    TESS_TRY(tess_os_write_at(w->fd, w->at + size, &trailer, sizeof(trailer), w->partial));
    TESS_TRY(tess_os_sync(w->fd, w->partial));
    char folder[TESS_SHARD_PATH];
    const char *slash = strrchr(w->path, '/');
    snprintf(folder, sizeof(folder), "%.*s", slash != NULL ? (int)(slash - w->path) + 1 : 1,
             slash != NULL ? w->path : ".");
    TESS_TRY(tess_os_rename(w->partial, w->path));
    return tess_os_fsync_dir(folder);
}

void tess_token_shard_writer_discard(tess_token_shard_writer *w)
{
    tess_os_remove(w->partial);
}

void tess_token_shard_writer_close(tess_token_shard_writer **out)
{
    tess_token_shard_writer *w = *out;
    if (w == NULL)
        return;
    tess_os_close(&w->fd);
    tess_buffer_free(&w->bytes);
    tess_mem_free(w->mem, w->index);
    tess_mem_drop(out);
}
