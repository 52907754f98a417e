/* Shared by symbols.c and stack.c: where to look for debug information, and how to print a place. */
#ifndef TESS_BASE_OS_DEBUG_INFO_H
#define TESS_BASE_OS_DEBUG_INFO_H

#include <elfutils/libdwfl.h>
#include <stddef.h>

/* A libdwfl callback: finds debug information by build id in the system's own folders. libdwfl's standard callback may
 * ask servers on the network. */
int tess_find_debug_info(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base, const char *file,
                         const char *link, GElf_Word crc, char **found);

/* Writes "function (file.c:12)"; without known lines "function (`object`)" when `object` is not "", else "function"; ""
 * when there is no symbol. */
void tess_place_report(Dwfl_Module *module, Dwarf_Addr address, const char *object, char *text, size_t size);

#endif
