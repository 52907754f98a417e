#include "train/exclude.h"

#include <fnmatch.h>
#include <string.h>

bool tess_excludes(const tess_text_list *patterns, const char *word)
{
    for (int i = 0; i < patterns->n; i++)
        if (strcmp(patterns->item[i], word) == 0)
            return true;
    return false;
}

/* "optimizer" stands for "optimizer.*". */
static bool fits(const char *pattern, const char *name)
{
    size_t n = strlen(pattern);
    return fnmatch(pattern, name, 0) == 0 || (strncmp(pattern, name, n) == 0 && name[n] == '.');
}

static bool fits_tensor(const char *pattern, const tess_ckpt_tensor *tensor)
{
    char name[TESS_STORE_NAME];
    tess_store_tensor_name(tensor->kind, tensor->name, name);
    return fits(pattern, name) || fits(pattern, tensor->name);
}

bool tess_excludes_tensor(const tess_text_list *patterns, const tess_ckpt_tensor *tensor)
{
    for (int i = 0; i < patterns->n; i++)
        if (fits_tensor(patterns->item[i], tensor))
            return true;
    return false;
}

int tess_exclude_tensors(const tess_text_list *patterns, tess_ckpt_tensor *tensors, int n)
{
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (!tess_excludes_tensor(patterns, &tensors[i]))
            tensors[kept++] = tensors[i];
    return kept;
}

tess_status tess_exclude_check(const tess_text_list *patterns, const tess_ckpt_tensor *tensors, int n)
{
    for (int i = 0; i < patterns->n; i++) {
        const char *pattern = patterns->item[i];
        bool known = strcmp(pattern, "data") == 0 || strcmp(pattern, "lr_scheduler") == 0;
        for (int k = 0; k < n && !known; k++)
            known = fits_tensor(pattern, &tensors[k]);
        TESS_CHECK(known, TESS_E_INVALID,
                   "checkpoint.exclude_from_loading: '%s' is none of optimizer, lr_scheduler and data, and fits no "
                   "tensor of the model (its first is '%s')",
                   pattern, n > 0 ? tensors[0].name : "");
    }
    return TESS_OK;
}
