/* Builds a grader's command: the program, its user and its environment. */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/redact.h"
#include "base/core/variables.h"
#include "base/os/os.h"
#include "rl/reward/grader_process.h"
#include "rl/reward/grader_sandbox.h"

/* The variables that every grader gets. reward.env names others. The whole environment is not passed on, because it
 * holds keys. */
static const tess_variable plain_variables[] = {TESS_VAR_PATH,     TESS_VAR_HOME, TESS_VAR_USER,
                                                TESS_VAR_LOGNAME,  TESS_VAR_LANG, TESS_VAR_LC_ALL,
                                                TESS_VAR_LC_CTYPE, TESS_VAR_TZ,   TESS_VAR_TMPDIR};
enum { N_PLAIN = sizeof(plain_variables) / sizeof(plain_variables[0]) };

/* Finds the file that execvp(3) would run. */
static tess_status find_program(const char *name, char *path, size_t size)
{
    const char *folders = tess_variable_value(TESS_VAR_PATH);
    if (strchr(name, '/') != NULL) {
        snprintf(path, size, "%s", name);
        TESS_CHECK(tess_os_is_file(path) && access(path, X_OK) == 0, TESS_E_NOT_FOUND,
                   "reward.command: '%s' is no program that can be run", name);
        return TESS_OK;
    }
    for (const char *at = folders != NULL ? folders : "/bin:/usr/bin"; *at != '\0';) {
        size_t n = strcspn(at, ":");
        int length = snprintf(path, size, "%.*s/%s", (int)n, n > 0 ? at : ".", name);
        if (length > 0 && (size_t)length < size && tess_os_is_file(path) && access(path, X_OK) == 0)
            return TESS_OK;
        at += n + (at[n] == ':');
    }
    return TESS_FAIL(TESS_E_NOT_FOUND, "reward.command: there is no program '%s' in PATH", name);
}

/* ---- The user ---- */
typedef struct grader_user {
    char name[64], home[TESS_TEXT_SIZE];
} grader_user;

static tess_status find_user(const char *name, grader_command *command, grader_user *user)
{
    char *end;
    const unsigned long id = strtoul(name, &end, 10);
    const struct passwd *entry = *end == '\0' ? getpwuid((uid_t)id) : getpwnam(name);
    TESS_CHECK(entry != NULL, TESS_E_NOT_FOUND, "reward.user: there is no user '%s'", name);
    command->user = entry->pw_uid;
    command->group = entry->pw_gid;
    command->changes_user = entry->pw_uid != getuid();
    TESS_CHECK(!command->changes_user || getuid() == 0, TESS_E_INVALID,
               "reward.user: only root can start graders as the user '%s'; this job runs as %d", name, (int)getuid());
    snprintf(user->name, sizeof(user->name), "%s", entry->pw_name);
    snprintf(user->home, sizeof(user->home), "%s", entry->pw_dir);
    return TESS_OK;
}

/* ---- Variables ---- */
static const char *value_of(const grader_command *command, const grader_user *user, tess_variable variable)
{
    const bool is_name = variable == TESS_VAR_USER || variable == TESS_VAR_LOGNAME;
    if (command->sandboxed && variable == TESS_VAR_HOME)
        return "/tmp"; /* a folder that can be written */
    if (command->sandboxed && variable == TESS_VAR_TMPDIR)
        return NULL;
    if (command->changes_user && (is_name || variable == TESS_VAR_HOME))
        return is_name ? user->name : user->home;
    return tess_variable_value(variable);
}

static tess_status check_names(const tess_text_list *names)
{
    for (int i = 0; names != NULL && i < names->n; i++) {
        TESS_CHECK(strchr(names->item[i], '=') == NULL, TESS_E_INVALID,
                   "reward.env: it has names of variables, not their values");
        TESS_CHECK(tess_variable_value_named(names->item[i]) != NULL, TESS_E_INVALID,
                   "reward.env: the variable %s is not set where this rank was started", names->item[i]);
    }
    return TESS_OK;
}

static tess_status make_environment(grader_command *command, const tess_text_list *named, const grader_user *user)
{
    const int n_named = named != NULL ? named->n : 0;
    const char *names[N_PLAIN + TESS_LIST_SIZE], *values[N_PLAIN + TESS_LIST_SIZE];
    size_t size = (N_PLAIN + (size_t)n_named + 2) * sizeof(char *);
    for (int i = 0; i < N_PLAIN + n_named; i++) {
        names[i] = i < N_PLAIN ? tess_variable_name(plain_variables[i]) : named->item[i - N_PLAIN];
        values[i] = i < N_PLAIN ? value_of(command, user, plain_variables[i]) : tess_variable_value_named(names[i]);
        size += values[i] != NULL ? strlen(names[i]) + strlen(values[i]) + 2 : 0;
    }
    TESS_TRY(tess_scope_alloc(command->scope, TESS_POOL_MISC, size, 1, "a grader's environment",
                              (void **)&command->environment));
    char *text = (char *)(command->environment + N_PLAIN + n_named + 2);
    for (int i = 0; i < N_PLAIN + n_named; i++) {
        if (values[i] == NULL)
            continue;
        command->n_plain += i < N_PLAIN;
        command->environment[command->n_variables++] = text;
        text += sprintf(text, "%s=%s", names[i], values[i]) + 1;
    }
    return TESS_OK;
}

void grader_command_redact(const grader_command *command, char *text)
{
    for (int i = command->n_plain; i < command->n_variables; i++)
        tess_redact(text, strchr(command->environment[i], '=') + 1);
}

tess_status grader_command_hide(const grader_command *command, tess_status status)
{
    char message[2048];
    snprintf(message, sizeof(message), "%s", tess_error_message());
    grader_command_redact(command, message);
    return TESS_FAIL(status, "%s", message);
}

/* ---- The whole ---- */
static tess_status make_words(grader_command *command, const tess_text_list *argv, const tess_reward_options *o)
{
    enum { MOST_WORDS = 4 * TESS_LIST_SIZE + 3 * TESS_LIST_SIZE + 64, TEXT_BYTES = MOST_WORDS * TESS_TEXT_SIZE };
    TESS_TRY(tess_scope_alloc(command->scope, TESS_POOL_MISC, MOST_WORDS * sizeof(char *) + TEXT_BYTES, 1,
                              "a grader's command", (void **)&command->argv));
    char *text = (char *)(command->argv + MOST_WORDS);
    grader_words words = {.word = command->argv, .most = MOST_WORDS, .text = text, .end = text + TEXT_BYTES};
    if (command->sandboxed) {
        TESS_TRY(grader_sandbox_add(&words, o, command->user, command->program, argv));
        TESS_TRY(grader_words_add(&words, command->program));
        snprintf(command->program, sizeof(command->program), "%s", words.word[0]);
    }
    for (int i = command->sandboxed ? 1 : 0; i < argv->n; i++)
        TESS_TRY(grader_words_add(&words, argv->item[i]));
    words.word[words.n] = NULL;
    return TESS_OK;
}

tess_status grader_command_create(tess_scope *scope, const tess_text_list *argv, const tess_reward_options *o,
                                  grader_command *command)
{
    const grader_limits limits = {.memory_bytes = (uint64_t)o->max_memory_bytes,
                                  .file_bytes = (uint64_t)o->max_file_bytes,
                                  .cpu_s = (uint64_t)o->max_cpu_s,
                                  .processes = (uint64_t)o->max_processes};
    grader_user user = {.name = ""};
    *command = (grader_command){.scope = scope, .limits = limits, .user = getuid(), .sandboxed = o->sandbox[0] != '\0'};
    TESS_TRY(find_program(argv->item[0], command->program, sizeof(command->program)));
    if (o->user[0] != '\0')
        TESS_TRY(find_user(o->user, command, &user));
    if (command->sandboxed)
        TESS_TRY(grader_sandbox_check(o->sandbox, command->user));
    TESS_TRY(check_names(o->env));
    TESS_TRY(make_environment(command, o->env, &user));
    return make_words(command, argv, o);
}
