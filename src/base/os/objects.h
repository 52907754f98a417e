/* Lists the program and the shared objects of this process, and finds the one that contains an address. */
#ifndef TESS_BASE_OS_OBJECTS_H
#define TESS_BASE_OS_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TESS_OBJECT_PATH_BYTES = 1000 };

typedef struct tess_object {
    uintptr_t begin, end; /* address range in memory; the file's own addresses count from `begin` */
    uint32_t id;          /* the same in every process that has loaded it; 0: the program */
    /* The path that it was loaded by, possibly relative to an earlier working folder; "": the program */
    char path[TESS_OBJECT_PATH_BYTES];
} tess_object;

void tess_object_program(tess_object *object);

/* Finds the object that contains `address`. False: the code is in no file, but was made at run time. Takes
 * microseconds; in the false case also a lock of the dynamic linker. */
bool tess_object_find(const void *address, tess_object *object);

/* Writes the file name of the loaded object `id`; "": it is not loaded. Returns name. */
const char *tess_object_name(uint32_t id, char *name, size_t size);

/* Returns a number from 1 to 2^22 - 1, computed from the build id that the linker wrote into the file. Different builds
 * have different numbers. */
uint32_t tess_object_id(const void *build_id, size_t n);

/* Returns the last part of the path: "libengine.so". */
const char *tess_object_file_name(const char *path);

#endif
