/* Requests of a rank to its warden: small messages of one size over a socket pair that the rank inherits at its
 * start. The warden itself is in launch/agent. */
#ifndef TESS_JOB_WARDEN_CALL_H
#define TESS_JOB_WARDEN_CALL_H

#include "job/job_memory.h"

enum { AGENT_ADDRESSES = 8, AGENT_ADDRESS_BYTES = 48, AGENT_SECRET_BYTES = 16 };

/* The addresses at which a host's agent listens. Hosts exchange these bytes. */
typedef struct tess_agent_address {
    char address[AGENT_ADDRESSES][AGENT_ADDRESS_BYTES]; /* numeric, IPv4 or IPv6; "" after the last */
    uint16_t port;
    uint16_t spare[3];
} tess_agent_address;

/* ---- Calls of a rank, in this order ---- */
/* Whether this process is a rank that a warden has started. *fd is then the socket to the warden. */
bool tess_warden_find(int *fd);
/* Passes the host's shared memory and this rank's number to the warden, which from now on writes the rank's end to the
 * board. Before the call the header must hold n_hosts and host, and the rows the host of every rank. The warden of the
 * host's first rank fills in launcher_pid. Once all ranks have left a job in good order a warden may adopt its rank for
 * the next job. */
tess_status tess_warden_adopt(int fd, const tess_job *job, int rank);
/* The host's first rank, in a job of several hosts: asks the warden to be the agent and to listen.
 * Errors are those of tess_host_listen (job/host_port.h). */
tess_status tess_warden_listen(int fd, tess_agent_address *mine);
/* The last call passes it the other hosts' addresses (in the job's numbering) and the job's secret, which agents show
 * each other. Returns at once. The agent connects to those with a larger number. header->agent_state then says that all
 * are up. It says that they are not, and agent_error why, after TESS_AGENT_REACH_S without a connection or
 * TESS_AGENT_CALLED_S without being called. All sleepers of the host are then woken. */
tess_status tess_warden_meet(int fd, const tess_agent_address *hosts, int n_hosts,
                             const uint8_t secret[AGENT_SECRET_BYTES]);

/* Asks the warden to report a line, at any time. Does not wait. */
void tess_warden_say(int fd, const char *line);

/* ---- Messages on the socket ---- */
typedef enum request_kind { REQUEST_ADOPT = 1, REQUEST_LISTEN, REQUEST_MEET, REQUEST_HOST, REQUEST_SAY } request_kind;

/* The rank's message. Each gets an answer, except REQUEST_HOST before the last host, and REQUEST_SAY. */
typedef struct warden_request {
    int32_t kind, rank, world; /* REQUEST_ADOPT */
    int32_t host, n_hosts;     /* REQUEST_MEET: how many hosts follow; REQUEST_HOST: which one it is */
    uint8_t secret[AGENT_SECRET_BYTES];
    tess_agent_address address;
    char text[512]; /* REQUEST_SAY */
} warden_request;

typedef struct warden_answer {
    int32_t status;
    tess_agent_address address; /* REQUEST_LISTEN */
    char error[JOB_ERROR_BYTES];
} warden_answer;

#endif
