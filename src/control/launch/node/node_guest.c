#include "control/launch/node/node_guest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/core/variables.h"
#include "base/os/os.h"
#include "comm/tcp/tcp_hosts.h"
#include "control/launch/node/node_words.h"

static const double report_s = 5;

struct node_guest {
    const tess_launch_node *node;
    tess_host_lines *lines;
    node_ranks *ranks;
    tess_host_word state; /* the word of this host when it waits for orders */
    bool up;              /* the line to node 0 is there */
    bool told;            /* the log says that this host waits */
    double heard_s;       /* time of node 0's last word */
    double said_s;        /* time of this host's last word */
    tess_host_word order; /* kind 0: none has come */
};

tess_status node_guest_open(const tess_launch_node *node, node_guest **guest)
{
    const tess_host_self self = {.master = node->master,
                                 .port = node->port,
                                 .number = node->node,
                                 .n_hosts = node->n_nodes + node->n_spares,
                                 .n_nodes = node->n_nodes};
    node_guest *made = calloc(1, sizeof(*made));
    *guest = NULL;
    TESS_CHECK(made != NULL, TESS_E_NOMEM, "no memory for the line to node 0");
    made->node = node;
    tess_status status = tess_host_lines_open(&self, &made->lines);
    if (status == TESS_OK)
        *guest = made;
    else
        free(made);
    return status;
}

void node_guest_close(node_guest **guest)
{
    if (*guest == NULL)
        return;
    tess_host_lines_close(&(*guest)->lines);
    free(*guest);
    *guest = NULL;
}

static void say(node_guest *g, const tess_host_word *word)
{
    g->said_s = tess_os_now_s();
    tess_host_lines_say(g->lines, 0, word);
}

/* The job has ended, so ranks that still run are not needed. Those that were asked to stop may save: they have time. */
static void end_ranks(node_guest *g)
{
    if (g->order.kind != NODE_END || g->order.code == NODE_STOPPED_CODE || g->ranks->n_running == 0 ||
        g->ranks->failed_s != 0)
        return;
    tess_report_line(&g->node->reporter, "node %d: the job has ended with code %d: the ranks of this host are ended",
                     g->node->node, g->order.code);
    node_ranks_fail(g->ranks, g->order.code != 0 ? g->order.code : 1);
}

/* Hears node 0, and says now and then that this host is alive. */
static void serve(void *self)
{
    node_guest *g = self;
    tess_host_event event;
    while (g->up && (event = tess_host_lines_next(g->lines)).kind != TESS_HOST_NOTHING) {
        g->heard_s = tess_os_now_s();
        g->up = event.kind != TESS_HOST_WENT;
        if (event.kind == TESS_HOST_SAID && (event.word.kind == NODE_GO || event.word.kind == NODE_END))
            g->order = event.word;
    }
    double now_s = tess_os_now_s();
    if (g->up && now_s - g->heard_s > g->node->spare_after_s + NODE_SILENT_S) {
        tess_host_lines_hang_up(g->lines, 0);
        g->up = false;
    }
    if (g->up && now_s - g->said_s >= NODE_ALIVE_S)
        say(g, &(tess_host_word){.kind = NODE_ALIVE});
    end_ranks(g);
}

static tess_status call(node_guest *g, char *why, size_t size)
{
    TESS_TRY(tess_host_lines_call(g->lines, &g->up, why, size));
    if (!g->up)
        return TESS_OK;
    g->heard_s = tess_os_now_s();
    say(g, &g->state);
    if (!g->told && g->node->node >= g->node->n_nodes)
        tess_report_line(&g->node->reporter, "node %d on host %s waits as a spare", g->node->node,
                         tess_host_lines_name(g->lines));
    g->told = true;
    return TESS_OK;
}

/* Reads an order, which comes from node 0 alone. */
static tess_status read_order(const node_guest *g, node_orders *orders)
{
    const tess_host_word *order = &g->order;
    char id[64];
    *orders =
        (node_orders){.ended = order->kind == NODE_END, .seat = order->seat, .life = order->life, .code = order->code};
    if (orders->ended)
        return TESS_OK;
    TESS_CHECK(order->seat >= 1 && order->seat < g->node->n_nodes && order->life >= 0, TESS_E_INVALID,
               "node 0 gives this host the place of node %d, start %d", order->seat, order->life);
    snprintf(id, sizeof(id), "%016" PRIx64, order->start);
    setenv(tess_variable_name(TESS_VAR_START_ID), id, 1);
    if (order->seat != g->node->node)
        tess_report_line(&g->node->reporter, "node %d on host %s takes the place of node %d", g->node->node,
                         tess_host_lines_name(g->lines), order->seat);
    return TESS_OK;
}

tess_status node_guest_await(node_guest *g, node_ranks *ranks, bool done, node_orders *orders)
{
    const tess_launch_node *node = g->node;
    double apart_s = tess_os_now_s(), next_s = apart_s + report_s;
    char why[256] = "";
    ranks->look = serve;
    ranks->self = g;
    g->ranks = ranks;
    g->state = (tess_host_word){.kind = done ? NODE_DONE : NODE_READY, .code = ranks->code};
    if (g->order.kind != NODE_END && !done && ranks->code != 0)
        tess_report_line(&node->reporter, "node %d: the ranks of this host ended with code %d: it asks node 0 again",
                         node->node, ranks->code);
    if (g->order.kind != NODE_END) /* it may have come while the ranks of this host still ran */
        g->order = (tess_host_word){0};
    if (g->up)
        say(g, &g->state);
    while (g->order.kind == 0) {
        if (g->up)
            apart_s = next_s = tess_os_now_s();
        else
            TESS_TRY(call(g, why, sizeof(why)));
        node_ranks_look(ranks);
        double now_s = tess_os_now_s();
        if (ranks->asked) {
            *orders = (node_orders){.ended = true, .code = done ? ranks->code : NODE_STOPPED_CODE};
            return TESS_OK;
        }
        TESS_CHECK(g->up || now_s - apart_s < node->wait_s, TESS_E_TIMEOUT,
                   "node %d did not reach node 0 at %s:%d within %.0f s: %s (did node 0 start?)", node->node,
                   node->master, node->port, node->wait_s, why);
        if (!g->up && now_s >= next_s && now_s - apart_s >= report_s) {
            tess_report_line(&node->reporter, "node %d has tried for %.0f s to reach node 0 at %s:%d: %s", node->node,
                             now_s - apart_s, node->master, node->port, why);
            next_s = now_s + report_s;
        }
    }
    return read_order(g, orders);
}

bool node_guest_leave(node_guest *g, const node_ranks *ranks, bool done, int *code)
{
    const bool ended = g->order.kind == NODE_END;
    if (ended)
        *code = g->order.code;
    else if (g->up && done)
        say(g, &(tess_host_word){.kind = NODE_DONE, .code = ranks->code});
    return ended;
}
