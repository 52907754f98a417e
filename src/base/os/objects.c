#include "base/os/objects.h"

#include <link.h>
#include <stdio.h>
#include <string.h>

#include "base/core/rng.h"
#include "tessera/export.h"

enum { ID_BITS = 22 };

uint32_t tess_object_id(const void *build_id, size_t n)
{
    uint32_t id = (uint32_t)(tess_hash_bytes(build_id, n, 0) >> (64 - ID_BITS));
    return id != 0 ? id : 1;
}

const char *tess_object_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static size_t padded(size_t n)
{
    return (n + 3) & ~(size_t)3;
}

static uint32_t find_id_in_notes(const uint8_t *at, size_t n)
{
    const ElfW(Nhdr) * note;
    for (size_t whole; n >= sizeof(*note); at += whole, n -= whole) {
        note = (const void *)at;
        size_t text = sizeof(*note) + padded(note->n_namesz);
        whole = text + padded(note->n_descsz);
        if (whole > n)
            return 0;
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && memcmp(note + 1, "GNU", 4) == 0)
            return tess_object_id(at + text, note->n_descsz);
    }
    return 0;
}

/* Returns an id made of the build id, or of the name if the object has no build id. */
static uint32_t id_of(const struct dl_phdr_info *info)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uint32_t id = part->p_type != PT_NOTE
                          ? 0
                          : find_id_in_notes((const uint8_t *)(info->dlpi_addr + part->p_vaddr), part->p_memsz);
        if (id != 0)
            return id;
    }
    const char *name = tess_object_file_name(info->dlpi_name);
    return tess_object_id(name, strlen(name));
}

static void find_range(const struct dl_phdr_info *info, tess_object *object)
{
    object->begin = object->end = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && end > object->end)
            object->end = end;
    }
}

/* ---- Walks over all objects; the program comes first ---- */
typedef struct object_search {
    tess_object *object;
    uintptr_t at;
    uint32_t id; /* 0: search for the object that contains `at` */
    bool first;  /* return the first object, which is the program */
    int n_seen;
} object_search;

static int take_wanted(struct dl_phdr_info *info, TESS_UNUSED size_t size, void *context)
{
    object_search *s = context;
    tess_object *object = s->object;
    bool is_program = s->n_seen++ == 0;
    find_range(info, object);
    if (s->first)
        return 1;
    if (s->id == 0 && (s->at < object->begin || s->at >= object->end))
        return 0;
    object->id = is_program ? 0 : id_of(info);
    if (s->id != 0 && s->id != object->id)
        return 0;
    snprintf(object->path, sizeof(object->path), "%s", is_program ? "" : info->dlpi_name);
    return 1;
}

void tess_object_program(tess_object *object)
{
    *object = (tess_object){0};
    dl_iterate_phdr(take_wanted, &(object_search){.object = object, .first = true});
}

bool tess_object_find(const void *address, tess_object *object)
{
    return dl_iterate_phdr(take_wanted, &(object_search){.object = object, .at = (uintptr_t)address}) != 0;
}

const char *tess_object_name(uint32_t id, char *name, size_t size)
{
    tess_object object;
    bool found = id != 0 && dl_iterate_phdr(take_wanted, &(object_search){.object = &object, .id = id}) != 0;
    snprintf(name, size, "%s", found ? tess_object_file_name(object.path) : "");
    return name;
}
