/* Agents exchange boards over loopback: several hosts in one process, each with its own job memory. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/os/os.h"
#include "base/os/sockets.h"
#include "control/launch/agent/agent_impl.h"
#include "support/test.h"

enum { MOST_HOSTS = 4 };
static const double long_s = 60; /* timeout of what comes at once on an idle machine */

typedef struct host {
    tess_job job;
    agent *agent;
    tess_agent_address address;
} host;

static const uint8_t secret[AGENT_SECRET_BYTES] = {1, 2, 3};

/* ---- Hosts in this process ---- */
/* `ranks` on each host, in order. */
static void make_host(host *h, int number, int n_hosts, int ranks)
{
    EXPECT_OK(tess_job_create(n_hosts * ranks, &h->job));
    tess_job_header *header = h->job.header;
    header->n_hosts = (uint32_t)n_hosts;
    header->host = (uint32_t)number;
    for (int i = 0; i < n_hosts; i++)
        snprintf(header->hosts[i].name, JOB_NAME_BYTES, "h%d", i);
    for (int r = 0; r < n_hosts * ranks; r++)
        h->job.rows[r].host = r / ranks;
    EXPECT_OK(agent_listen(test_mem(), &h->job, &h->agent, &h->address));
}

static void make_hosts(host *hosts, int n, int ranks)
{
    tess_agent_address addresses[MOST_HOSTS];
    setenv("TESSERA_IFNAME", "lo", 1);
    for (int h = 0; h < n; h++) {
        make_host(&hosts[h], h, n, ranks);
        addresses[h] = hosts[h].address;
    }
    for (int h = 0; h < n; h++)
        EXPECT_OK(agent_meet(hosts[h].agent, addresses, n, secret));
}

static void step(host *hosts, int n)
{
    struct pollfd fds[AGENT_POLLS];
    for (int h = 0; h < n; h++) {
        if (hosts[h].agent == NULL)
            continue;
        int n_fds = agent_watch(hosts[h].agent, fds);
        poll(fds, (nfds_t)n_fds, 1);
        agent_serve(hosts[h].agent, fds);
    }
}

static void run_for(host *hosts, int n, double seconds)
{
    double until = tess_os_now_s() + seconds;
    while (tess_os_now_s() < until)
        step(hosts, n);
}

/* Steps until *word is `value`. */
static void run_until(host *hosts, int n, const _Atomic uint32_t *word, uint32_t value)
{
    double begin = tess_os_now_s();
    while (atomic_load(word) != value && tess_os_now_s() - begin < long_s)
        step(hosts, n);
    EXPECT_INT(atomic_load(word), value);
}

static void all_up(host *hosts, int n)
{
    for (int h = 0; h < n; h++)
        run_until(hosts, n, &hosts[h].job.header->agent_state, JOB_AGENT_UP);
}

static void free_hosts(host *hosts, int n)
{
    for (int h = 0; h < n; h++) {
        agent_close(&hosts[h].agent, false);
        tess_job_close(&hosts[h].job, true);
    }
}

static void join(host *h, int rank)
{
    tess_job_row *row = &h->job.rows[rank];
    atomic_store(&row->pid, 1000 + rank);
    tess_board_phase(row, "forward", 7, 2, 0);
    atomic_store(&row->state, JOB_RANK_JOINED);
}

/* ---- Boards ---- */
static void every_host_sees_the_rows_of_all(void)
{
    host hosts[3];
    make_hosts(hosts, 3, 2);
    all_up(hosts, 3);
    for (int r = 0; r < 6; r++)
        join(&hosts[r / 2], r);
    tess_fingerprint op = {.team = 5, .sequence = 12, .count = 1024, .kind = TESS_TRACE_BARRIER, .root = -1};
    tess_board_op(&hosts[2].job.rows[5], &op, "world", 0);
    tess_board_error(&hosts[2].job.rows[5], "what went wrong", 3);
    atomic_store(&hosts[2].job.rows[5].broken_team, 77);
    for (int h = 0; h < 3; h++)
        for (int r = 0; r < 6; r++) {
            const tess_job_row *row = &hosts[h].job.rows[r];
            run_until(hosts, 3, &row->state, JOB_RANK_JOINED);
            EXPECT_INT(atomic_load(&row->pid), 1000 + r);
            EXPECT_INT(atomic_load(&row->step), 7);
            EXPECT_INT(atomic_load(&row->detail), 2);
        }
    const tess_job_row *copy = &hosts[0].job.rows[5];
    EXPECT_TEXT(copy->error, "what went wrong");
    EXPECT_INT(atomic_load(&copy->blames), 4);
    EXPECT_INT(atomic_load(&copy->broken_team), 77);
    char text[512];
    EXPECT_CONTAINS(tess_board_describe(&hosts[0].job, 5, text, sizeof(text)),
                    "on host h2 is in barrier #12 of team 'world'");
    EXPECT_CONTAINS(text, "in phase 'forward' of step 7 (2)");
    free_hosts(hosts, 3);
}

/* Hosts have unrelated clocks: frames carry ages only. */
static void signs_of_life_come_as_ages(void)
{
    host hosts[2];
    make_hosts(hosts, 2, 1);
    all_up(hosts, 2);
    join(&hosts[0], 0);
    uint64_t joined_ns = tess_os_now_ns(), beat_ns = joined_ns - UINT64_C(5000000000);
    atomic_store(&hosts[0].job.rows[0].heartbeat_ns, beat_ns);
    run_until(hosts, 2, &hosts[1].job.rows[0].state, JOB_RANK_JOINED);
    uint64_t seen_ns = atomic_load(&hosts[1].job.rows[0].heartbeat_ns), under_way_ns = tess_os_now_ns() - joined_ns;
    EXPECT(seen_ns >= beat_ns && seen_ns <= beat_ns + under_way_ns);
    char text[512];
    const char *seen = strstr(tess_board_describe(&hosts[1].job, 0, text, sizeof(text)), "last seen ");
    EXPECT(seen != NULL && atof(seen + strlen("last seen ")) >= 4.9);
    /* An encoded frame says the same at any time of the clock. */
    agent_frame frame = {.kind = FRAME_ROW};
    tess_board_export(&hosts[0].job.rows[0], &frame.row.copy);
    EXPECT(frame.row.copy.age_ns >= UINT64_C(5000000000) && frame.row.copy.age_ns <= tess_os_now_ns() - beat_ns);
    free_hosts(hosts, 2);
}

static void put_off_rounds(host *h)
{
    h->agent->next_round_s = tess_os_now_s() + 10 * long_s;
}

static void changes_that_matter_travel_at_once(void)
{
    host hosts[2];
    make_hosts(hosts, 2, 1);
    all_up(hosts, 2);
    put_off_rounds(&hosts[1]);
    join(&hosts[1], 1);
    run_until(hosts, 2, &hosts[0].job.rows[1].state, JOB_RANK_JOINED);
    put_off_rounds(&hosts[1]);
    atomic_store(&hosts[1].job.header->stop, 1);
    run_until(hosts, 2, &hosts[0].job.header->stop, 1);
    /* The sleepers of the host are woken. */
    uint32_t before = tess_job_sleep_begin(&hosts[0].job, 0);
    atomic_store(&hosts[1].job.rows[1].state, JOB_RANK_LEFT);
    run_until(hosts, 2, &hosts[0].job.rows[1].state, JOB_RANK_LEFT);
    EXPECT(atomic_load(&hosts[0].job.rows[0].doorbell) != before);
    free_hosts(hosts, 2);
}

static void a_request_to_leave_later_does_not_take_back_one_to_stop(void)
{
    host hosts[3];
    make_hosts(hosts, 3, 1);
    all_up(hosts, 3);
    atomic_store(&hosts[0].job.header->stop, JOB_STOP_AFTER_SAVE);
    run_until(hosts, 3, &hosts[1].job.header->stop, JOB_STOP_AFTER_SAVE);
    run_until(hosts, 3, &hosts[2].job.header->stop, JOB_STOP_AFTER_SAVE);
    atomic_store(&hosts[1].job.header->stop, JOB_STOP_NOW);
    run_until(hosts, 3, &hosts[0].job.header->stop, JOB_STOP_NOW);
    run_until(hosts, 3, &hosts[2].job.header->stop, JOB_STOP_NOW);
    run_for(hosts, 3, 0.3);
    for (int h = 0; h < 3; h++)
        EXPECT_INT(atomic_load(&hosts[h].job.header->stop), JOB_STOP_NOW);
    free_hosts(hosts, 3);
}

static void a_rank_that_ended_does_not_come_back(void)
{
    host hosts[2];
    make_hosts(hosts, 2, 2);
    all_up(hosts, 2);
    tess_job_row *row = &hosts[1].job.rows[2], *next = &hosts[1].job.rows[3];
    join(&hosts[1], 2);
    atomic_store(&row->signal, 11);
    atomic_store(&row->exit_code, 139);
    atomic_store(&row->state, JOB_RANK_LOST);
    run_until(hosts, 2, &hosts[0].job.rows[2].state, JOB_RANK_LOST);
    EXPECT_INT(atomic_load(&hosts[0].job.header->first_lost), 2);
    EXPECT_INT(atomic_load(&hosts[0].job.rows[2].signal), 11);
    atomic_store(&row->state, JOB_RANK_JOINED);
    atomic_store(&next->state, JOB_RANK_JOINED);
    run_until(hosts, 2, &hosts[0].job.rows[3].state, JOB_RANK_JOINED);
    atomic_store(&next->state, JOB_RANK_LEFT); /* a whole round later */
    run_until(hosts, 2, &hosts[0].job.rows[3].state, JOB_RANK_LEFT);
    EXPECT_INT(atomic_load(&hosts[0].job.rows[2].state), JOB_RANK_LOST);
    char text[512];
    EXPECT_CONTAINS(tess_board_describe_end(&hosts[0].job, 2, text, sizeof(text)),
                    "rank 2 on host h1 was killed by signal 11 (SIGSEGV) before its first operation");
    free_hosts(hosts, 2);
}

/* ---- Hosts that disappear ---- */
static void ranks_are_lost_with_their_host(void)
{
    host hosts[3];
    make_hosts(hosts, 3, 2);
    all_up(hosts, 3);
    for (int r = 0; r < 6; r++)
        join(&hosts[r / 2], r);
    atomic_store(&hosts[1].job.rows[2].state, JOB_RANK_LEFT);
    for (int h = 0; h < 3; h += 2) {
        run_until(hosts, 3, &hosts[h].job.rows[2].state, JOB_RANK_LEFT);
        run_until(hosts, 3, &hosts[h].job.rows[3].state, JOB_RANK_JOINED);
        run_until(hosts, 3, &hosts[h].job.rows[4].state, JOB_RANK_JOINED);
    }
    agent_close(&hosts[1].agent, false);
    run_until(hosts, 3, &hosts[0].job.header->hosts[1].state, JOB_HOST_GONE);
    run_until(hosts, 3, &hosts[2].job.rows[3].state, JOB_RANK_LOST);
    EXPECT_INT(atomic_load(&hosts[0].job.rows[2].state), JOB_RANK_LEFT);
    EXPECT_INT(atomic_load(&hosts[0].job.rows[3].state), JOB_RANK_LOST);
    EXPECT_INT(atomic_load(&hosts[0].job.rows[4].state), JOB_RANK_JOINED);
    EXPECT_INT(atomic_load(&hosts[0].job.header->first_lost), 3);
    char text[512];
    EXPECT_CONTAINS(tess_board_describe_end(&hosts[0].job, 3, text, sizeof(text)),
                    "rank 3 on host h1 was lost with its host (the connection to its agent closed)");
    free_hosts(hosts, 3);
}

static void a_host_that_leaves_in_good_order_loses_nobody(void)
{
    host hosts[2];
    make_hosts(hosts, 2, 1);
    all_up(hosts, 2);
    join(&hosts[0], 0);
    join(&hosts[1], 1);
    run_until(hosts, 2, &hosts[0].job.rows[1].state, JOB_RANK_JOINED);
    atomic_store(&hosts[1].job.rows[1].state, JOB_RANK_LEFT);
    atomic_store(&hosts[1].job.rows[1].ended, 1);
    agent_say_goodbye(hosts[1].agent);
    agent_close(&hosts[1].agent, false);
    run_until(hosts, 2, &hosts[0].job.header->hosts[1].state, JOB_HOST_GONE);
    EXPECT_INT(atomic_load(&hosts[0].job.rows[1].state), JOB_RANK_LEFT);
    EXPECT_INT(atomic_load(&hosts[0].job.rows[1].ended), 1);
    EXPECT_INT(atomic_load(&hosts[0].job.header->first_lost), -1);
    free_hosts(hosts, 2);
}

static void silence_is_told_and_loses_nobody(void)
{
    host hosts[2];
    make_hosts(hosts, 2, 1);
    all_up(hosts, 2);
    join(&hosts[1], 1);
    atomic_store(&hosts[1].job.rows[1].run_state, 'T');
    run_until(hosts, 2, &hosts[0].job.rows[1].state, JOB_RANK_JOINED);
    const _Atomic uint64_t *heard_ns = &hosts[0].job.header->hosts[1].heard_ns;
    char text[512];
    EXPECT_CONTAINS(tess_board_describe(&hosts[0].job, 1, text, sizeof(text)), ", is stopped (state T)");
    double silent_s = 0;
    do {
        step(hosts, 1);
        tess_board_describe(&hosts[0].job, 1, text, sizeof(text));
        silent_s = (double)(tess_os_now_ns() - atomic_load(heard_ns)) * 1e-9;
    } while (strstr(text, "nothing heard") == NULL && silent_s < long_s);
    EXPECT(silent_s >= 1);
    EXPECT_CONTAINS(text, "nothing heard of host h1 for ");
    EXPECT_CONTAINS(text, "(down, or the link is cut)");
    EXPECT_INT(atomic_load(&hosts[0].job.rows[1].state), JOB_RANK_JOINED);
    free_hosts(hosts, 2);
}

/* Other programs take all cores for a while; then every process continues. */
static void who_did_not_run_itself_takes_nobody_for_silent(void)
{
    host hosts[2];
    make_hosts(hosts, 2, 1);
    all_up(hosts, 2);
    for (int i = 0; i < 10; i++) /* takes in what the other has sent: no more comes */
        step(hosts, 1);
    const uint64_t stall_ns = UINT64_C(100000000000);
    atomic_fetch_sub(&hosts[0].job.header->hosts[1].heard_ns, stall_ns);
    EXPECT(!ending_in_touch(&hosts[0].job, 1));
    hosts[0].agent->served_ns -= stall_ns;
    step(hosts, 1);
    EXPECT(ending_in_touch(&hosts[0].job, 1));
    free_hosts(hosts, 2);
}

/* ---- Strangers ---- */
/* A connection that sends the hello of host 0, with one field changed by the caller. */
static agent_link *pose_as_first(const host *h, agent_frame *frame)
{
    agent_link *link = calloc(1, sizeof(*link));
    EXPECT(link != NULL);
    int fd = tess_os_connect(h->address.address[0], h->address.port);
    EXPECT(fd >= 0);
    agent_link_open(link, fd);
    EXPECT(agent_link_put(link, frame));
    return link;
}

static agent_frame good_hello(int world)
{
    agent_frame frame = {.kind = FRAME_HELLO,
                         .hello = {.version = FRAME_VERSION, .host = 0, .n_hosts = 2, .world = (uint32_t)world}};
    memcpy(frame.hello.secret, secret, sizeof(secret));
    return frame;
}

/* True when host `h` hangs up on the link. */
static bool is_hung_up(host *h, agent_link *link)
{
    double until = tess_os_now_s() + long_s;
    while (tess_os_now_s() < until) {
        step(h, 1);
        if (!agent_link_send(link) || !agent_link_receive(link))
            return true;
    }
    return false;
}

/* Host 1 of two, without host 0: the test calls in its place. */
static void await_first(host *h, int ranks)
{
    tess_agent_address addresses[2];
    setenv("TESSERA_IFNAME", "lo", 1);
    make_host(h, 1, 2, ranks);
    memset(addresses, 0, sizeof(addresses));
    EXPECT_OK(agent_meet(h->agent, addresses, 2, secret));
}

static void strangers_are_hung_up_on(void)
{
    for (int what = 0; what < 6; what++) {
        host h;
        await_first(&h, 1);
        agent_frame frame = good_hello(2);
        if (what == 0)
            frame.hello.secret[AGENT_SECRET_BYTES - 1] ^= 1;
        else if (what == 1)
            frame.hello.world = 3;
        else if (what == 2)
            frame.hello.version++;
        else if (what == 3)
            frame.hello.host = 1;
        else if (what == 4)
            frame.hello.host = 0xffffffff;
        else
            frame = (agent_frame){.kind = FRAME_HOST, .host = {.stop = 1}};
        agent_link *link = pose_as_first(&h, &frame);
        EXPECT(is_hung_up(&h, link));
        EXPECT_INT(atomic_load(&h.job.header->hosts[0].state), JOB_HOST_UNHEARD);
        EXPECT_INT(atomic_load(&h.job.header->stop), 0);
        agent_link_close(link);
        free(link);
        free_hosts(&h, 1);
    }
}

/* Steps until host `h` has said hello on the link. */
static void expect_hello(host *h, agent_link *link)
{
    agent_frame frame;
    int got = 0;
    for (double until = tess_os_now_s() + long_s; tess_os_now_s() < until && got == 0;) {
        EXPECT(agent_link_send(link) && agent_link_receive(link));
        step(h, 1);
        got = agent_link_next(link, &frame);
    }
    EXPECT(got > 0 && frame.kind == FRAME_HELLO);
}

static void expect_first_is_awaited(host *h)
{
    run_for(h, 1, 0.1);
    EXPECT_INT(atomic_load(&h->job.header->hosts[0].state), JOB_HOST_UNHEARD);
    EXPECT_INT(atomic_load(&h->job.header->agent_state), JOB_AGENT_NONE);
    EXPECT_INT(atomic_load(&h->job.rows[0].state), JOB_RANK_ABSENT);
    EXPECT_INT(atomic_load(&h->job.header->first_lost), -1);
}

/* A caller that gets no answer in time hangs up and calls again. Its host is not lost. */
static void calls_that_were_given_up_lose_nobody(void)
{
    host h;
    await_first(&h, 1);
    agent_frame frame = good_hello(2);
    for (int answered = 0; answered < 2; answered++) {
        agent_link *given_up = pose_as_first(&h, &frame);
        if (answered)
            expect_hello(&h, given_up);
        EXPECT(agent_link_send(given_up));
        agent_link_close(given_up);
        free(given_up);
        expect_first_is_awaited(&h);
    }
    agent_link *link = pose_as_first(&h, &frame);
    expect_hello(&h, link);
    frame = (agent_frame){.kind = FRAME_HOST, .host = {.stop = 1}};
    EXPECT(agent_link_put(link, &frame) && agent_link_send(link));
    run_until(&h, 1, &h.job.header->agent_state, JOB_AGENT_UP);
    EXPECT_INT(atomic_load(&h.job.header->stop), 1);
    agent_link_close(link);
    run_until(&h, 1, &h.job.rows[0].state, JOB_RANK_LOST);
    free(link);
    free_hosts(&h, 1);
}

static void a_host_speaks_for_its_own_ranks_only(void)
{
    for (int rank = 0; rank < 4; rank++) {
        host h;
        await_first(&h, 2);
        agent_frame frame = good_hello(4);
        agent_link *link = pose_as_first(&h, &frame);
        expect_hello(&h, link);
        frame = (agent_frame){.kind = FRAME_ROW,
                              .row = {.rank = rank < 3 ? (uint32_t)rank : 4, .copy = {.state = JOB_RANK_JOINED}}};
        agent_link_put(link, &frame);
        if (rank < 2) {
            EXPECT(agent_link_send(link));
            run_until(&h, 1, &h.job.rows[rank].state, JOB_RANK_JOINED);
            EXPECT(agent_link_receive(link));
        } else {
            EXPECT(is_hung_up(&h, link));
            EXPECT_INT(atomic_load(&h.job.rows[0].state), JOB_RANK_LOST);
        }
        if (rank == 2) /* its own, never */
            EXPECT_INT(atomic_load(&h.job.rows[2].state), JOB_RANK_ABSENT);
        agent_link_close(link);
        free(link);
        free_hosts(&h, 1);
    }
}

/* Steps until host `h` has sent one more row. */
static frame_row next_row(host *h, agent_link *link)
{
    agent_frame frame;
    for (double until = tess_os_now_s() + long_s; tess_os_now_s() < until;) {
        int got = agent_link_next(link, &frame);
        if (got > 0 && frame.kind == FRAME_ROW)
            return frame.row;
        EXPECT(got >= 0 && agent_link_send(link) && agent_link_receive(link));
        if (got == 0)
            step(h, 1);
    }
    EXPECT(!"a row comes");
    return (frame_row){0};
}

/* Ranks of other hosts read the board at any time: a lost rank must be there before the error that blames it. */
static void who_was_lost_is_told_before_those_who_lost_it(void)
{
    host h;
    await_first(&h, 3);
    agent_frame frame = good_hello(6);
    agent_link *link = pose_as_first(&h, &frame);
    expect_hello(&h, link);
    EXPECT(agent_link_put(link, &(agent_frame){.kind = FRAME_HOST}));
    while (next_row(&h, link).rank != 5) /* a round ends */
        ;
    atomic_store(&h.job.rows[5].state, JOB_RANK_LOST);
    atomic_store(&h.job.rows[3].broken_team, 77);
    frame_row row = next_row(&h, link);
    EXPECT_INT(row.rank, 5);
    EXPECT_INT(row.copy.state, JOB_RANK_LOST);
    row = next_row(&h, link);
    EXPECT_INT(row.rank, 3);
    EXPECT_INT(row.copy.broken_team, 77);
    agent_link_close(link);
    free(link);
    free_hosts(&h, 1);
}

static void a_host_that_cannot_be_reached_is_named(void)
{
    host hosts[2];
    tess_agent_address addresses[2];
    setenv("TESSERA_IFNAME", "lo", 1);
    make_host(&hosts[0], 0, 2, 1);
    make_host(&hosts[1], 1, 2, 1);
    addresses[0] = hosts[0].address;
    addresses[1] = hosts[1].address;
    agent_close(&hosts[1].agent, false); /* nobody listens there now */
    EXPECT_OK(agent_meet(hosts[0].agent, addresses, 2, secret));
    while (strstr(hosts[0].agent->peers[1].reason, "refused") == NULL)
        step(hosts, 1);
    EXPECT_INT(atomic_load(&hosts[0].job.header->agent_state), JOB_AGENT_NONE);
    hosts[0].agent->begin_s -= 15;
    run_until(hosts, 1, &hosts[0].job.header->agent_state, JOB_AGENT_FAILED);
    EXPECT_CONTAINS(hosts[0].job.header->agent_error, "host h1 (127.0.0.1:");
    EXPECT_CONTAINS(hosts[0].job.header->agent_error, "cannot be reached from host h0: Connection refused in 10 s");
    EXPECT_CONTAINS(hosts[0].job.header->agent_error, "TESSERA_AGENT_PORTS");
    EXPECT_CONTAINS(hosts[0].job.header->agent_error, "TESSERA_IFNAME");
    free_hosts(hosts, 2);
}

/* The other host's system accepts the connection, but its agent gets no core for longer than a call may take. */
static void a_host_that_is_slow_to_answer_is_waited_for(void)
{
    host hosts[2];
    make_hosts(hosts, 2, 1);
    for (double until = tess_os_now_s() + long_s; hosts[0].agent->peers[1].state != PEER_GREETING;) {
        EXPECT(tess_os_now_s() < until);
        step(hosts, 1);
    }
    hosts[0].agent->begin_s -= 15;
    step(hosts, 1);
    EXPECT_INT(atomic_load(&hosts[0].job.header->agent_state), JOB_AGENT_NONE);
    all_up(hosts, 2);
    free_hosts(hosts, 2);
}

static void ports_and_interfaces_can_be_named(void)
{
    host h, again;
    char ports[32];
    int first = 10000 + getpid() % 20000;
    snprintf(ports, sizeof(ports), "%d-%d", first, first + 1);
    setenv("TESSERA_IFNAME", "lo", 1);
    setenv("TESSERA_AGENT_PORTS", ports, 1);
    make_host(&h, 0, 2, 1);
    make_host(&again, 0, 2, 1);
    EXPECT(h.address.port >= first && h.address.port <= first + 1 && h.address.port != again.address.port);
    EXPECT_TEXT(h.address.address[0], "127.0.0.1");
    agent *a = NULL;
    tess_agent_address mine;
    EXPECT_FAILS(agent_listen(test_mem(), &h.job, &a, &mine), TESS_E_IO, "listen on a TCP port");
    setenv("TESSERA_AGENT_PORTS", "9-1", 1);
    EXPECT_FAILS(agent_listen(test_mem(), &h.job, &a, &mine), TESS_E_INVALID, "TESSERA_AGENT_PORTS is '9-1'");
    unsetenv("TESSERA_AGENT_PORTS");
    setenv("TESSERA_IFNAME", "nothere", 1);
    EXPECT_FAILS(agent_listen(test_mem(), &h.job, &a, &mine), TESS_E_NOT_FOUND, "begins with 'nothere'");
    free_hosts(&h, 1);
    free_hosts(&again, 1);
}

/* More than there were ever places for, and none of them says anything. */
static void silent_callers_do_not_keep_a_host_out(void)
{
    enum { SILENT = 40 };
    host hosts[2];
    int fds[SILENT];
    make_hosts(hosts, 2, 1);
    for (int i = 0; i < SILENT; i++) {
        fds[i] = tess_os_connect(hosts[1].address.address[0], hosts[1].address.port);
        EXPECT(fds[i] >= 0);
    }
    for (int i = 0; i < 10; i++)
        step(&hosts[1], 1);
    double begin_s = tess_os_now_s();
    all_up(hosts, 2);
    EXPECT(tess_os_now_s() - begin_s < 9);
    for (int i = 0; i < SILENT; i++)
        tess_os_close(&fds[i]);
    free_hosts(hosts, 2);
}

/* ---- Silent hosts, when mpirun ends the job ---- */
static void be_silent(const tess_job *job, int host, double seconds)
{
    atomic_store(&job->header->hosts[host].state, JOB_HOST_UP);
    atomic_store(&job->header->hosts[host].heard_ns, tess_os_now_ns() - (uint64_t)(seconds * 1e9));
}

/* The limit is 2 s. The agent judges in one order and last in the other. */
static void the_first_verdict_on_silence_is_that_of_all(void)
{
    for (int agent_first = 0; agent_first < 2; agent_first++)
        for (int is_loss = 0; is_loss < 2; is_loss++) {
            host hosts[2], *h = &hosts[0];
            make_hosts(hosts, 2, 2);
            all_up(hosts, 2);
            be_silent(&h->job, 1, is_loss ? 2.01 : 1.9);
            EXPECT(agent_lose_silent(agent_first ? h->agent : NULL, &h->job) == is_loss);
            if (!(agent_first && is_loss)) /* the agent of that case has marked the host */
                be_silent(&h->job, 1, is_loss ? 1.99 : 2.1);
            EXPECT(agent_lose_silent(agent_first ? NULL : h->agent, &h->job) == is_loss);
            EXPECT_INT(atomic_load(&h->job.header->hosts[1].state) == JOB_HOST_SILENT, is_loss);
            EXPECT_INT(atomic_load(&h->job.rows[2].state) == JOB_RANK_LOST, is_loss);
            free_hosts(hosts, 2);
        }
}

static void a_silent_host_without_ranks_does_not_swallow_a_request(void)
{
    host hosts[2], *h = &hosts[0];
    make_hosts(hosts, 2, 2);
    all_up(hosts, 2);
    be_silent(&h->job, 1, 10);
    atomic_store(&h->job.rows[2].state, JOB_RANK_LEFT);
    atomic_store(&h->job.rows[3].state, JOB_RANK_LEFT);
    EXPECT(!agent_lose_silent(h->agent, &h->job));
    free_hosts(hosts, 2);
}

static const test_case cases[] = {
    CASE(the_first_verdict_on_silence_is_that_of_all),
    CASE(a_silent_host_without_ranks_does_not_swallow_a_request),
    CASE(silent_callers_do_not_keep_a_host_out),
    CASE(every_host_sees_the_rows_of_all),
    CASE(signs_of_life_come_as_ages),
    CASE(changes_that_matter_travel_at_once),
    CASE(a_request_to_leave_later_does_not_take_back_one_to_stop),
    CASE(a_rank_that_ended_does_not_come_back),
    CASE(ranks_are_lost_with_their_host),
    CASE(a_host_that_leaves_in_good_order_loses_nobody),
    CASE(silence_is_told_and_loses_nobody),
    CASE(who_did_not_run_itself_takes_nobody_for_silent),
    CASE(strangers_are_hung_up_on),
    CASE(calls_that_were_given_up_lose_nobody),
    CASE(a_host_speaks_for_its_own_ranks_only),
    CASE(who_was_lost_is_told_before_those_who_lost_it),
    CASE(a_host_that_cannot_be_reached_is_named),
    CASE(a_host_that_is_slow_to_answer_is_waited_for),
    CASE(ports_and_interfaces_can_be_named),
};
TEST_MAIN(cases)
