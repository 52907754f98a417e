/* Names and lines for places in a program or shared object, also of one whose processes are long dead. Reads that file,
 * and its separate debug information where the system has it; never asks a network. */
#ifndef TESS_BASE_OS_SYMBOLS_H
#define TESS_BASE_OS_SYMBOLS_H

#include "tessera/types.h"

typedef struct tess_symbols {
    void *dwfl, *module; /* of libdwfl; NULL: not open */
    uint64_t bias;
    uint32_t id; /* as objects.h has it, of its build id; 0: it has none */
} tess_symbols;

/* TESS_E_NOT_FOUND: no such file; TESS_E_FORMAT: it is no program. Open it once and ask often: opening takes
 * milliseconds, the first question in a source file reads that file's lines. */
tess_status tess_symbols_open(const char *program, tess_symbols *symbols);
void tess_symbols_close(tess_symbols *symbols);

/* "train_step (step.c:41)" for the call that returns to `offset` bytes behind the beginning of the file in memory;
 * where lines are not known "train_step (libengine.so)" with the path of a shared `object`, "train_step" with ""; ""
 * where nothing is. Returns text. */
const char *tess_symbols_report(const tess_symbols *symbols, const char *object, uint64_t offset, char *text,
                                size_t size);

#endif
