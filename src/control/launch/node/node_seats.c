#include "control/launch/node/node_seats.h"

#include "base/text/text.h"

void node_seats_begin(node_seats *seats, int n_seats, int n_spares)
{
    *seats = (node_seats){.n_seats = n_seats, .n_hosts = n_seats + n_spares};
    for (int h = 0; h < seats->n_hosts; h++)
        seats->hosts[h].seat = h < n_seats ? h : -1;
    for (int s = 0; s < n_seats; s++)
        seats->holder[s] = s;
    seats->hosts[0].here = seats->hosts[0].known = seats->hosts[0].ready = true;
}

static const node_host *holder(const node_seats *seats, int seat)
{
    return &seats->hosts[seats->holder[seat]];
}

bool node_seats_full(const node_seats *seats)
{
    bool full = true;
    for (int s = 0; s < seats->n_seats; s++)
        full = full && holder(seats, s)->ready;
    return full;
}

/* The first spare that is ready; -1: none. */
static int find_spare(const node_seats *seats)
{
    for (int h = 1; h < seats->n_hosts; h++)
        if (seats->hosts[h].ready && seats->hosts[h].seat < 0)
            return h;
    return -1;
}

int node_seats_replace(node_seats *seats, bool late, int *before)
{
    int spare = find_spare(seats);
    for (int s = 1; s < seats->n_seats && spare >= 0; s++) {
        node_host *had = &seats->hosts[seats->holder[s]];
        bool gone = had->known && !had->here;
        if (had->ready || !(late || gone))
            continue;
        *before = seats->holder[s];
        had->seat = -1;
        seats->hosts[spare].seat = s;
        seats->holder[s] = spare;
        return s;
    }
    return -1;
}

bool node_seats_alive(const node_seats *seats, int seat)
{
    const node_host *host = holder(seats, seat);
    return host->here || host->done;
}

bool node_seats_done(const node_seats *seats)
{
    bool done = true;
    for (int s = 1; s < seats->n_seats; s++)
        done = done && holder(seats, s)->done;
    return done;
}

void node_seats_reopen(node_seats *seats)
{
    for (int h = 1; h < seats->n_hosts; h++) {
        node_host *host = &seats->hosts[h];
        if (!host->done || host->code != 0)
            continue;
        host->ready = host->here;
        host->done = false;
    }
}

void node_seats_start(node_seats *seats)
{
    for (int s = 1; s < seats->n_seats; s++) {
        node_host *host = &seats->hosts[seats->holder[s]];
        host->ready = host->done = false;
    }
}

const char *node_seats_missing(const node_seats *seats, char *text, size_t size)
{
    int n_missing = 0;
    for (int s = 0; s < seats->n_seats; s++)
        n_missing += !holder(seats, s)->ready;
    size_t n = tess_text_add(text, size, 0, "%d of %d hosts:", n_missing, seats->n_seats);
    for (int s = 0, listed = 0; s < seats->n_seats && n + 32 < size; s++)
        if (!holder(seats, s)->ready)
            n = tess_text_add(text, size, n, listed++ > 0 ? ", node %d" : " node %d", s);
    return text;
}
