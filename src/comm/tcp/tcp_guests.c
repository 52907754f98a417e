#include "comm/tcp/tcp_guests.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"

const char *tcp_hello_check(tcp_hello *hello)
{
    hello->release[sizeof(hello->release) - 1] = hello->host[sizeof(hello->host) - 1] = '\0';
    if (memcmp(hello->magic, "tessera", sizeof(hello->magic)) != 0)
        return "it does not speak Tessera's language";
    if (hello->version != TCP_VERSION)
        return "it speaks another version of Tessera's language";
    if (hello->purpose < TCP_TO_MEET || hello->purpose > TCP_TO_HOSTS)
        return "it does not say what it wants";
    if (hello->world < 1 || hello->rank < 0 || hello->rank >= hello->world)
        return "its rank is not in its job";
    return NULL;
}

const char *tcp_hello_compare(const tcp_hello *hello, const tcp_hello *called, tcp_refusal *refusal)
{
    static const char *const here[] = {[TCP_TO_MEET] = "here ranks meet",
                                       [TCP_TO_SEND] = "ranks do not meet here",
                                       [TCP_TO_HOSTS] = "here hosts meet: give --spares on all hosts, or on none"};
    const bool at_master = hello->purpose != TCP_TO_SEND && called->purpose != TCP_TO_SEND;
    const bool hosts = hello->purpose == TCP_TO_HOSTS || called->purpose == TCP_TO_HOSTS;
    /* the job has one such address, and the flags of the launchers do not change */
    *refusal = at_master && hosts ? TCP_REFUSED_FOR_GOOD : TCP_REFUSED_HERE;
    if (hello->purpose == TCP_TO_HOSTS && called->purpose == TCP_TO_MEET)
        return "here ranks meet: give --spares on all hosts, or on none";
    if (hello->purpose != called->purpose)
        return here[called->purpose];
    if (hello->to != called->rank)
        return "another rank listens here";
    if (hello->purpose == TCP_TO_SEND &&
        (hello->world != called->world || memcmp(hello->job, called->job, sizeof(hello->job)) != 0))
        return "another job listens here";
    if (hello->purpose == TCP_TO_MEET && memcmp(hello->job, called->job, sizeof(hello->job)) != 0)
        return "ranks of another start of the job meet here";
    if (hello->purpose == TCP_TO_HOSTS && (hello->world != called->world || hello->n_nodes != called->n_nodes))
        return "--nnodes or --spares are not those of node 0";
    if (hello->purpose == TCP_TO_HOSTS && strcmp(hello->release, called->release) != 0)
        return "its release of Tessera is not that of node 0";
    return NULL;
}

tess_status tcp_guests_begin(tcp_guests *guests, const tcp_hello *first)
{
    *guests = (tcp_guests){.first = *first, .came = calloc((size_t)first->world, sizeof(*guests->came)), .n_came = 1};
    TESS_CHECK(guests->came != NULL, TESS_E_NOMEM, "no memory to meet %d ranks", first->world);
    guests->came[0] = *first;
    return TESS_OK;
}

void tcp_guests_free(tcp_guests *guests)
{
    free(guests->came);
    guests->came = NULL;
}

tess_status tcp_guests_add(tcp_guests *guests, const tcp_hello *hello)
{
    const tcp_hello *first = &guests->first;
    TESS_CHECK(strcmp(hello->release, first->release) == 0, TESS_E_INVALID,
               "rank %d on host %s is Tessera %s, but rank 0 on host %s is %s", hello->rank, hello->host,
               hello->release, first->host, first->release);
    TESS_CHECK(hello->world == first->world, TESS_E_INVALID,
               "rank %d on host %s has WORLD_SIZE=%d, but rank 0 on host %s has %d", hello->rank, hello->host,
               hello->world, first->host, first->world);
    TESS_CHECK(hello->n_nodes == first->n_nodes, TESS_E_INVALID,
               "rank %d on host %s has %d nodes in its job, but rank 0 on host %s has %d", hello->rank, hello->host,
               hello->n_nodes, first->host, first->n_nodes);
    tcp_hello *seat = &guests->came[hello->rank];
    TESS_CHECK(seat->world == 0, TESS_E_INVALID,
               "two processes are rank %d: process %d on host %s and process %d on host %s (does each host have a "
               "node rank of its own?)",
               hello->rank, seat->pid, seat->host, hello->pid, hello->host);
    *seat = *hello;
    guests->n_came++;
    return TESS_OK;
}

/* Adds the ranges of ranks of which no process has come. */
static size_t add_ranks(const tcp_guests *guests, char *text, size_t size)
{
    const int world = guests->first.world;
    size_t n = tess_text_add(text, size, 0, "%d of %d ranks: ", world - guests->n_came, world);
    for (int r = 0, n_ranges = 0; r < world && n + 64 < size; r++) {
        int last = r;
        if (guests->came[r].world != 0)
            continue;
        while (last + 1 < world && guests->came[last + 1].world == 0)
            last++;
        n = tess_text_add(text, size, n, n_ranges++ > 0 ? ", %d" : "%d", r);
        n = last > r ? tess_text_add(text, size, n, "-%d", last) : n;
        r = last;
    }
    return n;
}

static bool has_come(const tcp_guests *guests, int node)
{
    bool came = false;
    for (int r = 0; r < guests->first.world && !came; r++)
        came = guests->came[r].world != 0 && guests->came[r].node == node;
    return came;
}

const char *tcp_guests_missing(const tcp_guests *guests, char *text, size_t size)
{
    size_t n = add_ranks(guests, text, size);
    int n_missing = 0;
    /* each node has at least one rank, so a larger number of nodes is wrong */
    for (int node = 0; node < guests->first.n_nodes && node < guests->first.world && n + 32 < size; node++)
        if (!has_come(guests, node))
            n = tess_text_add(text, size, n, n_missing++ > 0 ? ", node %d" : " (missing: node %d", node);
    if (n_missing > 0)
        tess_text_add(text, size, n, " of %d)", guests->first.n_nodes);
    return text;
}
