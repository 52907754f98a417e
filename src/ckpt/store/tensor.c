#include "ckpt/store/tensor.h"

#include <stdio.h>

#include "ckpt/store/store_impl.h"

void tess_store_tensor_name(tess_ckpt_kind kind, const char *parameter, char name[TESS_STORE_NAME])
{
    static const char *const prefixes[] = {"model.", "optimizer.", "optimizer."};
    static const char *const suffixes[] = {"", ".exp_avg", ".exp_avg_sq"};
    snprintf(name, TESS_STORE_NAME, "%s%s%s", prefixes[kind], parameter, suffixes[kind]);
}

const char *tess_store_dtype_text(tess_dtype dtype)
{
    return dtype == TESS_F32 ? "F32" : dtype == TESS_BF16 ? "BF16" : NULL;
}
