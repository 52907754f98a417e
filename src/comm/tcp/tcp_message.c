/* Sends, receives and gathers, and how a message finds the receive that waits for it: by the group, the sender and the
 * tag, in the order in which both were begun. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "comm/tcp/tcp_impl.h"

/* A receive accepts a shorter message if its buffer is smaller than this. */
#define LEAST_EXACT_BYTES ((size_t)1 << 30)

/* Messages of gathers have a group of their own, next to that of sends and receives. */
enum { GATHERS = 1 };

/* Time for the ranks' wardens to report a rank's end before a broken link counts as an error of its own. */
static const double broken_s = 3;

__attribute__((format(printf, 2, 3))) static int fail(char error[WIRE_ERROR_BYTES], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error, WIRE_ERROR_BYTES, format, arguments);
    va_end(arguments);
    return -1;
}

/* ---- Requests ---- */
static void recycle(wire_request *request)
{
    request->next = tcp.idle;
    tcp.idle = request;
}

static wire_request *take_request(tcp_request_kind kind, const wire_group *group, void *data, size_t bytes)
{
    wire_request *request = tcp.idle;
    if (request != NULL)
        tcp.idle = request->next;
    else if ((request = calloc(1, sizeof(*request))) == NULL)
        return NULL;
    wire_request **parts = request->parts;
    int room = request->room;
    *request = (wire_request){.kind = kind,
                              .group = group->id,
                              .id = ++tcp.next_id,
                              .data = data,
                              .bytes = bytes,
                              .parts = parts,
                              .room = room};
    return request;
}

void tcp_request_done(wire_request *request)
{
    request->state = TCP_DONE;
    if (request->abandoned)
        recycle(request);
}

/* ---- Matching ---- */
/* Whether the sender's size is accepted. Otherwise the receive fails, and the message is dropped. */
static bool takes(wire_request *request, const tcp_frame *head)
{
    request->message_bytes = head->bytes;
    bool fits = head->bytes == request->bytes || (head->bytes < request->bytes && request->bytes < LEAST_EXACT_BYTES);
    request->state = fits ? TCP_MOVES : TCP_FAILED;
    return fits;
}

static wire_request *find_awaited(const tcp_peer *peer, const tcp_frame *head)
{
    wire_request *request = peer->awaited.first;
    while (request != NULL && (request->group != head->group || request->tag != head->tag))
        request = request->next;
    return request;
}

static tcp_early *keep(tcp_peer *peer, const tcp_frame *head)
{
    size_t bytes = head->kind == TCP_EAGER ? head->bytes : 0;
    tcp_early *early = malloc(sizeof(*early) + bytes);
    if (early == NULL)
        return NULL;
    *early = (tcp_early){.head = *head};
    if (peer->early_end == NULL)
        peer->early_end = &peer->early;
    *peer->early_end = early;
    peer->early_end = &early->next;
    return early;
}

static void take_off(tcp_peer *peer, tcp_early *early)
{
    tcp_early **at = &peer->early;
    while (*at != NULL && *at != early)
        at = &(*at)->next;
    if (*at == NULL)
        return;
    *at = early->next;
    if (*at == NULL)
        peer->early_end = at;
}

void tcp_early_free(tcp_peer *peer)
{
    while (peer->early != NULL) {
        tcp_early *early = peer->early;
        peer->early = early->next;
        free(early);
    }
}

/* Grants an offered message to a receive, or tells the sender that it is not wanted. */
static void grant(tcp_link *link, const tcp_frame *head, wire_request *request)
{
    bool wanted = takes(request, head);
    if (wanted)
        tcp_list_add(&link->granted, request);
    tcp_link_grant(link, head->id, wanted ? request->id : 0);
}

bool tcp_message_arrived(tcp_link *link, const tcp_frame *head)
{
    tcp_peer *peer = &tcp.peers[link->peer];
    wire_request *request = find_awaited(peer, head);
    tcp_early *early = NULL;
    if (request != NULL)
        tcp_list_take(&peer->awaited, request);
    else if ((early = keep(peer, head)) == NULL)
        return false;
    if (head->kind == TCP_OFFER) {
        if (request != NULL)
            grant(link, head, request);
        return true;
    }
    bool wanted = request != NULL && takes(request, head);
    link->in.active = true;
    link->in.bytes = head->bytes;
    link->in.request = wanted ? request : NULL;
    link->in.to = wanted ? request->data : early != NULL ? early->data : NULL;
    link->in.early = early;
    return true;
}

/* Copies an early message that is complete to its receive. */
static void copy_early(tcp_early *early, wire_request *request)
{
    if (takes(request, &early->head)) {
        if (early->head.bytes > 0 && request->data != NULL)
            memcpy(request->data, early->data, early->head.bytes);
        tcp_request_done(request);
    } else if (request->abandoned) {
        recycle(request);
    }
    free(early);
}

void tcp_early_complete(TESS_UNUSED tcp_link *link, tcp_early *early)
{
    early->complete = true;
    if (early->taker != NULL)
        copy_early(early, early->taker);
}

/* Gives an early message to a receive. Returns false if none fits. */
static bool take_early(tcp_peer *peer, wire_request *request)
{
    tcp_early *early = peer->early;
    while (early != NULL && (early->head.group != request->group || early->head.tag != request->tag))
        early = early->next;
    if (early == NULL)
        return false;
    take_off(peer, early);
    if (early->head.kind == TCP_OFFER) {
        grant(peer->in, &early->head, request);
        free(early);
    } else if (early->complete) {
        copy_early(early, request);
    } else {
        request->state = TCP_MOVES;
        early->taker = request;
    }
    return true;
}

/* ---- Sends and receives ---- */
static void begin_send(wire_request *request, tcp_link *link)
{
    tcp_list_add(&link->announced, request);
    tcp_link_send(link);
}

static void begin_recv(wire_request *request)
{
    tcp_peer *peer = &tcp.peers[request->peer];
    if (!take_early(peer, request))
        tcp_list_add(&peer->awaited, request);
}

static wire_request *begin(tcp_request_kind kind, const wire_group *group, uint64_t id, void *data, size_t bytes,
                           int other, int tag)
{
    wire_request *request = take_request(kind, group, data, bytes);
    tcp_link *link = kind == TCP_SEND ? tcp_link_to(group->ranks[other]) : NULL;
    if (request != NULL && kind == TCP_SEND && link == NULL) {
        recycle(request);
        request = NULL;
    }
    if (request == NULL)
        return NULL;
    request->group = id;
    request->peer = group->ranks[other];
    request->from = other;
    request->tag = (uint32_t)tag;
    if (kind == TCP_SEND)
        begin_send(request, link);
    else
        begin_recv(request);
    return request;
}

static int begin_message(tcp_request_kind kind, const wire_group *group, void *data, size_t bytes, int other, int tag,
                         wire_request **request, char error[WIRE_ERROR_BYTES])
{
    const char *what = kind == TCP_SEND ? "sending" : "receiving", *way = kind == TCP_SEND ? "to" : "from";
    if (other < 0 || other >= group->n || tag < 0)
        return fail(error, "%s %zu bytes %s %d with tag %d: the group has %d ranks", what, bytes, way, other, tag,
                    group->n);
    *request = begin(kind, group, group->id, data, bytes, other, tag);
    return *request != NULL ? 0 : fail(error, "%s %zu bytes %s %d: out of memory", what, bytes, way, other);
}

int tcp_send(wire_group *group, const void *data, size_t bytes, int to, int tag, wire_request **request,
             char error[WIRE_ERROR_BYTES])
{
    return begin_message(TCP_SEND, group, (void *)(uintptr_t)data, bytes, to, tag, request, error);
}

int tcp_recv(wire_group *group, void *data, size_t bytes, int from, int tag, wire_request **request,
             char error[WIRE_ERROR_BYTES])
{
    return begin_message(TCP_RECV, group, data, bytes, from, tag, request, error);
}

/* ---- Gathers: all send to the group's first member, which sends everything to all ---- */
static bool add_part(wire_request *gather, tcp_request_kind kind, void *data, size_t bytes, int other)
{
    const wire_group *group = gather->members;
    wire_request *part = begin(kind, group, group->id ^ GATHERS, data, bytes, other, 0);
    if (part != NULL)
        gather->parts[gather->n_parts++] = part;
    return part != NULL;
}

static bool make_room(wire_request *gather, int n)
{
    if (gather->room >= n)
        return true;
    wire_request **parts = realloc(gather->parts, (size_t)n * sizeof(wire_request *));
    if (parts == NULL)
        return false;
    gather->parts = parts;
    gather->room = n;
    return true;
}

int tcp_all_gather(wire_group *group, const void *in, void *out, size_t bytes, wire_request **request,
                   char error[WIRE_ERROR_BYTES])
{
    size_t all = bytes * (size_t)group->n;
    wire_request *gather = take_request(TCP_GATHER, group, out, all);
    if (gather == NULL)
        return fail(error, "all_gather: out of memory");
    gather->members = group;
    bool begun = make_room(gather, group->n + 1);
    if (begun && group->ranks[0] == tcp.rank) {
        if (bytes > 0)
            memcpy(out, in, bytes);
        for (int i = 1; i < group->n && begun; i++)
            begun = add_part(gather, TCP_RECV, (uint8_t *)out + (size_t)i * bytes, bytes, i);
    } else if (begun) {
        gather->phase = 1;
        begun = add_part(gather, TCP_SEND, (void *)(uintptr_t)in, bytes, 0) && add_part(gather, TCP_RECV, out, all, 0);
    }
    *request = gather;
    if (begun)
        return 0;
    tcp_cancel(request);
    return fail(error, "all_gather: out of memory");
}

static int test_gather(wire_request *gather, char error[WIRE_ERROR_BYTES])
{
    for (;;) {
        while (gather->n_parts > 0) {
            int done = tcp_test(&gather->parts[gather->n_parts - 1], error);
            if (done == 0)
                return 0;
            gather->n_parts--;
            if (done < 0)
                return -1;
        }
        if (gather->phase == 1)
            return 1;
        gather->phase = 1;
        for (int i = 1; i < gather->members->n; i++)
            if (!add_part(gather, TCP_SEND, gather->data, gather->bytes, i))
                return fail(error, "all_gather: out of memory");
    }
}

/* ---- Tests ---- */
/* Whether the link that the message needs has been broken for a while. */
static const tcp_link *find_broken(const wire_request *request)
{
    const tcp_peer *peer = &tcp.peers[request->peer];
    const tcp_link *link = request->kind == TCP_SEND ? peer->out : peer->in;
    bool is_broken = link != NULL && link->state == TCP_BROKEN && tess_os_now_s() - link->begin_s >= broken_s;
    return is_broken ? link : NULL;
}

static int test_message(const wire_request *request, char error[WIRE_ERROR_BYTES])
{
    const tcp_link *broken;
    switch (request->state) {
    case TCP_DONE:
        return 1;
    case TCP_FAILED:
        return fail(error, "a message from %d has %zu bytes, but %zu were expected", request->from,
                    request->message_bytes, request->bytes);
    default:
        broken = find_broken(request);
        return broken == NULL ? 0
                              : fail(error, "the link %s %d is broken: %s", request->kind == TCP_SEND ? "to" : "from",
                                     request->peer, broken->reason);
    }
}

int tcp_test(wire_request **request, char error[WIRE_ERROR_BYTES])
{
    if ((*request)->state != TCP_DONE)
        tcp_progress();
    int done = (*request)->kind == TCP_GATHER ? test_gather(*request, error) : test_message(*request, error);
    if (done > 0) {
        recycle(*request);
        *request = NULL;
    } else if (done < 0) {
        tcp_cancel(request);
    }
    return done;
}

/* Drops the data of a receive that has begun. A send goes on. */
static void abandon(wire_request *request)
{
    const tcp_link *link = tcp.peers[request->peer].in;
    request->abandoned = true;
    if (request->kind != TCP_RECV)
        return;
    request->data = NULL;
    if (link != NULL && link->in.active && link->in.request == request)
        ((tcp_link *)(uintptr_t)link)->in.to = NULL;
}

void tcp_cancel(wire_request **request)
{
    wire_request *given = *request;
    *request = NULL;
    if (given == NULL)
        return;
    while (given->n_parts > 0)
        tcp_cancel(&given->parts[--given->n_parts]);
    bool waits = given->kind == TCP_RECV && tcp_list_take(&tcp.peers[given->peer].awaited, given);
    if (waits || given->kind == TCP_GATHER || given->state == TCP_DONE || given->state == TCP_FAILED)
        recycle(given);
    else
        abandon(given);
}
