/* What symbols.c and stack.c share: where debug information is looked for, and a place in words. */
#ifndef TESS_BASE_OS_DEBUG_INFO_H
#define TESS_BASE_OS_DEBUG_INFO_H

#include <elfutils/libdwfl.h>
#include <stddef.h>

/* A callback of libdwfl: by build id, in the system's own folders. Its standard one may ask servers on the network. */
int tess_find_debug_info(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base, const char *file,
                         const char *link, GElf_Word crc, char **found);

/* "function (file.c:12)", "function (`object`)" where lines are not known and object is not "", else "function"; ""
 * where there is no symbol. */
void tess_place_report(Dwfl_Module *module, Dwarf_Addr address, const char *object, char *text, size_t size);

#endif
