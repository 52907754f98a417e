#include "cli/tokenize_shard.h"

#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "cli/cli.h"
#include "data/corpus/corpus.h"
#include "train/text/chat_setup.h"

static void report(const tess_corpus_result *result, const char *out, double seconds)
{
    char tokens[32], documents[32], bytes[32];
    uint64_t size = 0;
    (void)tess_os_file_size(out, &size);
    cli_status_clear();
    printf("%s: %s tokens of %s documents, %s; %.1f MB of text in %.1f s, %.1f MB/s%s\n", out,
           tess_format_count((double)result->n_tokens, tokens, sizeof(tokens)),
           tess_format_count((double)result->n_documents, documents, sizeof(documents)),
           tess_format_bytes((double)size, bytes, sizeof(bytes)), (double)result->text_bytes / 1e6, seconds,
           (double)result->text_bytes / 1e6 / (seconds > 0 ? seconds : 1),
           result->resumed ? ", after what was there" : "");
    if (result->by_turns)
        fprintf(stderr, "warning: %s\n", TESS_BY_TURNS_NOTE);
    if (result->mask[0] != '\0')
        fprintf(stderr,
                "warning: lines with a member '%s', which is not obeyed: every token of the text counts alike\n",
                result->mask);
}

static tess_status find_format(const char *name, tess_shard_format *format)
{
    static const char *const names[] = {"tessera", "llmc", "nanogpt", "megatron"};
    for (int i = 0; i < 4; i++)
        if (name == NULL || strcmp(name, names[i]) == 0) {
            *format = (tess_shard_format)i;
            return TESS_OK;
        }
    return TESS_FAIL(TESS_E_INVALID, "--format: '%s' is neither tessera, llmc, nanogpt nor megatron", name);
}

/* Finds the token between documents in files that other programs write. */
static tess_status find_end(const cli_shard_options *o, const tess_tokenizer *tokenizer, int32_t *id)
{
    const char *name = o->end_token != NULL ? o->end_token : "<|endoftext|>";
    *id = tess_tokenizer_id(tokenizer, name);
    TESS_CHECK(*id >= 0, TESS_E_INVALID,
               "the tokenizer has no '%s': name the token that ends a document with --end-token", name);
    return TESS_OK;
}

tess_status cli_tokenize_shard(tess_mem *mem, const cli_shard_options *o)
{
    tess_shard_format format = TESS_SHARD_TESSERA;
    int32_t end_id = -1;
    TESS_AUTO(tess_tokenizer_destroy) tess_tokenizer *tokenizer = NULL;
    TESS_AUTO(tess_chat_setup_close) tess_chat_setup chat = {0};
    const tess_reporter reporter = {cli_print_line, NULL};
    cli_progress progress = {.doing = "tokenize"};
    tess_corpus_result result;
    double begin_s = tess_os_now_s();
    TESS_TRY(find_format(o->format, &format));
    TESS_TRY(tess_tokenizer_load(mem, o->tokenizer, &tokenizer));
    if (format != TESS_SHARD_TESSERA)
        TESS_TRY(find_end(o, tokenizer, &end_id));
    const char *folder = tess_os_is_dir(o->tokenizer) ? o->tokenizer : "";
    TESS_TRY(tess_chat_setup_open(mem, o->chat_template, folder, tokenizer, &chat));
    TESS_TRY(tess_chat_setup_train(mem, &chat, &reporter));
    const tess_corpus_options options = {
        .tokenizer = tokenizer,
        .files = o->files,
        .n_files = o->n_files,
        .rules = {tess_document_keys_of(o->text_key, o->prompt_key, o->completion_key), &chat.how},
        .out = o->out,
        .format = format,
        .end_id = end_id,
        .n_threads = o->threads > 0 ? (int)o->threads : tess_os_cores(),
        .progress = cli_progress_report,
        .progress_self = &progress};
    TESS_TRY(tess_corpus_tokenize(mem, &options, &result));
    report(&result, o->out, tess_os_now_s() - begin_s);
    return TESS_OK;
}
