/* Judges a request of HTTP before anything is made for it. Pure functions over texts from outside. */
#ifndef TESS_DOCTOR_WEB_WEB_REQUEST_H
#define TESS_DOCTOR_WEB_WEB_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TESS_WEB_OK = 200,
    TESS_WEB_BAD_REQUEST = 400,
    TESS_WEB_FORBIDDEN = 403,
    TESS_WEB_NOT_FOUND = 404,
    TESS_WEB_NO_METHOD = 405,
    TESS_WEB_FAILED = 500
};

/* An address to listen on: "127.0.0.1:9464", "[::1]:9464", "localhost:0". */
typedef struct tess_web_address {
    char host[64]; /* numeric; without brackets */
    int port;      /* 0: any free one */
    bool is_ipv6, is_loopback;
} tess_web_address;

/* Returns false if the text has another form. */
bool tess_web_address_read(const char *text, tess_web_address *address);

/* Whether a Host header names this machine's loopback, with any port or none: localhost, 127.0.0.1, [::1], or `own`,
 * the numeric address of the server. A page of another site that has its name resolved to 127.0.0.1 sends its own name
 * here, and is refused. host NULL: the request had none. */
bool tess_web_host_is_loopback(const char *host, const char *own);

/* Returns what follows the token in a path "/TOKEN/rest", or NULL if the path has another token. The time does not
 * depend on where the two differ. */
const char *tess_web_path_after(const char *path, const char *token);

/* Returns 0 for a request that may be answered, or the code with which it is refused. own: as above; NULL: any host is
 * fine. */
int tess_web_judge(const char *method, const char *host, const char *own, bool has_body);

#endif
