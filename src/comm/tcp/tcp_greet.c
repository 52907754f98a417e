/* The first words on a connection: hello, nonce, proof, proof. The caller proves first, so a stranger who calls learns
 * nothing that depends on the secret. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/os/os.h"
#include "base/os/sockets.h"
#include "comm/tcp/tcp_impl.h"

enum { HELLO, NONCE, PROOF, ANSWER, OVER };

/* Names of the sides in proofs. */
static const char caller[] = "caller", called[] = "called", called_later[] = "called, later";

static void draw(uint8_t nonce[TCP_NONCE_BYTES])
{
    (void)!getrandom(nonce, TCP_NONCE_BYTES, 0); /* up to 256 bytes never fail after the system has started */
}

void tcp_greet_begin(tcp_greeting *g, const tcp_secret *secret, tcp_stream *stream, const tcp_hello *self, int to)
{
    *g = (tcp_greeting){.secret = secret, .self = self, .stream = stream, .calls = to >= 0};
    if (to < 0)
        return;
    g->hello = *self;
    g->hello.to = to;
    draw(g->hello.nonce);
}

static int fail(tcp_greeting *g, const char *reason)
{
    snprintf(g->reason, sizeof(g->reason), "%s", reason);
    return -1;
}

/* Whether the other side's proof is right. Takes the same time for every wrong proof, so that time does not reveal how
 * much of it is right. */
static bool proves(const tcp_greeting *g, const char *side, const uint8_t proof[TCP_NONCE_BYTES])
{
    uint8_t right[TCP_NONCE_BYTES], different = 0;
    if (!tcp_secret_prove(g->secret, side, &g->hello, g->nonce, right))
        return false;
    for (int i = 0; i < TCP_NONCE_BYTES; i++)
        different |= (uint8_t)(right[i] ^ proof[i]);
    return different == 0;
}

static void refuse(tcp_greeting *g, tcp_refusal refusal, const char *reason)
{
    g->reply.refused = refusal;
    snprintf(g->reply.text, sizeof(g->reply.text), "%s", reason);
}

/* The caller has said everything. */
static void answer(tcp_greeting *g)
{
    tcp_refusal refusal;
    const char *wrong = tcp_hello_compare(&g->hello, g->self, &refusal);
    if (!proves(g, caller, g->proof)) {
        refuse(g, TCP_REFUSED_FOR_GOOD, "it does not know the job's secret");
        return;
    }
    if (wrong != NULL)
        refuse(g, refusal, wrong);
    else if (g->busy != NULL)
        refuse(g, TCP_REFUSED_LATER, g->busy);
    else if (g->judge != NULL)
        g->reply.refused = g->judge(g->judge_self, &g->hello, g->reply.text, sizeof(g->reply.text));
    const char *side = g->reply.refused == TCP_REFUSED_LATER ? called_later : called;
    if ((g->reply.refused == TCP_NOT_REFUSED || g->reply.refused == TCP_REFUSED_LATER) &&
        !tcp_secret_prove(g->secret, side, &g->hello, g->nonce, g->reply.value))
        refuse(g, TCP_REFUSED_FOR_GOOD, "libcrypto computes no proof here");
}

/* The called side has heard or said a whole part. */
static int called_did(tcp_greeting *g)
{
    const char *wrong;
    switch (g->step) {
    case HELLO:
        wrong = tcp_hello_check(&g->hello);
        draw(g->nonce);
        memcpy(g->reply.value, g->nonce, sizeof(g->nonce));
        if (wrong != NULL)
            refuse(g, TCP_REFUSED_FOR_GOOD, wrong);
        break;
    case PROOF:
        answer(g);
        break;
    default:
        if (g->reply.refused)
            return fail(g, g->reply.text);
    }
    return 0;
}

/* Anything that listens at the address may have said this, so only plain text is believed. A wish to be called later
 * makes the caller wait on, so it needs a proof. */
static int heard_refusal(tcp_greeting *g)
{
    char *text = g->reply.text;
    text[sizeof(g->reply.text) - 1] = '\0';
    if (g->reply.refused < TCP_REFUSED_FOR_GOOD || g->reply.refused > TCP_REFUSED_LATER)
        return fail(g, "it does not speak Tessera's language");
    for (; *text != '\0'; text++)
        *text = *text >= ' ' && *text <= '~' ? *text : '?';
    if (g->reply.refused == TCP_REFUSED_LATER && (g->step != ANSWER || !proves(g, called_later, g->reply.value))) {
        g->reply.refused = TCP_REFUSED_HERE;
        return fail(g, "it does not know the job's secret");
    }
    g->refused = g->reply.refused == TCP_REFUSED_FOR_GOOD;
    return fail(g, g->reply.text);
}

static int caller_did(tcp_greeting *g)
{
    if ((g->step == NONCE || g->step == ANSWER) && g->reply.refused != TCP_NOT_REFUSED)
        return heard_refusal(g);
    if (g->step == NONCE) {
        memcpy(g->nonce, g->reply.value, sizeof(g->nonce));
        if (!tcp_secret_prove(g->secret, caller, &g->hello, g->nonce, g->proof))
            return fail(g, "libcrypto computes no proof");
    }
    if (g->step == ANSWER && !proves(g, called, g->reply.value))
        return fail(g, "it does not know the job's secret");
    return 0;
}

/* The caller begins TLS, and this side does not, or the other way round. It is told in plain words. */
static int tell_plainly(tcp_greeting *g)
{
    refuse(g, TCP_REFUSED_FOR_GOOD, TCP_ONE_HAS_TLS);
    (void)!tess_os_send(g->stream->fd, &g->reply, sizeof(g->reply)); /* there is room for a first message */
    return fail(g, TCP_ONE_HAS_TLS);
}

/* Whether a plain connection begins with a record of TLS, which is a handshake. */
static bool begins_tls(const tcp_greeting *g)
{
    static const char record[] = {0x16, 0x03};
    return !g->calls && g->step == HELLO && g->stream->session == NULL && g->at >= sizeof(record) &&
           memcmp(&g->hello, record, sizeof(record)) == 0;
}

static int broke(tcp_greeting *g)
{
    const char *why = g->stream->why;
    const bool one_has_tls = why != NULL && strcmp(why, TCP_ONE_HAS_TLS) == 0;
    const bool other_secret = why != NULL && strcmp(why, TCP_OTHER_SECRET) == 0;
    if (one_has_tls && !g->calls)
        return tell_plainly(g);
    if (other_secret && !g->calls)
        refuse(g, TCP_REFUSED_FOR_GOOD, TCP_OTHER_SECRET); /* the caller has its alert */
    g->refused = one_has_tls || other_secret;
    return fail(g, why != NULL ? why : "it hung up");
}

int tcp_greet(tcp_greeting *g)
{
    struct {
        void *data;
        size_t bytes;
    } const parts[] = {[HELLO] = {&g->hello, sizeof(g->hello)},
                       [NONCE] = {&g->reply, sizeof(g->reply)},
                       [PROOF] = {g->proof, sizeof(g->proof)},
                       [ANSWER] = {&g->reply, sizeof(g->reply)}};
    while (g->step < OVER) {
        struct iovec part = {(uint8_t *)parts[g->step].data + g->at, parts[g->step].bytes - g->at};
        bool speaks = (g->step == HELLO || g->step == PROOF) == g->calls;
        ptrdiff_t n = speaks ? tcp_stream_send(g->stream, &part, 1) : tcp_stream_receive(g->stream, &part, 1);
        if (n < 0)
            return broke(g);
        g->at += (size_t)n;
        if (begins_tls(g))
            return tell_plainly(g);
        if (n == 0)
            return 0;
        if (g->at < parts[g->step].bytes)
            continue;
        if ((g->calls ? caller_did(g) : called_did(g)) != 0)
            return -1;
        g->at = 0;
        g->step++;
    }
    return 1;
}

void tcp_accept_callers(const tcp_desk *desk, void *places, int n, size_t size)
{
    for (int i = 0; i < n && desk->listen_fd >= 0; i++) {
        tcp_caller *c = (tcp_caller *)(void *)((uint8_t *)places + (size_t)i * size);
        if (c->stream.fd >= 0)
            continue;
        int fd = tess_os_accept(desk->listen_fd);
        if (fd < 0)
            return;
        memset(c, 0, size);
        c->until_s = tess_os_now_s() + desk->patience_s;
        if (!tcp_stream_begin(&c->stream, desk->secret, fd, false)) {
            tcp_stream_end(&c->stream);
            continue;
        }
        tcp_greet_begin(&c->greeting, desk->secret, &c->stream, desk->self, -1);
        c->greeting.busy = desk->busy;
        c->greeting.judge = desk->judge;
        c->greeting.judge_self = desk->judge_self;
    }
}
