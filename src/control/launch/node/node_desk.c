#include "control/launch/node/node_desk.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/core/variables.h"
#include "base/os/os.h"
#include "comm/tcp/tcp_hosts.h"
#include "control/launch/node/node_seats.h"
#include "control/launch/node/node_words.h"

static const double report_s = 5; /* seconds between two reports of who is missing */
static const double end_s = 3;    /* seconds for which hosts that call are told that the job has ended */

/* The connection of a host. */
typedef struct desk_line {
    int line;       /* -1: none */
    double heard_s; /* time of its last word */
    double gone_s;  /* time at which it was lost */
} desk_line;

struct node_desk {
    const tess_launch_node *node;
    tess_host_lines *lines;
    node_seats seats;
    desk_line hosts[NODE_HOSTS];
    node_ranks *ranks;
    uint64_t start; /* number of the newest start */
    double said_s;
    bool runs; /* ranks run */
};

tess_status node_desk_open(const tess_launch_node *node, node_desk **desk)
{
    const tess_host_self self = {.master = node->master,
                                 .port = node->port,
                                 .n_hosts = node->n_nodes + node->n_spares,
                                 .n_nodes = node->n_nodes};
    node_desk *made = calloc(1, sizeof(*made));
    *desk = NULL;
    TESS_CHECK(made != NULL, TESS_E_NOMEM, "no memory for the list of hosts");
    made->node = node;
    node_seats_begin(&made->seats, node->n_nodes, node->n_spares);
    for (int h = 0; h < NODE_HOSTS; h++)
        made->hosts[h].line = -1;
    tess_status status = tess_host_lines_open(&self, &made->lines);
    if (status != TESS_OK) {
        free(made);
        return status;
    }
    snprintf(made->seats.hosts[0].name, NODE_HOST_NAME_BYTES, "%s", tess_host_lines_name(made->lines));
    *desk = made;
    return TESS_OK;
}

/* ---- Events ---- */
static void lose(node_desk *d, int number, const char *why)
{
    node_host *host = &d->seats.hosts[number];
    host->here = host->ready = false;
    d->hosts[number].line = -1;
    d->hosts[number].gone_s = tess_os_now_s();
    if (host->seat < 0)
        tess_report_line(&d->node->reporter, "node %d on host %s is not a spare any more: %s", number, host->name, why);
}

/* A host calls again while its old line seems to be there: after a crash of the machine, the old one is dead. Another
 * host with the same number is turned away. */
static bool takes_over(node_desk *d, const tess_host_event *event)
{
    const node_host *host = &d->seats.hosts[event->number];
    int line = d->hosts[event->number].line;
    if (event->number == 0 || (line >= 0 && strcmp(host->name, event->name) != 0)) {
        tess_report_line(&d->node->reporter,
                         "host %s is refused: it has --node-rank %d, and so has host %s: each host needs its own",
                         event->name, event->number, host->name);
        return false;
    }
    if (line >= 0)
        tess_host_lines_hang_up(d->lines, line);
    return true;
}

static void came(node_desk *d, const tess_host_event *event)
{
    node_host *host = &d->seats.hosts[event->number];
    if (!takes_over(d, event)) {
        tess_host_lines_say(d->lines, event->line, &(tess_host_word){.kind = NODE_END, .code = 2});
        tess_host_lines_hang_up(d->lines, event->line);
        return;
    }
    bool was_node = host->seat < 0 && event->number < d->seats.n_seats;
    host->here = host->known = true;
    host->ready = false;
    snprintf(host->name, sizeof(host->name), "%s", event->name);
    d->hosts[event->number] = (desk_line){.line = event->line, .heard_s = tess_os_now_s()};
    if (was_node)
        tess_report_line(&d->node->reporter, "node %d on host %s is back, and waits as a spare: host %s has its place",
                         event->number, host->name, d->seats.hosts[d->seats.holder[event->number]].name);
    else if (host->seat < 0)
        tess_report_line(&d->node->reporter, "node %d on host %s waits as a spare", event->number, host->name);
}

static void handle(node_desk *d, const tess_host_event *event)
{
    switch (event->kind) {
    case TESS_HOST_CAME:
        came(d, event);
        break;
    case TESS_HOST_SAID:
        d->hosts[event->number].heard_s = tess_os_now_s();
        d->seats.hosts[event->number].ready |= event->word.kind == NODE_READY;
        break;
    case TESS_HOST_WENT:
        if (d->hosts[event->number].line == event->line)
            lose(d, event->number, "its connection closed");
        break;
    case TESS_HOST_REFUSED:
        tess_report_line(&d->node->reporter, "a caller from %s was refused: %s", event->name, event->why);
        break;
    case TESS_HOST_NOTHING:
        break;
    }
}

static void say_all(node_desk *d, const tess_host_word *word)
{
    for (int h = 1; h < d->seats.n_hosts; h++)
        if (d->hosts[h].line >= 0)
            tess_host_lines_say(d->lines, d->hosts[h].line, word);
}

/* Ends the ranks of this host if they wait for one that is lost: they would find out only at their own deadline. */
static void end_waiting_ranks(node_desk *d, double now_s)
{
    for (int s = 1; d->runs && d->ranks->n_running > 0 && s < d->seats.n_seats; s++) {
        int number = d->seats.holder[s];
        const node_host *host = &d->seats.hosts[number];
        if (host->here || now_s - d->hosts[number].gone_s < d->node->spare_after_s)
            continue;
        d->runs = false;
        tess_report_line(&d->node->reporter,
                         "node %d on host %s has been lost for %.0f s: the ranks that wait for it are ended", s,
                         host->name, d->node->spare_after_s);
        node_ranks_fail(d->ranks, 1);
    }
}

static void serve(void *self)
{
    node_desk *d = self;
    tess_host_event event;
    while ((event = tess_host_lines_next(d->lines)).kind != TESS_HOST_NOTHING)
        handle(d, &event);
    double now_s = tess_os_now_s();
    for (int h = 1; h < d->seats.n_hosts; h++)
        if (d->hosts[h].line >= 0 && now_s - d->hosts[h].heard_s > d->node->spare_after_s + NODE_SILENT_S) {
            tess_host_lines_hang_up(d->lines, d->hosts[h].line);
            lose(d, h, "nothing is heard of it");
        }
    if (now_s - d->said_s >= NODE_ALIVE_S) {
        d->said_s = now_s;
        say_all(d, &(tess_host_word){.kind = NODE_ALIVE});
    }
    end_waiting_ranks(d, now_s);
}

/* ---- A start ---- */
static void give_places(node_desk *d, bool late)
{
    int before, seat;
    while ((seat = node_seats_replace(&d->seats, late, &before)) >= 0) {
        const node_host *spare = &d->seats.hosts[d->seats.holder[seat]], *had = &d->seats.hosts[before];
        if (had->known)
            tess_report_line(&d->node->reporter,
                             "node %d on host %s is lost: the spare host %s (node %d) takes its place", seat, had->name,
                             spare->name, d->seats.holder[seat]);
        else
            tess_report_line(&d->node->reporter,
                             "node %d did not come within %.0f s: the spare host %s (node %d) takes its place", seat,
                             d->node->spare_after_s, spare->name, d->seats.holder[seat]);
    }
}

static void go(node_desk *d, int life)
{
    char id[64];
    d->start = 0;
    (void)!getrandom(&d->start, sizeof(d->start), 0); /* up to 256 bytes never fail after the system has started */
    for (int s = 1; s < d->seats.n_seats; s++)
        tess_host_lines_say(d->lines, d->hosts[d->seats.holder[s]].line,
                            &(tess_host_word){.kind = NODE_GO, .seat = s, .life = life, .start = d->start});
    snprintf(id, sizeof(id), "%016" PRIx64, d->start);
    setenv(tess_variable_name(TESS_VAR_START_ID), id, 1);
    node_seats_start(&d->seats);
}

tess_status node_desk_gather(node_desk *d, node_ranks *ranks, int n_before)
{
    const tess_launch_node *node = d->node;
    double begin_s = tess_os_now_s(), next_s = begin_s + report_s;
    char missing[400];
    ranks->look = serve;
    ranks->self = d;
    d->ranks = ranks;
    d->runs = false;
    for (;;) {
        node_ranks_look(ranks);
        double now_s = tess_os_now_s();
        if (ranks->asked)
            return TESS_OK;
        give_places(d, now_s - begin_s >= node->spare_after_s);
        if (node_seats_full(&d->seats))
            break;
        TESS_CHECK(now_s - begin_s < node->wait_s, TESS_E_TIMEOUT,
                   "node 0 at %s:%d has waited %.0f s for %s, and no spare host is there", node->master, node->port,
                   node->wait_s, node_seats_missing(&d->seats, missing, sizeof(missing)));
        if (now_s >= next_s) {
            tess_report_line(&node->reporter, "node 0 at %s:%d has waited %.0f s for %s", node->master, node->port,
                             now_s - begin_s, node_seats_missing(&d->seats, missing, sizeof(missing)));
            next_s = now_s + report_s;
        }
    }
    go(d, n_before);
    d->runs = true;
    return TESS_OK;
}

/* ---- The end ---- */
static bool any_is_here(const node_desk *d)
{
    bool any = false;
    for (int h = 1; h < d->seats.n_hosts; h++)
        any = any || d->hosts[h].line >= 0;
    return any;
}

void node_desk_close(node_desk **desk, int code)
{
    node_desk *d = *desk;
    if (d == NULL)
        return;
    const tess_host_word end = {.kind = NODE_END, .code = code};
    tess_launch_node silent = *d->node;
    silent.reporter = (tess_reporter){.line = NULL};
    d->node = &silent; /* hosts leave now, which is no news */
    say_all(d, &end);
    for (double until_s = tess_os_now_s() + end_s; any_is_here(d) && tess_os_now_s() < until_s;) {
        tess_host_event event = tess_host_lines_next(d->lines);
        if (event.kind == TESS_HOST_NOTHING)
            poll(NULL, 0, 20);
        else
            handle(d, &event);
        if (event.kind == TESS_HOST_SAID && event.word.kind == NODE_READY)
            tess_host_lines_say(d->lines, event.line, &end);
    }
    tess_host_lines_close(&d->lines);
    free(d);
    *desk = NULL;
}
