#include "trace/notice.h"

#include <string.h>

#include "base/os/machine.h"

enum { NOTICE_WORDS = sizeof(tess_notice) / 8 };

_Static_assert(sizeof(tess_notice) % 8 == 0 && sizeof(tess_notice_slot) == 512, "a notice goes by words");

static const char *const names[] = {
#define X(name, text) [name] = text,
    TESS_NOTICE_LIST(X)
#undef X
};

const char *tess_notice_name(uint32_t kind)
{
    return names[kind < TESS_NOTICE_COUNT ? kind : TESS_NOTICE_OTHER];
}

tess_notice_kind tess_notice_kind_of(const char *name)
{
    for (int kind = 0; kind < TESS_NOTICE_COUNT; kind++)
        if (strcmp(names[kind], name) == 0)
            return (tess_notice_kind)kind;
    return TESS_NOTICE_OTHER;
}

static void set_text(tess_notice *notice, const char *text)
{
    size_t n = strlen(text), most = sizeof(notice->text) - 1;
    memset(notice->text, 0, sizeof(notice->text));
    memcpy(notice->text, text, n < most ? n : most);
    if (n > most)
        memcpy(notice->text + most - 3, "...", 3);
}

/* Writes a notice in the way of the event ring: a copy is complete if the stamp is equal before and after copying. */
static void put(tess_notices *notices, uint64_t number, const tess_notice *notice)
{
    tess_notice_slot *slot = &notices->slots[number % TESS_NOTICES];
    uint64_t words[NOTICE_WORDS];
    memcpy(words, notice, sizeof(words));
    atomic_store_explicit(&slot->stamp, 0, memory_order_relaxed);
    for (int i = 0; i < NOTICE_WORDS; i++)
        atomic_store_explicit(&slot->words[i], words[i], memory_order_release);
    atomic_store_explicit(&slot->stamp, number + 1, memory_order_release);
    atomic_fetch_add_explicit(&notices->n_changes, 1, memory_order_release);
}

/* Copies a notice. Returns false if the slot holds another notice, or is being written. */
static bool get(const tess_notices *notices, uint64_t number, tess_notice *notice)
{
    const tess_notice_slot *slot = &notices->slots[number % TESS_NOTICES];
    uint64_t words[NOTICE_WORDS], stamp = atomic_load_explicit(&slot->stamp, memory_order_acquire);
    for (int i = NOTICE_WORDS - 1; i >= 0; i--)
        words[i] = atomic_load_explicit(&slot->words[i], memory_order_acquire);
    if (stamp != number + 1 || atomic_load_explicit(&slot->stamp, memory_order_relaxed) != stamp)
        return false;
    memcpy(notice, words, sizeof(words));
    return true;
}

uint64_t tess_notices_add(tess_notices *notices, tess_notice_kind kind, int rank, int64_t step, const char *text)
{
    uint64_t number = atomic_fetch_add_explicit(&notices->n_reported, 1, memory_order_relaxed);
    tess_notice notice = {.wall_ns = tess_os_wall_ns(), .step = step, .rank = rank, .kind = (uint32_t)kind};
    set_text(&notice, text);
    put(notices, number, &notice);
    return number;
}

void tess_notices_replace(tess_notices *notices, uint64_t number, const char *text)
{
    tess_notice notice;
    if (!get(notices, number, &notice))
        return;
    set_text(&notice, text);
    put(notices, number, &notice);
}

size_t tess_notices_read(const tess_notices *notices, tess_notice out[TESS_NOTICES])
{
    uint64_t end = atomic_load_explicit(&notices->n_reported, memory_order_acquire);
    size_t n = 0;
    for (uint64_t i = end > TESS_NOTICES ? end - TESS_NOTICES : 0; i < end; i++) {
        if (!get(notices, i, &out[n]))
            continue;
        out[n].kind = out[n].kind < TESS_NOTICE_COUNT ? out[n].kind : TESS_NOTICE_OTHER;
        out[n].text[TESS_NOTICE_TEXT - 1] = '\0';
        n++;
    }
    return n;
}

void tess_notices_copy(tess_notices *to, const tess_notices *from)
{
    memcpy((void *)to, (const void *)from, sizeof(*to));
}
