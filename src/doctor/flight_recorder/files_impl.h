/* Which files of a folder are dumps, and of which rank. */
#ifndef TESS_DOCTOR_FLIGHT_RECORDER_FILES_IMPL_H
#define TESS_DOCTOR_FLIGHT_RECORDER_FILES_IMPL_H

#include "tessera/memory.h"

typedef struct fr_file {
    int rank;
    bool is_json;
    char name[256];
} fr_file;

typedef struct fr_files {
    tess_mem *mem;
    const char *folder;
    fr_file *file; /* by rank, one each */
    size_t n;
    size_t n_doubles; /* further dumps of the same ranks, left out: pickles have more to say than JSON */
} fr_files;

/* Rank in a file's name: "nccl_trace_rank_3", "rank-3.json", "trace_3.pkl"; -1: it is no name of a dump. */
int fr_file_rank(const char *name);

tess_status fr_files_list(tess_mem *mem, const char *folder, fr_files *files);
void fr_files_free(fr_files *files);

#endif
