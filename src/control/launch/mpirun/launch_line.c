#include "control/launch/mpirun/launch_line.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const packages[] = {
    [TESS_MPI_ANY] = "openmpi-bin or mpich", [TESS_MPI_OPEN_MPI] = "openmpi-bin", [TESS_MPI_MPICH] = "mpich"};

/* ---- The choice of mpirun ---- */
static bool find_program(const char *search_path, const char *name, char *path, size_t size)
{
    for (const char *at = search_path; at != NULL && *at != '\0';) {
        int n = (int)strcspn(at, ":");
        if (snprintf(path, size, "%.*s/%s", n, at, name) < (int)size && access(path, X_OK) == 0)
            return true;
        at += n + (at[n] == ':');
    }
    return false;
}

/* Returns which MPI an mpirun belongs to. Plain `mpirun` is a link to the real name of a launcher: orterun, prterun,
 * mpiexec.hydra. */
static tess_mpi whose(const char *mpirun)
{
    char *real = realpath(mpirun, NULL);
    const char *slash = real != NULL ? strrchr(real, '/') : NULL;
    const char *name = slash != NULL ? slash + 1 : "";
    tess_mpi mpi = TESS_MPI_ANY;
    if (strstr(name, "orterun") != NULL || strstr(name, "prterun") != NULL || strstr(name, "openmpi") != NULL)
        mpi = TESS_MPI_OPEN_MPI;
    else if (strstr(name, "hydra") != NULL || strstr(name, "mpich") != NULL)
        mpi = TESS_MPI_MPICH;
    free(real);
    return mpi;
}

tess_status tess_launch_find_mpi(const char *search_path, tess_mpi *mpi, char *mpirun, size_t size)
{
    static const struct {
        const char *name;
        tess_mpi mpi;
    } own_names[] = {{"mpirun.openmpi", TESS_MPI_OPEN_MPI}, {"mpirun.mpich", TESS_MPI_MPICH}};
    bool plain = find_program(search_path, "mpirun", mpirun, size);
    tess_mpi found = plain ? whose(mpirun) : TESS_MPI_ANY;
    if (found != TESS_MPI_ANY && (*mpi == TESS_MPI_ANY || *mpi == found)) {
        *mpi = found;
        return TESS_OK;
    }
    for (int i = 0; i < 2; i++)
        if ((*mpi == TESS_MPI_ANY || *mpi == own_names[i].mpi) &&
            find_program(search_path, own_names[i].name, mpirun, size)) {
            *mpi = own_names[i].mpi;
            return TESS_OK;
        }
    TESS_CHECK(!plain || found != TESS_MPI_ANY, TESS_E_NOT_FOUND,
               "the mpirun in PATH is neither Open MPI's nor MPICH's: install the Debian package %s", packages[*mpi]);
    return TESS_FAIL(TESS_E_NOT_FOUND, "no mpirun%s in PATH: install the Debian package %s",
                     *mpi == TESS_MPI_ANY ? "" : " of this MPI", packages[*mpi]);
}

/* ---- Its arguments ---- */
__attribute__((format(printf, 2, 3))) static tess_status add(tess_launch_line *line, const char *format, ...)
{
    size_t room = sizeof(line->text) - line->used;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line->text + line->used, room, format, args);
    va_end(args);
    TESS_CHECK(n >= 0 && (size_t)n < room && line->n + 1 < LAUNCH_MOST_WORDS, TESS_E_INVALID,
               "the command line is too long: more than %d words or %zu bytes", LAUNCH_MOST_WORDS, sizeof(line->text));
    line->words[line->n++] = line->text + line->used;
    line->words[line->n] = NULL;
    line->used += (size_t)n + 1;
    return TESS_OK;
}

/* Adds words until NULL. */
static tess_status add_all(tess_launch_line *line, const char *const *words)
{
    for (; *words != NULL; words++)
        TESS_TRY(add(line, "%s", *words));
    return TESS_OK;
}

/* Adds the number of ranks after the option `count`, and the hosts "h1:4,h2:4" as one word after `list`. */
static tess_status add_hosts(tess_launch_line *line, const tess_launch_hosts *hosts, const char *count,
                             const char *list)
{
    char text[LAUNCH_MOST_HOSTS * (LAUNCH_NAME_BYTES + 5)];
    size_t at = 0;
    int n_ranks = 0;
    for (int i = 0; i < hosts->n; i++) {
        n_ranks += hosts->hosts[i].slots;
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s:%d", i > 0 ? "," : "", hosts->hosts[i].name,
                               hosts->hosts[i].slots);
    }
    TESS_TRY(add(line, "%s", count));
    TESS_TRY(add(line, "%d", n_ranks));
    TESS_TRY(add(line, "%s", list));
    return add(line, "%s", text);
}

/* Whether ranks need a variable, given as NAME=VALUE: variables of Tessera and of the libraries that MPI uses,
 * except those that identify one process, and the library path. */
static bool is_for_ranks(const char *variable)
{
    static const char *const prefixes[] = {"TESSERA_", "UCX_", "FI_", "LD_LIBRARY_PATH="};
    static const char *const ours_alone[] = {
        "TESSERA_RANK=", "TESSERA_WORLD=",        "TESSERA_SHM_FD=", "TESSERA_GUARD_FD=",
        "TESSERA_HOST=", "TESSERA_LAUNCH_AGENT=", "TESSERA_SECRET="};
    for (size_t i = 0; i < sizeof(ours_alone) / sizeof(ours_alone[0]); i++)
        if (strncmp(variable, ours_alone[i], strlen(ours_alone[i])) == 0)
            return false;
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
        if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

/* Adds the arguments of Open MPI. Ranks of a host are consecutive; Tessera binds them to cores itself. If a host
 * vanishes, mpirun stays for 40 s: ranks end long before that, and the default is eight minutes. */
static tess_status add_open_mpi(tess_launch_line *line, const tess_launch_request *request)
{
    static const char *const first[] = {"-q",
                                        "--map-by",
                                        "slot",
                                        "--bind-to",
                                        "none",
                                        "--mca",
                                        "oob_tcp_keepalive_time",
                                        "20",
                                        "--mca",
                                        "oob_tcp_keepalive_intvl",
                                        "5",
                                        "--mca",
                                        "oob_tcp_keepalive_probes",
                                        "4",
                                        NULL};
    TESS_TRY(add_all(line, first));
    if (request->root)
        TESS_TRY(add(line, "--allow-run-as-root"));
    if (request->agent != NULL)
        TESS_TRY(add_all(line, (const char *const[]){"--mca", "plm_rsh_agent", request->agent, NULL}));
    for (char *const *variable = request->environment; *variable != NULL; variable++)
        if (is_for_ranks(*variable)) {
            TESS_TRY(add(line, "-x"));
            TESS_TRY(add(line, "%.*s", (int)strcspn(*variable, "="), *variable));
        }
    return add_hosts(line, request->hosts, "-np", "--host");
}

/* Adds the arguments of MPICH, with one -genv per variable: hydra of MPICH 4.0 passes only the first variable of a
 * -genvlist to other hosts. */
static tess_status add_mpich(tess_launch_line *line, const tess_launch_request *request)
{
    TESS_TRY(add_all(line, (const char *const[]){"-bind-to", "none", NULL}));
    if (request->agent != NULL)
        TESS_TRY(add_all(line, (const char *const[]){"-launcher", "ssh", "-launcher-exec", request->agent, NULL}));
    TESS_TRY(add(line, "-genvnone"));
    for (char *const *variable = request->environment; *variable != NULL; variable++)
        if (is_for_ranks(*variable)) {
            int n = (int)strcspn(*variable, "=");
            TESS_TRY(add(line, "-genv"));
            TESS_TRY(add(line, "%.*s", n, *variable));
            TESS_TRY(add(line, "%s", *variable + n + 1));
        }
    return add_hosts(line, request->hosts, "-n", "-hosts");
}

tess_status tess_launch_line_make(const tess_launch_request *request, tess_launch_line *line)
{
    line->n = 0;
    line->used = 0;
    TESS_TRY(add(line, "%s", request->mpirun));
    TESS_TRY(request->mpi == TESS_MPI_MPICH ? add_mpich(line, request) : add_open_mpi(line, request));
    TESS_TRY(add(line, "%s", request->program));
    return add_all(line, (const char *const *)request->arguments);
}

static bool is_plain(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
    return *word != '\0' && word[strspn(word, plain)] == '\0';
}

static tess_status quote(const char *word, tess_buffer *out)
{
    TESS_TRY(tess_buffer_append(out, "'", 1));
    for (; *word != '\0'; word++)
        TESS_TRY(*word == '\'' ? tess_buffer_append(out, "'\\''", 4) : tess_buffer_append(out, word, 1));
    return tess_buffer_append(out, "'", 1);
}

tess_status tess_launch_words_quote(char *const *words, int n, tess_buffer *out)
{
    for (int i = 0; i < n; i++) {
        if (i > 0)
            TESS_TRY(tess_buffer_append(out, " ", 1));
        TESS_TRY(is_plain(words[i]) ? tess_buffer_append(out, words[i], strlen(words[i])) : quote(words[i], out));
    }
    return TESS_OK;
}
