/* The meeting of ranks that nobody has launched together. */
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job/rendezvous.h"
#include "support/test.h"

enum { MOST_RANKS = 8 };

/* The port is this test's own, also when several tests run at once. */
static tess_environment environment_of(int rank, int world)
{
    return (tess_environment){.starter = TESS_STARTER_TORCHRUN,
                              .rank = rank,
                              .world = world,
                              .local_rank = rank,
                              .local_world = world,
                              .master_port = 1 + getppid() % 60000};
}

static int make_memory(const char *text)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    EXPECT(fd >= 0);
    EXPECT_INT(write(fd, text, strlen(text)), strlen(text));
    return fd;
}

static void expect_memory(int fd, const char *text)
{
    char got[32] = "";
    EXPECT(pread(fd, got, sizeof(got) - 1, 0) >= 0);
    EXPECT_TEXT(got, text);
    EXPECT_INT(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

static const double never_s = 600;

typedef void (*role)(tess_environment environment);

/* Plays a rank in a child. All children have this process as parent, so they agree on the port. */
static pid_t start(role play, int rank, int world)
{
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        play(environment_of(rank, world));
        _exit(0);
    }
    return pid;
}

static void expect_all_well(const pid_t *pids, int n)
{
    for (int i = 0; i < n; i++) {
        int status;
        EXPECT_INT(waitpid(pids[i], &status, 0), pids[i]);
        EXPECT_INT(status, 0);
    }
}

static void offers(tess_environment environment)
{
    EXPECT_OK(tess_rendezvous_offer(&environment, make_memory("shared"), never_s));
}

static void offers_late(tess_environment environment)
{
    usleep(200000);
    offers(environment);
}

static void takes(tess_environment environment)
{
    int fd = -1;
    EXPECT_OK(tess_rendezvous_take(&environment, never_s, &fd));
    expect_memory(fd, "shared");
}

static void all_ranks_get_the_memory_of_the_first(void)
{
    pid_t pids[MOST_RANKS];
    for (int world = 1; world <= MOST_RANKS; world *= 2) {
        for (int rank = 1; rank < world; rank++)
            pids[rank] = start(takes, rank, world);
        pids[0] = start(world == 2 ? offers_late : offers, 0, world);
        expect_all_well(pids, world);
    }
}

static void misses_two(tess_environment environment)
{
    EXPECT_FAILS(tess_rendezvous_offer(&environment, make_memory("shared"), 4), TESS_E_TIMEOUT,
                 "rank 1, 3 did not come within 4 s");
}

static void ranks_that_never_come_are_named(void)
{
    pid_t pids[] = {start(takes, 2, 4), start(misses_two, 0, 4)};
    expect_all_well(pids, 2);
}

static void waits_for_nobody(tess_environment environment)
{
    int fd = -1;
    EXPECT_FAILS(tess_rendezvous_take(&environment, 0.2, &fd), TESS_E_TIMEOUT, "rank 0 did not offer");
    EXPECT_INT(fd, -1);
}

static void a_first_rank_that_never_comes_is_named(void)
{
    pid_t pid = start(waits_for_nobody, 1, 2);
    expect_all_well(&pid, 1);
}

static void finds_other_world(tess_environment environment)
{
    EXPECT_FAILS(tess_rendezvous_offer(&environment, make_memory("shared"), never_s), TESS_E_INVALID,
                 "WORLD_SIZE is 4 here (rank 0), but 2 in rank 1");
}

static void finds_twins(tess_environment environment)
{
    EXPECT_FAILS(tess_rendezvous_offer(&environment, make_memory("shared"), never_s), TESS_E_INVALID,
                 "two processes have RANK=1");
}

static void is_hung_up_on(tess_environment environment)
{
    int fd = -1;
    EXPECT_FAILS(tess_rendezvous_take(&environment, never_s, &fd), TESS_E_TIMEOUT, "rank 0 hung up");
}

static void takes_or_is_hung_up_on(tess_environment environment)
{
    int fd;
    tess_rendezvous_take(&environment, never_s, &fd);
}

static void ranks_that_contradict_each_other_are_refused(void)
{
    pid_t pids[] = {start(finds_other_world, 0, 4), start(is_hung_up_on, 1, 2)};
    expect_all_well(pids, 2);
    pid_t twins[] = {start(finds_twins, 0, 4), start(takes_or_is_hung_up_on, 1, 4),
                     start(takes_or_is_hung_up_on, 1, 4)};
    expect_all_well(twins, 3);
}

static void finds_name_taken(tess_environment environment)
{
    EXPECT_FAILS(tess_rendezvous_offer(&environment, make_memory("other"), never_s), TESS_E_INVALID,
                 "by a second rank 0, or by another job with the same MASTER_PORT");
}

/* Calls the first rank of user `uid`, once it listens. */
static int call_first(int master_port, unsigned uid)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int n = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "tessera-%u-%d-0-", uid, master_port);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    int connection = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    while (connect(connection, (struct sockaddr *)&address, size) != 0)
        usleep(1000);
    return connection;
}

/* Calls from this process, the parent of the ranks. */
static int call_from_here(void)
{
    return call_first(1 + getpid() % 60000, geteuid());
}

/* A first rank, which listens. */
static pid_t start_first(void)
{
    unsetenv("TORCHELASTIC_RUN_ID");
    unsetenv("TORCHELASTIC_RESTART_COUNT");
    pid_t pid = start(offers, 0, 2);
    close(call_from_here());
    return pid;
}

static void a_second_first_rank_is_refused(void)
{
    pid_t pids[2] = {start_first(), start(finds_name_taken, 0, 2)};
    expect_all_well(&pids[1], 1);
    pids[1] = start(takes, 1, 2);
    expect_all_well(pids, 2);
}

/* A process of another user that knows the name. */
static void is_a_stranger(tess_environment environment)
{
    unsigned name = geteuid();
    EXPECT_INT(setuid(65534), 0);
    int connection = call_first(environment.master_port, name);
    int32_t hello[] = {1, 2};
    char answer[16];
    EXPECT(send(connection, hello, sizeof(hello), MSG_NOSIGNAL) <= (ssize_t)sizeof(hello));
    EXPECT(recv(connection, answer, sizeof(answer), 0) <= 0);
}

static void another_users_process_gets_nothing(void)
{
    if (getuid() != 0) {
        fprintf(stderr, "SKIPPED: only root can be another user\n");
        return;
    }
    pid_t pids[2] = {start_first(), start(is_a_stranger, 1, 2)};
    expect_all_well(&pids[1], 1);
    pids[1] = start(takes, 1, 2);
    expect_all_well(pids, 2);
}

static void a_caller_that_says_nothing_does_not_keep_the_others_waiting_for_ever(void)
{
    char answer[16];
    pid_t pids[2] = {start_first()};
    int silent = call_from_here();
    pids[1] = start(takes, 1, 2);
    expect_all_well(pids, 2);
    EXPECT(recv(silent, answer, sizeof(answer), 0) <= 0);
    close(silent);
}

static void missing_variables_are_refused(void)
{
    int fd;
    tess_environment environment = environment_of(1, 4);
    environment.local_world = -1;
    EXPECT_FAILS(tess_rendezvous_take(&environment, 1, &fd), TESS_E_INVALID, "LOCAL_WORLD_SIZE is not");
    environment = environment_of(0, 4);
    environment.master_port = 0;
    EXPECT_FAILS(tess_rendezvous_offer(&environment, 0, 1), TESS_E_INVALID, "MASTER_PORT is not");
}

static const test_case cases[] = {
    CASE(all_ranks_get_the_memory_of_the_first),
    CASE(ranks_that_never_come_are_named),
    CASE(a_first_rank_that_never_comes_is_named),
    CASE(ranks_that_contradict_each_other_are_refused),
    CASE(a_second_first_rank_is_refused),
    CASE(another_users_process_gets_nothing),
    CASE(a_caller_that_says_nothing_does_not_keep_the_others_waiting_for_ever),
    CASE(missing_variables_are_refused),
};

TEST_MAIN(cases)
