/* Checks a whole checkpoint for missing and damaged files, elements and bytes. */
#include <stdio.h>

#include "ckpt/catalog/catalog_impl.h"

typedef struct survey {
    const tess_catalog_visitor *visitor; /* the survey ends at the first problem if it is NULL or has no `bad` */
    tess_status first;                   /* status of the first problem */
    char message[1024];                  /* message of the first problem */
} survey;

/* Records the status of a check. False: the survey must end. */
static bool note(survey *s, tess_status status)
{
    if (status == TESS_OK)
        return true;
    if (s->first == TESS_OK) {
        s->first = status;
        snprintf(s->message, sizeof(s->message), "%s", tess_error_message());
    }
    bool goes_on = s->visitor != NULL && s->visitor->bad != NULL;
    if (goes_on)
        s->visitor->bad(s->visitor->self, tess_error_message());
    return goes_on;
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

/* Returns the tensor of a piece: the last one whose pieces begin at or before it. A tensor without pieces comes before
 * the tensor with the same first_piece. */
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

static void report_progress(const survey *s, uint64_t done, uint64_t all)
{
    if (s->visitor != NULL && s->visitor->progress != NULL)
        s->visitor->progress(s->visitor->self, done, all);
}

/* Verifies pieces in the order of the files, except in broken files, which were already reported. False: the survey
 * must end. */
static bool survey_pieces(survey *s, const tess_catalog *c, const int *order, const uint8_t *broken, uint64_t all)
{
    tess_piece_reader reader = {.fd = -1};
    uint64_t done = 0;
    bool goes_on = true;
    for (int i = 0; i < c->n_pieces && goes_on; i++) {
        const tess_catalog_piece *p = &c->pieces[order[i]];
        goes_on = broken[p->file] || note(s, tess_piece_verify(c, tensor_of(c, order[i]), order[i], &reader));
        done += p->stored;
        if (goes_on)
            report_progress(s, done, all);
    }
    tess_piece_reader_close(c, &reader);
    return goes_on;
}

static void survey_ranges(survey *s, const tess_catalog *c, const uint8_t *broken, uint64_t done, uint64_t all)
{
    for (int i = 0; i < c->n_ranges; i++) {
        const tess_catalog_range *range = &c->ranges[i];
        if (!broken[range->file] && !note(s, tess_range_verify(c, i)))
            return;
        done += range->bytes;
        report_progress(s, done, all);
    }
}

static void survey_bytes(survey *s, const tess_catalog *c, const int *order, const uint8_t *broken)
{
    uint64_t pieces = 0, ranges = 0;
    for (int i = 0; i < c->n_pieces; i++)
        pieces += c->pieces[i].stored;
    for (int i = 0; i < c->n_ranges; i++)
        ranges += c->ranges[i].bytes;
    if (survey_pieces(s, c, order, broken, pieces + ranges))
        survey_ranges(s, c, broken, pieces, pieces + ranges);
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
