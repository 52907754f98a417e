/* Lists the program and the shared objects of this process, and finds the one that contains an address. */
#ifndef TESS_BASE_OS_OBJECTS_H
#define TESS_BASE_OS_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TESS_OBJECT_PATH_BYTES = 1000 };

typedef struct tess_object {
    uintptr_t begin, end;              /* place in memory; the file's own addresses count from `begin` */
    uint32_t id;                       /* the same in every process that has loaded it; 0: the program */
    char path[TESS_OBJECT_PATH_BYTES]; /* path of loading, possibly relative to a folder left since; "": the program */
} tess_object;

void tess_object_program(tess_object *object);

/* False: `address` is in code that no file holds, made at run time. Takes microseconds; for such code also a lock of
 * the dynamic linker. */
bool tess_object_find(const void *address, tess_object *object);

/* File name of the loaded object `id`, "" when it is not loaded. Returns name. */
const char *tess_object_name(uint32_t id, char *name, size_t size);

/* A number from 1 to 2^22 - 1, made of the hash that linkers leave in a file (its build id): each build has its own. */
uint32_t tess_object_id(const void *build_id, size_t n);

/* The last part of the path: "libengine.so". */
const char *tess_object_file_name(const char *path);

#endif
