/* The list of ranks that have come to a meeting. Pure functions of what callers have said: no sockets. */
#ifndef TESS_COMM_TCP_TCP_GUESTS_H
#define TESS_COMM_TCP_TCP_GUESTS_H

#include <stdbool.h>

#include "tessera/memory.h"

enum { TCP_VERSION = 1, TCP_NONCE_BYTES = 32, TCP_JOB_BYTES = 16, TCP_TEXT_BYTES = 220 };

/* TO_HOSTS: launchers of hosts talk to that of host 0; `rank` and `world` count hosts then (tcp_hosts.h). */
typedef enum tcp_purpose { TCP_TO_MEET = 1, TCP_TO_SEND, TCP_TO_HOSTS } tcp_purpose;

/* FOR_GOOD: the caller need not call again. HERE: its rank may listen at another address. LATER: it is to call again
 * until its patience ends; the called side proves that it knows the secret. */
typedef enum tcp_refusal { TCP_NOT_REFUSED, TCP_REFUSED_FOR_GOOD, TCP_REFUSED_HERE, TCP_REFUSED_LATER } tcp_refusal;

/* The first words of the caller of a connection. Hosts exchange these bytes. */
typedef struct tcp_hello {
    char magic[8];
    uint32_t version, purpose;
    int32_t rank, world, local_world;
    int32_t to;            /* the rank that is called */
    int32_t node, n_nodes; /* -1: not known */
    int32_t pid;
    char release[24];
    char host[64];
    /* TO_SEND: the number from the meeting; TO_MEET: that of this start, or zeros; TO_HOSTS: that of this launcher */
    uint8_t job[TCP_JOB_BYTES];
    uint8_t nonce[TCP_NONCE_BYTES];
} tcp_hello;

_Static_assert(sizeof(tcp_hello) == 180, "hosts exchange these bytes");

/* Checks a hello of unknown origin, and ends its texts. Returns NULL, or why it is refused. */
const char *tcp_hello_check(tcp_hello *hello);
/* Compares the hello of a caller who knows the secret with that of this process, `called`. Returns NULL, or why the
 * caller is refused. *refusal: FOR_GOOD if another call cannot succeed, otherwise HERE. */
const char *tcp_hello_compare(const tcp_hello *hello, const tcp_hello *called, tcp_refusal *refusal);

typedef struct tcp_guests {
    tcp_hello first; /* rank 0's */
    tcp_hello *came; /* (world) by rank; world 0: the rank has not come */
    int n_came;
} tcp_guests;

/* Begins a list with rank 0. Free with tcp_guests_free. */
tess_status tcp_guests_begin(tcp_guests *guests, const tcp_hello *first);
void tcp_guests_free(tcp_guests *guests);
/* Adds a rank. TESS_E_INVALID names it and the rank that it does not fit. */
tess_status tcp_guests_add(tcp_guests *guests, const tcp_hello *hello);
/* Describes who is missing: "2 of 4 ranks: 2-3 (node 1 of 2 has not come)". */
const char *tcp_guests_missing(const tcp_guests *guests, char *text, size_t size);

#endif
