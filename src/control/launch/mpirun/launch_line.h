/* The command line that makes an MPI start a job on several hosts: the hosts, the mpirun, its arguments. */
#ifndef TESS_CONTROL_LAUNCH_MPIRUN_LAUNCH_LINE_H
#define TESS_CONTROL_LAUNCH_MPIRUN_LAUNCH_LINE_H

#include "base/text/text.h"

enum { LAUNCH_MOST_HOSTS = 256, LAUNCH_MOST_SLOTS = 1 << 20, LAUNCH_NAME_BYTES = 128, LAUNCH_MOST_WORDS = 512 };

typedef struct tess_launch_host {
    char name[LAUNCH_NAME_BYTES];
    int slots; /* ranks */
} tess_launch_host;

typedef struct tess_launch_hosts {
    tess_launch_host hosts[LAUNCH_MOST_HOSTS];
    int n;
} tess_launch_hosts;

typedef enum tess_mpi { TESS_MPI_ANY, TESS_MPI_OPEN_MPI, TESS_MPI_MPICH } tess_mpi;

typedef struct tess_launch_request {
    const tess_launch_hosts *hosts;
    tess_mpi mpi;             /* not ANY */
    const char *mpirun;       /* path */
    const char *agent;        /* instead of ssh; NULL: ssh */
    bool root;                /* Open MPI refuses to run as root unless allowed to */
    char *const *environment; /* source of the ranks' variables: environ */
    const char *program;      /* path of `tessera`, the same on all hosts */
    char *const *arguments;   /* its arguments, up to NULL */
} tess_launch_request;

typedef struct tess_launch_line {
    char *words[LAUNCH_MOST_WORDS]; /* NULL after the last; they point into `text` */
    int n;
    size_t used;
    char text[64 << 10];
} tess_launch_line;

/* Parses "h1:4,h2:4" and appends to `hosts`. A host without a number has one slot. TESS_E_INVALID names the entry: no
 * name, a bad number, a host listed twice. */
tess_status tess_launch_hosts_parse(const char *text, tess_launch_hosts *hosts);
/* Reads a file of one host per line, "h1:4", "h1 slots=4" or "h1"; '#' begins a comment. Errors name file and line. */
tess_status tess_launch_hosts_read(tess_mem *mem, const char *path, tess_launch_hosts *hosts);

/* Searches `search_path` (PATH) for the mpirun of *mpi. ANY tries plain `mpirun` first; *mpi is then the one found.
 * TESS_E_NOT_FOUND says what to install. */
tess_status tess_launch_find_mpi(const char *search_path, tess_mpi *mpi, char *mpirun, size_t size);

/* TESS_E_INVALID: more words than fit. */
tess_status tess_launch_line_make(const tess_launch_request *request, tess_launch_line *line);
/* Appends `n` words to `out`, as a shell reads them: with spaces between, and quoted where they must be. */
tess_status tess_launch_words_quote(char *const *words, int n, tess_buffer *out);

#endif
