#include "base/os/debug_info.h"

#include <elfutils/libdw.h>
#include <stdio.h>
#include <string.h>

#include "base/os/objects.h"

int tess_find_debug_info(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base, const char *file,
                         const char *link, GElf_Word crc, char **found)
{
    return dwfl_build_id_find_debuginfo(module, userdata, name, base, file, link, crc, found);
}

static const char *find_source(Dwfl_Module *module, Dwarf_Addr address, int *number)
{
    Dwfl_Line *line = dwfl_module_getsrc(module, address);
    if (line != NULL)
        return dwfl_lineinfo(line, NULL, number, NULL, NULL, NULL);
    /* Compilers other than gcc omit the table that maps an address to its source file, so each unit is searched. */
    Dwarf_Addr bias;
    Dwarf_Die *unit = dwfl_module_nextcu(module, NULL, &bias);
    while (unit != NULL && dwarf_haspc(unit, address - bias) != 1)
        unit = dwfl_module_nextcu(module, unit, &bias);
    Dwarf_Line *found = unit != NULL ? dwarf_getsrc_die(unit, address - bias) : NULL;
    return found != NULL && dwarf_lineno(found, number) == 0 ? dwarf_linesrc(found, NULL, NULL) : NULL;
}

void tess_place_report(Dwfl_Module *module, Dwarf_Addr address, const char *object, char *text, size_t size)
{
    GElf_Off offset;
    GElf_Sym symbol;
    int number = 0;
    text[0] = '\0';
    const char *name = dwfl_module_addrinfo(module, address, &offset, &symbol, NULL, NULL, NULL);
    if (name == NULL)
        return;
    const char *file = find_source(module, address, &number);
    /* Parts of a function ("train.cold", "train.part.0") and versions of it ("read@GLIBC_2.2") are shown under its
     * plain name. */
    int length = (int)strcspn(name, ".@");
    length = length > 0 ? length : (int)strlen(name);
    if (file != NULL && number > 0)
        snprintf(text, size, "%.*s (%s:%d)", length, name, tess_object_file_name(file), number);
    else if (object[0] != '\0')
        snprintf(text, size, "%.*s (%s)", length, name, tess_object_file_name(object));
    else
        snprintf(text, size, "%.*s", length, name);
}
