#include "rl/reward/grader_sandbox.h"

#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/variables.h"
#include "base/os/os.h"

static const char bwrap_path[] = "/usr/bin/bwrap", prlimit_path[] = "/usr/bin/prlimit", scratch[] = "/tmp";

/* The file system is read-only; there is no network; processes, users and IPC are the sandbox's own; it ends with us.
 * bwrap itself forbids new privileges. */
static const char *const isolation[] = {
    bwrap_path, "--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--proc", "/proc",
    "--dev",    "/dev"};
enum { N_ISOLATION = sizeof(isolation) / sizeof(isolation[0]), MOST_MASKS = 8 };

/* Folders that appear empty in the sandbox: sockets, other programs' files, and users' private files. */
static const char *const masked[] = {scratch, "/run", "/var/run", "/var/tmp", "/home", "/root"};

typedef struct masks {
    char path[MOST_MASKS][PATH_MAX];
    int n;
} masks;

tess_status grader_words_add(grader_words *words, const char *word)
{
    const size_t size = strlen(word) + 1;
    TESS_CHECK(words->n + 1 < words->most && size <= (size_t)(words->end - words->text), TESS_E_INVALID,
               "reward.command: the command is too long");
    words->word[words->n++] = memcpy(words->text, word, size);
    words->text += size;
    return TESS_OK;
}

static tess_status add_all(grader_words *words, const char *const *word, int n)
{
    for (int i = 0; i < n; i++)
        TESS_TRY(grader_words_add(words, word[i]));
    return TESS_OK;
}

tess_status grader_sandbox_check(const char *sandbox, uid_t user)
{
    TESS_CHECK(strcmp(sandbox, "bwrap") == 0, TESS_E_UNSUPPORTED,
               "reward.sandbox: '%s' is unknown: it is bwrap, or empty", sandbox);
    TESS_CHECK(access(bwrap_path, X_OK) == 0, TESS_E_UNSUPPORTED,
               "reward.sandbox: there is no %s: install the package bubblewrap", bwrap_path);
    TESS_CHECK(access(prlimit_path, X_OK) == 0, TESS_E_UNSUPPORTED,
               "reward.sandbox: there is no %s: install the package util-linux", prlimit_path);
    TESS_CHECK(user != 0, TESS_E_INVALID,
               "reward.sandbox: root's files belong to root inside, too: name another user (reward.user=nobody), or "
               "start the job as one");
    return TESS_OK;
}

/* ---- Masks ---- */
static bool is_in(const char *path, const char *folder)
{
    const size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

static bool is_masked(const masks *m, const char *path)
{
    for (int i = 0; i < m->n; i++)
        if (is_in(path, m->path[i]))
            return true;
    return false;
}

/* Users of the system may have /, /bin or /usr as their home. */
static void mask(masks *m, const char *folder)
{
    char *path = m->path[m->n];
    if (folder != NULL && realpath(folder, path) != NULL && strcmp(path, "/") != 0 && !is_in(prlimit_path, path) &&
        tess_os_is_dir(path) && !is_masked(m, path))
        m->n++;
}

static void find_masks(masks *m, uid_t user)
{
    const struct passwd *entry = getpwuid(user);
    m->n = 0;
    for (size_t i = 0; i < sizeof(masked) / sizeof(masked[0]); i++)
        mask(m, masked[i]);
    mask(m, tess_variable_value(TESS_VAR_HOME));
    mask(m, entry != NULL ? entry->pw_dir : NULL);
}

/* ---- Readable files ---- */

/* Shows a file or folder that a mask hides, under its own name. Links in the path before it are resolved; if it is a
 * link itself, its target is shown. */
static tess_status show(grader_words *words, const masks *m, const char *name)
{
    char folder[PATH_MAX], parent[PATH_MAX], path[2 * PATH_MAX];
    const char *slash = strrchr(name, '/'), *last = slash != NULL ? slash + 1 : name;
    snprintf(folder, sizeof(folder), "%.*s", slash == NULL ? 1 : (int)(slash - name) + 1, slash == NULL ? "." : name);
    const bool is_whole = last[0] == '\0' || strcmp(last, ".") == 0 || strcmp(last, "..") == 0;
    TESS_CHECK(realpath(is_whole ? name : folder, parent) != NULL, TESS_E_NOT_FOUND, "'%s' is not there", name);
    snprintf(path, sizeof(path), "%s%s%s", parent, is_whole ? "" : "/", is_whole ? "" : last);
    TESS_CHECK(access(path, F_OK) == 0, TESS_E_NOT_FOUND, "'%s' is not there", name);
    if (!is_masked(m, path))
        return TESS_OK;
    return add_all(words, (const char *const[]){"--ro-bind", path, path}, 3);
}

static tess_status show_all(grader_words *words, const masks *m, const tess_reward_options *o, const char *program,
                            const tess_text_list *argv)
{
    TESS_TRY(show(words, m, program));
    for (int i = 1; i < argv->n; i++)
        if (tess_os_is_file(argv->item[i]))
            TESS_TRY(show(words, m, argv->item[i]));
    for (int i = 0; o->readable != NULL && i < o->readable->n; i++)
        TESS_TRY_CTX(show(words, m, o->readable->item[i]), "reward.readable");
    return TESS_OK;
}

/* Creates the working folder if a mask hides it, because paths of the command may be relative to it. */
static tess_status add_working_folder(grader_words *words, const masks *m)
{
    char folder[PATH_MAX];
    if (getcwd(folder, sizeof(folder)) == NULL || !is_masked(m, folder))
        return TESS_OK;
    return add_all(words, (const char *const[]){"--dir", folder}, 2);
}

static tess_status add_all_words(grader_words *words, const masks *m, const tess_reward_options *o, const char *program,
                                 const tess_text_list *argv)
{
    char filter[16], processes[48];
    snprintf(filter, sizeof(filter), "%d", GRADER_FILTER_FD);
    snprintf(processes, sizeof(processes), "--nproc=%lld", (long long)o->max_processes);
    TESS_TRY(add_all(words, isolation, N_ISOLATION));
    for (int i = 0; i < m->n; i++)
        TESS_TRY(add_all(words, (const char *const[]){"--tmpfs", m->path[i]}, 2));
    TESS_TRY(add_working_folder(words, m));
    TESS_TRY(show_all(words, m, o, program, argv));
    for (int i = 0; i < m->n; i++)
        if (strcmp(m->path[i], scratch) != 0)
            TESS_TRY(add_all(words, (const char *const[]){"--remount-ro", m->path[i]}, 2));
    /* A limit on processes counts the processes of one user namespace. prlimit sets it inside the sandbox, so only
     * the sandbox's processes count. */
    return add_all(words, (const char *const[]){"--seccomp", filter, "--", prlimit_path, processes}, 5);
}

tess_status grader_sandbox_add(grader_words *words, const tess_reward_options *o, uid_t user, const char *program,
                               const tess_text_list *argv)
{
    masks *m = malloc(sizeof(*m));
    TESS_CHECK(m != NULL, TESS_E_NOMEM, "no memory for a sandbox");
    find_masks(m, user);
    tess_status status = add_all_words(words, m, o, program, argv);
    free(m);
    return status;
}
