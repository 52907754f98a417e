/* The table of the links over TCP, and their start and end in this process. */
#include "comm/tcp/tcp_wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/core/rng.h"
#include "base/core/variables.h"
#include "base/os/os.h"
#include "comm/tcp/tcp_impl.h"
#include "job/environment.h"
#include "job/host_port.h"
#include "job/place.h"

/* A process has one wire (wire/wire.h), and so one state. */
tcp_state tcp = {.listen_fd = -1, .epoll_fd = -1};

/* ---- Groups ---- */
static bool is_valid(const int *ranks, int n)
{
    bool valid = n > 0, has_us = false;
    for (int i = 0; i < n && valid; i++) {
        valid = ranks[i] >= 0 && ranks[i] < tcp.size;
        has_us = has_us || ranks[i] == tcp.rank;
    }
    return valid && has_us;
}

/* The number of a group follows from its members, its tag and how many such groups there were before, so members need
 * not talk. Its lowest bit is 0 (tcp_message.c). */
static uint64_t number_of(const int *ranks, int n, int tag)
{
    uint64_t id = tess_hash_bytes(ranks, (size_t)n * sizeof(*ranks), (uint64_t)tag);
    uint64_t before = 0;
    for (const wire_group *group = tcp.groups; group != NULL; group = group->next)
        before += group->n == n && group->tag == tag && memcmp(group->ranks, ranks, (size_t)n * sizeof(*ranks)) == 0;
    return tess_hash_bytes(&before, sizeof(before), id) & ~(uint64_t)1;
}

static int make_group(const int *ranks, int n, int tag, wire_group **group, char error[WIRE_ERROR_BYTES])
{
    if (!is_valid(ranks, n)) {
        snprintf(error, WIRE_ERROR_BYTES, "a group of %d ranks has members that are not in the job, or not this rank",
                 n);
        return -1;
    }
    wire_group *made = malloc(sizeof(*made) + (size_t)n * sizeof(*ranks));
    if (made == NULL) {
        snprintf(error, WIRE_ERROR_BYTES, "out of memory");
        return -1;
    }
    *made = (wire_group){
        .next = tcp.groups, .id = number_of(ranks, n, tag), .n = n, .tag = tag, .ranks = (int *)(void *)(made + 1)};
    memcpy(made->ranks, ranks, (size_t)n * sizeof(*ranks));
    tcp.groups = made;
    *group = made;
    return 0;
}

/* Groups stay until the end: the numbers of later ones depend on them. */
static void free_group(wire_group **group)
{
    *group = NULL;
}

/* ---- Start and end ---- */
void tcp_hello_fill(tcp_hello *hello)
{
    tess_card card;
    tess_card_fill(&card);
    *hello = (tcp_hello){.magic = "tessera", .version = TCP_VERSION, .pid = (int32_t)getpid()};
    snprintf(hello->release, sizeof(hello->release), "%s", TESS_VERSION);
    snprintf(hello->host, sizeof(hello->host), "%s", card.host);
}

void tcp_hello_of(const tess_environment *e, tcp_hello *hello)
{
    const char *start = tess_variable_value(TESS_VAR_START_ID);
    uint64_t number = start != NULL ? tess_hash_bytes(start, strlen(start), 0) : 0;
    tcp_hello_fill(hello);
    hello->rank = e->rank;
    hello->world = e->world;
    hello->local_world = e->local_world;
    hello->node = e->node;
    hello->n_nodes = e->n_nodes;
    memcpy(hello->job, &number, sizeof(number));
}

/* A rank may have two connections with each other rank. */
static void allow_connections(int world)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)world * 2 + 512;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static tess_status make_state(const wire_process *process, const tess_environment *e)
{
    const size_t world = (size_t)e->world;
    tcp = (tcp_state){.rank = e->rank, .size = e->world, .listen_fd = -1, .epoll_fd = -1};
    tcp.peers = calloc(world, sizeof(*tcp.peers));
    tcp.addresses = calloc(world, sizeof(*tcp.addresses));
    TESS_CHECK(tcp.peers != NULL && tcp.addresses != NULL, TESS_E_NOMEM, "no memory for links to %d ranks", e->world);
    tcp.meeting = (tcp_meeting){.secret = &tcp.secret,
                                .master = e->master,
                                .port = e->master_port,
                                .timeout_s = process->timeout_s,
                                .busy_s = TCP_BUSY_S,
                                .say = process->say,
                                .self = process->self,
                                .addresses = tcp.addresses};
    tcp_hello_of(e, &tcp.meeting.hello);
    return TESS_OK;
}

static tess_status make_world_group(void)
{
    char error[WIRE_ERROR_BYTES];
    int *ranks = malloc((size_t)tcp.size * sizeof(*ranks));
    TESS_CHECK(ranks != NULL, TESS_E_NOMEM, "no memory for a group of %d ranks", tcp.size);
    for (int r = 0; r < tcp.size; r++)
        ranks[r] = r;
    int made = make_group(ranks, tcp.size, 0, &tcp.world, error);
    free(ranks);
    TESS_CHECK(made == 0, TESS_E_NOMEM, "%s", error);
    return TESS_OK;
}

static tess_status open_links(const wire_process *process)
{
    tess_environment e;
    tess_agent_address mine;
    TESS_TRY(tess_environment_read(&e));
    TESS_CHECK(e.starter == TESS_STARTER_TORCHRUN, TESS_E_INVALID,
               "TESSERA_MPI=tcp, but %s is of a starter whose ranks meet over its MPI: leave TESSERA_MPI out, or start "
               "the hosts with `tessera launch --rdzv`",
               e.reported_by);
    TESS_CHECK(e.master[0] != '\0' && e.master_port > 0, TESS_E_INVALID,
               "%s, but MASTER_ADDR or MASTER_PORT is not set: they say where rank 0 waits for the other ranks",
               e.reported_by);
    TESS_TRY(make_state(process, &e));
    TESS_TRY(tcp_secret_open(&tcp.secret));
    if (process->tls)
        TESS_TRY(tcp_tls_open(&tcp.secret));
    allow_connections(tcp.size);
    TESS_TRY(tess_host_listen(&mine, &tcp.listen_fd));
    TESS_TRY(tcp_meet(&tcp.meeting, &mine));
    tcp.meeting.hello.purpose = TCP_TO_SEND;
    memcpy(tcp.meeting.hello.job, tcp.meeting.job, sizeof(tcp.meeting.job));
    tcp.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    if (tcp.epoll_fd < 0 || epoll_ctl(tcp.epoll_fd, EPOLL_CTL_ADD, tcp.listen_fd, &event) != 0)
        return tess_os_error("watch", "the links to other hosts");
    return make_world_group();
}

static void close_tcp(TESS_UNUSED bool orderly)
{
    tcp_links_close();
    tess_os_close(&tcp.listen_fd);
    tess_os_close(&tcp.epoll_fd);
    for (int r = 0; r < tcp.size && tcp.peers != NULL; r++)
        tcp_early_free(&tcp.peers[r]);
    while (tcp.groups != NULL) {
        wire_group *group = tcp.groups;
        tcp.groups = group->next;
        free(group);
    }
    while (tcp.idle != NULL) {
        wire_request *request = tcp.idle;
        tcp.idle = request->next;
        free(request->parts);
        free(request);
    }
    tcp_tls_close(&tcp.secret);
    free(tcp.peers);
    free(tcp.addresses);
    tcp.peers = NULL;
    tcp.addresses = NULL;
}

static int open_tcp(wire_process *process, char error[WIRE_ERROR_BYTES])
{
    tess_status status = open_links(process);
    process->rank = tcp.rank;
    process->size = tcp.size;
    process->first_core = -1;
    process->funneled = false;
    process->most_tag = INT32_MAX;
    process->world = tcp.world;
    snprintf(process->library, sizeof(process->library), process->tls ? "TCP, TLS 1.3" : "TCP");
    if (status == TESS_OK)
        return 0;
    snprintf(error, WIRE_ERROR_BYTES, "%s", tess_error_message());
    tess_error_clear();
    close_tcp(false);
    process->failure = status;
    return -1;
}

/* Reductions are done by Tessera's own trees only (comm.reduction=tree). */
static int refuse(char error[WIRE_ERROR_BYTES])
{
    snprintf(error, WIRE_ERROR_BYTES, "comm.reduction=native is for MPI: use comm.reduction=tree");
    return -1;
}

static int all_reduce(TESS_UNUSED wire_group *group, TESS_UNUSED const void *in, TESS_UNUSED void *out,
                      TESS_UNUSED size_t n, TESS_UNUSED wire_type type, TESS_UNUSED wire_op op,
                      TESS_UNUSED wire_request **request, char error[WIRE_ERROR_BYTES])
{
    return refuse(error);
}

const wire_table tess_tcp_wire = {
    .version = WIRE_VERSION,
    .name = "tcp",
    .open = open_tcp,
    .close = close_tcp,
    .make_group = make_group,
    .free_group = free_group,
    .send = tcp_send,
    .recv = tcp_recv,
    .all_gather = tcp_all_gather,
    .all_reduce = all_reduce,
    .reduce_scatter = all_reduce,
    .test = tcp_test,
    .poll = tcp_progress,
    .cancel = tcp_cancel,
};
