/* TLS 1.3 on a connection, by libssl, with a key that follows from the job's secret (RFC 8446, 2.2: a pre-shared key
 * with a fresh Diffie-Hellman exchange). So there are no certificates, and what was recorded stays secret if the job's
 * secret becomes known later. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/sockets.h"
#include "comm/tcp/tcp_impl.h"

/* libssl's numbers, which have not changed since OpenSSL 1.1.1. */
enum {
    SSL_CTRL_MODE = 33,
    SSL_CTRL_SET_MIN_PROTO_VERSION = 123,
    SSL_MODE_ENABLE_PARTIAL_WRITE = 1,
    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER = 2,
    SSL_MODE_RELEASE_BUFFERS = 16,
    TLS1_3_VERSION = 0x0304,
    SSL_VERIFY_PEER = 1,
    SSL_KEY_UPDATE_NOT_REQUESTED = 0,
    SSL_ERROR_WANT_READ = 2,
    SSL_ERROR_WANT_WRITE = 3,
    SSL_R_WRONG_VERSION_NUMBER = 267,
    BIO_TYPE_SOURCE_SINK = 0x0400,
    BIO_CTRL_FLUSH = 11,
    BIO_FLAGS_READ = 1,
    BIO_FLAGS_WRITE = 2,
    BIO_FLAGS_SHOULD_RETRY = 8,
    FIRST_OWN_TYPE = 128, /* BIO_get_new_index */
    KEY_BYTES = TCP_NONCE_BYTES
};

/* Functions of libssl and libcrypto. Their headers are not needed. */
#define FUNCTIONS(X)                                                                                     \
    X(const void *, TLS_method, (void))                                                                  \
    X(void *, SSL_CTX_new, (const void *method))                                                         \
    X(void, SSL_CTX_free, (void *context))                                                               \
    X(long, SSL_CTX_ctrl, (void *context, int command, long n, void *more))                              \
    X(int, SSL_CTX_set_ciphersuites, (void *context, const char *names))                                 \
    X(int, SSL_CTX_set_num_tickets, (void *context, size_t n))                                           \
    X(void, SSL_CTX_set_psk_client_callback,                                                             \
      (void *context,                                                                                    \
       unsigned int (*give)(void *, const char *, char *, unsigned int, unsigned char *, unsigned int))) \
    X(void, SSL_CTX_set_psk_server_callback,                                                             \
      (void *context, unsigned int (*give)(void *, const char *, unsigned char *, unsigned int)))        \
    X(void *, SSL_new, (void *context))                                                                  \
    X(void, SSL_free, (void *session))                                                                   \
    X(void, SSL_set_bio, (void *session, void *in, void *out))                                           \
    X(void, SSL_set_verify, (void *session, int mode, void *check))                                      \
    X(void, SSL_set_connect_state, (void *session))                                                      \
    X(void, SSL_set_accept_state, (void *session))                                                       \
    X(int, SSL_is_init_finished, (const void *session))                                                  \
    X(int, SSL_read, (void *session, void *data, int n))                                                 \
    X(int, SSL_write, (void *session, const void *data, int n))                                          \
    X(int, SSL_key_update, (void *session, int kind))                                                    \
    X(int, SSL_pending, (const void *session))                                                           \
    X(int, SSL_get_error, (const void *session, int result))                                             \
    X(void, ERR_clear_error, (void))                                                                     \
    X(unsigned long, ERR_peek_error, (void))                                                             \
    X(const char *, ERR_reason_error_string, (unsigned long error))                                      \
    X(void *, BIO_meth_new, (int type, const char *name))                                                \
    X(void, BIO_meth_free, (void *method))                                                               \
    X(int, BIO_meth_set_write, (void *method, int (*write)(void *, const char *, int)))                  \
    X(int, BIO_meth_set_read, (void *method, int (*read)(void *, char *, int)))                          \
    X(int, BIO_meth_set_ctrl, (void *method, long (*control)(void *, int, long, void *)))                \
    X(void *, BIO_new, (const void *method))                                                             \
    X(void, BIO_set_init, (void *bio, int init))                                                         \
    X(void, BIO_set_data, (void *bio, void *data))                                                       \
    X(void *, BIO_get_data, (void *bio))                                                                 \
    X(void, BIO_set_flags, (void *bio, int flags))                                                       \
    X(void, BIO_clear_flags, (void *bio, int flags))

struct tcp_tls {
#define FIELD(type, name, arguments) type(*name) arguments;
    FUNCTIONS(FIELD)
#undef FIELD
    void *context, *method;
    uint32_t most_records; /* most records with one key */
    uint8_t key[KEY_BYTES];
};

struct tcp_session {
    const tcp_tls *tls;
    void *ssl;
    int fd;
    uint32_t n_records; /* sent with the present key */
};

/* The library is loaded once. Its callbacks get no pointer of ours, so they read this one. */
static tcp_tls *the_tls;

/* ---- The key ---- */
static unsigned int give_key(unsigned char *key, unsigned int room)
{
    if (room < KEY_BYTES)
        return 0;
    memcpy(key, the_tls->key, KEY_BYTES);
    return KEY_BYTES;
}

static unsigned int give_as_caller(TESS_UNUSED void *session, TESS_UNUSED const char *hint, char *name,
                                   unsigned int name_room, unsigned char *key, unsigned int room)
{
    static const char of_job[] = "tessera";
    if (name_room < sizeof(of_job))
        return 0;
    memcpy(name, of_job, sizeof(of_job));
    return give_key(key, room);
}

static unsigned int give_as_called(TESS_UNUSED void *session, TESS_UNUSED const char *name, unsigned char *key,
                                   unsigned int room)
{
    return give_key(key, room);
}

/* ---- Bytes of the connection. libssl's own way to sockets raises SIGPIPE ---- */
static int finish(void *bio, ptrdiff_t n, int retry)
{
    the_tls->BIO_clear_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_WRITE | BIO_FLAGS_SHOULD_RETRY);
    if (n == 0)
        the_tls->BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
    return n > 0 ? (int)n : -1;
}

static int write_bytes(void *bio, const char *data, int n)
{
    const tcp_session *session = the_tls->BIO_get_data(bio);
    return finish(bio, tess_os_send(session->fd, data, (size_t)n), BIO_FLAGS_WRITE);
}

static int read_bytes(void *bio, char *data, int n)
{
    const tcp_session *session = the_tls->BIO_get_data(bio);
    return finish(bio, tess_os_receive(session->fd, data, (size_t)n), BIO_FLAGS_READ);
}

static long control(TESS_UNUSED void *bio, int command, TESS_UNUSED long n, TESS_UNUSED void *more)
{
    return command == BIO_CTRL_FLUSH;
}

/* ---- The library ---- */
static bool find_functions(tcp_tls *tls, void *library)
{
#define FIND(type, name, arguments)             \
    void *found_##name = dlsym(library, #name); \
    if (found_##name == NULL)                   \
        return false;                           \
    memcpy(&tls->name, &found_##name, sizeof(found_##name));
    FUNCTIONS(FIND)
#undef FIND
    return true;
}

static bool configure(tcp_tls *tls)
{
    tls->method = tls->BIO_meth_new(FIRST_OWN_TYPE | BIO_TYPE_SOURCE_SINK, "a link between ranks");
    tls->context = tls->SSL_CTX_new(tls->TLS_method());
    if (tls->method == NULL || tls->context == NULL)
        return false;
    tls->BIO_meth_set_write(tls->method, write_bytes);
    tls->BIO_meth_set_read(tls->method, read_bytes);
    tls->BIO_meth_set_ctrl(tls->method, control);
    tls->SSL_CTX_ctrl(tls->context, SSL_CTRL_MODE,
                      SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS,
                      NULL);
    tls->SSL_CTX_set_psk_client_callback(tls->context, give_as_caller);
    tls->SSL_CTX_set_psk_server_callback(tls->context, give_as_called);
    return tls->SSL_CTX_ctrl(tls->context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, NULL) == 1 &&
           tls->SSL_CTX_set_ciphersuites(tls->context, "TLS_AES_128_GCM_SHA256") == 1 &&
           tls->SSL_CTX_set_num_tickets(tls->context, 0) == 1; /* no session is resumed */
}

tess_status tcp_tls_open(tcp_secret *secret)
{
    static const char *const files[] = {"libssl.so.3", "libssl.so.1.1", "libssl.so"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && library == NULL; i++)
        library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    TESS_CHECK(library != NULL, TESS_E_NOT_FOUND,
               "comm.tls: libssl.so.3 is missing; it encrypts links between hosts: install the Debian package libssl3");
    tcp_tls *tls = calloc(1, sizeof(*tls));
    TESS_CHECK(tls != NULL, TESS_E_NOMEM, "no memory for TLS");
    tls->most_records = (uint32_t)1 << 23;
    the_tls = secret->tls = tls;
    TESS_CHECK(find_functions(tls, library) && configure(tls) && tcp_secret_derive(secret, "tls", tls->key),
               TESS_E_UNSUPPORTED, "comm.tls: libssl has no TLS 1.3 with a key of the job's own (see OPENSSL_CONF)");
    return TESS_OK;
}

void tcp_tls_close(tcp_secret *secret)
{
    tcp_tls *tls = secret->tls;
    if (tls == NULL)
        return;
    if (tls->context != NULL)
        tls->SSL_CTX_free(tls->context);
    if (tls->method != NULL)
        tls->BIO_meth_free(tls->method);
    explicit_bzero(tls->key, sizeof(tls->key));
    free(tls);
    the_tls = secret->tls = NULL;
}

/* ---- A connection ---- */
tcp_session *tcp_session_begin(const tcp_tls *tls, int fd, bool calls)
{
    tcp_session *session = calloc(1, sizeof(*session));
    void *bio = session != NULL ? tls->BIO_new(tls->method) : NULL;
    if (bio != NULL)
        session->ssl = tls->SSL_new(tls->context);
    if (bio == NULL || session->ssl == NULL) {
        free(session);
        return NULL;
    }
    session->tls = tls;
    session->fd = fd;
    tls->BIO_set_data(bio, session);
    tls->BIO_set_init(bio, 1);
    tls->SSL_set_bio(session->ssl, bio, bio);
    if (calls) {
        tls->SSL_set_connect_state(session->ssl);
        /* A called side without the key could show a certificate instead. None is trusted, so it is refused. */
        tls->SSL_set_verify(session->ssl, SSL_VERIFY_PEER, NULL);
    } else {
        tls->SSL_set_accept_state(session->ssl);
    }
    return session;
}

void tcp_session_end(tcp_session **session)
{
    if (*session == NULL)
        return;
    (*session)->tls->SSL_free((*session)->ssl);
    free(*session);
    *session = NULL;
}

/* Returns what the functions of tcp_stream.c return for libssl's result. */
static ptrdiff_t result_of(const tcp_session *session, int result, const char **why)
{
    const tcp_tls *tls = session->tls;
    if (result > 0)
        return result;
    const int error = tls->SSL_get_error(session->ssl, result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return 0;
    const unsigned long cause = tls->ERR_peek_error();
    if (tls->SSL_is_init_finished(session->ssl))
        *why = cause != 0 ? tls->ERR_reason_error_string(cause) : NULL;
    else if ((cause & 0xfff) == SSL_R_WRONG_VERSION_NUMBER)
        *why = TCP_ONE_HAS_TLS;
    else if (cause != 0)
        *why = TCP_OTHER_SECRET;
    return -1;
}

/* libssl never changes a key by itself, and one may encrypt 2^24.5 records (RFC 8446, 5.5). Each call sends one. */
ptrdiff_t tcp_session_send(tcp_session *session, const void *data, size_t size, const char **why)
{
    const tcp_tls *tls = session->tls;
    tls->ERR_clear_error();
    const ptrdiff_t n =
        result_of(session, tls->SSL_write(session->ssl, data, size < INT32_MAX ? (int)size : INT32_MAX), why);
    if (n > 0 && ++session->n_records >= tls->most_records &&
        tls->SSL_key_update(session->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1)
        session->n_records = 0;
    return n;
}

ptrdiff_t tcp_session_receive(const tcp_session *session, void *data, size_t size, const char **why)
{
    session->tls->ERR_clear_error();
    return result_of(session, session->tls->SSL_read(session->ssl, data, size < INT32_MAX ? (int)size : INT32_MAX),
                     why);
}

bool tcp_session_has_more(const tcp_session *session)
{
    return session->tls->SSL_pending(session->ssl) > 0;
}
