#include "control/supervise/persist_handover.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "ckpt/store/read.h"
#include "ckpt/store/store.h"
#include "control/record/error_record.h"
#include "control/supervise/exit.h"
#include "control/supervise/run_memory.h"
#include "control/supervise/stop_signals.h"
#include "train/logbook.h"

/* The supervisor makes further changes to the command. */
_Static_assert(TESS_LAYOUT_MOST + 2 + 13 <= TESS_OWN_COMMAND_WORDS_SPARE, "the former ranks' settings fit behind");

/* The contents of persistent memory. */
typedef struct saved_state {
    int64_t step; /* step of the state; -1: there is no state */
    int n_ranks;
    tess_run_layout layout;
} saved_state;

/* ---- Reading it ---- */

/* Reads the state from the first rank's block. A damaged block counts as empty. */
static void read_state(tess_mem *mem, int fd, const tess_config *config, saved_state *k)
{
    tess_persist *persist;
    *k = (saved_state){.step = -1};
    if (tess_persist_open(mem, fd, &persist) == TESS_OK) {
        uint64_t n_ranks = tess_persist_identity(persist);
        if (n_ranks >= 1 && n_ranks <= INT32_MAX)
            k->step = tess_logbook_peek(persist, tess_os_folder_id(config->job.dump_folder), &k->layout);
        k->n_ranks = (int)n_ranks;
        tess_persist_close(&persist);
    }
    tess_error_clear();
}

static bool fits(const tess_persist_heir *heir, const saved_state *k)
{
    tess_run_layout layout;
    tess_run_layout_of(heir->config, &layout);
    return k->n_ranks == heir->n_ranks && memcmp(&k->layout, &layout, sizeof(layout)) == 0;
}

/* Whether a checkpoint of the run holds the step or a newer one, with every byte as it was saved. */
static tess_status read_back(tess_mem *mem, const tess_config *config, int64_t step)
{
    char folder[TESS_CKPT_PATH];
    int64_t saved;
    TESS_TRY(tess_os_join(folder, sizeof(folder), config->job.dump_folder, config->checkpoint.folder));
    TESS_TRY(tess_ckpt_latest(folder, NULL, &saved));
    TESS_CHECK(saved >= step, TESS_E_NOT_FOUND, "%s: the newest checkpoint is of step %lld", folder, (long long)saved);
    return tess_ckpt_verify_step(mem, folder, saved);
}

/* Whether the launch needs the newest step, and only memory holds it. */
static bool is_only_here(tess_mem *mem, const tess_config *config, const saved_state *k)
{
    if (k->step < 0 || !config->checkpoint.resume || config->checkpoint.load_step >= 0)
        return false;
    bool saved = read_back(mem, config, k->step) == TESS_OK;
    tess_error_clear();
    return !saved;
}

int64_t tess_persist_step(const tess_config *config, const tess_persist_set *set)
{
    saved_state k;
    read_state(set->mem, set->fds[0], config, &k);
    return k.step;
}

tess_status tess_persist_read_back(const tess_config *config, const tess_persist_set *set)
{
    const int64_t step = tess_persist_step(config, set);
    if (step > 0)
        TESS_TRY_CTX(read_back(set->mem, config, step), "step %lld is kept in memory, and no checkpoint has it",
                     (long long)step);
    return TESS_OK;
}

/* Formats the arguments that turn the heir's command into that of the former ranks: "-n 4
 * training.local_batch_size=2". */
static const char *report_difference(const tess_persist_heir *heir, const saved_state *k, char *text, size_t size)
{
    tess_run_layout layout;
    const char *words[TESS_LAYOUT_MOST];
    tess_run_layout_of(heir->config, &layout);
    int n = tess_run_layout_words(&k->layout, &layout, words);
    size_t at = tess_text_add(text, size, 0, "-n %d", k->n_ranks);
    for (int i = 0; i < n; i++)
        at = tess_text_add(text, size, at, " %s", words[i]);
    return text;
}

/* ---- Saving it ---- */

static void pass_on(TESS_UNUSED void *self, TESS_UNUSED const struct tess_job *job, TESS_UNUSED const pid_t *pids)
{
    tess_stop_signals_pass_on();
}

static tess_status run_former_ranks(const tess_persist_heir *heir, const saved_state *k, const tess_persist_set *set,
                                    tess_launch_result *result)
{
    const char *changes[TESS_LAYOUT_MOST];
    tess_own_command words = *heir->command;
    tess_launch_options options = *heir->options;
    int n = tess_run_layout_words(&k->layout, NULL, changes);
    for (int i = 0; i < n; i++)
        tess_own_command_add(&words, changes[i]);
    tess_own_command_add(&words, "parallelism.data_parallel_shard_degree=-1");
    tess_own_command_add(&words, "fault.spec=");
    options.persist = set;
    options.decide = NULL;
    options.tick = pass_on;
    options.n_past = 0; /* the processes that save are no life of the ranks that train */
    options.stops_at_once = true;
    return tess_launch(k->n_ranks, words.word, &options, result);
}

/* Saves the state. Returns the exit code of the ranks that save; TESS_EXIT_OK: it was saved and read back. */
static int save(const tess_persist_heir *heir, const saved_state *k, const tess_persist_set *set)
{
    char difference[TESS_RUN_LAYOUT_BYTES];
    tess_launch_result result;
    const tess_reporter *reporter = &heir->options->reporter;
    tess_report_line(reporter, "step %lld is kept in memory for %s: it is saved, and %d rank%s go%s on from there",
                     (long long)k->step, report_difference(heir, k, difference, sizeof(difference)), heir->n_ranks,
                     heir->n_ranks == 1 ? "" : "s", heir->n_ranks == 1 ? "es" : "");
    tess_status status = run_former_ranks(heir, k, set, &result);
    if (status != TESS_OK)
        return tess_exit_report(reporter, status);
    if (result.stop_signal != 0)
        raise(result.stop_signal); /* the signal stays pending, and ends the next launch */
    int code = tess_ranks_report_end(&(tess_ranks){.n = k->n_ranks}, &result, reporter);
    if (code != TESS_EXIT_OK && !(code == TESS_EXIT_INTERRUPTED && result.left)) {
        tess_error_record_end(heir->options, &result, false);
        return code;
    }
    status = tess_persist_read_back(heir->config, set);
    return status == TESS_OK ? TESS_EXIT_OK : tess_exit_report(reporter, status);
}

/* ---- The two moments at which memory is handed over ---- */

tess_status tess_persist_hand_on(const tess_persist_heir *heir, const tess_persist_set *set, bool *usable)
{
    saved_state k;
    read_state(set->mem, set->fds[0], heir->config, &k);
    *usable = k.step >= 0 && fits(heir, &k);
    if (*usable)
        return TESS_OK;
    if (!is_only_here(set->mem, heir->config, &k))
        return TESS_OK;
    bool saved = heir->config->checkpoint.enable && save(heir, &k, set) == TESS_EXIT_OK;
    TESS_CHECK(saved || set->folder == NULL, TESS_E_IO, "step %lld could not be saved for %d rank%s", (long long)k.step,
               heir->n_ranks, heir->n_ranks == 1 ? "" : "s");
    if (!saved)
        tess_report_line(&heir->options->reporter, "the state kept in memory %s, and is lost",
                         heir->config->checkpoint.enable ? "could not be saved"
                                                         : "cannot be saved (checkpoint.enable=false)");
    return TESS_OK;
}

static tess_status find_copies(tess_mem *mem, const tess_config *config, char *folder, size_t size, saved_state *k)
{
    char path[1100];
    int fd;
    *k = (saved_state){.step = -1};
    TESS_TRY(tess_run_memory_folder(config->job.dump_folder, folder, size));
    TESS_TRY(tess_os_join(path, sizeof(path), folder, "rank-00000.keep"));
    if (!tess_os_is_file(path))
        return TESS_OK;
    TESS_TRY(tess_os_open_shared(path, &fd));
    read_state(mem, fd, config, k);
    tess_os_close(&fd);
    return TESS_OK;
}

static tess_status inherit(const tess_persist_heir *heir, tess_mem *mem, bool *saved, int *code)
{
    char folder[1024], difference[TESS_RUN_LAYOUT_BYTES];
    saved_state k;
    tess_persist_set set;
    TESS_TRY(find_copies(mem, heir->config, folder, sizeof(folder), &k));
    if (fits(heir, &k) || !is_only_here(mem, heir->config, &k))
        return TESS_OK;
    report_difference(heir, &k, difference, sizeof(difference));
    TESS_CHECK(heir->config->checkpoint.enable, TESS_E_INVALID,
               "step %lld of this run is kept in memory: the same command with %s goes on from there, "
               "checkpoint.enable=true lets any do so, checkpoint.memory_copies=false does without",
               (long long)k.step, difference);
    TESS_TRY(tess_persist_set_create(mem, k.n_ranks, folder, (uint64_t)k.n_ranks, &set));
    *code = save(heir, &k, &set);
    *saved = *code == TESS_EXIT_OK;
    tess_persist_set_destroy(&set, *saved);
    if (!*saved)
        tess_report_line(&heir->options->reporter,
                         "step %lld stays in memory: the same command with %s goes on from there, "
                         "checkpoint.memory_copies=false from the newest checkpoint",
                         (long long)k.step, difference);
    return TESS_OK;
}

int tess_persist_inherit(const tess_persist_heir *heir, bool *saved)
{
    tess_mem *mem = NULL;
    int code = TESS_EXIT_OK;
    *saved = false;
    if (!heir->config->checkpoint.memory_copies || !tess_os_is_dir(heir->config->job.dump_folder))
        return TESS_EXIT_OK;
    tess_status status = tess_mem_create(&mem);
    if (status == TESS_OK)
        status = inherit(heir, mem, saved, &code);
    tess_mem_destroy(&mem);
    return status == TESS_OK ? code : tess_exit_report(&heir->options->reporter, status);
}
