/* The log files that are meant by names of files and of folders. */
#ifndef TESS_DOCTOR_LOG_LOG_FILES_H
#define TESS_DOCTOR_LOG_LOG_FILES_H

#include "tessera/memory.h"

enum { LOG_MOST_FILES = 1 << 17 };

typedef struct tess_log_files {
    tess_mem *mem;
    char **paths;
    int n;
} tess_log_files;

/* Files stay as they are named, "-" too. A folder stands for the text files below it, by name; hidden ones, programs,
 * configurations and tables (*.py, *.json, *.csv, ...) are left out. TESS_E_NOT_FOUND: a folder holds none;
 * TESS_E_INVALID: too many. Free with tess_log_files_free, after a failure too. */
tess_status tess_log_files_find(tess_mem *mem, char *const *names, int n, tess_log_files *files);
void tess_log_files_free(tess_log_files *files);

#endif
