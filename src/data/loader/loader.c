/* Makes micro-batches of rows, from one source or from a mixture of sources. */
#include "data/loader/loader.h"

#include <stdio.h>
#include <string.h>

#include "data/loader/document.h"
#include "data/loader/mixture.h"
#include "data/loader/source.h"
#include "base/mem/scoped.h"

enum { MAX_SEQ_LEN = 1 << 24, MAX_BATCH_TOKENS = 1 << 30 };

struct tess_loader {
    tess_mem *mem;
    tess_loader_options options; /* a copy; files, counts and weights are NULL, since `sources` has them */
    char keys[3][128];
    tess_source *sources[TESS_DATA_SOURCES];
    int n_sources;
    int64_t weights[TESS_DATA_SOURCES];
    int32_t *ids, *pos, *targets, *cu_seqlens;
    const tess_tokenizer *tokenizer;
};

/* ---- Create and destroy ---- */
static tess_status create_batch(tess_loader *loader)
{
    const tess_loader_options *o = &loader->options;
    TESS_CHECK(o->seq_len >= 1 && o->seq_len <= MAX_SEQ_LEN, TESS_E_INVALID,
               "rows of %lld tokens; 1 to %d are possible", (long long)o->seq_len, MAX_SEQ_LEN);
    TESS_CHECK(o->micro_batch >= 1 && o->micro_batch <= MAX_BATCH_TOKENS / o->seq_len, TESS_E_INVALID,
               "a micro-batch of %lld rows of %lld tokens; at most %d tokens are possible", (long long)o->micro_batch,
               (long long)o->seq_len, MAX_BATCH_TOKENS);
    size_t n = (size_t)(o->seq_len * o->micro_batch);
    int32_t **arrays[] = {&loader->ids, &loader->pos, &loader->targets, &loader->cu_seqlens};
    for (int i = 0; i < 4; i++) {
        void *block;
        TESS_TRY(tess_scope_alloc(tess_scope_of(loader), TESS_POOL_MISC, n + (i == 3), sizeof(int32_t), "micro-batch",
                                  &block));
        *arrays[i] = block;
    }
    return TESS_OK;
}

static tess_status copy_keys(tess_loader *loader, const tess_loader_options *options)
{
    const tess_document_keys keys =
        tess_document_keys_of(options->text_key, options->prompt_key, options->completion_key);
    const char *const from[] = {keys.text, keys.prompt, keys.completion};
    const char **to[] = {&loader->options.text_key, &loader->options.prompt_key, &loader->options.completion_key};
    for (int i = 0; i < 3; i++) {
        int size = snprintf(loader->keys[i], sizeof(loader->keys[i]), "%s", from[i]);
        TESS_CHECK((size_t)size < sizeof(loader->keys[i]), TESS_E_INVALID, "the key of %d bytes is too long: %.40s...",
                   size, from[i]);
        *to[i] = loader->keys[i];
    }
    return TESS_OK;
}

static tess_status open_sources(tess_loader *loader, const tess_loader_options *options)
{
    const char *const *files = options->files;
    int n = options->weights != NULL ? options->n_weights : 1;
    TESS_CHECK(options->n_files > 0, TESS_E_INVALID, "no data files");
    TESS_CHECK(n >= 1 && n <= TESS_DATA_SOURCES && (options->weights == NULL || options->repeat), TESS_E_INVALID,
               "a mixture of %d sources; 1 to %d are possible", n, TESS_DATA_SOURCES);
    for (int i = 0; i < n; i++) {
        int n_files = options->weights != NULL ? options->counts[i] : options->n_files;
        loader->weights[i] = options->weights != NULL ? options->weights[i] : 1;
        TESS_TRY(
            tess_source_create(loader->mem, loader->tokenizer, &loader->options, files, n_files, &loader->sources[i]));
        loader->n_sources++;
        files += n_files;
    }
    return TESS_OK;
}

static tess_status create(tess_loader *loader, const tess_loader_options *options)
{
    int64_t vocab_size = tess_tokenizer_vocab_size(loader->tokenizer);
    TESS_CHECK(options->eos_id < vocab_size, TESS_E_INVALID, "eos id %d is not in the vocabulary of %lld tokens",
               options->eos_id, (long long)vocab_size);
    loader->options.files = NULL;
    loader->options.counts = NULL;
    loader->options.weights = NULL;
    TESS_TRY(copy_keys(loader, options));
    TESS_TRY(create_batch(loader));
    return open_sources(loader, options);
}

tess_status tess_loader_create(tess_mem *mem, const tess_tokenizer *tokenizer, const tess_loader_options *options,
                               tess_loader **out)
{
    TESS_AUTO(tess_loader_destroy) tess_loader *loader = NULL;
    *out = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "loader", &loader));
    loader->mem = mem;
    loader->tokenizer = tokenizer;
    loader->options = *options;
    TESS_TRY(create(loader, options));
    *out = TESS_GIVE(loader);
    return TESS_OK;
}

void tess_loader_destroy(tess_loader **out)
{
    tess_loader *loader = *out;
    if (loader == NULL)
        return;
    for (int i = 0; i < loader->n_sources; i++)
        tess_source_destroy(&loader->sources[i]);
    tess_mem_drop(out);
}

/* ---- Rows ---- */
/* Returns the source of the next row. */
static tess_source *next_source(const tess_loader *loader)
{
    uint64_t taken[TESS_DATA_SOURCES];
    for (int i = 0; i < loader->n_sources; i++)
        taken[i] = tess_source_cursor_of(loader->sources[i])->taken;
    return loader->sources[loader->n_sources > 1 ? tess_mixture_next(loader->weights, taken, loader->n_sources) : 0];
}

static tess_status skip_rows(tess_loader *loader, uint64_t rows)
{
    if (loader->n_sources == 1)
        return tess_source_skip(loader->sources[0], rows);
    for (; rows > 0; rows--)
        TESS_TRY(tess_source_skip(next_source(loader), 1));
    return TESS_OK;
}

/* Writes row `j` of the batch: the next row of the data, or padding at the end. */
static tess_status write_row(tess_loader *loader, int64_t j, tess_micro_batch *batch)
{
    const tess_loader_options *o = &loader->options;
    int64_t n_seqs;
    const tess_row row = {.ids = loader->ids + j * o->seq_len,
                          .pos = loader->pos + j * o->seq_len,
                          .targets = loader->targets + j * o->seq_len,
                          .ends = loader->cu_seqlens + 1 + batch->n_seqs,
                          .base = (int32_t)(j * o->seq_len)};
    TESS_TRY(tess_source_row(next_source(loader), &row, &n_seqs));
    batch->n_seqs += n_seqs;
    for (int64_t i = 0; i < o->seq_len; i++) {
        if (row.targets[i] < 0)
            continue;
        batch->n_targets++;
        batch->n_bytes += (uint64_t)tess_tokenizer_bytes(loader->tokenizer, row.targets[i]);
    }
    return TESS_OK;
}

tess_status tess_loader_next(tess_loader *loader, int64_t skip, tess_micro_batch *batch, bool *end)
{
    const tess_loader_options *o = &loader->options;
    uint64_t rows;
    *batch = (tess_micro_batch){0};
    *end = false;
    TESS_CHECK(skip >= 0 && !__builtin_mul_overflow((uint64_t)skip, (uint64_t)o->micro_batch, &rows), TESS_E_INVALID,
               "cannot skip %lld micro-batches", (long long)skip);
    TESS_TRY(skip_rows(loader, rows));
    tess_source *first = next_source(loader);
    TESS_TRY(tess_source_settle(first, end));
    if (*end)
        return TESS_OK;
    batch->epoch = tess_source_cursor_of(first)->epoch;
    batch->n_tokens = o->micro_batch * o->seq_len;
    loader->cu_seqlens[0] = 0;
    for (int64_t j = 0; j < o->micro_batch; j++)
        TESS_TRY(write_row(loader, j, batch));
    batch->ids = loader->ids;
    batch->pos = loader->pos;
    batch->targets = loader->targets;
    batch->cu_seqlens = loader->cu_seqlens;
    return TESS_OK;
}

void tess_loader_cursor(const tess_loader *loader, tess_data_cursor *cursor)
{
    *cursor = (tess_data_cursor){.n = loader->n_sources};
    for (int i = 0; i < loader->n_sources; i++)
        cursor->source[i] = *tess_source_cursor_of(loader->sources[i]);
}

tess_status tess_loader_seek(tess_loader *loader, const tess_data_cursor *cursor)
{
    TESS_CHECK(cursor->n == 0 || cursor->n == loader->n_sources, TESS_E_INVALID,
               "a position in %d sources, but there are %d", cursor->n, loader->n_sources);
    for (int i = 0; i < loader->n_sources; i++)
        TESS_TRY(tess_source_seek(loader->sources[i], &cursor->source[i]));
    return TESS_OK;
}

tess_status tess_loader_set_bos(tess_loader *loader, const tess_prefix *bos)
{
    bool end;
    for (int i = 0; i < loader->n_sources; i++)
        tess_source_forget(loader->sources[i]); /* no reading thread uses the options any more */
    loader->options.bos = *bos;
    for (int i = 0; i < loader->n_sources; i++)
        TESS_TRY(tess_source_settle(loader->sources[i], &end));
    return TESS_OK;
}

void tess_loader_set_rows(tess_loader *loader, int64_t micro_batch)
{
    loader->options.micro_batch = micro_batch;
}

int64_t tess_loader_estimate_rows(const tess_loader *loader)
{
    int64_t rows = 0;
    for (int i = 0; i < loader->n_sources; i++)
        rows += tess_source_estimate_rows(loader->sources[i]);
    return rows;
}

bool tess_loader_has_conversations(const tess_loader *loader)
{
    for (int i = 0; i < loader->n_sources; i++)
        if (tess_source_has_conversations(loader->sources[i]))
            return true;
    return false;
}
