#define XXH_INLINE_ALL
#include <xxhash.h>

#include "data/corpus/corpus.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "data/corpus/text_stream.h"
#include "data/shards/shard_write.h"

enum { SAMPLE_BYTES = 64 << 10, MAX_THREADS = 256 };

/* The state that all threads share. Each thread takes the next block, tokenizes it, and writes it after all earlier
 * blocks are written. */
typedef struct corpus_job {
    tess_mem *mem;
    const tess_corpus_options *options;
    pthread_mutex_t input, output;
    pthread_cond_t written; /* belongs to `output` */

    /* protected by `input`: */
    tess_text_stream *stream; /* stream of files[place.source]; NULL: not open */
    tess_token_shard_place place;
    uint64_t n_taken;
    uint64_t done_before, all_bytes; /* bytes on disk: of the files before the current one, and of all files */
    bool ended;

    /* protected by `output`: */
    tess_token_shard_writer *writer;
    uint64_t n_written; /* number of taken blocks that are written */
    tess_status status;
    char error[1024];
    tess_corpus_result *result;
} corpus_job;

/* A block while a thread works on it. */
typedef struct corpus_block {
    uint64_t number, done, line;
    tess_token_shard_place place;
    tess_text_kind kind;
    tess_buffer text;
    tess_token_block tokens;
} corpus_block;

/* ---- A thread ---- */
static tess_status open_next(corpus_job *job)
{
    const tess_corpus_options *o = job->options;
    TESS_TRY(tess_text_stream_open(job->mem, o->files[job->place.source], &job->stream));
    return tess_text_stream_skip(job->stream, job->place.n_blocks, job->place.source_at);
}

/* Takes the next block of the files. If there is none, sets job->ended. */
static tess_status take_text(corpus_job *job, corpus_block *block)
{
    const tess_corpus_options *o = job->options;
    for (bool end = true; end;) {
        if (job->stream == NULL)
            TESS_TRY(open_next(job));
        TESS_TRY(tess_text_stream_next(job->stream, &block->text, &end));
        if (!end)
            break;
        job->done_before += tess_text_stream_read_bytes(job->stream);
        tess_text_stream_close(&job->stream);
        job->ended = job->place.source + 1 == (uint32_t)o->n_files;
        if (job->ended)
            return TESS_OK;
        job->place = (tess_token_shard_place){.source = job->place.source + 1};
    }
    job->place.n_blocks++;
    job->place.source_at = tess_text_stream_at(job->stream);
    block->place = job->place;
    block->line = tess_text_stream_line(job->stream);
    block->kind = tess_text_stream_kind(job->stream);
    block->done = job->done_before + tess_text_stream_read_bytes(job->stream);
    return TESS_OK;
}

static tess_status fail_line(const corpus_job *job, const corpus_block *block, size_t line_at, tess_status status)
{
    const char *path = job->options->files[block->place.source];
    uint64_t line = block->line;
    for (size_t i = 0; i < line_at; i++)
        line += block->text.data[i] == '\n';
    if (block->line > 0)
        return tess_fail_context(status, "%s: line %llu", path, (unsigned long long)line);
    return tess_fail_context(status, "%s: the line at byte %llu", path,
                             (unsigned long long)(block->place.source_at - block->text.size + line_at));
}

static tess_status write_block(corpus_job *job, const corpus_block *block)
{
    const tess_corpus_options *o = job->options;
    const tess_buffer *loss = &block->tokens.loss;
    TESS_CHECK(o->format == TESS_SHARD_TESSERA || loss->size == 0 || memchr(loss->data, 0, loss->size) == NULL,
               TESS_E_UNSUPPORTED,
               "%s: prompts and conversations say which tokens are trained on, which files of other programs cannot: "
               "leave --format out",
               o->files[block->place.source]);
    TESS_TRY(tess_token_shard_writer_append(job->writer, &block->tokens, &block->place));
    job->result->text_bytes += block->text.size;
    job->result->by_turns = job->result->by_turns || block->tokens.by_turns;
    if (job->result->mask[0] == '\0')
        memcpy(job->result->mask, block->tokens.mask, sizeof(job->result->mask));
    if (o->progress != NULL)
        o->progress(o->progress_self, block->done, job->all_bytes);
    return TESS_OK;
}

/* Waits until the blocks before this one are written, then writes it. The first failure ends the work of all
 * threads. */
static tess_status pass_on(corpus_job *job, const corpus_block *block, tess_status status)
{
    pthread_mutex_lock(&job->output);
    while (job->n_written < block->number && job->status == TESS_OK)
        pthread_cond_wait(&job->written, &job->output);
    if (job->status == TESS_OK) {
        if (status == TESS_OK)
            status = write_block(job, block);
        job->n_written++;
        job->status = status;
        snprintf(job->error, sizeof(job->error), "%s", status != TESS_OK ? tess_error_message() : "");
    }
    status = job->status;
    pthread_cond_broadcast(&job->written);
    pthread_mutex_unlock(&job->output);
    return status;
}

static tess_status run_block(corpus_job *job, tess_encoder *encoder, corpus_block *block, bool *ended)
{
    size_t bad_at;
    pthread_mutex_lock(&job->input);
    tess_status status = job->ended ? TESS_OK : take_text(job, block);
    *ended = job->ended;
    job->ended = job->ended || status != TESS_OK;
    block->number = job->n_taken++;
    pthread_mutex_unlock(&job->input);
    if (*ended)
        return TESS_OK;
    if (status == TESS_OK) {
        status = tess_encode_block(&job->options->rules, encoder, block->kind, &block->text, &block->tokens, &bad_at);
        if (status != TESS_OK)
            fail_line(job, block, bad_at, status);
    }
    return pass_on(job, block, status);
}

static void *work(void *argument)
{
    corpus_job *job = argument;
    tess_encoder *encoder = NULL;
    corpus_block block = {.text = {.mem = job->mem}, .tokens = tess_token_block_of(job->mem)};
    bool ended = false;
    tess_status status = tess_encoder_create(job->mem, job->options->tokenizer, &encoder);
    if (status != TESS_OK) {
        pthread_mutex_lock(&job->output);
        job->status = status;
        snprintf(job->error, sizeof(job->error), "%s", tess_error_message());
        pthread_cond_broadcast(&job->written);
        pthread_mutex_unlock(&job->output);
    }
    while (status == TESS_OK && !ended)
        status = run_block(job, encoder, &block, &ended);
    tess_encoder_destroy(&encoder);
    tess_buffer_free(&block.text);
    tess_token_block_free(&block.tokens);
    return NULL;
}

static tess_status run_threads(corpus_job *job)
{
    pthread_t threads[MAX_THREADS];
    int n = job->options->n_threads < MAX_THREADS ? job->options->n_threads : MAX_THREADS, n_started = 0, error = 0;
    pthread_mutex_init(&job->input, NULL);
    pthread_mutex_init(&job->output, NULL);
    pthread_cond_init(&job->written, NULL);
    while (n_started < n && (error = pthread_create(&threads[n_started], NULL, work, job)) == 0)
        n_started++;
    for (int i = 0; i < n_started; i++)
        pthread_join(threads[i], NULL);
    pthread_cond_destroy(&job->written);
    pthread_mutex_destroy(&job->output);
    pthread_mutex_destroy(&job->input);
    TESS_CHECK(n_started > 0, TESS_E_IO, "cannot start a thread: %s", strerror(error));
    return job->status != TESS_OK ? TESS_FAIL(job->status, "%s", job->error) : TESS_OK;
}

/* ---- The files ---- */
/* Hashes the files' sizes, heads and tails, and all options that say how files are read. */
static tess_status hash_source(const tess_corpus_options *o, uint64_t *hash, uint64_t *all_bytes)
{
    const tess_document_keys *keys = &o->rules.keys;
    const char *const texts[] = {keys->text, keys->prompt, keys->completion};
    *hash = tess_chat_hash(o->rules.chat);
    *all_bytes = 0;
    for (int i = 0; i < 3; i++)
        *hash = XXH3_64bits_withSeed(texts[i], strlen(texts[i]) + 1, *hash);
    for (int i = 0; i < o->n_files; i++) {
        tess_mapping file;
        TESS_TRY(tess_os_map(o->files[i], &file));
        size_t n = file.size < SAMPLE_BYTES ? file.size : SAMPLE_BYTES;
        *hash = XXH3_64bits_withSeed(&file.size, sizeof(file.size), *hash);
        *hash = n > 0 ? XXH3_64bits_withSeed(file.data, n, *hash) : *hash;
        *hash = n > 0 ? XXH3_64bits_withSeed(file.data + file.size - n, n, *hash) : *hash;
        *all_bytes += file.size;
        tess_os_unmap(&file);
    }
    return TESS_OK;
}

/* Counts the files before the next one to read as done. */
static tess_status count_done(corpus_job *job)
{
    const tess_corpus_options *o = job->options;
    TESS_CHECK(job->place.source < (uint32_t)o->n_files, TESS_E_FORMAT, "%s.partial: more files than there are",
               o->out);
    for (uint32_t i = 0; i < job->place.source; i++) {
        uint64_t bytes = 0;
        TESS_TRY(tess_os_file_size(o->files[i], &bytes));
        job->done_before += bytes;
    }
    job->result->resumed = job->place.source > 0 || job->place.n_blocks > 0;
    return TESS_OK;
}

static tess_status run_job(corpus_job *job)
{
    TESS_TRY(count_done(job));
    TESS_TRY(run_threads(job));
    job->result->n_tokens = tess_token_shard_writer_tokens(job->writer);
    job->result->n_documents = tess_token_shard_writer_documents(job->writer);
    TESS_CHECK(job->result->n_tokens > 1, TESS_E_INVALID, "%s: there is no pair of tokens to train on",
               job->options->files[0]);
    return tess_token_shard_writer_finish(job->writer);
}

static tess_status tokenize(tess_mem *mem, const tess_corpus_options *options, tess_corpus_result *result)
{
    uint64_t source;
    corpus_job job = {.mem = mem, .options = options, .result = result};
    bool whole = false;
    TESS_TRY(hash_source(options, &source, &job.all_bytes));
    if (options->format != TESS_SHARD_TESSERA) /* killed while it wrote the other format */
        TESS_TRY(tess_token_shard_is_of(options->out, options->tokenizer, source, &whole, &result->n_tokens,
                                        &result->n_documents));
    result->resumed = whole;
    if (whole)
        return TESS_OK;
    TESS_TRY(tess_token_shard_writer_open(mem, options->out, options->tokenizer, source, &job.writer, &job.place));
    tess_status status = run_job(&job);
    bool bad_text = status == TESS_E_FORMAT || status == TESS_E_INVALID || status == TESS_E_UNSUPPORTED;
    if (bad_text || (status != TESS_OK && tess_token_shard_writer_tokens(job.writer) == 0))
        tess_token_shard_writer_discard(job.writer);
    tess_text_stream_close(&job.stream);
    tess_token_shard_writer_close(&job.writer);
    return status;
}

tess_status tess_corpus_tokenize(tess_mem *mem, const tess_corpus_options *options, tess_corpus_result *result)
{
    char own[4096];
    tess_corpus_options first = *options;
    *result = (tess_corpus_result){0};
    if (options->format == TESS_SHARD_TESSERA)
        return tokenize(mem, options, result);
    TESS_TRY(tess_shard_export_check(options->out, options->tokenizer, options->format));
    TESS_CHECK((size_t)snprintf(own, sizeof(own), "%s.shard", options->out) < sizeof(own), TESS_E_INVALID,
               "%s: the path is too long", options->out);
    first.out = own;
    TESS_TRY(tokenize(mem, &first, result));
    TESS_TRY(tess_shard_export(mem, own, options->tokenizer, options->format, options->end_id, options->out));
    tess_os_remove(own);
    return TESS_OK;
}
