/* Draws a schedule over time, as text and as a trace. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "parallel/pipeline/pipeline.h"
#include "trace/trace_events.h"

static bool is_message(const tess_pipeline_action *a)
{
    return a->op > TESS_PIPELINE_BW;
}

/* Returns 'F', 'B', 'I' or 'W', in lower case for odd chunks. */
static char letter(const tess_pipeline_action *a)
{
    return (a->chunk % 2 == 0 ? "FBIW" : "fbiw")[a->op];
}

tess_status tess_pipeline_print_order(const tess_pipeline_schedule *s, int rank, tess_buffer *out)
{
    const tess_pipeline_list *list = &s->lists[rank];
    for (int i = 0; i < list->n; i++)
        if (!is_message(&list->actions[i]))
            TESS_TRY(tess_buffer_printf(out, "%c", letter(&list->actions[i])));
    return TESS_OK;
}

/* ---- Text ---- */
/* The width of a unit of time: wide enough for micro-batch numbers, one character without numbers, or less than a
 * character. */
typedef struct timeline_scale {
    int cell;          /* characters of a unit of time; 0: without numbers */
    double per_column; /* time of a character, without numbers */
    int columns;
} timeline_scale;

/* Whether computations start and end at whole numbers. */
static bool is_whole(const tess_pipeline_schedule *s, const tess_pipeline_report *report)
{
    for (int r = 0; r < s->ranks; r++)
        for (int i = 0; i < s->lists[r].n; i++) {
            const tess_pipeline_time *t = &report->times[r][i];
            if (!is_message(&s->lists[r].actions[i]) && (t->start != rint(t->start) || t->end != rint(t->end)))
                return false;
        }
    return true;
}

static timeline_scale choose_scale(const tess_pipeline_schedule *s, const tess_pipeline_report *report, int columns)
{
    const int cell = 2 + snprintf(NULL, 0, "%d", s->micros - 1);
    if (is_whole(s, report) && report->makespan * cell <= columns)
        return (timeline_scale){cell, 0, (int)report->makespan * cell};
    if (is_whole(s, report) && report->makespan <= columns)
        return (timeline_scale){0, 1, (int)report->makespan};
    return (timeline_scale){0, report->makespan / columns, columns};
}

/* Writes one rank's row: what runs at the middle of each character's time, or "F3 " with numbers. */
static void draw_row(const tess_pipeline_schedule *s, const tess_pipeline_report *report, int rank,
                     const timeline_scale *scale, char *row)
{
    memset(row, scale->cell > 0 ? ' ' : '.', (size_t)scale->columns);
    for (int x = 0; x < scale->columns && scale->cell > 0; x += scale->cell)
        row[x] = '.';
    for (int i = 0; i < s->lists[rank].n; i++) {
        const tess_pipeline_action *a = &s->lists[rank].actions[i];
        const tess_pipeline_time *t = &report->times[rank][i];
        char name[16];
        if (is_message(a))
            continue;
        if (scale->cell == 0) {
            for (int x = (int)ceil(t->start / scale->per_column - 0.5);
                 x < scale->columns && (x + 0.5) * scale->per_column < t->end; x++)
                row[x] = letter(a);
            continue;
        }
        int from = (int)t->start * scale->cell, to = (int)t->end * scale->cell;
        int n = snprintf(name, sizeof(name), "%c%d", letter(a), a->micro);
        memset(row + from, '-', (size_t)(to - from > 0 ? to - from - 1 : 0));
        if (to > from)
            memcpy(row + from, name, (size_t)n);
    }
}

tess_status tess_pipeline_print_timeline(const tess_pipeline_schedule *s, const tess_pipeline_report *report,
                                         int columns, tess_buffer *out)
{
    const timeline_scale scale = choose_scale(s, report, columns);
    const int width = snprintf(NULL, 0, "%d", s->ranks - 1);
    TESS_AUTO(tess_mem_drop) char *row = NULL;
    TESS_TRY(tess_mem_alloc(s->mem, TESS_POOL_MISC, (size_t)scale.columns + 1, "row of a timeline", (void **)&row));
    for (int r = 0; r < s->ranks; r++) {
        int n = scale.columns;
        draw_row(s, report, r, &scale, row);
        while (n > 0 && row[n - 1] == ' ')
            n--;
        TESS_TRY(tess_buffer_printf(out, "rank %*d  %.*s\n", width, r, n, row));
    }
    return TESS_OK;
}

/* ---- Trace ---- */
enum { TID_COMPUTE = 1 };

static uint64_t to_ns(double units)
{
    return (uint64_t)llrint(units * 1e6);
}

static void put_rank(tess_trace_events *out, int rank)
{
    char name[32];
    snprintf(name, sizeof(name), "rank %d", rank);
    tess_trace_events_begin(out, 'M', rank, TID_COMPUTE, "process_name");
    tess_trace_events_args(out);
    tess_trace_events_text(out, "name", name);
    tess_trace_events_end(out);
    tess_trace_events_begin(out, 'M', rank, TID_COMPUTE, "process_sort_index");
    tess_trace_events_args(out);
    tess_trace_events_int(out, "sort_index", rank);
    tess_trace_events_end(out);
}

static void put_computation(tess_trace_events *out, const tess_pipeline_schedule *s, int rank,
                            const tess_pipeline_action *a, const tess_pipeline_time *t)
{
    static const char *const colours[] = {"thread_state_running", "rail_response", "rail_animation", "rail_idle"};
    char name[32];
    snprintf(name, sizeof(name), "%s %d", tess_pipeline_op_name(a->op), a->micro);
    tess_trace_events_begin(out, 'X', rank, TID_COMPUTE, name);
    tess_trace_events_time(out, "ts", to_ns(t->start));
    tess_trace_events_time(out, "dur", to_ns(t->end) - to_ns(t->start));
    tess_trace_events_text(out, "cname", colours[a->op]);
    tess_trace_events_args(out);
    tess_trace_events_int(out, "stage", tess_pipeline_stage(s, rank, a->chunk));
    tess_trace_events_int(out, "chunk", a->chunk);
    tess_trace_events_int(out, "micro_batch", a->micro);
    tess_trace_events_int(out, "slot", a->slot);
    tess_trace_events_end(out);
}

/* One end of an arrow: from the computation before SEND to the one after RECV. */
static void put_arrow_end(tess_trace_events *out, const tess_pipeline_schedule *s, int rank, int index,
                          const tess_pipeline_report *report)
{
    const tess_pipeline_action *a = &s->lists[rank].actions[index];
    const bool table = a->op == TESS_PIPELINE_SEND_T || a->op == TESS_PIPELINE_RECV_T;
    const bool sends = a->op == TESS_PIPELINE_SEND_F || a->op == TESS_PIPELINE_SEND_B || a->op == TESS_PIPELINE_SEND_T;
    const bool backward = table || a->op == TESS_PIPELINE_SEND_B || a->op == TESS_PIPELINE_RECV_B;
    const int stage = tess_pipeline_stage(s, rank, a->chunk);
    const int border = table               ? s->ranks * s->chunks - 1
                       : sends == backward ? stage - 1 /* SEND_B and RECV_F: the neighbour is the previous stage */
                                           : stage;
    tess_trace_events_begin(out, sends ? 's' : 'f', rank, TID_COMPUTE, backward ? "gradients" : "activations");
    tess_trace_events_text(out, "cat", "message");
    tess_trace_events_int(out, "id", ((int64_t)border * 2 + backward) * s->micros + a->micro + 1);
    /* Uses the moment just before, so that the arrow begins inside the computation that has ended. */
    uint64_t at = to_ns(sends ? report->times[rank][index].start : report->times[rank][index].end);
    tess_trace_events_time(out, "ts", sends && at > 0 ? at - 1 : at);
    if (!sends)
        tess_trace_events_text(out, "bp", "e");
    tess_trace_events_end(out);
}

tess_status tess_pipeline_write_trace(const tess_pipeline_schedule *s, const tess_pipeline_report *report,
                                      const char *path)
{
    tess_trace_events out;
    TESS_TRY(tess_trace_events_open(&out, path));
    for (int r = 0; r < s->ranks; r++) {
        put_rank(&out, r);
        for (int i = 0; i < s->lists[r].n; i++) {
            if (is_message(&s->lists[r].actions[i]))
                put_arrow_end(&out, s, r, i, report);
            else
                put_computation(&out, s, r, &s->lists[r].actions[i], &report->times[r][i]);
        }
    }
    return tess_trace_events_close(&out, TESS_OK);
}
