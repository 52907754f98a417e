#include "train/logbook.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "comm/rejoin.h"
#include "inject/inject.h"
#include "job/persist/persist.h"
#include "tessera/comm.h"
#include "engine/numbers/numbers.h"
#include "engine/numbers/router_bias.h"
#include "engine/stages/rank_stage.h"
#include "base/mem/scoped.h"

enum { ENTRIES = 4, KERNELS_NAME = 32 };

/* The logbook as stored in persistent memory. */
typedef struct book_page {
    _Atomic uint64_t identity; /* 0: not valid */
    uint64_t folder, launch;
    tess_run_layout layout;
    _Atomic int64_t done, committed, validated, saved;
    bool in_generations; /* this step's weights and moments are kept next to those of the step before */
    char kernels[KERNELS_NAME];
    tess_lr_settings lr;
    logbook_step step[ENTRIES];     /* entry of step s: [s % ENTRIES] */
    tess_task_place place[ENTRIES]; /* this rank's place in the task, indexed like `step` */
} book_page;

struct tess_logbook {
    tess_persist *persist;
    book_page *page;
    uint64_t identity;
    logbook_step last; /* the step with which the engine went on */
};

static tess_status open_page(tess_logbook *book)
{
    bool found;
    return tess_persist_region(book->persist, "logbook", sizeof(book_page), (void **)&book->page, &found);
}

tess_status tess_logbook_open(tess_runtime *runtime, tess_logbook **out)
{
    tess_persist *persist = tess_persist_of(runtime);
    tess_mem *mem = tess_runtime_mem(runtime);
    *out = NULL;
    if (persist == NULL)
        return TESS_OK;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(**out), "logbook", (void **)out));
    (*out)->persist = persist;
    tess_status status = open_page(*out);
    if (status != TESS_OK)
        tess_mem_drop(out);
    return status;
}

void tess_logbook_identify(tess_logbook *book, uint64_t identity)
{
    book->identity = identity;
}

bool tess_logbook_is_of(const tess_logbook *book, uint64_t folder, bool *is_hot)
{
    const book_page *page = book->page;
    bool is_of = atomic_load(&page->identity) == book->identity;
    *is_hot = is_of && page->launch == tess_persist_launch(book->persist);
    return *is_hot || (is_of && page->folder == folder);
}

int64_t tess_logbook_peek(const tess_persist *persist, uint64_t folder, tess_run_layout *layout)
{
    size_t bytes;
    const book_page *page = tess_persist_find(persist, "logbook", &bytes);
    bool holds = page != NULL && bytes == sizeof(*page) && folder != 0 && atomic_load(&page->identity) != 0 &&
                 page->folder == folder && tess_run_layout_is_valid(&page->layout);
    if (!holds)
        return -1;
    *layout = page->layout;
    return atomic_load(&page->committed);
}

bool tess_logbook_is_in(const tess_logbook *book, uint64_t folder)
{
    return folder != 0 && atomic_load(&book->page->identity) != 0 && book->page->folder == folder;
}

logbook_marks tess_logbook_marks(const tess_logbook *book)
{
    const book_page *page = book->page;
    return (logbook_marks){.done = atomic_load(&page->done),
                           .committed = atomic_load(&page->committed),
                           .validated = atomic_load(&page->validated),
                           .saved = atomic_load(&page->saved),
                           .in_generations = page->in_generations};
}

tess_status tess_logbook_clear(tess_runtime *runtime, tess_logbook *book)
{
    tess_persist_clear(tess_persist_of(runtime));
    if (tess_persist_disk_of(runtime) != NULL)
        tess_persist_clear(tess_persist_disk_of(runtime));
    return open_page(book);
}

const char *tess_logbook_kernels(const tess_logbook *book)
{
    return book->page->kernels;
}

tess_lr_settings tess_logbook_lr(const tess_logbook *book)
{
    return book->page->lr;
}

/* Records which launch, kernels and learning rate schedule write the book from here on. */
static void sign(tess_logbook *book, const tess_engine *e)
{
    book_page *page = book->page;
    page->launch = tess_persist_launch(book->persist);
    snprintf(page->kernels, sizeof(page->kernels), "%s", tess_stream_kernels(e->compute.stream)->name);
    page->lr = tess_lr_settings_of(e->config);
}

/* Returns the engine's counters and windows as an entry without a report. */
static logbook_step entry_of(const tess_engine *e)
{
    return (logbook_step){.step = e->step,
                          .n_tokens = e->n_tokens,
                          .restarts = e->restarts,
                          .scaler = e->scaled.scaler,
                          .losses = *tess_numbers_losses(e->numbers),
                          .norms = *tess_numbers_norms(e->numbers),
                          .report = {.n_tokens = -1}};
}

tess_status tess_logbook_begin(tess_logbook *book, const tess_engine *e, uint64_t folder, const tess_task_place *place)
{
    if (book == NULL)
        return TESS_OK;
    book_page *page = book->page;
    TESS_TRY(tess_fsdp_keep(e->fsdp, e->step));
    TESS_TRY(tess_fsdp_kept(e->fsdp));
    page->in_generations = e->compute.resident;
    page->step[e->step % ENTRIES] = entry_of(e);
    page->place[e->step % ENTRIES] = *place;
    page->folder = folder;
    tess_run_layout_of(e->config, &page->layout);
    sign(book, e);
    atomic_store(&page->done, e->step);
    atomic_store(&page->committed, e->step);
    atomic_store(&page->validated, e->step);
    atomic_store(&page->saved, e->step);
    atomic_store(&page->identity, book->identity);
    return TESS_OK;
}

void tess_logbook_read(tess_logbook *book, int64_t step, const tess_task_place *place)
{
    if (book != NULL)
        book->page->place[step % ENTRIES] = *place;
}

static void committed(void *self, const tess_engine *e, const tess_engine_report *report, float lr, float scale)
{
    book_page *page = ((tess_logbook *)self)->page;
    int64_t step = e->step + 1;
    tess_inject_moment(e->runtime, "judging", -1);
    logbook_step *entry = &page->step[step % ENTRIES];
    *entry = entry_of(e);
    entry->step = step;
    entry->n_tokens += report->n_tokens;
    entry->lr = lr;
    entry->scale = scale;
    entry->report = *report;
    if (!page->in_generations)
        atomic_store(&page->committed, step);
    tess_inject_moment(e->runtime, "judged", -1);
}

static void done(void *self, int64_t step)
{
    book_page *page = ((tess_logbook *)self)->page;
    if (page->in_generations)
        atomic_store(&page->committed, step);
    atomic_store(&page->done, step);
}

tess_step_recorder tess_logbook_recorder(tess_logbook *book)
{
    return book == NULL ? (tess_step_recorder){0} : (tess_step_recorder){book, committed, done};
}

void tess_logbook_validated(tess_logbook *book, int64_t step)
{
    if (book != NULL)
        atomic_store(&book->page->validated, step);
}

void tess_logbook_saved(tess_logbook *book, int64_t step)
{
    if (book != NULL)
        atomic_store(&book->page->saved, step);
}

/* ---- Going on ---- */
/* Finds the newest step that any rank has committed, and the lowest such rank. */
static tess_status find_committed(const tess_logbook *book, const tess_engine *e, int64_t *step, int *rank)
{
    int64_t mine = atomic_load(&book->page->committed), newest = mine;
    TESS_TRY(tess_all_reduce(e->team, &newest, &newest, 1, TESS_I64, TESS_MAX, NULL));
    int64_t first = mine == newest ? -e->at.rank : -e->at.world;
    TESS_TRY(tess_all_reduce(e->team, &first, &first, 1, TESS_I64, TESS_MAX, NULL));
    *step = newest;
    *rank = (int)-first;
    return TESS_OK;
}

/* All ranks copy that rank's entry, which is what each of them would have written. */
static tess_status share_commitment(tess_logbook *book, const tess_engine *e, int64_t step, int rank)
{
    book_page *page = book->page;
    logbook_step shared = page->step[step % ENTRIES];
    TESS_TRY(tess_broadcast(e->team, &shared, sizeof(shared), TESS_U8, rank, NULL));
    TESS_CHECK(shared.step == step, TESS_E_INTERNAL, "the logbook of rank %d is at step %lld, not at %lld", rank,
               (long long)shared.step, (long long)step);
    if (atomic_load(&page->committed) == step)
        return TESS_OK;
    page->step[step % ENTRIES] = shared;
    atomic_store(&page->committed, step);
    return TESS_OK;
}

static tess_status finish_update(tess_logbook *book, tess_engine *e, int64_t step)
{
    book_page *page = book->page;
    const logbook_step *entry = &page->step[step % ENTRIES];
    const tess_span *spans;
    if (atomic_load(&page->done) == step && !tess_optimizer_meets(e->optimizer))
        return TESS_OK;
    if (!entry->report.skipped) {
        TESS_TRY(tess_fsdp_find_gradients(e->fsdp, entry->report.n_micro));
        TESS_TRY(tess_engine_clip_values(e, entry->scale));
        TESS_TRY(tess_fsdp_spans(e->fsdp, &spans));
        TESS_TRY(tess_optimizer_step(e->optimizer, spans, step - entry->restarts.optimizer, entry->lr, entry->scale));
        if (atomic_load(&page->done) !=
            step) /* a rank that has finished wrote its biases, and may have chosen others */
            TESS_TRY(tess_router_bias_write(e));
    }
    atomic_store(&page->done, step);
    return TESS_OK;
}

/* Restores the newest step that every rank has kept. A rank's own newest step is at most one later. */
static tess_status take_up(tess_logbook *book, tess_engine *e, int64_t *step)
{
    book_page *page = book->page;
    *step = atomic_load(&page->done);
    TESS_TRY(tess_all_reduce(e->team, step, step, 1, TESS_I64, TESS_MIN, NULL));
    TESS_CHECK(page->step[*step % ENTRIES].step == *step, TESS_E_INTERNAL, "the logbook has step %lld, not %lld",
               (long long)page->step[*step % ENTRIES].step, (long long)*step);
    TESS_TRY(tess_fsdp_take_up(e->fsdp, *step));
    atomic_store(&page->committed, *step);
    atomic_store(&page->done, *step);
    return TESS_OK;
}

static tess_status complete(tess_logbook *book, tess_engine *e, int64_t *step)
{
    int rank;
    TESS_TRY(find_committed(book, e, step, &rank));
    TESS_TRY_CTX(share_commitment(book, e, *step, rank), "step %lld", (long long)*step);
    TESS_TRY_CTX(finish_update(book, e, *step), "the rest of step %lld", (long long)*step);
    return TESS_OK;
}

const logbook_step *tess_logbook_last(const tess_logbook *book)
{
    return &book->last;
}

tess_status tess_logbook_go_on(tess_logbook *book, tess_engine *e, tess_task_place *place)
{
    book_page *page = book->page;
    logbook_step *last = &book->last;
    int64_t step;
    TESS_CHECK(page->in_generations == e->compute.resident, TESS_E_INVALID,
               "weights and moments are kept in memory by a launch with job.shards=%s: start it with that, or without "
               "them (checkpoint.memory_copies=false)",
               page->in_generations ? "device" : "host");
    TESS_TRY(e->compute.resident ? take_up(book, e, &step) : complete(book, e, &step));
    if (e->stage != NULL)
        TESS_TRY(tess_stage_share_table(e->stage));
    *last = page->step[step % ENTRIES];
    *place = page->place[step % ENTRIES];
    e->step = step;
    e->n_tokens = last->n_tokens;
    e->restarts = last->restarts;
    e->scaled.scaler = last->scaler;
    *tess_numbers_losses(e->numbers) = last->losses;
    *tess_numbers_norms(e->numbers) = last->norms;
    if (last->report.n_tokens < 0)
        last->step = -1;
    sign(book, e);
    return TESS_OK;
}
