/* A small server of pages over HTTP, for readers on the same machine. It answers GET and HEAD only, and its pages come
 * from a callback: no file can be asked for. The number of connections, of all readers and of one address, and the
 * size of a request are limited. A connection on which nothing comes for 15 s is closed. One that sends a byte now and
 * then stays, so readers with several addresses can keep others out. */
#ifndef TESS_DOCTOR_WEB_SERVER_H
#define TESS_DOCTOR_WEB_SERVER_H

#include "base/text/text.h"
#include "doctor/web/web_request.h"

typedef struct tess_web_answer {
    int code;           /* 200, 404 ... */
    const char *type;   /* MIME type */
    bool may_be_empty;  /* else an empty body gets a sentence about the code */
    tess_buffer policy; /* value of the header Content-Security-Policy; empty: nothing may be loaded */
    tess_buffer body;
} tess_web_answer;

typedef struct tess_web_server_options {
    tess_web_address address;
    bool any_host; /* answer requests whatever their Host header says */
    /* Called in the server's thread, one call at a time, for a path such as "/metrics". Sets the answer, which is a
     * 404 at first. A failure becomes a 500 with its message. */
    tess_status (*answer)(void *self, const char *path, tess_web_answer *answer);
    void *self;
} tess_web_server_options;

typedef struct tess_web_server tess_web_server;

/* Starts the server in a thread of its own.
 *   TESS_E_UNSUPPORTED  libmicrohttpd is not installed, or the build lacks it
 *   TESS_E_IO           the address or the port cannot be used; the message says why */
tess_status tess_web_server_start(tess_mem *mem, const tess_web_server_options *options, tess_web_server **server);
int tess_web_server_port(const tess_web_server *server);
/* Ends all connections and the thread. */
void tess_web_server_stop(tess_web_server **server);

#endif
