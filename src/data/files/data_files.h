/* The files of a run's data: the paths that the entries of data.files stand for, and the weights of the entries in
 * the mixture. */
#ifndef TESS_DATA_FILES_DATA_FILES_H
#define TESS_DATA_FILES_DATA_FILES_H

#include "data/files/data_section.h"

/* The paths of all entries, in the order of the entries. */
typedef struct tess_data_files {
    tess_mem *mem;
    char **paths; /* (n) paths, then NULL */
    size_t n, capacity;
    int counts[TESS_LIST_SIZE]; /* number of paths of each entry */
} tess_data_files;

/* Lists the files. An entry is a path, or a shell pattern for files, which are listed in the order of their names.
 * TESS_E_NOT_FOUND: no file matches a pattern. After a failure, too, *files must be closed. */
tess_status tess_data_files_open(tess_mem *mem, const tess_text_list *list, tess_data_files *files);
void tess_data_files_close(tess_data_files *files);

/* Converts data.weights to millionths, in weights (TESS_LIST_SIZE). TESS_E_INVALID: one is not a number from 1e-6 to
 * 1e6, or their number is neither 0 nor the number of entries in data.files. */
tess_status tess_data_weights(const tess_data_section *data, int64_t *weights);

/* TESS_E_INVALID: there are no files, or the weights are invalid. */
tess_status tess_data_check(const tess_data_section *data);

#endif
