/* Finds facts about an error in the lines around it. Lines far above it tell the endpoint at which the processes of a
 * job meet, the node of a pod, the host of a shell, and the checkpoint that is read. The lines right above it, and the
 * last ones of a file, may speak of a failure that no entry knows. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "doctor/log/log_impl.h"
#include "doctor/table/clean.h"

/* Words before the endpoint, and words before its port if the port is given separately. */
static const char *const endpoint_words[][2] = {
    {"rdzv_endpoint", NULL},               /* torchrun: options and launch configuration */
    {"rdzv-endpoint", NULL},               /* the same option with a hyphen, as newer versions print it */
    {"master_addr", "master_port"},        /* env://, torch.distributed.launch, DeepSpeed */
    {"JAX distributed service on ", NULL}, /* jax.distributed.initialize() */
};

static bool is_of_address(char c)
{
    return isalnum((unsigned char)c) || (c != '\0' && strchr(".:-_[]", c) != NULL);
}

/* Finds the value after a word and an assignment: "=", ":", quotes and blanks. Returns its length. */
static size_t value_behind(const char *line, const char *word, const char **value)
{
    const char *at = strcasestr(line, word);
    size_t n = 0;
    if (at == NULL)
        return 0;
    at += strlen(word);
    at += strspn(at, " \t=:'\",");
    while (is_of_address(at[n]))
        n++;
    while (n > 0 && (at[n - 1] == '.' || at[n - 1] == ':'))
        n--;
    *value = at;
    return n;
}

void log_note_endpoint(tess_survey *s, const char *line, size_t size)
{
    char text[1024];
    const char *host, *port = "";
    snprintf(text, sizeof(text), "%.*s", (int)(size < sizeof(text) ? size : sizeof(text) - 1), line);
    for (size_t i = 0; s->endpoint[0] == '\0' && i < sizeof(endpoint_words) / sizeof(endpoint_words[0]); i++) {
        const char *word = endpoint_words[i][1];
        size_t n = value_behind(text, endpoint_words[i][0], &host);
        if (n < 2 || n >= sizeof(s->endpoint) - 8)
            continue;
        size_t n_port = word != NULL ? value_behind(text, word, &port) : 0;
        bool is_number = n_port > 0 && strspn(port, "0123456789") == n_port;
        bool is_address = memchr(host, '.', n) != NULL || memchr(host, ':', n) != NULL || is_number;
        if (is_address)
            snprintf(s->endpoint, sizeof(s->endpoint), "%.*s%s%.*s", (int)n, host, is_number ? ":" : "",
                     is_number && n_port < 6 ? (int)n_port : 0, port);
    }
}

void log_note_node(survey_reading *r, const char *line, size_t size)
{
    static const char *const words[] = {"Node: ", "nodeName: "};
    size_t blanks = 0;
    while (blanks < size && line[blanks] == ' ')
        blanks++;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t at = blanks + strlen(words[i]), n = 0;
        if (!log_begins_with(line + blanks, size - blanks, words[i]))
            continue;
        while (at < size && line[at] == ' ')
            at++;
        while (at + n < size && is_of_address(line[at + n]))
            n++;
        bool is_end = at + n == size || line[at + n] == '/'; /* "node-a/192.0.2.1" of `kubectl describe pod` */
        if (n > 1 && is_end)
            snprintf(r->node, sizeof(r->node), "%.*s", (int)(n < sizeof(r->node) ? n : sizeof(r->node) - 1), line + at);
    }
}

static void set_node(survey_reading *r, const char *text, size_t n)
{
    snprintf(r->node, sizeof(r->node), "%.*s", (int)(n < sizeof(r->node) ? n : sizeof(r->node) - 1), text);
}

void log_note_pod(survey_reading *r, const char *pod)
{
    if (r->pods_differ || (r->pod[0] != '\0' && strcmp(r->pod, pod) != 0)) {
        r->pods_differ = true;
        r->pod[0] = '\0';
        return;
    }
    snprintf(r->pod, sizeof(r->pod), "%s", pod);
}

void log_note_assigned(survey_reading *r, const char *line, size_t size)
{
    static const char words[] = "uccessfully assigned ";
    char pod[sizeof(r->pod)];
    const char *end = line + size, *at = memmem(line, size, words, sizeof(words) - 1);
    const char *to = at != NULL ? memmem(at, (size_t)(end - at), " to ", 4) : NULL;
    if (to == NULL)
        return;
    at += sizeof(words) - 1;
    const char *slash = at < to ? memchr(at, '/', (size_t)(to - at)) : NULL;
    at = slash != NULL ? slash + 1 : at;
    size_t n = 0, n_pod = at < to ? (size_t)(to - at) : 0;
    for (to += 4; to + n < end && is_of_address(to[n]);)
        n++;
    if (n < 2)
        return;
    if (n_pod > 0 && n_pod < sizeof(pod)) {
        snprintf(pod, sizeof(pod), "%.*s", (int)n_pod, at);
        log_note_pod(r, pod);
    }
    r->nodes_differ |= r->node[0] != '\0' && (strlen(r->node) != n || memcmp(r->node, to, n) != 0);
    set_node(r, to, r->nodes_differ ? 0 : n);
}

/* Notes the rank of a process from the command that started it: "# python train.py --rank 3". */
static void note_command(survey_reading *r, const char *command, size_t size)
{
    static const char option[] = " --rank";
    const char *at = memmem(command, size, option, sizeof(option) - 1), *end = command + size;
    int rank = 0;
    if (log_rank_of_path(r->survey->files[r->file]) >= 0)
        return;
    r->path_who.n_ranks = 0;                                                  /* the rank of an earlier command */
    if (at == NULL || memmem(command, size, "--multiprocessing", 17) != NULL) /* the rank is that of a host */
        return;
    at += sizeof(option) - 1;
    if (at == end || (*at != ' ' && *at != '='))
        return;
    const char *digits = ++at;
    while (at < end && isdigit((unsigned char)*at) && rank < LOG_MOST_RANKS)
        rank = rank * 10 + (*at++ - '0');
    if (at == digits || rank >= LOG_MOST_RANKS || (at < end && *at != ' '))
        return;
    r->path_who.ranks[0] = rank;
    r->path_who.n_ranks = 1;
}

void log_note_prompt(survey_reading *r, const char *line, size_t size)
{
    enum { MOST_ABOVE = 64 }; /* the name of an environment, in brackets, may precede the prompt */
    const char *end = line + size, *at = memchr(line, '@', size < MOST_ABOVE ? size : MOST_ABOVE), *user = at;
    size_t n = 0;
    while (at != NULL && user > line && (isalnum((unsigned char)user[-1]) || strchr("._-", user[-1]) != NULL))
        user--;
    if (at == user || (user > line && user[-1] != ' ' && user[-1] != '[' && user[-1] != ')'))
        return;
    bool is_boxed = user > line && user[-1] == '['; /* "[user@host folder]$ ", and else "user@host:folder$ " */
    for (at++; at + n < end && at[n] != ':' && is_of_address(at[n]);)
        n++;
    const char *mark = at + n;
    while (mark + 1 < end && !((*mark == '$' || *mark == '#') && mark[1] == ' '))
        mark++;
    bool is_prompt =
        mark + 1 < end && at + n < end && (is_boxed ? mark[-1] == ']' && (at[n] == ' ' || at[n] == ':') : at[n] == ':');
    bool is_root = at - user == 5 && memcmp(user, "root@", 5) == 0;
    is_prompt &= log_is_host(at, n, LOG_HOST_EXPECTED);
    if (n > 1 && n < sizeof(r->shell) && is_prompt)
        snprintf(r->shell, sizeof(r->shell), "%.*s", (int)n, at);
    if (n > 1 && is_prompt && is_root) /* root is mostly inside of a container; others look at it from outside */
        set_node(r, at, n);
    if (is_prompt)
        note_command(r, mark, (size_t)(end - mark));
}

void log_note_checkpoint(survey_reading *r, const char *line, size_t size)
{
    static const char *const words[] = {"local path: ", "path: ", "'", "\""};
    const char *end = line + size, *at = memmem(line, size, "heckpoint from ", 15);
    size_t n = 0;
    if (at == NULL)
        return;
    at += 15;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (log_begins_with(at, (size_t)(end - at), words[i]))
            at += strlen(words[i]);
    while (at + n < end && !isspace((unsigned char)at[n]) && at[n] != '\'' && at[n] != '"' && at[n] != ',')
        n++;
    while (n > 0 && (at[n - 1] == '.' || at[n - 1] == ':'))
        n--;
    bool is_path = memchr(at, '/', n) != NULL || memchr(at, '\\', n) != NULL || memchr(at, '.', n) != NULL;
    if (is_path)
        snprintf(r->checkpoint, sizeof(r->checkpoint), "%.*s",
                 (int)(n < sizeof(r->checkpoint) ? n : sizeof(r->checkpoint) - 1), at);
}

void log_keep_tail(survey_reading *r, const char *line, size_t size, int64_t number)
{
    if (size == 0)
        return;
    log_loose *kept = &r->tail[r->n_tail++ % LOG_TAIL];
    size_t n = size < LOG_TAIL_MOST ? size : LOG_TAIL_MOST;
    kept->at = (log_place){r->file, number};
    memcpy(kept->excerpt, line, n);
    kept->excerpt[n] = '\0';
}

/* Whether the words of a line say that something failed. */
static bool speaks_of_failure(const char *line, size_t size)
{
    const size_t n = size < 300 ? size : 300;
    bool is_error = tess_text_has(line, n, TESS_WORD_IN + TESS_WORD_CASELESS, " error: |fatal: |error on ");
    if (!is_error && tess_text_has(line, n, TESS_WORD_IN + TESS_WORD_CASELESS, "if |instead|install "))
        return false;
    return !tess_text_has(
               line, n, TESS_WORD_IN + TESS_WORD_CASELESS,
               "0 failed|no error|without error|0 error|fallback|warn|skip|retry|"
               "non-zero exit|job has been aborted|user-direction|terminated normally|git repository|"
               "dubious ownership|no names found|sudo: unable to resolve|future release|future version|deprecat") &&
           tess_text_has(
               line, n, TESS_WORD_IN + TESS_WORD_CASELESS,
               "error:|fatal:| failed|failure|cannot |could not |unable to |denied|refused|timed out|aborted|"
               " aborting|killed|panic|exception:|preempt|evicted|no heartbeat|expired|mismatch|[e]|"
               "error in |error on |too small|too large|not allowed|bad |invalid|unsupported|not found|unreachable|"
               "not responding|unexpected |sigterm|corrupt");
}

void log_note_slow_bar(survey_reading *r)
{
    log_loose *bar = &r->survey->slow_bar;
    for (int64_t i = r->n_tail - 1; bar->at.line == 0 && i >= 0 && i >= r->n_tail - LOG_TAIL; i--) {
        const log_loose *line = &r->tail[i % LOG_TAIL];
        size_t size = strlen(line->excerpt), begin = log_text_begin(line->excerpt, size);
        if (!log_is_slow_bar(line->excerpt, size))
            continue;
        bar->at = line->at;
        tess_clean(line->excerpt + begin, size - begin, bar->excerpt, sizeof(bar->excerpt));
    }
}

void log_find_words_before(const survey_reading *r, int64_t number, log_loose *words)
{
    enum { MOST_ABOVE = 8 };
    for (int64_t i = r->n_tail - 1; i >= 0 && i >= r->n_tail - MOST_ABOVE; i--) {
        const log_loose *line = &r->tail[i % LOG_TAIL];
        size_t size = strlen(line->excerpt), begin = log_text_begin(line->excerpt, size);
        begin = begin < size ? begin : size;
        if (line->at.line >= number || log_is_mild(line->excerpt, size))
            continue;
        if (line->at.line <= r->known_line || log_has_progress_since(r, line->at.line))
            return;
        if (log_says_something(line->excerpt + begin, size - begin) && speaks_of_failure(line->excerpt, size)) {
            words->at = line->at;
            tess_clean(line->excerpt + begin, size - begin, words->excerpt, sizeof(words->excerpt));
            return;
        }
    }
}

/* Whether one of the last lines says that something ended well: errors of an orderly end do not count. */
static bool ends_well(const survey_reading *r)
{
    for (int i = 0; i < LOG_TAIL; i++) {
        const char *text = r->tail[i].excerpt;
        if (strstr(text, "nsuccess") == NULL &&
            tess_text_has(text, strlen(text), TESS_WORD_IN, "uccess| passed|omplete|inished|aved | done"))
            return true;
    }
    return false;
}

/* Whether the line begins like one of glog with the level INFO or WARNING. */
static bool is_mild_glog(const char *text, size_t size)
{
    return size > 6 && (text[0] == 'I' || text[0] == 'W') && strspn(text + 1, "0123456789") >= 4;
}

void log_note_last_words(survey_reading *r)
{
    if (ends_well(r))
        return;
    for (int64_t i = r->n_tail > LOG_LAST_WORDS ? r->n_tail - LOG_LAST_WORDS : 0; i < r->n_tail; i++) {
        const log_loose *line = &r->tail[i % LOG_TAIL];
        size_t size = strlen(line->excerpt), begin = log_text_begin(line->excerpt, size);
        begin = begin < size ? begin : size;
        if (r->survey->last_words.at.line > 0 || log_is_mild(line->excerpt, size) ||
            is_mild_glog(line->excerpt, size) || !log_says_something(line->excerpt + begin, size - begin) ||
            !speaks_of_failure(line->excerpt, size))
            continue;
        r->survey->last_words.at = line->at;
        tess_clean(line->excerpt + begin, size - begin, r->survey->last_words.excerpt,
                   sizeof(r->survey->last_words.excerpt));
    }
}

/* Whether both lines have the same letters, from where their texts begin. */
static bool has_same_words(const char *a, const char *b)
{
    a += log_text_begin(a, strlen(a));
    b += log_text_begin(b, strlen(b));
    for (;; a++, b++) {
        while (*a != '\0' && !isalpha((unsigned char)*a))
            a++;
        while (*b != '\0' && !isalpha((unsigned char)*b))
            b++;
        if (*a != *b || *a == '\0')
            return *a == *b;
    }
}

void log_note_repeated(survey_reading *r)
{
    enum { LEAST = 8 };
    const log_loose *last = r->n_tail > 0 ? &r->tail[(r->n_tail - 1) % LOG_TAIL] : NULL;
    int64_t n = 0;
    while (n < r->n_tail && n < LOG_TAIL &&
           has_same_words(r->tail[(r->n_tail - 1 - n) % LOG_TAIL].excerpt, last->excerpt))
        n++;
    if (n < LEAST || !log_says_something(last->excerpt, strlen(last->excerpt)))
        return;
    size_t size = strlen(last->excerpt), begin = log_text_begin(last->excerpt, size);
    r->survey->n_repeated = n;
    r->survey->repeated.at = last->at;
    tess_clean(last->excerpt + begin, size - begin, r->survey->repeated.excerpt, sizeof(r->survey->repeated.excerpt));
}
