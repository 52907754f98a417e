/* Reads the order of a schedule's computations from CSV, as torchtitan's pipeline_parallel_schedule_csv has it: a row
 * for each rank, a cell for each computation, such as 0F3 (stage 0, forward, micro-batch 3). The operations are F, B
 * (the whole backward), I (backward of inputs) and W (backward of weights); empty cells are idle time. Cells may have
 * quotes, and blank lines are no rows. Messages are added later. */
#include <ctype.h>
#include <string.h>

#include "parallel/pipeline/pipeline_orders_impl.h"

enum { CELL_TEXT = 24 };

/* The place of a cell, which messages name. */
typedef struct csv_cell {
    const char *name; /* name of the file */
    int row, column;  /* both from 1; blank lines are not counted */
    char text[CELL_TEXT];
} csv_cell;

#define REFUSE(cell, format, ...)                                                                                      \
    return TESS_FAIL(TESS_E_INVALID, "%s: row %d, cell %d ('%s'): " format, (cell)->name, (cell)->row, (cell)->column, \
                     (cell)->text, __VA_ARGS__)

/* Reads a number of up to 7 digits. Returns -1 if there is none. */
static int read_number(const char **text)
{
    int n = 0, digits = 0;
    for (; isdigit((unsigned char)**text); (*text)++, digits++)
        n = digits < 7 ? 10 * n + (**text - '0') : n;
    return digits >= 1 && digits <= 7 ? n : -1;
}

static tess_status parse_cell(const csv_cell *cell, int *stage, tess_pipeline_op *op, int *micro)
{
    static const struct {
        char letter;
        tess_pipeline_op op;
    } ops[] = {{'F', TESS_PIPELINE_F}, {'B', TESS_PIPELINE_B}, {'I', TESS_PIPELINE_BI}, {'W', TESS_PIPELINE_BW}};
    const char *text = cell->text;
    *stage = read_number(&text);
    size_t i = 0;
    while (i < 4 && ops[i].letter != *text)
        i++;
    if (*stage >= 0 && i < 4) {
        text++;
        *op = ops[i].op;
        *micro = read_number(&text);
        if (*micro >= 0 && *text == '\0')
            return TESS_OK;
    }
    REFUSE(cell, "write %s", "a stage, one of F, B, I and W, and a micro-batch, as in 0F3; messages are left out");
}

/* Appends the cell's computation. A stage's computations of one kind must follow the numbers of micro-batches: its
 * gradients are summed in that order. */
static tess_status take_cell(const csv_cell *cell, int rank, pipeline_order *o)
{
    const tess_pipeline_schedule *s = o->schedule;
    tess_pipeline_action action = {0};
    int stage;
    TESS_TRY(parse_cell(cell, &stage, &action.op, &action.micro));
    if (stage >= s->ranks * s->chunks)
        REFUSE(cell, "there are %d stages", s->ranks * s->chunks);
    if (tess_pipeline_rank_of(s, stage) != rank)
        REFUSE(cell, "stage %d belongs to rank %d (%s), and this row is rank %d's", stage,
               tess_pipeline_rank_of(s, stage), tess_pipeline_kind_name(s->kind), rank);
    if (action.micro >= s->micros)
        REFUSE(cell, "a step has %d micro-batches a rank", s->micros);
    action.chunk = tess_pipeline_chunk_of(s, stage);
    const bool whole = action.op == TESS_PIPELINE_B; /* it is BI and BW at once */
    const tess_pipeline_op kind = whole ? TESS_PIPELINE_BI : action.op;
    int *next = &o->next[kind][action.chunk], *next_weights = &o->next[TESS_PIPELINE_BW][action.chunk];
    if (action.micro != *next || (whole && action.micro != *next_weights))
        REFUSE(cell, "micro-batches keep their order: %d is the next one here",
               action.micro != *next ? *next : *next_weights);
    ++*next;
    *next_weights += whole;
    action.cell = cell->column;
    o->actions[o->n++] = action;
    return TESS_OK;
}

/* Copies the next cell of the line, without spaces and quotes. Returns the place after it. */
static const char *next_cell(const char *at, const char *end, csv_cell *cell)
{
    size_t n = 0;
    cell->column++;
    for (; at < end && *at != ','; at++)
        if (!isspace((unsigned char)*at) && *at != '"' && n + 1 < CELL_TEXT)
            cell->text[n++] = *at;
    cell->text[n] = '\0';
    return at < end ? at + 1 : end;
}

/* Reads the row of `rank`, from `at` up to `end`. */
static tess_status read_row(const char *name, const char *at, const char *end, int rank, pipeline_order *o)
{
    csv_cell cell = {.name = name, .row = rank + 1};
    while (at < end) {
        at = next_cell(at, end, &cell);
        if (cell.text[0] != '\0')
            TESS_TRY(take_cell(&cell, rank, o));
    }
    for (int chunk = 0; chunk < o->schedule->chunks; chunk++)
        for (int op = TESS_PIPELINE_F; op <= TESS_PIPELINE_BW; op++)
            TESS_CHECK(op == TESS_PIPELINE_B || o->next[op][chunk] == o->schedule->micros, TESS_E_INVALID,
                       "%s: row %d: stage %d has %d of %d micro-batches in %s", name, rank + 1,
                       tess_pipeline_stage(o->schedule, rank, chunk), o->next[op][chunk], o->schedule->micros,
                       op == TESS_PIPELINE_F    ? "F"
                       : op == TESS_PIPELINE_BI ? "B or I"
                                                : "B or W");
    return TESS_OK;
}

const char *pipeline_csv_next(const pipeline_csv *csv, const char **at)
{
    const char *all = csv->text + csv->size, *row = NULL;
    while (row == NULL && *at < all) {
        const char *begin = *at, *end = memchr(begin, '\n', (size_t)(all - begin));
        *at = end != NULL ? end + 1 : all;
        for (const char *c = begin; c < *at; c++)
            row = isspace((unsigned char)*c) || *c == ',' || *c == '"' ? row : begin;
    }
    return row;
}

tess_status pipeline_csv_row(const pipeline_csv *csv, int rank, pipeline_order *o)
{
    const char *at = csv->text, *begin = pipeline_csv_next(csv, &at);
    for (int row = 0; row < rank && begin != NULL; row++)
        begin = pipeline_csv_next(csv, &at);
    if (begin != NULL)
        return read_row(csv->name, begin, at, rank, o);
    return TESS_FAIL(TESS_E_INVALID, "%s: there is no row for rank %d: a schedule of %d ranks has %d rows", csv->name,
                     rank, o->schedule->ranks, o->schedule->ranks);
}
