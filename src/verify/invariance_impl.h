/* The check's view of a row of a table: fields that go in, fields that come out, and a call on some items of a pool.
 */
#ifndef TESS_VERIFY_INVARIANCE_IMPL_H
#define TESS_VERIFY_INVARIANCE_IMPL_H

#include "verify/invariance.h"

enum { INVARIANCE_FIELDS = 5, INVARIANCE_CONSTANTS = 3 };

/* `size` elements of each item, contiguous, items one after the other. size 0: there is no such field. */
typedef struct invariance_field {
    const char *name;
    int64_t size;
    tess_dtype dtype; /* F32, BF16, I32 (whose values the case's `index` gives), or U8: bytes of another type */
    bool own;         /* the case's dtype, instead of `dtype` */
    bool positive;
} invariance_field;

/* Fields of the case's own dtype, and of float32. */
#define OWN(name_, size_)                         \
    {                                             \
        .name = name_, .size = size_, .own = true \
    }
#define FLOATS(name_, size_)                            \
    {                                                   \
        .name = name_, .size = size_, .dtype = TESS_F32 \
    }

/* Some items together: in[f] and out[f] (n, size), consts[i] the same in every call. */
typedef struct invariance_call {
    tess_mem *mem;
    tess_stream *stream;
    const tess_kernels *kernels;
    int64_t n;
    const int *item; /* (n) their numbers */
    void *in[INVARIANCE_FIELDS], *out[INVARIANCE_FIELDS];
    void *consts[INVARIANCE_CONSTANTS];
    const struct invariance_case *of;
} invariance_call;

typedef struct invariance_case {
    const char *name, *shape;
    bool both; /* it is made of float32, and of bfloat16 */
    tess_dtype dtype;
    invariance_field in[INVARIANCE_FIELDS], out[INVARIANCE_FIELDS];
    invariance_field consts[INVARIANCE_CONSTANTS]; /* weights and the like: one of each */
    bool finite;                                   /* a NaN may reach others: its neighbours have none */
    bool heavy;                                    /* large: fewer batches */
    bool numbered;  /* an item is what its number says, not what its fields say: neighbours are other numbers alone */
    int64_t arg[4]; /* the case's own */
    int32_t (*index)(const struct invariance_case *of, int item, int64_t element); /* values of I32 fields */
    tess_status (*run)(const invariance_call *call);
    tess_invariance_fn function;
} invariance_case;

typedef struct invariance_list {
    const invariance_case *cases;
    int n;
} invariance_list;

/* invariance_rows.c, invariance_products.c */
invariance_list invariance_row_cases(void);
invariance_list invariance_product_cases(void);

#endif
