#include "base/text/literal.h"

#include <ctype.h>
#include <string.h>

typedef struct run {
    char best[TESS_LITERAL_MOST], now[TESS_LITERAL_MOST];
    size_t n_best, n_now;
} run;

static void end_run(run *r)
{
    if (r->n_now > r->n_best) {
        memcpy(r->best, r->now, r->n_now);
        r->n_best = r->n_now;
    }
    r->n_now = 0;
}

static void add(run *r, char c)
{
    if (r->n_now == TESS_LITERAL_MOST)
        end_run(r);
    r->now[r->n_now++] = (char)tolower((unsigned char)c);
}

/* Returns the offset after the character class that begins at `at`. */
static size_t skip_class(const char *p, size_t size, size_t at)
{
    at++;
    if (at < size && p[at] == '^')
        at++;
    if (at < size && p[at] == ']')
        at++;
    for (; at < size && p[at] != ']'; at++)
        if (p[at] == '\\')
            at++;
    return at + 1;
}

/* Returns the offset after the group that begins at `at`. */
static size_t skip_group(const char *p, size_t size, size_t at)
{
    int depth = 0;
    while (at < size) {
        if (p[at] == '\\') {
            at += 2;
            continue;
        }
        if (p[at] == '[') {
            at = skip_class(p, size, at);
            continue;
        }
        depth += (p[at] == '(') - (p[at] == ')');
        at++;
        if (depth == 0)
            break;
    }
    return at;
}

size_t tess_pattern_literal(const char *p, size_t size, char out[TESS_LITERAL_MOST])
{
    run r = {.n_best = 0};
    for (size_t at = 0; at < size;) {
        char c = p[at];
        if (c == '|')
            return 0;
        if (c == '*' || c == '?' || c == '{') { /* the character before it is optional */
            const char *end = c == '{' ? memchr(p + at, '}', size - at) : &p[at];
            r.n_now -= r.n_now > 0;
            end_run(&r);
            at = end != NULL ? (size_t)(end - p) + 1 : size;
        } else if (c == '(') {
            end_run(&r);
            at = skip_group(p, size, at);
        } else if (c == '[') {
            end_run(&r);
            at = skip_class(p, size, at);
        } else if (c == '\\' && at + 1 < size && !isalnum((unsigned char)p[at + 1])) {
            add(&r, p[at + 1]);
            at += 2;
        } else if (c == '\\') {
            end_run(&r);
            at += 2;
        } else if (strchr(".^$+)", c) != NULL) {
            end_run(&r);
            at++;
        } else {
            add(&r, c);
            at++;
        }
    }
    end_run(&r);
    if (r.n_best < TESS_LITERAL_LEAST)
        return 0;
    memcpy(out, r.best, r.n_best);
    return r.n_best;
}
