/* Collects the ranks, hosts, processes and devices that lines are about, and formats their names for reports. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/log/log_impl.h"
#include "doctor/table/clean.h"

tess_status log_rank_at(tess_survey *s, int rank, log_rank **out)
{
    if (rank >= s->capacity) {
        int capacity = rank < 32 ? 64 : 2 * rank;
        TESS_TRY(tess_mem_grow(s->mem, TESS_POOL_MISC, (size_t)capacity * sizeof(log_rank), "ranks of a log",
                               (void **)&s->ranks));
        s->capacity = capacity;
    }
    if (rank >= s->n_ranks)
        s->n_ranks = rank + 1;
    *out = &s->ranks[rank];
    return TESS_OK;
}

int log_count_ranks(log_rank_fn is_in, const void *context, int n_ranks)
{
    int n = 0;
    for (int r = 0; r < n_ranks; r++)
        n += is_in(context, r);
    return n;
}

const char *log_name_ranks(log_rank_fn is_in, const void *context, int n_ranks, char *text, size_t size)
{
    const char *comma = "";
    size_t at = (size_t)snprintf(text, size, "%s ", log_count_ranks(is_in, context, n_ranks) == 1 ? "rank" : "ranks");
    for (int r = 0; r < n_ranks; r++) {
        if (!is_in(context, r))
            continue;
        int last = r;
        while (last + 1 < n_ranks && is_in(context, last + 1))
            last++;
        if (at + 24 > size) {
            snprintf(text + at, size - at, "...");
            return text;
        }
        at += (size_t)(last == r ? snprintf(text + at, size - at, "%s%d", comma, r)
                                 : snprintf(text + at, size - at, "%s%d-%d", comma, r, last));
        comma = ",";
        r = last;
    }
    return text;
}

static void add_rank(log_who *who, int rank)
{
    for (int i = 0; i < who->n_ranks; i++)
        if (who->ranks[i] == rank)
            return;
    if (rank >= 0 && rank < LOG_MOST_RANKS && who->n_ranks < TESS_LOG_MOST_CULPRITS)
        who->ranks[who->n_ranks++] = rank;
}

/* Adds the ranks of a list: "3", "1-3,7", "2 and rank 0". */
static void add_ranks(log_who *who, const char *text)
{
    while (isdigit((unsigned char)*text)) {
        char *end;
        long first = strtol(text, &end, 10), last = first;
        if (*end == '-' && isdigit((unsigned char)end[1]))
            last = strtol(end + 1, &end, 10);
        for (long r = first; r <= last && r < LOG_MOST_RANKS && who->n_ranks < TESS_LOG_MOST_CULPRITS; r++)
            add_rank(who, (int)r);
        text = end + strcspn(end, "0123456789");
    }
}

static void set_text(char *out, size_t size, const char *text)
{
    if (out[0] == '\0')
        snprintf(out, size, "%s", text);
}

/* Sets the name of an actor, which replaces the kind of an actor without a name. */
static void set_actor(log_who *who, const char *name, const char *noun)
{
    if (who->is_class)
        who->actor[0] = '\0';
    who->is_class = false;
    if (who->actor[0] == '\0')
        who->noun = noun;
    set_text(who->actor, sizeof(who->actor), name);
}

static void add_name(log_who *who, tess_log_name name, const char *text)
{
    switch (name) {
    case TESS_NAME_TASK:
    case TESS_NAME_LOCAL_RANK:
    case TESS_NAME_RANK:
        who->is_task |= name == TESS_NAME_TASK;
        who->is_local |= name == TESS_NAME_LOCAL_RANK;
        add_ranks(who, text);
        break;
    case TESS_NAME_PID:
        who->pid = who->pid == 0 ? (int)strtol(text, NULL, 10) : who->pid;
        break;
    case TESS_NAME_HOST:
        if (log_is_host(text, strlen(text), LOG_HOST_EXPECTED))
            set_text(who->host, sizeof(who->host), text);
        break;
    case TESS_NAME_GPU:
        set_text(who->gpu, sizeof(who->gpu), text);
        break;
    case TESS_NAME_ACTOR:
        set_actor(who, text, strncmp(text, "/job:", 5) == 0 ? "task" : NULL);
        break;
    case TESS_NAME_POD:
        set_actor(who, text, "pod");
        break;
    case TESS_NAME_CONTAINER:
        set_actor(who, text, "container");
        break;
    case TESS_NAME_JOB:
        set_actor(who, text, "job");
        break;
    case TESS_NAME_CLASS:
        who->is_class |= who->actor[0] == '\0';
        set_text(who->actor, sizeof(who->actor), text);
        break;
    case TESS_NAME_DEVICE:
        set_text(who->device, sizeof(who->device), text);
        break;
    case TESS_NAME_PEER:
        set_text(who->peer, sizeof(who->peer), text);
        break;
    case TESS_NAME_STEP:
        set_text(who->step, sizeof(who->step), text);
        break;
    case TESS_NAME_WHAT:
        set_text(who->what, sizeof(who->what), text);
        for (size_t n = strlen(who->what); n > 0 && who->what[n - 1] == ' '; n--)
            who->what[n - 1] = '\0';
        break;
    case TESS_NAME_ALSO:     /* log_note_also */
    case TESS_NAME_LACKS:    /* survey_match.c compares lines by it */
    case TESS_NAME_REPORTER: /* log_who_add_reporter */
    case TESS_NAME_COUNT:
        break;
    }
}

void log_who_add(log_who *who, const tess_found_entry *found)
{
    for (int name = 0; name < TESS_NAME_COUNT; name++) {
        char text[256];
        if (found->names[name].text == NULL)
            continue;
        tess_clean(found->names[name].text, found->names[name].size, text, sizeof(text));
        add_name(who, (tess_log_name)name, text);
        who->is_named |= name <= TESS_NAME_HOST || name == TESS_NAME_ACTOR ||
                         (name >= TESS_NAME_POD && name <= TESS_NAME_JOB) || name == TESS_NAME_CONTAINER;
    }
}

void log_who_add_reporter(log_who *reporter, const tess_found_entry *found)
{
    char text[32];
    if (found->names[TESS_NAME_REPORTER].text == NULL || reporter->n_ranks > 0)
        return;
    tess_clean(found->names[TESS_NAME_REPORTER].text, found->names[TESS_NAME_REPORTER].size, text, sizeof(text));
    add_ranks(reporter, text);
}

void log_who_complete(log_who *who, const log_who *more)
{
    if (who->n_ranks == 0) {
        memcpy(who->ranks, more->ranks, sizeof(who->ranks));
        who->n_ranks = more->n_ranks;
        who->is_task = more->is_task;
        who->is_local = more->is_local;
    }
    if (who->pid == 0)
        memcpy(who->more_pids, more->more_pids, sizeof(who->more_pids));
    if (who->pid == 0)
        who->pid = more->pid;
    if (who->host[0] == '\0')
        memcpy(who->more_hosts, more->more_hosts, sizeof(who->more_hosts));
    set_text(who->host, sizeof(who->host), more->host);
    if (who->gpu[0] == '\0')
        memcpy(who->more_gpus, more->more_gpus, sizeof(who->more_gpus));
    set_text(who->gpu, sizeof(who->gpu), more->gpu);
    if (!more->is_class && who->actor[0] == '\0') { /* the kind of an actor does not identify it in another error */
        memcpy(who->actor, more->actor, sizeof(who->actor));
        who->noun = more->noun;
    }
    set_text(who->device, sizeof(who->device), more->device);
    set_text(who->peer, sizeof(who->peer), more->peer);
    set_text(who->step, sizeof(who->step), more->step);
    set_text(who->what, sizeof(who->what), more->what);
}

bool log_who_is_same(const log_who *a, const log_who *b)
{
    return a->n_ranks == b->n_ranks && (a->n_ranks == 0 || a->ranks[0] == b->ranks[0]) && a->pid == b->pid &&
           strcmp(a->host, b->host) == 0 && strcmp(a->actor, b->actor) == 0;
}

/* Whether a list such as "TP0, TP1" contains a name. */
static bool list_has(const char *list, const char *name, size_t size)
{
    for (size_t n; *list != '\0'; list += n + strspn(list + n, ", ")) {
        n = strcspn(list, ",");
        if (n == size && memcmp(list, name, n) == 0)
            return true;
    }
    return false;
}

/* Adds the actors of `other` to the list. If there are too many, none is named. */
static void join_actors(char *list, size_t size, const char *other)
{
    if (list[0] == '\0' || other[0] == '\0') {
        list[0] = '\0';
        return;
    }
    for (size_t n; *other != '\0'; other += n + strspn(other + n, ", ")) {
        size_t at = strlen(list);
        n = strcspn(other, ",");
        if (list_has(list, other, n))
            continue;
        if (at + n + 3 > size) {
            list[0] = '\0';
            return;
        }
        snprintf(list + at, size - at, ", %.*s", (int)n, other);
    }
}

static void keep_common(char *text, const char *other)
{
    if (strcmp(text, other) != 0)
        text[0] = '\0';
}

void log_who_join(log_who *who, const log_who *other)
{
    for (int i = 0; i < other->n_ranks; i++)
        add_rank(who, other->ranks[i]);
    who->pid = who->pid == other->pid ? who->pid : 0;
    keep_common(who->more_pids, other->more_pids);
    keep_common(who->host, other->host);
    keep_common(who->more_hosts, other->more_hosts);
    keep_common(who->gpu, other->gpu);
    keep_common(who->more_gpus, other->more_gpus);
    join_actors(who->actor, sizeof(who->actor), other->actor);
    keep_common(who->device, other->device);
    keep_common(who->peer, other->peer);
}

/* Adds an item of n bytes to a list of further ones, ", b, c", unless it is `first` or in the list. A list that is full
 * ends with "...". */
static void add_more(char *more, size_t size, const char *first, const char *item, size_t n)
{
    size_t at = strlen(more);
    if (n == 0 || (strlen(first) == n && memcmp(first, item, n) == 0) || (at > 0 && list_has(more + 2, item, n)))
        return;
    if (at >= 5 && strcmp(more + at - 5, ", ...") == 0)
        return;
    bool fits = at + n + 8 < size;
    snprintf(more + at, size - at, ", %.*s", fits ? (int)n : 3, fits ? item : "...");
}

void log_who_add_hosts(log_who *who, const log_who *other)
{
    add_more(who->more_hosts, sizeof(who->more_hosts), who->host, other->host, strlen(other->host));
    for (const char *at = other->more_hosts; *at != '\0'; at += strcspn(at, ",")) {
        at += 2;
        add_more(who->more_hosts, sizeof(who->more_hosts), who->host, at, strcspn(at, ","));
    }
    for (int i = 0; i < other->n_ranks; i++)
        add_rank(who, other->ranks[i]);
    if (who->pid != other->pid || who->more_pids[0] != '\0')
        who->pid = who->more_pids[0] = 0;
    keep_common(who->gpu, other->gpu);
    keep_common(who->more_gpus, other->more_gpus);
}

void log_who_add_peer(log_who *who, const log_who *other)
{
    if (who->peer[0] != '\0')
        add_more(who->more_peers, sizeof(who->more_peers), who->peer, other->peer, strlen(other->peer));
}

bool log_who_differs_in_pid(const log_who *who, const log_who *other)
{
    return who->pid != 0 && other->pid != 0 && who->pid != other->pid && who->n_ranks == 0 && other->n_ranks == 0 &&
           strcmp(who->host, other->host) == 0 && strcmp(who->gpu, other->gpu) == 0 &&
           strcmp(who->actor, other->actor) == 0;
}

void log_who_add_pids(log_who *who, const log_who *other)
{
    char first[16], pid[16];
    snprintf(first, sizeof(first), "%d", who->pid);
    add_more(who->more_pids, sizeof(who->more_pids), first, pid, (size_t)snprintf(pid, sizeof(pid), "%d", other->pid));
}

bool log_who_differs_in_gpu(const log_who *who, const log_who *other)
{
    return who->gpu[0] != '\0' && other->gpu[0] != '\0' && strcmp(who->gpu, other->gpu) != 0 && who->n_ranks == 0 &&
           other->n_ranks == 0 && strcmp(who->host, other->host) == 0 && strcmp(who->actor, other->actor) == 0 &&
           strcmp(who->device, other->device) == 0 && strcmp(who->peer, other->peer) == 0;
}

void log_who_add_gpus(log_who *who, const log_who *other)
{
    if (who->pid != 0 && other->pid != 0 && who->pid != other->pid)
        log_who_add_pids(who, other);
    add_more(who->more_gpus, sizeof(who->more_gpus), who->gpu, other->gpu, strlen(other->gpu));
}

void log_who_join_reporter(log_who *who, const log_who *other)
{
    const log_who old = *who;
    bool is_one_host = old.more_hosts[0] == '\0' && strcmp(old.host, other->host) == 0;
    log_who_join(who, other);
    if (is_one_host || who->n_ranks > 0 || old.host[0] == '\0' || other->host[0] == '\0')
        return;
    who->device[0] = '\0';
    memcpy(who->host, old.host, sizeof(who->host));
    memcpy(who->more_hosts, old.more_hosts, sizeof(who->more_hosts));
    log_who_add_hosts(who, other);
}

bool log_who_differs_in_host(const log_who *who, const log_who *other)
{
    bool no_ranks = who->n_ranks == 0 && other->n_ranks == 0;
    return who->host[0] != '\0' && other->host[0] != '\0' && strcmp(who->host, other->host) != 0 &&
           strcmp(who->actor, other->actor) == 0 &&
           (no_ranks || (who->is_task && other->is_task) || (who->is_local && other->is_local));
}

bool log_who_is_known(const log_who *who)
{
    return who->n_ranks > 0 || who->pid != 0 || who->host[0] != '\0' || who->gpu[0] != '\0' || who->actor[0] != '\0';
}

bool log_who_names_only_gpu(const log_who *who)
{
    return who->gpu[0] != '\0' && who->n_ranks == 0 && who->pid == 0 && who->host[0] == '\0' && who->actor[0] == '\0';
}

bool log_who_has(const log_who *who, int rank)
{
    for (int i = 0; i < who->n_ranks; i++)
        if (who->ranks[i] == rank)
            return true;
    return false;
}

static bool is_one_of(const void *who, int rank)
{
    return log_who_has(who, rank);
}

/* Formats "ranks 1-3", "tasks 1-3" or "local rank 1". */
static size_t add_numbers(const log_who *who, char *text, size_t size)
{
    char ranks[160];
    int end = 0;
    for (int i = 0; i < who->n_ranks; i++)
        end = who->ranks[i] >= end ? who->ranks[i] + 1 : end;
    log_name_ranks(is_one_of, who, end, ranks, sizeof(ranks));
    if (who->is_task)
        memcpy(ranks, "task", 4);
    return tess_text_add(text, size, 0, "%s%s", who->is_local ? "local " : "", ranks);
}

/* Returns the word before the names of devices: none where the name says what it is, as "TPU:4" does. */
static const char *device_word(const log_who *who)
{
    if (strncmp(who->gpu, "TPU", 3) == 0 || strncmp(who->gpu, "NPU", 3) == 0)
        return "";
    return who->more_gpus[0] != '\0' ? "GPUs " : "GPU ";
}

const char *log_who_text(const log_who *who, char *text, size_t size)
{
    size_t at = 0;
    char details[256] = "";
    bool host_is_head = who->n_ranks == 0 && who->actor[0] == '\0' && who->gpu[0] == '\0';
    text[0] = '\0';
    if (!log_who_is_known(who))
        return text;
    if (who->n_ranks > 0)
        at = add_numbers(who, text, size);
    else if (who->actor[0] != '\0')
        at = tess_text_add(text, size, at, "%s%s %s", who->noun != NULL ? who->noun : "actor",
                           strchr(who->actor, ',') != NULL ? "s" : "", who->actor);
    else if (who->gpu[0] != '\0')
        at = tess_text_add(text, size, at, "%s%s%s", device_word(who), who->gpu, who->more_gpus);
    else if (who->host[0] == '\0')
        at = tess_text_add(text, size, at, "process%s", who->more_pids[0] != '\0' ? "es" : "");
    if (who->host[0] != '\0')
        at = tess_text_add(text, size, at,
                           host_is_head && who->more_hosts[0] != '\0' ? "hosts %s%s"
                           : host_is_head                             ? "host %s%s"
                                                                      : " on %s%s",
                           who->host, who->more_hosts);
    size_t n = 0;
    if (who->n_ranks > 0 && who->gpu[0] != '\0')
        n = tess_text_add(details, sizeof(details), n, ", %s%s%s", device_word(who), who->gpu, who->more_gpus);
    if (who->pid != 0 && who->n_ranks <= 1)
        n = tess_text_add(details, sizeof(details), n, ", pid%s %d%s", who->more_pids[0] != '\0' ? "s" : "", who->pid,
                          who->more_pids);
    if (who->device[0] != '\0')
        n = tess_text_add(details, sizeof(details), n, ", %s", who->device);
    if (who->peer[0] != '\0')
        tess_text_add(details, sizeof(details), n, ", to %s%s", who->peer, who->more_peers);
    if (details[0] != '\0')
        tess_text_add(text, size, at, " (%s)", details + 2);
    return text;
}
