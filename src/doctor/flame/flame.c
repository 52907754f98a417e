#include "doctor/flame/flame.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "trace/ring.h"

enum { STACK_BYTES = 192, WIDTH = 1200, ROW = 17, MARGIN = 10, DEEPEST = 4 };

typedef struct flame_stack {
    char text[STACK_BYTES];
    uint64_t ns;
} flame_stack;

typedef struct flame {
    tess_mem *mem;
    flame_stack *stacks;
    size_t n, room;
    uint64_t all_ns; /* sum of all stacks, once they are merged */
} flame;

/* ---- Stacks ---- */
static tess_status grow(flame *f)
{
    void *memory;
    size_t room = f->room == 0 ? 256 : 2 * f->room;
    TESS_TRY(tess_mem_alloc_array(f->mem, TESS_POOL_MISC, room, sizeof(*f->stacks), "stacks", &memory));
    if (f->n > 0)
        memcpy(memory, f->stacks, f->n * sizeof(*f->stacks));
    tess_mem_free(f->mem, f->stacks);
    f->stacks = memory;
    f->room = room;
    return TESS_OK;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(((const flame_stack *)a)->text, ((const flame_stack *)b)->text);
}

/* Sorts the stacks and adds up equal ones. */
static void merge(flame *f)
{
    size_t n = 0;
    if (f->n == 0)
        return;
    qsort(f->stacks, f->n, sizeof(*f->stacks), by_text);
    for (size_t i = 1; i < f->n; i++)
        if (strcmp(f->stacks[i].text, f->stacks[n].text) == 0)
            f->stacks[n].ns += f->stacks[i].ns;
        else
            f->stacks[++n] = f->stacks[i];
    f->n = n + 1;
}

static uint64_t sum(const flame *f, size_t from, size_t to)
{
    uint64_t ns = 0;
    for (size_t i = from; i < to; i++)
        ns += f->stacks[i].ns;
    return ns;
}

/* Adds time to a stack. `what` "": there is no more to say of the operation. */
static tess_status add(flame *f, int rank, const char *phase, const char *op, const char *what, uint64_t ns)
{
    if (ns == 0)
        return TESS_OK;
    if (f->n == f->room) {
        merge(f); /* most stacks come again with every step */
        if (2 * f->n >= f->room)
            TESS_TRY(grow(f));
    }
    flame_stack *stack = &f->stacks[f->n++];
    stack->ns = ns;
    snprintf(stack->text, sizeof(stack->text), "all;rank %d;%.40s;%.60s%s%.40s", rank, phase, op,
             what[0] != '\0' ? " " : "", what);
    for (char *at = stack->text; *at != '\0'; at++)
        if (*at < ' ' || *at == 127)
            *at = '?';
    return TESS_OK;
}

/* Adds a phase from begin_ns to end_ns, and moves *next beyond the operations that began in it. */
static tess_status add_phase(flame *f, const tess_rank_history *rank, int number, const char *phase, uint64_t begin_ns,
                             uint64_t end_ns, size_t *next)
{
    uint64_t at = begin_ns;
    while (*next < rank->n_records && rank->records[*next].enqueued_ns < begin_ns)
        ++*next;
    for (; *next < rank->n_records && rank->records[*next].enqueued_ns < end_ns; ++*next) {
        const tess_record *r = &rank->records[*next];
        uint64_t begin = r->enqueued_ns > at ? r->enqueued_ns : at;
        uint64_t end = r->completed_ns != 0 && r->completed_ns < end_ns ? r->completed_ns : end_ns;
        if (*next + 1 < rank->n_records && rank->records[*next + 1].enqueued_ns < end)
            end = rank->records[*next + 1].enqueued_ns; /* the newest of several has the time */
        if (begin > at)
            TESS_TRY(add(f, number, phase, "compute", "", begin - at));
        if (end > begin)
            TESS_TRY(add(f, number, phase, tess_trace_op_name(r->op), r->what, end - begin));
        at = end > begin ? end : begin;
    }
    return end_ns > at ? add(f, number, phase, "compute", "", end_ns - at) : TESS_OK;
}

static tess_status add_rank(flame *f, const tess_rank_history *rank, int number)
{
    size_t next = 0;
    for (size_t i = 0; i < rank->n_spans; i++) {
        const tess_phase_span *span = &rank->spans[i];
        uint64_t end_ns = i + 1 < rank->n_spans ? rank->spans[i + 1].begin_ns : rank->last_ns;
        if (end_ns > span->begin_ns)
            TESS_TRY(add_phase(f, rank, number, span->phase, span->begin_ns, end_ns, &next));
    }
    return TESS_OK;
}

static tess_status collect(const tess_history *history, flame *f)
{
    for (int r = 0; r < history->world; r++)
        TESS_TRY(add_rank(f, &history->ranks[r], r));
    merge(f);
    f->all_ns = sum(f, 0, f->n);
    TESS_CHECK(f->n > 0, TESS_E_NOT_FOUND, "there are no phases of ranks in what was recorded: no flame graph");
    return TESS_OK;
}

/* ---- Folded stacks ---- */
static tess_status put_folded(const flame *f, tess_buffer *out)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->stacks[i].ns >= 1000)
            TESS_TRY(tess_buffer_printf(out, "%s %" PRIu64 "\n", f->stacks[i].text, f->stacks[i].ns / 1000));
    return TESS_OK;
}

/* ---- A picture ---- */
static tess_status put_escaped(tess_buffer *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *as = text[i] == '<' ? "&lt;" : text[i] == '>' ? "&gt;" : text[i] == '&' ? "&amp;" : NULL;
        TESS_TRY(as != NULL ? tess_buffer_append(out, as, strlen(as)) : tess_buffer_append(out, &text[i], 1));
    }
    return TESS_OK;
}

/* Returns the end of the frame at `depth` in a stack, and its begin. */
static size_t frame_end(const char *text, int depth, size_t *begin)
{
    const char *at = text;
    for (int i = 0; i < depth; i++)
        at = strchr(at, ';') + 1;
    *begin = (size_t)(at - text);
    return *begin + strcspn(at, ";");
}

static tess_status put_frame(tess_buffer *out, const char *name, size_t n, int depth, double x, double width,
                             double seconds, double share)
{
    static const char *const waits = "#d95f3b", *const computes = "#5b8def";
    const bool is_compute = n == 7 && memcmp(name, "compute", 7) == 0;
    const char *color = depth < DEEPEST - 1 ? depth % 2 == 0 ? "#d8d8d8" : "#c0c8d0" : is_compute ? computes : waits;
    int y = MARGIN + 20 + depth * ROW;
    TESS_TRY(tess_buffer_printf(out, "<g><title>"));
    TESS_TRY(put_escaped(out, name, n));
    TESS_TRY(tess_buffer_printf(out,
                                ": %.3g s, %.1f%%</title><rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" "
                                "fill=\"%s\" stroke=\"white\" stroke-width=\"0.5\"/>",
                                seconds, 100 * share, x, y, width, ROW - 1, color));
    if (width > 7.0 * (double)n + 6) {
        TESS_TRY(tess_buffer_printf(out, "<text x=\"%.2f\" y=\"%d\">", x + 3, y + 12));
        TESS_TRY(put_escaped(out, name, n));
        TESS_TRY(tess_buffer_printf(out, "</text>"));
    }
    return tess_buffer_printf(out, "</g>\n");
}

/* Draws the frames at `depth` of the stacks from .. to, which share the frames above. */
static tess_status put_frames(const flame *f, tess_buffer *out, size_t from, size_t to, int depth, double x,
                              double per_ns)
{
    while (from < to) {
        size_t begin, last = from + 1, end = frame_end(f->stacks[from].text, depth, &begin);
        while (last < to && strncmp(f->stacks[last].text, f->stacks[from].text, end) == 0 &&
               (f->stacks[last].text[end] == ';' || f->stacks[last].text[end] == '\0'))
            last++;
        uint64_t ns = sum(f, from, last);
        double width = (double)ns * per_ns;
        TESS_TRY(put_frame(out, f->stacks[from].text + begin, end - begin, depth, x, width, (double)ns * 1e-9,
                           (double)ns / (double)f->all_ns));
        if (depth + 1 < DEEPEST)
            TESS_TRY(put_frames(f, out, from, last, depth + 1, x, per_ns));
        x += width;
        from = last;
    }
    return TESS_OK;
}

static tess_status put_picture(const flame *f, tess_buffer *out)
{
    TESS_TRY(tess_buffer_printf(out,
                                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                                "font-family=\"monospace\" font-size=\"11\">\n"
                                "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
                                "<text x=\"%d\" y=\"20\">time of ranks by phase and operation: %.3g s in all; blue: "
                                "computing, red: an operation is in flight</text>\n",
                                WIDTH + 2 * MARGIN, 3 * MARGIN + 20 + DEEPEST * ROW, MARGIN, (double)f->all_ns * 1e-9));
    TESS_TRY(put_frames(f, out, 0, f->n, 0, MARGIN, (double)WIDTH / (double)f->all_ns));
    return tess_buffer_printf(out, "</svg>\n");
}

tess_status tess_flame_write(const tess_history *history, const char *path)
{
    flame f = {.mem = history->mem};
    TESS_AUTO(tess_buffer_free) tess_buffer out = {.mem = history->mem};
    tess_status status = collect(history, &f);
    if (status == TESS_OK)
        status = tess_text_ends_with(path, ".svg") ? put_picture(&f, &out) : put_folded(&f, &out);
    if (status == TESS_OK)
        status = tess_os_write_atomic(path, out.data != NULL ? out.data : "", out.size);
    tess_mem_free(f.mem, f.stacks);
    return status;
}
