/* A connection from a sender to a receiver, in frames. It never waits, and makes progress when a rank looks after its
 * messages (tcp_progress). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/os/os.h"
#include "base/os/sockets.h"
#include "comm/tcp/tcp_impl.h"

enum { EVENTS = 64, MOST_CALLERS = 256, READ_BYTES = 4 << 20 };

/* Time in which a connection must come about; pause between two calls; time after which a peer that cannot be called
 * has a broken link; pause between two looks at calls. A greeting may take long: the other rank answers when it looks
 * after its messages. */
static const double connect_s = 3, pause_s = 0.1, give_up_s = 20, step_s = 0.05;

void tcp_list_add(tcp_list *list, wire_request *request)
{
    if (list->end == NULL)
        list->end = &list->first;
    request->next = NULL;
    *list->end = request;
    list->end = &request->next;
}

bool tcp_list_take(tcp_list *list, const wire_request *request)
{
    wire_request **at = &list->first;
    while (*at != NULL && *at != request)
        at = &(*at)->next;
    if (*at == NULL)
        return false;
    *at = request->next;
    if (*at == NULL)
        list->end = at;
    return true;
}

static wire_request *find(const tcp_list *list, uint64_t id)
{
    wire_request *request = list->first;
    while (request != NULL && request->id != id)
        request = request->next;
    return request;
}

/* ---- State of a link ---- */
static void watch(tcp_link *link, int operation)
{
    struct epoll_event event = {.events = EPOLLIN | (link->wants_room ? EPOLLOUT : 0u), .data.ptr = link};
    epoll_ctl(tcp.epoll_fd, operation, link->stream.fd, &event);
}

static void want_room(tcp_link *link, bool wants)
{
    if (link->wants_room == wants)
        return;
    link->wants_room = wants;
    watch(link, EPOLL_CTL_MOD);
}

static void hang_up(tcp_link *link)
{
    tcp_stream_end(&link->stream);
    free(link->greeting);
    link->greeting = NULL;
    link->wants_room = false;
}

static void end_link(tcp_link *link, const char *reason)
{
    snprintf(link->reason, sizeof(link->reason), "%s", reason);
    hang_up(link);
    link->state = TCP_BROKEN;
    link->begin_s = tess_os_now_s();
}

static void end_broken(tcp_link *link)
{
    end_link(link, link->stream.why != NULL ? link->stream.why : "the other end is closed");
}

static tcp_link *make_link(int peer, bool is_out)
{
    tcp_link *link = calloc(1, sizeof(*link));
    if (link == NULL)
        return NULL;
    *link = (tcp_link){.next = tcp.links, .stream.fd = -1, .peer = peer, .is_out = is_out, .begin_s = tess_os_now_s()};
    tcp.links = link;
    return link;
}

static void free_link(tcp_link *link)
{
    tcp_link **at = &tcp.links;
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    hang_up(link);
    free(link->grants);
    free(link);
}

static bool begin_greeting(tcp_link *link)
{
    link->greeting = malloc(sizeof(*link->greeting));
    if (link->greeting == NULL)
        return false;
    tcp_greet_begin(link->greeting, &tcp.secret, &link->stream, &tcp.meeting.hello, link->is_out ? link->peer : -1);
    link->state = TCP_GREETING;
    return true;
}

/* ---- Calling ---- */
static void call_failed(tcp_link *link, const char *reason, double now_s)
{
    const tess_agent_address *peer = &tcp.addresses[link->peer];
    char text[sizeof(link->reason)];
    bool refused = link->greeting != NULL && link->greeting->refused;
    snprintf(text, sizeof(text), "%s:%d: %s", peer->address[link->next_address], peer->port, reason);
    hang_up(link);
    link->state = TCP_IDLE;
    link->until_s = now_s + pause_s;
    link->next_address++;
    if (link->next_address >= AGENT_ADDRESSES || peer->address[link->next_address][0] == '\0')
        link->next_address = 0;
    if (refused || now_s - link->begin_s >= give_up_s)
        end_link(link, text);
}

static void call(tcp_link *link, double now_s)
{
    const tess_agent_address *peer = &tcp.addresses[link->peer];
    const int fd = tess_os_connect(peer->address[link->next_address], peer->port);
    if (fd < 0) {
        call_failed(link, strerror(errno), now_s);
        return;
    }
    if (!tcp_stream_begin(&link->stream, &tcp.secret, fd, true)) {
        end_link(link, "out of memory");
        return;
    }
    link->state = TCP_CALLING;
    link->until_s = now_s + connect_s;
    link->wants_room = true;
    watch(link, EPOLL_CTL_ADD);
}

static void greet(tcp_link *link);
static void receive(tcp_link *link);

static void connected(tcp_link *link)
{
    int reason = tess_os_connected(link->stream.fd);
    if (reason != 0) {
        call_failed(link, strerror(reason), tess_os_now_s());
        return;
    }
    want_room(link, false);
    link->begin_s = tess_os_now_s(); /* a rank that is busy answers late */
    if (begin_greeting(link))
        greet(link);
    else
        end_link(link, "out of memory");
}

tcp_link *tcp_link_to(int rank)
{
    tcp_peer *peer = &tcp.peers[rank];
    if (peer->out == NULL && (peer->out = make_link(rank, true)) != NULL)
        call(peer->out, tess_os_now_s());
    return peer->out;
}

/* ---- Accepting ---- */
static void drop_caller(tcp_link *link)
{
    tcp.n_callers--;
    free_link(link);
}

/* Finds the caller that has been here longest without saying who it is. A rank that is dropped so calls again. */
static tcp_link *find_oldest_caller(void)
{
    tcp_link *oldest = NULL;
    for (tcp_link *link = tcp.links; link != NULL; link = link->next)
        oldest = link->peer < 0 ? link : oldest;
    return oldest;
}

static void accept_callers(void)
{
    int fd;
    while ((fd = tess_os_accept(tcp.listen_fd)) >= 0) {
        if (tcp.n_callers == MOST_CALLERS)
            drop_caller(find_oldest_caller());
        tcp_link *link = make_link(-1, false);
        if (link == NULL) {
            tess_os_close(&fd);
            return;
        }
        tcp.n_callers++;
        if (tcp_stream_begin(&link->stream, &tcp.secret, fd, false) && begin_greeting(link))
            watch(link, EPOLL_CTL_ADD);
        else
            drop_caller(link);
    }
}

/* Whether the caller's messages do not come over another link already. */
static bool is_welcome(const tcp_hello *hello)
{
    const tcp_link *before = tcp.peers[hello->rank].in;
    return before == NULL || !before->used;
}

static void greet(tcp_link *link)
{
    int done = tcp_greet(link->greeting);
    if (done == 0)
        return;
    if (link->is_out && done < 0) {
        call_failed(link, link->greeting->reason, tess_os_now_s());
        return;
    }
    if (!link->is_out && (done < 0 || !is_welcome(&link->greeting->hello))) {
        drop_caller(link);
        return;
    }
    if (!link->is_out) {
        tcp_peer *peer = &tcp.peers[link->greeting->hello.rank];
        if (peer->in != NULL)
            free_link(peer->in); /* the rank has given up that call */
        tcp.n_callers--;
        link->peer = link->greeting->hello.rank;
        peer->in = link;
    }
    free(link->greeting);
    link->greeting = NULL;
    link->state = TCP_UP;
    tcp_link_send(link);
    if (link->state == TCP_UP && tcp_stream_has_more(&link->stream))
        receive(link);
}

/* ---- Sending ---- */
static void begin_frame(tcp_link *link, wire_request *request, tcp_frame_kind kind, const uint8_t *data, size_t bytes)
{
    bool has_data = kind == TCP_EAGER || kind == TCP_DATA;
    link->out.active = true;
    link->out.request = request;
    link->out.head =
        (tcp_frame){.kind = kind, .tag = request->tag, .group = request->group, .bytes = bytes, .id = request->id};
    link->out.data = data;
    link->out.bytes = has_data ? bytes : 0;
    link->out.at = 0;
}

/* Chooses the next frame: grants, then new messages, then data. So short messages overtake long ones. */
static bool next_frame(tcp_link *link)
{
    wire_request *request;
    if (link->grants_at < link->n_grants) {
        link->out.head = link->grants[link->grants_at++];
        link->out.request = NULL;
        link->out.bytes = link->out.at = 0;
        link->out.active = true;
    } else if ((request = link->announced.first) != NULL) {
        begin_frame(link, request, request->bytes <= TCP_EAGER_BYTES ? TCP_EAGER : TCP_OFFER, request->data,
                    request->bytes);
    } else if ((request = link->granted.first) != NULL && link->is_out) {
        size_t left = request->bytes - request->moved;
        begin_frame(link, request, TCP_DATA, request->data + request->moved,
                    left < TCP_CHUNK_BYTES ? left : TCP_CHUNK_BYTES);
    }
    return link->out.active;
}

static void frame_sent(tcp_link *link)
{
    wire_request *request = link->out.request;
    link->out.active = false;
    if (request == NULL)
        return;
    switch (link->out.head.kind) {
    case TCP_EAGER:
        tcp_list_take(&link->announced, request);
        tcp_request_done(request);
        break;
    case TCP_OFFER:
        tcp_list_take(&link->announced, request);
        tcp_list_add(&link->offered, request);
        break;
    default:
        request->moved += link->out.bytes;
        if (request->moved < request->bytes)
            break;
        tcp_list_take(&link->granted, request);
        tcp_request_done(request);
    }
}

void tcp_link_send(tcp_link *link)
{
    while (link->state == TCP_UP && (link->out.active || next_frame(link))) {
        size_t head = sizeof(link->out.head), at = link->out.at;
        struct iovec parts[2] = {{0}};
        int n_parts = 0;
        if (at < head)
            parts[n_parts++] = (struct iovec){(uint8_t *)&link->out.head + at, head - at};
        size_t data_at = at > head ? at - head : 0;
        if (data_at < link->out.bytes)
            parts[n_parts++] = (struct iovec){(void *)(uintptr_t)(link->out.data + data_at), link->out.bytes - data_at};
        const ptrdiff_t n = tcp_stream_send(&link->stream, parts, n_parts);
        if (n < 0) {
            end_broken(link);
            return;
        }
        if (n == 0) {
            want_room(link, true);
            return;
        }
        link->out.at += (size_t)n;
        if (link->out.at == head + link->out.bytes)
            frame_sent(link);
    }
    if (link->state == TCP_UP)
        want_room(link, false);
}

void tcp_link_grant(tcp_link *link, uint64_t id, uint64_t receiver)
{
    if (link->grants_at == link->n_grants)
        link->grants_at = link->n_grants = 0;
    if (link->n_grants == link->grants_room) {
        size_t room = link->grants_room > 0 ? 2 * link->grants_room : 16;
        tcp_frame *grants = realloc(link->grants, room * sizeof(*grants));
        if (grants == NULL) {
            end_link(link, "out of memory");
            return;
        }
        link->grants = grants;
        link->grants_room = room;
    }
    link->grants[link->n_grants++] =
        (tcp_frame){.kind = TCP_GRANT, .id = id, .receiver = receiver, .bytes = receiver != 0};
    tcp_link_send(link);
}

/* ---- Receiving ---- */
/* The sender's message may go. Returns false if it was not offered. */
static bool granted(tcp_link *link, const tcp_frame *head)
{
    wire_request *request = find(&link->offered, head->id);
    if (request == NULL)
        return false;
    tcp_list_take(&link->offered, request);
    if (head->bytes == 0) {
        tcp_request_done(request);
        return true;
    }
    request->id = head->receiver;
    tcp_list_add(&link->granted, request);
    tcp_link_send(link);
    return true;
}

/* Data for a message that was granted. Returns false if there is none, or if more comes than the message has. */
static bool data_comes(tcp_link *link, const tcp_frame *head)
{
    wire_request *request = find(&link->granted, head->id);
    if (request == NULL || head->bytes > request->message_bytes - request->moved)
        return false;
    link->in.request = request;
    link->in.to = request->data != NULL ? request->data + request->moved : NULL;
    link->in.early = NULL;
    link->in.bytes = head->bytes;
    link->in.active = true;
    return true;
}

static bool frame_came(tcp_link *link, const tcp_frame *head)
{
    if (link->is_out)
        return head->kind == TCP_GRANT && granted(link, head);
    if (head->kind == TCP_DATA)
        return data_comes(link, head);
    bool fits = head->kind == TCP_OFFER || (head->kind == TCP_EAGER && head->bytes <= TCP_EAGER_BYTES);
    return fits && tcp_message_arrived(link, head);
}

static void data_came(tcp_link *link, size_t n)
{
    link->in.bytes -= n;
    if (link->in.to != NULL)
        link->in.to += n;
    if (link->in.request != NULL)
        link->in.request->moved += n;
    if (link->in.bytes > 0)
        return;
    wire_request *request = link->in.request;
    link->in.active = false;
    if (link->in.early != NULL) {
        tcp_early_complete(link, link->in.early);
    } else if (request != NULL && request->moved == request->message_bytes) {
        tcp_list_take(&link->granted, request); /* an EAGER is not there */
        tcp_request_done(request);
    }
}

/* Takes what has come: data, and heads of frames. The start of a head stays with the link. Returns false if it is no
 * frame. */
static bool take(tcp_link *link, const uint8_t *bytes, size_t n)
{
    while (link->state == TCP_UP) { /* it ends if an answer cannot be sent */
        size_t used;
        if (link->in.active) {
            used = n < link->in.bytes ? n : link->in.bytes;
            if (link->in.to != NULL && used > 0)
                memcpy(link->in.to, bytes, used);
            data_came(link, used);
            if (link->in.active)
                return true;
        } else {
            tcp_frame head;
            used = sizeof(head);
            if (n < used) {
                memcpy(link->rest, bytes, n);
                link->n_rest = n;
                return true;
            }
            memcpy(&head, bytes, sizeof(head));
            link->used = true;
            if (!frame_came(link, &head))
                return false;
        }
        bytes += used;
        n -= used;
    }
    return true;
}

/* Receives once: the rest of the current data to its place, and what follows to the buffer of this process. Returns 0:
 * nothing was there; 1: something came; -1: the link is broken. */
static int receive_once(tcp_link *link, size_t *n)
{
    struct iovec parts[2];
    int n_parts = 0;
    const size_t before = link->n_rest, direct = link->in.active && link->in.to != NULL ? link->in.bytes : 0;
    memcpy(tcp.in_bytes, link->rest, before);
    if (direct > 0)
        parts[n_parts++] = (struct iovec){link->in.to, direct};
    parts[n_parts++] = (struct iovec){tcp.in_bytes + before, sizeof(tcp.in_bytes) - before};
    const ptrdiff_t got = tcp_stream_receive(&link->stream, parts, n_parts);
    if (got == 0)
        return 0;
    if (got < 0) {
        end_broken(link);
        return -1;
    }
    *n = (size_t)got;
    size_t to_place = *n < direct ? *n : direct;
    link->n_rest = 0;
    if (to_place > 0)
        data_came(link, to_place);
    if (take(link, tcp.in_bytes, before + *n - to_place))
        return link->state == TCP_UP ? 1 : -1;
    end_link(link, "it sent what is no message");
    return -1;
}

static void receive(tcp_link *link)
{
    size_t n = 0, all = 0;
    while ((all < READ_BYTES || tcp_stream_has_more(&link->stream)) && receive_once(link, &n) > 0)
        all += n;
}

/* ---- Progress ---- */
static void look_at(tcp_link *link, uint32_t events)
{
    if (link->state == TCP_CALLING) {
        connected(link);
    } else if (link->state == TCP_GREETING) {
        greet(link); /* may free the link */
    } else if (link->state == TCP_UP) {
        if ((events & ~(uint32_t)EPOLLOUT) != 0)
            receive(link);
        if ((events & EPOLLOUT) != 0)
            tcp_link_send(link);
    }
}

/* Repeats calls that have failed, and gives up those that take too long. */
static void step_calls(double now_s)
{
    for (tcp_link *link = tcp.links, *next; link != NULL; link = next) {
        next = link->next;
        if (link->state == TCP_IDLE && link->is_out && now_s >= link->until_s)
            call(link, now_s);
        else if (link->state == TCP_CALLING && now_s >= link->until_s)
            call_failed(link, "no answer", now_s);
    }
}

void tcp_progress(void)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(tcp.epoll_fd, events, EVENTS, 0);
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr == NULL) {
            accept_callers();
            continue;
        }
        /* an earlier event of this round may have freed a link */
        const tcp_link *there = tcp.links;
        while (there != NULL && there != events[i].data.ptr)
            there = there->next;
        if (there != NULL)
            look_at(events[i].data.ptr, events[i].events);
    }
    double now_s = tess_os_now_s();
    if (now_s >= tcp.next_step_s) {
        tcp.next_step_s = now_s + step_s;
        step_calls(now_s);
    }
}

void tcp_links_close(void)
{
    while (tcp.links != NULL) {
        tcp_link *link = tcp.links;
        tcp.links = link->next;
        if (link->stream.fd >= 0)
            tess_os_end_sending(link->stream.fd);
        hang_up(link);
        free(link->grants);
        free(link);
    }
}
