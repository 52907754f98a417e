/* Finds the dumps in a folder, and the rank of each. */
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
    fr_file *file; /* sorted by rank, one per rank */
    size_t n;
    size_t n_doubles; /* other dumps of the same ranks, not used: a pickle says more than JSON */
} fr_files;

/* The rank in a file name: "nccl_trace_rank_3", "rank-3.json", "trace_3.pkl"; -1: not the name of a dump. */
int fr_file_rank(const char *name);

tess_status fr_files_list(tess_mem *mem, const char *folder, fr_files *files);
void fr_files_free(fr_files *files);

#endif
