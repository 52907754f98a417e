#include "plan/step_spans.h"

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

void tess_step_spans_free(tess_step_spans *s)
{
    tess_mem_free(s->mem, s->spans);
    *s = (tess_step_spans){.mem = s->mem};
}
