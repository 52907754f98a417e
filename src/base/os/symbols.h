/* Finds names and lines for addresses in a program or shared object, whose processes may have ended long ago. Reads the
 * file and, if the system has it, its separate debug information. Never uses the network. */
#ifndef TESS_BASE_OS_SYMBOLS_H
#define TESS_BASE_OS_SYMBOLS_H

#include "tessera/types.h"

typedef struct tess_symbols {
    void *dwfl, *module; /* handles of libdwfl; NULL: not open */
    uint64_t bias;
    uint32_t id; /* tess_object_id of its build id; 0: it has none */
} tess_symbols;

/* Opens a program for look-ups. Open it once and look up often: opening takes milliseconds, and the first look-up in a
 * source file reads the lines of that file. TESS_E_NOT_FOUND: no such file. TESS_E_FORMAT: it is not a program. */
tess_status tess_symbols_open(const char *program, tess_symbols *symbols);
void tess_symbols_close(tess_symbols *symbols);

/* Writes the call whose return address is `offset` bytes after the file's start in memory: "train_step (step.c:41)". If
 * the line is not known: "train_step (libengine.so)" when `object` is a path, "train_step" when it is "". If there is
 * no symbol: "". Returns text. */
const char *tess_symbols_report(const tess_symbols *symbols, const char *object, uint64_t offset, char *text,
                                size_t size);

#endif
