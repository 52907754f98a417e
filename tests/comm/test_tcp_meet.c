/* The end of a meeting over TCP: a caller that does not read its message delays no other. */
#include "support/test.h"

#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/os/os.h"
#include "base/os/sockets.h"
#include "comm/tcp/tcp_impl.h"

enum { WORLD = 400, VERDICT_BYTES = 2 * 4 + TCP_JOB_BYTES + 512 };

static tcp_secret secret;

/* Rank 0, in a thread. */
typedef struct first_rank {
    tcp_meeting meeting;
    tess_agent_address mine, all[WORLD];
    tess_status status;
    atomic_bool done;
} first_rank;

static void *meet(void *self)
{
    first_rank *first = self;
    first->status = tcp_meet(&first->meeting, &first->mine);
    atomic_store(&first->done, true);
    return NULL;
}

static tcp_meeting meeting_of(int rank, int port, tess_agent_address *all)
{
    tcp_meeting m = {.secret = &secret, .master = "127.0.0.1", .port = port, .timeout_s = 100, .addresses = all};
    tcp_hello_fill(&m.hello);
    m.hello.rank = rank;
    m.hello.world = WORLD;
    m.hello.local_world = 1;
    m.hello.node = rank;
    m.hello.n_nodes = WORLD;
    m.hello.purpose = TCP_TO_MEET;
    return m;
}

/* Finds a port that is free now. */
static int free_port(void)
{
    int fd;
    uint16_t port;
    EXPECT_OK(tess_os_listen("127.0.0.1", 0, 0, &fd, &port));
    tess_os_close(&fd);
    return port;
}

/* Calls rank 0 as `rank`, and says where it listens. */
static tcp_stream call(int rank, int port)
{
    const tcp_meeting m = meeting_of(rank, port, NULL);
    tess_agent_address mine = {.port = (uint16_t)rank};
    tcp_stream stream = {.fd = -1};
    tcp_greeting greeting = {0};
    char why[TCP_TEXT_BYTES] = "";
    const double until_s = tess_os_now_s() + 20;
    bool reached = false;
    while (!reached && tess_os_now_s() < until_s) {
        tcp_stream_end(&stream);
        reached = tcp_reach(&m, "127.0.0.1", until_s, &stream, &greeting, why, sizeof(why));
    }
    EXPECT_TEXT(reached ? "" : why, "");
    EXPECT(tcp_stream_move(&stream, &mine, sizeof(mine), true, until_s));
    return stream;
}

static void expect_message(tcp_stream *stream, double until_s)
{
    static uint8_t message[VERDICT_BYTES + WORLD * sizeof(tess_agent_address)];
    EXPECT(tcp_stream_move(stream, message, sizeof(message), false, until_s));
    const tess_agent_address *all = (const void *)(message + VERDICT_BYTES);
    for (int r = 1; r < WORLD; r++)
        EXPECT_INT(all[r].port, r);
    tcp_stream_end(stream);
}

static bool write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    bool written = file != NULL && fputs(text, file) >= 0;
    return file != NULL && fclose(file) == 0 && written;
}

/* Enters a network whose sockets have small buffers, so that a message waits for its reader. Returns false if this
 * process may not. */
static bool enter_small_network(void)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    if (unshare(CLONE_NEWNET) != 0)
        return false;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    bool up = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &lo) == 0;
    close(fd);
    EXPECT(up);
    return write_text("/proc/sys/net/ipv4/tcp_wmem", "4096 16384 16384\n") &&
           write_text("/proc/sys/net/ipv4/tcp_rmem", "4096 16384 16384\n");
}

static void a_slow_caller_delays_no_other(void)
{
    static first_rank first;
    static tcp_stream callers[WORLD];
    struct rlimit limit;
    pthread_t thread;
    const bool small = enter_small_network();
    const int port = free_port();
    EXPECT_INT(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max; /* both ends of all connections are in this process */
    EXPECT_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_INT(setenv("TESSERA_SECRET", "a-secret-of-this-test", 1), 0);
    EXPECT_OK(tcp_secret_open(&secret));
    first.meeting = meeting_of(0, port, first.all);
    EXPECT_INT(pthread_create(&thread, NULL, meet, &first), 0);
    for (int r = 1; r < WORLD; r++)
        callers[r] = call(r, port);
    const double until_s = tess_os_now_s() + 30;
    for (int r = 2; r < WORLD; r++)
        expect_message(&callers[r], until_s);
    EXPECT(!small || !atomic_load(&first.done)); /* rank 0 still waits for the slow one */
    expect_message(&callers[1], tess_os_now_s() + 30);
    EXPECT_INT(pthread_join(thread, NULL), 0);
    EXPECT_OK(first.status);
}

static const test_case cases[] = {CASE(a_slow_caller_delays_no_other)};
TEST_MAIN(cases)
