#include "trace/trace_objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tess_trace_objects_add(tess_trace_objects *objects, uint32_t id, const char *path)
{
    uint32_t at = atomic_load_explicit(&objects->n_bytes, memory_order_relaxed);
    size_t room = sizeof(objects->bytes) - at;
    if (tess_trace_objects_find(objects, id)[0] != '\0')
        return;
    int n = snprintf(NULL, 0, "%06x %s", id, path);
    if (n < 0 || (size_t)n >= room)
        return;
    snprintf(objects->bytes + at, room, "%06x %s", id, path);
    atomic_store_explicit(&objects->n_bytes, at + (uint32_t)n + 1, memory_order_release);
}

const char *tess_trace_objects_next(const tess_trace_objects *objects, size_t *at, uint32_t *id)
{
    size_t n = atomic_load_explicit(&objects->n_bytes, memory_order_acquire);
    const char *text = objects->bytes + *at;
    if (n > sizeof(objects->bytes) || *at >= n)
        return NULL;
    const char *end = memchr(text, '\0', n - *at);
    char *path;
    if (end == NULL)
        return NULL;
    *id = (uint32_t)strtoul(text, &path, 16);
    *at += (size_t)(end - text) + 1;
    return *path == ' ' ? path + 1 : NULL;
}

const char *tess_trace_objects_find(const tess_trace_objects *objects, uint32_t id)
{
    uint32_t found;
    const char *path;
    for (size_t at = 0; (path = tess_trace_objects_next(objects, &at, &found)) != NULL;)
        if (found == id)
            return path;
    return "";
}
