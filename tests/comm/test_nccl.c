/* Links of NCCL, with libraries that play a driver and NCCL: no GPU is needed, and none is used. */
#include <stdlib.h>

#include "comm/nccl/nccl_link.h"
#include "support/test.h"
#include "tessera/comm.h"

/* A rank with a GPU, a stream and the job's id. */
typedef struct seat {
    tess_runtime *rt;
    tess_device *device;
    tess_stream *stream;
    tess_nccl_seat nccl;
} seat;

static void meet(const seat *s)
{
    tess_work *work;
    EXPECT_OK(tess_barrier(tess_runtime_team(s->rt), &work));
    EXPECT_OK(tess_work_wait(&work, 0));
}

static seat sit(int gpu)
{
    seat s = {.rt = NULL};
    tess_work *work;
    EXPECT_INT(setenv("CUDA_FAKE", "devices=8", 1), 0);
    EXPECT_OK(tess_runtime_create(NULL, &s.rt));
    tess_team *team = tess_runtime_team(s.rt);
    EXPECT_OK(tess_device_open(test_mem(), "cuda", gpu, &s.device));
    EXPECT_OK(tess_device_stream(s.device, 1, NULL, &s.stream));
    s.nccl =
        (tess_nccl_seat){.name = "dp", .rank = tess_team_rank(team), .size = tess_team_size(team), .deadline_s = 300};
    if (s.nccl.rank == 0)
        EXPECT_OK(tess_nccl_id_create(&s.nccl.id));
    EXPECT_OK(tess_broadcast(team, &s.nccl.id, sizeof(s.nccl.id), TESS_U8, 0, &work));
    EXPECT_OK(tess_work_wait(&work, 0));
    return s;
}

static void stand_up(seat *s)
{
    tess_stream_destroy(&s->stream);
    EXPECT_INT(tess_device_close(&s->device), 0);
    tess_runtime_destroy(&s->rt);
}

/* Creates a link, or none. */
static tess_status connect_link(const seat *s, tess_device *device, tess_nccl_link **link)
{
    TESS_TRY(tess_nccl_link_create(test_mem(), device, &s->nccl, link));
    tess_status status = tess_nccl_wait(*link);
    if (status != TESS_OK)
        tess_nccl_link_destroy(link, false);
    return status;
}

static tess_status exchange(tess_nccl_link *link, tess_stream *stream, const tess_nccl_message *messages, int n)
{
    TESS_TRY(tess_nccl_begin(link, stream, messages, n));
    return tess_nccl_wait(link);
}

/* ---- Messages ---- */
enum { PARTS = 3, MOST = 4 };

static char mark(int from, int to, int part)
{
    return (char)(1 + 20 * from + 4 * to + part);
}

static void expect_messages(const seat *s, const tess_nccl_message *messages, int n)
{
    for (int i = 0; i < n; i++) {
        const tess_nccl_message *m = &messages[i];
        char *back = malloc(m->bytes + 1);
        if (!m->sends && m->bytes > 0)
            EXPECT_OK(tess_fetch(s->stream, back, m->data, m->bytes));
        for (size_t k = 0; !m->sends && k < m->bytes; k++)
            EXPECT_INT(back[k], mark(m->peer, s->nccl.rank, i / 2 % PARTS));
        if (!m->sends)
            EXPECT_OK(tess_stream_fill(s->stream, m->data, 0, m->bytes));
        free(back);
    }
}

/* All to all, itself included, three messages a pair of which one is empty; twice. */
static void messages_reach_their_peers_in_order(void)
{
    static const size_t sizes[PARTS] = {300001, 0, 17};
    seat s = sit(test_rank());
    tess_nccl_link *link;
    tess_nccl_message messages[2 * MOST * PARTS];
    int n = 0, me = s.nccl.rank;
    EXPECT_OK(connect_link(&s, s.device, &link));
    for (int i = 0; i < s.nccl.size * PARTS * 2; i++) {
        int peer = i / 2 / PARTS, part = i / 2 % PARTS;
        tess_nccl_message *m = &messages[n++];
        *m = (tess_nccl_message){.bytes = sizes[part], .peer = peer, .sends = i % 2 == 0};
        EXPECT_OK(tess_device_alloc(s.device, TESS_POOL_COMM, m->bytes, "message", &m->data));
        EXPECT_OK(tess_stream_fill(s.stream, m->data, m->sends ? mark(me, peer, part) : 0, m->bytes));
    }
    for (int turn = 0; turn < 2; turn++) {
        EXPECT_OK(exchange(link, s.stream, messages, n));
        expect_messages(&s, messages, n);
    }
    tess_nccl_link_destroy(&link, true);
    for (int i = 0; i < n; i++)
        tess_device_free(s.device, messages[i].data);
    stand_up(&s);
}

/* ---- Ranks that do not come, or leave ---- */
typedef struct board {
    bool knows; /* it knows that rank 1 was lost */
    int n_looks;
} board;

static tess_status look(void *self, double waited_s)
{
    board *b = self;
    EXPECT(waited_s >= 0);
    return b->n_looks++ > 3 && b->knows ? TESS_FAIL(TESS_E_PEER_LOST, "rank 1 was lost") : TESS_OK;
}

static void a_rank_that_does_not_come_is_waited_for_until_the_deadline_or_the_board_says(void)
{
    seat s = sit(test_rank());
    tess_nccl_link *link;
    board b = {.knows = true};
    if (s.nccl.rank == 0) {
        s.nccl.deadline_s = 0.05;
        EXPECT_FAILS(connect_link(&s, s.device, &link), TESS_E_TIMEOUT,
                     "team 'dp': connect to the other ranks: not all 2 ranks came within 0.05 s");
        EXPECT(link == NULL);
        s.nccl.deadline_s = 300;
        s.nccl.look = look;
        s.nccl.self = &b;
        EXPECT_FAILS(connect_link(&s, s.device, &link), TESS_E_PEER_LOST,
                     "team 'dp': connect to the other ranks: rank 1 was lost");
    }
    meet(&s);
    stand_up(&s);
}

/* Rank 0 waits for a message that rank 1 does not send. */
static void expect_lost(bool ends, const char *needle)
{
    seat s = sit(test_rank());
    tess_nccl_link *link;
    tess_nccl_message m = {.bytes = 1000, .peer = 1};
    board b = {.knows = false};
    s.nccl.look = look;
    s.nccl.self = &b;
    EXPECT_OK(connect_link(&s, s.device, &link));
    if (s.nccl.rank == 0) {
        b.knows = !ends;
        EXPECT_OK(tess_device_alloc(s.device, TESS_POOL_COMM, m.bytes, "message", &m.data));
        EXPECT_FAILS(exchange(link, s.stream, &m, 1), TESS_E_PEER_LOST, needle);
        EXPECT_FAILS(exchange(link, s.stream, &m, 1), TESS_E_INVALID, "has failed before");
        tess_device_free(s.device, m.data);
        tess_nccl_link_destroy(&link, true);
    }
    if (ends)
        tess_nccl_link_destroy(&link, false);
    meet(&s);
    tess_nccl_link_destroy(&link, false);
    stand_up(&s);
}

static void a_message_that_does_not_come_is_waited_for_until_the_board_says(void)
{
    expect_lost(false, "team 'dp': exchange messages: rank 1 was lost");
}

static void a_peer_that_leaves_is_an_error_of_the_exchange(void)
{
    expect_lost(true, "remote process exited or there was a network error (6)");
}

/* ---- NCCL's refusals ---- */
static void ranks_that_share_a_gpu_are_refused_unless_they_have_hosts_of_their_own(void)
{
    seat s = sit(0);
    tess_nccl_link *link;
    EXPECT_FAILS(connect_link(&s, s.device, &link), TESS_E_INVALID,
                 "both on 0000:10:00.0; two ranks may share a GPU, which NCCL refuses: start one rank a GPU");
    meet(&s);
    EXPECT_INT(setenv("NCCL_HOSTID", test_rank() == 0 ? "a" : "b", 1), 0);
    EXPECT_OK(connect_link(&s, s.device, &link));
    tess_nccl_link_destroy(&link, true);
    stand_up(&s);
}

/* One rank, with a link to itself. */
static void errors_name_the_call_the_library_and_the_fix(void)
{
    seat s = sit(0);
    tess_nccl_link *link;
    tess_nccl_message m = {.bytes = 10, .sends = true};
    tess_device *host;
    board b = {.knows = true};
    s.nccl.look = look;
    s.nccl.self = &b;
    EXPECT_OK(tess_device_alloc(s.device, TESS_POOL_COMM, m.bytes, "message", &m.data));
    const tess_nccl_message both[] = {m, {.data = m.data, .bytes = m.bytes}};
    static const struct {
        const char *fake;
        tess_status status;
        const char *text;
    } cases[] = {
        {"fail=ncclGroupEnd:1:2", TESS_E_IO, "NCCL_SOCKET_IFNAME chooses the network"},
        {"fail=ncclSend:1:1", TESS_E_INTERNAL, "a call of CUDA failed"},
        {"fail=ncclCommGetAsyncError:1:6", TESS_E_PEER_LOST, "(6)"},
        {"fail=ncclGroupEnd:1:hang", TESS_E_PEER_LOST, "rank 1 was lost"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        b.n_looks = INT_MIN; /* says nothing before the exchange */
        EXPECT_INT(unsetenv("NCCL_FAKE"), 0);
        EXPECT_OK(connect_link(&s, s.device, &link));
        b.n_looks = 0;
        EXPECT_INT(setenv("NCCL_FAKE", cases[i].fake, 1), 0);
        EXPECT_FAILS(exchange(link, s.stream, both, 2), cases[i].status, cases[i].text);
        EXPECT_CONTAINS(tess_error_message(), "team 'dp': exchange messages: ");
        tess_nccl_link_destroy(&link, true);
    }
    EXPECT_INT(setenv("NCCL_FAKE", "fail=ncclCommInitRankConfig:1:3", 1), 0);
    EXPECT_FAILS(connect_link(&s, s.device, &link), TESS_E_INTERNAL, "libnccl.so.2): as the test wished (3)");
    EXPECT_OK(tess_device_open(test_mem(), "cpu", 0, &host));
    EXPECT_FAILS(connect_link(&s, host, &link), TESS_E_INVALID, "is not a GPU of NVIDIA's");
    EXPECT_INT(tess_device_close(&host), 0);
    tess_device_free(s.device, m.data);
    stand_up(&s);
}

/* ---- The library ---- */
static void expect_refused(const char *variable, const char *fake, tess_status status, const char *text)
{
    const nccl_library *nccl;
    EXPECT_INT(setenv("TESSERA_NCCL", variable, 1), 0);
    EXPECT_INT(setenv("NCCL_FAKE", fake, 1), 0);
    EXPECT_FAILS(tess_nccl_open(&nccl), status, text);
}

static void a_library_that_is_missing_old_or_wrong_is_named(void)
{
    char path[4096];
    const nccl_library *nccl;
    snprintf(path, sizeof(path), "%s", getenv("TESSERA_NCCL"));
    EXPECT_INT(clearenv(), 0);
    expect_refused("off", "", TESS_E_NOT_FOUND, "TESSERA_NCCL is off");
    expect_refused("nccl", "", TESS_E_INVALID, "TESSERA_NCCL is 'nccl', expected off or the path of libnccl.so.2");
    expect_refused(test_path("CMakeLists.txt"), "", TESS_E_UNSUPPORTED, "cannot load NCCL");
    expect_refused(path, "version=21703", TESS_E_UNSUPPORTED,
                   "is NCCL 2.17, too old: 2.18 or newer is needed; install NCCL (Debian: libnccl2");
    EXPECT_INT(setenv("NCCL_FAKE", "", 1), 0);
    EXPECT_INT(setenv("NCCL_COMM_BLOCKING", "1", 1), 0);
    EXPECT_FAILS(tess_nccl_open(&nccl), TESS_E_INVALID, "NCCL_COMM_BLOCKING is '1', with which NCCL waits for ever");
    EXPECT_INT(setenv("NCCL_COMM_BLOCKING", "0", 1), 0);
    EXPECT_INT(setenv("NCCL_COMM_ID", "h:1", 1), 0);
    EXPECT_FAILS(tess_nccl_open(&nccl), TESS_E_INVALID, "NCCL_COMM_ID is 'h:1'");
    EXPECT_INT(unsetenv("NCCL_COMM_ID"), 0);
    EXPECT_OK(tess_nccl_open(&nccl));
    EXPECT_INT(nccl->version_number, 22809);
    EXPECT_TEXT(nccl->path, path);
}

static const test_case cases[] = {
    CASE(messages_reach_their_peers_in_order, 2),
    {"messages_of_four_ranks_reach_their_peers_in_order", messages_reach_their_peers_in_order, 4},
    CASE(a_rank_that_does_not_come_is_waited_for_until_the_deadline_or_the_board_says, 2),
    CASE(a_message_that_does_not_come_is_waited_for_until_the_board_says, 2),
    CASE(a_peer_that_leaves_is_an_error_of_the_exchange, 2),
    CASE(ranks_that_share_a_gpu_are_refused_unless_they_have_hosts_of_their_own, 2),
    CASE(errors_name_the_call_the_library_and_the_fix, 1),
    CASE(a_library_that_is_missing_old_or_wrong_is_named),
};

TEST_MAIN(cases)
