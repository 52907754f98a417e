/* Wire forms: how rows of float32 travel between ranks. Each parameter is gathered in one form, and gradients are
 * reduced in one. A new form is a row of the table in wire_form.c. */
#ifndef TESS_PARALLEL_FSDP_WIRE_FORM_H
#define TESS_PARALLEL_FSDP_WIRE_FORM_H

#include "device/stream.h"

typedef struct tess_wire_form tess_wire_form;
struct tess_wire_form {
    const char *name;
    int codes;        /* tess_param_desc.codes, a number of training.gather's choices; 0: the form has values */
    tess_dtype reads; /* type of the values that a reader gets */
    tess_dtype moves; /* type of the elements that collectives move; TESS_U8 if they are no values */
    size_t (*row_bytes)(const tess_wire_form *form, int64_t row); /* bytes of a row of `row` elements */
    /* Writes n rows in this form. */
    tess_status (*encode)(const tess_wire_form *form, tess_stream *stream, const float *rows, int64_t n, int64_t row,
                          void *to);
    /* Reads n rows of codes to values of `reads`. NULL: the form has values. */
    tess_status (*decode)(tess_stream *stream, const void *rows, int64_t n, int64_t row, tess_dtype reads, void *to);
    /* Reads runs of elements of this form: sum = them, or sum += them. NULL: the form is not for gradients. */
    tess_status (*sum)(const tess_wire_form *form, tess_stream *stream, const void *from, const tess_reduce_run *runs,
                       int64_t n_runs, bool accumulate, float *sum);
    /* Returns the number in the row of an element that moved element `at` stands for; NULL: `at` itself. */
    int64_t (*element)(int64_t row, int64_t at);
};

/* Returns the form in which values of `dtype` travel as these codes. NULL: there is none. */
const tess_wire_form *tess_wire_form_of(tess_dtype dtype, int codes);

/* Whether the elements that move are the values that are read. */
static inline bool tess_wire_form_is_plain(const tess_wire_form *form)
{
    return form->codes == 0;
}

#endif
