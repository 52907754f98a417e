/* One stream of rows: windows that a thread reads in advance, and the position in them. */
#include "data/loader/source.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/core/rng.h"
#include "data/loader/window.h"
#include "base/mem/scoped.h"

/* The request to the reading thread, and its result. There is one request at a time. The loader does not touch the
 * requested window until the thread is idle again. */
typedef struct source_reader {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool started, busy, quit;
    tess_window *window; /* the window to fill */
    uint64_t epoch, index;
    tess_status status; /* status of the last request */
    char error[1024];
    tess_encoder *encoder;
    tess_buffer text;
} source_reader;

struct tess_source {
    tess_mem *mem;
    const tess_loader_options *options; /* options of the loader; its files are not used here */
    bool cuts_told, turns_told, end_told;
    bool conversations; /* whether any window had a conversation */
    tess_blocks blocks;
    uint64_t n_windows;
    tess_window windows[2];
    int current; /* index of the window from which rows are taken; the other one is read in advance */
    source_reader reader;
    tess_source_cursor cursor;
    const tess_tokenizer *tokenizer;
};

/* ---- The thread ---- */
static void *read_ahead(void *argument)
{
    tess_source *source = argument;
    source_reader *r = &source->reader;
    pthread_mutex_lock(&r->mutex);
    for (;;) {
        while (!r->busy && !r->quit)
            pthread_cond_wait(&r->changed, &r->mutex);
        if (r->quit)
            break;
        pthread_mutex_unlock(&r->mutex);
        tess_status status = tess_rows_window_fill(r->window, &source->blocks, source->options, r->encoder, &r->text,
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

static void ask(source_reader *r, tess_window *window, uint64_t epoch, uint64_t index)
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

static void wait_idle(source_reader *r)
{
    pthread_mutex_lock(&r->mutex);
    while (r->busy)
        pthread_cond_wait(&r->changed, &r->mutex);
    pthread_mutex_unlock(&r->mutex);
}

static tess_status start_reader(tess_source *source)
{
    source_reader *r = &source->reader;
    r->text.mem = source->mem;
    TESS_TRY(tess_encoder_create(source->mem, source->tokenizer, &r->encoder));
    pthread_mutex_init(&r->mutex, NULL);
    pthread_cond_init(&r->changed, NULL);
    int error = pthread_create(&r->thread, NULL, read_ahead, source);
    if (error != 0) {
        pthread_cond_destroy(&r->changed);
        pthread_mutex_destroy(&r->mutex);
        return TESS_FAIL(TESS_E_IO, "cannot start the loader's thread: %s", strerror(error));
    }
    r->started = true;
    return TESS_OK;
}

static void stop_reader(source_reader *r)
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

static void next_window(const tess_source *source, uint64_t *epoch, uint64_t *index)
{
    if (++*index < source->n_windows)
        return;
    *index = 0;
    ++*epoch;
}

/* Whether there are no more rows. */
static bool at_end(const tess_source *source)
{
    return !source->options->repeat && source->cursor.epoch > 0;
}

/* Warns of members that look like masks, once per file. The reading thread must be idle. */
static void warn_of_masks(tess_source *source)
{
    char text[512];
    const tess_loader_options *o = source->options;
    for (int i = 0; i < source->blocks.n_files && o->warn != NULL; i++) {
        tess_block_file *file = &source->blocks.files[i];
        if (file->mask[0] == '\0' || file->mask_told)
            continue;
        file->mask_told = true;
        snprintf(text, sizeof(text),
                 "%.300s: lines with a member '%s', which is not obeyed: every token of the text counts alike",
                 file->path, file->mask);
        o->warn(o->warn_self, text);
    }
}

/* Warns of documents that were cut in the current window. */
static void warn_of_cuts(tess_source *source)
{
    char text[512];
    const tess_loader_options *o = source->options;
    const tess_window *window = &source->windows[source->current];
    if (window->n_cut + window->n_omitted == 0 || source->cuts_told || o->warn == NULL)
        return;
    source->cuts_told = true;
    snprintf(text, sizeof(text),
             "%.300s: of the %lld documents read first, %lld are longer than a row of %lld tokens and cut at its end, "
             "and %lld have nothing to train on there and are omitted (training.seq_len)",
             source->blocks.files[0].path, (long long)window->n_read, (long long)window->n_cut, (long long)o->seq_len,
             (long long)window->n_omitted);
    o->warn(o->warn_self, text);
}

/* Passes on a line about the current window, only once. */
static void warn_once(const tess_source *source, bool holds, bool *told, const char *text)
{
    if (!holds || *told || source->options->warn == NULL)
        return;
    *told = true;
    source->options->warn(source->options->warn_self, text);
}

static void look_at_window(tess_source *source)
{
    const tess_window *window = &source->windows[source->current];
    source->conversations = source->conversations || window->conversations;
    warn_of_masks(source);
    warn_of_cuts(source);
    warn_once(source, window->by_turns, &source->turns_told, TESS_BY_TURNS_NOTE);
    warn_once(source, window->without_end, &source->end_told,
              "no token ends a document: neither tokenizer_config.json nor special_tokens_map.json names an eos_token "
              "of the tokenizer, and config.json has no eos_token_id of it");
}

/* Makes the cursor's window the current one, and starts to read the next one. */
static tess_status need_window(tess_source *source)
{
    uint64_t epoch = source->cursor.epoch, index = source->cursor.window;
    if (holds(&source->windows[source->current], epoch, index))
        return TESS_OK;
    source_reader *r = &source->reader;
    tess_window *other = &source->windows[1 - source->current];
    wait_idle(r);
    if (!holds(other, epoch, index)) {
        ask(r, other, epoch, index);
        wait_idle(r);
        if (r->status != TESS_OK)
            return TESS_FAIL(r->status, "%s", r->error);
    }
    source->current = 1 - source->current;
    look_at_window(source);
    next_window(source, &epoch, &index);
    if (source->options->repeat || epoch == 0)
        ask(r, &source->windows[1 - source->current], epoch, index);
    return TESS_OK;
}

static tess_window *current(tess_source *source)
{
    return &source->windows[source->current];
}

/* Moves the cursor to the next row that exists, or to the end. */
static tess_status settle(tess_source *source)
{
    for (uint64_t empty = 0; !at_end(source);) {
        TESS_TRY(need_window(source));
        uint64_t n_rows = (uint64_t)current(source)->n_rows;
        if (source->cursor.row < n_rows)
            return TESS_OK;
        empty = n_rows == 0 ? empty + 1 : 0;
        TESS_CHECK(empty < source->n_windows, TESS_E_INVALID,
                   "%s: the data hold no pair of tokens to train on (rows have %lld)", source->blocks.files[0].path,
                   (long long)source->options->seq_len);
        source->cursor.row -= n_rows;
        /* If an epoch is one window, it has the same documents, and so the same number of rows, every time. */
        if (source->n_windows == 1 && source->options->repeat) {
            source->cursor.epoch += source->cursor.row / n_rows;
            source->cursor.row %= n_rows;
        }
        next_window(source, &source->cursor.epoch, &source->cursor.window);
    }
    source->cursor = (tess_source_cursor){.epoch = 1, .taken = source->cursor.taken};
    return TESS_OK;
}

/* ---- Create and destroy ---- */
static tess_status create(tess_source *source, const tess_loader_options *of_files)
{
    TESS_TRY(tess_blocks_open(&source->blocks, source->tokenizer, of_files));
    source->n_windows = (source->blocks.n_blocks + TESS_WINDOW_BLOCKS - 1) / TESS_WINDOW_BLOCKS;
    TESS_TRY(start_reader(source));
    TESS_TRY(settle(source));
    TESS_CHECK(!at_end(source), TESS_E_INVALID, "%s: the data hold no pair of tokens", source->blocks.files[0].path);
    return TESS_OK;
}

tess_status tess_source_create(tess_mem *mem, const tess_tokenizer *tokenizer, const tess_loader_options *options,
                               const char *const *files, int n_files, tess_source **out)
{
    TESS_AUTO(tess_source_destroy) tess_source *source = NULL;
    *out = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "source of rows", &source));
    source->mem = source->blocks.mem = mem;
    for (int i = 0; i < 2; i++)
        source->windows[i] = tess_rows_window_of(mem);
    source->tokenizer = tokenizer;
    source->options = options;
    tess_loader_options of_files = *options;
    of_files.files = files;
    of_files.n_files = n_files;
    TESS_TRY(create(source, &of_files));
    *out = TESS_GIVE(source);
    return TESS_OK;
}

void tess_source_destroy(tess_source **out)
{
    tess_source *source = *out;
    if (source == NULL)
        return;
    stop_reader(&source->reader);
    tess_rows_window_free(&source->windows[0]);
    tess_rows_window_free(&source->windows[1]);
    tess_blocks_close(&source->blocks);
    tess_mem_drop(out);
}

/* ---- Rows ---- */
tess_status tess_source_row(tess_source *source, const tess_row *row, int64_t *n_seqs)
{
    const tess_loader_options *o = source->options;
    TESS_TRY(settle(source));
    const tess_window *window = current(source);
    const tess_documents documents = tess_rows_window_documents(window);
    uint64_t index = (uint64_t)window->n_rows;
    if (!at_end(source)) {
        index = source->cursor.row++;
        source->cursor.taken++;
        if (o->shuffle)
            index = tess_rng_permute(o->seed, TESS_RNG_SHUFFLE, window->order, (uint64_t)window->n_rows, index);
    }
    *n_seqs = tess_pack_row(&documents, (int64_t)index, o->seq_len, o->eos_id >= 0 ? o->eos_id : 0, row);
    return TESS_OK;
}

tess_status tess_source_skip(tess_source *source, uint64_t rows)
{
    uint64_t row;
    TESS_CHECK(!__builtin_add_overflow(source->cursor.row, rows, &row), TESS_E_INVALID, "cannot skip %llu rows",
               (unsigned long long)rows);
    if (!at_end(source)) {
        source->cursor.row = row;
        source->cursor.taken += rows;
    }
    return TESS_OK;
}

tess_status tess_source_settle(tess_source *source, bool *end)
{
    TESS_TRY(settle(source));
    *end = at_end(source);
    return TESS_OK;
}

const tess_source_cursor *tess_source_cursor_of(const tess_source *source)
{
    return &source->cursor;
}

tess_status tess_source_seek(tess_source *source, const tess_source_cursor *cursor)
{
    TESS_CHECK(
        cursor->window < source->n_windows && cursor->row <= INT64_MAX, TESS_E_INVALID,
        "the data have %llu windows an epoch, but the cursor stands in window %llu: they are not the data of the "
        "checkpoint",
        (unsigned long long)source->n_windows, (unsigned long long)cursor->window);
    source->cursor = *cursor;
    return TESS_OK;
}

void tess_source_forget(tess_source *source)
{
    wait_idle(&source->reader);
    source->windows[0].filled = source->windows[1].filled = false;
    source->cursor = (tess_source_cursor){0};
}

int64_t tess_source_estimate_rows(const tess_source *source)
{
    return source->windows[source->current].n_rows * (int64_t)source->n_windows;
}

bool tess_source_has_conversations(const tess_source *source)
{
    return source->conversations;
}
