/* Memory for the values of a pickle. Values are never freed one by one, and their total size is limited. */
#include <string.h>

#include "base/pickle/pickle_impl.h"
#include "base/text/text.h"

enum { CHUNK_BYTES = 64 << 10, FIRST_ITEMS = 4 };

tess_status pickle_charge(tess_pickle *pickle, size_t bytes)
{
    TESS_CHECK(bytes <= pickle->limit - pickle->charged, TESS_E_NOMEM,
               "its values need more than the %zu bytes that are allowed", pickle->limit);
    pickle->charged += bytes;
    return TESS_OK;
}

tess_status pickle_alloc(tess_pickle *pickle, size_t bytes, void **out)
{
    TESS_TRY(pickle_charge(pickle, bytes));
    bytes = (bytes + 15) & ~(size_t)15;
    arena_chunk *chunk = pickle->chunks;
    if (chunk == NULL || chunk->size - chunk->used < bytes) {
        void *memory;
        size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        TESS_TRY(tess_mem_alloc(pickle->mem, TESS_POOL_MISC, sizeof(arena_chunk) + size, "pickle", &memory));
        chunk = memory;
        chunk->size = size;
        chunk->used = 0;
        chunk->next = pickle->chunks;
        pickle->chunks = chunk;
    }
    *out = chunk->bytes + chunk->used;
    chunk->used += bytes;
    return TESS_OK;
}

tess_status pickle_make(tess_pickle *pickle, tess_pickle_kind kind, tess_pickle_value **value)
{
    void *memory;
    TESS_TRY(pickle_alloc(pickle, sizeof(**value), &memory));
    *value = memory;
    **value = (tess_pickle_value){.kind = (uint8_t)kind};
    return TESS_OK;
}

tess_status pickle_make_int(tess_pickle *pickle, int64_t integer, tess_pickle_value **value)
{
    TESS_TRY(pickle_make(pickle, TESS_PICKLE_INT, value));
    (*value)->integer = integer;
    return TESS_OK;
}

tess_status pickle_make_string(tess_pickle *pickle, tess_pickle_kind kind, const void *data, size_t n,
                               tess_pickle_value **value)
{
    void *memory;
    TESS_TRY(pickle_make(pickle, kind, value));
    TESS_TRY(pickle_alloc(pickle, n + 1, &memory));
    if (n > 0)
        memcpy(memory, data, n);
    ((char *)memory)[n] = '\0';
    (*value)->text = memory;
    (*value)->n = n;
    return TESS_OK;
}

tess_status pickle_make_bytes(tess_pickle *pickle, const char *data, size_t n, tess_pickle_value **value)
{
    return pickle_make_string(pickle, TESS_PICKLE_BYTES, data, n, value);
}

tess_status pickle_make_text(tess_pickle *pickle, const char *data, size_t n, tess_pickle_value **value)
{
    const uint8_t *s = (const uint8_t *)data;
    for (size_t i = 0; i < n;) {
        uint32_t code_point;
        int bytes = s[i] < 0x80 ? 1 : tess_utf8_decode(s + i, n - i, &code_point);
        if (bytes == 0)
            return pickle_make_bytes(pickle, data, n, value);
        i += (size_t)bytes;
    }
    return pickle_make_string(pickle, TESS_PICKLE_TEXT, data, n, value);
}

tess_status pickle_make_object(tess_pickle *pickle, const char *name, tess_pickle_value *args,
                               tess_pickle_value **value)
{
    void *memory;
    TESS_TRY(pickle_make(pickle, TESS_PICKLE_OBJECT, value));
    TESS_TRY(pickle_alloc(pickle, sizeof(tess_pickle_object), &memory));
    tess_pickle_object *object = memory;
    *object = (tess_pickle_object){.name = name, .args = args};
    (*value)->object = object;
    return TESS_OK;
}

/* Returns the capacity of an array of n items: a power of two, so that the length alone determines it. */
static size_t room(size_t n)
{
    size_t capacity = n == 0 ? 0 : FIRST_ITEMS;
    while (capacity < n)
        capacity *= 2;
    return capacity;
}

tess_status pickle_append(tess_pickle *pickle, tess_pickle_value *sequence, tess_pickle_value *const *items, size_t n)
{
    size_t capacity = room(sequence->n + n);
    if (capacity != room(sequence->n)) {
        void *memory;
        TESS_TRY(pickle_alloc(pickle, capacity * sizeof(*items), &memory));
        if (sequence->n > 0)
            memcpy(memory, sequence->items, sequence->n * sizeof(*items));
        sequence->items = memory;
    }
    if (n > 0)
        memcpy(sequence->items + sequence->n, items, n * sizeof(*items));
    sequence->n += n;
    return TESS_OK;
}

void tess_pickle_destroy(tess_pickle **handle)
{
    tess_pickle *pickle = *handle;
    if (pickle == NULL)
        return;
    while (pickle->chunks != NULL) {
        arena_chunk *chunk = pickle->chunks;
        pickle->chunks = chunk->next;
        tess_mem_free(pickle->mem, chunk);
    }
    tess_mem_drop(handle);
}
