/* A meeting over TCP: a caller that does not read its message delays no other, and a caller waits for rank 0 only as
 * long as one that knows the secret asks it to. */
#include "support/test.h"

#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
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

/* Answers the calls at an address with a request to call later, as a rank 0 that prepares. */
typedef struct busy_rank {
    int listen_fd;
    bool knows; /* it knows the job's secret */
    atomic_bool ends;
    atomic_int n_calls;
} busy_rank;

/* Asks for a later call without any proof: first the nonce, then the refusal. */
static void answer_falsely(int fd)
{
    tcp_hello hello;
    tcp_reply reply = {.refused = TCP_NOT_REFUSED};
    uint8_t proof[TCP_NONCE_BYTES];
    tcp_stream stream = {.fd = fd};
    const double until_s = tess_os_now_s() + 5;
    if (tcp_stream_move(&stream, &hello, sizeof(hello), false, until_s) &&
        tcp_stream_move(&stream, &reply, sizeof(reply), true, until_s) &&
        tcp_stream_move(&stream, proof, sizeof(proof), false, until_s)) {
        reply = (tcp_reply){.refused = TCP_REFUSED_LATER, .text = "it prepares"};
        tcp_stream_move(&stream, &reply, sizeof(reply), true, until_s);
    }
    tcp_stream_end(&stream);
}

static void answer_busy(int fd)
{
    const tcp_meeting m = meeting_of(0, 0, NULL);
    tcp_stream stream = {.fd = -1};
    tcp_greeting greeting;
    EXPECT(tcp_stream_begin(&stream, &secret, fd, false));
    tcp_greet_begin(&greeting, &secret, &stream, &m.hello, -1);
    greeting.busy = "it prepares";
    for (double until_s = tess_os_now_s() + 5; tcp_greet(&greeting) == 0 && tess_os_now_s() < until_s;)
        usleep(1000);
    tcp_stream_end(&stream);
}

static void *ask_for_patience(void *self)
{
    busy_rank *busy = self;
    while (!atomic_load(&busy->ends)) {
        int fd = tess_os_accept(busy->listen_fd);
        if (fd < 0) {
            usleep(1000);
            continue;
        }
        atomic_fetch_add(&busy->n_calls, 1);
        if (busy->knows)
            answer_busy(fd);
        else
            answer_falsely(fd);
    }
    return NULL;
}

/* Seconds that a caller waits whose timeout is 1 s. Rank 0 may ask for busy_s more. */
static double wait_for_busy_rank(bool knows, double busy_s)
{
    static tess_agent_address all[WORLD];
    busy_rank busy = {.knows = knows};
    tess_agent_address mine = {.port = 1};
    pthread_t thread;
    uint16_t port;
    EXPECT_INT(setenv("TESSERA_SECRET", "a-secret-of-this-test", 1), 0);
    EXPECT_OK(tcp_secret_open(&secret));
    EXPECT_OK(tess_os_listen("127.0.0.1", 0, 0, &busy.listen_fd, &port));
    tcp_meeting m = meeting_of(1, port, all);
    m.master = "127.0.0.1";
    m.timeout_s = 1;
    m.busy_s = busy_s;
    EXPECT_INT(pthread_create(&thread, NULL, ask_for_patience, &busy), 0);
    const double begin_s = tess_os_now_s();
    EXPECT_INT(tcp_meet(&m, &mine), TESS_E_TIMEOUT);
    const double waited_s = tess_os_now_s() - begin_s;
    EXPECT(strstr(tess_error_message(), knows ? "within 2 s" : "within 1 s") != NULL);
    tess_error_clear();
    atomic_store(&busy.ends, true);
    EXPECT_INT(pthread_join(thread, NULL), 0);
    EXPECT(atomic_load(&busy.n_calls) > 1);
    tess_os_close(&busy.listen_fd);
    return waited_s;
}

static void patience_is_for_one_that_knows_the_secret(void)
{
    EXPECT(wait_for_busy_rank(false, 100) < 5);
}

static void patience_has_an_end(void)
{
    const double waited_s = wait_for_busy_rank(true, 1);
    EXPECT(waited_s > 1.9 && waited_s < 6);
}

static void launchers_with_other_flags_are_refused_for_good(void)
{
    tcp_hello first = meeting_of(0, 1, NULL).hello, other;
    tcp_refusal refusal;
    first.purpose = TCP_TO_HOSTS;
    other = first;
    EXPECT(tcp_hello_compare(&other, &first, &refusal) == NULL);
    other.n_nodes++;
    EXPECT(tcp_hello_compare(&other, &first, &refusal) != NULL);
    EXPECT_INT(refusal, TCP_REFUSED_FOR_GOOD);
    other = first;
    other.release[0]++;
    EXPECT(tcp_hello_compare(&other, &first, &refusal) != NULL);
    EXPECT_INT(refusal, TCP_REFUSED_FOR_GOOD);
    other = first;
    other.purpose = TCP_TO_MEET;
    EXPECT(tcp_hello_compare(&other, &first, &refusal) != NULL);
    EXPECT_INT(refusal, TCP_REFUSED_FOR_GOOD);
    EXPECT(tcp_hello_compare(&first, &other, &refusal) != NULL);
    EXPECT_INT(refusal, TCP_REFUSED_FOR_GOOD);
    other.purpose = TCP_TO_SEND; /* its rank may listen elsewhere */
    EXPECT(tcp_hello_compare(&other, &first, &refusal) != NULL);
    EXPECT_INT(refusal, TCP_REFUSED_HERE);
}

static const test_case cases[] = {CASE(patience_is_for_one_that_knows_the_secret), CASE(patience_has_an_end),
                                  CASE(launchers_with_other_flags_are_refused_for_good),
                                  CASE(a_slow_caller_delays_no_other)};
TEST_MAIN(cases)
