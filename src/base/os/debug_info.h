/* Shared by symbols.c and stack.c: finds debug information, and formats a place in the code. */
#ifndef TESS_BASE_OS_DEBUG_INFO_H
#define TESS_BASE_OS_DEBUG_INFO_H

#include <elfutils/libdwfl.h>
#include <stddef.h>

/* A libdwfl callback: finds debug information by build id in the system's own folders. libdwfl's standard callback may
 * ask servers on the network. */
int tess_find_debug_info(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base, const char *file,
                         const char *link, GElf_Word crc, char **found);

/* Writes "function (file.c:12)". If the line is not known: "function (`object`)", or "function" when `object` is "". If
 * there is no symbol: "". */
void tess_place_report(Dwfl_Module *module, Dwarf_Addr address, const char *object, char *text, size_t size);

#endif
