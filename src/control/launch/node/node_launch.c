#include "control/launch/node/node_launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/core/variables.h"
#include "base/os/os.h"
#include "control/launch/child.h"
#include "job/lives.h"
#include "job/rank_end.h"

enum { MOST_RANKS = 1 << 16, LOOK_MS = 100 };

/* Times from the first error to SIGTERM and to SIGKILL for the others. */
static const double terminate_s = 1, kill_s = 8;

enum { LONGEST_PAUSE_S = 60, REFUSED_CODE = 2 };

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

/* The processes of this host. */
typedef struct node_ranks {
    const tess_launch_node *node;
    tess_child_signals signals;
    int n, n_running, first; /* first: rank of the first process */
    pid_t *pids;             /* (n) 0: it has ended */
    int code;
    double failed_s; /* time of the first error; 0: none */
    int sent;        /* last signal that was sent because of it */
    bool asked;      /* a signal asked the ranks to stop */
} node_ranks;

static void set_number(tess_variable variable, int number)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", number);
    setenv(tess_variable_name(variable), text, 1);
}

static int count_ranks(const tess_launch_node *node)
{
    int world = 0;
    for (int i = 0; i < node->n_nodes; i++)
        world += node->n_ranks[i];
    return world;
}

static void set_variables(const node_ranks *r, int index)
{
    const tess_launch_node *node = r->node;
    char id[NODE_NAME_BYTES + 16];
    set_number(TESS_VAR_TORCH_RANK, r->first + index);
    set_number(TESS_VAR_TORCH_WORLD, count_ranks(node));
    set_number(TESS_VAR_TORCH_LOCAL_RANK, index);
    set_number(TESS_VAR_TORCH_LOCAL_WORLD, r->n);
    set_number(TESS_VAR_TORCH_NODE, node->node);
    set_number(TESS_VAR_TORCH_NODES, node->n_nodes);
    set_number(TESS_VAR_MASTER_PORT, node->port);
    setenv(tess_variable_name(TESS_VAR_MASTER_ADDR), node->master, 1);
    /* inside a step of srun, this says that not srun has started the rank (job/environment.c) */
    snprintf(id, sizeof(id), "%s:%d", node->master, node->port);
    setenv(tess_variable_name(TESS_VAR_TORCH_RUN_ID), id, 1);
    unsetenv(tess_variable_name(TESS_VAR_TORCH_AGENT_STORE));
}

static tess_status start_all(node_ranks *r, char *const *argv, int report_fd)
{
    pid_t parent = getpid();
    fflush(NULL); /* otherwise forked children would write our buffers again */
    for (int i = 0; i < r->n; i++) {
        r->pids[i] = fork();
        if (r->pids[i] == 0) {
            tess_child_begin(&r->signals, parent);
            set_variables(r, i);
            tess_child_exec(NULL, argv, report_fd);
        }
        if (r->pids[i] < 0) {
            r->pids[i] = 0;
            return TESS_FAIL(TESS_E_NOMEM, "start rank %d: fork: %s", r->first + i, strerror(errno));
        }
        r->n_running++;
    }
    return TESS_OK;
}

static void signal_all(const node_ranks *r, int signal)
{
    for (int i = 0; i < r->n; i++)
        if (r->pids[i] != 0)
            kill(r->pids[i], signal);
}

static void reap(node_ranks *r)
{
    for (int i = 0; i < r->n; i++) {
        int state = 0;
        if (r->pids[i] == 0 || waitpid(r->pids[i], &state, WNOHANG) != r->pids[i])
            continue;
        int code = tess_ending_code(state);
        r->pids[i] = 0;
        r->n_running--;
        if (code == 0 || r->failed_s != 0)
            continue;
        r->code = code;
        r->failed_s = tess_os_now_s();
    }
}

static void end_others(node_ranks *r)
{
    double since_s = r->failed_s != 0 ? tess_os_now_s() - r->failed_s : 0;
    int wanted = since_s >= kill_s ? SIGKILL : since_s >= terminate_s ? SIGTERM : 0;
    if (wanted == r->sent || wanted == 0)
        return;
    r->sent = wanted;
    signal_all(r, wanted);
}

static void watch(node_ranks *r)
{
    const struct timespec look = {.tv_nsec = LOOK_MS * 1000000L};
    while (r->n_running > 0) {
        siginfo_t info;
        int signal = sigtimedwait(&r->signals.watched, &info, &look);
        if (signal > 0 && signal != SIGCHLD) {
            r->asked = true;
            signal_all(r, signal);
        }
        reap(r);
        end_others(r);
    }
}

static tess_status run(node_ranks *r, char *const *argv)
{
    int report[2];
    if (pipe2(report, O_CLOEXEC) != 0)
        return tess_os_error("pipe", "for the ranks");
    tess_child_block_signals(&r->signals);
    tess_status status = start_all(r, argv, report[1]);
    tess_os_close(&report[1]);
    if (status == TESS_OK)
        status = tess_child_started(argv[0], report[0]);
    tess_os_close(&report[0]);
    if (status != TESS_OK)
        signal_all(r, SIGKILL);
    watch(r);
    tess_child_restore_signals(&r->signals);
    return status;
}

/* Whether the ranks start again after this end. If so, waits before that. */
static bool starts_again(node_ranks *r, int n_before)
{
    const tess_launch_node *node = r->node;
    bool saved = r->code == 128 + SIGINT; /* any host may have been asked to stop */
    if (r->code == 0 || r->code == REFUSED_CODE || saved || r->asked || n_before >= node->n_restarts)
        return false;
    int pause_s = n_before < 6 ? 1 << n_before : LONGEST_PAUSE_S;
    tess_report_line(&node->reporter,
                     "node %d: its ranks ended with code %d; they start again in %d s: restart %d of %d", node->node,
                     r->code, pause_s, n_before + 1, node->n_restarts);
    nanosleep(&(struct timespec){.tv_sec = pause_s}, NULL);
    r->code = 0;
    r->failed_s = 0;
    r->sent = 0;
    return true;
}

/* Tells the ranks of the next life that all ranks of the job have had this many before. */
static tess_status report_lives(const tess_launch_node *node, int n_before)
{
    static const int64_t none_omitted[JOB_OMITTED];
    int world = count_ranks(node);
    tess_rank_past *past = calloc((size_t)world, sizeof(*past));
    TESS_CHECK(past != NULL, TESS_E_NOMEM, "no memory for %d ranks", world);
    for (int i = 0; i < world; i++)
        past[i].n_before = (uint32_t)n_before;
    tess_status status = tess_lives_report(n_before, none_omitted, past, world);
    free(past);
    return status;
}

/* Runs the ranks until they end well, or do not start again. */
static tess_status run_lives(node_ranks *r, char *const *argv)
{
    for (int n_before = 0;; n_before++) {
        if (n_before > 0)
            TESS_TRY(report_lives(r->node, n_before));
        TESS_TRY(run(r, argv));
        if (!starts_again(r, n_before))
            return TESS_OK;
    }
}

tess_status tess_node_run(const tess_launch_node *node, char *const *argv, int *code)
{
    node_ranks r = {.node = node, .n = node->n_ranks[node->node]};
    for (int i = 0; i < node->node; i++)
        r.first += node->n_ranks[i];
    r.pids = calloc((size_t)r.n, sizeof(*r.pids));
    TESS_CHECK(r.pids != NULL, TESS_E_NOMEM, "no memory for %d ranks", r.n);
    tess_status status = run_lives(&r, argv);
    free(r.pids);
    *code = r.code;
    if (status == TESS_OK && r.code != 0 && r.code != 128 + SIGINT && node->node > 0)
        tess_report_line(&node->reporter,
                         "the ranks of node %d ended with code %d: the first node that is in touch says why",
                         node->node, r.code);
    return status;
}
