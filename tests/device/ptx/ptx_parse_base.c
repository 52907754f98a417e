/* Memory, errors, words and numbers of the parser. All memory belongs to the module, so an error anywhere frees
 * everything. */
#include <ctype.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/ptx/ptx_parser.h"

/* Small allocations share chunks of this size, because the interpreter's malloc lists every block (ptx_heap.h). 0: each
 * has a block of its own, so sanitizers see its end. */
#ifndef PTX_CHUNK_BYTES
#define PTX_CHUNK_BYTES 0
#endif

struct ptx_memory {
    struct ptx_memory *next;
    size_t used, room;
    max_align_t bytes[];
};

void ptx_parse_fail(ptx_parser *p, int line, const char *format, ...)
{
    va_list args;
    int n = snprintf(p->error, p->error_size, "PTX line %d: ", line);
    va_start(args, format);
    if (n >= 0 && (size_t)n < p->error_size)
        vsnprintf(p->error + n, p->error_size - (size_t)n, format, args);
    va_end(args);
    longjmp(p->failed, 1);
}

/* Adds a block to a list. */
static struct ptx_memory *add_block(ptx_parser *p, struct ptx_memory **list, size_t bytes)
{
    struct ptx_memory *m = calloc(1, sizeof(*m) + bytes);
    if (m == NULL)
        ptx_parse_fail(p, p->line, "no memory for %zu bytes", bytes);
    m->room = bytes;
    m->next = *list;
    *list = m;
    return m;
}

/* The first block of the module's list is the chunk that is filled. */
void *ptx_parse_alloc_alone(ptx_parser *p, size_t bytes)
{
    struct ptx_memory *first = p->module->memory;
    struct ptx_memory *m = add_block(p, first != NULL ? &first->next : &p->module->memory, bytes);
    m->used = bytes;
    return m->bytes;
}

void *ptx_parse_alloc(ptx_parser *p, size_t bytes)
{
    struct ptx_memory *m = p->module->memory;
    if (bytes > PTX_CHUNK_BYTES / 4)
        return ptx_parse_alloc_alone(p, bytes);
    if (m == NULL || m->room - m->used < bytes)
        m = add_block(p, &p->module->memory, PTX_CHUNK_BYTES);
    void *memory = (char *)m->bytes + m->used;
    const size_t aligned = (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    m->used = aligned < m->room - m->used ? m->used + aligned : m->room;
    return memory;
}

void *ptx_parse_grow(ptx_parser *p, void *array, int n, size_t size)
{
    if ((n & (n - 1)) != 0)
        return array;
    void *larger = ptx_parse_alloc(p, (n > 0 ? 2 * (size_t)n : 1) * size);
    if (n > 0)
        memcpy(larger, array, (size_t)n * size);
    return larger;
}

char *ptx_parse_text(ptx_parser *p, const ptx_token *t)
{
    char *text = ptx_parse_alloc(p, t->length + 1);
    memcpy(text, t->text, t->length);
    return text;
}

ptx_token ptx_parse_word(ptx_parser *p, const char *what)
{
    ptx_token t = ptx_take(&p->tokens);
    if (t.kind != PTX_WORD)
        ptx_parse_fail(p, t.line, "expected %s, not '%.*s'", what, (int)t.length, t.text);
    return t;
}

void ptx_parse_sign(ptx_parser *p, const char *sign)
{
    if (!ptx_takes(&p->tokens, sign))
        ptx_parse_fail(p, p->tokens.next.line, "expected '%s', not '%.*s'", sign, (int)p->tokens.next.length,
                       p->tokens.next.text);
}

/* ---- Numbers ---- */
/* Floats are 0fXXXXXXXX and 0dXXXXXXXXXXXXXXXX, the hexadecimal digits of their bits. */
uint64_t ptx_parse_number_of(ptx_parser *p, const ptx_token *t)
{
    char text[40], *end;
    if (t->length >= sizeof(text) || t->length == 0)
        ptx_parse_fail(p, t->line, "'%.*s' is no number", (int)t->length, t->text);
    memcpy(text, t->text, t->length);
    text[t->length] = '\0';
    const bool is_float = text[0] == '0' && text[1] != '\0' && strchr("fFdD", text[1]) != NULL;
    uint64_t x = is_float ? strtoull(text + 2, &end, 16) : strtoull(text, &end, 0);
    if (*end == 'U')
        end++;
    if (*end != '\0' || !isdigit((unsigned char)text[0]))
        ptx_parse_fail(p, t->line, "'%s' is no number", text);
    return x;
}

uint64_t ptx_parse_number(ptx_parser *p)
{
    const bool negative = ptx_takes(&p->tokens, "-");
    const ptx_token t = ptx_take(&p->tokens);
    const uint64_t x = ptx_parse_number_of(p, &t);
    return negative ? 0 - x : x;
}

uint64_t ptx_parse_limited(ptx_parser *p, uint64_t most, const char *what)
{
    const int line = p->tokens.next.line;
    const uint64_t x = ptx_parse_number(p);
    if (x > most)
        ptx_parse_fail(p, line, "%s: %llu, more than %llu", what, (unsigned long long)x, (unsigned long long)most);
    return x;
}

void ptx_module_free(ptx_module *m)
{
    for (struct ptx_memory *next; m != NULL && m->memory != NULL; m->memory = next) {
        next = m->memory->next;
        free(m->memory);
    }
    free(m);
}
