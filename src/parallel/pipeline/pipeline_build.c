/* Turns the order of computations into the lists that ranks follow: adds messages, slots, and marks where gradients
 * are complete. */
#include <string.h>

#include "base/mem/scoped.h"
#include "parallel/pipeline/pipeline_orders_impl.h"

static bool is_backward(tess_pipeline_op op)
{
    return op == TESS_PIPELINE_B || op == TESS_PIPELINE_BI;
}

/* Appends a computation, after the message that it waits for and before the one that others wait for. */
static void add_with_messages(const tess_pipeline_schedule *s, int rank, tess_pipeline_action action,
                              tess_pipeline_list *list)
{
    int stage = tess_pipeline_stage(s, rank, action.chunk);
    bool before = tess_pipeline_crosses(s, stage - 1), behind = tess_pipeline_crosses(s, stage);
    tess_pipeline_action message = action;
    bool receives = action.op == TESS_PIPELINE_F ? before : is_backward(action.op) && behind;
    bool sends = action.op == TESS_PIPELINE_F ? behind : is_backward(action.op) && before;
    if (receives) {
        message.op = action.op == TESS_PIPELINE_F ? TESS_PIPELINE_RECV_F : TESS_PIPELINE_RECV_B;
        list->actions[list->n++] = message;
    }
    list->actions[list->n++] = action;
    if (sends) {
        message.op = action.op == TESS_PIPELINE_F ? TESS_PIPELINE_SEND_F : TESS_PIPELINE_SEND_B;
        list->actions[list->n++] = message;
    }
}

/* The slots of one rank at an action. */
typedef struct slot_map {
    int *uses;   /* (chunks, micros) number of later actions that name this chunk and micro-batch */
    int *slot;   /* (chunks, micros) */
    char *taken; /* (chunks, micros) by slot */
} slot_map;

/* Gives each (chunk, micro) the first free slot, from the first action that names it to the last. */
static void assign_slots(const tess_pipeline_schedule *s, tess_pipeline_list *list, slot_map *map)
{
    size_t m = (size_t)s->micros, all = (size_t)s->chunks * m;
    int held = 0;
    memset(map->uses, 0, all * sizeof(map->uses[0]));
    memset(map->taken, 0, all);
    memset(map->slot, -1, all * sizeof(map->slot[0]));
    for (int i = 0; i < list->n; i++)
        map->uses[(size_t)list->actions[i].chunk * m + (size_t)list->actions[i].micro]++;
    for (int i = 0; i < list->n; i++) {
        tess_pipeline_action *a = &list->actions[i];
        size_t key = (size_t)a->chunk * m + (size_t)a->micro;
        char *taken = map->taken + (size_t)a->chunk * m;
        if (map->slot[key] < 0) {
            map->slot[key] = (int)((char *)memchr(taken, 0, m) - taken);
            taken[map->slot[key]] = 1;
            held++;
        }
        a->slot = map->slot[key];
        if (a->slot >= list->slots[a->chunk])
            list->slots[a->chunk] = a->slot + 1;
        list->in_flight = held > list->in_flight ? held : list->in_flight;
        if (--map->uses[key] == 0) {
            taken[a->slot] = 0;
            held--;
        }
    }
}

static void mark_last(const tess_pipeline_schedule *s, tess_pipeline_list *list)
{
    int found = 0;
    bool has[TESS_PIPELINE_MAX_CHUNKS] = {false};
    for (int i = list->n - 1; i >= 0 && found < s->chunks; i--) {
        tess_pipeline_action *a = &list->actions[i];
        if ((a->op != TESS_PIPELINE_B && a->op != TESS_PIPELINE_BW) || has[a->chunk])
            continue;
        a->last = has[a->chunk] = true;
        found++;
    }
}

/* `order` and `map` are work space. */
static tess_status build_list(const tess_pipeline_schedule *s, const pipeline_csv *csv, int rank,
                              tess_pipeline_action *order, slot_map *map)
{
    enum { MOST_PER_MICRO = 7 }; /* F, BI, BW and four messages */
    tess_pipeline_list *list = &s->lists[rank];
    pipeline_order o = {.schedule = s, .actions = order};
    size_t most = (size_t)MOST_PER_MICRO * (size_t)s->chunks * (size_t)s->micros;
    if (csv != NULL)
        TESS_TRY(pipeline_csv_row(csv, rank, &o));
    else
        pipeline_order_fill(&o, rank);
    TESS_TRY(TESS_PART(s->lists, s->chunks, "slots of a pipeline", &list->slots));
    TESS_TRY(TESS_PART(s->lists, most, "actions of a pipeline", &list->actions));
    for (int i = 0; i < o.n; i++)
        add_with_messages(s, rank, order[i], list);
    assign_slots(s, list, map);
    mark_last(s, list);
    return tess_mem_grow(s->mem, TESS_POOL_MISC, (size_t)list->n * sizeof(list->actions[0]), "actions of a pipeline",
                         (void **)&list->actions);
}

tess_status pipeline_build_from(tess_mem *mem, const pipeline_csv *csv, const tess_pipeline_schedule *shape,
                                tess_pipeline_schedule *schedule)
{
    const int ranks = shape->ranks, chunks = shape->chunks, micros = shape->micros;
    *schedule = (tess_pipeline_schedule){0};
    TESS_TRY(tess_pipeline_allows(shape->kind, ranks, chunks, micros));
    TESS_AUTO(tess_pipeline_free) tess_pipeline_schedule s = {mem, shape->kind, ranks, chunks, micros, NULL, 0};
    TESS_AUTO(tess_scope_end) tess_scope own = {.mem = mem};
    size_t all = (size_t)chunks * (size_t)micros;
    tess_pipeline_action *order;
    slot_map map = {0};
    TESS_TRY(TESS_NEW(mem, ranks, "lists of a pipeline", &s.lists));
    TESS_TRY(TESS_NEW_IN(&own, 3 * all, "order of a pipeline", &order));
    TESS_TRY(TESS_NEW_IN(&own, 2 * all, "slots of a pipeline", &map.uses));
    TESS_TRY(TESS_NEW_IN(&own, all, "slots of a pipeline", &map.taken));
    map.slot = map.uses + all;
    for (int r = 0; r < ranks; r++)
        TESS_TRY(build_list(&s, csv, r, order, &map));
    *schedule = s;
    s.lists = NULL;
    return TESS_OK;
}

tess_status tess_pipeline_build(tess_mem *mem, tess_pipeline_kind kind, int ranks, int chunks, int micros,
                                tess_pipeline_schedule *schedule)
{
    const tess_pipeline_schedule shape = {.kind = kind, .ranks = ranks, .chunks = chunks, .micros = micros};
    return pipeline_build_from(mem, NULL, &shape, schedule);
}

bool tess_pipeline_splits_backward(const tess_pipeline_schedule *s)
{
    for (int r = 0; r < s->ranks; r++)
        for (int i = 0; i < s->lists[r].n; i++)
            if (s->lists[r].actions[i].op == TESS_PIPELINE_BI)
                return true;
    return false;
}
