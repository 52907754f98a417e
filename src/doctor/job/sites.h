/* Call sites in words, each looked up once. */
#ifndef TESS_DOCTOR_JOB_SITES_H
#define TESS_DOCTOR_JOB_SITES_H

#include "base/os/symbols.h"
#include "tessera/memory.h"

enum { TESS_SITES_MOST = 1024, TESS_SITE_BYTES = 64 };

typedef struct tess_sites {
    tess_mem *mem;
    char program[512];
    tess_symbols symbols;
    struct tess_site_text {
        uint64_t call_site;
        char text[TESS_SITE_BYTES];
    } * texts;
    int n_texts;
} tess_sites;

/* Of the program file at `program`, as it was at `wall_ns`: "train_step (step.c:41)", "" where the file is gone, is
 * newer than that, or says nothing. One program at a time is open. */
void tess_sites_tell(tess_sites *sites, const char *program, uint64_t wall_ns, uint64_t call_site, char *text,
                     size_t size);
void tess_sites_close(tess_sites *sites);

#endif
