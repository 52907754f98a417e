#include "comm/tcp/tcp_hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/os/os.h"
#include "base/os/sockets.h"
#include "comm/tcp/tcp_impl.h"

enum { STRANGERS = 16, ADDRESSES = 8 };

static const double stranger_s = 10, try_s = 2, word_s = 2;

_Static_assert(sizeof(tess_host_word) == 24, "hosts exchange these bytes");
_Static_assert(sizeof(((tcp_hello *)0)->host) == TESS_HOST_NAME_BYTES, "names are copied");

typedef struct line {
    tcp_caller base; /* `at`: bytes of the word */
    bool broken;
    tess_host_word word;
    tess_host_caller caller;
} line;

struct tess_host_lines {
    tcp_secret secret;
    tcp_meeting self; /* its secret, hello, master and port */
    tess_host_answer (*judge)(void *judge_self, const tess_host_caller *caller, char *why, size_t size);
    void *judge_self;
    int listen_fd, n_lines, next, n_refused;
    char reason[TCP_TEXT_BYTES + 64]; /* reason of the newest refusal */
    line lines[];
};

static void drop(line *l)
{
    tcp_stream_end(&l->base.stream);
    l->base.greeted = l->broken = false;
}

tess_status tess_host_lines_open(const tess_host_self *self, tess_host_lines **lines)
{
    const int n = self->number == 0 ? self->n_hosts + STRANGERS : 1;
    tess_host_lines *made = calloc(1, sizeof(*made) + (size_t)n * sizeof(*made->lines));
    *lines = NULL;
    TESS_CHECK(made != NULL, TESS_E_NOMEM, "no memory for lines to %d hosts", self->n_hosts);
    made->n_lines = n;
    made->listen_fd = -1;
    for (int i = 0; i < n; i++)
        made->lines[i].base.stream.fd = -1;
    made->self = (tcp_meeting){.secret = &made->secret, .master = self->master, .port = self->port};
    tcp_hello_fill(&made->self.hello);
    made->self.hello.purpose = TCP_TO_HOSTS;
    made->self.hello.rank = self->number;
    made->self.hello.world = self->n_hosts;
    made->self.hello.node = self->number;
    made->self.hello.n_nodes = self->n_nodes;
    made->judge = self->judge;
    made->judge_self = self->judge_self;
    (void)!getrandom(made->self.hello.job, sizeof(made->self.hello.job), 0); /* never fails for up to 256 bytes */
    tess_status status = tcp_secret_open(&made->secret);
    if (status == TESS_OK && self->number == 0)
        status = tcp_listen_at_master(&made->self, &made->listen_fd);
    if (status != TESS_OK)
        tess_host_lines_close(&made);
    *lines = made;
    return status;
}

void tess_host_lines_close(tess_host_lines **lines)
{
    if (*lines == NULL)
        return;
    for (int i = 0; i < (*lines)->n_lines; i++)
        drop(&(*lines)->lines[i]);
    tess_os_close(&(*lines)->listen_fd);
    free(*lines);
    *lines = NULL;
}

const char *tess_host_lines_name(const tess_host_lines *lines)
{
    return lines->self.hello.host;
}

tess_status tess_host_lines_call(tess_host_lines *lines, bool *reached, char *why, size_t size)
{
    char addresses[ADDRESSES][OS_ADDRESS_BYTES];
    int n = 0;
    line *l = &lines->lines[0];
    *reached = false;
    drop(l);
    if (tess_os_resolve(lines->self.master, addresses, ADDRESSES, &n) != TESS_OK || n == 0) {
        snprintf(why, size, "%s", tess_error_message());
        tess_error_clear();
        return TESS_OK;
    }
    *l = (line){.base.stream.fd = -1};
    const int address = lines->next++ % n;
    *reached = tcp_reach(&lines->self, addresses[address], tess_os_now_s() + try_s, &l->base.stream, &l->base.greeting,
                         why, size);
    TESS_CHECK(!l->base.greeting.refused, TESS_E_INVALID, "node 0 at %s:%d refuses this host: %s", lines->self.master,
               lines->self.port, l->base.greeting.reason);
    l->base.greeted = *reached;
    if (!*reached)
        drop(l);
    return TESS_OK;
}

/* The check of the hello has ended its texts. */
static tess_host_caller caller_of(const tcp_hello *hello)
{
    tess_host_caller caller = {.number = hello->rank, .pid = hello->pid};
    memcpy(caller.name, hello->host, sizeof(caller.name));
    memcpy(&caller.id, hello->job, sizeof(caller.id));
    return caller;
}

static tcp_refusal judge(void *self, const tcp_hello *hello, char *why, size_t size)
{
    static const tcp_refusal refusals[] = {[TESS_HOST_WELCOME] = TCP_NOT_REFUSED,
                                           [TESS_HOST_NOT_NOW] = TCP_REFUSED_LATER,
                                           [TESS_HOST_NEVER] = TCP_REFUSED_FOR_GOOD};
    const tess_host_lines *lines = self;
    const tess_host_caller caller = caller_of(hello);
    return lines->judge == NULL ? TCP_NOT_REFUSED : refusals[lines->judge(lines->judge_self, &caller, why, size)];
}

static void accept_callers(tess_host_lines *lines)
{
    const tcp_desk desk = {.listen_fd = lines->listen_fd,
                           .secret = &lines->secret,
                           .self = &lines->self.hello,
                           .patience_s = stranger_s,
                           .judge = judge,
                           .judge_self = lines};
    tcp_accept_callers(&desk, lines->lines, lines->n_lines, sizeof(lines->lines[0]));
}

/* A line whose caller is not known yet. */
static tess_host_event greet(tess_host_lines *lines, line *l)
{
    tess_host_event event = {.line = (int)(l - lines->lines)};
    int greeted = tcp_greet(&l->base.greeting);
    if (greeted > 0) {
        l->base.greeted = true;
        l->caller = caller_of(&l->base.greeting.hello);
        event.kind = TESS_HOST_CAME;
        event.caller = &l->caller;
    } else if (greeted < 0 || tess_os_now_s() >= l->base.until_s) {
        /* others have only tried whether the port is open, or call again */
        if (greeted < 0 && l->base.greeting.reply.refused == TCP_REFUSED_FOR_GOOD &&
            lines->n_refused < TCP_MOST_REFUSALS) {
            event.kind = TESS_HOST_REFUSED;
            event.why = lines->reason;
            snprintf(lines->reason, sizeof(lines->reason), "%s%s", l->base.greeting.reason,
                     ++lines->n_refused == TCP_MOST_REFUSALS ? "; further ones are not reported" : "");
        }
        tess_os_peer_address(l->base.stream.fd, l->caller.name);
        drop(l);
    }
    return event;
}

static tess_host_event serve(tess_host_lines *lines, line *l)
{
    if (!l->base.greeted)
        return greet(lines, l);
    tess_host_event event = {.line = (int)(l - lines->lines)};
    struct iovec part = {(uint8_t *)&l->word + l->base.at, sizeof(l->word) - l->base.at};
    ptrdiff_t n = l->broken ? -1 : tcp_stream_receive(&l->base.stream, &part, 1);
    l->base.at += n > 0 ? (size_t)n : 0;
    if (n < 0) {
        event.kind = TESS_HOST_WENT;
        drop(l);
    } else if (l->base.at == sizeof(l->word)) {
        event.kind = TESS_HOST_SAID;
        event.word = l->word;
        l->base.at = 0;
    }
    return event;
}

tess_host_event tess_host_lines_next(tess_host_lines *lines)
{
    accept_callers(lines);
    for (int i = 0; i < lines->n_lines; i++) {
        line *l = &lines->lines[i];
        tess_host_event event = {.kind = TESS_HOST_NOTHING};
        if (l->base.stream.fd >= 0)
            event = serve(lines, l);
        if (event.kind == TESS_HOST_NOTHING)
            continue;
        event.number = l->caller.number;
        event.name = l->caller.name;
        return event;
    }
    return (tess_host_event){.kind = TESS_HOST_NOTHING};
}

void tess_host_lines_say(tess_host_lines *lines, int line_number, const tess_host_word *word)
{
    line *l = &lines->lines[line_number];
    tess_host_word copy = *word;
    if (l->base.stream.fd >= 0 &&
        !tcp_stream_move(&l->base.stream, &copy, sizeof(copy), true, tess_os_now_s() + word_s))
        l->broken = true;
}

void tess_host_lines_hang_up(tess_host_lines *lines, int line_number)
{
    drop(&lines->lines[line_number]);
}
