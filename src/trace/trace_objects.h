/* Records the shared objects that contain a rank's call sites: their ids (call_site.h) and files. They are in the
 * header of the rank's ring, for readers after the rank's death. */
#ifndef TESS_TRACE_TRACE_OBJECTS_H
#define TESS_TRACE_TRACE_OBJECTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TESS_TRACE_OBJECTS_BYTES = 1008 };

/* The format on disk. If all bytes are zero, there are no objects. */
typedef struct tess_trace_objects {
    _Atomic uint32_t n_bytes;
    char bytes[TESS_TRACE_OBJECTS_BYTES]; /* entries such as "3fa21b /opt/engine/libengine.so", each NUL-terminated */
} tess_trace_objects;

/* Adds an object that is not in the list yet. Only one thread may write at a time; a concurrent reader sees the
 * object completely or not at all. If there is no room, the object is left out, and its name is not known later. */
void tess_trace_objects_add(tess_trace_objects *objects, uint32_t id, const char *path);

/* Returns the path and id of the object at *at, and moves *at to the next object. Returns NULL if there are no more.
 * Begin with *at = 0. The list may hold any bytes: the first bytes that are not an object end it. */
const char *tess_trace_objects_next(const tess_trace_objects *objects, size_t *at, uint32_t *id);

/* Returns the path of object `id`; "" if it is not in the list. */
const char *tess_trace_objects_find(const tess_trace_objects *objects, uint32_t id);

#endif
