#include "control/launch/output/rank_output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/variables.h"
#include "base/os/os.h"
#include "control/launch/output/output_file.h"
#include "control/launch/output/terminal_lines.h"
#include "trace/error_file.h"

/* HELD_BYTES: of a stream, while the number of its rank is not known */
enum { STREAMS = 2, READ_BYTES = 1 << 16, HELD_BYTES = 1 << 16, HOST_BYTES = 64 };
static const char *const stream_names[STREAMS] = {"stdout.log", "stderr.log"};
/* Seconds that lines wait for the number of their rank in the job. They are then shown with the number that the rank
 * began with, and kept in memory: the folder of their files is another one if the number changes. */
static const double name_patience_s = 1;
/* Seconds that a child of a rank may keep a pipe open after all ranks have ended, and may go on writing. */
static const double child_patience_s = 0.5, longest_rest_s = 10;

typedef struct output_stream {
    int from, to; /* ends of the pipe; -1: the rank has the stream of this process */
    bool shown;
    output_file file;
    size_t n;
    char line[OUTPUT_LINE_BYTES]; /* (n) begin of a line, after the prefix */
    size_t n_held;
    char *held; /* (n_held) bytes that no file has yet; NULL: the rank's number is fixed */
} output_stream;

typedef struct output_rank {
    int rank, local;
    bool is_named;         /* files have their names */
    _Atomic int wanted;    /* 1 + the number in the job; 0: not known yet */
    char host[HOST_BYTES]; /* written before `wanted` */
    char prefix[HOST_BYTES + 24];
    output_stream streams[STREAMS];
} output_rank;

struct rank_output {
    tess_output_plan plan;
    output_ranks ranks;
    tess_reporter reporter;
    pthread_t thread;
    bool runs;
    int wake[2]; /* pipe: gets a byte when the ranks have ended */
    double since_s;
    bool told_of_disk;
    terminal_lines *shown[STREAMS];
    char whole[OUTPUT_PATH_BYTES]; /* absolute path of the plan's folder */
    struct pollfd *fds;            /* (STREAMS * n + 1); one block with `each` */
    char *buffer;                  /* (READ_BYTES) */
    output_rank *each;             /* (n) */
};

tess_status rank_output_path(const char *folder, int attempt, int rank, const char *name, char *path, size_t size)
{
    int n = snprintf(path, size, "%s/attempt_%d/%d%s%s", folder, attempt, rank, name[0] != '\0' ? "/" : "", name);
    TESS_CHECK(n > 0 && (size_t)n < size, TESS_E_INVALID, "job.log_dir: the path is too long");
    return TESS_OK;
}

/* ---- The terminal ---- */
/* Shows the line that has been collected, with a line end. */
static void show_line(rank_output *o, output_rank *rank, int number)
{
    output_stream *stream = &rank->streams[number];
    char text[OUTPUT_LINE_BYTES];
    int n = snprintf(text, sizeof(text), "%s", rank->prefix);
    memcpy(text + n, stream->line, stream->n);
    text[(size_t)n + stream->n] = '\n';
    terminal_lines_put(o->shown[number], text, (size_t)n + stream->n + 1);
    stream->n = 0;
}

static void take_text(rank_output *o, output_rank *rank, int number, const char *text, size_t n)
{
    output_stream *stream = &rank->streams[number];
    const size_t most = OUTPUT_LINE_BYTES - sizeof(rank->prefix) - 1;
    while (n > 0) {
        const bool ends = *text == '\n';
        if (ends || stream->n == most) /* a line that fills the buffer waits: it may end here */
            show_line(o, rank, number);
        text += ends;
        n -= ends;
        const char *end = memchr(text, '\n', n);
        size_t part = end != NULL ? (size_t)(end - text) : n;
        if (part > most - stream->n)
            part = most - stream->n;
        memcpy(stream->line + stream->n, text, part);
        stream->n += part;
        text += part;
        n -= part;
    }
}

/* ---- Names ---- */
/* Removes the files of a life that is too old. */
static void remove_old(const rank_output *o, const output_rank *rank)
{
    char path[OUTPUT_PATH_BYTES];
    const int old = o->ranks.attempt - OUTPUT_ATTEMPTS;
    if (old < 0 || rank_output_path(o->plan.folder, old, rank->rank, "", path, sizeof(path)) != TESS_OK ||
        tess_os_remove_tree(path) != TESS_OK) {
        tess_error_clear();
        return;
    }
    *strrchr(path, '/') = '\0';
    tess_os_remove_empty_dir(path);
}

static void set_prefix(output_rank *rank, const char *host)
{
    snprintf(rank->prefix, sizeof(rank->prefix), "[%s%srank%d]: ", host, host[0] != '\0' ? ":" : "", rank->rank);
}

/* Marks in the files of a rank where the text of this life begins. */
static void separate_files(const rank_output *o, int rank)
{
    char path[OUTPUT_PATH_BYTES];
    for (int s = 0; s < STREAMS; s++)
        if (rank_output_path(o->plan.folder, o->ranks.attempt, rank, stream_names[s], path, sizeof(path)) == TESS_OK)
            output_file_separate(path);
    tess_error_clear();
}

static void store(rank_output *o, output_rank *rank, int number, const char *text, size_t n)
{
    output_file *file = &rank->streams[number].file;
    if (output_file_write(file, text, n, o->plan.max_bytes, o->plan.n_kept) || o->told_of_disk)
        return;
    o->told_of_disk = true;
    tess_report_line(&o->reporter,
                     "warning: cannot write the output of rank %d to %s: %s: the run goes on, and the file lacks lines",
                     rank->rank, file->path, strerror(errno));
}

static void name_rank(rank_output *o, output_rank *rank)
{
    int wanted = atomic_load(&rank->wanted);
    if (wanted > 0)
        rank->rank = wanted - 1;
    rank->is_named = true;
    set_prefix(rank, wanted > 0 ? rank->host : "");
    if (!o->ranks.is_fixed)
        separate_files(o, rank->rank);
    for (int s = 0; s < STREAMS; s++)
        if (rank_output_path(o->plan.folder, o->ranks.attempt, rank->rank, stream_names[s], rank->streams[s].file.path,
                             sizeof(rank->streams[s].file.path)) != TESS_OK)
            tess_error_clear();
    remove_old(o, rank);
    for (int s = 0; s < STREAMS; s++) {
        store(o, rank, s, rank->streams[s].held, rank->streams[s].n_held);
        rank->streams[s].n_held = 0;
    }
}

void rank_output_name(rank_output *o, int i, int rank, const char *host)
{
    if (o == NULL || atomic_load(&o->each[i].wanted) != 0)
        return;
    snprintf(o->each[i].host, sizeof(o->each[i].host), "%s", host);
    atomic_store(&o->each[i].wanted, rank + 1);
}

/* Whether there is no more room for bytes of a rank whose number is not known. */
static bool is_full(const output_rank *rank)
{
    bool any = false;
    for (int s = 0; s < STREAMS; s++)
        any |= rank->streams[s].n_held == HELD_BYTES;
    return any;
}

/* Whether bytes of the rank may be read. */
static bool is_ready(rank_output *o, output_rank *rank, bool ending)
{
    if (!rank->is_named && (o->ranks.is_fixed || ending || atomic_load(&rank->wanted) > 0 || is_full(rank)))
        name_rank(o, rank);
    if (rank->is_named)
        return true;
    set_prefix(rank, "");
    return tess_os_now_s() - o->since_s >= name_patience_s;
}

/* ---- The thread ---- */
/* Reads once. Returns false if there was nothing. Closes the pipe at its end. */
static bool read_stream(rank_output *o, output_rank *rank, int number)
{
    output_stream *stream = &rank->streams[number];
    const size_t most = rank->is_named ? READ_BYTES : HELD_BYTES - stream->n_held;
    ssize_t got;
    do
        got = read(stream->from, o->buffer, most);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return false;
    if (got == 0) {
        tess_os_close(&stream->from);
        return false;
    }
    if (rank->is_named) {
        store(o, rank, number, o->buffer, (size_t)got);
    } else {
        memcpy(stream->held + stream->n_held, o->buffer, (size_t)got);
        stream->n_held += (size_t)got;
    }
    if (stream->shown)
        take_text(o, rank, number, o->buffer, (size_t)got);
    return true;
}

/* Reads what there is of all ranks. Returns the number of pipes that are still open. */
static int read_all(rank_output *o, bool ending)
{
    int n_open = 0;
    for (int i = 0; i < o->ranks.n; i++)
        for (int s = 0; s < STREAMS; s++) {
            const output_stream *stream = &o->each[i].streams[s];
            if (stream->from < 0)
                continue;
            n_open++;
            if (is_ready(o, &o->each[i], ending))
                read_stream(o, &o->each[i], s);
        }
    return n_open;
}

/* Waits until there is something to read. *ended: all ranks have ended. */
static void wait_for_text(rank_output *o, int timeout_ms, bool *ended)
{
    nfds_t n = 0;
    for (int i = 0; i < o->ranks.n; i++)
        for (int s = 0; s < STREAMS; s++) {
            const int from = o->each[i].streams[s].from;
            const bool is_read = from >= 0 && is_ready(o, &o->each[i], *ended);
            if (is_read)
                o->fds[n++] = (struct pollfd){.fd = from, .events = POLLIN};
            if (from >= 0 && !o->each[i].is_named) /* looks for its number */
                timeout_ms = is_read ? 200 : 20;
        }
    if (!*ended)
        o->fds[n++] = (struct pollfd){.fd = o->wake[0], .events = POLLIN};
    if (poll(o->fds, n, timeout_ms) > 0 && !*ended)
        *ended = o->fds[n - 1].revents != 0;
}

static void *run(void *self)
{
    rank_output *o = self;
    bool ended = false;
    while (!ended) {
        wait_for_text(o, -1, &ended);
        read_all(o, ended);
    }
    /* A child of a rank may still hold a pipe. Everything that the ranks wrote is in the pipes by now. */
    double until_s = tess_os_now_s() + child_patience_s;
    bool more = true;
    while (more && tess_os_now_s() < until_s + longest_rest_s) {
        more = false;
        for (int i = 0; i < o->ranks.n; i++)
            for (int s = 0; s < STREAMS; s++)
                if (o->each[i].streams[s].from >= 0 && is_ready(o, &o->each[i], true))
                    more |= read_stream(o, &o->each[i], s);
    }
    while (tess_os_now_s() < until_s && read_all(o, true) > 0)
        wait_for_text(o, 20, &ended);
    for (int i = 0; i < o->ranks.n; i++)
        for (int s = 0; s < STREAMS; s++)
            if (o->each[i].streams[s].n > 0)
                show_line(o, &o->each[i], s);
    for (int i = 0; i < o->ranks.n; i++)
        if (!o->each[i].is_named && o->each[i].streams[0].n_held + o->each[i].streams[1].n_held > 0)
            name_rank(o, &o->each[i]); /* it has closed its streams before */
    return NULL;
}

/* ---- Begin and end ---- */
static void free_all(tess_mem *mem, rank_output *o)
{
    for (int i = 0; i < o->ranks.n && o->each != NULL; i++)
        for (int s = 0; s < STREAMS; s++) {
            output_stream *stream = &o->each[i].streams[s];
            tess_os_close(&stream->from);
            tess_os_close(&stream->to);
            output_file_close(&stream->file);
            tess_mem_free(mem, stream->held);
        }
    for (int s = 0; s < STREAMS; s++)
        terminal_lines_close(&o->shown[s]);
    tess_os_close(&o->wake[0]);
    tess_os_close(&o->wake[1]);
    tess_mem_free(mem, o->each);
    tess_mem_free(mem, o->fds);
    tess_mem_free(mem, o->buffer);
    tess_mem_free(mem, o);
}

static tess_status make_pipe(int ends[2])
{
    TESS_CHECK(pipe2(ends, O_CLOEXEC) == 0, TESS_E_INVALID,
               "no pipes for the output of the ranks: %s: raise the limit of open files (ulimit -n)", strerror(errno));
    fcntl(ends[0], F_SETFL, O_NONBLOCK); /* only this end: a write of a rank still blocks */
    return TESS_OK;
}

static tess_status make_pipes(tess_mem *mem, rank_output *o)
{
    TESS_TRY(make_pipe(o->wake));
    for (int i = 0; i < o->ranks.n; i++) {
        output_rank *rank = &o->each[i];
        const tess_output_choice choice = tess_output_choose(&o->plan, rank->local, rank->rank);
        for (int s = 0; s < STREAMS; s++) {
            int ends[2];
            if ((choice.kept >> s & 1) == 0)
                continue;
            TESS_TRY(make_pipe(ends));
            rank->streams[s].from = ends[0];
            rank->streams[s].to = ends[1];
            rank->streams[s].shown = (choice.shown >> s & 1) != 0;
            if (rank->streams[s].shown && o->shown[s] == NULL)
                TESS_TRY(terminal_lines_open(STDOUT_FILENO + s, o->plan.folder, &o->reporter, &o->shown[s]));
            if (!o->ranks.is_fixed)
                TESS_TRY(TESS_NEW(mem, HELD_BYTES, "the output of the ranks", &rank->streams[s].held));
        }
    }
    return TESS_OK;
}

/* Creates the folders of a plan that somebody asked for, and removes the errors that programs of an earlier command
 * have left there. */
static tess_status make_folders(const rank_output *o)
{
    char path[OUTPUT_PATH_BYTES];
    for (int i = 0; i < o->ranks.n && !o->plan.is_default; i++) {
        TESS_TRY(
            rank_output_path(o->plan.folder, o->ranks.attempt, o->each[i].rank, TESS_ERROR_FILE, path, sizeof(path)));
        *strrchr(path, '/') = '\0';
        TESS_CHECK(tess_os_make_dirs(path) == TESS_OK, TESS_E_INVALID,
                   "--log-dir (job.log_dir): the folder %s cannot be made: name another one", path);
        path[strlen(path)] = '/';
        tess_os_remove(path);
    }
    return TESS_OK;
}

static tess_status create(tess_mem *mem, const tess_output_plan *plan, const output_ranks *ranks,
                          const tess_reporter *reporter, rank_output **out)
{
    rank_output *o;
    TESS_TRY(TESS_NEW(mem, 1, "the output of the ranks", &o));
    *out = o;
    *o = (rank_output){.plan = *plan, .ranks = *ranks, .reporter = *reporter, .wake = {-1, -1}};
    TESS_TRY(TESS_NEW(mem, ranks->n, "the output of the ranks", &o->each));
    for (int i = 0; i < ranks->n; i++) {
        o->each[i].rank = ranks->first + i;
        o->each[i].local = ranks->first_local + i;
        for (int s = 0; s < STREAMS; s++)
            o->each[i].streams[s].from = o->each[i].streams[s].to = o->each[i].streams[s].file.fd = -1;
    }
    TESS_TRY(TESS_NEW(mem, STREAMS * ranks->n + 1, "the output of the ranks", &o->fds));
    TESS_TRY(TESS_NEW(mem, READ_BYTES, "the output of the ranks", &o->buffer));
    TESS_TRY(make_folders(o));
    if (realpath(o->plan.folder, o->whole) == NULL) /* a default plan has no folder before the first byte */
        snprintf(o->whole, sizeof(o->whole), "%s", o->plan.folder);
    for (int i = 0; i < ranks->n && ranks->is_fixed; i++)
        separate_files(o, ranks->first + i);
    TESS_TRY(make_pipes(mem, o));
    o->since_s = tess_os_now_s();
    TESS_CHECK(pthread_create(&o->thread, NULL, run, o) == 0, TESS_E_NOMEM, "no thread for the output of the ranks");
    o->runs = true;
    return TESS_OK;
}

/* Whether the plan keeps a stream of one of the ranks. */
static bool keeps_any(const tess_output_plan *plan, const output_ranks *ranks)
{
    bool any = false;
    for (int i = 0; i < ranks->n; i++)
        any |= tess_output_choose(plan, ranks->first_local + i, ranks->first + i).kept != OUTPUT_NONE;
    return any;
}

tess_status rank_output_open(tess_mem *mem, const tess_output_plan *plan, const output_ranks *ranks,
                             const tess_reporter *reporter, rank_output **out)
{
    *out = NULL;
    if (plan == NULL || !keeps_any(plan, ranks))
        return TESS_OK;
    tess_status status = create(mem, plan, ranks, reporter, out);
    if (status == TESS_OK)
        return TESS_OK;
    if (*out != NULL)
        free_all(mem, *out);
    *out = NULL;
    if (plan->is_default) {
        tess_error_clear();
        return TESS_OK;
    }
    return status;
}

/* Says where a program with torch's @record leaves its exception, so that the job's record can have it. */
static void name_error_file(const rank_output *o, int i)
{
    char path[OUTPUT_PATH_BYTES];
    if (!o->plan.is_default &&
        rank_output_path(o->whole, o->ranks.attempt, o->each[i].rank, TESS_ERROR_FILE, path, sizeof(path)) == TESS_OK)
        setenv(tess_variable_name(TESS_VAR_TORCH_ERROR_FILE), path, 1);
}

void rank_output_enter(const rank_output *o, int i)
{
    if (o != NULL)
        name_error_file(o, i);
    for (int s = 0; o != NULL && s < STREAMS; s++)
        if (o->each[i].streams[s].to >= 0)
            dup2(o->each[i].streams[s].to, STDOUT_FILENO + s);
}

void rank_output_close(tess_mem *mem, rank_output **out)
{
    rank_output *o = *out;
    if (o == NULL)
        return;
    for (int i = 0; i < o->ranks.n; i++)
        for (int s = 0; s < STREAMS; s++)
            tess_os_close(&o->each[i].streams[s].to);
    if (o->runs && write(o->wake[1], "", 1) == 1)
        pthread_join(o->thread, NULL);
    free_all(mem, o);
    *out = NULL;
}
