/* `tessera tokenize`: trains tokenizers, encodes, decodes, and cuts files into shards of ids. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "cli/tokenize_shard.h"
#include "cli/tokenize_template.h"
#include "data/corpus/training_text.h"
#include "data/files/text_kind.h"
#include "data/tokenizer/tokenizer.h"

/* Reads a whole file. NULL or "-" means standard input. */
static tess_status read_input(tess_mem *mem, const char *path, tess_buffer *text)
{
    char chunk[65536];
    text->mem = mem;
    if (path != NULL && strcmp(path, "-") != 0) {
        TESS_AUTO(tess_os_unmap) tess_mapping mapping = {0};
        TESS_TRY(tess_os_map(path, &mapping));
        return tess_buffer_append(text, mapping.data, mapping.size);
    }
    for (size_t n; (n = fread(chunk, 1, sizeof(chunk), stdin)) > 0;)
        TESS_TRY(tess_buffer_append(text, chunk, n));
    if (ferror(stdin))
        return tess_os_error("read", "standard input");
    return tess_buffer_append(text, "", 0);
}

static tess_status read_training_text(const char *path, const tess_document_keys *keys, tess_buffer *text)
{
    tess_text_kind kind;
    TESS_AUTO(tess_os_unmap) tess_mapping file = {0};
    TESS_TRY(tess_text_kind_at(path, false, &kind));
    TESS_TRY(tess_os_map(path, &file));
    return tess_training_text_add(path, &file, kind, file.size, keys, text, NULL);
}

static tess_status train(tess_mem *mem, const tess_document_keys *keys, const char *const *files, int n_files,
                         int64_t vocab, const char *out)
{
    TESS_AUTO(tess_buffer_free) tess_buffer text = {.mem = mem}, json = {.mem = mem};
    TESS_AUTO(tess_tokenizer_destroy) tess_tokenizer *trained = NULL;
    static const char *const specials[] = {"<|endoftext|>"};
    double begin = tess_os_now_s();
    tess_status status = TESS_OK;
    for (int i = 0; i < n_files && status == TESS_OK; i++)
        status =
            strcmp(files[i], "-") == 0 ? read_input(mem, files[i], &text) : read_training_text(files[i], keys, &text);
    cli_status_line("training on %zu bytes ...", text.size);
    if (status == TESS_OK && text.size == 0)
        status = TESS_FAIL(TESS_E_INVALID, "%s: no text to train on", files[0]);
    if (status == TESS_OK)
        status = tess_bpe_train(mem, text.data, text.size, vocab, specials, 1, &json);
    if (status == TESS_OK)
        status = tess_tokenizer_parse(mem, json.data, json.size, out, &trained);
    if (status == TESS_OK)
        status = tess_os_write_atomic(out, json.data, json.size);
    cli_status_clear();
    if (status == TESS_OK)
        printf("%s: %lld tokens from %zu bytes of text in %.1f s\n", out, (long long)tess_tokenizer_vocab_size(trained),
               text.size, tess_os_now_s() - begin);
    return status;
}

static tess_status encode(tess_mem *mem, const char *tokenizer_path, const char *file, const char *literal,
                          bool special)
{
    TESS_AUTO(tess_tokenizer_destroy) tess_tokenizer *tokenizer = NULL;
    TESS_AUTO(tess_buffer_free) tess_buffer text = {.mem = mem};
    TESS_AUTO(tess_ids_free) tess_ids ids = {.mem = mem};
    TESS_TRY(tess_tokenizer_load(mem, tokenizer_path, &tokenizer));
    TESS_TRY(literal != NULL ? tess_buffer_append(&text, literal, strlen(literal)) : read_input(mem, file, &text));
    TESS_TRY(tess_encode_text(tokenizer, text.data, text.size, special, &ids));
    for (size_t i = 0; i < ids.size; i++)
        printf("%d%c", ids.data[i], i + 1 < ids.size ? ' ' : '\n');
    return TESS_OK;
}

static tess_status parse_ids(const tess_buffer *text, tess_ids *ids)
{
    char *at = text->data;
    if (text->size == 0)
        return TESS_OK;
    for (;;) {
        at += strspn(at, " \t\r\n,[]");
        if (at == text->data + text->size)
            return TESS_OK;
        char *end;
        long id = strtol(at, &end, 10);
        TESS_CHECK(end != at && id >= 0 && id <= INT32_MAX, TESS_E_INVALID, "'%.*s' is not a token id",
                   (int)strcspn(at, " \t\r\n,[]"), at);
        TESS_TRY(tess_ids_append(ids, (int32_t)id));
        at = end;
    }
}

static tess_status decode(tess_mem *mem, const char *tokenizer_path, const char *file, const char *literal,
                          bool skip_special)
{
    TESS_AUTO(tess_tokenizer_destroy) tess_tokenizer *tokenizer = NULL;
    TESS_AUTO(tess_buffer_free) tess_buffer input = {.mem = mem}, text = {.mem = mem};
    TESS_AUTO(tess_ids_free) tess_ids ids = {.mem = mem};
    TESS_TRY(tess_tokenizer_load(mem, tokenizer_path, &tokenizer));
    TESS_TRY(literal != NULL ? tess_buffer_append(&input, literal, strlen(literal)) : read_input(mem, file, &input));
    TESS_TRY(parse_ids(&input, &ids));
    for (size_t i = 0; i < ids.size; i++)
        TESS_CHECK(tess_tokenizer_has(tokenizer, ids.data[i]), TESS_E_INVALID,
                   "id %d (number %zu) is not in the vocabulary of %lld tokens", ids.data[i], i,
                   (long long)tess_tokenizer_vocab_size(tokenizer));
    TESS_TRY(tess_decode(tokenizer, ids.data, ids.size, skip_special, &text));
    if (text.size > 0)
        fwrite(text.data, 1, text.size, stdout);
    return TESS_OK;
}

static int run(tess_mem *mem, int argc, char **argv)
{
    const char *out = NULL, *literal = NULL, *special = NULL, *messages = NULL, *spans = NULL;
    int64_t vocab = 4096, now_s = 0;
    cli_shard_options shard = {0};
    const cli_flag flags[] = {
        {"--vocab-size", "N", "train: tokens, the 256 bytes and <|endoftext|> included (4096)", .integer = &vocab,
         .min = 257, .max = 1000000},
        {"--out", "FILE", "train: where the tokenizer.json goes (tokenizer.json); shard: where the shard goes",
         .text = &out},
        {"--text-key", "KEY", "train, shard: member of each JSON record that holds the document (text)",
         .text = &shard.text_key},
        {"--prompt-key", "KEY", "train, shard: without it: member that holds a prompt (prompt)",
         .text = &shard.prompt_key},
        {"--completion-key", "KEY", "train, shard: member that holds its completion (completion)",
         .text = &shard.completion_key},
        {"--chat-template", "PATH", "shard: of lines with messages: a .jinja file or a model's folder (TOKENIZER)",
         .text = &shard.chat_template},
        {"--format", "NAME", "shard: of whose program: tessera, llmc, nanogpt or megatron (tessera)",
         .text = &shard.format},
        {"--end-token", "TOKEN", "shard: between documents in files of other programs (<|endoftext|>)",
         .text = &shard.end_token},
        {"--threads", "N", "shard: default: all cores", .integer = &shard.threads, .min = 1, .max = 256},
        {"--text", "TEXT", "encode, decode: this instead of a file", .text = &literal},
        {"--special", NULL, "encode: add the special tokens of the template; decode: keep them", .text = &special},
        {"--messages", "FILE", "template: JSON, a list of messages, or an object with messages, tools and variables",
         .text = &messages},
        {"--spans", NULL, "template: as JSON, with where in bytes generation blocks begin and end", .text = &spans},
        {"--now", "SECONDS", "template: what strftime_now tells, in seconds since 1970 (0)", .integer = &now_s,
         .min = 0, .max = 1LL << 40},
    };
    int n = cli_parse(argc, argv, &cli_tokenize, flags, sizeof(flags) / sizeof(flags[0]));
    if (n < 2)
        return cli_misuse(&cli_tokenize, "say what to do, and with which file");
    tess_status status;
    const char *file = n > 2 ? argv[3] : NULL;
    bool training = strcmp(argv[1], "train") == 0, templates = strcmp(argv[1], "template") == 0;
    if (templates && (n > 2 || messages == NULL))
        return cli_misuse(&cli_tokenize, "template takes one template and --messages FILE");
    bool shards = strcmp(argv[1], "shard") == 0;
    if (shards && (n < 3 || out == NULL))
        return cli_misuse(&cli_tokenize, "shard takes a tokenizer, files and --out FILE");
    if (!training && !shards && (n > 3 || (file != NULL && literal != NULL)))
        return cli_misuse(&cli_tokenize, "%s takes one file or --text", argv[1]);
    const tess_document_keys keys = tess_document_keys_of(shard.text_key, shard.prompt_key, shard.completion_key);
    if (training)
        status = train(mem, &keys, (const char *const *)argv + 2, n - 1, vocab, out != NULL ? out : "tokenizer.json");
    else if (shards) {
        shard.tokenizer = argv[2];
        shard.files = (const char *const *)argv + 3;
        shard.n_files = n - 2;
        shard.out = out;
        status = cli_tokenize_shard(mem, &shard);
    } else if (strcmp(argv[1], "encode") == 0)
        status = encode(mem, argv[2], file, literal, special != NULL);
    else if (strcmp(argv[1], "decode") == 0)
        status = decode(mem, argv[2], file, literal, special == NULL);
    else if (templates)
        status = cli_tokenize_template(mem, argv[2], messages, spans != NULL, now_s);
    else
        return cli_misuse(&cli_tokenize, "'%s' is neither train, shard, encode, decode nor template", argv[1]);
    return cli_end(status);
}

const cli_command cli_tokenize = {
    "tokenize",
    "train FILE ... | shard TOKENIZER FILE ... --out FILE | encode TOKENIZER [FILE] | decode TOKENIZER [FILE] | "
    "template TEMPLATE --messages FILE",
    "train a tokenizer; turn files into shards of ids, or text into ids and back\n"
    "shard tokenizes text and JSON records, also .gz and .zst, into a file that data.files takes; killed and given "
    "again, it goes on where it was. "
    "TOKENIZER is a tokenizer.json or a folder that holds one, or vocab.json and "
    "merges.txt; without FILE, standard input is "
    "read. template writes a conversation as TEMPLATE does, a .jinja file or a model's "
    "folder.",
    .examples = "tessera tokenize train book.txt --vocab-size 8192 --out tokenizer.json\n"
                "tessera tokenize shard models/qwen pages.jsonl.zst --out pages.bin\n"
                "tessera tokenize encode models/qwen --text 'In the beginning'",
    .run = run};
