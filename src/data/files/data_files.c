#include "data/files/data_files.h"

#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem/make_room.h"
#include "base/mem/scoped.h"

static tess_status add_path(tess_data_files *files, const char *path)
{
    size_t size = strlen(path) + 1;
    void *copy;
    TESS_TRY(tess_mem_reserve(files->mem, TESS_POOL_MISC, files->n + 2, sizeof(char *), "data files", &files->capacity,
                              &files->paths));
    TESS_TRY(tess_mem_alloc(files->mem, TESS_POOL_MISC, size, "data files", &copy));
    memcpy(copy, path, size);
    files->paths[files->n++] = copy;
    files->paths[files->n] = NULL;
    return TESS_OK;
}

static tess_status add_matches(tess_data_files *files, const char *pattern, int *n)
{
    TESS_AUTO(globfree) glob_t matches = {0};
    int failed = glob(pattern, 0, NULL, &matches);
    TESS_CHECK(failed == 0, failed == GLOB_NOSPACE ? TESS_E_NOMEM : TESS_E_NOT_FOUND, "no file matches %s", pattern);
    for (size_t i = 0; i < matches.gl_pathc; i++)
        TESS_TRY(add_path(files, matches.gl_pathv[i]));
    *n = (int)matches.gl_pathc;
    return TESS_OK;
}

tess_status tess_data_files_open(tess_mem *mem, const tess_text_list *list, tess_data_files *files)
{
    *files = (tess_data_files){.mem = mem};
    for (int i = 0; i < list->n; i++) {
        files->counts[i] = 1;
        TESS_TRY(strpbrk(list->item[i], "*?[") != NULL ? add_matches(files, list->item[i], &files->counts[i])
                                                       : add_path(files, list->item[i]));
    }
    return TESS_OK;
}

void tess_data_files_close(tess_data_files *files)
{
    for (size_t i = 0; i < files->n; i++)
        tess_mem_free(files->mem, files->paths[i]);
    tess_mem_free(files->mem, files->paths);
    *files = (tess_data_files){0};
}

tess_status tess_data_weights(const tess_data_section *data, int64_t *weights)
{
    const tess_text_list *list = &data->weights;
    TESS_CHECK(list->n == 0 || list->n == data->files.n, TESS_E_INVALID,
               "data.weights: %d weights for the %d entries of data.files: give one for each", list->n, data->files.n);
    for (int i = 0; i < list->n; i++) {
        char *end;
        double weight = strtod(list->item[i], &end);
        TESS_CHECK(end != list->item[i] && *end == '\0' && weight >= 1e-6 && weight <= 1e6, TESS_E_INVALID,
                   "data.weights: '%s' is no number from 1e-6 to 1e6", list->item[i]);
        weights[i] = llround(weight * 1e6);
    }
    return TESS_OK;
}

tess_status tess_data_check(const tess_data_section *data)
{
    int64_t weights[TESS_LIST_SIZE];
    TESS_CHECK(data->files.n > 0, TESS_E_INVALID, "data.files: name at least one file to train on");
    return tess_data_weights(data, weights);
}
