#include "control/launch/node/node_launch.h"

#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "control/launch/node/node_desk.h"
#include "control/launch/node/node_guest.h"
#include "control/launch/node/node_ranks.h"
#include "job/lives.h"

enum { MOST_RANKS = 1 << 16, LONGEST_PAUSE_S = 60 };

tess_status tess_node_parse_master(const char *text, tess_launch_node *node)
{
    const char *colon = strrchr(text, ':');
    char *end = NULL;
    size_t n = colon != NULL ? (size_t)(colon - text) : 0;
    long port = colon != NULL ? strtol(colon + 1, &end, 10) : 0;
    bool has_brackets = n >= 2 && text[0] == '[' && text[n - 1] == ']';
    text += has_brackets;
    n -= has_brackets ? 2 : 0;
    TESS_CHECK(n > 0 && n < sizeof(node->master) && colon[1] != '\0' && *end == '\0' && port >= 1 && port < 65535,
               TESS_E_INVALID, "--rdzv: '%.100s': write it like h1:29400", text);
    memcpy(node->master, text, n);
    node->master[n] = '\0';
    node->port = (int)port;
    return TESS_OK;
}

tess_status tess_node_parse_ranks(const char *text, tess_launch_node *node)
{
    int n = 0;
    for (const char *at = text; n < node->n_nodes;) {
        char *end;
        long ranks = strtol(at, &end, 10);
        TESS_CHECK(end != at && ranks >= 1 && ranks <= MOST_RANKS && (*end == ',' || *end == '\0'), TESS_E_INVALID,
                   "-n: '%.100s': write the ranks of each host like 4 or 3,1", text);
        node->n_ranks[n++] = (int)ranks;
        if (*end == '\0') {
            at = end;
            break;
        }
        at = end + 1;
        TESS_CHECK(n < node->n_nodes, TESS_E_INVALID, "-n: '%.100s' has more numbers than --nnodes (%d)", text,
                   node->n_nodes);
    }
    TESS_CHECK(n == 1 || n == node->n_nodes, TESS_E_INVALID, "-n: '%.100s' has %d numbers, but --nnodes is %d", text, n,
               node->n_nodes);
    for (int i = n; i < node->n_nodes; i++)
        node->n_ranks[i] = node->n_ranks[0];
    return TESS_OK;
}

/* Whether this code of ranks is no reason to start again. Any host may have been asked to stop. */
static bool is_final(int code)
{
    return code == 0 || code == NODE_REFUSED_CODE || code == NODE_STOPPED_CODE;
}

/* Whether the ranks start again after this end. If so, waits before that. */
static bool starts_again(node_ranks *r, int n_before)
{
    const tess_launch_node *node = r->node;
    if (is_final(r->code) || r->asked || n_before >= node->n_restarts)
        return false;
    int pause_s = n_before < 6 ? 1 << n_before : LONGEST_PAUSE_S;
    tess_report_line(&node->reporter,
                     "node %d: its ranks ended with code %d; they start again in %d s: restart %d of %d", r->seat,
                     r->code, pause_s, n_before + 1, node->n_restarts);
    for (double until_s = tess_os_now_s() + pause_s; tess_os_now_s() < until_s;) {
        int signal = node_ranks_look(r);
        if (signal == 0)
            continue;
        tess_report_line(&node->reporter,
                         "node %d: asked to stop (SIG%s): its ranks do not start again; what was saved stands", r->seat,
                         sigabbrev_np(signal));
        r->code = NODE_STOPPED_CODE;
        return false;
    }
    return true;
}

/* Tells the ranks of the next life that all ranks of the job have had this many before. */
static tess_status report_lives(const tess_launch_node *node, int n_before)
{
    static const int64_t none_omitted[JOB_OMITTED];
    int world = node_count_ranks(node);
    if (n_before == 0) {
        tess_lives_forget();
        return TESS_OK;
    }
    tess_rank_past *past = calloc((size_t)world, sizeof(*past));
    TESS_CHECK(past != NULL, TESS_E_NOMEM, "no memory for %d ranks", world);
    for (int i = 0; i < world; i++)
        past[i].n_before = (uint32_t)n_before;
    tess_status status = tess_lives_report(n_before, none_omitted, past, world);
    free(past);
    return status;
}

/* Runs the ranks until they end well, or do not start again. desk: NULL: there are no spares. */
static tess_status run_lives(node_ranks *r, node_desk *desk, char *const *argv)
{
    for (int n_before = 0;; n_before++) {
        bool starts = true;
        if (desk != NULL)
            TESS_TRY(node_desk_gather(desk, r, n_before, &starts));
        if (!starts)
            return TESS_OK;
        TESS_TRY(node_ranks_sit(r, r->node->node));
        TESS_TRY(report_lives(r->node, n_before));
        TESS_TRY(node_ranks_run(r, argv));
        if (desk != NULL)
            node_desk_settle(desk, r);
        if (!starts_again(r, n_before))
            return TESS_OK;
    }
}

/* Node 0 of a job with spares. */
static tess_status run_first(node_ranks *r, char *const *argv)
{
    node_desk *desk;
    TESS_TRY(node_desk_open(r->node, &desk));
    tess_status status = run_lives(r, desk, argv);
    node_desk_close(&desk, status != TESS_OK && r->code == 0 ? 1 : r->code);
    return status;
}

/* Another host of a job with spares. */
static tess_status run_guest(node_ranks *r, char *const *argv)
{
    node_guest *guest;
    node_orders orders = {0};
    bool done = false;
    tess_status status = node_guest_open(r->node, &guest);
    while (status == TESS_OK) {
        status = node_guest_await(guest, r, done, &orders);
        if (status != TESS_OK || orders.ended)
            break;
        status = node_ranks_sit(r, orders.seat);
        if (status == TESS_OK)
            status = report_lives(r->node, orders.life);
        if (status == TESS_OK)
            status = node_ranks_run(r, argv);
        if (status == TESS_OK && r->asked)
            orders.ended = node_guest_leave(guest, r, is_final(r->code), &orders.code);
        if (status != TESS_OK || r->asked)
            break;
        done = is_final(r->code);
    }
    if (status == TESS_OK && orders.ended)
        r->code = orders.code;
    node_guest_close(&guest);
    return status;
}

tess_status tess_node_run(const tess_launch_node *node, char *const *argv, int *code)
{
    node_ranks r;
    node_ranks_begin(node, &r);
    tess_status status = node->n_spares == 0 ? run_lives(&r, NULL, argv)
                         : node->node == 0   ? run_first(&r, argv)
                                             : run_guest(&r, argv);
    *code = r.code;
    if (status == TESS_OK && r.pids != NULL && r.code != 0 && r.code != NODE_STOPPED_CODE && node->node > 0)
        tess_report_line(&node->reporter,
                         "the ranks of node %d ended with code %d: the first node that is in touch says why",
                         node->node, r.code);
    node_ranks_end(&r);
    return status;
}
