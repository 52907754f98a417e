#include "doctor/web/server.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/os/sockets.h"
#include "doctor/web/microhttpd.h"

#ifdef TESS_MICROHTTPD

enum { MOST_CONNECTIONS = 32, MOST_OF_ADDRESS = 16, CONNECTION_BYTES = 16 << 10, IDLE_S = 15 };

/* Headers of every page: no cache keeps it, and no other page shows or loads it. */
static const char *const headers[][2] = {{"Cache-Control", "no-store"},
                                         {"X-Content-Type-Options", "nosniff"},
                                         {"X-Frame-Options", "DENY"},
                                         {"Referrer-Policy", "no-referrer"},
                                         {"Cross-Origin-Resource-Policy", "same-origin"},
                                         {"Cross-Origin-Opener-Policy", "same-origin"}};
static const char closed[] = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

struct tess_web_server {
    tess_mem *mem;
    tess_web_server_options options;
    web_microhttpd_functions mhd;
    struct MHD_Daemon *daemon;
    int port;
};

static const char *sentence_of(int code)
{
    return code == TESS_WEB_NO_METHOD     ? "only GET and HEAD are answered here\n"
           : code == TESS_WEB_FORBIDDEN   ? "this address is not answered: use the one that was printed\n"
           : code == TESS_WEB_BAD_REQUEST ? "a request must have no body\n"
                                          : "there is no such page\n";
}

/* Makes the answer for a request that was judged. */
static void fill(const tess_web_server *s, const char *path, int refused, tess_web_answer *answer)
{
    const char *text = NULL;
    answer->code = refused != 0 ? refused : TESS_WEB_NOT_FOUND;
    answer->type = "text/plain; charset=utf-8";
    tess_status status = refused == 0 ? s->options.answer(s->options.self, path, answer) : TESS_OK;
    if (status != TESS_OK) {
        answer->code = TESS_WEB_FAILED;
        answer->type = "text/plain; charset=utf-8";
        answer->body.size = 0;
        text = tess_error_message();
    } else if (answer->body.size == 0 && !answer->may_be_empty) {
        text = sentence_of(answer->code);
    }
    if (text != NULL)
        tess_buffer_printf(&answer->body, "%s", text);
    tess_error_clear();
}

static enum MHD_Result send_answer(const tess_web_server *s, struct MHD_Connection *connection,
                                   const tess_web_answer *answer)
{
    const web_microhttpd_functions *mhd = &s->mhd;
    struct MHD_Response *response = mhd->create_response_from_buffer(
        answer->body.size, answer->body.data != NULL ? answer->body.data : (char *)(uintptr_t) "",
        MHD_RESPMEM_MUST_COPY);
    if (response == NULL)
        return MHD_NO;
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
        mhd->add_response_header(response, headers[i][0], headers[i][1]);
    mhd->add_response_header(response, "Content-Type", answer->type);
    mhd->add_response_header(response, "Content-Security-Policy",
                             answer->policy.size > 0 ? answer->policy.data : closed);
    if (answer->code == TESS_WEB_NO_METHOD)
        mhd->add_response_header(response, "Allow", "GET, HEAD");
    enum MHD_Result result = mhd->queue_response(connection, (unsigned)answer->code, response);
    mhd->destroy_response(response);
    return result;
}

static const char *header_of(const tess_web_server *s, struct MHD_Connection *connection, const char *name)
{
    return s->mhd.lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static bool has_body(const tess_web_server *s, struct MHD_Connection *connection)
{
    const char *length = header_of(s, connection, "Content-Length");
    return header_of(s, connection, "Transfer-Encoding") != NULL || (length != NULL && strcmp(length, "0") != 0);
}

/* libmicrohttpd calls this when the headers have come, and a second time when the whole request has. A request that is
 * refused gets its answer the first time, before any body is read. */
static enum MHD_Result on_request(void *self, struct MHD_Connection *connection, const char *url, const char *method,
                                  TESS_UNUSED const char *version, TESS_UNUSED const char *data,
                                  TESS_UNUSED size_t *n_data, void **state)
{
    const tess_web_server *s = self;
    static const char seen;
    const int refused = tess_web_judge(method, header_of(s, connection, "Host"),
                                       s->options.any_host ? NULL : s->options.address.host, has_body(s, connection));
    const bool is_first = *state == NULL;
    *state = (void *)(uintptr_t)&seen;
    if (is_first && refused == 0)
        return MHD_YES;
    tess_web_answer answer = {.body = {.mem = s->mem}};
    fill(s, url, refused, &answer);
    enum MHD_Result result = send_answer(s, connection, &answer);
    tess_buffer_free(&answer.body);
    tess_buffer_free(&answer.policy);
    return result;
}

/* The library prints to standard error what it does not like about requests; readers may send anything. */
static void drop_line(TESS_UNUSED void *self, TESS_UNUSED const char *format, TESS_UNUSED va_list arguments)
{
}

static tess_status start(tess_web_server *s)
{
    const tess_web_address *address = &s->options.address;
    uint16_t port;
    int fd;
    TESS_TRY_CTX(tess_os_listen(address->host, address->port, address->port, &fd, &port), "listen on %s port %d",
                 address->host, address->port);
    s->port = port;
    s->daemon = s->mhd.start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, s, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_EXTERNAL_LOGGER, drop_line, NULL, MHD_OPTION_CONNECTION_LIMIT, (unsigned)MOST_CONNECTIONS,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)MOST_OF_ADDRESS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_BYTES, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_END);
    if (s->daemon != NULL)
        return TESS_OK;
    close(fd);
    return TESS_FAIL(TESS_E_IO, "libmicrohttpd cannot serve at %s port %d: %s", address->host, s->port,
                     strerror(errno));
}

tess_status tess_web_server_start(tess_mem *mem, const tess_web_server_options *options, tess_web_server **out)
{
    TESS_AUTO(tess_mem_drop) tess_web_server *s = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "server of pages", &s));
    *s = (tess_web_server){.mem = mem, .options = *options};
    TESS_TRY(web_microhttpd_load(&s->mhd));
    TESS_TRY(start(s));
    *out = TESS_GIVE(s);
    return TESS_OK;
}

int tess_web_server_port(const tess_web_server *server)
{
    return server->port;
}

void tess_web_server_stop(tess_web_server **server)
{
    tess_web_server *s = *server;
    if (s == NULL)
        return;
    s->mhd.stop_daemon(s->daemon);
    tess_mem_drop(server);
}

#else

tess_status tess_web_server_start(TESS_UNUSED tess_mem *mem, TESS_UNUSED const tess_web_server_options *options,
                                  TESS_UNUSED tess_web_server **server)
{
    return TESS_FAIL(TESS_E_UNSUPPORTED, "pages over HTTP need libmicrohttpd, which this build lacks: install "
                                         "libmicrohttpd-dev and build again");
}

int tess_web_server_port(TESS_UNUSED const tess_web_server *server)
{
    return 0;
}

void tess_web_server_stop(TESS_UNUSED tess_web_server **server)
{
}

#endif
