#include "comm/hosts/choice.h"

#include "base/core/rng.h"

typedef struct choice_row {
    uint64_t up_to_bytes;
    tess_hosts_choice choice;
} choice_row;

struct tess_tuning {
    tess_mem *mem;
    int n[TESS_TRACE_OP_COUNT];
    choice_row rows[TESS_TRACE_OP_COUNT][TUNING_ROWS];
};

static const char *const way_names[HOSTS_WAYS] = {[HOSTS_STRIPED] = "striped", [HOSTS_LEADERS] = "leaders"};

const char *tess_hosts_way_name(int way)
{
    return way >= 0 && way < HOSTS_WAYS ? way_names[way] : NULL;
}

bool tess_tuning_knows(int kind)
{
    switch (kind) {
    case TESS_TRACE_ALL_GATHER:
    case TESS_TRACE_REDUCE_SCATTER:
    case TESS_TRACE_ALL_REDUCE:
    case TESS_TRACE_BROADCAST:
    case TESS_TRACE_ALL_GATHER_PIECES:
    case TESS_TRACE_REDUCE_SCATTER_PIECES:
        return true;
    default:
        return false;
    }
}

tess_hosts_choice tess_hosts_choose(const tess_tuning *tuning, int kind, uint64_t bytes)
{
    int n = tuning != NULL && tess_tuning_knows(kind) ? tuning->n[kind] : 0;
    for (int i = 0; i < n; i++)
        if (bytes <= tuning->rows[kind][i].up_to_bytes)
            return tuning->rows[kind][i].choice;
    return (tess_hosts_choice){HOSTS_STRIPED, HOSTS_PLAIN_ROUND_BYTES};
}

bool tess_tuning_row(const tess_tuning *tuning, int kind, int i, uint64_t *up_to_bytes, tess_hosts_choice *choice)
{
    if (!tess_tuning_knows(kind) || i < 0 || i >= tuning->n[kind])
        return false;
    *up_to_bytes = tuning->rows[kind][i].up_to_bytes;
    *choice = tuning->rows[kind][i].choice;
    return true;
}

tess_status tess_tuning_create(tess_mem *mem, tess_tuning **tuning)
{
    void *block;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(tess_tuning), "tuning table", &block));
    *tuning = block;
    (*tuning)->mem = mem;
    return TESS_OK;
}

void tess_tuning_free(tess_tuning **tuning)
{
    if (*tuning != NULL)
        tess_mem_free((*tuning)->mem, *tuning);
    *tuning = NULL;
}

tess_status tess_tuning_add(tess_tuning *tuning, int kind, uint64_t up_to_bytes, tess_hosts_choice choice)
{
    TESS_CHECK(tess_tuning_knows(kind), TESS_E_INVALID, "operation %d does not go in rounds: it has no rows", kind);
    int n = tuning->n[kind];
    TESS_CHECK(n < TUNING_ROWS, TESS_E_INVALID, "more than %d rows", TUNING_ROWS);
    TESS_CHECK(tess_hosts_way_name(choice.way) != NULL, TESS_E_INVALID, "there is no way %d", choice.way);
    TESS_CHECK(choice.round_bytes >= HOSTS_LEAST_ROUND_BYTES && choice.round_bytes <= HOSTS_MOST_ROUND_BYTES,
               TESS_E_INVALID, "round_bytes is %zu: from %d to %d", choice.round_bytes, HOSTS_LEAST_ROUND_BYTES,
               HOSTS_MOST_ROUND_BYTES);
    TESS_CHECK(n == 0 || tuning->rows[kind][n - 1].up_to_bytes != HOSTS_ANY_BYTES, TESS_E_INVALID,
               "it follows a row without a bound, and is never reached");
    TESS_CHECK(n == 0 || up_to_bytes > tuning->rows[kind][n - 1].up_to_bytes, TESS_E_INVALID,
               "up_to_bytes is %llu after %llu: bounds must grow", (unsigned long long)up_to_bytes,
               (unsigned long long)tuning->rows[kind][n - 1].up_to_bytes);
    tuning->rows[kind][tuning->n[kind]++] = (choice_row){up_to_bytes, choice};
    return TESS_OK;
}

tess_status tess_tuning_of(tess_mem *mem, tess_hosts_choice choice, tess_tuning **out)
{
    tess_tuning *tuning;
    tess_status status = tess_tuning_create(mem, &tuning);
    if (status != TESS_OK)
        return status;
    for (int kind = 0; kind < TESS_TRACE_OP_COUNT && status == TESS_OK; kind++)
        if (tess_tuning_knows(kind))
            status = tess_tuning_add(tuning, kind, HOSTS_ANY_BYTES, choice);
    if (status != TESS_OK)
        tess_tuning_free(&tuning);
    else
        *out = tuning;
    return status;
}

/* Hashes field by field, because structs contain padding. */
uint64_t tess_tuning_hash(const tess_tuning *tuning)
{
    uint64_t hash = 0;
    for (int kind = 0; tuning != NULL && kind < TESS_TRACE_OP_COUNT; kind++)
        for (int i = 0; i < tuning->n[kind]; i++) {
            const choice_row *r = &tuning->rows[kind][i];
            const uint64_t fields[] = {(uint64_t)kind, r->up_to_bytes, (uint64_t)r->choice.way, r->choice.round_bytes};
            hash = tess_hash_bytes(fields, sizeof(fields), hash);
        }
    return hash;
}
