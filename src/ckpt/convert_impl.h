#ifndef TESS_CKPT_CONVERT_IMPL_H
#define TESS_CKPT_CONVERT_IMPL_H

#include "ckpt/convert.h"

/* Everything of a model folder that is not weights, from `in` to the existing folder `out`, config.json last. */
tess_status tess_convert_companions(tess_mem *mem, const char *in, const char *out,
                                    const tess_convert_options *options);

void tess_convert_report(const tess_convert_options *options, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
