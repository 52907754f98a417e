/* Shards of token ids: ours, llm.c's, nanoGPT's and Megatron's, written and read. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/core/rng.h"
#include "base/os/os.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "data/corpus/corpus.h"
#include "data/loader/loader.h"
#include "support/test.h"

enum { N_BATCHES = 30, END = 7 };

static tess_tokenizer *load_tokenizer(const char *name)
{
    tess_tokenizer *tokenizer;
    EXPECT_OK(tess_tokenizer_load(test_mem(), test_path(name), &tokenizer));
    return tokenizer;
}

static const char *path_of(const char *name)
{
    static char paths[64][512];
    static int n;
    char *path = paths[n++ % 64];
    EXPECT_OK(tess_os_join(path, sizeof(paths[0]), test_folder(), name));
    return path;
}

static const char *write_file(const char *name, const void *data, size_t size)
{
    const char *path = path_of(name);
    EXPECT_OK(tess_os_write_atomic(path, data, size));
    return path;
}

static void append(tess_buffer *out, const void *data, size_t size)
{
    EXPECT_OK(tess_buffer_append(out, data, size));
}

/* Lines of words, more than one block of them. */
static tess_buffer make_text(uint64_t seed, int n_lines)
{
    static const char *const words[] = {"stone", "river", "and", "the", "seven", "lights", "of", "house"};
    tess_buffer text = {.mem = test_mem()};
    for (int i = 0; i < n_lines; i++) {
        uint64_t r = tess_rng_u64(seed, TESS_RNG_TEST, 0, (uint64_t)i);
        EXPECT_OK(tess_buffer_printf(&text, "%d", i));
        for (int k = 0; k < 3 + (int)(r % 9); k++)
            EXPECT_OK(tess_buffer_printf(&text, " %s", words[(r >> (4 * k + 4)) % 8]));
        EXPECT_OK(tess_buffer_printf(&text, ".\n"));
    }
    return text;
}

/* Texts and pairs, blank lines, and one line that is longer than two blocks. */
static tess_buffer make_jsonl(int n_lines)
{
    tess_buffer text = make_text(3, n_lines), json = {.mem = test_mem()};
    char *at = text.data;
    for (int i = 0; i < n_lines; i++) {
        int size = (int)strcspn(at, "\n");
        if (i % 7 == 3)
            EXPECT_OK(tess_buffer_printf(&json, "{\"prompt\": \"%.*s\", \"completion\": \"yes %d\"}\n", size, at, i));
        else
            EXPECT_OK(tess_buffer_printf(&json, "{\"text\": \"%.*s\"}\n%s", size, at, i % 50 == 0 ? "\n" : ""));
        at += size + 1;
        if (i != n_lines / 3)
            continue;
        EXPECT_OK(tess_buffer_printf(&json, "{\"text\": \""));
        for (int k = 0; k < 54000; k++)
            append(&json, "the stone ", 10);
        EXPECT_OK(tess_buffer_printf(&json, "\"}\n"));
    }
    tess_buffer_free(&text);
    return json;
}

static tess_loader_options options_for(const char *const *files, int n_files)
{
    return (tess_loader_options){.files = files,
                                 .n_files = n_files,
                                 .seq_len = 61,
                                 .micro_batch = 3,
                                 .seed = 11,
                                 .shuffle = true,
                                 .repeat = true,
                                 .end = 1,
                                 .eos_id = 0,
                                 .end_id = END};
}

static uint64_t hash_batch(const tess_micro_batch *b)
{
    size_t size = (size_t)b->n_tokens * sizeof(int32_t);
    uint64_t h = tess_hash_bytes(b->ids, size, b->epoch);
    h = tess_hash_bytes(b->targets, size, h);
    h = tess_hash_bytes(b->pos, size, h);
    return tess_hash_bytes(b->cu_seqlens, (size_t)(b->n_seqs + 1) * sizeof(int32_t), h);
}

/* Hashes of batches far apart, so that several windows and epochs are seen. */
static void take_batches(const tess_tokenizer *tokenizer, const tess_loader_options *options, uint64_t *hashes)
{
    tess_loader *loader;
    tess_micro_batch batch;
    bool end;
    EXPECT_OK(tess_loader_create(test_mem(), tokenizer, options, &loader));
    for (int i = 0; i < N_BATCHES; i++) {
        EXPECT_OK(tess_loader_next(loader, (i * 37) % 101, &batch, &end));
        hashes[i] = hash_batch(&batch);
    }
    tess_loader_destroy(&loader);
}

static tess_status tokenize(const tess_tokenizer *tokenizer, const char *const *files, int n_files, const char *out,
                            int n_threads, tess_corpus_result *result)
{
    const tess_corpus_options options = {.tokenizer = tokenizer,
                                         .files = files,
                                         .n_files = n_files,
                                         .rules = {tess_document_keys_of(NULL, NULL, NULL), NULL},
                                         .out = out,
                                         .n_threads = n_threads};
    return tess_corpus_tokenize(test_mem(), &options, result);
}

static bool same_bytes(const char *a, const char *b)
{
    tess_mapping x, y;
    EXPECT_OK(tess_os_map(a, &x));
    EXPECT_OK(tess_os_map(b, &y));
    bool same = x.size == y.size && memcmp(x.data, y.data, x.size) == 0;
    tess_os_unmap(&x);
    tess_os_unmap(&y);
    return same;
}

static int write_corpus(const char **files)
{
    tess_buffer text = make_text(1, 8000), json = make_jsonl(2500), plain = {.mem = test_mem()};
    for (int i = 0; i < 80000; i++) /* no line ends, and characters of two bytes where blocks end */
        append(&plain, "\xc3\xa9x\xc3\xa9", 5);
    files[0] = write_file("a.txt", text.data, text.size);
    files[1] = write_file("b.jsonl", json.data, json.size);
    files[2] = write_file("c.txt", plain.data, plain.size);
    tess_buffer_free(&text);
    tess_buffer_free(&json);
    tess_buffer_free(&plain);
    return 3;
}

/* ---- Tessera's own ---- */
static void a_shard_gives_the_batches_of_its_text_whatever_the_threads(void)
{
    tess_tokenizer *tokenizer = load_tokenizer("data/fixtures/gpt2.json");
    const char *files[3], *one = path_of("one.shard"), *three = path_of("three.shard");
    uint64_t want[N_BATCHES], got[N_BATCHES];
    tess_corpus_result result;
    int n = write_corpus(files);
    EXPECT_OK(tokenize(tokenizer, files, n, one, 1, &result));
    EXPECT_OK(tokenize(tokenizer, files, n, three, 3, &result));
    EXPECT(same_bytes(one, three));
    EXPECT(!result.resumed && result.n_tokens > 200000);
    for (int shape = 0; shape < 4; shape += 3) { /* four shapes: bos or not, split or not */
        tess_loader_options options = options_for(files, n);
        options.bos.n = options.bos.id[0] = shape & 1;
        options.split = shape & 2 ? TESS_SPLIT_FALSE : TESS_SPLIT_AUTO;
        take_batches(tokenizer, &options, want);
        options.files = &three;
        options.n_files = 1;
        take_batches(tokenizer, &options, got);
        EXPECT_SAME(got, want, N_BATCHES);
    }
    tess_tokenizer_destroy(&tokenizer);
}

static void a_killed_writer_is_followed_to_the_same_bytes(void)
{
    tess_tokenizer *tokenizer = load_tokenizer("data/fixtures/gpt2.json");
    const char *files[3], *whole = path_of("whole.shard"), *out = path_of("cut.shard");
    tess_corpus_result result;
    tess_mapping bytes;
    int n = write_corpus(files);
    EXPECT_OK(tokenize(tokenizer, files, n, whole, 2, &result));
    EXPECT_OK(tess_os_map(whole, &bytes));
    for (int k = 0; k <= 10; k += k < 2 ? 1 : 2) { /* within the header, blocks of each file, the index, the trailer */
        size_t size = k == 10 ? bytes.size : bytes.size * (size_t)k / 10 + 5 * (size_t)k;
        write_file("cut.shard.partial", bytes.data, size);
        EXPECT_OK(tokenize(tokenizer, files, n, out, 2, &result));
        EXPECT_INT(result.resumed, k > 1); /* the first block is longer than a tenth */
        EXPECT(same_bytes(out, whole));
        EXPECT(!tess_os_is_file(path_of("cut.shard.partial")));
        tess_os_remove(out);
    }
    tess_os_unmap(&bytes);
    write_file("a.txt", "other text\nof another size\n", 27);
    EXPECT_OK(tokenize(tokenizer, files, 1, out, 1, &result));
    EXPECT_FAILS(tokenize(tokenizer, files, 1, out, 1, &result), TESS_E_INVALID, "cut.shard: it is there already");
    EXPECT_OK(tess_os_rename(whole, path_of("cut2.shard.partial")));
    EXPECT_FAILS(tokenize(tokenizer, files, 1, path_of("cut2.shard"), 1, &result), TESS_E_INVALID, "is of other text");
    tess_tokenizer_destroy(&tokenizer);
}

static void compressed_text_gives_the_blocks_of_plain_text(void)
{
    tess_tokenizer *tokenizer = load_tokenizer("data/fixtures/gpt2.json");
    tess_buffer json = make_jsonl(2500), packed = {.mem = test_mem()};
    const char *plain = write_file("p.jsonl", json.data, json.size), *files[3];
    uint64_t want[N_BATCHES], got[N_BATCHES];
    tess_corpus_result result;
    /* zstd in two frames, gzip in two members */
    size_t half = json.size / 2;
    char *room = malloc(json.size + 1024);
    for (int side = 0; side < 2; side++)
        append(&packed, room,
               ZSTD_compress(room, json.size + 1024, json.data + (side ? half : 0), side ? json.size - half : half, 3));
    files[0] = write_file("z.jsonl.zst", packed.data, packed.size);
    free(room);
    files[1] = path_of("g.jsonl.gz");
    for (int side = 0; side < 2; side++) {
        gzFile gz = gzopen(files[1], side ? "ab" : "wb");
        EXPECT(gzwrite(gz, json.data + (side ? half : 0), (unsigned)(side ? json.size - half : half)) > 0);
        gzclose(gz);
    }
    tess_loader_options options = options_for(&plain, 1);
    take_batches(tokenizer, &options, want);
    for (int i = 0; i < 2; i++) {
        const char *out = path_of(i == 0 ? "z.shard" : "g.shard");
        EXPECT_OK(tokenize(tokenizer, &files[i], 1, out, 2, &result));
        EXPECT_INT(result.text_bytes, json.size);
        options.files = &out;
        take_batches(tokenizer, &options, got);
        EXPECT_SAME(got, want, N_BATCHES);
        options.files = &files[i];
        tess_loader *loader;
        EXPECT_FAILS(tess_loader_create(test_mem(), tokenizer, &options, &loader), TESS_E_UNSUPPORTED,
                     "tessera tokenize shard");
    }
    files[2] = write_file("cut.jsonl.zst", packed.data, packed.size - 100);
    EXPECT_FAILS(tokenize(tokenizer, &files[2], 1, path_of("n.shard"), 2, &result), TESS_E_FORMAT, "it is cut off");
    EXPECT(!tess_os_is_file(path_of("n.shard")) && !tess_os_is_file(path_of("n.shard.partial")));
    tess_buffer_free(&json);
    tess_buffer_free(&packed);
    tess_tokenizer_destroy(&tokenizer);
}

static void parts_of_a_shard_share_no_token_and_leave_none_out(void)
{
    tess_tokenizer *tokenizer = load_tokenizer("data/fixtures/gpt2.json");
    const char *files[3], *out = path_of("parts.shard");
    tess_corpus_result result;
    tess_token_block block = tess_token_block_of(test_mem());
    EXPECT_OK(tokenize(tokenizer, files, write_corpus(files), out, 2, &result));
    const double cuts[] = {0, 0.03, 0.31, 0.5, 0.77, 0.9999, 1};
    uint64_t n_tokens = 0, hash = 0, whole = 0;
    for (int k = 0; k < 7; k++) { /* 6 parts, and all */
        const tess_token_shard_options options = {
            .tokenizer = tokenizer, .end_id = -1, .begin = k < 6 ? cuts[k] : 0, .end = k < 6 ? cuts[k + 1] : 1};
        tess_token_shard *shard;
        uint64_t *sum = k < 6 ? &hash : &whole;
        EXPECT_OK(tess_token_shard_open(test_mem(), out, &options, &shard));
        for (uint64_t i = 0; i < tess_token_shard_blocks(shard); i++) {
            EXPECT_OK(tess_token_shard_read(shard, i, &block));
            n_tokens += k < 6 ? block.ids.size : 0;
            for (size_t t = 0; t < block.ids.size; t++)
                *sum = *sum * 31 + (uint64_t)block.ids.data[t];
        }
        tess_token_shard_close(&shard);
    }
    EXPECT_INT(n_tokens, result.n_tokens);
    EXPECT(hash == whole);
    tess_token_block_free(&block);
    tess_tokenizer_destroy(&tokenizer);
}

static void a_digest_is_of_what_a_tokenizer_does_and_not_of_its_file(void)
{
    static const char *const names[] = {"gpt2", "llama2", "llama3", "qwen2", "trained"};
    uint64_t digests[5];
    for (int i = 0; i < 5; i++) {
        char name[64];
        json_t *json;
        uint64_t again;
        snprintf(name, sizeof(name), "data/fixtures/%s.json", names[i]);
        tess_tokenizer *tokenizer = load_tokenizer(name), *rewritten;
        EXPECT_OK(tess_tokenizer_digest(tokenizer, &digests[i]));
        for (int k = 0; k < i; k++)
            EXPECT(digests[k] != digests[i]);
        EXPECT_OK(tess_json_load(test_path(name), 1 << 26, &json));
        char *text = json_dumps(json, JSON_SORT_KEYS | JSON_INDENT(2) | JSON_ENSURE_ASCII);
        EXPECT_OK(tess_tokenizer_parse(test_mem(), text, strlen(text), "rewritten", &rewritten));
        EXPECT_OK(tess_tokenizer_digest(rewritten, &again));
        EXPECT(again == digests[i]);
        free(text);
        json_decref(json);
        tess_tokenizer_destroy(&rewritten);
        tess_tokenizer_destroy(&tokenizer);
    }
}

/* ---- Those of others ---- */
static void put_ids(tess_buffer *out, const int32_t *ids, size_t n, int width)
{
    for (size_t i = 0; i < n; i++) {
        int64_t wide = ids[i];
        append(out, &wide, (size_t)width);
    }
}

static void put_llmc(tess_buffer *out, uint32_t magic, uint32_t version, const int32_t *ids, size_t n, int width)
{
    uint32_t header[256] = {magic, version, (uint32_t)n};
    out->size = 0;
    append(out, header, sizeof(header));
    put_ids(out, ids, n, width);
}

/* Documents `starts` (n + 1) of ids, each of two sequences where it has two tokens or more. */
static void put_index(tess_buffer *out, const int64_t *starts, uint64_t n, int width, uint8_t code)
{
    uint64_t version = 1, n_sequences = 0, n_entries = n + 1;
    tess_buffer sizes = {.mem = test_mem()}, pointers = {.mem = test_mem()}, documents = {.mem = test_mem()};
    append(&documents, &n_sequences, 8);
    for (uint64_t d = 0; d < n; d++) {
        int64_t size = starts[d + 1] - starts[d], first = size / 2, parts[] = {first, size - first}, at = starts[d];
        for (int part = first == 0; part < 2; part++) {
            int32_t some = (int32_t)parts[part];
            int64_t byte = at * width;
            append(&sizes, &some, 4);
            append(&pointers, &byte, 8);
            at += some;
            n_sequences++;
        }
        append(&documents, &n_sequences, 8);
    }
    out->size = 0;
    append(out, "MMIDIDX\0\0", 9);
    append(out, &version, 8);
    append(out, &code, 1);
    append(out, &n_sequences, 8);
    append(out, &n_entries, 8);
    append(out, sizes.data, sizes.size);
    append(out, pointers.data, pointers.size);
    append(out, documents.data, documents.size);
    tess_buffer_free(&sizes);
    tess_buffer_free(&pointers);
    tess_buffer_free(&documents);
}

enum { N_DOCUMENTS = 900 };

/* Documents of 1 to 600 random ids that end with END; starts (N_DOCUMENTS + 1). */
static void make_documents(tess_ids *ids, int64_t *starts)
{
    ids->mem = test_mem();
    for (int d = 0; d < N_DOCUMENTS; d++) {
        uint64_t r = tess_rng_u64(5, TESS_RNG_TEST, 1, (uint64_t)d);
        starts[d] = (int64_t)ids->size;
        for (uint64_t i = 0; i < r % 600; i++)
            EXPECT_OK(tess_ids_append(ids, END + 1 + (int32_t)((r >> (i % 40)) % 200)));
        EXPECT_OK(tess_ids_append(ids, END));
    }
    starts[N_DOCUMENTS] = (int64_t)ids->size;
}

/* Every document of a shard once and whole, in order. */
static void expect_documents(const tess_tokenizer *tokenizer, const char *path, tess_data_format format,
                             const tess_ids *ids, const int64_t *starts)
{
    const tess_token_shard_options options = {.tokenizer = tokenizer, .format = format, .end_id = END, .end = 1};
    tess_token_shard *shard;
    tess_token_block block = tess_token_block_of(test_mem());
    int64_t at = 0, n_documents = 0;
    EXPECT_OK(tess_token_shard_open(test_mem(), path, &options, &shard));
    EXPECT(tess_token_shard_blocks(shard) > 3);
    for (uint64_t i = 0; i < tess_token_shard_blocks(shard); i++) {
        EXPECT_OK(tess_token_shard_read(shard, i, &block));
        EXPECT(memcmp(block.ids.data, ids->data + at, block.ids.size * 4) == 0);
        for (size_t d = 0; d < block.n_documents; d++) {
            EXPECT_INT(at, starts[n_documents++]);
            at += block.documents[d].n_tokens;
        }
    }
    EXPECT_INT(n_documents, N_DOCUMENTS);
    EXPECT_INT(at, (int64_t)ids->size);
    tess_token_block_free(&block);
    tess_token_shard_close(&shard);
}

/* ---- Written for others ---- */
static tess_status tokenize_for(const tess_tokenizer *tokenizer, const char *const *files, int n_files,
                                tess_shard_format format, const char *out, tess_corpus_result *result)
{
    const tess_corpus_options options = {.tokenizer = tokenizer,
                                         .files = files,
                                         .n_files = n_files,
                                         .rules = {tess_document_keys_of(NULL, NULL, NULL), NULL},
                                         .out = out,
                                         .format = format,
                                         .end_id = END,
                                         .n_threads = 2};
    return tess_corpus_tokenize(test_mem(), &options, result);
}

/* Files of a text of two blocks, lines of which one is empty, and a short text: documents of ids, each followed by
 * END. */
static int write_plain_corpus(const tess_tokenizer *tokenizer, const char **files, tess_ids *ids, int64_t *starts)
{
    static const char lines[] = "{\"text\": \"the river\"}\n\n{\"text\": \"\"}\n{\"text\": \"seven lights\"}\n";
    static const char *const documents[] = {NULL, "the river", "seven lights", "of stone\n"};
    tess_buffer text = make_text(1, 12000);
    EXPECT(text.size > 300000);
    files[0] = write_file("long.txt", text.data, text.size);
    files[1] = write_file("lines.jsonl", lines, sizeof(lines) - 1);
    files[2] = write_file("short.txt", documents[3], strlen(documents[3]));
    ids->mem = test_mem();
    for (int d = 0; d < 4; d++) {
        starts[d] = (int64_t)ids->size;
        if (d == 0) { /* blocks are tokenized apart, cut at line ends, where this tokenizer never joins */
            EXPECT_OK(tess_encode_text(tokenizer, text.data, text.size, false, ids));
        } else {
            EXPECT_OK(tess_encode_text(tokenizer, documents[d], strlen(documents[d]), false, ids));
        }
        EXPECT_OK(tess_ids_append(ids, END));
    }
    starts[4] = (int64_t)ids->size;
    tess_buffer_free(&text);
    return 3;
}

/* The bytes of a file, which `want` has. */
static void expect_bytes(const char *path, const tess_buffer *want)
{
    tess_mapping file;
    EXPECT_OK(tess_os_map(path, &file));
    EXPECT_INT(file.size, want->size);
    EXPECT_SAME((const char *)file.data, want->data, want->size);
    tess_os_unmap(&file);
}

static void what_is_written_for_others_has_their_bytes(void)
{
    tess_tokenizer *tokenizer = load_tokenizer("data/fixtures/gpt2.json");
    tess_ids ids = {0}, ahead = {.mem = test_mem()};
    tess_buffer want = {.mem = test_mem()};
    tess_corpus_result result;
    int64_t starts[5];
    const char *files[3], *llmc = path_of("out_llmc.bin"), *nano = path_of("out_nano.bin"),
                          *mega = path_of("out_mega.bin");
    int n = write_plain_corpus(tokenizer, files, &ids, starts);

    EXPECT_OK(tokenize_for(tokenizer, files, n, TESS_SHARD_NANOGPT, nano, &result));
    EXPECT_INT(result.n_tokens, ids.size - 4);
    put_ids(&want, ids.data, ids.size, 2);
    expect_bytes(nano, &want);
    EXPECT_OK(tokenize_for(tokenizer, files, n, TESS_SHARD_MEGATRON, mega, &result));
    expect_bytes(mega, &want);

    EXPECT_OK(tess_ids_append(&ahead, END)); /* the same, with each END at the other end of its document */
    for (size_t i = 0; i + 1 < ids.size; i++)
        EXPECT_OK(tess_ids_append(&ahead, ids.data[i]));
    put_llmc(&want, 20240520, 1, ahead.data, ahead.size, 2);
    EXPECT_OK(tokenize_for(tokenizer, files, n, TESS_SHARD_LLMC, llmc, &result));
    expect_bytes(llmc, &want);

    /* Our readers find all documents, and nothing else is left. */
    const struct {
        const char *path;
        tess_data_format format;
        int n_documents;
    } made[] = {{nano, TESS_DATA_UINT16, 4}, {mega, TESS_DATA_AUTO, 4}, {llmc, TESS_DATA_AUTO, 5}};
    for (int i = 0; i < 3; i++) {
        const tess_token_shard_options options = {
            .tokenizer = tokenizer, .format = made[i].format, .end_id = END, .end = 1};
        tess_token_block block = tess_token_block_of(test_mem());
        tess_token_shard *shard;
        int64_t at = 0, n_documents = 0;
        char path[600];
        EXPECT_OK(tess_token_shard_open(test_mem(), made[i].path, &options, &shard));
        for (uint64_t k = 0; k < tess_token_shard_blocks(shard); k++) {
            tess_token_block_clear(&block);
            EXPECT_OK(tess_token_shard_read(shard, k, &block));
            EXPECT(memcmp(block.ids.data, (i < 2 ? ids : ahead).data + at, block.ids.size * 4) == 0);
            at += (int64_t)block.ids.size;
            n_documents += (int64_t)block.n_documents;
        }
        EXPECT_INT(at, (int64_t)ids.size);
        EXPECT(i == 1 ? n_documents == 4 : n_documents >= made[i].n_documents); /* long ones are cut, but by an index */
        tess_token_block_free(&block);
        tess_token_shard_close(&shard);
        snprintf(path, sizeof(path), "%s.shard", made[i].path);
        EXPECT(!tess_os_is_file(path));
        snprintf(path, sizeof(path), "%s.partial", made[i].path);
        EXPECT(!tess_os_is_file(path));
    }
    tess_ids_free(&ids);
    tess_ids_free(&ahead);
    tess_buffer_free(&want);
    tess_tokenizer_destroy(&tokenizer);
}

static void a_killed_writer_for_others_is_followed_to_the_same_bytes(void)
{
    tess_tokenizer *tokenizer = load_tokenizer("data/fixtures/gpt2.json");
    tess_corpus_result result;
    tess_ids ids = {0};
    int64_t starts[5];
    const char *files[3], *out = path_of("k.bin"), *whole = path_of("w.bin");
    int n = write_plain_corpus(tokenizer, files, &ids, starts);
    tess_mapping own;
    EXPECT_OK(tokenize_for(tokenizer, files, n, TESS_SHARD_MEGATRON, whole, &result));
    EXPECT_OK(tokenize(tokenizer, files, n, path_of("own.shard"), 1, &result));
    EXPECT_OK(tess_os_map(path_of("own.shard"), &own));
    for (int state = 0; state < 3; state++) { /* while it tokenized; while it wrote the ids; before the index */
        write_file(state == 0 ? "k.bin.shard.partial" : "k.bin.shard", own.data,
                   state == 0 ? own.size * 2 / 3 : own.size);
        write_file(state == 2 ? "k.bin" : "k.bin.partial", "half", 4);
        EXPECT_OK(tokenize_for(tokenizer, files, n, TESS_SHARD_MEGATRON, out, &result));
        EXPECT(result.resumed && result.n_tokens == ids.size - 4);
        EXPECT(same_bytes(out, whole) && same_bytes(path_of("k.idx"), path_of("w.idx")));
        EXPECT(!tess_os_is_file(path_of("k.bin.shard")) && !tess_os_is_file(path_of("k.bin.partial")));
        tess_os_remove(out);
        tess_os_remove(path_of("k.idx"));
    }
    tess_os_unmap(&own);
    EXPECT_FAILS(tokenize_for(tokenizer, files, n, TESS_SHARD_MEGATRON, whole, &result), TESS_E_INVALID,
                 "w.idx: it is there already");
    EXPECT_FAILS(tokenize_for(tokenizer, files, n, TESS_SHARD_MEGATRON, path_of("k.data"), &result), TESS_E_INVALID,
                 "give NAME.bin");
    static const char pair[] = "{\"prompt\": \"a\", \"completion\": \"b\"}\n";
    const char *pairs = write_file("pairs.jsonl", pair, sizeof(pair) - 1);
    EXPECT_FAILS(tokenize_for(tokenizer, &pairs, 1, TESS_SHARD_LLMC, path_of("p.bin"), &result), TESS_E_UNSUPPORTED,
                 "pairs.jsonl: prompts and conversations");
    EXPECT(!tess_os_is_file(path_of("p.bin.shard")) && !tess_os_is_file(path_of("p.bin.shard.partial")) &&
           !tess_os_is_file(path_of("p.bin")));
    tess_ids_free(&ids);
    tess_tokenizer_destroy(&tokenizer);
}

static void files_of_other_programs_give_their_documents(void)
{
    tess_tokenizer *tokenizer = load_tokenizer("data/fixtures/gpt2.json");
    tess_ids ids = {0};
    int64_t starts[N_DOCUMENTS + 1];
    tess_buffer out = {.mem = test_mem()};
    uint64_t want[N_BATCHES], got[N_BATCHES];
    make_documents(&ids, starts);
    put_llmc(&out, 20240520, 1, ids.data, ids.size, 2);
    const char *gpt2 = write_file("gpt2.bin", out.data, out.size), *path = gpt2;
    expect_documents(tokenizer, path, TESS_DATA_AUTO, &ids, starts);
    put_llmc(&out, 20240801, 7, ids.data, ids.size, 4);
    expect_documents(tokenizer, write_file("llama3.bin", out.data, out.size), TESS_DATA_AUTO, &ids, starts);
    for (int width = 2; width <= 4; width += 2) {
        out.size = 0;
        put_ids(&out, ids.data, ids.size, width);
        path = write_file(width == 2 ? "nano16.bin" : "nano32.bin", out.data, out.size);
        expect_documents(tokenizer, path, width == 2 ? TESS_DATA_UINT16 : TESS_DATA_UINT32, &ids, starts);
    }
    static const struct {
        int width;
        uint8_t code;
    } types[] = {{2, 8}, {4, 4}, {8, 5}};
    for (int i = 0; i < 3; i++) {
        out.size = 0;
        put_ids(&out, ids.data, ids.size, types[i].width);
        path = write_file("m.bin", out.data, out.size);
        put_index(&out, starts, N_DOCUMENTS, types[i].width, types[i].code);
        const char *idx = write_file("m.idx", out.data, out.size);
        expect_documents(tokenizer, path, TESS_DATA_AUTO, &ids, starts);
        expect_documents(tokenizer, idx, TESS_DATA_AUTO, &ids, starts);
    }
    /* The same documents, and so the same batches, whatever the file. */
    tess_loader_options options = options_for(&gpt2, 1);
    take_batches(tokenizer, &options, want);
    options.files = &path;
    take_batches(tokenizer, &options, got);
    EXPECT_SAME(got, want, N_BATCHES);
    tess_ids_free(&ids);
    tess_buffer_free(&out);
    tess_tokenizer_destroy(&tokenizer);
}

static void the_bos_of_other_programs_begins_documents_and_is_left_to_the_loader(void)
{
    tess_tokenizer *tokenizer = load_tokenizer("data/fixtures/llama3.json");
    const int32_t bos = tess_tokenizer_prefix(tokenizer).id[0], ids[] = {bos, 5, 6, bos, 8, 9, 10, bos, 11, 12};
    tess_buffer out = {.mem = test_mem()};
    tess_token_block block = tess_token_block_of(test_mem());
    tess_token_shard *shard;
    EXPECT_INT(tess_tokenizer_prefix(tokenizer).n, 1);
    put_llmc(&out, 20240801, 7, ids, 10, 4);
    const char *path = write_file("bos.bin", out.data, out.size);
    const tess_token_shard_options options = {.tokenizer = tokenizer, .end_id = -1, .end = 1};
    EXPECT_OK(tess_token_shard_open(test_mem(), path, &options, &shard));
    EXPECT_OK(tess_token_shard_read(shard, 0, &block));
    static const int32_t want[] = {5, 6, 8, 9, 10, 11, 12};
    EXPECT_INT(block.n_documents, 3);
    EXPECT_INT(block.ids.size, 7);
    EXPECT_SAME(block.ids.data, want, 7);
    EXPECT_INT(block.documents[1].n_tokens, 3);
    tess_token_shard_close(&shard);
    tess_token_block_free(&block);
    tess_buffer_free(&out);
    tess_tokenizer_destroy(&tokenizer);
}

/* 20 GB as holes: what is not read takes no memory, and no time. */
static void twenty_gigabytes_are_opened_without_being_read(void)
{
    enum { FILES = 5 };
    tess_tokenizer *tokenizer = load_tokenizer("data/fixtures/gpt2.json");
    const char *files[FILES];
    uint32_t header[256] = {20240520, 1, 2000000000};
    tess_token_shard *shards[FILES];
    const tess_token_shard_options options = {.tokenizer = tokenizer, .end_id = -1, .end = 1};
    size_t before = tess_mem_stats(test_mem(), TESS_POOL_MISC).bytes;
    for (int i = 0; i < FILES; i++) {
        char name[32];
        snprintf(name, sizeof(name), "sparse%d.bin", i);
        files[i] = write_file(name, header, sizeof(header));
        EXPECT_INT(truncate(files[i], 1024 + 4000000000ll), 0);
    }
    double begin_s = tess_os_now_s();
    for (int i = 0; i < FILES; i++)
        EXPECT_OK(tess_token_shard_open(test_mem(), files[i], &options, &shards[i]));
    double opened_s = tess_os_now_s() - begin_s;
    printf("opened in %.6f s\n", opened_s);
    EXPECT(opened_s < 1); /* a tenth on a machine that has nothing else to do: docs/performance.md */
    EXPECT(tess_mem_stats(test_mem(), TESS_POOL_MISC).bytes - before < 64 << 10);
    EXPECT_INT(tess_token_shard_blocks(shards[0]), (2000000000 + 65535) / 65536);
    for (int i = 0; i < FILES; i++)
        tess_token_shard_close(&shards[i]);
    tess_loader *loader;
    tess_micro_batch batch;
    bool end;
    const tess_loader_options loading = options_for(files, FILES);
    EXPECT_OK(tess_loader_create(test_mem(), tokenizer, &loading, &loader));
    EXPECT_OK(tess_loader_next(loader, 1000, &batch, &end));
    EXPECT_INT(batch.n_targets, batch.n_tokens);
    tess_loader_destroy(&loader);
    for (int i = 0; i < FILES; i++)
        tess_os_remove(files[i]);
    tess_tokenizer_destroy(&tokenizer);
}

/* How often each id is a target in an epoch, of all ranks. */
static void count_targets(const tess_tokenizer *tokenizer, const tess_loader_options *options, int64_t world,
                          int64_t *counts)
{
    for (int64_t rank = 0; rank < world; rank++) {
        tess_loader *loader;
        tess_micro_batch batch;
        bool end = false;
        EXPECT_OK(tess_loader_create(test_mem(), tokenizer, options, &loader));
        for (int64_t skip = rank;; skip = world - 1) {
            EXPECT_OK(tess_loader_next(loader, skip, &batch, &end));
            if (end)
                break;
            for (int64_t i = 0; i < batch.n_tokens; i++)
                if (batch.targets[i] >= 0)
                    counts[batch.targets[i]]++;
        }
        tess_loader_destroy(&loader);
    }
}

/* Files of each kind together. The end token ends a document, and the first token of one is no target. */
static void an_epoch_of_shards_feeds_each_token_once_to_any_number_of_ranks(void)
{
    enum { MOST = 1024 };
    tess_tokenizer *tokenizer = load_tokenizer("data/fixtures/gpt2.json");
    tess_buffer out = {.mem = test_mem()};
    tess_ids ids = {0};
    int64_t starts[N_DOCUMENTS + 1], want[MOST] = {0};
    make_documents(&ids, starts);
    for (int d = 0; d < N_DOCUMENTS; d++)
        for (int64_t i = starts[d] + 1; i < starts[d + 1]; i++)
            want[ids.data[i]] += 2; /* once in each of both files */
    put_llmc(&out, 20240520, 1, ids.data, ids.size, 2);
    const char *files[] = {write_file("once.bin", out.data, out.size), path_of("once_mega.idx")};
    out.size = 0;
    put_ids(&out, ids.data, ids.size, 4);
    write_file("once_mega.bin", out.data, out.size);
    put_index(&out, starts, N_DOCUMENTS, 4, 4);
    write_file("once_mega.idx", out.data, out.size);
    tess_loader_options options = options_for(files, 2);
    options.repeat = false;
    for (int64_t world = 1; world <= 4; world *= 2) {
        int64_t got[MOST] = {0};
        count_targets(tokenizer, &options, world, got);
        EXPECT_SAME(got, want, MOST);
    }
    tess_buffer_free(&out);
    tess_ids_free(&ids);
    tess_tokenizer_destroy(&tokenizer);
}

/* ---- Bad files ---- */
static void expect_refused(const tess_tokenizer *tokenizer, const char *path, tess_data_format format,
                           tess_status status, const char *text)
{
    const tess_token_shard_options options = {.tokenizer = tokenizer, .format = format, .end_id = END, .end = 1};
    tess_token_shard *shard;
    tess_token_block block = tess_token_block_of(test_mem());
    tess_status got = tess_token_shard_open(test_mem(), path, &options, &shard);
    for (uint64_t i = 0; got == TESS_OK && shard != NULL && i < tess_token_shard_blocks(shard); i++)
        got = tess_token_shard_read(shard, i, &block);
    EXPECT_FAILS(got, status, text);
    EXPECT_CONTAINS(tess_error_message(), path);
    tess_token_shard_close(&shard);
    tess_token_block_free(&block);
}

static void bad_shards_are_refused_by_name(void)
{
    tess_tokenizer *tokenizer = load_tokenizer("data/fixtures/gpt2.json"),
                   *other = load_tokenizer("data/fixtures/trained.json");
    const char *files[3], *good = path_of("good.shard");
    tess_corpus_result result;
    tess_mapping bytes;
    EXPECT_OK(tokenize(tokenizer, files, write_corpus(files) - 2, good, 2, &result));
    EXPECT_OK(tess_os_map(good, &bytes));
    expect_refused(other, good, TESS_DATA_AUTO, TESS_E_INVALID, "another tokenizer");
    expect_refused(tokenizer, write_file("half.shard", bytes.data, bytes.size / 2), TESS_DATA_AUTO, TESS_E_FORMAT,
                   "half-written");
    expect_refused(tokenizer, write_file("tiny.shard", bytes.data, 20), TESS_DATA_AUTO, TESS_E_FORMAT, "half-written");
    uint8_t *copy = malloc(bytes.size);
    static const struct {
        double at; /* place in the file; below 0: bytes from its end */
        const char *text;
    } damage[] = {
        {0, NULL}, {0.5, "is damaged: its checksum"}, {-20, "its end is damaged"}, {-100, "its end is damaged"}};
    for (int i = 1; i < 4; i++) {
        memcpy(copy, bytes.data, bytes.size);
        copy[damage[i].at < 0 ? bytes.size - (size_t)-damage[i].at : (size_t)(damage[i].at * (double)bytes.size)] ^= 4;
        expect_refused(tokenizer, write_file("bad.shard", copy, bytes.size), TESS_DATA_AUTO, TESS_E_FORMAT,
                       damage[i].text);
    }
    memcpy(copy, bytes.data, bytes.size);
    copy[8] = 2;
    expect_refused(tokenizer, write_file("bad.shard", copy, bytes.size), TESS_DATA_AUTO, TESS_E_UNSUPPORTED,
                   "version 2");
    copy[8] = 1;
    copy[25] ^= 1;
    expect_refused(tokenizer, write_file("bad.shard", copy, bytes.size), TESS_DATA_AUTO, TESS_E_FORMAT,
                   "header is damaged");
    free(copy);
    tess_os_unmap(&bytes);
    tess_tokenizer_destroy(&other);
    tess_tokenizer_destroy(&tokenizer);
}

static void bad_files_of_other_programs_are_refused_by_name(void)
{
    tess_tokenizer *tokenizer = load_tokenizer("data/fixtures/gpt2.json");
    tess_buffer out = {.mem = test_mem()};
    static const int32_t ids[] = {8, 9, END, 60000, 9, END};
    static const int64_t starts[] = {0, 3, 6};
    const tess_data_format none = TESS_DATA_AUTO, u16 = TESS_DATA_UINT16;
    put_ids(&out, ids, 6, 2);
    expect_refused(tokenizer, write_file("raw.bin", out.data, 12), u16, TESS_E_FORMAT, "token 3 is 60000");
    expect_refused(tokenizer, path_of("raw.bin"), TESS_DATA_UINT32, TESS_E_FORMAT, "data.format");
    expect_refused(tokenizer, path_of("raw.bin"), none, TESS_E_INVALID, "data.format to uint16");
    expect_refused(tokenizer, write_file("odd.bin", out.data, 11), u16, TESS_E_FORMAT, "no whole number");
    expect_refused(tokenizer, write_file("one.bin", out.data, 2), u16, TESS_E_INVALID, "no pair");
    const char *bin = write_file("i.bin", out.data, 12);
    put_llmc(&out, 20240520, 1, ids, 6, 2);
    expect_refused(tokenizer, write_file("l.bin", out.data, out.size - 2), none, TESS_E_FORMAT, "half-written");
    expect_refused(tokenizer, write_file("l.bin", out.data, 100), none, TESS_E_FORMAT, "half-written");
    put_llmc(&out, 20240801, 1, ids, 6, 4);
    expect_refused(tokenizer, write_file("l.bin", out.data, out.size), none, TESS_E_UNSUPPORTED, "version 1");
    put_index(&out, starts, 2, 2, 8);
    const char *idx = write_file("i.idx", out.data, out.size);
    expect_refused(tokenizer, bin, none, TESS_E_FORMAT, "token 3 is 60000");
    expect_refused(tokenizer, write_file("lone.idx", out.data, out.size), none, TESS_E_NOT_FOUND, "lone.bin");
    expect_refused(tokenizer, write_file("i.other", out.data, out.size), none, TESS_E_INVALID, "end in .idx");
    write_file("i.idx", out.data, out.size - 9);
    expect_refused(tokenizer, bin, none, TESS_E_FORMAT, "is cut off");
    out.data[9] = 2;
    write_file("i.idx", out.data, out.size);
    expect_refused(tokenizer, idx, none, TESS_E_UNSUPPORTED, "version 2");
    out.data[9] = 1;
    out.data[17] = 6;
    write_file("i.idx", out.data, out.size);
    expect_refused(tokenizer, bin, none, TESS_E_UNSUPPORTED, "type 6");
    out.data[17] = 4;
    write_file("i.idx", out.data, out.size);
    expect_refused(tokenizer, bin, none, TESS_E_FORMAT, "bytes");
    /* Every size and pointer of an index is checked: here of four sequences. */
    static const int32_t good[] = {8, 9, END, 8, 9, END};
    out.size = 0;
    put_ids(&out, good, 6, 2);
    bin = write_file("i.bin", out.data, 12);
    put_index(&out, starts, 2, 2, 8);
    write_file("i.idx", out.data, out.size);
    for (size_t at = 34; at < 34 + 4 * 12; at++) {
        out.data[at] ^= 1;
        write_file("i.idx", out.data, out.size);
        expect_refused(tokenizer, bin, none, TESS_E_FORMAT, "i.bin: its ");
        out.data[at] ^= 1;
    }
    tess_buffer_free(&out);
    tess_tokenizer_destroy(&tokenizer);
}

static void bad_lines_leave_nothing_behind(void)
{
    tess_tokenizer *tokenizer = load_tokenizer("data/fixtures/gpt2.json");
    tess_buffer json = make_jsonl(3000);
    const char *out = path_of("bad.shard"), *files[2];
    tess_corpus_result result;
    append(&json, "{\"text\": 5}\n", 12);
    files[0] = write_file("bad.jsonl", json.data, json.size);
    char line[64];
    int n_lines = 0;
    for (size_t i = 0; i < json.size; i++)
        n_lines += json.data[i] == '\n';
    snprintf(line, sizeof(line), "bad.jsonl: line %d", n_lines);
    EXPECT_FAILS(tokenize(tokenizer, files, 1, out, 2, &result), TESS_E_FORMAT, line);
    files[0] = write_file("empty.txt", "", 0);
    EXPECT_FAILS(tokenize(tokenizer, files, 1, out, 2, &result), TESS_E_INVALID, "is empty");
    files[0] = path_of("nothing.txt");
    EXPECT_FAILS(tokenize(tokenizer, files, 1, out, 2, &result), TESS_E_NOT_FOUND, "nothing.txt");
    EXPECT(!tess_os_is_file(out) && !tess_os_is_file(path_of("bad.shard.partial")));
    tess_buffer_free(&json);
    tess_tokenizer_destroy(&tokenizer);
}

static const test_case cases[] = {
    CASE(a_shard_gives_the_batches_of_its_text_whatever_the_threads),
    CASE(a_killed_writer_is_followed_to_the_same_bytes),
    CASE(compressed_text_gives_the_blocks_of_plain_text),
    CASE(parts_of_a_shard_share_no_token_and_leave_none_out),
    CASE(a_digest_is_of_what_a_tokenizer_does_and_not_of_its_file),
    CASE(what_is_written_for_others_has_their_bytes),
    CASE(a_killed_writer_for_others_is_followed_to_the_same_bytes),
    CASE(files_of_other_programs_give_their_documents),
    CASE(the_bos_of_other_programs_begins_documents_and_is_left_to_the_loader),
    CASE(twenty_gigabytes_are_opened_without_being_read),
    CASE(an_epoch_of_shards_feeds_each_token_once_to_any_number_of_ranks),
    CASE(bad_shards_are_refused_by_name),
    CASE(bad_files_of_other_programs_are_refused_by_name),
    CASE(bad_lines_leave_nothing_behind),
};
TEST_MAIN(cases)
