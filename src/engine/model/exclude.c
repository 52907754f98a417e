#include "engine/model/exclude.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

bool tess_excludes(const tess_text_list *patterns, const char *word)
{
    for (int i = 0; i < patterns->n; i++)
        if (strcmp(patterns->item[i], word) == 0)
            return true;
    return false;
}

bool tess_matches_name(const char *pattern, const char *name)
{
    char below[TESS_TEXT_SIZE + 2];
    snprintf(below, sizeof(below), "%s.*", pattern);
    return fnmatch(pattern, name, 0) == 0 || fnmatch(below, name, 0) == 0;
}

static bool matches(const char *pattern, const tess_ckpt_tensor *tensor)
{
    char name[TESS_STORE_NAME];
    tess_store_tensor_name(tensor->state, tensor->name, name);
    return tess_matches_name(pattern, name) || tess_matches_name(pattern, tensor->name);
}

tess_status tess_exclude_tensors(const tess_text_list *patterns, tess_ckpt_tensor *tensors, int *n)
{
    for (int i = 0; i < patterns->n; i++) {
        const char *pattern = patterns->item[i];
        bool known = strcmp(pattern, "data") == 0 || strcmp(pattern, "lr_scheduler") == 0;
        for (int k = 0; k < *n && !known; k++)
            known = matches(pattern, &tensors[k]);
        TESS_CHECK(known, TESS_E_INVALID,
                   "checkpoint.exclude_from_loading: '%s' is none of optimizer, lr_scheduler and data, and fits no "
                   "tensor of the model (its first is '%s')",
                   pattern, *n > 0 ? tensors[0].name : "");
    }
    int n_left = 0;
    for (int k = 0; k < *n; k++) {
        bool excluded = false;
        for (int i = 0; i < patterns->n && !excluded; i++)
            excluded = matches(patterns->item[i], &tensors[k]);
        if (!excluded)
            tensors[n_left++] = tensors[k];
    }
    *n = n_left;
    return TESS_OK;
}
