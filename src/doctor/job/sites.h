/* Formats call sites as text. Each call site is looked up only once. */
#ifndef TESS_DOCTOR_JOB_SITES_H
#define TESS_DOCTOR_JOB_SITES_H

#include "base/os/symbols.h"
#include "tessera/memory.h"
#include "trace/ring.h"

enum { TESS_SITES_MOST = 1024, TESS_SITES_FILES = 8, TESS_SITE_BYTES = 64 };

/* The process that wrote a ring, and the shared objects it had loaded. */
typedef struct tess_sites_source {
    tess_trace_owner owner;
    tess_trace_objects objects;
} tess_sites_source;

typedef struct tess_sites {
    tess_mem *mem;
    struct tess_site_file {
        char path[TESS_TRACE_OBJECTS_BYTES];
        uint32_t object;      /* build id; 0: a program. Hosts may have different builds at one path */
        tess_symbols symbols; /* not open: the file has no usable symbols */
    } files[TESS_SITES_FILES];
    int n_files;
    struct tess_site_text {
        uint64_t call_site;
        int file;
        char text[TESS_SITE_BYTES];
    } * texts; /* (TESS_SITES_MOST) texts found so far; NULL: none yet */
    int n_texts;
} tess_sites;

/* Writes "train_step (step.c:41)", from the symbols of the program or shared object in `source`. If that file is
 * gone, has changed or has no symbols, writes "libengine.so+0x1f30", or "" for the program. Keeps up to
 * TESS_SITES_FILES files open. */
void tess_sites_report(tess_sites *sites, const tess_sites_source *source, uint64_t call_site, char *text, size_t size);
void tess_sites_close(tess_sites *sites);

#endif
