/* A look through a whole checkpoint: what is missing or damaged, and what lies where in its files. */
#include <stdio.h>

#include "ckpt/catalog/catalog_impl.h"

/* What a look over the whole checkpoint has met. */
typedef struct survey {
    const tess_catalog_visitor *visitor; /* NULL: the first that is wrong ends it */
    tess_status first;
    char message[1024]; /* of the first */
} survey;

/* Notes what came out; false: that was enough. */
static bool note(survey *s, tess_status status)
{
    if (status == TESS_OK)
        return true;
    if (s->first == TESS_OK) {
        s->first = status;
        snprintf(s->message, sizeof(s->message), "%s", tess_error_message());
    }
    bool heard = s->visitor != NULL && s->visitor->bad != NULL;
    if (heard)
        s->visitor->bad(s->visitor->self, tess_error_message());
    return heard;
}

static tess_status outcome(const survey *s)
{
    return s->first == TESS_OK ? TESS_OK : TESS_FAIL(s->first, "%s", s->message);
}

static bool survey_files(survey *s, const tess_catalog *c, uint8_t *broken)
{
    for (int i = 0; i < c->n_files; i++) {
        tess_status status = tess_file_check(&c->files[i]);
        if (broken != NULL)
            broken[i] = status != TESS_OK;
        if (!note(s, status))
            return false;
    }
    return true;
}

static bool survey_cover(survey *s, const tess_catalog *c)
{
    for (int i = 0; i < c->n_tensors && !c->part; i++) {
        tess_box whole = tess_catalog_whole(&c->tensors[i]);
        if (!note(s, tess_catalog_check_box(c, &c->tensors[i], &whole)))
            return false;
    }
    return true;
}

tess_status tess_catalog_check(const tess_catalog *catalog)
{
    survey s = {.visitor = NULL};
    if (survey_files(&s, catalog, NULL))
        survey_cover(&s, catalog);
    return outcome(&s);
}

/* The last tensor whose pieces do not begin behind this one; tensors without pieces come before those that share their
 * first. */
static const tess_catalog_tensor *tensor_of(const tess_catalog *c, int piece)
{
    int low = 0, high = c->n_tensors - 1;
    while (low < high) {
        int middle = low + (high - low + 1) / 2;
        if (c->tensors[middle].first_piece <= piece)
            low = middle;
        else
            high = middle - 1;
    }
    return &c->tensors[low];
}

static uint64_t bytes_to_verify(const tess_catalog *c)
{
    uint64_t all = 0;
    for (int i = 0; i < c->n_pieces; i++)
        all += c->pieces[i].stored;
    for (int i = 0; i < c->n_ranges; i++)
        all += c->ranges[i].bytes;
    return all;
}

/* `order`: the pieces as they lie in the files; those of broken files have been told of. */
static void survey_bytes(survey *s, const tess_catalog *c, const int *order, const uint8_t *broken)
{
    uint64_t done = 0, all = bytes_to_verify(c);
    bool heard = s->visitor != NULL && s->visitor->progress != NULL;
    for (int i = 0; i < c->n_pieces; i++) {
        const tess_catalog_piece *p = &c->pieces[order[i]];
        if (!broken[p->file] && !note(s, tess_piece_verify(c, tensor_of(c, order[i]), order[i])))
            return;
        done += p->stored;
        if (heard)
            s->visitor->progress(s->visitor->self, done, all);
    }
    for (int i = 0; i < c->n_ranges; i++) {
        const tess_catalog_range *range = &c->ranges[i];
        if (!broken[range->file] && !note(s, tess_range_verify(c, range)))
            return;
        done += range->bytes;
        if (heard)
            s->visitor->progress(s->visitor->self, done, all);
    }
}

tess_status tess_catalog_verify(const tess_catalog *c, const tess_catalog_visitor *visitor)
{
    survey s = {.visitor = visitor};
    uint8_t *broken;
    int *order = NULL;
    TESS_TRY(tess_mem_alloc(c->mem, TESS_POOL_MISC, (size_t)c->n_files, "damaged files", (void **)&broken));
    tess_status status = tess_catalog_file_order(c, &order);
    if (status == TESS_OK && survey_files(&s, c, broken) && survey_cover(&s, c))
        survey_bytes(&s, c, order, broken);
    tess_mem_free(c->mem, order);
    tess_mem_free(c->mem, broken);
    return status == TESS_OK ? outcome(&s) : status;
}
