/* The memory of a template and of its renderings. It is limited, and freed as a whole. */
#include <string.h>

#include "base/core/round_up.h"
#include "data/template/template_impl.h"

struct template_chunk {
    template_chunk *older;
    size_t used, room;
    _Alignas(16) unsigned char data[];
};

enum { CHUNK_BYTES = 16 << 10, ALIGNMENT = 16 };

static tess_status add_chunk(template_arena *arena, size_t size)
{
    size_t room = size > CHUNK_BYTES ? size : CHUNK_BYTES;
    void *block;
    TESS_CHECK(room <= arena->limit - arena->used, TESS_E_INVALID, "it takes more than %zu MiB of memory",
               arena->limit >> 20);
    TESS_TRY(tess_mem_alloc(arena->mem, TESS_POOL_MISC, sizeof(template_chunk) + room, "chat template", &block));
    template_chunk *chunk = block;
    *chunk = (template_chunk){.older = arena->newest, .room = room};
    arena->newest = chunk;
    arena->used += room;
    return TESS_OK;
}

tess_status template_alloc(template_arena *arena, size_t size, void *out)
{
    TESS_CHECK(size <= arena->limit, TESS_E_INVALID, "it takes more than %zu MiB of memory", arena->limit >> 20);
    size = tess_round_up(size, ALIGNMENT);
    if (arena->newest == NULL || arena->newest->room - arena->newest->used < size)
        TESS_TRY(add_chunk(arena, size));
    void *block = arena->newest->data + arena->newest->used;
    arena->newest->used += size;
    memset(block, 0, size);
    memcpy(out, &block, sizeof(block));
    return TESS_OK;
}

void template_arena_free(template_arena *arena)
{
    while (arena->newest != NULL) {
        template_chunk *older = arena->newest->older;
        tess_mem_free(arena->mem, arena->newest);
        arena->newest = older;
    }
    arena->used = 0;
}
