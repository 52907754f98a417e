/* The kinds of pipeline schedules, the numbers of chunks and micro-batches that they allow, and the rank of each
 * stage. */
#include "parallel/pipeline/pipeline.h"

#include <strings.h>

#include "base/core/options.h"

/* A kind with its name in torchtitan's configurations (NULL: it has none) and how many chunks a rank may have. */
static const struct {
    const char *name, *torch;
    int least_chunks, most_chunks;
} kinds[] = {[TESS_PIPELINE_GPIPE] = {"gpipe", "GPipe", 1, 1},
             [TESS_PIPELINE_1F1B] = {"1f1b", "1F1B", 1, 1},
             [TESS_PIPELINE_INTERLEAVED] = {"interleaved", "Interleaved1F1B", 2, TESS_PIPELINE_MAX_CHUNKS},
             [TESS_PIPELINE_ZB_H1] = {"zb_h1", NULL, 1, 1},
             [TESS_PIPELINE_ZBV] = {"zbv", "ZBVZeroBubble", 2, 2},
             [TESS_PIPELINE_DUALPIPEV] = {"dualpipev", "DualPipeV", 2, 2}};

const char *tess_pipeline_kind_name(tess_pipeline_kind kind)
{
    return kinds[kind].name;
}

const char *tess_pipeline_op_name(tess_pipeline_op op)
{
    static const char *const names[] = {"F",      "B",      "BI",     "BW",     "SEND_F",
                                        "RECV_F", "SEND_B", "RECV_B", "SEND_T", "RECV_T"};
    return names[op];
}

tess_status tess_pipeline_kind_parse(const char *text, tess_pipeline_kind *kind)
{
    const char *names[TESS_PIPELINE_KINDS];
    int chosen = 0;
    for (int k = 0; k < TESS_PIPELINE_KINDS; k++) {
        names[k] = kinds[k].name;
        if (strcasecmp(text, kinds[k].name) == 0 || (kinds[k].torch != NULL && strcasecmp(text, kinds[k].torch) == 0)) {
            *kind = (tess_pipeline_kind)k;
            return TESS_OK;
        }
    }
    TESS_TRY(tess_options_choose("pipeline schedule", text, names, TESS_PIPELINE_KINDS, &chosen));
    *kind = (tess_pipeline_kind)chosen;
    return TESS_OK;
}

int tess_pipeline_usual_chunks(tess_pipeline_kind kind)
{
    return kinds[kind].least_chunks;
}

bool tess_pipeline_takes_chunks(tess_pipeline_kind kind, int chunks)
{
    return chunks >= kinds[kind].least_chunks && chunks <= kinds[kind].most_chunks;
}

static tess_status allows_chunks(tess_pipeline_kind kind, int chunks)
{
    int least = kinds[kind].least_chunks, most = kinds[kind].most_chunks;
    const char *name = kinds[kind].name;
    if (tess_pipeline_takes_chunks(kind, chunks))
        return TESS_OK;
    if (least < most && chunks == 1)
        return TESS_FAIL(TESS_E_INVALID, "%s needs %d .. %d chunks a rank, not 1: with one chunk it is 1f1b", name,
                         least, most);
    if (least < most)
        return TESS_FAIL(TESS_E_INVALID, "%s needs %d .. %d chunks a rank, not %d", name, least, most, chunks);
    return TESS_FAIL(TESS_E_INVALID, "%s needs %d chunk%s a rank, not %d%s", name, least, least == 1 ? "" : "s", chunks,
                     least == 1 && chunks > 1 ? ": interleaved takes several" : "");
}

int tess_pipeline_fill_up(tess_pipeline_kind kind, int ranks, int micros)
{
    if (kind == TESS_PIPELINE_INTERLEAVED)
        return (micros + ranks - 1) / ranks * ranks;
    return kind == TESS_PIPELINE_DUALPIPEV && micros < 2 * ranks ? 2 * ranks : micros;
}

tess_status tess_pipeline_allows(tess_pipeline_kind kind, int ranks, int chunks, int micros)
{
    const char *name = kinds[kind].name;
    TESS_CHECK(ranks >= 1, TESS_E_INVALID, "%s needs 1 or more ranks, not %d", name, ranks);
    TESS_TRY(allows_chunks(kind, chunks));
    TESS_CHECK(micros >= 1, TESS_E_INVALID, "%s needs 1 or more micro-batches, not %d", name, micros);
    TESS_CHECK(ranks <= TESS_PIPELINE_MAX_MICROS / chunks / micros, TESS_E_INVALID,
               "%s: %d ranks with %d chunks and %d micro-batches: the product may be %d", name, ranks, chunks, micros,
               TESS_PIPELINE_MAX_MICROS);
    if (kind == TESS_PIPELINE_INTERLEAVED && micros % ranks != 0) {
        int below = micros - micros % ranks;
        if (below == 0)
            return TESS_FAIL(TESS_E_INVALID, "%s with %d ranks needs a multiple of %d micro-batches: %d, not %d", name,
                             ranks, ranks, ranks, micros);
        return TESS_FAIL(TESS_E_INVALID, "%s with %d ranks needs a multiple of %d micro-batches: %d or %d, not %d",
                         name, ranks, ranks, below, below + ranks, micros);
    }
    TESS_CHECK(kind != TESS_PIPELINE_DUALPIPEV || micros >= 2 * ranks, TESS_E_INVALID,
               "%s with %d ranks needs %d or more micro-batches, not %d: zbv takes any number", name, ranks, 2 * ranks,
               micros);
    return TESS_OK;
}

/* ---- Places of stages ---- */
static bool is_v(const tess_pipeline_schedule *s)
{
    return s->kind == TESS_PIPELINE_ZBV || s->kind == TESS_PIPELINE_DUALPIPEV;
}

int tess_pipeline_stage(const tess_pipeline_schedule *s, int rank, int chunk)
{
    return is_v(s) && chunk == 1 ? 2 * s->ranks - 1 - rank : chunk * s->ranks + rank;
}

int tess_pipeline_chunk_of(const tess_pipeline_schedule *s, int stage)
{
    return stage / s->ranks;
}

int tess_pipeline_rank_of(const tess_pipeline_schedule *s, int stage)
{
    int place = stage % s->ranks;
    return is_v(s) && stage >= s->ranks ? s->ranks - 1 - place : place;
}

bool tess_pipeline_crosses(const tess_pipeline_schedule *s, int stage)
{
    return stage >= 0 && stage + 1 < s->ranks * s->chunks &&
           tess_pipeline_rank_of(s, stage) != tess_pipeline_rank_of(s, stage + 1);
}

void tess_pipeline_free(tess_pipeline_schedule *s)
{
    tess_mem_drop(&s->lists);
    *s = (tess_pipeline_schedule){0};
}
