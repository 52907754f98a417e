/* The check's view of a row of a kernel table: input fields, output fields, and a call that computes some items of a
 * pool. */
#ifndef TESS_VERIFY_INVARIANCE_IMPL_H
#define TESS_VERIFY_INVARIANCE_IMPL_H

#include "device/kernel_rows.h"
#include "verify/invariance.h"

/* TABLE: rows of a table from which items choose some */
enum { INVARIANCE_FIELDS = 6, INVARIANCE_CONSTANTS = 4, INVARIANCE_TABLE = 97 };

/* A field with `size` contiguous elements per item, item after item. size 0: there is no such field. */
typedef struct invariance_field {
    const char *name;
    int64_t size;
    tess_dtype dtype; /* F32, BF16, I32 (indices), or U8: bytes of another type */
    bool own;         /* the field has the case's dtype instead of `dtype` */
    bool positive;
    int64_t below;  /* indices are below it */
    tess_member at; /* the operand of a case from a description */
} invariance_field;

/* Fields with the case's dtype, and fields of float32. */
#define OWN(name_, size_)                         \
    {                                             \
        .name = name_, .size = size_, .own = true \
    }
#define FLOATS(name_, size_)                            \
    {                                                   \
        .name = name_, .size = size_, .dtype = TESS_F32 \
    }

/* Some items that are computed together: in[f] and out[f] (n, size). consts[i] is the same in every call. */
typedef struct invariance_call {
    tess_mem *mem;
    tess_stream *stream;
    const tess_kernels *kernels;
    int64_t n;
    const int *item; /* (n) numbers of the items */
    void *in[INVARIANCE_FIELDS], *out[INVARIANCE_FIELDS];
    void *consts[INVARIANCE_CONSTANTS];
    const struct invariance_case *of;
} invariance_call;

typedef struct invariance_case {
    const char *name, *shape;
    bool both; /* the case exists for float32 and for bfloat16 */
    tess_dtype dtype;
    invariance_field in[INVARIANCE_FIELDS], out[INVARIANCE_FIELDS];
    invariance_field consts[INVARIANCE_CONSTANTS]; /* weights and similar inputs, which all items share */
    bool heavy;                                    /* the case is large, so fewer batches are tried */
    bool numbered;  /* the result depends on an item's number, not its fields: neighbours only have other numbers */
    int64_t arg[4]; /* arguments that belong to the case */
    tess_status (*run)(const invariance_call *call);
    tess_invariance_fn function;
    /* These are for invariance_run_row. The arguments are those of one item, and fields follow from the row. */
    tess_kernel_args args;
    const tess_kernel_row *row;
} invariance_case;

typedef struct invariance_list {
    const invariance_case *cases;
    int n;
} invariance_list;

/* Calls the case's row with its arguments. */
tess_status invariance_run_row(const invariance_call *call);
/* Makes the case of a row's example, whose shape is written to `shape`. Returns whether the row has one. */
bool invariance_example(const tess_kernel_row *row, invariance_case *c, char *shape, size_t size);
/* Fills in the fields and strides of a case from a description, whose dtype is known. */
tess_status invariance_describe(invariance_case *c);

/* defined in invariance_rows.c and invariance_products.c */
invariance_list invariance_row_cases(void);
invariance_list invariance_product_cases(void);

#endif
