/* Any bytes as a shard: refused with a message, or blocks of documents that hold together. The first byte says as which
 * kind: 0: by their content; 1, 2: nanoGPT's, of uint16 or uint32; 3: Megatron's, .idx (two bytes of its size) and
 * .bin; 4: tessera's own with checksums that are made right, so that what is behind them is read, too. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/os.h"
#include "data/shards/token_shard.h"
#include "data/shards/shard_layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static tess_mem *mem;
static tess_tokenizer *tokenizer;
static char folder[] = "/tmp/fuzz-shard-XXXXXX";

static void remove_folder(void)
{
    tess_os_remove_tree(folder);
}

static void begin(void)
{
    tess_buffer json = {0};
    static const char text[] = "the stone and the river";
    if (mem != NULL)
        return;
    if (tess_mem_create(&mem) != TESS_OK || mkdtemp(folder) == NULL)
        abort();
    atexit(remove_folder);
    json.mem = mem;
    if (tess_bpe_train(mem, text, sizeof(text) - 1, 260, NULL, 0, &json) != TESS_OK ||
        tess_tokenizer_parse(mem, json.data, json.size, "fuzz", &tokenizer) != TESS_OK)
        abort();
    tess_buffer_free(&json);
}

static const char *write_file(const char *name, const void *data, size_t size)
{
    static char paths[2][128];
    char *path = paths[strcmp(name, "f.idx") == 0];
    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        abort();
    return path;
}

static void put_block_hashes(uint8_t *file, uint64_t index_at, uint64_t n_blocks)
{
    for (uint64_t i = 0; i < n_blocks; i++) {
        shard_index entry[2];
        memcpy(entry, file + index_at + i * sizeof(*entry), sizeof(entry));
        if (entry[0].at > index_at || entry[1].at > index_at || entry[1].at < entry[0].at + sizeof(shard_block))
            continue;
        entry[0].hash = XXH3_64bits(file + entry[0].at + 8, entry[1].at - entry[0].at - 8);
        memcpy(file + entry[0].at, &entry[0].hash, 8);
        memcpy(file + index_at + i * sizeof(*entry), entry, sizeof(*entry));
    }
}

static void put_hashes(uint8_t *file, size_t size)
{
    shard_header header;
    shard_trailer trailer;
    if (size < sizeof(header) + sizeof(trailer))
        return;
    uint64_t end = size - sizeof(trailer);
    memcpy(&header, file, sizeof(header));
    memcpy(&trailer, file + end, sizeof(trailer));
    header.magic = TESS_SHARD_MAGIC;
    trailer.magic = TESS_SHARD_END_MAGIC;
    if (tess_tokenizer_digest(tokenizer, &header.tokenizer) != TESS_OK)
        abort();
    header.hash = XXH3_64bits(&header, offsetof(shard_header, hash));
    memcpy(file, &header, sizeof(header));
    if (trailer.index_at >= sizeof(header) && trailer.index_at <= end && trailer.n_blocks < size &&
        (trailer.n_blocks + 1) * sizeof(shard_index) == end - trailer.index_at) {
        put_block_hashes(file, trailer.index_at, trailer.n_blocks);
        trailer.index_hash = XXH3_64bits(file + trailer.index_at, end - trailer.index_at);
    }
    trailer.hash = XXH3_64bits_withSeed(&header, sizeof(header), XXH3_64bits(&trailer, offsetof(shard_trailer, hash)));
    memcpy(file + end, &trailer, sizeof(trailer));
}

static const char *write_files(const uint8_t *data, size_t size, uint8_t kind)
{
    if (kind == 3 && size >= 2) {
        size_t n = data[0] + 256u * data[1];
        n = n < size - 2 ? n : size - 2;
        write_file("f.idx", data + 2, n);
        return write_file("f.bin", data + 2 + n, size - 2 - n);
    }
    if (kind != 4)
        return write_file(kind == 1 || kind == 2 ? "f.bin" : "f.shard", data, size);
    uint8_t *copy = malloc(size + 1);
    memcpy(copy, data, size);
    put_hashes(copy, size);
    const char *path = write_file("f.shard", copy, size);
    free(copy);
    return path;
}

static void look_at(const tess_token_block *block)
{
    size_t n = 0;
    for (size_t d = 0; d < block->n_documents; d++)
        n += block->documents[d].n_tokens;
    if (n != block->ids.size || (block->loss.size != 0 && block->loss.size != n))
        abort();
    for (size_t i = 0; i < n; i++)
        if (block->ids.data[i] < 0 || block->ids.data[i] >= tess_tokenizer_vocab_size(tokenizer))
            abort();
}

static void read_part(const char *path, uint8_t kind, double from, double to)
{
    const tess_token_shard_options options = {.tokenizer = tokenizer,
                                              .format = kind == 2 ? TESS_DATA_UINT32 : TESS_DATA_UINT16,
                                              .end_id = 7,
                                              .begin = from,
                                              .end = to};
    tess_token_shard *shard;
    tess_token_block block = tess_token_block_of(mem);
    tess_status status = tess_token_shard_open(mem, path, &options, &shard);
    for (uint64_t i = 0; status == TESS_OK && shard != NULL && i < tess_token_shard_blocks(shard); i++) {
        status = tess_token_shard_read(shard, i, &block);
        if (status == TESS_OK)
            look_at(&block);
    }
    if (status != TESS_OK && tess_error_message()[0] == '\0')
        abort();
    tess_error_clear();
    tess_token_block_free(&block);
    tess_token_shard_close(&shard);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    begin();
    if (size == 0)
        return 0;
    size_t before = tess_mem_stats(mem, TESS_POOL_MISC).n_blocks;
    uint8_t kind = data[0] % 5;
    const char *path = write_files(data + 1, size - 1, kind);
    read_part(path, kind, 0, 1);
    read_part(path, kind, 0.3, 0.7);
    unlink(path);
    if (tess_mem_stats(mem, TESS_POOL_MISC).n_blocks != before)
        abort();
    return 0;
}
