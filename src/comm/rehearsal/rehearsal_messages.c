#include "comm/rehearsal/rehearsal_messages.h"

#include "base/core/rng.h"
#include "base/mem/scoped.h"
#include "comm/comm_impl.h"

static bool is_for(const tess_fingerprint *line, tess_trace_op kind, int peer)
{
    return line->kind == kind && line->root == peer;
}

/* Finds message number `nth` among those with the same tag to or from a peer; NULL: there are fewer. */
static const tess_fingerprint *find(const tess_fingerprint *lines, size_t n, tess_trace_op kind, int peer, uint64_t tag,
                                    int nth)
{
    for (size_t i = 0; i < n; i++)
        if (is_for(&lines[i], kind, peer) && lines[i].tag == tag && nth-- == 0)
            return &lines[i];
    return NULL;
}

static int number_of(const tess_fingerprint *lines, size_t i)
{
    int nth = 0;
    for (size_t k = 0; k < i; k++)
        nth += is_for(&lines[k], lines[i].kind, lines[i].root) && lines[k].tag == lines[i].tag;
    return nth;
}

/* Hashes the messages in one direction. The result does not depend on the order of messages with different tags. */
static uint64_t digest(const tess_fingerprint *lines, size_t n, tess_trace_op kind, int peer)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t message[] = {lines[i].tag, (uint64_t)number_of(lines, i), lines[i].count, lines[i].dtype};
        sum += is_for(&lines[i], kind, peer) ? tess_hash_bytes(message, sizeof(message), 0) : 0;
    }
    return sum;
}

/* ---- Messages that differ ---- */
/* Finds the messages of `member` that have no equal counterpart at `peer`. */
static tess_status report_pair(const tess_team *team, const tess_fingerprint *all, size_t room, tess_trace_op kind,
                               int member, int peer)
{
    const tess_fingerprint *lines = all + (size_t)member * room, *theirs = all + (size_t)peer * room;
    tess_trace_op answer = kind == TESS_TRACE_SEND ? TESS_TRACE_RECV : TESS_TRACE_SEND;
    for (size_t i = 0; i < room; i++) {
        char a[256], b[256] = "nothing for it";
        if (!is_for(&lines[i], kind, peer))
            continue;
        const tess_fingerprint *other = find(theirs, room, answer, member, lines[i].tag, number_of(lines, i));
        if (other != NULL && other->count == lines[i].count && other->dtype == lines[i].dtype)
            continue;
        if (other != NULL)
            tess_fingerprint_format(other, team->name, b, sizeof(b));
        return TESS_FAIL(
            TESS_E_MISMATCH, "before the first step: messages differ: rank %d planned %s; rank %d planned %s",
            team->ranks[member], tess_fingerprint_format(&lines[i], team->name, a, sizeof(a)), team->ranks[peer], b);
    }
    return TESS_OK;
}

static tess_status report(tess_team *team, const tess_fingerprint *all, size_t room)
{
    tess_status status = TESS_OK;
    for (int member = 0; member < team->size && status == TESS_OK; member++)
        for (int peer = 0; peer < team->size && status == TESS_OK; peer++) {
            status = report_pair(team, all, room, TESS_TRACE_SEND, member, peer);
            if (status == TESS_OK)
                status = report_pair(team, all, room, TESS_TRACE_RECV, member, peer);
        }
    TESS_CHECK(status != TESS_OK, TESS_E_INTERNAL, "the messages of ranks differ, but none of them does");
    tess_team_lock(team);
    tess_team_break(team, status, -1);
    tess_team_unlock(team);
    return status;
}

static tess_status gather_and_report(tess_team *team, const tess_fingerprint *lines, size_t n)
{
    tess_mem *mem = team->runtime->mem;
    int64_t room = (int64_t)n;
    tess_fingerprint *mine;
    TESS_AUTO(tess_mem_drop) tess_fingerprint *all = NULL;
    TESS_TRY(tess_all_reduce(team, &room, &room, 1, TESS_I64, TESS_MAX, NULL));
    TESS_TRY(TESS_NEW(mem, (size_t)room * (size_t)team->size, "messages", &all));
    mine = all + (size_t)room * (size_t)team->rank;
    for (size_t i = 0; i < n; i++)
        mine[i] = lines[i];
    TESS_TRY(tess_all_gather(team, mine, all, (size_t)room * sizeof(*all), TESS_U8, NULL));
    return report(team, all, (size_t)room);
}

/* ---- Whether ---- */
tess_status tess_rehearsal_compare_messages(tess_team *team, const tess_fingerprint *lines, size_t n)
{
    tess_mem *mem = team->runtime->mem;
    size_t size = (size_t)team->size;
    uint64_t *all; /* (size, 2, size) hashes of the messages sent and received, by member and peer */
    TESS_TRY(TESS_NEW(mem, 2 * size * size, "messages", &all));
    uint64_t *mine = all + 2 * size * (size_t)team->rank;
    for (size_t peer = 0; peer < size; peer++) {
        mine[peer] = digest(lines, n, TESS_TRACE_SEND, (int)peer);
        mine[size + peer] = digest(lines, n, TESS_TRACE_RECV, (int)peer);
    }
    bool equal = true;
    tess_status status = tess_all_gather(team, mine, all, 2 * size, TESS_I64, NULL);
    for (size_t a = 0; a < size; a++)
        for (size_t b = 0; b < size; b++)
            equal = equal && all[2 * size * a + b] == all[2 * size * b + size + a];
    tess_mem_free(mem, all);
    TESS_TRY(status);
    return equal ? TESS_OK : gather_and_report(team, lines, n);
}
