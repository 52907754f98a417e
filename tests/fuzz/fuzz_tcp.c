/* Any bytes from a caller that wants to meet over TCP, or from what answers at the job's address: a greeting that ends,
 * and a list of ranks that counts right. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/tcp/tcp_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every proof is right, so that the words after it are reached. */
static unsigned char *hmac(const void *hash, const void *key, int n_key, const unsigned char *data, size_t n,
                           unsigned char *out, unsigned int *n_out)
{
    (void)hash, (void)key, (void)n_key, (void)data, (void)n;
    memset(out, 7, TCP_NONCE_BYTES);
    *n_out = TCP_NONCE_BYTES;
    return out;
}

static const void *sha256(void)
{
    return NULL;
}

static void greet(const uint8_t *data, size_t size, bool calls)
{
    static const tcp_hello mine = {.magic = "tessera", .version = TCP_VERSION, .purpose = TCP_TO_MEET, .world = 2};
    static const tcp_secret secret = {.hmac = hmac, .sha256 = sha256};
    tcp_greeting greeting;
    int pair[2], done = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) != 0)
        abort();
    (void)!write(pair[0], data, size);
    shutdown(pair[0], SHUT_WR);
    tcp_stream stream;
    if (!tcp_stream_begin(&stream, &secret, pair[1], calls))
        abort();
    tcp_greet_begin(&greeting, &secret, &stream, &mine, calls ? 0 : -1);
    for (int i = 0; i < 8 && done == 0; i++)
        done = tcp_greet(&greeting);
    if (done == 0 || (done < 0 && memchr(greeting.reason, '\0', sizeof(greeting.reason)) == NULL))
        abort();
    close(pair[0]);
    tcp_stream_end(&stream);
}

static void meet(const uint8_t *data, size_t size)
{
    tcp_hello hello;
    tcp_guests guests = {0};
    char text[200];
    int n_came = 0;
    for (size_t at = 0; at + sizeof(hello) <= size; at += sizeof(hello)) {
        memcpy(&hello, data + at, sizeof(hello));
        if (guests.came == NULL)
            hello.world = hello.world & 63, hello.rank = 0;
        if (tcp_hello_check(&hello) != NULL)
            continue;
        if (guests.came == NULL) {
            if (tcp_guests_begin(&guests, &hello) != TESS_OK)
                abort();
            n_came = 1;
            continue;
        }
        n_came += tcp_guests_add(&guests, &hello) == TESS_OK;
        memset(text, 'x', sizeof(text));
        if (strlen(tcp_guests_missing(&guests, text, sizeof(text))) >= sizeof(text) || guests.n_came != n_came ||
            n_came > guests.first.world)
            abort();
    }
    tcp_guests_free(&guests);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    greet(data + 1, size - 1, (data[0] & 1) != 0);
    meet(data + 1, size - 1);
    return 0;
}
