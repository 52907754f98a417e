/* Private to the folder: what a guard consists of.
 *
 *     warden.c           the process: its child, its signals, when it may go
 *     warden_start.c     its child: the rank
 *     warden_stop.c      what asks it to stop, and for how long
 *     warden_processes.c which of the host's ranks are gone without a word
 *     warden_requests.c  its answers to what the rank asks for
 *     warden_watch.c     its watchdog
 *     agent_root_cause.c where a failure began, and which guard says so
 *     agent.c            the agent: its begin, its end and its part in the loop
 *     agent_exchange.c   boards out, boards in
 *     agent_meet.c       how agents find each other
 *     agent_link.c       one connection, in frames */
#ifndef TESS_LAUNCH_AGENT_AGENT_IMPL_H
#define TESS_LAUNCH_AGENT_AGENT_IMPL_H

#include <poll.h>
#include <sys/signalfd.h>

#include "launch/agent/agent_frames.h"
#include "launch/child.h"
#include "launch/watchdog/job_record.h"
#include "launch/watchdog/watchdog.h"

/* ---- Connections ---- */
enum { LINK_BYTES = 8192 };

typedef struct agent_link {
    int fd;   /* -1: none */
    int slot; /* in the newest poll, -1: not there */
    size_t in_at, n_in, out_at, n_out;
    uint8_t in[LINK_BYTES], out[LINK_BYTES];
} agent_link;

void agent_link_open(agent_link *link, int fd);
void agent_link_close(agent_link *link);
/* False: it does not fit now. */
bool agent_link_put(agent_link *link, const agent_frame *frame);
/* Sends and takes in what can be now. False: the connection is closed or broken; what had come before can be read. */
bool agent_link_send(agent_link *link);
bool agent_link_receive(agent_link *link);
/* The next frame that has come: 1; 0: none; -1: malformed. */
int agent_link_next(agent_link *link, agent_frame *frame);

/* ---- The agent ---- */
typedef enum peer_state {
    PEER_AWAITED, /* it calls us */
    PEER_IDLE,    /* we call it, soon */
    PEER_CALLING,
    PEER_GREETING, /* our hello is under way, its is not here */
    PEER_ANSWERED, /* it has called and gets our hello; it may have given that call up, until it says more */
    PEER_UP,
    PEER_GONE
} peer_state;

/* The agent of another host. */
typedef struct agent_peer {
    peer_state state;
    tess_agent_address address;
    int next_address;
    double until_s;   /* when this state is given up: calling, greeting; idle: when to call again */
    char reason[128]; /* why the last call came to nothing */
    agent_link link;
    bool host_due; /* a FRAME_HOST has to go out, and this many rows, the next of them being number next_row of ours */
    int rows_due, next_row;
    bool diagnosis_sent, diagnosis_seen; /* of ours */
} agent_peer;

enum { AGENT_CALLERS = 8 };

/* One who has called and has not said who it is. */
typedef struct agent_caller {
    agent_link link;
    double until_s;
} agent_caller;

typedef struct agent {
    tess_mem *mem; /* borrowed, as is the job */
    const tess_job *job;
    int host, n_hosts;
    uint8_t secret[AGENT_SECRET_BYTES];
    int listen_fd, listen_slot;
    agent_peer *peers; /* one a host, our own unused; NULL: not met yet */
    agent_caller *callers;
    double begin_s;      /* of the meeting */
    uint64_t news;       /* hash of what must be told at once */
    double next_round_s; /* when rows go out anyhow */
    uint64_t served_ns;  /* when agent_serve last returned */
    int n_local;
    int local[JOB_MAX_RANKS]; /* ranks of this host */
} agent;

enum { AGENT_POLLS = 1 + JOB_MAX_HOSTS + AGENT_CALLERS };

/* Listens; *mine is how others can call. Destroy with agent_close. */
tess_status agent_listen(tess_mem *mem, const tess_job *job, agent **out, tess_agent_address *mine);
/* The others are known: begins to call those with a larger number. */
tess_status agent_meet(agent *a, const tess_agent_address *hosts, int n_hosts,
                       const uint8_t secret[AGENT_SECRET_BYTES]);
/* Adds what it waits for at fds[0 .. AGENT_POLLS); their number. */
int agent_watch(agent *a, struct pollfd *fds);
/* After poll: takes in what came, sends what is due. */
void agent_serve(agent *a, const struct pollfd *fds);
/* Hangs up and frees. `stay`: connections stay open until the process ends, for the others take their end as word that
 * this guard has told the verdict. */
void agent_close(agent **handle, bool stay);
/* Tells the others the last there is, within half a second. */
void agent_say_goodbye(agent *a);
/* True when all who are in touch know the verdict. */
bool agent_diagnosis_is_known(const agent *a);

/* agent_meet.c */
void agent_meet_watch(agent *a, struct pollfd *fds, int *n);
void agent_meet_step(agent *a, const struct pollfd *fds);
/* agent_exchange.c */
static inline bool agent_is_connected(const agent_peer *peer)
{
    return peer->state == PEER_UP || peer->state == PEER_ANSWERED;
}

void agent_peer_up(agent *a, int host);
/* Rows in a circle, so that a slow link that never finishes a round starves none; a rank that was lost first, before
 * what the others say because of it. */
void agent_owe_round(const agent *a, agent_peer *peer);
/* Takes in what a peer has sent. */
void agent_receive(agent *a, int host);
/* A round that a slow link has not taken yet is not begun again: what goes out is always the newest. */
void agent_send_due(agent *a, int host);
/* To all, and what is new at once. */
void agent_send_all(agent *a);

/* ---- The verdict ---- */
/* A host whose agent is connected and has spoken lately; this one. */
bool diagnosis_in_touch(const tess_job *job, int host);
/* True when ranks of the job that are in touch still run. `host` -1: of all hosts. */
bool diagnosis_is_running(const tess_job *job, int host);
/* The rank where the failure began; *code is the exit code of the job, 0: nobody has one yet. `early`: survivors have
 * not been told to end. */
int diagnosis_find(const tess_job *job, bool early, int *code);
/* True for exactly one guard of the host: it tells the verdict, which is now in the header. */
bool diagnosis_take(const tess_job *job, int rank, int code);

/* ---- The rank ---- */
/* Starts argv as the child with the other end of *channel. TESS_E_NOT_FOUND, TESS_E_IO: there is no such program, or it
 * cannot be run; then there is no child (0). */
tess_status warden_start(char *const *argv, const tess_child_signals *signals, pid_t *child, int *channel);

/* ---- Requests to stop ---- */
/* Zero-initialised. */
typedef struct warden_stop {
    int signal; /* SIGINT or SIGTERM, once a signal came here */
    int way;    /* by which */
    double signal_s;
    double since_s; /* when the job was seen to have been asked, here or on another host; 0: not yet */
    bool is_overdue;
} warden_stop;

typedef enum warden_stop_word {
    WARDEN_STOP_FIRST,
    WARDEN_STOP_HEARD, /* nothing new */
    WARDEN_STOP_AGAIN  /* a second request: the ranks are to be killed */
} warden_stop_word;

/* What the signal means for a guard that takes it for a request to stop. */
warden_stop_word warden_stop_hear(warden_stop *stop, const struct signalfd_siginfo *info);
/* True once, when the ranks of a job that was asked to stop have had options->stop_grace_s; `tells`: this guard is the
 * one to say so, and at first how long they have. */
bool warden_stop_is_overdue(warden_stop *stop, const tess_job *job, const tess_launch_options *options, bool tells);

/* ---- Processes of the host's ranks ---- */
/* Zero-initialised. */
typedef struct warden_processes {
    double next_s;                    /* when they are looked at again */
    double vanished_s[JOB_MAX_RANKS]; /* since when a rank's process has been missing, 0: it is there */
} warden_processes;

/* Ten times a second. The judge looks after all ranks of the host, the others after its rank; one that has been missing
 * for half a second is lost. */
void warden_processes_look(warden_processes *p, const tess_job *job, bool is_judge, double now_s);

/* What the guard knows from its rank. */
typedef struct warden_client {
    tess_mem *mem;
    int channel; /* -1: closed */
    tess_job job;
    int rank;     /* -1: not adopted */
    agent *agent; /* NULL: not this host's */
    tess_agent_address *hosts;
    int n_hosts;
    uint8_t secret[AGENT_SECRET_BYTES];
} warden_client;

/* ---- The watchdog of a guard ---- */
/* Zero-initialised; a rank may be adopted by one job after the other. */
typedef struct warden_watch {
    const tess_job *job;
    const tess_job_header *header; /* of the job that is watched, NULL: none is */
    uint32_t world;
    tess_watchdog *watchdog; /* NULL: no job yet, or no memory: the guard does without */
    watchdog_job_record record;
} warden_watch;

/* The host's judge looks at all its ranks; the others are only ready for the end of theirs. */
void warden_watch_look(warden_watch *watch, const warden_client *client, const tess_launch_options *options,
                       bool is_judge);
void warden_watch_ended(warden_watch *watch, int rank, int pid, int wait_status, bool asked);
void warden_watch_settle(warden_watch *watch);
/* The verdict in words; the rank that it blames may be another than the one that failed first. */
void warden_watch_report(const tess_job *job, tess_launch_result *result);
/* Writes down how the job ended, when this guard is the one to do so, and frees. */
void warden_watch_end(warden_watch *watch, const tess_launch_result *result, bool is_judge);

/* Takes one request and answers it; closes the channel when the rank misuses it. */
void warden_answer_request(warden_client *client);

#endif
