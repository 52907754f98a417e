/* Headers of requests, read from files and variables. Their values are secrets, which no message may show. */
#ifndef TESS_RL_REWARD_REWARD_HEADERS_H
#define TESS_RL_REWARD_REWARD_HEADERS_H

#include "base/text/text.h"
#include "rl/reward/reward.h"

enum { REWARD_MOST_HEADERS = 64, REWARD_HEADER_BYTES = 16 << 10 };

typedef struct reward_headers {
    tess_buffer lines; /* "Name: value", each followed by a NUL */
    int n;
} reward_headers;

/* Adds the lines of a text. Blank lines and lines that begin with '#' are left out. `where` names the text in
 * messages, which quote none of it. TESS_E_INVALID: a line is not "Name: value" in printable ASCII, there are more
 * than REWARD_MOST_HEADERS of them, or the text has more than REWARD_HEADER_BYTES. TESS_E_NOMEM. */
tess_status reward_headers_add(reward_headers *headers, const char *text, size_t size, const char *where);

/* Returns the line after `line`, or the first one for NULL. NULL: there is none. */
const char *reward_headers_next(const reward_headers *headers, const char *line);

/* Removes the values of the headers, and the password and query of the URL, from a message. */
void reward_headers_redact(const reward_headers *headers, const char *url, char *message);

#endif
