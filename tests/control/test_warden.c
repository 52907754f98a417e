/* Wardens and their ranks as processes. Each host has its own job memory, and agents meet over loopback. Ranks are
 * this program with the rank's number as argument. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/os.h"
#include "job/warden_call.h"
#include "control/launch/agent/agent.h"
#include "support/test.h"

enum { MOST_RANKS = 6 };
/* A deadline that must not be waited for, and a time that is clearly shorter. */
static const double never_s = 600, at_once_s = 60;

typedef enum scene {
    END_WELL,
    DIE,   /* the victim by SIGKILL, the others say that they lost it */
    EXIT,  /* the victim with code 3 */
    TARDY, /* the same at LET_LEAVE */
    LEAVE, /* the victim leaves, says why late, with code 2 */
    HANG,  /* the victim exits with code 5, the others ignore SIGTERM */
    STOP,  /* all end with 130 when asked to */
    GROW,  /* the same; the victim's warden asks */
    WAIT,  /* wait until the job has lost a rank; then code 7 */
    STAY,  /* like WAIT, but the victim never returns */
    MISS,  /* those of the last host end with code 9, without the victim, when they see the sign */
    LATE,  /* the victim leaves at LET_LEAVE and ends well at LET_END, the others do both at LET_ALL */
    AGAIN, /* all leave and join a second job, with the meeting that follows; there as DIE */
    DIE_UNADOPTED
} scene;

typedef enum stage { LET_LEAVE = 1, LET_END, LET_ALL } stage;

typedef struct meeting {
    scene scene;
    int n_hosts, ranks, victim; /* ranks: on each host */
    struct {
        _Atomic int pid, fd;
        _Atomic int listens;
        tess_agent_address address;
    } hosts[MOST_RANKS];
    _Atomic int rank_pid[MOST_RANKS], is_ready[MOST_RANKS], has_met[MOST_RANKS];
    _Atomic int stage, has_left; /* the step that ranks may take; the victim has left */
    int shown;                   /* MISS: this rank has `sign` on the board */
    char sign[32];
    pid_t warden_pid[MOST_RANKS];
    tess_launch_result results[MOST_RANKS];
    tess_status status[MOST_RANKS];
    _Atomic int has_returned[MOST_RANKS];
} meeting;

static const uint8_t secret[AGENT_SECRET_BYTES] = {9, 8, 7};

/* ---- A rank ---- */
static void await(const _Atomic int *word)
{
    while (atomic_load(word) == 0)
        usleep(1000);
}

static int make_memory(meeting *m, int host, tess_job *job)
{
    if (tess_job_create(m->n_hosts * m->ranks, job) != TESS_OK)
        return 80;
    job->header->n_hosts = (uint32_t)m->n_hosts;
    job->header->host = (uint32_t)host;
    for (int h = 0; h < m->n_hosts; h++)
        snprintf(job->header->hosts[h].name, JOB_NAME_BYTES, "h%d", h);
    for (int r = 0; r < m->n_hosts * m->ranks; r++)
        job->rows[r].host = r / m->ranks;
    atomic_store(&m->hosts[host].fd, job->fd);
    atomic_store(&m->hosts[host].pid, (int)getpid());
    return 0;
}

static int open_memory(meeting *m, int host, tess_job *job)
{
    char path[64];
    await(&m->hosts[host].pid);
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", atomic_load(&m->hosts[host].pid), atomic_load(&m->hosts[host].fd));
    int fd = open(path, O_RDWR | O_CLOEXEC);
    return fd >= 0 && tess_job_open(fd, m->n_hosts * m->ranks, job) == TESS_OK ? 0 : 81;
}

static int meet_others(meeting *m, int host, int warden)
{
    tess_agent_address addresses[MOST_RANKS];
    if (tess_warden_listen(warden, &m->hosts[host].address) != TESS_OK)
        return 82;
    atomic_store(&m->hosts[host].listens, 1);
    for (int h = 0; h < m->n_hosts; h++) {
        await(&m->hosts[h].listens);
        addresses[h] = m->hosts[h].address;
    }
    return tess_warden_meet(warden, addresses, m->n_hosts, secret) == TESS_OK ? 0 : 83;
}

static int join(meeting *m, int rank, tess_job *job)
{
    int host = rank / m->ranks, warden = -1;
    bool first = rank % m->ranks == 0;
    int code = first ? make_memory(m, host, job) : open_memory(m, host, job);
    if (code != 0)
        return code;
    if (!tess_warden_find(&warden) || tess_warden_adopt(warden, job, rank) != TESS_OK)
        return 84;
    if (first && m->n_hosts > 1 && (code = meet_others(m, host, warden)) != 0)
        return code;
    for (int i = 0; m->n_hosts > 1 && atomic_load(&job->header->agent_state) != JOB_AGENT_UP; i++) {
        if (i > 60000)
            return 85;
        usleep(1000);
    }
    atomic_store(&job->rows[rank].pid, (int)getpid());
    tess_board_phase(&job->rows[rank], "step", 5, -1, tess_os_now_ns());
    atomic_store(&job->rows[rank].state, JOB_RANK_JOINED);
    atomic_store(&m->is_ready[rank], 1);
    for (int r = 0; r < m->n_hosts * m->ranks; r++) {
        await(&m->is_ready[r]);
        while (atomic_load(&job->rows[r].state) == JOB_RANK_ABSENT)
            usleep(1000);
    }
    atomic_store(&m->has_met[rank], 1);
    return 0;
}

static void await_stage(const meeting *m, stage stage)
{
    while (atomic_load(&m->stage) < (int)stage)
        usleep(1000);
}

static int wait_for_loss(const tess_job *job, int rank)
{
    int lost;
    while ((lost = atomic_load(&job->header->first_lost)) < 0)
        usleep(1000);
    usleep(300000); /* the wardens have seen it by now, and have to wait for the code */
    tess_board_error(&job->rows[rank], "lost a peer", lost);
    return 7;
}

static int miss(const tess_job *job, const meeting *m, int rank)
{
    char text[400], error[512];
    if (rank / m->ranks < m->n_hosts - 1)
        for (;;)
            pause();
    await_stage(m, LET_ALL);
    while (strstr(tess_board_describe(job, m->shown, text, sizeof(text)), m->sign) == NULL)
        usleep(1000);
    snprintf(error, sizeof(error), "rank %d %s", m->victim, tess_board_describe(job, m->victim, text, sizeof(text)));
    tess_board_error(&job->rows[rank], error, m->victim);
    return 9;
}

/* A warden releases a job only when all ranks have left it. */
static int play_again(meeting *m, tess_job *job, int rank)
{
    int warden = -1, world = m->n_hosts * m->ranks;
    if (rank == m->victim && (!tess_warden_find(&warden) || tess_warden_adopt(warden, job, rank) != TESS_E_INVALID))
        return 88;
    atomic_store(&job->rows[rank].state, JOB_RANK_LEFT);
    for (int r = 0; r < world; r++)
        while (atomic_load(&job->rows[r].state) != JOB_RANK_LEFT)
            usleep(1000);
    tess_job_close(job, true);
    int code = join(m + 1, rank, job);
    if (code == 0 && rank == m->victim)
        raise(SIGKILL);
    return code != 0 ? code : wait_for_loss(job, rank);
}

static int play(meeting *m, tess_job *job, int rank)
{
    tess_job_row *row = &job->rows[rank];
    bool victim = rank == m->victim;
    switch (m->scene) {
    case END_WELL:
        usleep((useconds_t)rank * 50000); /* some leave long before others */
        atomic_store(&row->state, JOB_RANK_LEFT);
        return 0;
    case DIE:
        if (victim)
            raise(SIGKILL);
        return wait_for_loss(job, rank);
    case TARDY:
        await_stage(m, LET_LEAVE);
        return victim ? 3 : wait_for_loss(job, rank);
    case EXIT:
        return victim ? 3 : wait_for_loss(job, rank);
    case LEAVE:
        if (victim) {
            tess_board_error(row, "line 301 is not text", rank); /* tess_runtime_report does the same */
            atomic_store(&row->state, JOB_RANK_LEFT);
            usleep(300000);
            return 2;
        }
        while (atomic_load(&job->rows[m->victim].state) != JOB_RANK_LEFT)
            usleep(1000);
        tess_board_error(row, "rank left", m->victim);
        return 7;
    case HANG:
        signal(SIGTERM, SIG_IGN);
        if (victim)
            return 5;
        for (;;)
            pause();
    case STOP:
    case GROW:
        while (atomic_load(&job->header->stop) == 0)
            usleep(1000);
        usleep((useconds_t)rank * 100000);
        atomic_store(&row->state, JOB_RANK_LEFT);
        return 130;
    case STAY:
        while (victim)
            pause();
        return wait_for_loss(job, rank);
    case WAIT:
        return wait_for_loss(job, rank);
    case LATE:
        await_stage(m, victim ? LET_LEAVE : LET_ALL);
        atomic_store(&row->state, JOB_RANK_LEFT);
        if (victim)
            atomic_store(&m->has_left, 1);
        await_stage(m, LET_END);
        return 0;
    case AGAIN:
        return play_again(m, job, rank);
    case MISS:
        return miss(job, m, rank);
    case DIE_UNADOPTED:
        break;
    }
    return 86;
}

static int rank_main(int rank)
{
    void *memory;
    static tess_job job; /* it lives until the process ends, as a rank's does */
    if (tess_os_map_shared(atoi(getenv("TEST_MEETING_FD")), 0, 2 * sizeof(meeting), &memory) != TESS_OK)
        return 87;
    meeting *m = memory;
    atomic_store(&m->rank_pid[rank], (int)getpid());
    if (m->scene == DIE_UNADOPTED)
        raise(SIGKILL);
    int code = join(m, rank, &job);
    return code != 0 ? code : play(m, &job, rank);
}

/* ---- The wardens ---- */
/* One of the wardens asks all ranks to leave after their next save. */
static void report_to_leave(void *self, const tess_job *job, const pid_t *pids)
{
    (void)self, (void)pids;
    uint32_t no = JOB_STOP_NO;
    if (atomic_load(&job->header->agent_state) == JOB_AGENT_UP)
        atomic_compare_exchange_strong(&job->header->stop, &no, JOB_STOP_AFTER_SAVE);
}

static meeting *begin(scene what, int n_hosts, int ranks, int victim, double grace_s)
{
    int fd;
    void *memory;
    char text[16], program[256] = "";
    EXPECT_OK(tess_os_memfd("meetings", 2 * sizeof(meeting), &fd));
    EXPECT_OK(tess_os_map_shared(fd, 0, 2 * sizeof(meeting), &memory));
    tess_os_inherit(fd);
    snprintf(text, sizeof(text), "%d", fd);
    setenv("TEST_MEETING_FD", text, 1);
    setenv("TESSERA_IFNAME", "lo", 1);
    EXPECT(readlink("/proc/self/exe", program, sizeof(program) - 1) > 0);
    meeting *m = memory;
    m[0] = m[1] = (meeting){.scene = what, .n_hosts = n_hosts, .ranks = ranks, .victim = victim};
    for (int r = 0; r < n_hosts * ranks; r++) {
        pid_t pid = fork();
        if (pid == 0) {
            char number[16];
            snprintf(number, sizeof(number), "%d", r);
            char *argv[] = {program, "--rank", number, NULL};
            tess_launch_options options = {
                .grace_s = grace_s, .heeds_stop = true, .tick = what == GROW && r == victim ? report_to_leave : NULL};
            m->status[r] = tess_warden_run(argv, &options, &m->results[r]);
            atomic_store(&m->has_returned[r], 1);
            _exit(0);
        }
        EXPECT(pid > 0);
        m->warden_pid[r] = pid;
    }
    return m;
}

/* Returns the seconds from `since_s` until all wardens have returned. */
static double wait_for_wardens(const meeting *m, double since_s)
{
    for (int r = 0; r < m->n_hosts * m->ranks; r++)
        waitpid(m->warden_pid[r], NULL, 0);
    return tess_os_now_s() - since_s;
}

/* All wardens that returned have the code, and only that of `reporter` has a report. */
static void check_results(const meeting *m, int code, int reporter, const char *needle)
{
    for (int r = 0; r < m->n_hosts * m->ranks; r++) {
        if (atomic_load(&m->has_returned[r]) == 0)
            continue;
        EXPECT_INT(m->status[r], TESS_OK);
        if (r == reporter)
            EXPECT_CONTAINS(m->results[r].report, needle);
        else
            EXPECT_TEXT(m->results[r].report, "");
        EXPECT_INT(m->results[r].exit_code, code);
    }
    EXPECT(reporter < 0 || atomic_load(&m->has_returned[reporter]) != 0);
}

static void play_all(scene what, int n_hosts, int ranks, int victim, double grace_s, int code, const char *needle)
{
    double begin_s = tess_os_now_s();
    meeting *m = begin(what, n_hosts, ranks, victim, grace_s);
    EXPECT(wait_for_wardens(m, begin_s) < at_once_s);
    check_results(m, code, needle != NULL ? 0 : -1, needle);
    if (needle != NULL)
        EXPECT_INT(m->results[0].failed_rank, victim);
}

static void jobs_that_end_well_say_nothing(void)
{
    play_all(END_WELL, 1, 3, -1, never_s, 0, NULL);
    play_all(END_WELL, 3, 2, -1, never_s, 0, NULL);
}

static void a_killed_rank_is_told_by_one_warden(void)
{
    play_all(DIE, 1, 3, 2, never_s, 137, "rank 2 was killed by signal 9 (SIGKILL) before its first operation");
    play_all(DIE, 2, 2, 3, never_s, 137, "rank 3 on host h1 was killed by signal 9 (SIGKILL)");
    play_all(DIE, 3, 2, 0, never_s, 137, "rank 0 on host h0 was killed by signal 9 (SIGKILL)");
}

static void an_exit_code_is_that_of_the_job(void)
{
    play_all(EXIT, 3, 2, 4, never_s, 3, "rank 4 on host h2 exited with code 3 before its first operation");
    play_all(EXIT, 1, 2, 0, never_s, 3, "rank 0 exited with code 3");
}

static void a_refusal_of_one_rank_is_told_whoever_ends_first(void)
{
    play_all(LEAVE, 2, 2, 3, never_s, 2, "rank 3 on host h1 exited with code 2 before its first operation");
    play_all(LEAVE, 1, 3, 1, never_s, 2, "line 301 is not text");
}

static void ranks_that_have_left_join_the_next_job(void)
{
    play_all(AGAIN, 1, 3, 2, never_s, 137, "rank 2 was killed by signal 9 (SIGKILL)");
    play_all(AGAIN, 3, 2, 3, never_s, 137, "rank 3 on host h1 was killed by signal 9 (SIGKILL)");
}

static void those_who_do_not_go_are_killed(void)
{
    play_all(HANG, 2, 2, 2, 2, 5, "rank 2 on host h1 exited with code 5");
}

static void wait_until_all_are_ready(const meeting *m)
{
    for (int r = 0; r < m->n_hosts * m->ranks; r++)
        await(&m->has_met[r]);
}

/* Waits until the rank's process is in this state; '\0': it is gone, and its warden has reported its end. */
static void await_state(const meeting *m, int rank, char state)
{
    while (tess_os_process_state(atomic_load(&m->rank_pid[rank])) != state)
        usleep(1000);
}

/* Signals all processes of host h at once. */
static void strike_host(const meeting *m, int h, int signal)
{
    for (int r = h * m->ranks; r < (h + 1) * m->ranks; r++)
        kill(m->warden_pid[r], signal);
    for (int r = h * m->ranks; r < (h + 1) * m->ranks; r++)
        if (signal != SIGKILL) /* after SIGKILL ranks go with their wardens, and their pids may be reused */
            kill(atomic_load(&m->rank_pid[r]), signal);
}

static void a_killed_host_is_named(void)
{
    meeting *m = begin(WAIT, 2, 2, 2, never_s);
    wait_until_all_are_ready(m);
    strike_host(m, 1, SIGKILL);
    EXPECT(wait_for_wardens(m, tess_os_now_s()) < at_once_s);
    check_results(m, 7, 0, "rank 2 on host h1 was lost with its host (the connection to its agent closed)");
    m = begin(WAIT, 3, 2, 0, never_s); /* the first: the next one reports it */
    wait_until_all_are_ready(m);
    strike_host(m, 0, SIGKILL);
    EXPECT(wait_for_wardens(m, tess_os_now_s()) < at_once_s);
    check_results(m, 7, 2, "rank 0 on host h0 was lost with its host");
}

/* The signals of an mpirun that has lost the host: SIGTERM to all others, SIGKILL one second later. */
static void a_killed_host_is_named_before_mpirun_ends_all(void)
{
    meeting *m = begin(STAY, 3, 2, 1, never_s);
    wait_until_all_are_ready(m);
    strike_host(m, 2, SIGKILL);
    await_state(m, 0, '\0');
    for (int r = 0; r < 4; r++)
        kill(m->warden_pid[r], SIGTERM);
    double took_s = wait_for_wardens(m, tess_os_now_s());
    printf("ended %.2f s after the SIGTERM\n", took_s);
    EXPECT(took_s < at_once_s);
    check_results(m, 7, 0, "rank 4 on host h2 was lost with its host (the connection to its agent closed)");
}

static void a_rank_whose_warden_was_killed_is_missed(void)
{
    meeting *m = begin(WAIT, 2, 2, 3, never_s);
    wait_until_all_are_ready(m);
    kill(m->warden_pid[3], SIGKILL);
    EXPECT(wait_for_wardens(m, tess_os_now_s()) < at_once_s);
    check_results(m, 137, 0, "rank 3 on host h1 was killed by signal 9 (SIGKILL)");
    m = begin(WAIT, 1, 3, 0, never_s); /* the victim is the first warden's */
    wait_until_all_are_ready(m);
    kill(m->warden_pid[0], SIGKILL);
    EXPECT(wait_for_wardens(m, tess_os_now_s()) < at_once_s);
    int n_reported = (m->results[1].report[0] != '\0') + (m->results[2].report[0] != '\0');
    EXPECT_INT(n_reported, 1);
}

/* The rank of a warden that gets no core stays a zombie, and the rank of a killed warden dies. Both had left before. */
static void a_rank_that_has_left_is_never_lost(void)
{
    meeting *m = begin(LATE, 1, 2, 1, never_s);
    wait_until_all_are_ready(m);
    kill(m->warden_pid[1], SIGSTOP);
    atomic_store(&m->stage, LET_END);
    await_state(m, 1, 'Z');
    usleep(1000000); /* time in which the first warden could lose it */
    kill(m->warden_pid[1], SIGCONT);
    atomic_store(&m->stage, LET_ALL);
    wait_for_wardens(m, 0);
    check_results(m, 0, -1, NULL);
    m = begin(LATE, 1, 2, 1, never_s);
    wait_until_all_are_ready(m);
    atomic_store(&m->stage, LET_LEAVE);
    await(&m->has_left);
    kill(m->warden_pid[1], SIGKILL);
    usleep(1000000);
    atomic_store(&m->stage, LET_ALL);
    wait_for_wardens(m, 0);
    EXPECT_INT(atomic_load(&m->has_returned[0]), 1);
    check_results(m, 0, -1, NULL);
}

/* Only its warden knows how a zombie ended, however late it reports: the host's first warden does not guess. */
static void a_warden_that_is_late_says_how_its_rank_ended(void)
{
    meeting *m = begin(TARDY, 1, 2, 1, never_s);
    wait_until_all_are_ready(m);
    kill(m->warden_pid[1], SIGSTOP);
    atomic_store(&m->stage, LET_LEAVE);
    await_state(m, 1, 'Z');
    usleep(1000000); /* time in which the first warden could guess */
    kill(m->warden_pid[1], SIGCONT);
    wait_for_wardens(m, 0);
    check_results(m, 3, 0, "rank 1 exited with code 3");
}

/* A job whose last host ends, without the victim, once it sees `sign` on the row of rank `shown`. */
static meeting *begin_to_miss(int ranks, int victim, int shown, const char *sign)
{
    meeting *m = begin(MISS, 2, ranks, victim, never_s);
    m->shown = shown;
    snprintf(m->sign, sizeof(m->sign), "%s", sign);
    atomic_store(&m->stage, LET_ALL);
    wait_until_all_are_ready(m);
    return m;
}

/* The rank that another waited for without success, and stopped ranks, cannot use a grace. */
static void ranks_that_never_come_get_no_grace(void)
{
    meeting *m = begin_to_miss(1, 0, 0, "is stopped (state T)");
    kill(atomic_load(&m->rank_pid[0]), SIGSTOP);
    EXPECT(wait_for_wardens(m, tess_os_now_s()) < at_once_s);
    check_results(m, 9, 0, "rank 1 on host h1 was the first to end, with code 9");
    EXPECT_CONTAINS(m->results[0].report, "rank 0 on host h0 is before its first operation");
    EXPECT_CONTAINS(m->results[0].report, "is stopped (state T)");
    m = begin_to_miss(1, 0, 0, ""); /* blamed, and runs */
    EXPECT(wait_for_wardens(m, tess_os_now_s()) < at_once_s);
    check_results(m, 9, 0, "rank 1 on host h1 was the first to end, with code 9");
    m = begin_to_miss(2, 1, 0, "is stopped (state T)"); /* stopped, and blamed by nobody */
    kill(atomic_load(&m->rank_pid[0]), SIGSTOP);
    EXPECT(wait_for_wardens(m, tess_os_now_s()) < at_once_s);
    check_results(m, 9, 0, "on host h1 was the first to end, with code 9");
}

static void a_silent_host_is_named(void)
{
    meeting *m = begin_to_miss(2, 1, 1, "nothing heard of host h0 for ");
    strike_host(m, 0, SIGSTOP);
    for (int r = 2; r < 4; r++)
        await(&m->has_returned[r]);
    EXPECT_CONTAINS(m->results[2].report, "on host h1 was the first to end, with code 9");
    EXPECT_CONTAINS(m->results[2].report, "rank 1 on host h0 is before its first operation");
    EXPECT_CONTAINS(m->results[2].report, "nothing heard of host h0 for ");
    EXPECT_TEXT(m->results[3].report, "");
    EXPECT_INT(m->results[3].exit_code, 9);
    strike_host(m, 0, SIGKILL);
    wait_for_wardens(m, 0);
}

static void to_leave_after_a_save_is_no_stop(void)
{
    meeting *m = begin(GROW, 2, 2, 3, never_s);
    wait_for_wardens(m, tess_os_now_s());
    check_results(m, 130, -1, NULL);
    for (int r = 0; r < 4; r++)
        EXPECT(atomic_load(&m->has_returned[r]) == 1 && !m->results[r].asked_to_stop);
}

static void a_stop_reaches_all_hosts(void)
{
    meeting *m = begin(STOP, 3, 2, -1, never_s);
    wait_until_all_are_ready(m);
    setpgid(m->warden_pid[3], m->warden_pid[3]);
    kill(-m->warden_pid[3], SIGTERM); /* mpirun's way: the rank must not hear of it */
    EXPECT(wait_for_wardens(m, tess_os_now_s()) < at_once_s);
    check_results(m, 130, -1, NULL);
    for (int r = 0; r < 6; r++)
        EXPECT(m->results[r].asked_to_stop);
}

static void a_second_stop_kills(void)
{
    meeting *m = begin(WAIT, 1, 2, -1, never_s);
    wait_until_all_are_ready(m);
    while (atomic_load(&m->has_returned[0]) == 0 || atomic_load(&m->has_returned[1]) == 0) {
        for (int r = 0; r < 2; r++)
            kill(m->warden_pid[r], SIGINT);
        usleep(1500000); /* two that are closer are one */
    }
    wait_for_wardens(m, 0);
    EXPECT_CONTAINS(m->results[0].report, "asked to stop twice");
    EXPECT_TEXT(m->results[1].report, "");
    EXPECT_INT(m->results[1].exit_code, 137);
}

static void ranks_that_never_joined_are_told_of(void)
{
    meeting *m = begin(DIE_UNADOPTED, 1, 1, -1, never_s);
    wait_for_wardens(m, 0);
    EXPECT_INT(m->results[0].exit_code, 137);
    EXPECT_CONTAINS(m->results[0].report, "killed by signal 9 (SIGKILL) before it joined the job");
}

static void any_program_can_have_a_warden(void)
{
    tess_launch_result result;
    char *fine[] = {"sh", "-c", "test -S /proc/self/fd/$TESSERA_GUARD_FD", NULL};
    EXPECT_OK(tess_warden_run(fine, &(tess_launch_options){.grace_s = 1}, &result));
    EXPECT_INT(result.exit_code, 0);
    EXPECT_TEXT(result.report, "");
    char *fails[] = {"sh", "-c", "exit 4", NULL};
    EXPECT_OK(tess_warden_run(fails, &(tess_launch_options){.grace_s = 1}, &result));
    EXPECT_INT(result.exit_code, 4);
    EXPECT_CONTAINS(result.report, "exited with code 4 before it joined the job");
    char *missing[] = {"/nonexistent/program", NULL};
    EXPECT_FAILS(tess_warden_run(missing, &(tess_launch_options){.grace_s = 1}, &result), TESS_E_NOT_FOUND,
                 "/nonexistent/program");
}

static const test_case cases[] = {
    CASE(jobs_that_end_well_say_nothing),
    CASE(a_killed_rank_is_told_by_one_warden),
    CASE(an_exit_code_is_that_of_the_job),
    CASE(a_refusal_of_one_rank_is_told_whoever_ends_first),
    CASE(ranks_that_have_left_join_the_next_job),
    CASE(those_who_do_not_go_are_killed),
    CASE(a_killed_host_is_named),
    CASE(a_killed_host_is_named_before_mpirun_ends_all),
    CASE(a_rank_whose_warden_was_killed_is_missed),
    CASE(a_rank_that_has_left_is_never_lost),
    CASE(a_warden_that_is_late_says_how_its_rank_ended),
    CASE(ranks_that_never_come_get_no_grace),
    CASE(a_silent_host_is_named),
    CASE(a_stop_reaches_all_hosts),
    CASE(to_leave_after_a_save_is_no_stop),
    CASE(a_second_stop_kills),
    CASE(ranks_that_never_joined_are_told_of),
    CASE(any_program_can_have_a_warden),
};

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--rank") == 0)
        return rank_main(atoi(argv[2]));
    return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
