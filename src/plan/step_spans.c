#include "plan/step_spans.h"

#include <math.h>
#include <string.h>

#include "base/mem/scoped.h"

const char *tess_span_name(int kind)
{
    return kind == TESS_SPAN_WAIT     ? "waiting for data"
           : kind == TESS_SPAN_BUBBLE ? "bubble"
                                      : tess_phase_name((tess_phase)kind);
}

static tess_status append(tess_step_spans *s, const tess_step_span *span)
{
    enum { FIRST = 256 };
    if (s->n == s->room) {
        tess_step_span *more;
        const size_t room = s->room > 0 ? 2 * s->room : FIRST;
        TESS_TRY(TESS_NEW(s->mem, room, "spans of a step", &more));
        for (size_t i = 0; i < s->n; i++)
            more[i] = s->spans[i];
        tess_mem_free(s->mem, s->spans);
        s->spans = more;
        s->room = room;
    }
    s->spans[s->n++] = *span;
    s->last[span->row] = s->n;
    return TESS_OK;
}

void tess_step_spans_add(tess_step_spans *s, const tess_step_span *span)
{
    if (span->row >= TESS_SPAN_ROWS || span->end_s <= span->begin_s || s->status != TESS_OK)
        return;
    tess_step_span *last = s->last[span->row] > 0 ? &s->spans[s->last[span->row] - 1] : NULL;
    if (last != NULL && last->kind == span->kind && last->end_s == span->begin_s)
        last->end_s = span->end_s;
    else
        s->status = append(s, span);
}

double tess_step_spans_end(const tess_step_spans *s)
{
    double end_s = 0;
    for (size_t i = 0; i < s->n; i++)
        end_s = fmax(end_s, s->spans[i].end_s);
    return end_s;
}

void tess_step_spans_columns(const tess_step_spans *s, int row, uint8_t kinds[TESS_SPAN_COLUMNS])
{
    double share[TESS_SPAN_COLUMNS][TESS_SPAN_KINDS] = {{0}};
    const double columns_per_s = TESS_SPAN_COLUMNS / tess_step_spans_end(s);
    for (size_t i = 0; i < s->n; i++) {
        const tess_step_span *span = &s->spans[i];
        const double from = span->begin_s * columns_per_s, to = span->end_s * columns_per_s;
        for (int c = (int)from; span->row == row && c < TESS_SPAN_COLUMNS && c < to; c++)
            share[c][span->kind] += fmin(to, c + 1) - fmax(from, c);
    }
    for (int c = 0; c < TESS_SPAN_COLUMNS; c++) {
        kinds[c] = TESS_SPAN_BUBBLE;
        for (int kind = 0; kind < TESS_SPAN_KINDS; kind++)
            kinds[c] = share[c][kind] > share[c][kinds[c]] ? (uint8_t)kind : kinds[c];
    }
}

tess_status tess_step_spans_coarsen(tess_step_spans *s)
{
    size_t of_row[TESS_SPAN_ROWS] = {0}, most = 0;
    for (size_t i = 0; i < s->n; i++)
        most = ++of_row[s->spans[i].row] > most ? of_row[s->spans[i].row] : most;
    if (most <= TESS_SPAN_COLUMNS)
        return TESS_OK;
    const double width_s = tess_step_spans_end(s) / TESS_SPAN_COLUMNS;
    tess_step_spans coarse = *s;
    coarse.spans = NULL;
    coarse.n = coarse.room = 0;
    memset(coarse.last, 0, sizeof(coarse.last));
    for (int row = 0; row < s->n_rows; row++) {
        uint8_t kinds[TESS_SPAN_COLUMNS];
        tess_step_spans_columns(s, row, kinds);
        for (int c = 0; c < TESS_SPAN_COLUMNS; c++)
            tess_step_spans_add(&coarse, &(tess_step_span){row, kinds[c], c * width_s, (c + 1) * width_s});
    }
    tess_mem_free(s->mem, s->spans);
    *s = coarse;
    return s->status;
}

void tess_step_spans_free(tess_step_spans *s)
{
    tess_mem_free(s->mem, s->spans);
    *s = (tess_step_spans){.mem = s->mem};
}
