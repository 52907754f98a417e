/* Decides whether older checkpoints may be removed for a newer one: only if the newer one was read completely and is
 * undamaged. */
#include <stdio.h>
#include <string.h>

#include "base/core/rng.h"
#include "ckpt/catalog/catalog.h"
#include "ckpt/store/read.h"
#include "ckpt/store/store_impl.h"

/* Returns a hash that changes when a file is written (its time changes) or replaced (its time or size changes). */
static uint64_t hash_files(const tess_catalog *catalog)
{
    uint64_t hash = 0;
    for (int i = 0; i < catalog->n_files; i++) {
        const tess_catalog_file *file = &catalog->files[i];
        double changed_s = tess_os_changed_s(file->path);
        hash = tess_hash_bytes(file->path, strlen(file->path) + 1, hash);
        hash = tess_hash_bytes(&file->bytes, sizeof(file->bytes), hash);
        hash = tess_hash_bytes(&changed_s, sizeof(changed_s), hash);
    }
    return hash;
}

static void remember(tess_ckpt_findings *findings, uint64_t files, bool good)
{
    if (findings == NULL)
        return;
    int i = findings->n++ % TESS_CKPT_FINDINGS;
    findings->items[i].files = files;
    findings->items[i].good = good;
}

void tess_ckpt_keep_note(void *self, const char *text)
{
    enum { ROOM_FOR_MORE = 48 };
    tess_ckpt_notes *notes = self;
    if (notes->n++ == 0) {
        snprintf(notes->text, notes->size - ROOM_FOR_MORE, "%s", text);
        return;
    }
    const char *last = notes->n > 2 ? strrchr(notes->text, ';') : NULL;
    size_t at = last != NULL ? (size_t)(last - notes->text) : strlen(notes->text);
    snprintf(notes->text + at, notes->size - at, "; and %d more %s not count", notes->n - 1,
             notes->n == 2 ? "does" : "do");
}

static void report(const tess_ckpt_pruner *p)
{
    char text[2048];
    snprintf(text, sizeof(text), "%.1500s; it does not count for checkpoint.keep_latest_k, and an older one stays",
             tess_error_message());
    if (p->note != NULL)
        p->note(p->self, text);
    tess_error_clear();
}

static bool verify(const tess_ckpt_pruner *p, const tess_catalog *catalog)
{
    uint64_t files = hash_files(catalog);
    for (int i = 0; p->findings != NULL && i < p->findings->n && i < TESS_CKPT_FINDINGS; i++)
        if (p->findings->items[i].files == files)
            return p->findings->items[i].good;
    tess_status status = tess_catalog_verify(catalog, NULL);
    bool good = status == TESS_OK;
    if (good || status == TESS_E_FORMAT) /* a checkpoint that cannot be read now may still be good */
        remember(p->findings, files, good);
    if (!good)
        report(p);
    return good;
}

bool tess_store_reads_back(const tess_ckpt_pruner *p, const char *folder)
{
    tess_catalog *catalog;
    if (tess_store_open(p->mem, folder, &catalog) != TESS_OK) {
        report(p);
        return false;
    }
    bool good = verify(p, catalog);
    tess_catalog_destroy(&catalog);
    return good;
}

void tess_ckpt_note_good(const tess_ckpt_pruner *p, const char *dir, int64_t step)
{
    tess_catalog *catalog;
    if (tess_ckpt_open_step(p->mem, dir, step, &catalog) != TESS_OK) {
        tess_error_clear(); /* not an error here: the next check of all checkpoints finds it */
        return;
    }
    remember(p->findings, hash_files(catalog), true);
    tess_catalog_destroy(&catalog);
}

tess_status tess_store_verify_part(tess_mem *mem, const char *folder, const json_t *part)
{
    TESS_AUTO(tess_catalog_destroy) tess_catalog *catalog = NULL;
    TESS_TRY(tess_store_catalog(mem, folder, part, &catalog));
    catalog->part = true; /* the rest of the checkpoint is in other parts */
    return tess_catalog_verify(catalog, NULL);
}
