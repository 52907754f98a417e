/* The loader: rows of texts for any number of ranks, positions, and what it refuses. */
#include <stdlib.h>
#include <unistd.h>

#include "base/core/rng.h"
#include "base/os/os.h"
#include "base/text/text.h"
#include "data/loader/loader.h"
#include "support/test.h"

enum { MAX_FILES = 160 };

static tess_tokenizer *the_tokenizer(void)
{
    tess_tokenizer *tokenizer;
    EXPECT_OK(tess_tokenizer_load(test_mem(), test_path("data/fixtures/gpt2.json"), &tokenizer));
    return tokenizer;
}

static const char *write_file(const char *name, const char *text, size_t size)
{
    static char paths[MAX_FILES][512];
    static int n;
    char *path = paths[n++];
    EXPECT_OK(tess_os_join(path, sizeof(paths[0]), test_folder(), name));
    EXPECT_OK(tess_os_write_atomic(path, text, size));
    return path;
}

/* Lines of different words, each with its line number. */
static void make_lines(tess_buffer *text, uint64_t seed, int n_lines)
{
    static const char *const words[] = {"stone",  "river", "and", "the",   "seven",
                                        "lights", "of",    "a",   "house", "\xc3\xa9t\xc3\xa9"};
    text->mem = test_mem();
    for (int i = 0; i < n_lines; i++) {
        uint64_t r = tess_rng_u64(seed, TESS_RNG_TEST, 0, (uint64_t)i);
        EXPECT_OK(tess_buffer_printf(text, "%d.%06d", (int)seed, i));
        for (int k = 0; k < 3 + (int)(r % 9); k++)
            EXPECT_OK(tess_buffer_printf(text, " %s", words[(r >> (4 * k + 4)) % 10]));
        EXPECT_OK(tess_buffer_printf(text, ".\n"));
    }
}

static size_t next_character(const char *text, size_t at)
{
    while (((unsigned char)text[at] & 0xc0) == 0x80)
        at++;
    return at;
}

static tess_loader_options options_for(const char *const *files, int n_files)
{
    return (tess_loader_options){.files = files,
                                 .n_files = n_files,
                                 .seq_len = 31,
                                 .micro_batch = 3,
                                 .seed = 11,
                                 .shuffle = true,
                                 .repeat = true,
                                 .end = 1,
                                 .eos_id = -1};
}

static void check_batch(const tess_micro_batch *b, int64_t vocab_size)
{
    int64_t n_targets = 0;
    EXPECT_INT(b->cu_seqlens[0], 0);
    EXPECT_INT(b->cu_seqlens[b->n_seqs], b->n_tokens);
    for (int64_t s = 0; s < b->n_seqs; s++) {
        EXPECT(b->cu_seqlens[s] < b->cu_seqlens[s + 1]);
        for (int32_t i = b->cu_seqlens[s]; i < b->cu_seqlens[s + 1]; i++) {
            EXPECT_INT(b->pos[i], i - b->cu_seqlens[s]);
            EXPECT(b->ids[i] >= 0 && b->ids[i] < vocab_size && b->targets[i] >= -1 && b->targets[i] < vocab_size);
            EXPECT(i + 1 == b->cu_seqlens[s + 1] || b->targets[i] < 0 || b->targets[i] == b->ids[i + 1]);
            n_targets += b->targets[i] >= 0;
        }
    }
    EXPECT_INT(b->n_targets, n_targets);
}

static uint64_t hash_batch(const tess_micro_batch *b)
{
    size_t size = (size_t)b->n_tokens * sizeof(int32_t);
    uint64_t h = tess_hash_bytes(b->ids, size, b->epoch);
    h = tess_hash_bytes(b->targets, size, h);
    h = tess_hash_bytes(b->pos, size, h);
    return tess_hash_bytes(b->cu_seqlens, (size_t)(b->n_seqs + 1) * sizeof(int32_t), h);
}

/* The sum of a hash of (token, next token): the same for any order of the pairs. */
static uint64_t pair_hash(int32_t id, int32_t next)
{
    const int32_t pair[2] = {id, next};
    return tess_hash_bytes(pair, sizeof(pair), 5);
}

static uint64_t batch_pairs(const tess_micro_batch *b)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < b->n_tokens; i++)
        sum += b->targets[i] >= 0 ? pair_hash(b->ids[i], b->targets[i]) : 0;
    return sum;
}

static void an_epoch_has_every_pair_of_tokens_once(void)
{
    tess_tokenizer *tokenizer = the_tokenizer();
    const char *files[MAX_FILES];
    uint64_t want = 0, got[3] = {0}, want_pairs = 0, got_pairs[3] = {0};
    tess_encoder *encoder;
    EXPECT_OK(tess_encoder_create(test_mem(), tokenizer, &encoder));
    for (int f = 0; f < 70; f++) { /* two windows: 64 blocks and 6 */
        tess_buffer text = {0};
        char name[32];
        snprintf(name, sizeof(name), "f%d.txt", f);
        make_lines(&text, (uint64_t)f, 1 + f % 7);
        files[f] = write_file(name, text.data, text.size);
        tess_ids ids = {.mem = test_mem()};
        EXPECT_OK(tess_encode(encoder, text.data, text.size, false, &ids));
        for (size_t i = 1; i < ids.size; i++)
            want += pair_hash(ids.data[i - 1], ids.data[i]);
        want_pairs += ids.size - 1;
        tess_ids_free(&ids);
        tess_buffer_free(&text);
    }
    tess_encoder_destroy(&encoder);
    tess_loader *loader;
    tess_loader_options options = options_for(files, 70);
    options.micro_batch = 1;
    EXPECT_OK(tess_loader_create(test_mem(), tokenizer, &options, &loader));
    tess_micro_batch batch = {0};
    uint64_t first[2] = {0};
    for (bool end = false;;) {
        EXPECT_OK(tess_loader_next(loader, 0, &batch, &end));
        EXPECT(!end);
        if (batch.epoch == 3)
            break;
        check_batch(&batch, tess_tokenizer_vocab_size(tokenizer));
        if (got_pairs[batch.epoch] == 0 && batch.epoch < 2)
            first[batch.epoch] = hash_batch(&batch);
        got[batch.epoch] += batch_pairs(&batch);
        got_pairs[batch.epoch] += (uint64_t)batch.n_targets;
    }
    for (int e = 0; e < 3; e++) {
        EXPECT_INT(got_pairs[e], want_pairs);
        EXPECT(got[e] == want);
    }
    EXPECT(first[0] != first[1]); /* another order */
    tess_loader_destroy(&loader);
    tess_tokenizer_destroy(&tokenizer);
}

enum { N_BATCHES = 60 };

static void canonical(const tess_tokenizer *tokenizer, const tess_loader_options *options, uint64_t *hashes)
{
    tess_loader *loader;
    bool end;
    tess_micro_batch batch;
    EXPECT_OK(tess_loader_create(test_mem(), tokenizer, options, &loader));
    for (int i = 0; i < N_BATCHES; i++) {
        EXPECT_OK(tess_loader_next(loader, 0, &batch, &end));
        hashes[i] = hash_batch(&batch);
    }
    tess_loader_destroy(&loader);
}

static int make_mixed(const char **files)
{
    tess_buffer text = {0}, json = {.mem = test_mem()};
    make_lines(&text, 1, 300);
    files[0] = write_file("a.txt", text.data, text.size);
    for (int i = 0; i < 90; i++)
        EXPECT_OK(
            tess_buffer_printf(&json, "{\"id\": %d, \"text\": \"%.*s\\n\"}\n", i, 1 + i * 7 % 90,
                               "document of words and words"
                               " until it ends somewhere in the middle of what was a sentence, as it seems to me"));
    files[1] = write_file("b.jsonl", json.data, json.size);
    for (int f = 2; f < 68; f++) {
        char name[32];
        snprintf(name, sizeof(name), "c%d.txt", f);
        size_t begin = next_character(text.data, 40 * (size_t)f);
        files[f] = write_file(name, text.data + begin, next_character(text.data, begin + 40) - begin);
    }
    tess_buffer_free(&text);
    tess_buffer_free(&json);
    return 68;
}

static void ranks_share_one_sequence_whatever_their_number(void)
{
    tess_tokenizer *tokenizer = the_tokenizer();
    const char *files[MAX_FILES];
    tess_loader_options options = options_for(files, make_mixed(files));
    uint64_t want[N_BATCHES], epochs = 0;
    options.eos_id = 0;
    options.seq_len = 61;
    options.micro_batch = 5;
    canonical(tokenizer, &options, want);
    for (int world = 2; world <= 8; world += 3) {
        for (int rank = 0; rank < world; rank++) {
            tess_loader *loader;
            bool end;
            tess_micro_batch batch;
            EXPECT_OK(tess_loader_create(test_mem(), tokenizer, &options, &loader));
            for (int g = rank; g < N_BATCHES; g += world) {
                EXPECT_OK(tess_loader_next(loader, g == rank ? rank : world - 1, &batch, &end));
                EXPECT(hash_batch(&batch) == want[g]);
                epochs = batch.epoch > epochs ? batch.epoch : epochs;
            }
            tess_loader_destroy(&loader);
        }
    }
    EXPECT(epochs >= 1); /* windows and epochs were crossed */
    tess_tokenizer_destroy(&tokenizer);
}

static void seek_to_a_cursor_goes_on_with_the_next_batch(void)
{
    tess_tokenizer *tokenizer = the_tokenizer();
    const char *files[MAX_FILES];
    uint64_t want[N_BATCHES];
    tess_loader *first, *second;
    bool end;
    tess_micro_batch batch;
    for (int shape = 0; shape < 2; shape++) { /* one window an epoch, and two */
        tess_loader_options options = options_for(files, shape == 0 ? (make_mixed(files), 1) : 68);
        canonical(tokenizer, &options, want);
        EXPECT_OK(tess_loader_create(test_mem(), tokenizer, &options, &first));
        EXPECT_OK(tess_loader_create(test_mem(), tokenizer, &options, &second));
        for (int i = 0; i < N_BATCHES; i++) {
            tess_data_cursor cursor;
            tess_loader_cursor(first, &cursor);
            EXPECT_OK(tess_loader_next(first, 0, &batch, &end));
            EXPECT(hash_batch(&batch) == want[i]);
            if (i % 5 != 0)
                continue;
            EXPECT_OK(tess_loader_seek(second, &cursor));
            for (int k = i; k < i + 3 && k < N_BATCHES; k++) {
                EXPECT_OK(tess_loader_next(second, 0, &batch, &end));
                EXPECT(hash_batch(&batch) == want[k]);
            }
        }
        EXPECT_OK(tess_loader_seek(second, &(tess_data_cursor){0}));
        EXPECT_OK(tess_loader_next(second, N_BATCHES - 1, &batch, &end)); /* one long skip */
        EXPECT(hash_batch(&batch) == want[N_BATCHES - 1]);
        EXPECT_FAILS(tess_loader_seek(second, &(tess_data_cursor){1, {{.window = 2}}}), TESS_E_INVALID, "windows");
        EXPECT_FAILS(tess_loader_next(second, -1, &batch, &end), TESS_E_INVALID, "skip");
        tess_loader_destroy(&first);
        tess_loader_destroy(&second);
    }
    tess_tokenizer_destroy(&tokenizer);
}

static void shuffle_and_repeat_are_independent(void)
{
    tess_tokenizer *tokenizer = the_tokenizer();
    const char *files[MAX_FILES];
    tess_loader_options options = options_for(files, make_mixed(files));
    uint64_t n_targets[4], pairs[4];
    for (int k = 0; k < 4; k++) {
        tess_loader *loader;
        tess_micro_batch batch;
        n_targets[k] = pairs[k] = 0;
        options.shuffle = k & 1;
        options.repeat = k & 2;
        options.micro_batch = 1;
        EXPECT_OK(tess_loader_create(test_mem(), tokenizer, &options, &loader));
        for (bool end = false;;) {
            EXPECT_OK(tess_loader_next(loader, 0, &batch, &end));
            EXPECT_INT(end && options.repeat, 0);
            if (end || batch.epoch > 0)
                break;
            n_targets[k] += (uint64_t)batch.n_targets;
            pairs[k] += batch_pairs(&batch);
        }
        EXPECT(batch.epoch == (options.repeat ? 1 : 0));
        tess_loader_destroy(&loader);
        EXPECT_INT(n_targets[k], n_targets[0]);
        EXPECT(pairs[k] == pairs[0]);
    }
    tess_tokenizer_destroy(&tokenizer);
}

static void the_seed_decides_the_order(void)
{
    tess_tokenizer *tokenizer = the_tokenizer();
    const char *files[MAX_FILES];
    uint64_t one[N_BATCHES], again[N_BATCHES], other[N_BATCHES];
    tess_loader_options options = options_for(files, make_mixed(files));
    canonical(tokenizer, &options, one);
    canonical(tokenizer, &options, again);
    options.seed++;
    canonical(tokenizer, &options, other);
    EXPECT_SAME(again, one, N_BATCHES);
    EXPECT(memcmp(one, other, sizeof(one)) != 0);
    tess_tokenizer_destroy(&tokenizer);
}

/* Text of a pass without shuffle: every sequence that does not go on from the row before starts with its first input.
 */
static void read_back(const tess_tokenizer *tokenizer, const tess_loader_options *options, tess_buffer *text,
                      uint64_t *n_bytes, int64_t *n_targets)
{
    tess_loader *loader;
    tess_micro_batch batch;
    tess_ids ids = {.mem = test_mem()};
    bool end = false;
    int32_t last = -1;
    *n_bytes = 0;
    *n_targets = 0;
    EXPECT_OK(tess_loader_create(test_mem(), tokenizer, options, &loader));
    for (;;) {
        EXPECT_OK(tess_loader_next(loader, 0, &batch, &end));
        if (end)
            break;
        check_batch(&batch, tess_tokenizer_vocab_size(tokenizer));
        EXPECT_INT(batch.epoch, 0);
        *n_bytes += batch.n_bytes;
        *n_targets += batch.n_targets;
        for (int64_t s = 0; s < batch.n_seqs; s++) {
            int32_t at = batch.cu_seqlens[s];
            if (batch.targets[at] < 0)
                continue;
            if (at % options->seq_len != 0 || batch.ids[at] != last)
                EXPECT_OK(tess_ids_append(&ids, batch.ids[at]));
            for (; at < batch.cu_seqlens[s + 1]; at++)
                EXPECT_OK(tess_ids_append(&ids, last = batch.targets[at]));
        }
    }
    EXPECT_OK(tess_loader_next(loader, 5, &batch, &end)); /* the end stays the end */
    EXPECT(end);
    EXPECT_OK(tess_decode(tokenizer, ids.data, ids.size, false, text));
    tess_ids_free(&ids);
    tess_loader_destroy(&loader);
}

static void training_and_validation_share_no_line_and_leave_none_out(void)
{
    tess_tokenizer *tokenizer = the_tokenizer();
    tess_buffer text = {0}, train = {.mem = test_mem()}, valid = {.mem = test_mem()};
    uint64_t n_bytes;
    int64_t n_targets;
    make_lines(&text, 3, 12000); /* about 600 KB: three blocks */
    EXPECT(text.size > 2 * 256 * 1024);
    const char *file = write_file("text.txt", text.data, text.size);
    tess_loader_options options = options_for(&file, 1);
    options.shuffle = options.repeat = false;
    options.seq_len = 1000;
    options.end = 0.9;
    read_back(tokenizer, &options, &train, &n_bytes, &n_targets);
    options.begin = 0.9;
    options.end = 1;
    read_back(tokenizer, &options, &valid, &n_bytes, &n_targets);
    EXPECT(n_bytes < valid.size && n_bytes + 20 > valid.size); /* all but the first token */
    EXPECT(train.data[train.size - 1] == '\n' && valid.size > text.size / 11);
    EXPECT_OK(tess_buffer_append(&train, valid.data, valid.size));
    EXPECT_INT(train.size, text.size);
    EXPECT_SAME(train.data, text.data, text.size);
    tess_buffer_free(&train);
    tess_buffer_free(&valid);
    tess_buffer_free(&text);
    tess_tokenizer_destroy(&tokenizer);
}

static void text_without_line_ends_still_comes_in_blocks(void)
{
    tess_tokenizer *tokenizer = the_tokenizer();
    tess_buffer text = {.mem = test_mem()}, back = {.mem = test_mem()};
    uint64_t n_bytes;
    int64_t n_targets;
    while (text.size < 900000)
        EXPECT_OK(tess_buffer_printf(&text, "\xe6\x97\xa5\xe6\x9c\xac %zu", text.size));
    const char *file = write_file("one-line.txt", text.data, text.size);
    tess_loader_options options = options_for(&file, 1);
    options.shuffle = options.repeat = false;
    options.seq_len = 4096;
    read_back(tokenizer, &options, &back, &n_bytes, &n_targets);
    EXPECT_INT(back.size, text.size);
    EXPECT_SAME(back.data, text.data, text.size);
    tess_buffer_free(&text);
    tess_buffer_free(&back);
    tess_tokenizer_destroy(&tokenizer);
}

static void documents_of_jsonl_get_bos_and_eos(void)
{
    tess_tokenizer *tokenizer = the_tokenizer();
    const char text[] = "\xef\xbb\xbf{\"body\": \"one\"}\r\n\n  \n{\"body\": null}\n{\"body\": \"\"}\n"
                        "{\"body\": \"two \\u00e9\", \"x\": [1]}";
    const char *file = write_file("d.jsonl", text, sizeof(text) - 1);
    tess_loader_options options = options_for(&file, 1);
    options.text_key = "body";
    options.shuffle = options.repeat = false;
    options.seq_len = 40;
    options.micro_batch = 1;
    options.bos = (tess_prefix){{1}, 1}; /* "!" */
    options.eos_id = 2;                  /* "\"" */
    tess_loader *loader;
    tess_micro_batch batch;
    bool end;
    EXPECT_OK(tess_loader_create(test_mem(), tokenizer, &options, &loader));
    EXPECT_OK(tess_loader_next(loader, 0, &batch, &end));
    EXPECT_INT(batch.n_seqs, 4); /* three documents, one of them empty, and padding */
    EXPECT_INT(batch.cu_seqlens[2] - batch.cu_seqlens[1], 1);
    for (int d = 0; d < 3; d++) {
        EXPECT_INT(batch.ids[batch.cu_seqlens[d]], 1);
        EXPECT_INT(batch.targets[batch.cu_seqlens[d + 1] - 1], 2);
    }
    EXPECT_INT(batch.ids[39], 2);
    EXPECT_INT(batch.targets[39], -1);
    EXPECT_INT(batch.n_bytes, 3 + 6 + 3); /* "one", "two é", and three marks: they are ordinary characters here */
    tess_loader_destroy(&loader);
    tess_tokenizer_destroy(&tokenizer);
}

static void expect_text(const tess_buffer *got, const char *want)
{
    EXPECT_INT(got->size, strlen(want));
    EXPECT_SAME(got->data, want, got->size);
}

/* A sequence of a batch as its ids, then its last target. */
static void sequence_text(const tess_tokenizer *tokenizer, const tess_micro_batch *b, int64_t s, bool targets_only,
                          tess_buffer *text)
{
    tess_ids ids = {.mem = test_mem()};
    text->mem = test_mem();
    text->size = 0;
    if (!targets_only)
        EXPECT_OK(tess_ids_append(&ids, b->ids[b->cu_seqlens[s]]));
    for (int32_t i = b->cu_seqlens[s]; i < b->cu_seqlens[s + 1]; i++) {
        bool last = i + 1 == b->cu_seqlens[s + 1];
        if (targets_only ? b->targets[i] >= 0 : !last || b->targets[i] >= 0)
            EXPECT_OK(tess_ids_append(&ids, targets_only || last ? b->targets[i] : b->ids[i + 1]));
    }
    EXPECT_OK(tess_decode(tokenizer, ids.data, ids.size, false, text));
    tess_ids_free(&ids);
}

static tess_loader *open_pairs(const tess_tokenizer *tokenizer, const char *name, const char *text,
                               tess_loader_options *options)
{
    static const char *file;
    tess_loader *loader;
    file = write_file(name, text, strlen(text));
    options->files = &file;
    options->n_files = 1;
    options->shuffle = options->repeat = false;
    options->micro_batch = 1;
    options->bos = (tess_prefix){{1}, 1}; /* "!" */
    options->eos_id = 2;                  /* "\"" */
    EXPECT_OK(tess_loader_create(test_mem(), tokenizer, options, &loader));
    return loader;
}

static void the_completion_of_a_prompt_is_trained_on_and_the_prompt_is_not(void)
{
    static const char lines[] = "{\"q\": \"the seven\", \"a\": \" lights of a house\"}\n"
                                "{\"text\": \"a text\", \"q\": \"one\"}\n"
                                "{\"q\": \"\", \"a\": \"river\"}\n"
                                "{\"q\": \"stone\", \"a\": \"\"}\n";
    static const char *const whole[] = {"!the seven lights of a house\"", "!a text\"", "!river\"", "!stone\""};
    static const char *const trained[] = {" lights of a house\"", "a text\"", "river\"", "\""};
    tess_tokenizer *tokenizer = the_tokenizer();
    tess_loader_options options = options_for(NULL, 0);
    options.prompt_key = "q";
    options.completion_key = "a";
    options.seq_len = 100;
    tess_loader *loader = open_pairs(tokenizer, "pairs.jsonl", lines, &options);
    tess_micro_batch batch;
    tess_buffer text = {0};
    bool end;
    EXPECT_OK(tess_loader_next(loader, 0, &batch, &end));
    EXPECT_INT(batch.n_seqs, 5); /* and padding */
    size_t bytes = 0;
    for (int s = 0; s < 4; s++) {
        sequence_text(tokenizer, &batch, s, false, &text);
        expect_text(&text, whole[s]);
        sequence_text(tokenizer, &batch, s, true, &text);
        expect_text(&text, trained[s]);
        bytes += strlen(trained[s]);
    }
    EXPECT_INT(batch.n_bytes, bytes);
    tess_buffer_free(&text);
    tess_loader_destroy(&loader);
    tess_tokenizer_destroy(&tokenizer);
}

/* Lines with prompts of different lengths, and what is trained on of them, in order. */
static void make_pairs(tess_buffer *lines, tess_buffer *trained, int n)
{
    lines->mem = trained->mem = test_mem();
    for (int i = 0; i < n; i++) {
        EXPECT_OK(tess_buffer_printf(lines, "{\"prompt\": \"say %d%.*s\", \"completion\": \"%d it is%.*s\"}\n", i,
                                     i % 7 * 4, " and and and and and and and", i, i % 5 * 6,
                                     " stone stone stone stone"));
        EXPECT_OK(tess_buffer_printf(trained, "%d it is%.*s\"", i, i % 5 * 6, " stone stone stone stone"));
    }
}

static void completions_are_not_split_over_rows_unless_it_is_said(void)
{
    tess_tokenizer *tokenizer = the_tokenizer();
    tess_buffer lines = {0}, want = {0}, text = {0};
    make_pairs(&lines, &want, 200);
    for (int split = TESS_SPLIT_AUTO; split <= TESS_SPLIT_FALSE; split++) {
        tess_loader_options options = options_for(NULL, 0);
        tess_buffer got = {.mem = test_mem()};
        options.seq_len = 40;
        options.split = (tess_split)split;
        tess_loader *loader = open_pairs(tokenizer, "whole.jsonl", lines.data, &options);
        tess_micro_batch batch;
        int64_t goes_on = 0;
        for (bool end = false;;) {
            EXPECT_OK(tess_loader_next(loader, 0, &batch, &end));
            if (end)
                break;
            check_batch(&batch, tess_tokenizer_vocab_size(tokenizer));
            goes_on += batch.ids[0] != 1; /* not the bos */
            EXPECT(split == TESS_SPLIT_TRUE || batch.n_targets > 0);
            for (int64_t s = 0; s < batch.n_seqs; s++) {
                sequence_text(tokenizer, &batch, s, true, &text);
                EXPECT_OK(tess_buffer_append(&got, text.size > 0 ? text.data : "", text.size));
            }
        }
        EXPECT_INT(goes_on > 0, split == TESS_SPLIT_TRUE);
        expect_text(&got, want.data);
        tess_buffer_free(&got);
        tess_loader_destroy(&loader);
    }
    tess_buffer_free(&text);
    tess_buffer_free(&lines);
    tess_buffer_free(&want);
    tess_tokenizer_destroy(&tokenizer);
}

static void ranks_share_one_sequence_of_pairs_and_texts(void)
{
    tess_tokenizer *tokenizer = the_tokenizer();
    tess_buffer lines = {0}, trained = {0};
    uint64_t want[N_BATCHES];
    make_pairs(&lines, &trained, 90);
    for (int i = 0; i < 30; i++)
        EXPECT_OK(tess_buffer_printf(&lines, "{\"text\": \"%.*s\"}\n", 5 + 2 * i,
                                     "a text of the river that may go on in the next row, and then some more of it"));
    const char *file = write_file("both.jsonl", lines.data, lines.size);
    tess_loader_options options = options_for(&file, 1);
    options.eos_id = 0;
    canonical(tokenizer, &options, want);
    for (int world = 2; world <= 4; world++) {
        for (int rank = 0; rank < world; rank++) {
            tess_loader *loader;
            bool end;
            tess_micro_batch batch;
            EXPECT_OK(tess_loader_create(test_mem(), tokenizer, &options, &loader));
            for (int g = rank; g < N_BATCHES; g += world) {
                EXPECT_OK(tess_loader_next(loader, g == rank ? rank : world - 1, &batch, &end));
                EXPECT(hash_batch(&batch) == want[g]);
            }
            EXPECT(batch.epoch >= 1);
            tess_loader_destroy(&loader);
        }
    }
    tess_buffer_free(&lines);
    tess_buffer_free(&trained);
    tess_tokenizer_destroy(&tokenizer);
}

static void blocks_of_plain_text_begin_with_bos_too(void)
{
    tess_tokenizer *tokenizer = the_tokenizer();
    tess_buffer text = {0}, plain = {.mem = test_mem()}, begun = {.mem = test_mem()};
    uint64_t n_bytes[2];
    int64_t n_targets[2];
    make_lines(&text, 3, 12000); /* three blocks */
    const char *file = write_file("begun.txt", text.data, text.size);
    tess_loader_options options = options_for(&file, 1);
    options.shuffle = options.repeat = false;
    options.seq_len = 1000;
    read_back(tokenizer, &options, &plain, &n_bytes[0], &n_targets[0]);
    options.bos = (tess_prefix){{1}, 1}; /* "!", which the text does not hold */
    read_back(tokenizer, &options, &begun, &n_bytes[1], &n_targets[1]);
    EXPECT_INT(n_targets[1], n_targets[0] + 3); /* now the first token of each block is one */
    EXPECT_INT(n_bytes[1], text.size);
    EXPECT_INT(begun.size, plain.size + 3);
    size_t at = 0;
    for (size_t i = 0; i < begun.size; i++) {
        if (begun.data[i] == '!')
            EXPECT(i == 0 || begun.data[i - 1] == '\n');
        else
            EXPECT(begun.data[i] == plain.data[at++]);
    }
    EXPECT_INT(at, plain.size);
    tess_buffer_free(&plain);
    tess_buffer_free(&begun);
    tess_buffer_free(&text);
    tess_tokenizer_destroy(&tokenizer);
}

static void bos_set_later_gives_the_batches_of_bos_from_the_start(void)
{
    tess_tokenizer *tokenizer = the_tokenizer();
    const char *files[MAX_FILES];
    tess_loader_options options = options_for(files, make_mixed(files));
    const tess_prefix bos[2] = {{{0}, 0}, {{1, 2}, 2}};
    uint64_t want[2][N_BATCHES];
    for (int k = 0; k < 2; k++) {
        options.bos = bos[k];
        canonical(tokenizer, &options, want[k]);
    }
    EXPECT(memcmp(want[0], want[1], sizeof(want[0])) != 0);
    tess_loader *loader;
    tess_micro_batch batch;
    bool end;
    EXPECT_OK(tess_loader_create(test_mem(), tokenizer, &options, &loader));
    for (int k = 0; k < 4; k++) {
        EXPECT_OK(tess_loader_set_bos(loader, &bos[k % 2]));
        for (int i = 0; i < N_BATCHES; i++) {
            EXPECT_OK(tess_loader_next(loader, 0, &batch, &end));
            EXPECT(hash_batch(&batch) == want[k % 2][i]);
        }
    }
    tess_loader_destroy(&loader);
    tess_tokenizer_destroy(&tokenizer);
}

static void bad_lines_are_named_with_their_file(void)
{
    static const struct {
        const char *text, *needle;
    } files[] = {
        {"{\"text\": \"a b c\"}\n{\"text\": \"a b\"\n", "line 2"},
        {"{\"text\": \"a b c\"}\n\n\n{\"txet\": \"a b\"}\n", "line 4"},
        {"{\"text\": 5}\n", "'text'"},
        {"[1, 2]\n", "line 1"},
        {"\n\n\n\xff\xfe\n", "line 4"},
    };
    tess_tokenizer *tokenizer = the_tokenizer();
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char name[32];
        snprintf(name, sizeof(name), "bad%zu.jsonl", i);
        const char *file = write_file(name, files[i].text, strlen(files[i].text));
        tess_loader_options options = options_for(&file, 1);
        tess_loader *loader;
        EXPECT_FAILS(tess_loader_create(test_mem(), tokenizer, &options, &loader), TESS_E_FORMAT, files[i].needle);
        EXPECT_CONTAINS(tess_error_message(), name);
        EXPECT(loader == NULL);
    }
    tess_tokenizer_destroy(&tokenizer);
}

static void what_is_not_all_to_be_trained_on_is_refused_by_name(void)
{
    static const struct {
        const char *line, *key; /* key NULL: "text" */
        tess_status status;
        const char *needles[3];
    } lines[] = {
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}",
         NULL,
         TESS_E_UNSUPPORTED,
         {"there is no chat template", "data.chat_template", "line 2"}},
        {"{\"id\": 1, \"conversations\": [{\"from\": \"human\", \"value\": \"a\"}]}",
         NULL,
         TESS_E_UNSUPPORTED,
         {"'conversations' are not supported", "'messages', a list", ""}},
        {"{\"prompt\": \"a\", \"completion\": \"b\"}",
         "completion",
         TESS_E_UNSUPPORTED,
         {"data.text_key=completion is one half of a pair", "'prompt' and 'completion'", "line 2"}},
        {"{\"prompt\": \"a\", \"completion\": \"b\"}",
         "prompt",
         TESS_E_UNSUPPORTED,
         {"data.text_key=prompt is one half of a pair", "", ""}},
        {"{\"prompt\": [\"a\"], \"completion\": \"b\"}",
         NULL,
         TESS_E_FORMAT,
         {"one of 'prompt' and 'completion' is a list of messages and the other is not", "line 2", ""}},
        {"{\"prompt\": \"a\", \"completion\": \"b\", \"loss_mask\": [1]}",
         NULL,
         TESS_E_UNSUPPORTED,
         {"'loss_mask' is not supported", "", ""}},
        {"{\"text\": \"a b\", \"loss_mask\": [0, 1]}",
         NULL,
         TESS_E_UNSUPPORTED,
         {"'loss_mask' is not supported", "every token of 'text'", ""}},
        {"{\"text\": 5}", NULL, TESS_E_FORMAT, {"'text' is an integer: expected a string", "line 2", ""}},
        {"{\"title\": \"a\", \"txet\": \"b\"}",
         NULL,
         TESS_E_FORMAT,
         {"it has no 'text', but 'title', 'txet'", "data.text_key", "line 2"}},
        {"{\"prompt\": \"a\", \"response\": \"b\"}",
         NULL,
         TESS_E_FORMAT,
         {"but 'prompt', 'response'", "data.completion_key", "line 2"}},
        {"{\"prompt\": \"a\", \"completion\": \"b c\"}", NULL, TESS_OK, {""}},
        {"{\"text\": \"a rendered one\", \"messages\": [1], \"prompt\": \"a\", \"completion\": \"b\"}",
         NULL,
         TESS_OK,
         {""}},
        {"{\"text\": \"a b\", \"loss_mask\": null}", NULL, TESS_OK, {""}},
        {"{\"prompt\": \"nothing else\"}", "prompt", TESS_OK, {""}},
    };
    tess_tokenizer *tokenizer = the_tokenizer();
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char name[32], text[256];
        snprintf(name, sizeof(name), "other%zu.jsonl", i);
        snprintf(text, sizeof(text), "\n%s\n", lines[i].line);
        const char *file = write_file(name, text, strlen(text));
        tess_loader_options options = options_for(&file, 1);
        options.text_key = lines[i].key;
        tess_loader *loader;
        EXPECT_INT(tess_loader_create(test_mem(), tokenizer, &options, &loader), lines[i].status);
        for (int k = 0; k < 3 && lines[i].status != TESS_OK; k++)
            EXPECT_CONTAINS(tess_error_message(), lines[i].needles[k]);
        tess_loader_destroy(&loader);
    }
    tess_tokenizer_destroy(&tokenizer);
}

typedef struct warnings {
    int n;
    char last[512];
} warnings;

static void keep_warning(void *self, const char *text)
{
    warnings *w = self;
    w->n++;
    snprintf(w->last, sizeof(w->last), "%s", text);
}

static void members_like_masks_are_told_once_a_file(void)
{
    static const struct {
        const char *name, *line, *needle; /* needle NULL: no warning */
    } files[] = {{"plain.jsonl", "{\"text\": \"one two three\", \"label\": 1}\n", NULL},
                 {"mask.jsonl", "{\"text\": \"one two three\", \"Attention_Mask\": [1]}\n", "'Attention_Mask'"},
                 {"weight.jsonl", "{\"sample_weight\": 2, \"text\": \"one two three\"}\n", "'sample_weight'"},
                 {"labels.jsonl", "{\"text\": \"one two three\", \"labels\": [1]}\n", "'labels'"}};
    tess_tokenizer *tokenizer = the_tokenizer();
    const char *paths[4];
    for (int i = 0; i < 4; i++) {
        char text[512] = "";
        for (int k = 0; k < 3; k++)
            strcat(text, files[i].line);
        paths[i] = write_file(files[i].name, text, strlen(text));
    }
    for (int i = 0; i <= 4; i++) { /* each alone, then all */
        warnings told = {0};
        tess_loader_options options = options_for(i < 4 ? &paths[i] : paths, i < 4 ? 1 : 4);
        options.eos_id = 0;
        options.warn = keep_warning;
        options.warn_self = &told;
        tess_loader *loader;
        tess_micro_batch batch = {0};
        bool end;
        EXPECT_OK(tess_loader_create(test_mem(), tokenizer, &options, &loader));
        while (batch.epoch < 3)
            EXPECT_OK(tess_loader_next(loader, 0, &batch, &end));
        EXPECT_INT(told.n, i == 4 ? 3 : files[i].needle != NULL);
        if (told.n == 1) {
            EXPECT_CONTAINS(told.last, files[i].name);
            EXPECT_CONTAINS(told.last, files[i].needle);
        }
        tess_loader_destroy(&loader);
    }
    tess_tokenizer_destroy(&tokenizer);
}

static void what_is_longer_than_a_row_is_cut_and_counted(void)
{
    static const char lines[] =
        "{\"prompt\": \"a house\", \"completion\": \" of stone\"}\n"
        "{\"prompt\": \"a river\", \"completion\": \" of stone and stone and stone and stone and lights\"}\n"
        "{\"prompt\": \"seven and seven and seven and seven and seven\", \"completion\": \" lights\"}\n"
        "{\"prompt\": \"the\", \"completion\": \" lights\"}\n";
    tess_tokenizer *tokenizer = the_tokenizer();
    tess_loader_options options = options_for(NULL, 0);
    warnings told = {0};
    tess_micro_batch batch;
    tess_buffer text = {0};
    bool end;
    options.seq_len = 16;
    options.warn = keep_warning;
    options.warn_self = &told;
    tess_loader *loader = open_pairs(tokenizer, "long.jsonl", lines, &options);
    EXPECT_INT(told.n, 1);
    EXPECT_CONTAINS(told.last, "long.jsonl: of the 4 documents read first, 1 are longer than a row of 16 tokens");
    EXPECT_CONTAINS(told.last, "and 1 have nothing to train on there");
    for (int r = 0; r < 3; r++) {
        EXPECT_OK(tess_loader_next(loader, 0, &batch, &end));
        EXPECT(!end && batch.n_targets > 0);
        sequence_text(tokenizer, &batch, 0, false, &text);
        EXPECT_CONTAINS(text.data, r == 0 ? "!a house of stone\"" : r == 1 ? "!a river of stone and" : "!the lights\"");
        EXPECT(r != 1 || text.data[text.size - 1] != '"'); /* the end was cut off */
    }
    EXPECT_OK(tess_loader_next(loader, 0, &batch, &end));
    EXPECT(end);
    tess_loader_destroy(&loader);
    const char *file = write_file("none.jsonl", strstr(lines, "{\"prompt\": \"seven"), 84);
    options.files = &file;
    told = (warnings){0};
    EXPECT_FAILS(tess_loader_create(test_mem(), tokenizer, &options, &loader), TESS_E_INVALID, "no pair of tokens");
    EXPECT_CONTAINS(told.last, "none.jsonl: of the 1 documents read first");
    tess_buffer_free(&text);
    tess_tokenizer_destroy(&tokenizer);
}

static void data_that_cannot_be_used_are_refused(void)
{
    tess_tokenizer *tokenizer = the_tokenizer();
    tess_loader *loader;
    const char *file = write_file("ok.txt", "some words\nand more\n", 20);
    tess_loader_options options = options_for(&file, 1), other = options;
    other.n_files = 0;
    EXPECT_FAILS(tess_loader_create(test_mem(), tokenizer, &other, &loader), TESS_E_INVALID, "no data files");
    other = options;
    other.begin = 0.99;
    EXPECT_FAILS(tess_loader_create(test_mem(), tokenizer, &other, &loader), TESS_E_INVALID, "no whole line");
    other.end = 0.5;
    EXPECT_FAILS(tess_loader_create(test_mem(), tokenizer, &other, &loader), TESS_E_INVALID, "inside 0..1");
    other = options;
    other.seq_len = 0;
    EXPECT_FAILS(tess_loader_create(test_mem(), tokenizer, &other, &loader), TESS_E_INVALID, "rows of 0");
    other = options;
    other.micro_batch = INT64_MAX / 2;
    EXPECT_FAILS(tess_loader_create(test_mem(), tokenizer, &other, &loader), TESS_E_INVALID, "at most");
    other = options;
    other.eos_id = 1 << 20;
    EXPECT_FAILS(tess_loader_create(test_mem(), tokenizer, &other, &loader), TESS_E_INVALID, "eos id");
    static const struct {
        const char *name, *text, *needle;
        size_t size;
    } files[] = {{"empty.txt", "", "empty", 0},
                 {"byte.txt", "x", "one byte", 1},
                 {"token.txt", "  ", "no pair", 2},
                 {"blank.jsonl", "\n\n\n", "no pair", 3}};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        file = write_file(files[i].name, files[i].text, files[i].size);
        EXPECT_FAILS(tess_loader_create(test_mem(), tokenizer, &options, &loader), TESS_E_INVALID, files[i].needle);
        EXPECT_CONTAINS(tess_error_message(), files[i].name);
    }
    file = "no/such/file.txt";
    EXPECT_FAILS(tess_loader_create(test_mem(), tokenizer, &options, &loader), TESS_E_NOT_FOUND, "no/such/file.txt");
    file = test_folder();
    EXPECT_FAILS(tess_loader_create(test_mem(), tokenizer, &options, &loader), TESS_E_INVALID, "folder");
    tess_tokenizer_destroy(&tokenizer);
}

static void a_file_cut_short_while_in_use_is_an_error(void)
{
    tess_tokenizer *tokenizer = the_tokenizer();
    tess_buffer text = {0};
    make_lines(&text, 9, 100);
    const char *file = write_file("shrinks.txt", text.data, text.size);
    tess_loader_options options = options_for(&file, 1);
    tess_loader *loader;
    EXPECT_OK(tess_loader_create(test_mem(), tokenizer, &options, &loader));
    EXPECT_INT(truncate(file, 100), 0);
    tess_status status = TESS_OK;
    tess_micro_batch batch;
    bool end;
    for (int i = 0; i < 200 && status == TESS_OK; i++)
        status = tess_loader_next(loader, 0, &batch, &end);
    EXPECT_INT(status, TESS_E_IO);
    EXPECT_CONTAINS(tess_error_message(), "shrinks.txt: the file changed while in use");
    tess_loader_destroy(&loader);
    tess_buffer_free(&text);
    tess_tokenizer_destroy(&tokenizer);
}

static const test_case cases[] = {
    CASE(the_completion_of_a_prompt_is_trained_on_and_the_prompt_is_not),
    CASE(completions_are_not_split_over_rows_unless_it_is_said),
    CASE(ranks_share_one_sequence_of_pairs_and_texts),
    CASE(what_is_longer_than_a_row_is_cut_and_counted),
    CASE(an_epoch_has_every_pair_of_tokens_once),
    CASE(ranks_share_one_sequence_whatever_their_number),
    CASE(seek_to_a_cursor_goes_on_with_the_next_batch),
    CASE(shuffle_and_repeat_are_independent),
    CASE(the_seed_decides_the_order),
    CASE(training_and_validation_share_no_line_and_leave_none_out),
    CASE(text_without_line_ends_still_comes_in_blocks),
    CASE(documents_of_jsonl_get_bos_and_eos),
    CASE(blocks_of_plain_text_begin_with_bos_too),
    CASE(bos_set_later_gives_the_batches_of_bos_from_the_start),
    CASE(bad_lines_are_named_with_their_file),
    CASE(what_is_not_all_to_be_trained_on_is_refused_by_name),
    CASE(members_like_masks_are_told_once_a_file),
    CASE(data_that_cannot_be_used_are_refused),
    CASE(a_file_cut_short_while_in_use_is_an_error),
};
TEST_MAIN(cases)
