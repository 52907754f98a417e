/* The checker against an interpreter that really runs the lists: numbers go through queues and slots, and what comes
 * out is compared with a loop over micro-batches and stages. On every mutation of every schedule the two must agree. */
#include <stdlib.h>

#include "parallel/pipeline/pipeline.h"
#include "support/test.h"

enum { MOST_RANKS = 4, MOST_STAGES = 12, MOST_MICROS = 16, MOST_ACTIONS = 7 * 3 * MOST_MICROS + 1 };

static const tess_pipeline_costs ones = {.forward = 1, .backward = 2, .input = 1, .weight = 1};

/* ---- The interpreter ---- */
/* A slot, with what is valid in it: its input, output, and the gradients of both. */
typedef struct slot {
    int micro; /* -1: none */
    bool has_x, has_y, has_dy, has_dx;
    uint64_t x, y, dy, dx;
} slot;

typedef struct queue {
    int n, taken, micro[2 * MOST_ACTIONS];
    uint64_t value[2 * MOST_ACTIONS];
} queue;

typedef struct machine {
    const tess_pipeline_schedule *s;
    int buffers, next[MOST_RANKS];
    slot slots[MOST_RANKS][3][MOST_MICROS];
    queue queues[2][MOST_STAGES];           /* forward and backward, by the stage that takes */
    int n_f[MOST_STAGES], n_b[MOST_STAGES]; /* computations done */
    uint64_t gradients[MOST_STAGES][MOST_MICROS];
    bool closed[MOST_STAGES];
} machine;

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ (b * 0x9e3779b97f4a7c15u)) * 0xbf58476d1ce4e5b9u;
    return h ^ (h >> 29);
}

/* The value of a micro-batch in each stage, forward and backward. */
static uint64_t input_of(int stage, int micro)
{
    uint64_t x = mix(7, (uint64_t)micro + 1);
    for (int g = 0; g < stage; g++)
        x = mix(x, (uint64_t)g + 100);
    return x;
}

static uint64_t gradient_of(int stage, int stages, int micro)
{
    uint64_t dy = mix(input_of(stages, micro), 3);
    for (int g = stages - 1; g > stage; g--)
        dy = mix(dy, input_of(g, micro));
    return mix(mix(dy, input_of(stage, micro)), 5);
}

static slot *find(machine *m, int rank, int chunk, int micro)
{
    for (int i = 0; i < MOST_MICROS; i++)
        if (m->slots[rank][chunk][i].micro == micro)
            return &m->slots[rank][chunk][i];
    return NULL;
}

typedef enum outcome { WENT, WAITS, BROKE } outcome;

static outcome push(machine *m, int backward, int stage, int micro, uint64_t value)
{
    if (stage < 0 || stage >= m->s->ranks * m->s->chunks)
        return BROKE;
    queue *q = &m->queues[backward][stage];
    if (m->buffers > 0 && q->n - q->taken >= m->buffers)
        return WAITS;
    q->micro[q->n] = micro;
    q->value[q->n++] = value;
    return WENT;
}

static outcome pop(machine *m, int backward, int stage, int micro, uint64_t *value)
{
    queue *q = &m->queues[backward][stage];
    if (q->taken == q->n)
        return WAITS;
    if (q->micro[q->taken] != micro)
        return BROKE;
    *value = q->value[q->taken++];
    return WENT;
}

/* Whether a stage's neighbour is on another rank, and so messages are needed. */
static bool is_far(const machine *m, int rank, int stage)
{
    return stage >= 0 && stage < m->s->ranks * m->s->chunks && tess_pipeline_rank_of(m->s, stage) != rank;
}

static outcome forward(machine *m, int rank, int stage, slot *s, const tess_pipeline_action *a)
{
    if (!is_far(m, rank, stage - 1)) {
        const slot *before = stage > 0 ? find(m, rank, tess_pipeline_chunk_of(m->s, stage - 1), a->micro) : NULL;
        if (stage > 0 && (before == NULL || !before->has_y))
            return BROKE;
        *s = (slot){.micro = a->micro, .has_x = true};
        s->x = before != NULL ? before->y : mix(7, (uint64_t)a->micro + 1);
    }
    if (s->micro != a->micro || !s->has_x)
        return BROKE;
    s->y = mix(s->x, (uint64_t)stage + 100);
    s->has_y = true;
    m->n_f[stage]++;
    return WENT;
}

static outcome backward(machine *m, int rank, int stage, slot *s, const tess_pipeline_action *a)
{
    const int stages = m->s->ranks * m->s->chunks;
    if (!s->has_y || s->has_dx)
        return BROKE;
    if (stage == stages - 1) {
        s->dy = mix(s->y, 3);
        s->has_dy = true;
    }
    if (!s->has_dy)
        return BROKE;
    s->dx = mix(s->dy, s->x);
    s->has_dx = true;
    if (stage > 0 && !is_far(m, rank, stage - 1)) {
        slot *before = find(m, rank, tess_pipeline_chunk_of(m->s, stage - 1), a->micro);
        if (before == NULL || !before->has_y)
            return BROKE;
        before->dy = s->dx;
        before->has_dy = true;
    }
    m->n_b[stage]++;
    return WENT;
}

static outcome add_gradients(machine *m, int stage, const slot *s, const tess_pipeline_action *a)
{
    if (!s->has_dx || m->closed[stage])
        return BROKE;
    m->gradients[stage][a->micro] += mix(mix(s->dy, s->x), 5);
    m->closed[stage] = a->last;
    return WENT;
}

static outcome step(machine *m, int rank, const tess_pipeline_action *a)
{
    const bool adds = a->op == TESS_PIPELINE_B || a->op == TESS_PIPELINE_BW;
    if ((int)a->op < 0 || a->op >= TESS_PIPELINE_SEND_T || a->chunk < 0 || a->chunk >= m->s->chunks || a->micro < 0 ||
        a->micro >= m->s->micros || a->slot < 0 || a->slot >= m->s->lists[rank].slots[a->chunk] || (a->last && !adds))
        return BROKE;
    const int stage = tess_pipeline_stage(m->s, rank, a->chunk);
    slot *s = &m->slots[rank][a->chunk][a->slot];
    uint64_t value;
    outcome how;
    if (a->op == TESS_PIPELINE_RECV_F) {
        if (!is_far(m, rank, stage - 1))
            return BROKE;
        if ((how = pop(m, 0, stage, a->micro, &value)) == WENT)
            *s = (slot){.micro = a->micro, .has_x = true, .x = value};
        return how;
    }
    if (a->op == TESS_PIPELINE_F)
        return forward(m, rank, stage, s, a);
    if (a->op == TESS_PIPELINE_RECV_B) { /* nothing comes before its forward has been sent */
        if (!is_far(m, rank, stage + 1))
            return BROKE;
        if ((how = pop(m, 1, stage, a->micro, &value)) != WENT)
            return how;
        if (s->micro != a->micro)
            return BROKE;
        s->dy = value;
        s->has_dy = true;
        return WENT;
    }
    if (s->micro != a->micro)
        return BROKE;
    switch (a->op) {
    case TESS_PIPELINE_SEND_F:
        return s->has_y && is_far(m, rank, stage + 1) ? push(m, 0, stage + 1, a->micro, s->y) : BROKE;
    case TESS_PIPELINE_SEND_B:
        return s->has_dx && is_far(m, rank, stage - 1) ? push(m, 1, stage - 1, a->micro, s->dx) : BROKE;
    case TESS_PIPELINE_BW:
        return add_gradients(m, stage, s, a);
    default:
        how = backward(m, rank, stage, s, a);
        return how == WENT && a->op == TESS_PIPELINE_B ? add_gradients(m, stage, s, a) : how;
    }
}

/* Whether all ranks come to the end, nothing is left over, and the gradients are those of a plain loop. */
static bool runs(const tess_pipeline_schedule *s, int buffers)
{
    static machine m;
    memset(&m, 0, sizeof(m));
    memset(m.slots, -1, sizeof(m.slots)); /* no micro-batch */
    m.s = s;
    m.buffers = buffers;
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < s->ranks; r++)
            for (; m.next[r] < s->lists[r].n; m.next[r]++, moved = true) {
                outcome how = step(&m, r, &s->lists[r].actions[m.next[r]]);
                if (how == BROKE)
                    return false;
                if (how == WAITS)
                    break;
            }
    }
    for (int r = 0; r < s->ranks; r++)
        if (m.next[r] < s->lists[r].n)
            return false;
    const int stages = s->ranks * s->chunks;
    for (int g = 0; g < stages; g++) {
        if (m.n_f[g] != s->micros || m.n_b[g] != s->micros || !m.closed[g] || m.queues[0][g].taken < m.queues[0][g].n ||
            m.queues[1][g].taken < m.queues[1][g].n)
            return false;
        for (int i = 0; i < s->micros; i++)
            if (m.gradients[g][i] != gradient_of(g, stages, i))
                return false;
    }
    return true;
}

/* ---- Mutations ---- */
/* A copy whose lists may change and grow by an action. */
typedef struct mutant {
    tess_pipeline_schedule s;
    tess_pipeline_list lists[MOST_RANKS];
    tess_pipeline_action actions[MOST_RANKS][MOST_ACTIONS];
} mutant;

static void copy(const tess_pipeline_schedule *s, mutant *out)
{
    out->s = *s;
    out->s.lists = out->lists;
    for (int r = 0; r < s->ranks; r++) {
        EXPECT(s->lists[r].n < MOST_ACTIONS);
        out->lists[r] = s->lists[r];
        out->lists[r].actions = out->actions[r];
        memcpy(out->actions[r], s->lists[r].actions, (size_t)s->lists[r].n * sizeof(tess_pipeline_action));
    }
}

static uint64_t draws;

static int below(int n)
{
    draws = draws * 6364136223846793005u + 1442695040888963407u;
    return (int)((draws >> 33) % (uint64_t)n);
}

static void insert(tess_pipeline_list *list, int at, tess_pipeline_action action)
{
    memmove(list->actions + at + 1, list->actions + at, (size_t)(list->n - at) * sizeof(action));
    list->actions[at] = action;
    list->n++;
}

static tess_pipeline_action take(tess_pipeline_list *list, int at)
{
    tess_pipeline_action action = list->actions[at];
    list->n--;
    memmove(list->actions + at, list->actions + at + 1, (size_t)(list->n - at) * sizeof(action));
    return action;
}

/* Changes one action of one list, or where it stands; into `what` goes which way. */
static void mutate(mutant *m, char *what, size_t size)
{
    static const char *const ways[] = {
        "drop",  "duplicate", "swap",      "move", "swap neighbours", "to another rank", "chunk",
        "micro", "slot",      "operation", "last"};
    const int rank = below(m->s.ranks), way = below(11);
    tess_pipeline_list *list = &m->lists[rank];
    const int at = below(list->n), other = below(list->n);
    tess_pipeline_action *a = &list->actions[at], kept = *a;
    snprintf(what, size, "%s of rank %d, action %d", ways[way], rank, at);
    switch (way) {
    case 0:
        take(list, at);
        break;
    case 1:
        insert(list, other, kept);
        break;
    case 2:
        *a = list->actions[other];
        list->actions[other] = kept;
        break;
    case 3:
        take(list, at);
        insert(list, other < list->n ? other : list->n, kept);
        break;
    case 4:
        *a = list->actions[at > 0 ? at - 1 : 0];
        list->actions[at > 0 ? at - 1 : 0] = kept;
        break;
    case 5:
        take(list, at);
        insert(&m->lists[(rank + 1) % m->s.ranks], 0, kept);
        break;
    case 6:
        a->chunk = below(m->s.chunks + 2) - 1;
        break;
    case 7:
        a->micro = below(m->s.micros + 2) - 1;
        break;
    case 8:
        a->slot = below(m->s.micros + 2) - 1;
        break;
    case 9:
        a->op = (tess_pipeline_op)(below(TESS_PIPELINE_OPS + 2) - 1);
        break;
    default:
        a->last = !a->last;
        break;
    }
}

typedef struct tally {
    int right, broken;
} tally;

/* The checker and the interpreter say the same; a refusal names a rank, and an action or the end of a list. */
static void agree(const tess_pipeline_schedule *s, int buffers, const char *what, tally *count)
{
    tess_pipeline_costs costs = ones;
    costs.buffers = buffers;
    const bool right = runs(s, buffers);
    const tess_status status = tess_pipeline_check(s, &costs, NULL);
    if ((status == TESS_OK) != right)
        test_fail(__FILE__, __LINE__, "%s p=%d v=%d m=%d, %s, %d buffers: %s, but the checker says: %s",
                  tess_pipeline_kind_name(s->kind), s->ranks, s->chunks, s->micros, what, buffers,
                  right ? "it runs" : "it does not run", status == TESS_OK ? "ok" : tess_error_message());
    count->right += right;
    count->broken += !right;
    if (right)
        return;
    EXPECT_INT(status, TESS_E_INVALID);
    const char *message = tess_error_message(), *place = strstr(message, "rank ");
    EXPECT(place != NULL);
    if (strstr(place, ", action ") == NULL && strstr(place, ", end of its list") == NULL)
        test_fail(__FILE__, __LINE__, "the culprit is not named: %s", message);
}

static const struct {
    tess_pipeline_kind kind;
    int p, v, m;
} shapes[] = {
    {TESS_PIPELINE_GPIPE, 1, 1, 2},       {TESS_PIPELINE_GPIPE, 3, 1, 4},       {TESS_PIPELINE_1F1B, 2, 1, 5},
    {TESS_PIPELINE_1F1B, 4, 1, 6},        {TESS_PIPELINE_INTERLEAVED, 1, 2, 3}, {TESS_PIPELINE_INTERLEAVED, 3, 2, 6},
    {TESS_PIPELINE_INTERLEAVED, 2, 3, 4}, {TESS_PIPELINE_ZB_H1, 4, 1, 7},       {TESS_PIPELINE_ZB_H1, 3, 1, 2},
    {TESS_PIPELINE_ZBV, 1, 2, 3},         {TESS_PIPELINE_ZBV, 3, 2, 7},         {TESS_PIPELINE_ZBV, 4, 2, 5},
    {TESS_PIPELINE_DUALPIPEV, 2, 2, 5},   {TESS_PIPELINE_DUALPIPEV, 4, 2, 8}};
enum { N_SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static void the_checker_names_every_mutation_that_breaks_a_schedule(void)
{
    static mutant m;
    tally count = {0};
    for (int i = 0; i < N_SHAPES; i++) {
        tess_pipeline_schedule s;
        tally shape = {0};
        EXPECT_OK(tess_pipeline_build(test_mem(), shapes[i].kind, shapes[i].p, shapes[i].v, shapes[i].m, &s));
        for (int buffers = 0; buffers <= 2; buffers++)
            agree(&s, buffers, "as built", &shape);
        EXPECT_INT(shape.right, 3);
        for (int n = 0; n < 2500; n++) {
            char what[128];
            copy(&s, &m);
            mutate(&m, what, sizeof(what));
            agree(&m.s, n % 3, what, &count);
        }
        tess_pipeline_free(&s);
    }
    EXPECT(count.broken > 10000); /* and others do no harm: actions that do not wait for each other swapped */
    EXPECT(count.right > 500);
}

static void lists_of_random_actions_are_refused(void)
{
    static mutant m;
    tally count = {0};
    for (int n = 0; n < 20000; n++) {
        const int i = below(N_SHAPES);
        tess_pipeline_schedule s;
        EXPECT_OK(tess_pipeline_build(test_mem(), shapes[i].kind, shapes[i].p, shapes[i].v, shapes[i].m, &s));
        copy(&s, &m);
        for (int r = 0; r < s.ranks; r++) {
            m.lists[r].n = below(m.lists[r].n + 1);
            for (int k = 0; k < m.lists[r].n && n % 2 == 0; k++)
                m.actions[r][k] = (tess_pipeline_action){.op = (tess_pipeline_op)below(TESS_PIPELINE_OPS),
                                                         .chunk = below(s.chunks),
                                                         .micro = below(s.micros),
                                                         .slot = below(s.micros),
                                                         .last = below(4) == 0};
        }
        agree(&m.s, n % 3, "random", &count);
        tess_pipeline_free(&s);
    }
    EXPECT(count.broken > 15000);
}

/* ---- Messages ---- */
static tess_pipeline_action *action_of(mutant *m, int rank, tess_pipeline_op op, int micro)
{
    for (int i = 0; i < m->lists[rank].n; i++)
        if (m->lists[rank].actions[i].op == op && m->lists[rank].actions[i].micro == micro)
            return &m->lists[rank].actions[i];
    return NULL;
}

static int index_of(mutant *m, int rank, tess_pipeline_op op, int micro)
{
    return (int)(action_of(m, rank, op, micro) - m->lists[rank].actions);
}

static void expect_says(const mutant *m, int buffers, const char *text)
{
    tess_pipeline_costs costs = ones;
    costs.buffers = buffers;
    EXPECT_FAILS(tess_pipeline_check(&m->s, &costs, NULL), TESS_E_INVALID, text);
}

static void messages_name_rank_action_and_reason(void)
{
    static mutant m;
    tess_pipeline_schedule s;
    EXPECT_OK(tess_pipeline_build(test_mem(), TESS_PIPELINE_1F1B, 2, 1, 4, &s));
    copy(&s, &m);
    take(&m.lists[1], index_of(&m, 1, TESS_PIPELINE_RECV_F, 2));
    expect_says(&m, 0, "rank 1, action 8 (F of chunk 0, micro-batch 2): its input is missing: no RECV_F before it");
    copy(&s, &m);
    take(&m.lists[0], index_of(&m, 0, TESS_PIPELINE_SEND_F, 2));
    expect_says(&m, 0, "rank 0, end of its list: no SEND_F of chunk 0, micro-batch 2, which rank 1 waits for");
    copy(&s, &m);
    insert(&m.lists[0], m.lists[0].n, *action_of(&m, 0, TESS_PIPELINE_B, 1));
    expect_says(&m, 0, "rank 0, action 16 (B of chunk 0, micro-batch 1): action 9 (B) did it before");
    copy(&s, &m);
    action_of(&m, 1, TESS_PIPELINE_SEND_B, 1)->op = TESS_PIPELINE_SEND_F;
    expect_says(&m, 0, "(SEND_F of chunk 0, micro-batch 1): no other rank has the stage behind");
    copy(&s, &m);
    action_of(&m, 0, TESS_PIPELINE_F, 3)->micro = 9;
    expect_says(&m, 0, "a step has the micro-batches 0 .. 3");
    copy(&s, &m);
    action_of(&m, 0, TESS_PIPELINE_B, 3)->last = false;
    expect_says(&m, 0, "it completes the gradients of its chunk, but is not marked as the last");
    copy(&s, &m);
    for (int i = 0; i < m.lists[0].n; i++)
        m.lists[0].actions[i].slot = 0;
    expect_says(&m, 0, "(F of chunk 0, micro-batch 1): slot 0 still holds micro-batch 0, up to action 5 (B)");
    tess_pipeline_free(&s);
}

static void a_deadlock_is_told_as_a_circle(void)
{
    static mutant m;
    tess_pipeline_schedule s;
    EXPECT_OK(tess_pipeline_build(test_mem(), TESS_PIPELINE_1F1B, 2, 1, 2, &s));
    copy(&s, &m);
    insert(&m.lists[0], 1, take(&m.lists[0], index_of(&m, 0, TESS_PIPELINE_RECV_B, 0))); /* before SEND_F */
    expect_says(&m, 0,
                "deadlock: rank 0, action 1 (RECV_B of chunk 0, micro-batch 0) waits for rank 1; rank 1, action 0 "
                "(RECV_F of chunk 0, micro-batch 0) waits for rank 0");
    tess_pipeline_free(&s);

    /* Rank 0 takes gradients only when it has sent all that it has; rank 1 sends them all along. */
    tess_pipeline_schedule other;
    EXPECT_OK(tess_pipeline_build(test_mem(), TESS_PIPELINE_GPIPE, 2, 1, 4, &s));
    EXPECT_OK(tess_pipeline_build(test_mem(), TESS_PIPELINE_1F1B, 2, 1, 4, &other));
    copy(&s, &m);
    m.lists[1] = other.lists[1];
    EXPECT_OK(tess_pipeline_check(&m.s, &ones, NULL));
    expect_says(&m, 1,
                "deadlock: rank 0, action 7 (SEND_F of chunk 0, micro-batch 3) waits for a free buffer of rank 1; "
                "rank 1, action 7 (SEND_B of chunk 0, micro-batch 1) waits for a free buffer of rank 0");
    tess_pipeline_free(&other);
    tess_pipeline_free(&s);
}

static void messages_are_taken_in_the_order_in_which_they_are_sent(void)
{
    static mutant m;
    tess_pipeline_schedule s;
    EXPECT_OK(tess_pipeline_build(test_mem(), TESS_PIPELINE_GPIPE, 2, 1, 3, &s));
    copy(&s, &m);
    for (int i = 0; i < m.lists[0].n; i++) /* rank 0: micro-batch 1 before 0 */
        if (m.lists[0].actions[i].op == TESS_PIPELINE_F || m.lists[0].actions[i].op == TESS_PIPELINE_SEND_F)
            if (m.lists[0].actions[i].micro < 2) {
                m.lists[0].actions[i].slot = 1 - m.lists[0].actions[i].slot;
                m.lists[0].actions[i].micro = 1 - m.lists[0].actions[i].micro;
            }
    expect_says(&m, 0,
                "rank 1, action 0 (RECV_F of chunk 0, micro-batch 0): the message that comes first is of "
                "micro-batch 1: rank 0, action 1 (SEND_F of chunk 0, micro-batch 1)");
    tess_pipeline_free(&s);
}

static const test_case cases[] = {
    CASE(the_checker_names_every_mutation_that_breaks_a_schedule),
    CASE(lists_of_random_actions_are_refused),
    CASE(messages_name_rank_action_and_reason),
    CASE(a_deadlock_is_told_as_a_circle),
    CASE(messages_are_taken_in_the_order_in_which_they_are_sent),
};
TEST_MAIN(cases)
