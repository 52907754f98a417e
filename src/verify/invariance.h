/* Checks batch invariance: whether the result that a kernel computes for an item (a row, a sequence, a column, an
 * element) depends on that item alone. Each item is computed alone. Then it is computed in batches of other sizes,
 * at other places, with other numbers of threads, and next to other neighbours. Some neighbours are huge, and some
 * are NaN where the kernel allows it. The check covers all rows of a kernel table, or a user's function. */
#ifndef TESS_VERIFY_INVARIANCE_H
#define TESS_VERIFY_INVARIANCE_H

#include "base/report/form.h"
#include "device/stream.h"

enum { TESS_INVARIANCE_ROWS = 128, TESS_INVARIANCE_ITEMS = 129 };

/* The first change of an item that was found. */
typedef struct tess_invariance_change {
    int item;               /* number of the item */
    int batch, place;       /* number of items computed together, and the item's place among them */
    const char *neighbours; /* kind of neighbours: "the next", "in reverse", "huge", "NaN" */
    int threads;
    const char *output; /* output of the kernel: "dx" */
    int64_t element;    /* index of the element in that output */
    double alone, together;
} tess_invariance_change;

typedef struct tess_invariance_row {
    char name[32], shape[48];     /* kernel and shape: "rmsnorm_forward", "bfloat16, 203 elements" */
    int64_t cases;                /* number of items compared with their result alone */
    int64_t different;            /* number of cases whose bits differ by more than the tolerance */
    double max_abs, mean_abs;     /* differences over all compared elements */
    bool spills;                  /* it wrote outside of its output, or to its input */
    tess_invariance_change first; /* first change, if different > 0 */
} tess_invariance_row;

typedef struct tess_invariance_result {
    char table[96]; /* name of the kernel table, or FILE: SYMBOL */
    double tolerance;
    int n;
    tess_invariance_row rows[TESS_INVARIANCE_ROWS];
    int64_t cases;
} tess_invariance_result;

/* Whether no result changed, and no memory was written by mistake. */
bool tess_invariance_holds(const tess_invariance_result *result);

/* Checks all rows of a table; bits must be equal. threads: largest number of threads to compare with. Uses some
 * hundred MiB of the misc pool. note may be NULL. Returns the errors of the rows. */
tess_status tess_invariance_check_table(tess_mem *mem, const tess_kernels *kernels, int threads,
                                        void (*note)(void *self, const char *row), void *self,
                                        tess_invariance_result *result);

/* A function that computes y (rows, width) from x (rows, width), both contiguous. A row of y must depend only on the
 * same row of x. */
typedef void (*tess_invariance_fn)(const float *x, float *y, int64_t rows, int64_t width);

/* Does the same for one function, with rows of `width`. Values may differ by `tolerance`, but a NaN must stay a NaN. */
tess_status tess_invariance_check_function(tess_mem *mem, const char *name, tess_invariance_fn function, int64_t width,
                                           double tolerance, tess_invariance_result *result);
/* Loads the function `symbol` of a shared library, which stays loaded. TESS_E_NOT_FOUND: there is no such library or
 * symbol. */
tess_status tess_invariance_load(const char *library, const char *symbol, tess_invariance_fn *function);

/* Prints, for each result, one line per row, what changed, and the conclusion. JSON: version 1. */
tess_status tess_invariance_print(const tess_invariance_result *results, int n, tess_form_style style,
                                  tess_buffer *out);

#endif
