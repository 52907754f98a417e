/* Batch invariance: whether what a kernel computes of an item (a row, a sequence, a column, an element) depends on that
 * item alone. Each is computed alone, then in batches of other sizes, at other places, next to other neighbours (among
 * them huge ones, and NaN where the row may meet it), and with other numbers of threads. For the rows of a kernel
 * table, and for a function of the user's. */
#ifndef TESS_VERIFY_INVARIANCE_H
#define TESS_VERIFY_INVARIANCE_H

#include "base/text/text.h"
#include "device/stream.h"

enum { TESS_INVARIANCE_ROWS = 96, TESS_INVARIANCE_ITEMS = 129 };

/* The first change of an item. */
typedef struct tess_invariance_change {
    int item;               /* its number */
    int batch, place;       /* items that were computed together, and its place among them */
    const char *neighbours; /* "the next", "in reverse", "huge", "NaN" */
    int threads;
    const char *output; /* output of the row: "dx" */
    int64_t element;    /* element of it */
    double alone, together;
} tess_invariance_change;

typedef struct tess_invariance_row {
    char name[32], shape[48];     /* "rmsnorm_forward", "bfloat16, C 203" */
    int64_t cases;                /* items that were compared with themselves alone */
    int64_t different;            /* cases whose bits differ, beyond the tolerance */
    double max_abs, mean_abs;     /* over all elements that were compared */
    bool spills;                  /* it wrote outside of its output, or into its input */
    tess_invariance_change first; /* the first change, if different > 0 */
} tess_invariance_row;

typedef struct tess_invariance_result {
    char table[96]; /* the table's name, or FILE: SYMBOL */
    double tolerance;
    int n;
    tess_invariance_row rows[TESS_INVARIANCE_ROWS];
    int64_t cases;
} tess_invariance_result;

/* Whether nothing changed and nothing was written where it should not be. */
bool tess_invariance_holds(const tess_invariance_result *result);

/* All rows of a table, to the bit. threads: the most to compare with. Memory: misc pool, some hundred MiB. note may be
 * NULL. Errors: those of the rows. */
tess_status tess_invariance_check_table(tess_mem *mem, const tess_kernels *kernels, int threads,
                                        void (*note)(void *self, const char *row), void *self,
                                        tess_invariance_result *result);

/* y (rows, width) of x (rows, width), both contiguous; a row of y is to depend on its row of x alone. */
typedef void (*tess_invariance_fn)(const float *x, float *y, int64_t rows, int64_t width);

/* The same for one function, in rows of `width`. A value may differ by `tolerance`; a NaN by none. */
tess_status tess_invariance_check_function(tess_mem *mem, const char *name, tess_invariance_fn function, int64_t width,
                                           double tolerance, tess_invariance_result *result);
/* The function `symbol` of a shared library. TESS_E_NOT_FOUND: no such library or symbol. The library stays loaded. */
tess_status tess_invariance_load(const char *library, const char *symbol, tess_invariance_fn *function);

/* A line a row, what changed, and the conclusion. */
tess_status tess_invariance_print(const tess_invariance_result *result, tess_buffer *out);
/* The same for programs: version 1.*/
tess_status tess_invariance_print_json(const tess_invariance_result *results, int n, tess_buffer *out);

#endif
