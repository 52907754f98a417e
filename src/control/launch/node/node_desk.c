#include "control/launch/node/node_desk.h"

#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

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
    uint64_t id;    /* number of the launcher at its other end */
    int pid;        /* process of that launcher */
    double heard_s; /* time of its last word */
    double gone_s;  /* time at which it was lost */
    /* Another launcher calls with the same number: time of its first and of its last call. */
    double rival_s, rival_last_s;
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

/* A launcher calls with the number of one that is connected. If that one has not been heard for a while, its line is
 * dead, as after a crash of the machine, and the caller replaces it. If both live, the caller is refused. */
static tess_host_answer judge(void *self, const tess_host_caller *caller, char *why, size_t size)
{
    node_desk *d = self;
    const node_host *host = &d->seats.hosts[caller->number];
    desk_line *had = &d->hosts[caller->number];
    const double now_s = tess_os_now_s();
    const bool is_free = caller->number > 0 && (had->line < 0 || had->id == caller->id);
    if (is_free || (caller->number > 0 && now_s - had->heard_s > NODE_SILENT_S))
        return TESS_HOST_WELCOME;
    if (now_s - had->rival_last_s > NODE_SILENT_S)
        had->rival_s = now_s;
    had->rival_last_s = now_s;
    snprintf(why, size,
             "host %s (process %d) has --node-rank %d, and so has host %s (process %d): each host needs its own",
             caller->name, caller->pid, caller->number, host->name, had->pid);
    return caller->number == 0 || had->heard_s > had->rival_s + NODE_SILENT_S ? TESS_HOST_NEVER : TESS_HOST_NOT_NOW;
}

tess_status node_desk_open(const tess_launch_node *node, node_desk **desk)
{
    node_desk *made = calloc(1, sizeof(*made));
    *desk = NULL;
    TESS_CHECK(made != NULL, TESS_E_NOMEM, "no memory for the list of hosts");
    const tess_host_self self = {.master = node->master,
                                 .port = node->port,
                                 .n_hosts = node->n_nodes + node->n_spares,
                                 .n_nodes = node->n_nodes,
                                 .judge = judge,
                                 .judge_self = made};
    made->node = node;
    made->hosts[0].pid = (int)getpid();
    node_seats_begin(&made->seats, node->n_nodes, node->n_spares);
    for (int h = 0; h < NODE_HOSTS; h++)
        made->hosts[h] = (desk_line){.line = -1, .pid = made->hosts[h].pid, .rival_last_s = -INFINITY};
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

static void came(node_desk *d, const tess_host_event *event)
{
    node_host *host = &d->seats.hosts[event->number];
    if (d->hosts[event->number].line >= 0) /* `judge` has found that it is dead */
        tess_host_lines_hang_up(d->lines, d->hosts[event->number].line);
    bool was_node = host->seat < 0 && event->number < d->seats.n_seats;
    host->here = host->known = true;
    host->ready = false;
    host->done = host->done && host->seat >= 0;
    snprintf(host->name, sizeof(host->name), "%s", event->name);
    d->hosts[event->number] = (desk_line){.line = event->line,
                                          .id = event->caller->id,
                                          .pid = event->caller->pid,
                                          .heard_s = tess_os_now_s(),
                                          .rival_last_s = -INFINITY};
    if (was_node)
        tess_report_line(&d->node->reporter, "node %d on host %s is back, and waits as a spare: host %s has its place",
                         event->number, host->name, d->seats.hosts[d->seats.holder[event->number]].name);
    else if (host->seat < 0)
        tess_report_line(&d->node->reporter, "node %d on host %s waits as a spare", event->number, host->name);
}

/* A host whose ranks have ended well stays done if its launcher starts anew: its ranks are not needed. */
static void said(node_desk *d, const tess_host_event *event)
{
    node_host *host = &d->seats.hosts[event->number];
    const tess_host_word *word = &event->word;
    d->hosts[event->number].heard_s = tess_os_now_s();
    if ((word->kind != NODE_READY && word->kind != NODE_DONE) || host->done)
        return;
    host->code = word->code;
    host->ready = word->kind == NODE_READY;
    host->done = word->kind == NODE_DONE;
}

static void handle(node_desk *d, const tess_host_event *event)
{
    switch (event->kind) {
    case TESS_HOST_CAME:
        came(d, event);
        break;
    case TESS_HOST_SAID:
        said(d, event);
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

/* A reason for which the ranks of this start cannot end well. Returns the code, or 0: there is none. */
static int find_failure(const node_desk *d, char *why, size_t size)
{
    for (int s = 1; s < d->seats.n_seats; s++) {
        int number = d->seats.holder[s];
        const node_host *host = &d->seats.hosts[number];
        const bool ended = host->ready || (host->done && host->code != 0 && host->code != NODE_STOPPED_CODE);
        if (host->ready && host->code == 0)
            snprintf(why, size, "the launcher of node %d on host %s has started anew", s, host->name);
        else if (ended)
            snprintf(why, size, "the ranks of node %d on host %s have ended with code %d", s, host->name, host->code);
        else if (!node_seats_alive(&d->seats, s) && tess_os_now_s() - d->hosts[number].gone_s >= d->node->spare_after_s)
            snprintf(why, size, "node %d on host %s has been lost for %.0f s", s, host->name, d->node->spare_after_s);
        else
            continue;
        return ended && host->code != 0 ? host->code : 1;
    }
    return 0;
}

/* Ends the ranks of this host if they wait for others that have ended or are lost: they would find out only at their
 * own deadline. They have a moment to end by themselves. */
static void end_waiting_ranks(node_desk *d)
{
    char why[200];
    if (!d->runs || d->ranks->n_running == 0 || d->ranks->failed_s != 0)
        return;
    int code = find_failure(d, why, sizeof(why));
    if (code == 0)
        return;
    d->runs = false;
    tess_report_line(&d->node->reporter, "%s: the ranks that wait for it are ended", why);
    node_ranks_fail(d->ranks, code);
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
    end_waiting_ranks(d);
}

/* ---- A start ---- */
static void give_places(node_desk *d, bool late)
{
    int before, seat;
    while ((seat = node_seats_replace(&d->seats, late, &before)) >= 0) {
        const node_host *spare = &d->seats.hosts[d->seats.holder[seat]], *had = &d->seats.hosts[before];
        if (had->here)
            tess_report_line(&d->node->reporter,
                             "node %d on host %s was not ready within %.0f s: the spare host %s (node %d) takes its "
                             "place",
                             seat, had->name, d->node->spare_after_s, spare->name, d->seats.holder[seat]);
        else if (had->known)
            tess_report_line(&d->node->reporter,
                             "node %d on host %s is lost: the spare host %s (node %d) takes its place", seat, had->name,
                             spare->name, d->seats.holder[seat]);
        else
            tess_report_line(&d->node->reporter,
                             "node %d did not come within %.0f s: the spare host %s (node %d) takes its place", seat,
                             d->node->spare_after_s, spare->name, d->seats.holder[seat]);
    }
}

/* Code of a host whose ranks have refused their input or were asked to stop: nothing starts again. 0: there is none. */
static int final_code(const node_desk *d)
{
    for (int s = 1; s < d->seats.n_seats; s++) {
        const node_host *host = &d->seats.hosts[d->seats.holder[s]];
        if (host->done && host->code != 0)
            return host->code;
    }
    return 0;
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

tess_status node_desk_gather(node_desk *d, node_ranks *ranks, int n_before, bool *starts)
{
    const tess_launch_node *node = d->node;
    double begin_s = tess_os_now_s(), next_s = begin_s + report_s;
    char missing[400];
    ranks->look = serve;
    ranks->self = d;
    d->ranks = ranks;
    d->runs = *starts = false;
    for (;;) {
        node_ranks_look(ranks);
        double now_s = tess_os_now_s();
        node_seats_reopen(&d->seats);
        if (ranks->asked || final_code(d) != 0) {
            ranks->code = ranks->asked ? NODE_STOPPED_CODE : final_code(d);
            return TESS_OK;
        }
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
    d->runs = *starts = true;
    return TESS_OK;
}

/* ---- The end ---- */
void node_desk_settle(node_desk *d, node_ranks *ranks)
{
    char why[200];
    double tell_s = tess_os_now_s() + report_s;
    int signal = 0;
    d->runs = false;
    while (ranks->code == 0 && signal == 0 && !node_seats_done(&d->seats)) {
        signal = node_ranks_look(ranks);
        ranks->code = find_failure(d, why, sizeof(why));
        if (ranks->code != 0)
            tess_report_line(&d->node->reporter, "%s, and those of node 0 with 0", why);
        if (tess_os_now_s() < tell_s)
            continue;
        tell_s = INFINITY;
        tess_report_line(&d->node->reporter, "the ranks of node 0 have ended with code 0: it waits for other nodes");
    }
    if (signal != 0 && ranks->code == 0)
        ranks->code = NODE_STOPPED_CODE;
    if (final_code(d) != 0 && ranks->code != NODE_STOPPED_CODE)
        ranks->code = final_code(d);
}

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
        if (event.kind == TESS_HOST_SAID && (event.word.kind == NODE_READY || event.word.kind == NODE_DONE))
            tess_host_lines_say(d->lines, event.line, &end);
    }
    tess_host_lines_close(&d->lines);
    free(d);
    *desk = NULL;
}
