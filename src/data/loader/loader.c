#include "data/loader/loader.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/core/rng.h"
#include "data/loader/window.h"

enum { MAX_SEQ_LEN = 1 << 24, MAX_BATCH_TOKENS = 1 << 30 };

/* The reading thread's request and result. One request at a time; the loader does not touch the window until the thread
 * is idle again. */
typedef struct loader_reader {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool started, busy, quit;
    tess_window *window; /* to fill */
    uint64_t epoch, index;
    tess_status status; /* of the newest request */
    char error[1024];
    tess_encoder *encoder;
    tess_buffer text;
} loader_reader;

struct tess_loader {
    tess_mem *mem;
    tess_loader_options options; /* files NULL: see blocks */
    char keys[3][128];
    bool cuts_told;
    tess_blocks blocks;
    uint64_t n_windows;
    tess_window windows[2];
    int current; /* window that rows come from; the other one is read ahead */
    loader_reader reader;
    tess_data_cursor cursor;
    int32_t *ids, *pos, *targets, *cu_seqlens;
    const tess_tokenizer *tokenizer;
};

/* ---- The thread ---- */
static void *read_ahead(void *argument)
{
    tess_loader *loader = argument;
    loader_reader *r = &loader->reader;
    pthread_mutex_lock(&r->mutex);
    for (;;) {
        while (!r->busy && !r->quit)
            pthread_cond_wait(&r->changed, &r->mutex);
        if (r->quit)
            break;
        pthread_mutex_unlock(&r->mutex);
        tess_status status = tess_rows_window_fill(r->window, &loader->blocks, &loader->options, r->encoder, &r->text,
                                                   r->epoch, r->index);
        pthread_mutex_lock(&r->mutex);
        r->status = status;
        snprintf(r->error, sizeof(r->error), "%s", status != TESS_OK ? tess_error_message() : "");
        r->busy = false;
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->mutex);
    return NULL;
}

static void ask(loader_reader *r, tess_window *window, uint64_t epoch, uint64_t index)
{
    pthread_mutex_lock(&r->mutex);
    r->window = window;
    r->epoch = epoch;
    r->index = index;
    r->busy = true;
    window->filled = false;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
}

static void wait_idle(loader_reader *r)
{
    pthread_mutex_lock(&r->mutex);
    while (r->busy)
        pthread_cond_wait(&r->changed, &r->mutex);
    pthread_mutex_unlock(&r->mutex);
}

static tess_status start_reader(tess_loader *loader)
{
    loader_reader *r = &loader->reader;
    r->text.mem = loader->mem;
    TESS_TRY(tess_encoder_create(loader->mem, loader->tokenizer, &r->encoder));
    pthread_mutex_init(&r->mutex, NULL);
    pthread_cond_init(&r->changed, NULL);
    int error = pthread_create(&r->thread, NULL, read_ahead, loader);
    if (error != 0) {
        pthread_cond_destroy(&r->changed);
        pthread_mutex_destroy(&r->mutex);
        return TESS_FAIL(TESS_E_IO, "cannot start the loader's thread: %s", strerror(error));
    }
    r->started = true;
    return TESS_OK;
}

static void stop_reader(loader_reader *r)
{
    if (r->started) {
        wait_idle(r);
        pthread_mutex_lock(&r->mutex);
        r->quit = true;
        pthread_cond_broadcast(&r->changed);
        pthread_mutex_unlock(&r->mutex);
        pthread_join(r->thread, NULL);
        pthread_cond_destroy(&r->changed);
        pthread_mutex_destroy(&r->mutex);
        r->started = false;
    }
    tess_encoder_destroy(&r->encoder);
    if (r->text.mem != NULL)
        tess_buffer_free(&r->text);
}

/* ---- Windows ---- */
static bool holds(const tess_window *window, uint64_t epoch, uint64_t index)
{
    return window->filled && window->epoch == epoch && window->index == index;
}

static void next_window(const tess_loader *loader, uint64_t *epoch, uint64_t *index)
{
    if (++*index < loader->n_windows)
        return;
    *index = 0;
    ++*epoch;
}

/* True when no rows are left. */
static bool at_end(const tess_loader *loader)
{
    return !loader->options.repeat && loader->cursor.epoch > 0;
}

/* The reading thread is idle. */
static void warn_of_masks(tess_loader *loader)
{
    char text[512];
    const tess_loader_options *o = &loader->options;
    for (int i = 0; i < loader->blocks.n_files && o->warn != NULL; i++) {
        tess_block_file *file = &loader->blocks.files[i];
        if (file->mask[0] == '\0' || file->mask_told)
            continue;
        file->mask_told = true;
        snprintf(text, sizeof(text),
                 "%.300s: lines with a member '%s', which is not obeyed: every token of the text counts alike",
                 file->path, file->mask);
        o->warn(o->warn_self, text);
    }
}

/* Of the current window. */
static void warn_of_cuts(tess_loader *loader)
{
    char text[512];
    const tess_loader_options *o = &loader->options;
    const tess_window *window = &loader->windows[loader->current];
    if (window->n_cut + window->n_omitted == 0 || loader->cuts_told || o->warn == NULL)
        return;
    loader->cuts_told = true;
    snprintf(text, sizeof(text),
             "%.300s: of the %lld documents read first, %lld are longer than a row of %lld tokens and cut at its end, "
             "and %lld have nothing to train on there and are omitted (training.seq_len)",
             loader->blocks.files[0].path, (long long)window->n_documents + (long long)window->n_omitted,
             (long long)window->n_cut, (long long)o->seq_len, (long long)window->n_omitted);
    o->warn(o->warn_self, text);
}

/* Makes the cursor's window current, and starts to read the next one ahead. */
static tess_status need_window(tess_loader *loader)
{
    uint64_t epoch = loader->cursor.epoch, index = loader->cursor.window;
    if (holds(&loader->windows[loader->current], epoch, index))
        return TESS_OK;
    loader_reader *r = &loader->reader;
    tess_window *other = &loader->windows[1 - loader->current];
    wait_idle(r);
    if (!holds(other, epoch, index)) {
        ask(r, other, epoch, index);
        wait_idle(r);
        if (r->status != TESS_OK)
            return TESS_FAIL(r->status, "%s", r->error);
    }
    loader->current = 1 - loader->current;
    warn_of_masks(loader);
    warn_of_cuts(loader);
    next_window(loader, &epoch, &index);
    if (loader->options.repeat || epoch == 0)
        ask(r, &loader->windows[1 - loader->current], epoch, index);
    return TESS_OK;
}

static tess_window *current(tess_loader *loader)
{
    return &loader->windows[loader->current];
}

/* Moves the cursor to a row that exists, or to the end. */
static tess_status settle(tess_loader *loader)
{
    for (uint64_t empty = 0; !at_end(loader);) {
        TESS_TRY(need_window(loader));
        uint64_t n_rows = (uint64_t)current(loader)->n_rows;
        if (loader->cursor.row < n_rows)
            return TESS_OK;
        empty = n_rows == 0 ? empty + 1 : 0;
        TESS_CHECK(empty < loader->n_windows, TESS_E_INVALID,
                   "%s: the data hold no pair of tokens to train on (rows have %lld)", loader->blocks.files[0].path,
                   (long long)loader->options.seq_len);
        loader->cursor.row -= n_rows;
        /* An epoch of one window has the same documents, and so the same number of rows, every time. */
        if (loader->n_windows == 1 && loader->options.repeat) {
            loader->cursor.epoch += loader->cursor.row / n_rows;
            loader->cursor.row %= n_rows;
        }
        next_window(loader, &loader->cursor.epoch, &loader->cursor.window);
    }
    loader->cursor = (tess_data_cursor){.epoch = 1};
    return TESS_OK;
}

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
        TESS_TRY(
            tess_mem_alloc_array(loader->mem, TESS_POOL_MISC, n + (i == 3), sizeof(int32_t), "micro-batch", &block));
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

static tess_status create(tess_loader *loader, const tess_loader_options *options)
{
    int64_t vocab_size = tess_tokenizer_vocab_size(loader->tokenizer);
    TESS_CHECK(options->eos_id < vocab_size, TESS_E_INVALID, "eos id %d is not in the vocabulary of %lld tokens",
               options->eos_id, (long long)vocab_size);
    loader->options.files = NULL;
    TESS_TRY(copy_keys(loader, options));
    TESS_TRY(tess_blocks_open(&loader->blocks, options));
    loader->n_windows = tess_rows_window_count(&loader->blocks);
    TESS_TRY(create_batch(loader));
    TESS_TRY(start_reader(loader));
    TESS_TRY(settle(loader));
    TESS_CHECK(!at_end(loader), TESS_E_INVALID, "%s: the data hold no pair of tokens", loader->blocks.files[0].path);
    return TESS_OK;
}

tess_status tess_loader_create(tess_mem *mem, const tess_tokenizer *tokenizer, const tess_loader_options *options,
                               tess_loader **out)
{
    void *block;
    *out = NULL;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(tess_loader), "loader", &block));
    tess_loader *loader = block;
    loader->mem = loader->blocks.mem = mem;
    for (int i = 0; i < 2; i++)
        loader->windows[i] =
            (tess_window){.mem = mem, .tokens = {.mem = mem}, .loss = {.mem = mem}, .whole = {.mem = mem}};
    loader->tokenizer = tokenizer;
    loader->options = *options;
    tess_status status = create(loader, options);
    if (status != TESS_OK)
        tess_loader_destroy(&loader);
    *out = loader;
    return status;
}

void tess_loader_destroy(tess_loader **out)
{
    tess_loader *loader = *out;
    if (loader == NULL)
        return;
    stop_reader(&loader->reader);
    tess_rows_window_free(&loader->windows[0]);
    tess_rows_window_free(&loader->windows[1]);
    tess_blocks_close(&loader->blocks);
    void *arrays[] = {loader->ids, loader->pos, loader->targets, loader->cu_seqlens};
    for (int i = 0; i < 4; i++)
        tess_mem_free(loader->mem, arrays[i]);
    tess_mem_free(loader->mem, loader);
    *out = NULL;
}

/* ---- Rows ---- */
/* Writes row `j` of the batch from the cursor's row (or padding at the end) and moves on. */
static tess_status write_row(tess_loader *loader, int64_t j, tess_micro_batch *batch)
{
    const tess_loader_options *o = &loader->options;
    TESS_TRY(settle(loader));
    const tess_row row = {.ids = loader->ids + j * o->seq_len,
                          .pos = loader->pos + j * o->seq_len,
                          .targets = loader->targets + j * o->seq_len,
                          .ends = loader->cu_seqlens + 1 + batch->n_seqs,
                          .base = (int32_t)(j * o->seq_len)};
    const tess_window *window = current(loader);
    const tess_documents documents = tess_rows_window_documents(window);
    uint64_t index = (uint64_t)window->n_rows;
    if (!at_end(loader)) {
        index = loader->cursor.row++;
        if (o->shuffle)
            index = tess_rng_permute(o->seed, TESS_RNG_SHUFFLE, window->order, (uint64_t)window->n_rows, index);
    }
    batch->n_seqs += tess_pack_row(&documents, (int64_t)index, o->seq_len, o->eos_id >= 0 ? o->eos_id : 0, &row);
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
    TESS_CHECK(skip >= 0 && !__builtin_mul_overflow((uint64_t)skip, (uint64_t)o->micro_batch, &rows) &&
                   !__builtin_add_overflow(loader->cursor.row, rows, &rows),
               TESS_E_INVALID, "cannot skip %lld micro-batches", (long long)skip);
    if (!at_end(loader))
        loader->cursor.row = rows;
    TESS_TRY(settle(loader));
    *end = at_end(loader);
    if (*end)
        return TESS_OK;
    batch->epoch = loader->cursor.epoch;
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
    *cursor = loader->cursor;
}

tess_status tess_loader_seek(tess_loader *loader, const tess_data_cursor *cursor)
{
    TESS_CHECK(
        cursor->window < loader->n_windows && cursor->row <= INT64_MAX, TESS_E_INVALID,
        "the data have %llu windows an epoch, but the cursor stands in window %llu: they are not the data of the "
        "checkpoint",
        (unsigned long long)loader->n_windows, (unsigned long long)cursor->window);
    loader->cursor = *cursor;
    return TESS_OK;
}

tess_status tess_loader_set_bos(tess_loader *loader, const tess_prefix *bos)
{
    wait_idle(&loader->reader);
    loader->options.bos = *bos;
    loader->windows[0].filled = loader->windows[1].filled = false;
    loader->cursor = (tess_data_cursor){0};
    return settle(loader);
}

void tess_loader_set_rows(tess_loader *loader, int64_t micro_batch)
{
    loader->options.micro_batch = micro_batch;
}

int64_t tess_loader_estimate_rows(const tess_loader *loader)
{
    return loader->windows[loader->current].n_rows * (int64_t)loader->n_windows;
}
