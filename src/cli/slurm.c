/* `tessera slurm`: writes the script with which sbatch runs a training: all its starts, whether the time limit, a lost
 * node or a job of higher priority ended the one before, give the weights of an undisturbed run. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/redact.h"
#include "base/os/os.h"
#include "cli/cli.h"
#include "control/launch/mpirun/launch_line.h"
#include "control/supervise/preflight_config.h"

/* Slurm may send the signal a minute early, and looks for time limits every half minute. */
enum { SIGNAL_SLACK_S = 60, RANK_SPARE_MIB = 256, LONGEST_TIME = 16 };

typedef struct slurm_flags {
    const char *nodes, *time, *partition, *array, *mpi, *env_file;
    const char *more[CLI_REPEATS + 1];
    int64_t ranks, cpus;
    /* derived from these flags and the configuration */
    int most_nodes;
    int64_t lead_s, tries;
    double memory; /* bytes of a node's ranks; 0: not known */
    bool chooses;  /* the ranks choose training.local_batch_size=auto by their memory */
} slurm_flags;

/* ---- Checks ---- */

static tess_status check_word(const char *flag, const char *text, const char *allowed)
{
    TESS_CHECK(text == NULL || (text[0] != '\0' && text[strspn(text, allowed)] == '\0'), TESS_E_INVALID,
               "%s: '%s' is not of the form that Slurm reads", flag, text);
    return TESS_OK;
}

#define DIGITS "0123456789"
#define NAME_CHARACTERS DIGITS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.,-"

/* Reads "N", or "MIN-MAX". */
static tess_status read_nodes(const char *text, int *most)
{
    char *end;
    long first = strtol(text, &end, 10), last = *end == '-' ? strtol(end + 1, &end, 10) : first;
    TESS_CHECK(*end == '\0' && first >= 1 && last >= first && last <= 128 && text[strspn(text, DIGITS "-")] == '\0',
               TESS_E_INVALID, "--nodes: '%s': give a number of nodes, 4, or the least and the most, 2-4 (at most 128)",
               text);
    *most = (int)last;
    return TESS_OK;
}

/* Returns the seconds of Slurm's time limit: minutes, MIN:SEC, H:MIN:SEC, D-H, D-H:MIN or D-H:MIN:SEC. Returns -1 if
 * it has another form. */
static int64_t time_limit(const char *text)
{
    static const int units[][3] = {{60}, {60, 1}, {3600, 60, 1}}, after_days[] = {3600, 60, 1};
    const char *dash = strchr(text, '-'), *at = dash != NULL ? dash + 1 : text;
    char *end = NULL;
    long part[3];
    int last = -1;
    do {
        part[++last] = strtol(at, &end, 10);
        if (end == at)
            return -1;
        at = end + 1;
    } while (*end == ':' && last < 2);
    if (*end != '\0' || text[strspn(text, DIGITS ":-")] != '\0' || strlen(text) > LONGEST_TIME)
        return -1;
    int64_t seconds = dash != NULL ? strtol(text, NULL, 10) * 86400 : 0;
    for (int i = 0; i <= last; i++)
        seconds += part[i] * (dash != NULL ? after_days : units[last])[i];
    return seconds;
}

static tess_status refuse_secret(const char *word)
{
    char copy[4096];
    TESS_CHECK(strlen(word) < sizeof(copy), TESS_E_INVALID, "'%.40s...' has more than %zu characters", word,
               sizeof(copy) - 1);
    strcpy(copy, word);
    tess_redact_urls(copy);
    TESS_CHECK(strcmp(copy, word) == 0, TESS_E_INVALID,
               "%s: everyone on the nodes could read the secret in this URL: write it into the configuration file",
               copy);
    return TESS_OK;
}

/* Slurm shows command lines and --export to everyone. */
static tess_status refuse_secrets(const slurm_flags *flags, char *const *words, int n)
{
    TESS_TRY(flags->array != NULL ? refuse_secret(flags->array) : TESS_OK);
    for (int i = 0; i < n; i++)
        TESS_TRY(refuse_secret(words[i]));
    for (const char *const *more = flags->more; *more != NULL; more++) {
        TESS_CHECK(strstr(*more, "hetjob") == NULL, TESS_E_INVALID,
                   "--sbatch: '%s': all nodes of this script are alike; docs/howto/slurm.md shows a heterogeneous job",
                   *more);
        TESS_CHECK(strncmp(*more, "--", 2) == 0 && strchr(*more, '\n') == NULL, TESS_E_INVALID,
                   "--sbatch: '%s': give an option of sbatch that begins with --", *more);
        TESS_CHECK(strncmp(*more, "--export", 8) != 0 || strchr(*more + 8 + ((*more)[8] == '='), '=') == NULL,
                   TESS_E_INVALID,
                   "--sbatch: --export shows its values to everyone (scontrol show job): use --env-file");
    }
    return TESS_OK;
}

static tess_status check_time(slurm_flags *flags, const tess_config *config)
{
    flags->lead_s = (int64_t)config->checkpoint.emergency_grace_s + SIGNAL_SLACK_S;
    if (flags->time == NULL)
        return TESS_OK;
    const int64_t limit = time_limit(flags->time);
    TESS_CHECK(limit > 0, TESS_E_INVALID, "--time: '%s': give minutes, H:MIN:SEC or DAYS-H", flags->time);
    TESS_CHECK(limit > flags->lead_s, TESS_E_INVALID,
               "--time: %s is not longer than the %lld s that the last save gets (checkpoint.emergency_grace_s=%g, and "
               "%d s for Slurm's own delays): a longer time, or less grace",
               flags->time, (long long)flags->lead_s, config->checkpoint.emergency_grace_s, SIGNAL_SLACK_S);
    return TESS_OK;
}

/* Reads the configuration and checks it for the ranks of all nodes; derives the memory of a node. */
static tess_status check(slurm_flags *flags, tess_preflight_config *read)
{
    TESS_AUTO(tess_config_free) tess_config checked = {0};
    const char *fixed = strchr(flags->nodes, '-') == NULL ? "" : flags->nodes;
    TESS_TRY(read_nodes(flags->nodes, &flags->most_nodes));
    TESS_TRY(check_word("--partition", flags->partition, NAME_CHARACTERS));
    TESS_TRY(check_word("--mpi", flags->mpi, NAME_CHARACTERS));
    TESS_TRY(refuse_secrets(flags, read->overrides, read->n_overrides));
    tess_preflight_read(read);
    TESS_CHECK(read->loaded == TESS_OK, read->loaded, "%s", read->error);
    const int world = flags->most_nodes * (int)flags->ranks;
    TESS_TRY(tess_config_copy(&read->config, &checked));
    TESS_CHECK(fixed[0] == '\0' || checked.training.global_batch_size > 0, TESS_E_INVALID,
               "--nodes: %s, but training.global_batch_size is 0: the batch would depend on how many nodes Slurm "
               "has; set it",
               fixed);
    tess_config_assume_batch(&checked);
    TESS_TRY(tess_config_check(&checked, world));
    tess_probe_plan plan = {.n_ranks = (int)flags->ranks};
    tess_preflight_plan(read, world, &plan);
    flags->chooses = plan.chooses;
    flags->memory = !plan.chooses                     ? plan.state_bytes
                    : tess_config_is_on_gpu(&checked) ? 0
                                                      : (double)checked.training.memory_budget * (double)flags->ranks;
    const bool again = checked.recovery.enable;
    flags->tries = !again ? 1 : checked.recovery.max_failures > 0 ? checked.recovery.max_failures : 64;
    return check_time(flags, &checked);
}

/* ---- Script ---- */

static tess_status put_options(const slurm_flags *flags, const char *name, tess_buffer *out)
{
    char folder[PATH_MAX];
    TESS_CHECK(getcwd(folder, sizeof(folder)) != NULL && strpbrk(folder, "\"\\\n") == NULL, TESS_E_INVALID,
               "the working folder has no name that sbatch reads");
    TESS_TRY(tess_buffer_printf(out,
                                "#SBATCH --job-name=%s\n#SBATCH --chdir=\"%s\"\n"
                                "#SBATCH --nodes=%s\n#SBATCH --ntasks-per-node=%d\n#SBATCH --cpus-per-task=%d\n",
                                name, folder, flags->nodes, (int)flags->ranks, (int)flags->cpus));
    if (flags->memory > 0)
        TESS_TRY(
            tess_buffer_printf(out,
                               "# %s %.0f MiB a node. A quarter more, and %d MiB a rank, are for "
                               "MPI and buffers.\n#SBATCH --mem=%.0fM\n",
                               flags->chooses ? "By training.memory_budget, the ranks take up to" : "The plan needs",
                               flags->memory / (1 << 20), RANK_SPARE_MIB,
                               flags->memory / (1 << 20) * 1.25 + (double)flags->ranks * RANK_SPARE_MIB));
    else if (flags->chooses)
        TESS_TRY(tess_buffer_printf(out, "# No --mem: the ranks choose training.local_batch_size=auto by the memory "
                                         "that Slurm gives them. --sbatch=--mem=0 asks for all of a node.\n"));
    if (flags->time != NULL)
        TESS_TRY(tess_buffer_printf(out, "#SBATCH --time=%s\n", flags->time));
    if (flags->partition != NULL)
        TESS_TRY(tess_buffer_printf(out, "#SBATCH --partition=%s\n", flags->partition));
    TESS_TRY(tess_buffer_printf(out,
                                "# USR1 comes before the time limit: the ranks save, and end with code 130.\n"
                                "#SBATCH --signal=USR1@%lld\n"
                                "# Slurm starts the job again after a lost node and a preemption. Its starts share "
                                "one log.\n"
                                "#SBATCH --requeue\n#SBATCH --open-mode=append\n#SBATCH --output=slurm-%%x-%s.log\n",
                                (long long)flags->lead_s, flags->array != NULL ? "%A-%a" : "%j"));
    for (const char *const *more = flags->more; *more != NULL; more++)
        TESS_TRY(tess_buffer_printf(out, "#SBATCH %s\n", *more));
    return TESS_OK;
}

/* Appends one word as a shell reads it. */
static tess_status put_word(const char *word, tess_buffer *out)
{
    return tess_launch_words_quote((char *const[]){(char *)word}, 1, out);
}

/* Checks a value of the array where the configuration is checked, not when its job starts. */
static tess_status check_value(const tess_preflight_config *read, const char *key, const char *value, tess_mem *mem)
{
    char last[4096];
    char *words[TESS_OWN_COMMAND_WORDS];
    TESS_AUTO(tess_config_free) tess_config config = {0};
    TESS_CHECK(read->n_overrides < TESS_OWN_COMMAND_WORDS, TESS_E_INVALID, "too many words");
    for (int i = 0; i < read->n_overrides; i++)
        words[i] = read->overrides[i];
    snprintf(last, sizeof(last), "%s=%s", key, value);
    words[read->n_overrides] = last;
    return tess_config_load(mem, read->path, words, read->n_overrides + 1, &config);
}

/* KEY=V1,V2,V3, and %N for N jobs at a time: one job of the array for each value. `options` and `body` get its
 * lines. */
static tess_status put_array(const char *array, const tess_preflight_config *read, tess_buffer *options,
                             tess_buffer *body)
{
    char list[4096];
    TESS_CHECK((size_t)snprintf(list, sizeof(list), "%s", array) < sizeof(list), TESS_E_INVALID, "--array: too long");
    char *values = strchr(list, '='), *at_once = strrchr(list, '%'), *rest;
    if (at_once != NULL)
        *at_once++ = '\0';
    TESS_CHECK(values != NULL && memchr(list, '.', (size_t)(values - list)) != NULL && values[1] != '\0' &&
                   (at_once == NULL || (at_once[0] != '\0' && at_once[strspn(at_once, DIGITS)] == '\0')),
               TESS_E_INVALID,
               "--array: '%s': give a key and its values, optimizer.lr=1e-3,3e-3, and %%1 for one at a time", array);
    int n = 0;
    *values = '\0';
    TESS_TRY(tess_buffer_printf(body, "# Each job of the array has one value, and a folder of its own.\nvalues=("));
    for (char *value = strtok_r(values + 1, ",", &rest); value != NULL; value = strtok_r(NULL, ",", &rest), n++) {
        TESS_TRY(check_value(read, list, value, body->mem));
        TESS_TRY(tess_buffer_append(body, " ", n > 0));
        TESS_TRY(put_word(value, body));
    }
    TESS_TRY(tess_buffer_printf(body, ")\nvalue=${values[SLURM_ARRAY_TASK_ID]}\n"
                                      "folder=$folder/$SLURM_ARRAY_TASK_ID\n"));
    return tess_buffer_printf(options, "#SBATCH --array=0-%d%s%s\n", n - 1, at_once != NULL ? "%" : "",
                              at_once != NULL ? at_once : "");
}

static tess_status put_env_file(const char *path, tess_buffer *out)
{
    TESS_TRY(tess_buffer_printf(out,
                                "# Secrets are in a file that its owner alone can read, never on a command line.\n"
                                "file=%s",
                                strchr(path, '/') != NULL ? "" : "./")); /* bash looks for a bare name in PATH */
    TESS_TRY(put_word(path, out));
    return tess_buffer_printf(out, "\n[ -z \"$(find \"$file\" -perm /077)\" ] || { echo \"$file: others can read it: "
                                   "chmod 600\"; exit 2; }\n"
                                   "set -a\n# shellcheck source=/dev/null\n. \"$file\" || exit 2\nset +a\n");
}

static tess_status put_tries(const slurm_flags *flags, const tess_preflight_config *read, tess_buffer *out)
{
    TESS_TRY(
        tess_buffer_printf(out,
                           "\n# A try that fails is repeated on the same nodes, from the newest checkpoint.\n"
                           "for ((try = 1; try <= %lld; try++)); do\n"
                           "    echo \"job $SLURM_JOB_ID on $SLURM_JOB_NODELIST: restart ${SLURM_RESTART_COUNT:-0}, "
                           "try $try, $(date -u +%%FT%%TZ)\"\n"
                           "    code=0\n"
                           "    srun --mpi=%s --cpus-per-task=%d --kill-on-bad-exit=0 \"$program\" train",
                           (long long)flags->tries, flags->mpi != NULL ? flags->mpi : "pmix", (int)flags->cpus));
    if (read->path != NULL) {
        TESS_TRY(tess_buffer_append(out, " ", 1));
        TESS_TRY(put_word(read->path, out));
    }
    for (int i = 0; i < read->n_overrides; i++) {
        TESS_TRY(tess_buffer_append(out, " ", 1));
        TESS_TRY(put_word(read->overrides[i], out));
    }
    if (flags->array != NULL)
        TESS_TRY(tess_buffer_printf(out, " \"%.*s=$value\" job.dump_folder=\"$folder\"",
                                    (int)strcspn(flags->array, "="), flags->array));
    return tess_buffer_printf(out, " || code=$?\n"
                                   "    case $code in\n"
                                   "    0 | 2) exit \"$code\" ;; # done, or refused: another try would not help\n"
                                   "    130) # asked to stop, and saved: the job goes on later\n"
                                   "        scontrol requeue \"$SLURM_JOB_ID\"\n"
                                   "        exit 130\n"
                                   "        ;;\n"
                                   "    esac\n"
                                   "    \"$program\" trace \"$folder\" # what happened, rank by rank\n"
                                   "done\n"
                                   "exit \"$code\"\n");
}

static const char *base_name(const char *path, char *name, size_t size)
{
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    snprintf(name, size, "%s", path == NULL ? "tessera" : slash != NULL ? slash + 1 : path);
    char *dot = strrchr(name, '.');
    if (dot != NULL && dot != name)
        *dot = '\0';
    for (char *c = name; *c != '\0'; c++)
        if (strchr(NAME_CHARACTERS, *c) == NULL)
            *c = '_';
    return name;
}

static tess_status put_script(const slurm_flags *flags, const tess_preflight_config *read, tess_buffer *out,
                              tess_buffer *body)
{
    char program[PATH_MAX], name[64];
    TESS_TRY(tess_os_own_path(program, sizeof(program)));
    TESS_TRY(tess_buffer_printf(out, "#!/bin/bash\n# Trains under Slurm. `tessera slurm` wrote this; `sbatch FILE` "
                                     "submits it (docs/howto/slurm.md).\n"));
    TESS_TRY(put_options(flags, base_name(read->path, name, sizeof(name)), out));
    TESS_TRY(tess_buffer_printf(body, "\nset -u\nprogram="));
    TESS_TRY(put_word(program, body));
    TESS_TRY(tess_buffer_printf(body, "\nfolder="));
    TESS_TRY(put_word(read->config.job.dump_folder, body));
    TESS_TRY(tess_buffer_append(body, "\n", 1));
    if (flags->array != NULL)
        TESS_TRY(put_array(flags->array, read, out, body));
    if (flags->env_file != NULL)
        TESS_TRY(put_env_file(flags->env_file, body));
    TESS_TRY(put_tries(flags, read, body));
    return tess_buffer_append(out, body->data, body->size);
}

static int run(tess_mem *mem, int argc, char **argv)
{
    slurm_flags chosen = {.ranks = 1, .cpus = 1};
    const cli_flag flags[] = {
        {"--nodes", "N", "nodes, or the least and the most: 2-4", .text = &chosen.nodes},
        {"--ranks-per-node", "R", "ranks on each node (1)", .integer = &chosen.ranks, .min = 1, .max = 4096},
        {"--cpus-per-rank", "C", "cores of a rank (1)", .integer = &chosen.cpus, .min = 1, .max = 4096},
        {"--time", "T", "time limit of one start: minutes, 12:00:00, 2-00", .text = &chosen.time},
        {"--partition", "P", "partition", .text = &chosen.partition},
        {"--array", "KEY=V,V", "one job for each value of a key; %1 at the end: one at a time", .text = &chosen.array},
        {"--mpi", "NAME", "what `srun --mpi=list` has: pmix (Open MPI), pmi2 (MPICH)", .text = &chosen.mpi},
        {"--env-file", "FILE", "variables that are secret: NAME=VALUE lines, mode 600", .text = &chosen.env_file},
        {"--sbatch", "OPTION ...", "one more option of sbatch: --sbatch=--gres=gpu:8", .text = chosen.more}};
    int n = cli_parse(argc, argv, &cli_slurm, flags, sizeof(flags) / sizeof(flags[0]));
    char *const *words = argv + 1;
    tess_preflight_config read = {.path = tess_config_take_path(&words, &n)};
    read.overrides = words;
    read.n_overrides = n;
    if (chosen.nodes == NULL)
        return cli_misuse(&cli_slurm, "say how many nodes: --nodes N");
    tess_buffer script = {.mem = mem};
    TESS_AUTO(tess_buffer_free) tess_buffer body = {.mem = mem};
    tess_status status = check(&chosen, &read);
    if (status == TESS_OK)
        status = put_script(&chosen, &read, &script, &body);
    tess_config_free(&read.config);
    return cli_end(cli_print_text(status, &script));
}

const cli_command cli_slurm = {"slurm", "[CONFIG.yaml] [section.key=value ...] --nodes N > job.sh",
                               "write the sbatch script of a training\n"
                               "The script saves before the time limit, and goes on after it, after a lost node and "
                               "after a preemption.",
                               .examples =
                                   "tessera slurm run.yaml --nodes 4 --ranks-per-node 8 > job.sh\n"
                                   "tessera slurm run.yaml --nodes 2-4 --time 12:00:00 --partition gpu > job.sh\n"
                                   "tessera slurm run.yaml --nodes 1 --array optimizer.lr=1e-3,3e-4 > job.sh",
                               .run = run};
