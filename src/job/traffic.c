#include "job/traffic.h"

#include <string.h>

static void load_name(const tess_traffic_row *row, char name[JOB_TRAFFIC_NAME])
{
    for (size_t i = 0; i < JOB_TRAFFIC_NAME / 8; i++) {
        const uint64_t word = atomic_load_explicit(&row->name[i], memory_order_relaxed);
        memcpy(name + i * 8, &word, 8);
    }
    name[JOB_TRAFFIC_NAME - 1] = '\0';
}

/* Stores the first word last, because it tells readers that the row has a name. */
static void store_name(tess_traffic_row *row, const char *name)
{
    char text[JOB_TRAFFIC_NAME] = {0};
    memcpy(text, name, strnlen(name, sizeof(text) - 1));
    for (size_t i = JOB_TRAFFIC_NAME / 8; i-- > 0;) {
        uint64_t word;
        memcpy(&word, text + i * 8, 8);
        atomic_store_explicit(&row->name[i], word, memory_order_release);
    }
}

int tess_traffic_row_of(tess_traffic_row rows[JOB_TRAFFIC], const char *name)
{
    enum { LAST = JOB_TRAFFIC - 1 };
    char known[JOB_TRAFFIC_NAME];
    name = name[0] != '\0' ? name : "team";
    for (int i = 0; i < LAST; i++) {
        load_name(&rows[i], known);
        if (known[0] == '\0')
            store_name(&rows[i], name);
        if (known[0] == '\0' || strncmp(known, name, sizeof(known) - 1) == 0)
            return i;
    }
    store_name(&rows[LAST], "others");
    return LAST;
}

void tess_traffic_moved(tess_traffic_row *row, uint64_t bytes, uint64_t moving_ns)
{
    atomic_fetch_add_explicit(&row->n, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&row->bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&row->moving_ns, moving_ns, memory_order_relaxed);
}

void tess_traffic_waited(tess_traffic_row *row, uint64_t waited_ns)
{
    atomic_fetch_add_explicit(&row->waited_ns, waited_ns, memory_order_relaxed);
}

void tess_traffic_copy(const tess_traffic_row *row, tess_traffic *copy)
{
    load_name(row, copy->name);
    copy->n = atomic_load_explicit(&row->n, memory_order_relaxed);
    copy->bytes = atomic_load_explicit(&row->bytes, memory_order_relaxed);
    copy->moving_ns = atomic_load_explicit(&row->moving_ns, memory_order_relaxed);
    copy->waited_ns = atomic_load_explicit(&row->waited_ns, memory_order_relaxed);
}
