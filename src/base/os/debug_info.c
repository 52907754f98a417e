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

/* The compiler's parts of a function ("train.cold", "train.part.0") and versions of it ("read@GLIBC_2.2") go by the
 * function's name. */
static int name_length(const char *name)
{
    size_t length = strcspn(name, ".@");
    return length > 0 ? (int)length : (int)strlen(name);
}

/* Compilers other than gcc omit the table that maps an address to its source file. */
static Dwarf_Line *find_line(Dwfl_Module *module, Dwarf_Addr address)
{
    Dwarf_Addr bias;
    for (Dwarf_Die *unit = NULL; (unit = dwfl_module_nextcu(module, unit, &bias)) != NULL;)
        if (dwarf_haspc(unit, address - bias) == 1)
            return dwarf_getsrc_die(unit, address - bias);
    return NULL;
}

static const char *find_source(Dwfl_Module *module, Dwarf_Addr address, int *number)
{
    Dwfl_Line *line = dwfl_module_getsrc(module, address);
    if (line != NULL)
        return dwfl_lineinfo(line, NULL, number, NULL, NULL, NULL);
    Dwarf_Line *found = find_line(module, address);
    if (found == NULL || dwarf_lineno(found, number) != 0)
        return NULL;
    return dwarf_linesrc(found, NULL, NULL);
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
    int length = name_length(name);
    if (file != NULL && number > 0)
        snprintf(text, size, "%.*s (%s:%d)", length, name, tess_object_file_name(file), number);
    else if (object[0] != '\0')
        snprintf(text, size, "%.*s (%s)", length, name, tess_object_file_name(object));
    else
        snprintf(text, size, "%.*s", length, name);
}
