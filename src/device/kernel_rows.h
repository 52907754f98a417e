/* Descriptions of the rows of a kernel table: which memory a call reads and writes, which of its sizes counts items
 * that do not depend on each other, and how much it computes. They are lines of the list in kernel_args.h. Code that
 * does something to every row reads them instead of naming rows: the far device copies and moves arguments, float16 is
 * widened (widen.c), the dry device counts bytes and operations, tests, the invariance check and the benches make
 * operands. */
#ifndef TESS_DEVICE_KERNEL_ROWS_H
#define TESS_DEVICE_KERNEL_ROWS_H

#include <stddef.h>

#include "device/kernels.h"

#define TESS_KERNEL_ROW_ID(name, ...) TESS_ROW_##name,
typedef enum tess_kernel_row_id { TESS_KERNEL_ROWS(TESS_KERNEL_ROW_ID) TESS_KERNEL_ROW_COUNT } tess_kernel_row_id;
#undef TESS_KERNEL_ROW_ID

/* A member of a row's arguments: its offset + 1, so that 0 means that there is none. */
typedef uint16_t tess_member;
#define TESS_MEMBER(type, name) ((tess_member)(offsetof(type, name) + 1))

enum { TESS_SIZE_FACTORS = 3, TESS_ITEM_POINTERS = 11 };

/* A size: the product of members of type int64_t and of `times`, divided by `over`. A 0 means 1. Without members the
 * size is `times`. */
typedef struct tess_kernel_size {
    tess_member of[TESS_SIZE_FACTORS];
    int64_t times, over;
} tess_kernel_size;

typedef enum tess_access {
    TESS_READS = 1,
    TESS_WRITES = 2,
    TESS_UPDATES = TESS_READS | TESS_WRITES,
    TESS_HOST_ONLY = 4, /* memory of the host, which no other device may be given */
    TESS_WORKS = 8      /* work space, whose contents do not matter */
} tess_access;

/* Memory that a pointer among the arguments points to: a matrix of rows x columns elements. */
typedef struct tess_operand {
    const char *name;
    tess_member at; /* the pointer */
    tess_access access;
    tess_member dtype_of; /* a member of type tess_dtype; 0: the elements have `dtype` */
    tess_dtype dtype;     /* TESS_U8 with columns of several bytes stands for elements of another type */
    tess_kernel_size rows, columns;
    tess_member stride; /* elements from one row to the next; 0: rows are contiguous */
    bool gathered;      /* rows are chosen by indices: `rows` counts the chosen ones, and memory may have more */
    bool positive;      /* values are not negative */
    /* Indices are below this size. Without members: they choose rows of the gathered operands. */
    tess_kernel_size below;
} tess_operand;

/* A pointer of an item of a list, and the memory that it points to. */
typedef struct tess_item_pointer {
    tess_member at;
    tess_access access;
} tess_item_pointer;

/* An array of the host that a pointer among the arguments points to. Its items may hold pointers to the device's
 * memory, and a pointer to a further array of plain values. */
typedef struct tess_operand_list {
    const char *name;
    tess_member at; /* the pointer to the array */
    int64_t (*count)(const void *args);
    size_t item_bytes;
    tess_item_pointer pointers[TESS_ITEM_POINTERS]; /* ends with a member of 0, if there are fewer */
    struct {
        tess_member at; /* 0: there is no further array */
        int64_t (*count)(const void *item);
        size_t item_bytes;
    } inner;
} tess_operand_list;

typedef struct tess_kernel_work {
    double bytes; /* read and written in memory, each operand once */
    double flops; /* operations on floats; a multiplication and an addition are two */
} tess_kernel_work;

typedef struct tess_kernel_row {
    const char *name;
    size_t args_bytes;
    tess_status (*call)(const tess_kernels *table, tess_stream *s, const void *args);
    const tess_operand *operands;
    int n_operands;
    const tess_operand_list *lists;
    int n_lists;
    /* The size that counts items. Every item of a call gives the same bits as alone. 0: there is no such size, because
     * the result depends on all elements. */
    tess_member items;
    /* The member of type tess_dtype with the dtype of the call, which decides how it computes. 0: there is none. */
    tess_member dtype_of;
    double flops; /* operations for each element of the first operand */
    /* Computes what a call moves and computes. NULL: the sum over operands, and `flops`. */
    void (*work)(const void *args, tess_kernel_work *work);
    const void *example; /* arguments of one item, without memory */
    /* Returns a number for what changes a call's speed in addition to its sizes and dtypes: transposed operands,
     * further steps. NULL: 0. */
    int32_t (*variant)(const void *args);
} tess_kernel_row;

const tess_kernel_row *tess_kernel_row_of(tess_kernel_row_id id);
/* Whether the list gives an example. Rows with lists have none. */
bool tess_kernel_has_example(const tess_kernel_row *row);

/* Room for the arguments of any row. */
#define TESS_KERNEL_ARGS_OF(name, type, ...) type name;
typedef union tess_kernel_args {
    TESS_KERNEL_ROWS(TESS_KERNEL_ARGS_OF)
} tess_kernel_args;
#undef TESS_KERNEL_ARGS_OF

int64_t tess_kernel_size_of(const void *args, tess_kernel_size size);
/* These set a member. */
void tess_kernel_set_size(void *args, tess_member at, int64_t size);
void tess_kernel_set_dtype(void *args, tess_member at, tess_dtype dtype);
/* Returns the pointer of an operand, which may be NULL. */
void *tess_operand_pointer(const void *args, tess_member at);
void tess_operand_point(void *args, tess_member at, const void *memory);
tess_dtype tess_operand_dtype(const void *args, const tess_operand *operand);
/* Returns the elements of an operand, without those between rows. */
int64_t tess_operand_elements(const void *args, const tess_operand *operand);
/* Returns the elements from one row to the next. */
int64_t tess_operand_stride(const void *args, const tess_operand *operand);

/* Returns the number that indices are below. `rows`: number of rows of the gathered operands. */
int64_t tess_operand_below(const void *args, const tess_operand *operand, int64_t rows);

tess_kernel_work tess_kernel_work_of(const tess_kernel_row *row, const void *args);

/* Returns the bytes of a copy of args together with its lists. */
size_t tess_kernel_args_bytes(const tess_kernel_row *row, const void *args);
/* Copies args and its lists to `to`, of tess_kernel_args_bytes, aligned to 16. Pointers to lists point into the copy.
 * Every other pointer that is not NULL is replaced by what `move` returns. */
typedef void *(*tess_move_fn)(void *self, const void *pointer, tess_access access);
void tess_kernel_args_copy(const tess_kernel_row *row, const void *args, tess_move_fn move, void *self, void *to);

#endif
