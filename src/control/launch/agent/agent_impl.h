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
#include "control/launch/output/rank_output.h"
#include "control/launch/watchdog/job_record.h"
#include "control/launch/watchdog/watchdog.h"

/* ---- Connections ---- */
enum { LINK_BYTES = 8192 };

typedef struct agent_link {
    int fd;   /* socket; -1: none */
    int slot; /* index in the latest poll; -1: not part of it */
    size_t in_at, n_in, out_at, n_out;
    uint8_t in[LINK_BYTES], out[LINK_BYTES];
} agent_link;

void agent_link_open(agent_link *link, int fd);
void agent_link_close(agent_link *link);
/* Returns false if there is no room for the frame now. */
bool agent_link_put(agent_link *link, const agent_frame *frame);
/* Sends and receives what is possible without blocking. Returns false if the connection is closed or broken; frames
 * received earlier can still be read. */
bool agent_link_send(agent_link *link);
bool agent_link_receive(agent_link *link);
/* Reads the next received frame. Returns 1 if there is one, 0 if not, -1 if it is malformed. */
int agent_link_next(agent_link *link, agent_frame *frame);

/* ---- The agent ---- */
typedef enum peer_state {
    PEER_AWAITED, /* it will connect to us */
    PEER_IDLE,    /* we will connect to it soon */
    PEER_CALLING,
    PEER_GREETING, /* we have sent our hello, and wait for its hello */
    PEER_ANSWERED, /* it has connected and is sent our hello; until it sends more, it may still give up this call */
    PEER_UP,
    PEER_GONE
} peer_state;

/* The agent of another host. */
typedef struct agent_peer {
    peer_state state;
    tess_agent_address address;
    int next_address;
    double until_s;   /* calling, greeting: when this state times out; idle: when to call again */
    char reason[128]; /* why the last call failed */
    agent_link link;
    /* host_due: a FRAME_HOST must be sent. After it, rows_due rows are sent, beginning with our row number next_row */
    bool host_due;
    int rows_due, next_row;
    size_t next_word;                    /* number of words of that row's set that have been sent already */
    bool diagnosis_sent, diagnosis_seen; /* our diagnosis was sent to it, and it has confirmed it */
} agent_peer;

enum { AGENT_CALLERS = 64 };

/* A connection whose caller has not yet sent its hello. */
typedef struct agent_caller {
    agent_link link;
    double until_s;
} agent_caller;

typedef struct agent {
    tess_mem *mem; /* borrowed, like the job */
    const tess_job *job;
    int host, n_hosts;
    uint8_t secret[AGENT_SECRET_BYTES];
    int listen_fd, listen_slot;
    agent_peer *peers; /* one per host, the element of our own host unused; NULL: the agents have not met yet */
    agent_caller *callers;
    double begin_s;      /* when the meeting began */
    uint64_t news;       /* hash of what must be sent at once when it changes */
    double next_round_s; /* when all rows are sent again */
    uint64_t served_ns;  /* when agent_serve last returned */
    uint64_t *awaited;   /* scratch set of ranks of the job, in the same block as the agent */
    int n_local;
    int local[]; /* ranks of this host */
} agent;

enum { AGENT_POLLS = 1 + JOB_MAX_HOSTS + AGENT_CALLERS };

/* Starts to listen. *mine is the address for the other agents. Destroy with agent_close. */
tess_status agent_listen(tess_mem *mem, const tess_job *job, agent **out, tess_agent_address *mine);
/* Takes the addresses of the other agents, and begins to call those with a larger number. */
tess_status agent_meet(agent *a, const tess_agent_address *hosts, int n_hosts,
                       const uint8_t secret[AGENT_SECRET_BYTES]);
/* Adds the agent's descriptors at fds[0 .. AGENT_POLLS). Returns their number. */
int agent_watch(agent *a, struct pollfd *fds);
/* Call it after poll: receives what has arrived, and sends what is due. */
void agent_serve(agent *a, const struct pollfd *fds);
/* Closes the connections and frees the agent. `stay`: connections stay open until the process ends. The other agents
 * take the end of a connection as the sign that this warden has reported the diagnosis. */
void agent_close(agent **handle, bool stay);
/* Sends the final rows to the other agents, within half a second. */
void agent_say_goodbye(agent *a);
/* Called when mpirun asks this host's ranks to stop. Returns true if a host has been silent for two seconds, because
 * mpirun has then most likely lost it. Its ranks are then lost; the host's agent marks them, and for other wardens
 * `a` is NULL. Wardens of one host that ask within a quarter of a second get the same answer. */
bool agent_lose_silent(agent *a, const tess_job *job);
/* Whether all connected agents know the diagnosis. */
bool agent_diagnosis_is_known(const agent *a);

/* defined in agent_meet.c */
void agent_meet_step(agent *a, const struct pollfd *fds);
/* defined in agent_exchange.c */
static inline bool agent_is_connected(const agent_peer *peer)
{
    return peer->state == PEER_UP || peer->state == PEER_ANSWERED;
}

void agent_peer_up(agent *a, int host);
/* Schedules a round of rows for the peer. Rows are sent in a circle, so that a slow link that never finishes a round
 * starves no row. A lost rank is sent first, before the errors that it caused on other ranks. */
void agent_owe_round(const agent *a, agent_peer *peer);
/* Processes the frames that a peer has sent. */
void agent_receive(agent *a, int host);
/* Sends what is due. If a slow link has not taken a whole round yet, the round is not restarted. Every row is sent
 * in the state that it has then. */
void agent_send_due(agent *a, int host);
/* Sends to all peers what is due, and any change at once. */
void agent_send_all(agent *a);

/* ---- The diagnosis ---- */
/* True for this host, and for a host whose agent is connected and has sent data recently. */
bool ending_in_touch(const tess_job *job, int host);
/* Whether ranks on connected hosts still run, on `host` or (-1) on any host. */
bool ending_is_running(const tess_job *job, int host);
/* Returns the rank where the failure began. *code is the exit code of the job; 0: not known yet. `early`: survivors
 * have not been asked to end yet. */
int ending_find(const tess_job *job, bool early, int *code);
/* Stores the diagnosis in the header. Returns true for exactly one warden of the host, which then reports it. */
bool ending_take(const tess_job *job, int rank, int code);

/* ---- The rank ---- */
/* Starts argv as the child, with the pipes of `output`. The child gets the other end of *channel. TESS_E_NOT_FOUND,
 * TESS_E_IO: there is no such program, or it cannot be run; there is then no child (0). */
tess_status warden_start(char *const *argv, const tess_child_signals *signals, const rank_output *output, pid_t *child,
                         int *channel);

/* ---- Requests to stop ---- */
/* State of requests to stop. It must be zero-initialised. */
typedef struct warden_stop {
    int signal; /* SIGINT or SIGTERM, once this process got a signal */
    int way;    /* origin of that signal: number and sender (warden_stop.c) */
    double signal_s;
    double since_s; /* when a request to stop was first seen, from this or another host; 0: not yet */
    bool is_overdue;
    bool is_loss; /* mpirun sent the signal because it has lost a host, so the ranks are not asked to save */
} warden_stop;

typedef enum warden_stop_kind {
    WARDEN_STOP_FIRST,
    WARDEN_STOP_SAME, /* it belongs to an earlier request */
    WARDEN_STOP_AGAIN /* it is a second request: kill the ranks */
} warden_stop_kind;

/* Processes a signal that asks to stop. Returns what it means. */
warden_stop_kind warden_stop_take(warden_stop *stop, const struct signalfd_siginfo *info);
/* Returns true once, when options->stop_grace_s has passed since the job was asked to stop. `reports`: this warden
 * reports it, and before that how much time the ranks have. */
bool warden_stop_is_overdue(warden_stop *stop, const tess_job *job, const tess_launch_options *options, bool reports);

/* ---- Processes of the host's ranks ---- */
/* State of the checks. It must be zero-initialised. */
typedef struct warden_processes {
    double next_s;      /* time of the next check */
    int world;          /* number of ranks of the current job */
    double *vanished_s; /* (world) time since which a rank's process has been missing; 0: it exists */
} warden_processes;

/* Allocates memory for the job that the warden's rank now belongs to, and frees that of an earlier job. If memory
 * runs out, nothing is checked. */
tess_status warden_processes_begin(warden_processes *p, tess_mem *mem, int world);
void warden_processes_end(warden_processes *p, tess_mem *mem);

/* Checks processes; called ten times a second. The host's first warden (`is_first`) checks all ranks of the host,
 * every other one only its own rank. A rank whose process has been missing for half a second is lost. */
void warden_processes_look(warden_processes *p, const tess_job *job, bool is_first, double now_s);

/* The warden's knowledge of its rank. */
typedef struct warden_client {
    tess_mem *mem;
    int channel; /* channel to the rank; -1: closed */
    tess_job job;
    int rank; /* number of the rank; -1: not adopted yet */
    tess_reporter reporter;
    agent *agent; /* NULL: this warden is not the host's agent */
    tess_agent_address *hosts;
    int n_hosts;
    uint8_t secret[AGENT_SECRET_BYTES];
} warden_client;

/* ---- The watchdog of a warden ---- */
/* State of the watchdog. It must be zero-initialised. Several jobs may adopt the rank, one after the other. */
typedef struct warden_watch {
    const tess_job *job;
    const tess_job_header *header; /* header of the job being watched; NULL: none */
    uint32_t world;
    tess_watchdog *watchdog; /* NULL: there is no job yet, or memory ran out, and the warden continues without */
    watchdog_job_record record;
} warden_watch;

/* Runs the watchdog. The host's first warden watches all ranks of the host; the others only prepare for the end of
 * their own rank. */
void warden_watch_look(warden_watch *watch, const warden_client *client, const tess_launch_options *options,
                       bool is_first);
void warden_watch_ended(warden_watch *watch, int rank, int pid, int wait_status, bool asked);
/* Writes the record of how the job ended, if this warden has to, and frees the state. */
void warden_watch_end(warden_watch *watch, const tess_launch_result *result, bool is_first);

/* Answers one request of the rank. Closes the channel if the rank violates the protocol. */
void warden_answer_request(warden_client *client);

#endif
