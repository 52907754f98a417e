/* What stands beside a model's weights: taken from a folder that is named, or found where jobs leave it. */
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "ckpt/convert_impl.h"
#include "ckpt/formats/formats.h"
#include "ckpt/store/tensor.h"
#include "ckpt/tools/rewrite_impl.h"

enum { LEVELS = 4 }; /* "job/checkpoint/step-00000012": the job's folder is two above */

/* The source's folder and those above it, each with its "model" folder: where a job leaves its model. */
static bool find(const rewriting *r, char folder[TESS_REWRITE_PATH])
{
    char above[TESS_REWRITE_PATH], next[TESS_REWRITE_PATH];
    char *slash = snprintf(above, sizeof(above), "%s", r->in) > 0 ? strrchr(above, '/') : NULL;
    if (tess_os_is_file(r->in))
        snprintf(slash != NULL ? slash : above, 2, "%s", slash != NULL ? "" : ".");
    for (int level = 0; level < LEVELS; level++) {
        bool fits = tess_os_join(folder, TESS_REWRITE_PATH, above, "model") == TESS_OK;
        if (fits && tess_folder_holds(folder, "config.json"))
            return true;
        snprintf(folder, TESS_REWRITE_PATH, "%s", above);
        if (tess_folder_holds(folder, "config.json"))
            return true;
        if (tess_os_join(next, sizeof(next), above, "..") != TESS_OK || !tess_os_is_dir(next))
            break;
        snprintf(above, sizeof(above), "%s", next);
    }
    tess_error_clear();
    return false;
}

/* That of the weights, when floating-point tensors are all of one. */
static const tess_dtype *weights_dtype(const tess_export *e)
{
    static const tess_dtype dtypes[] = {TESS_F32, TESS_BF16, TESS_F16};
    for (size_t k = 0; k < sizeof(dtypes) / sizeof(dtypes[0]); k++) {
        bool all = e->n_tensors > 0;
        for (int i = 0; i < e->n_tensors && all; i++)
            all = e->tensors[i].dtype[0] == 'I' || strcmp(e->tensors[i].dtype, tess_store_dtype_text(dtypes[k])) == 0;
        if (all)
            return &dtypes[k];
    }
    return NULL;
}

tess_status rewrite_assets(rewriting *r, const char *folder)
{
    char source[TESS_REWRITE_PATH];
    const tess_rewrite_options *o = r->options;
    const tess_convert_options options = {.dtype = weights_dtype(r->export), .report = o->report, .context = o->self};
    if (o->assets != NULL) {
        TESS_CHECK(tess_folder_holds(o->assets, "config.json"), TESS_E_NOT_FOUND, "%s: there is no config.json in it",
                   o->assets);
        snprintf(source, sizeof(source), "%s", o->assets);
    } else if (!find(r, source)) {
        tess_convert_report(&options,
                            "no config.json beside %s or above it: the new folder holds weights alone; "
                            "--assets FOLDER says where configuration and tokenizer are",
                            r->in);
        return TESS_OK;
    }
    return tess_convert_companions(r->mem, source, folder, &options);
}
