/* Private to the folder: the parts of a warden.
 *
 *     warden.c           the process: its child, its signals, when it may end
 *     warden_start.c     its child: the rank
 *     warden_stop.c      requests to stop, and how long the ranks may take
 *     warden_processes.c ranks of the host that vanished without a report
 *     warden_requests.c  its answers to the rank's requests
 *     warden_watch.c     its watchdog
 *     agent_root_cause.c the root cause of a failure, and which warden reports it
 *     agent.c            the agent: its creation, its end and its part in the loop
 *     agent_exchange.c   boards out, boards in
 *     agent_meet.c       how agents find each other
 *     agent_link.c       one connection, in frames */
#ifndef TESS_CONTROL_LAUNCH_AGENT_AGENT_IMPL_H
#define TESS_CONTROL_LAUNCH_AGENT_AGENT_IMPL_H

#include <poll.h>
#include <sys/signalfd.h>

#include "control/launch/agent/agent_frames.h"
#include "control/launch/child.h"
#include "control/launch/watchdog/job_record.h"
#include "control/launch/watchdog/watchdog.h"

/* ---- Connections ---- */
enum { LINK_BYTES = 8192 };

typedef struct agent_link {
    int fd;   /* -1: none */
    int slot; /* index in the newest poll, -1: not in it */
    size_t in_at, n_in, out_at, n_out;
    uint8_t in[LINK_BYTES], out[LINK_BYTES];
} agent_link;

void agent_link_open(agent_link *link, int fd);
void agent_link_close(agent_link *link);
/* False: no room for the frame now. */
bool agent_link_put(agent_link *link, const agent_frame *frame);
/* Sends and receives what is possible now. False: the connection is closed or broken; frames received before can still
 * be read. */
bool agent_link_send(agent_link *link);
bool agent_link_receive(agent_link *link);
/* Reads the next frame received: 1; 0: none; -1: malformed. */
int agent_link_next(agent_link *link, agent_frame *frame);

/* ---- The agent ---- */
typedef enum peer_state {
    PEER_AWAITED, /* it connects to us */
    PEER_IDLE,    /* we connect to it, soon */
    PEER_CALLING,
    PEER_GREETING, /* our hello was sent, its hello has not come */
    PEER_ANSWERED, /* it has connected and gets our hello; it may give that call up until it sends more */
    PEER_UP,
    PEER_GONE
} peer_state;

/* The agent of another host. */
typedef struct agent_peer {
    peer_state state;
    tess_agent_address address;
    int next_address;
    double until_s;   /* when this state times out (calling, greeting); idle: when to call again */
    char reason[128]; /* why the last call failed */
    agent_link link;
    bool host_due; /* a FRAME_HOST must go out, then rows_due rows, beginning with the next_row-th of ours */
    int rows_due, next_row;
    size_t next_word;                    /* words before it of the set of that row have gone out */
    bool diagnosis_sent, diagnosis_seen; /* state of our diagnosis there */
} agent_peer;

enum { AGENT_CALLERS = 64 };

/* A connection whose caller has not sent its hello. */
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
    agent_peer *peers; /* one per host, our own unused; NULL: not met yet */
    agent_caller *callers;
    double begin_s;      /* when the meeting began */
    uint64_t news;       /* hash of what must be sent at once */
    double next_round_s; /* when rows are sent in any case */
    uint64_t served_ns;  /* when agent_serve last returned */
    uint64_t *awaited;   /* scratch: a set of ranks of the job, in the same block as the agent */
    int n_local;
    int local[]; /* ranks of this host */
} agent;

enum { AGENT_POLLS = 1 + JOB_MAX_HOSTS + AGENT_CALLERS };

/* Starts to listen; *mine is the address for the others. Destroy with agent_close. */
tess_status agent_listen(tess_mem *mem, const tess_job *job, agent **out, tess_agent_address *mine);
/* Takes the others' addresses, and begins to call those with a larger number. */
tess_status agent_meet(agent *a, const tess_agent_address *hosts, int n_hosts,
                       const uint8_t secret[AGENT_SECRET_BYTES]);
/* Adds its descriptors at fds[0 .. AGENT_POLLS). Returns how many. */
int agent_watch(agent *a, struct pollfd *fds);
/* After poll: receives what came, sends what is due. */
void agent_serve(agent *a, const struct pollfd *fds);
/* Hangs up and frees. `stay`: connections stay open until the process ends, because the others take their end as the
 * sign that this warden has reported the diagnosis. */
void agent_close(agent **handle, bool stay);
/* Sends the others the final rows, within half a second. */
void agent_say_goodbye(agent *a);
/* When mpirun asks this host's ranks to stop: true if a host has been silent for two seconds, so that mpirun most
 * likely has lost it. Its ranks are then lost, which the host's agent notes; for the other wardens `a` is NULL. Wardens
 * of a host that ask within a quarter of a second get the same answer. */
bool agent_lose_silent(agent *a, const tess_job *job);
/* True when all agents in touch know the diagnosis. */
bool agent_diagnosis_is_known(const agent *a);

/* agent_meet.c */
void agent_meet_step(agent *a, const struct pollfd *fds);
/* agent_exchange.c */
static inline bool agent_is_connected(const agent_peer *peer)
{
    return peer->state == PEER_UP || peer->state == PEER_ANSWERED;
}

void agent_peer_up(agent *a, int host);
/* Schedules a round of rows for the peer. Rows are sent in a circle, so that a slow link that never finishes a round
 * starves none. A lost rank goes first, before what the others report because of it. */
void agent_owe_round(const agent *a, agent_peer *peer);
/* Takes in the frames that a peer has sent. */
void agent_receive(agent *a, int host);
/* Sends what is due. A round that a slow link has not taken yet is not restarted; every row goes out as it is then. */
void agent_send_due(agent *a, int host);
/* Sends to all peers what is due, and changes at once. */
void agent_send_all(agent *a);

/* ---- The diagnosis ---- */
/* True for this host, and for a host whose agent is connected and was heard lately. */
bool ending_in_touch(const tess_job *job, int host);
/* True while ranks in touch still run, on `host` or (-1) on any. */
bool ending_is_running(const tess_job *job, int host);
/* The rank where the failure began; *code is the exit code of the job, 0: not known yet. `early`: survivors have not
 * been asked to end. */
int ending_find(const tess_job *job, bool early, int *code);
/* True for exactly one warden of the host: it reports the diagnosis, which is now in the header. */
bool ending_take(const tess_job *job, int rank, int code);

/* ---- The rank ---- */
/* Starts argv as the child, which gets the other end of *channel. TESS_E_NOT_FOUND, TESS_E_IO: there is no such
 * program, or it cannot be run; then there is no child (0). */
tess_status warden_start(char *const *argv, const tess_child_signals *signals, pid_t *child, int *channel);

/* ---- Requests to stop ---- */
/* Zero-initialised. */
typedef struct warden_stop {
    int signal; /* SIGINT or SIGTERM, once a signal came here */
    int way;    /* number and sender of that signal (warden_stop.c) */
    double signal_s;
    double since_s; /* when the job was first seen to be asked to stop, here or on another host; 0: not yet */
    bool is_overdue;
    bool is_loss; /* mpirun sent the signal because it has lost a host: the ranks are not asked to save */
} warden_stop;

typedef enum warden_stop_kind {
    WARDEN_STOP_FIRST,
    WARDEN_STOP_SAME, /* part of an earlier request */
    WARDEN_STOP_AGAIN /* a second request: kill the ranks */
} warden_stop_kind;

/* Takes a signal that asks to stop, and returns what it means. */
warden_stop_kind warden_stop_take(warden_stop *stop, const struct signalfd_siginfo *info);
/* True once, when options->stop_grace_s has passed since the job was asked to stop. `reports`: this warden
 * reports that, and at first how long the ranks have. */
bool warden_stop_is_overdue(warden_stop *stop, const tess_job *job, const tess_launch_options *options, bool reports);

/* ---- Processes of the host's ranks ---- */
/* Zero-initialised. */
typedef struct warden_processes {
    double next_s;      /* when they are checked again */
    int world;          /* ranks of the newest job */
    double *vanished_s; /* (world) since when a rank's process has been missing, 0: it exists */
} warden_processes;

/* Memory for the job that the warden's rank belongs to now; that of an earlier job is freed. Without memory nothing is
 * checked. */
tess_status warden_processes_begin(warden_processes *p, tess_mem *mem, int world);
void warden_processes_end(warden_processes *p, tess_mem *mem);

/* Ten times a second. The host's first warden (`is_first`) checks all ranks of the host, the others check their own. A
 * rank that has been missing for half a second is lost. */
void warden_processes_look(warden_processes *p, const tess_job *job, bool is_first, double now_s);

/* The warden's knowledge of its rank. */
typedef struct warden_client {
    tess_mem *mem;
    int channel; /* -1: closed */
    tess_job job;
    int rank;     /* -1: not adopted */
    agent *agent; /* NULL: this warden is not the host's agent */
    tess_agent_address *hosts;
    int n_hosts;
    uint8_t secret[AGENT_SECRET_BYTES];
} warden_client;

/* ---- The watchdog of a warden ---- */
/* Zero-initialised; one job after the other may adopt the rank. */
typedef struct warden_watch {
    const tess_job *job;
    const tess_job_header *header; /* header of the job being watched, NULL: none */
    uint32_t world;
    tess_watchdog *watchdog; /* NULL: no job yet, or no memory: the warden does without */
    watchdog_job_record record;
} warden_watch;

/* The host's first warden watches all its ranks; the others only prepare for the end of their own. */
void warden_watch_look(warden_watch *watch, const warden_client *client, const tess_launch_options *options,
                       bool is_first);
void warden_watch_ended(warden_watch *watch, int rank, int pid, int wait_status, bool asked);
/* Writes the record of how the job ended, if this warden must, and frees. */
void warden_watch_end(warden_watch *watch, const tess_launch_result *result, bool is_first);

/* Takes one request and answers it. Closes the channel when the rank violates the protocol. */
void warden_answer_request(warden_client *client);

#endif
