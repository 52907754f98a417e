/* Builds the command line with which an MPI starts a job on several hosts: the hosts, the mpirun, and its arguments. */
#ifndef TESS_CONTROL_LAUNCH_MPIRUN_LAUNCH_LINE_H
#define TESS_CONTROL_LAUNCH_MPIRUN_LAUNCH_LINE_H

#include "base/text/text.h"

enum { LAUNCH_MOST_HOSTS = 256, LAUNCH_MOST_SLOTS = 1 << 20, LAUNCH_NAME_BYTES = 128, LAUNCH_MOST_WORDS = 512 };

typedef struct tess_launch_host {
    char name[LAUNCH_NAME_BYTES];
    int slots; /* number of ranks */
} tess_launch_host;

typedef struct tess_launch_hosts {
    tess_launch_host hosts[LAUNCH_MOST_HOSTS];
    int n;
} tess_launch_hosts;

typedef enum tess_mpi { TESS_MPI_ANY, TESS_MPI_OPEN_MPI, TESS_MPI_MPICH } tess_mpi;

typedef struct tess_launch_request {
    const tess_launch_hosts *hosts;
    tess_mpi mpi;             /* must not be ANY */
    const char *mpirun;       /* path of mpirun */
    const char *agent;        /* program that is used instead of ssh; NULL: ssh */
    bool root;                /* allow Open MPI to run as root, which it refuses otherwise */
    char *const *environment; /* environment from which the ranks' variables are taken */
    const char *program;      /* path of `tessera`, the same on all hosts */
    char *const *arguments;   /* arguments of that program, ending with NULL */
} tess_launch_request;

typedef struct tess_launch_line {
    char *words[LAUNCH_MOST_WORDS]; /* ends with NULL; the words point into `text` */
    int n;
    size_t used;
    char text[64 << 10];
} tess_launch_line;

/* Parses "h1:4,h2:4" and appends to `hosts`. A host without a number has one slot. TESS_E_INVALID names the entry:
 * it has no name, a bad number, or a host that is listed twice. */
tess_status tess_launch_hosts_parse(const char *text, tess_launch_hosts *hosts);
/* Reads a file with one host per line: "h1:4", "h1 slots=4" or "h1"; '#' begins a comment. Errors name file and
 * line. */
tess_status tess_launch_hosts_read(tess_mem *mem, const char *path, tess_launch_hosts *hosts);

/* Searches `search_path` (PATH) for the mpirun of *mpi. ANY tries plain `mpirun` first; *mpi is then set to the MPI
 * found. TESS_E_NOT_FOUND says what to install. */
tess_status tess_launch_find_mpi(const char *search_path, tess_mpi *mpi, char *mpirun, size_t size);

/* Builds the line. TESS_E_INVALID: there are more words than fit. */
tess_status tess_launch_line_make(const tess_launch_request *request, tess_launch_line *line);
/* Appends `n` words to `out` in the form that a shell reads: separated by spaces, and quoted where necessary. */
tess_status tess_launch_words_quote(char *const *words, int n, tess_buffer *out);

#endif
