/* Reads Tessera's own shards; shard_layout.h has their layout. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <inttypes.h>
#include <string.h>

#include "data/shards/token_shard_impl.h"

bool tess_token_shard_is_own(const uint8_t *head, size_t size)
{
    return size >= 8 && shard_u64(head) == TESS_SHARD_MAGIC;
}

/* ---- Blocks ---- */
/* A block whose bytes were checked. */
typedef struct block_view {
    const shard_block *head;
    const uint8_t *documents, *ids, *loss; /* loss NULL: all tokens may be targets */
} block_view;

static tess_status view(const tess_token_shard *shard, uint64_t number, block_view *v)
{
    const shard_index *entry = &shard->blocks[number];
    const uint8_t *at = shard->file.data + entry->at;
    uint64_t bytes = entry[1].at - entry->at;
    const shard_block *head = (const shard_block *)(const void *)at;
    uint32_t width = (uint32_t)shard->width;
    bool whole =
        head->hash == entry->hash && head->magic == TESS_SHARD_BLOCK_MAGIC && shard_block_bytes(head, width) == bytes &&
        head->n_tokens == entry[1].first_token - entry->first_token && XXH3_64bits(at + 8, bytes - 8) == head->hash;
    TESS_CHECK(whole, TESS_E_FORMAT,
               "%s: block %" PRIu64 " (bytes %" PRIu64 " to %" PRIu64
               ") is damaged: its checksum is not what it was when it was written; write the shard again",
               shard->path, number, entry->at, entry[1].at);
    *v = (block_view){head, at + sizeof(*head), at + sizeof(*head) + 4 * (uint64_t)head->n_documents, NULL};
    if (head->has_loss != 0)
        v->loss = v->ids + (uint64_t)head->n_tokens * width;
    return TESS_OK;
}

static tess_token_document document(const block_view *v, uint64_t d)
{
    tess_token_document value;
    memcpy(&value, v->documents + 4 * d, sizeof(value));
    return value;
}

/* Returns the block that contains token x: the last one that begins at or before it. */
static uint64_t block_of(const tess_token_shard *shard, uint64_t x)
{
    uint64_t low = 0, high = shard->all_blocks;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (shard->blocks[middle].first_token <= x)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static tess_status cut(const tess_token_shard *shard, uint64_t x, uint64_t *at)
{
    block_view v;
    uint64_t number = block_of(shard, x), end = shard->blocks[number].first_token;
    TESS_TRY(view(shard, number, &v));
    for (uint64_t d = 0; d < v.head->n_documents && end < x; d++) {
        tess_token_document it = document(&v, d);
        end += it.n_tokens;
        if (end > x && it.kind == TESS_DOCUMENT_TEXT)
            end = x;
    }
    *at = end;
    return TESS_OK;
}

/* Selects the blocks with tokens of the part in use. If the whole file is in use, also selects its empty blocks. */
static void divide(tess_token_shard *shard)
{
    bool any = shard->begin < shard->end;
    shard->first_block = shard->begin == 0 ? 0 : block_of(shard, shard->begin);
    uint64_t end = any && shard->end < shard->n_tokens ? block_of(shard, shard->end - 1) + 1 : shard->all_blocks;
    shard->n_blocks = any ? end - shard->first_block : 0;
}

static tess_status read(const tess_token_shard *shard, uint64_t index, tess_token_block *out)
{
    block_view v;
    uint64_t number = shard->first_block + index, first = shard->blocks[number].first_token, done = 0;
    const uint64_t width = (uint64_t)shard->width;
    TESS_TRY(view(shard, number, &v));
    for (uint64_t d = 0; d < v.head->n_documents; d++) {
        tess_token_document it = document(&v, d);
        size_t start = out->ids.size;
        uint64_t from = done, to = done + it.n_tokens;
        TESS_CHECK(to <= v.head->n_tokens, TESS_E_FORMAT, "%s: block %" PRIu64 " has more documents than it can hold",
                   shard->path, number);
        done = to;
        from = first + from < shard->begin ? shard->begin - first : from;
        to = first + to > shard->end ? shard->end - first : to;
        if (from > to || (from == to && it.n_tokens > 0))
            continue; /* not in the part */
        TESS_TRY(tess_token_shard_append(shard, v.ids + from * width, first + from, to - from, &out->ids));
        if (v.loss != NULL)
            TESS_TRY(tess_buffer_append(&out->loss, v.loss + from, to - from));
        TESS_TRY(tess_token_block_end(out, start, (tess_document_kind)it.kind));
    }
    return TESS_OK;
}

/* ---- The file ---- */
static tess_status check_header(const tess_token_shard *shard, const tess_tokenizer *tokenizer, shard_header *header)
{
    const tess_mapping *file = &shard->file;
    uint64_t digest;
    TESS_CHECK(file->size >= sizeof(*header) + sizeof(shard_trailer), TESS_E_FORMAT, "%s: half-written: %zu bytes",
               shard->path, file->size);
    memcpy(header, file->data, sizeof(*header));
    TESS_CHECK(header->version == TESS_SHARD_VERSION, TESS_E_UNSUPPORTED, "%s: version %u of a shard; %d is read",
               shard->path, header->version, TESS_SHARD_VERSION);
    TESS_CHECK(header->hash == XXH3_64bits(header, offsetof(shard_header, hash)) &&
                   (header->width == 2 || header->width == 4),
               TESS_E_FORMAT, "%s: its header is damaged: write the shard again", shard->path);
    TESS_TRY(tess_tokenizer_digest(tokenizer, &digest));
    TESS_CHECK(header->tokenizer == digest, TESS_E_INVALID,
               "%s: it was written with another tokenizer, of %llu tokens (this one, of %lld, gives other ids): name "
               "that one with tokenizer.path, or write the shard again",
               shard->path, (unsigned long long)header->vocab_size, (long long)shard->vocab_size);
    return TESS_OK;
}

static tess_status check_trailer(const tess_token_shard *shard, const shard_header *header, shard_trailer *t)
{
    const tess_mapping *file = &shard->file;
    uint64_t at = file->size - sizeof(*t);
    memcpy(t, file->data + at, sizeof(*t));
    TESS_CHECK(t->magic == TESS_SHARD_END_MAGIC, TESS_E_FORMAT,
               "%s: half-written: it has no end after %zu bytes; give the command that wrote it again, which goes on "
               "where it stopped",
               shard->path, file->size);
    uint64_t hash = XXH3_64bits_withSeed(header, sizeof(*header), XXH3_64bits(t, offsetof(shard_trailer, hash)));
    bool sound = t->hash == hash && file->size % 8 == 0 && t->index_at % 8 == 0 && t->n_blocks < file->size &&
                 t->index_at >= sizeof(*header) && t->index_at <= at &&
                 at - t->index_at == (t->n_blocks + 1) * sizeof(shard_index) &&
                 t->index_hash == XXH3_64bits(file->data + t->index_at, at - t->index_at);
    TESS_CHECK(sound, TESS_E_FORMAT, "%s: its end is damaged: write the shard again", shard->path);
    TESS_CHECK(t->n_tokens == 0 || t->max_id < (uint64_t)shard->vocab_size, TESS_E_FORMAT,
               "%s: token id %llu is beyond the tokenizer's %lld", shard->path, (unsigned long long)t->max_id,
               (long long)shard->vocab_size);
    return TESS_OK;
}

static bool is_in_order(const tess_token_shard *shard, uint64_t index_at)
{
    const shard_index *index = shard->blocks;
    bool sound = index[0].at == sizeof(shard_header) && index[0].first_token == 0 &&
                 index[shard->all_blocks].at == index_at && index[shard->all_blocks].first_token == shard->n_tokens;
    for (uint64_t i = 0; i < shard->all_blocks && sound; i++)
        sound = index[i].at % 8 == 0 && index[i].at < index_at &&
                index[i + 1].at >= index[i].at + sizeof(shard_block) &&
                index[i + 1].first_token >= index[i].first_token;
    return sound;
}

tess_status tess_token_shard_open_own(tess_token_shard *shard, const tess_tokenizer *tokenizer)
{
    static const tess_token_shard_kind kind = {divide, cut, read};
    shard_header header;
    shard_trailer trailer;
    shard->kind = &kind;
    TESS_TRY(check_header(shard, tokenizer, &header));
    TESS_TRY(check_trailer(shard, &header, &trailer));
    shard->width = (int)header.width;
    shard->n_tokens = trailer.n_tokens;
    shard->all_blocks = trailer.n_blocks;
    shard->blocks = (const shard_index *)(const void *)(shard->file.data + trailer.index_at);
    TESS_CHECK(is_in_order(shard, trailer.index_at), TESS_E_FORMAT, "%s: its index is damaged: write the shard again",
               shard->path);
    return TESS_OK;
}
