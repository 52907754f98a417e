/* Links over TCP of Tessera's own, for jobs on several hosts without an MPI. They fill the same table as the plug-ins
 * for MPI (wire/wire.h).
 *
 *   tcp_wire.c     the table, and this process's state
 *   tcp_secret.c   the job's secret, and proofs that a process knows it
 *   tcp_tls.c      TLS by libssl (comm.tls)
 *   tcp_stream.c   the bytes of a connection, plain or by TLS
 *   tcp_greet.c    the first words on every connection: both sides prove that they know the secret
 *   tcp_guests.c   who has come to the meeting, and who is missing
 *   tcp_meet.c     the meeting: rank 0 collects the addresses of all ranks, and hands them out
 *   tcp_busy.c     answers callers while rank 0 prepares
 *   tcp_hosts.c    lines from the launchers of all hosts to that of host 0
 *   tcp_link.c     a connection from a sender to a receiver, in frames
 *   tcp_message.c  sends, receives, and how they find each other
 *
 * Messages of up to TCP_EAGER_BYTES are sent at once. A longer one is offered first, and its data follows when the
 * receiver has a buffer for it. Each ordered pair of ranks that sends has a connection of its own, which the sender
 * opens at its first message. The receiver's grants go back over the same connection. */
#ifndef TESS_COMM_TCP_TCP_IMPL_H
#define TESS_COMM_TCP_TCP_IMPL_H

#include <sys/uio.h>

#include "comm/tcp/tcp_guests.h"
#include "comm/wire/wire.h"
#include "job/environment.h"
#include "job/warden_call.h"

/* Number of refused callers that are reported. */
enum { TCP_MOST_REFUSALS = 8 };

enum { TCP_EAGER_BYTES = 64 << 10, TCP_CHUNK_BYTES = 512 << 10, TCP_IN_BYTES = 64 << 10 };

typedef struct tcp_tls tcp_tls;
typedef struct tcp_session tcp_session; /* TLS on a connection */

/* ---- tcp_secret.c ---- */
typedef struct tcp_secret {
    size_t n;
    uint8_t bytes[256];
    tcp_tls *tls; /* NULL: connections are plain */
    /* HMAC and EVP_sha256 of libcrypto */
    unsigned char *(*hmac)(const void *hash, const void *key, int n_key, const unsigned char *data, size_t n,
                           unsigned char *out, unsigned int *n_out);
    const void *(*sha256)(void);
} tcp_secret;

/* Reads TESSERA_SECRET or the file TESSERA_SECRET_FILE, and loads libcrypto. TESS_E_INVALID: there is no secret, or a
 * short or a long one. TESS_E_NOT_FOUND: there is no such file, or no libcrypto. TESS_E_UNSUPPORTED: libcrypto computes
 * no HMAC. */
tess_status tcp_secret_open(tcp_secret *secret);
/* Proves that `side` of a connection knows the secret. The proof covers everything that both sides have said. Returns
 * false if libcrypto fails. */
bool tcp_secret_prove(const tcp_secret *secret, const char *side, const tcp_hello *hello,
                      const uint8_t nonce[TCP_NONCE_BYTES], uint8_t proof[TCP_NONCE_BYTES]);

/* Makes another secret of the job's, for one purpose. Returns false if libcrypto fails. */
bool tcp_secret_derive(const tcp_secret *secret, const char *purpose, uint8_t derived[TCP_NONCE_BYTES]);

/* ---- tcp_tls.c ---- */
/* Reasons why a handshake failed. */
#define TCP_ONE_HAS_TLS "one side has comm.tls=true, and the other has not"
#define TCP_OTHER_SECRET "TLS: one side does not know the job's secret"

/* Loads libssl, once in a process. TESS_E_NOT_FOUND: there is none. TESS_E_UNSUPPORTED: it has no TLS 1.3 */
tess_status tcp_tls_open(tcp_secret *secret);
void tcp_tls_close(tcp_secret *secret);
/* Returns NULL if memory runs out. The handshake is part of the first calls of send and receive. */
tcp_session *tcp_session_begin(const tcp_tls *tls, int fd, bool calls);
void tcp_session_end(tcp_session **session);
/* Return the number of bytes; 0: none now; -1: the connection is closed or broken. *why: the reason, if it is known */
ptrdiff_t tcp_session_send(tcp_session *session, const void *data, size_t size, const char **why);
ptrdiff_t tcp_session_receive(const tcp_session *session, void *data, size_t size, const char **why);
/* Whether bytes have come that the socket does not show any more. */
bool tcp_session_has_more(const tcp_session *session);

/* ---- tcp_stream.c ---- */
typedef struct tcp_stream {
    int fd;               /* -1: none */
    tcp_session *session; /* NULL: plain */
    const char *why;      /* the reason why it is broken; NULL: the other end is closed */
} tcp_stream;

/* Takes a connection. Returns false if memory runs out. */
bool tcp_stream_begin(tcp_stream *s, const tcp_secret *secret, int fd, bool calls);
/* Closes the connection. */
void tcp_stream_end(tcp_stream *s);
/* Return the number of bytes sent or received without waiting; 0: none now; -1: the connection is closed or broken.
 * After 0 of a send the same bytes must follow. */
ptrdiff_t tcp_stream_send(tcp_stream *s, struct iovec *parts, int n_parts);
ptrdiff_t tcp_stream_receive(tcp_stream *s, struct iovec *parts, int n_parts);
bool tcp_stream_has_more(const tcp_stream *s);
/* Sends or receives a whole part. Returns false if the connection broke, or at until_s. */
bool tcp_stream_move(tcp_stream *s, void *data, size_t bytes, bool sends, double until_s);
/* Milliseconds until until_s, from 0 to `most`. */
int tcp_left_ms(double until_s, int most);

/* ---- tcp_greet.c ---- */
/* The words of the called side: first its nonce, then its proof. A refusal LATER has a proof of its own kind. */
typedef struct tcp_reply {
    int32_t refused; /* a tcp_refusal; `text` says why, and the connection ends */
    char text[TCP_TEXT_BYTES];
    uint8_t value[TCP_NONCE_BYTES];
} tcp_reply;

/* The greeting on one connection. It never waits. */
typedef struct tcp_greeting {
    const tcp_secret *secret;
    const tcp_hello *self; /* this process: borrowed */
    tcp_stream *stream;    /* borrowed */
    const char *busy;      /* the called side refuses with these words, until later; NULL: it does not */
    /* The called side asks this about a caller that has proved that it knows the secret. Returns the refusal and writes
     * the reason to why (size). NULL: all are wanted. */
    tcp_refusal (*judge)(void *self, const tcp_hello *hello, char *why, size_t size);
    void *judge_self;
    bool calls, refused;
    int step;
    size_t at;
    tcp_hello hello;
    tcp_reply reply;
    uint8_t nonce[TCP_NONCE_BYTES], proof[TCP_NONCE_BYTES];
    char reason[TCP_TEXT_BYTES]; /* why the greeting failed; `refused`: for good, in the words of the other side */
} tcp_greeting;

/* Begins a greeting. `self` has no nonce. `to`: the rank that this process calls; -1: it is called. */
void tcp_greet_begin(tcp_greeting *g, const tcp_secret *secret, tcp_stream *stream, const tcp_hello *self, int to);
/* Returns 1: both sides have proved that they know the secret; 0: not yet; -1: failed (g->reason). */
int tcp_greet(tcp_greeting *g);

/* A process that has called this one. The structs of a list of callers begin with it. */
typedef struct tcp_caller {
    tcp_stream stream; /* fd -1: this place is free */
    tcp_greeting greeting;
    double until_s; /* end of the time for the greeting */
    bool greeted;
    size_t at; /* bytes of the caller's words that have come */
} tcp_caller;

/* How callers are received: what their greetings have in common. */
typedef struct tcp_desk {
    int listen_fd;
    const tcp_secret *secret;
    const tcp_hello *self;
    double patience_s; /* time for a greeting */
    const char *busy;  /* these and the next two as in tcp_greeting */
    tcp_refusal (*judge)(void *self, const tcp_hello *hello, char *why, size_t size);
    void *judge_self;
} tcp_desk;

/* Gives each process that calls a free place, and begins its greeting. The other members of the place become zero.
 * places  (n) structs of `size` bytes that begin with a tcp_caller */
void tcp_accept_callers(const tcp_desk *desk, void *places, int n, size_t size);

/* ---- tcp_meet.c ---- */
/* Longest time for which rank 0 may prepare: it bounds the wait for one that prepares forever. */
#define TCP_BUSY_S (6 * 3600.0)

typedef struct tcp_meeting {
    const tcp_secret *secret;
    tcp_hello hello; /* this process */
    const char *master;
    int port;
    double timeout_s;
    double busy_s; /* longest time for which rank 0 may prepare, in addition to timeout_s */
    void (*say)(void *self, const char *line);
    void *self;
    uint8_t job[TCP_JOB_BYTES];    /* receives the job's number */
    tess_agent_address *addresses; /* (world) receives where each rank listens */
} tcp_meeting;

/* Meets all ranks. `mine`: where this rank listens. TESS_E_TIMEOUT names who is missing. TESS_E_INVALID: two
 * processes have one rank, or differ in the size of the job or in their version; another process owns the port; or
 * this process does not know the secret. */
tess_status tcp_meet(tcp_meeting *meeting, const tess_agent_address *mine);

/* Listens at the job's address if that belongs to this machine and other hosts know it; else, as behind a NAT, on all
 * addresses. TESS_E_INVALID: another program has the port. */
tess_status tcp_listen_at_master(const tcp_meeting *meeting, int *fd);
/* Connects to one of the master's addresses, and greets. Returns whether the connection is there. *why: the reason of a
 * failure after which the call is repeated; greeting->refused: it is not to be repeated. */
bool tcp_reach(const tcp_meeting *meeting, const char *address, double until_s, tcp_stream *stream,
               tcp_greeting *greeting, char *why, size_t size);
/* Fills what all hellos of this process have in common. */
void tcp_hello_fill(tcp_hello *hello);
/* The hello of the rank that this environment describes. */
void tcp_hello_of(const tess_environment *e, tcp_hello *hello);

/* ---- tcp_link.c ---- */
typedef enum tcp_frame_kind { TCP_EAGER = 1, TCP_OFFER, TCP_GRANT, TCP_DATA } tcp_frame_kind;

/* The head of a frame. Hosts exchange these bytes. Data follows an EAGER and a DATA. */
typedef struct tcp_frame {
    uint32_t kind, tag; /* EAGER, OFFER */
    uint64_t group;     /* EAGER, OFFER */
    uint64_t bytes;     /* EAGER, DATA: that follow; OFFER: of the message; GRANT: 0 if the message is not wanted */
    uint64_t id;        /* OFFER, GRANT: the sender's number of the message; DATA: the receiver's */
    uint64_t receiver;  /* GRANT: the receiver's number of the message */
} tcp_frame;

/* A list of requests, first in, first out. */
typedef struct tcp_list {
    wire_request *first, **end;
} tcp_list;

void tcp_list_add(tcp_list *list, wire_request *request);
/* Takes a request off the list. Returns false if it is not there. */
bool tcp_list_take(tcp_list *list, const wire_request *request);

typedef enum tcp_link_state { TCP_IDLE, TCP_CALLING, TCP_GREETING, TCP_UP, TCP_BROKEN } tcp_link_state;

/* A message that came before its receiver asked for it. */
typedef struct tcp_early {
    struct tcp_early *next;
    tcp_frame head;
    bool complete;
    wire_request *taker; /* an EAGER that is wanted, but not complete */
    uint8_t data[];      /* data of an EAGER */
} tcp_early;

typedef struct tcp_link {
    struct tcp_link *next; /* next link of this process */
    tcp_stream stream;
    int peer;        /* rank; -1: it has not said who it is */
    bool is_out;     /* this process sends messages over it */
    bool wants_room; /* the socket was full */
    bool used;       /* a frame has arrived */
    tcp_link_state state;
    double until_s, begin_s;
    int next_address;
    char reason[TCP_TEXT_BYTES + 64];
    tcp_greeting *greeting;
    tcp_list announced, offered, granted; /* messages of a sender, by state; `granted` alone also on the other side */
    tcp_frame *grants;                    /* grants that are to be sent */
    size_t grants_at, n_grants, grants_room;
    struct {
        bool active;
        tcp_frame head;
        const uint8_t *data;
        size_t bytes, at; /* size of the data; bytes of head and data that have been sent */
        wire_request *request;
    } out;
    struct {
        uint8_t *to;  /* NULL: the data is dropped */
        size_t bytes; /* number of bytes that are still to come */
        wire_request *request;
        tcp_early *early;
        bool active;
    } in;
    uint8_t rest[sizeof(tcp_frame)]; /* (n_rest) the start of a head whose end has not come */
    size_t n_rest;
} tcp_link;

/* Whatever this process and one other rank have for each other. */
typedef struct tcp_peer {
    tcp_link *out, *in;
    tcp_list awaited; /* receives whose message has not come */
    tcp_early *early, **early_end;
} tcp_peer;

typedef struct tcp_state {
    tcp_secret secret;
    tcp_meeting meeting;
    tess_agent_address *addresses;
    int rank, size, listen_fd, epoll_fd;
    tcp_peer *peers;
    tcp_link *links;
    wire_group *world, *groups;
    wire_request *idle;
    uint64_t next_id;
    int n_callers;
    double next_step_s;
    uint64_t n_groups;
    uint8_t in_bytes[TCP_IN_BYTES]; /* bytes that one link has received; empty between two receives */
} tcp_state;

extern tcp_state tcp;

/* Returns the link for messages to a rank. Makes it at the first call. NULL: out of memory. */
tcp_link *tcp_link_to(int rank);
/* Sends what the socket takes. */
void tcp_link_send(tcp_link *link);
/* Answers an offer. `receiver`: 0 if the message is not wanted. */
void tcp_link_grant(tcp_link *link, uint64_t id, uint64_t receiver);
/* Serves all links without waiting. */
void tcp_progress(void);
void tcp_links_close(void);

/* ---- tcp_message.c ---- */
struct wire_group {
    wire_group *next;
    uint64_t id;
    int n, tag;
    int *ranks; /* (n) in the same block */
};

typedef enum tcp_request_kind { TCP_SEND, TCP_RECV, TCP_GATHER } tcp_request_kind;
typedef enum tcp_request_state { TCP_WAITS, TCP_MOVES, TCP_DONE, TCP_FAILED } tcp_request_state;

struct wire_request {
    wire_request *next;
    tcp_request_kind kind;
    tcp_request_state state;
    bool abandoned;
    int peer, from; /* rank; its number in the group */
    uint32_t tag;
    uint64_t group, id;
    uint8_t *data;
    size_t bytes, moved, message_bytes; /* room or size; what has moved; the size that the sender says */
    /* TCP_GATHER */
    wire_group *members;
    wire_request **parts;
    int n_parts, room, phase;
};

/* A frame that the sender of a link has sent: an EAGER or OFFER finds its receive, or waits for it. Returns false if
 * memory runs out. */
bool tcp_message_arrived(tcp_link *link, const tcp_frame *head);
/* The data of an early EAGER is complete. */
void tcp_early_complete(tcp_link *link, tcp_early *early);
void tcp_request_done(wire_request *request);
void tcp_early_free(tcp_peer *peer);

int tcp_send(wire_group *group, const void *data, size_t bytes, int to, int tag, wire_request **request,
             char error[WIRE_ERROR_BYTES]);
int tcp_recv(wire_group *group, void *data, size_t bytes, int from, int tag, wire_request **request,
             char error[WIRE_ERROR_BYTES]);
int tcp_all_gather(wire_group *group, const void *in, void *out, size_t bytes, wire_request **request,
                   char error[WIRE_ERROR_BYTES]);
int tcp_test(wire_request **request, char error[WIRE_ERROR_BYTES]);
void tcp_cancel(wire_request **request);

#endif
