/* The files of a run's data: what the entries of data.files name, and how they are mixed. */
#ifndef TESS_DATA_FILES_DATA_FILES_H
#define TESS_DATA_FILES_DATA_FILES_H

#include "data/files/data_section.h"

/* Paths of the entries, one after the other. */
typedef struct tess_data_files {
    tess_mem *mem;
    char **paths; /* NULL after the last */
    size_t n, capacity;
    int counts[TESS_LIST_SIZE]; /* paths of each entry */
} tess_data_files;

/* An entry is a path, or a pattern as of a shell: then its files in the order of their names. TESS_E_NOT_FOUND: a
 * pattern that no file matches. Close it after a failure, too. */
tess_status tess_data_files_open(tess_mem *mem, const tess_text_list *list, tess_data_files *files);
void tess_data_files_close(tess_data_files *files);

/* weights (TESS_LIST_SIZE): data.weights in millionths. TESS_E_INVALID: one is no number from 1e-6 to 1e6, or there are
 * more or fewer than entries in data.files. None are fine. */
tess_status tess_data_weights(const tess_data_section *data, int64_t *weights);

/* TESS_E_INVALID: no files, or weights that do not fit them. */
tess_status tess_data_check(const tess_data_section *data);

#endif
