/* A save that replaces one of the same step on a file system that cannot exchange names (NFS, ...); and a machine out
 * of resources, which says nothing about a checkpoint. */
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/os.h"
#include "ckpt/store/read.h"
#include "ckpt/store/store.h"
#include "ckpt/tools/list.h"
#include "files.h"
#include "state.h"

enum { NEVER = -1, KEPT = 2 };

/* A file system without exchange; a process that ends before a call. */
typedef struct strike {
    int calls;   /* calls so far */
    int last;    /* is the last that is made; NEVER */
    int failing; /* is not made, nor any after it; NEVER */
} strike;

static int cannot_exchange(void *self, tess_save_point point)
{
    strike *s = self;
    int call = s->calls++;
    if (call == s->last)
        raise(SIGKILL);
    if (s->failing >= 0 && call >= s->failing)
        return EIO;
    return point == TESS_SAVE_EXCHANGE ? ENOSYS : 0;
}

static tess_status save(strike *s, const char *dir, int64_t step, int64_t values)
{
    static state state;
    const tess_io io = {cannot_exchange, s};
    const tess_store_options options = {.io = &io};
    make_state(&state, 1, 0, false, values);
    TESS_TRY(tess_ckpt_save(test_mem(), NULL, dir, step, NULL, state.tensors, N, &options));
    return tess_ckpt_prune(&(tess_ckpt_pruner){.mem = test_mem(), .io = &io}, dir, KEPT, step);
}

static bool holds(const char *dir, int64_t step, int64_t values)
{
    static state got, want;
    make_state(&got, 1, 0, false, 0);
    make_state(&want, 1, 0, false, values);
    blank(&got);
    EXPECT_OK(tess_ckpt_load(test_mem(), NULL, dir, step, got.tensors, N, NULL, NULL));
    return memcmp(got.data, want.data, sizeof(got.data)) == 0;
}

static void expect_newest(const char *dir, int64_t step)
{
    int64_t found;
    EXPECT_OK(tess_ckpt_latest(dir, NULL, &found));
    EXPECT_INT(found, step);
}

/* The newest step in the output of `ckpt ls`. */
static void expect_listed(const char *dir, int64_t step)
{
    tess_ckpt_list list;
    int n = 0;
    EXPECT_OK(tess_ckpt_list_read(test_mem(), dir, &list));
    for (int i = 0; i < list.n; i++) {
        n += list.items[i].state == TESS_CKPT_VALID;
        EXPECT(!list.items[i].newest || list.items[i].step == step);
    }
    EXPECT_INT(n, KEPT);
    tess_ckpt_list_free(&list);
}

static const char *two_checkpoints(const char *name)
{
    strike none = {0, NEVER, NEVER};
    const char *dir = path_in(test_folder(), name);
    EXPECT_OK(save(&none, dir, 4, 40));
    EXPECT_OK(save(&none, dir, 5, 50));
    return dir;
}

/* Saves step 5 again with other values in a process that ends at its call `last`. Returns whether it finished. */
static bool save_and_die(const char *dir, int last)
{
    int status;
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        strike s = {0, last, NEVER};
        _exit(save(&s, dir, 5, 51) == TESS_OK ? 0 : 1);
    }
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return !WIFSIGNALED(status);
}

static void without_exchange_no_kill_hides_a_checkpoint(void)
{
    bool done = false;
    int n_old = 0, n_stood_aside = 0;
    for (int last = 0; !done; last++) {
        char name[32];
        strike none = {0, NEVER, NEVER};
        snprintf(name, sizeof(name), "killed-at-%d", last);
        const char *dir = two_checkpoints(name);
        done = save_and_die(dir, last);
        expect_newest(dir, 5);
        expect_listed(dir, 5);
        bool old = holds(dir, 5, 50);
        n_old += old;
        n_stood_aside += !tess_os_is_dir(path_in(dir, "step-00000005"));
        EXPECT(old || holds(dir, 5, 51));
        EXPECT(holds(dir, 4, 40));
        if (last % 2 == 0) { /* the next call: a prune, or a save of the same step, or of another */
            EXPECT_OK(tess_ckpt_prune(&(tess_ckpt_pruner){.mem = test_mem()}, dir, KEPT, INT64_MAX));
            EXPECT_TEXT(names_in(dir), "step-00000004 step-00000005");
            EXPECT(holds(dir, 5, old ? 50 : 51));
        }
        EXPECT_OK(save(&none, dir, last % 3 == 0 ? 5 : 6, 60));
        EXPECT_TEXT(names_in(dir), last % 3 == 0 ? "step-00000004 step-00000005" : "step-00000005 step-00000006");
        EXPECT(holds(dir, last % 3 == 0 ? 5 : 6, 60));
    }
    EXPECT(n_old > 10);
    EXPECT_INT(n_stood_aside, 1);
}

/* Every call from one on fails, so that nothing can be restored. */
static void without_exchange_no_error_hides_a_checkpoint(void)
{
    tess_status status = TESS_E_IO;
    for (int failing = 0; status != TESS_OK; failing++) {
        char name[32];
        strike s = {0, NEVER, failing};
        snprintf(name, sizeof(name), "fails-at-%d", failing);
        const char *dir = two_checkpoints(name);
        status = save(&s, dir, 5, 51);
        expect_newest(dir, 5);
        EXPECT(holds(dir, 5, 50) || holds(dir, 5, 51));
        EXPECT(holds(dir, 4, 40));
        EXPECT_OK(tess_ckpt_prune(&(tess_ckpt_pruner){.mem = test_mem()}, dir, KEPT, INT64_MAX));
        EXPECT_TEXT(names_in(dir), "step-00000004 step-00000005");
    }
}

/* A retired checkpoint above the step is set aside as well. */
static void what_stands_aside_is_set_aside_with_the_others(void)
{
    int n;
    const char *dir = two_checkpoints("future");
    EXPECT_OK(tess_os_rename(path_in(dir, "step-00000005"), path_in(dir, "step-00000005.old")));
    expect_newest(dir, 5);
    EXPECT_OK(tess_ckpt_set_aside(dir, 4, &n));
    EXPECT_INT(n, 1);
    expect_newest(dir, 4);
    EXPECT_TEXT(names_in(dir), "step-00000004 step-00000005.aside");
}

/* ---- A machine out of resources ---- */
typedef struct need {
    int calls, failing, number;
} need;

static int look(void *self, const char *path)
{
    need *n = self;
    (void)path;
    return n->calls++ == n->failing ? n->number : 0;
}

static void count_note(void *self, const char *text)
{
    (void)text;
    ++*(int *)self;
}

static void what_cannot_be_looked_at_is_no_damage(void)
{
    static const struct {
        int number;
        tess_status status;
        const char *text;
    } needs[] = {{EMFILE, TESS_E_IO, "Too many open files"},
                 {EIO, TESS_E_IO, "Input/output error"},
                 {EACCES, TESS_E_IO, "Permission denied"},
                 {ENOMEM, TESS_E_NOMEM, "Cannot allocate memory"}};
    const char *dir = two_checkpoints("need");
    for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
        bool done = false;
        for (int failing = 0; !done; failing++) {
            need n = {0, failing, needs[i].number};
            int64_t step = -1;
            const tess_io io = {.self = &n, .look = look};
            const tess_ckpt_listener listener = {.io = &io};
            tess_status status = tess_ckpt_latest(dir, &listener, &step);
            done = n.calls <= failing;
            EXPECT_INT(status, done ? TESS_OK : needs[i].status);
            EXPECT(!done || (step == 5 && failing > 5));
            if (!done)
                EXPECT_CONTAINS(tess_error_message(), needs[i].text);
            if (!done && failing > 1) /* later than the folder of all */
                EXPECT_CONTAINS(tess_error_message(), "it is unknown whether step 5 is whole");
        }
    }
}

static void damage_is_damage_all_the_same(void)
{
    int n_notes = 0;
    int64_t step;
    const char *dir = two_checkpoints("damage");
    const tess_ckpt_listener listener = {.self = &n_notes, .note = count_note};
    EXPECT_OK(tess_os_remove_tree(path_in(dir, "step-00000005/rank-00000.data")));
    EXPECT_OK(tess_os_make_dir(path_in(dir, "step-00000005/rank-00000.data")));
    EXPECT_OK(tess_ckpt_latest(dir, &listener, &step));
    EXPECT_INT(step, 4);
    EXPECT_INT(n_notes, 1);
    EXPECT_OK(tess_os_remove_tree(path_in(dir, "step-00000005/commit.json")));
    EXPECT_OK(tess_os_make_dir(path_in(dir, "step-00000005/commit.json")));
    EXPECT_OK(tess_ckpt_latest(dir, &listener, &step));
    EXPECT_INT(step, 4);
    EXPECT_INT(n_notes, 2);
}

/* Real failures: no free descriptor, and a link to itself (a lost server gives such errors, too). */
static void want_of_descriptors_and_dead_links_are_no_damage(void)
{
    struct rlimit before, none;
    int64_t step;
    tess_ckpt_list list;
    const char *dir = two_checkpoints("real"), *marker = path_in(dir, "step-00000005/commit.json");
    EXPECT(getrlimit(RLIMIT_NOFILE, &before) == 0);
    none = before;
    none.rlim_cur = 3;
    EXPECT(setrlimit(RLIMIT_NOFILE, &none) == 0);
    tess_status status = tess_ckpt_latest(dir, NULL, &step);
    EXPECT(setrlimit(RLIMIT_NOFILE, &before) == 0);
    EXPECT_INT(status, TESS_E_IO);
    EXPECT_CONTAINS(tess_error_message(), "Too many open files");
    EXPECT_OK(tess_os_remove_tree(marker));
    EXPECT(symlink("commit.json", marker) == 0);
    EXPECT_FAILS(tess_ckpt_latest(dir, NULL, &step), TESS_E_IO, "ulimit -n");
    EXPECT_CONTAINS(tess_error_message(), "move its folder away");
    EXPECT_OK(tess_ckpt_list_read(test_mem(), dir, &list));
    EXPECT_INT(list.n, 2);
    EXPECT_INT(list.items[1].state, TESS_CKPT_UNKNOWN);
    EXPECT_CONTAINS(list.items[1].problem, "symbolic links");
    tess_ckpt_list_free(&list);
}

static const test_case cases[] = {
    CASE(without_exchange_no_kill_hides_a_checkpoint),
    CASE(without_exchange_no_error_hides_a_checkpoint),
    CASE(what_stands_aside_is_set_aside_with_the_others),
    CASE(what_cannot_be_looked_at_is_no_damage),
    CASE(damage_is_damage_all_the_same),
    CASE(want_of_descriptors_and_dead_links_are_no_damage),
};
TEST_MAIN(cases)
