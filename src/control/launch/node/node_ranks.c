#include "control/launch/node/node_ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/core/variables.h"
#include "base/os/os.h"
#include "job/rank_end.h"

enum { LOOK_MS = 100 };

/* Times from the first error to SIGTERM and to SIGKILL for the others. */
static const double terminate_s = 1, kill_s = 8;

void node_ranks_begin(const tess_launch_node *node, node_ranks *r)
{
    *r = (node_ranks){.node = node};
    tess_child_block_signals(&r->signals);
}

tess_status node_ranks_sit(node_ranks *r, int seat)
{
    const tess_launch_node *node = r->node;
    r->seat = seat;
    r->n = node->n_ranks[seat];
    r->first = 0;
    for (int i = 0; i < seat; i++)
        r->first += node->n_ranks[i];
    r->code = r->sent = 0;
    r->failed_s = 0;
    free(r->pids);
    r->pids = calloc((size_t)r->n, sizeof(*r->pids));
    TESS_CHECK(r->pids != NULL, TESS_E_NOMEM, "no memory for %d ranks", r->n);
    return TESS_OK;
}

void node_ranks_end(node_ranks *r)
{
    tess_child_restore_signals(&r->signals);
    free(r->pids);
    r->pids = NULL;
}

static void set_number(tess_variable variable, int number)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", number);
    setenv(tess_variable_name(variable), text, 1);
}

int node_count_ranks(const tess_launch_node *node)
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
    set_number(TESS_VAR_TORCH_WORLD, node_count_ranks(node));
    set_number(TESS_VAR_TORCH_LOCAL_RANK, index);
    set_number(TESS_VAR_TORCH_LOCAL_WORLD, r->n);
    set_number(TESS_VAR_TORCH_NODE, r->seat);
    set_number(TESS_VAR_TORCH_NODES, node->n_nodes);
    set_number(TESS_VAR_MASTER_PORT, node->port + (node->n_spares > 0)); /* launchers have the port itself */
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

int node_ranks_look(node_ranks *r)
{
    const struct timespec look = {.tv_nsec = LOOK_MS * 1000000L};
    siginfo_t info;
    int signal = sigtimedwait(&r->signals.watched, &info, &look);
    if (r->look != NULL)
        r->look(r->self);
    if (signal <= 0 || signal == SIGCHLD)
        return 0;
    r->asked = true;
    return signal;
}

void node_ranks_fail(node_ranks *r, int code)
{
    if (r->n_running == 0 || r->failed_s != 0)
        return;
    r->code = code;
    r->failed_s = tess_os_now_s();
}

static void watch(node_ranks *r)
{
    while (r->n_running > 0) {
        int signal = node_ranks_look(r);
        if (signal != 0)
            signal_all(r, signal);
        reap(r);
        end_others(r);
    }
}

tess_status node_ranks_run(node_ranks *r, char *const *argv)
{
    int report[2];
    if (pipe2(report, O_CLOEXEC) != 0)
        return tess_os_error("pipe", "for the ranks");
    tess_status status = start_all(r, argv, report[1]);
    tess_os_close(&report[1]);
    if (status == TESS_OK)
        status = tess_child_started(argv[0], report[0]);
    tess_os_close(&report[0]);
    if (status != TESS_OK)
        signal_all(r, SIGKILL);
    watch(r);
    return status;
}
