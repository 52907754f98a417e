/* Expands names of files and folders into a list of log files. */
#ifndef TESS_DOCTOR_LOG_LOG_FILES_H
#define TESS_DOCTOR_LOG_LOG_FILES_H

#include "tessera/memory.h"

enum { LOG_MOST_FILES = 1 << 17 };

typedef struct tess_log_files {
    tess_mem *mem;
    char **paths;
    int n;
} tess_log_files;

/* Names of files, and "-", are kept. A folder stands for the text files in it and its subfolders, sorted by name.
 * Hidden files, programs, configurations and tables (*.py, *.json, *.csv, ...) are left out. Free with
 * tess_log_files_free, also after a failure. TESS_E_NOT_FOUND: a folder holds no log; TESS_E_INVALID: there are too
 * many. */
tess_status tess_log_files_find(tess_mem *mem, char *const *names, int n, tess_log_files *files);
void tess_log_files_free(tess_log_files *files);

#endif
