/* Listing, pruning and editing checkpoints. */
#include <sys/wait.h>
#include <unistd.h>

#include "ckpt/tools/edit.h"
#include "ckpt/tools/list.h"
#include "ckpt/tools/prune.h"
#include "base/core/flat.h"
#include "state_files.h"

/* ---- Listing */
static const tess_ckpt_item *item_of(const tess_ckpt_list *list, const char *name)
{
    for (int i = 0; i < list->n; i++)
        if (strcmp(list->items[i].name, name) == 0)
            return &list->items[i];
    test_fail(__FILE__, __LINE__, "no item '%s'", name);
}

static void a_list_tells_valid_damaged_and_incomplete_ones_apart(void)
{
    tess_ckpt_list list;
    const char *dir = test_folder();
    save_state(dir, 5, 2);
    save_state(dir, 10, 1);
    save_state(dir, 100, 2);
    save_state(dir, 200, 2);
    put_file(path_in(dir, "step-00000010/rank-00000.data"), "short", 5);
    EXPECT_OK(tess_os_rename(path_in(dir, "step-00000100"), path_in(dir, "step-00000100.tmp")));
    tess_os_remove(path_in(dir, "step-00000200/commit.json"));
    EXPECT_OK(tess_os_make_dir(path_in(dir, "stepson")));
    EXPECT_OK(tess_os_make_dir(path_in(dir, "step-00000300")));
    EXPECT_OK(tess_os_make_dir(path_in(dir, "iter_0000400")));
    put_file(path_in(dir, "iter_0000400/__0_0.distcp"), "data", 4);
    EXPECT_OK(tess_ckpt_list_read(test_mem(), dir, &list));
    EXPECT_INT(list.n, 6);
    EXPECT_INT(list.items[0].step, 5);
    EXPECT_INT(list.items[0].state, TESS_CKPT_VALID);
    EXPECT(list.items[0].newest);
    EXPECT_TEXT(list.items[0].format, "tessera");
    EXPECT(list.items[0].bytes > 6 * 4096);
    EXPECT_INT(item_of(&list, "step-00000010")->state, TESS_CKPT_DAMAGED);
    EXPECT_CONTAINS(item_of(&list, "step-00000010")->problem, "rank-00000.data has 5 bytes");
    EXPECT_INT(item_of(&list, "step-00000100.tmp")->state, TESS_CKPT_INCOMPLETE);
    EXPECT_INT(item_of(&list, "step-00000200")->state, TESS_CKPT_DAMAGED);
    EXPECT_CONTAINS(item_of(&list, "step-00000200")->problem, "no commit.json");
    EXPECT_INT(item_of(&list, "step-00000300")->state, TESS_CKPT_DAMAGED);
    EXPECT_CONTAINS(item_of(&list, "step-00000300")->problem, "there is nothing in it");
    EXPECT(item_of(&list, "step-00000300")->changed_s > 0);
    EXPECT_INT(item_of(&list, "iter_0000400")->state, TESS_CKPT_INCOMPLETE);
    EXPECT_CONTAINS(item_of(&list, "iter_0000400")->problem, "no .metadata");
    tess_ckpt_list_free(&list);
}

static void a_file_is_a_list_of_one(void)
{
    tess_ckpt_list list;
    char path[4096];
    EXPECT_OK(tess_ckpt_list_read(test_mem(), test_path("ckpt/fixtures/torch/dtypes.pt"), &list));
    EXPECT_INT(list.n, 1);
    EXPECT_TEXT(list.items[0].name, "dtypes.pt");
    EXPECT_TEXT(list.items[0].format, "torch.save");
    EXPECT_INT(list.items[0].state, TESS_CKPT_VALID);
    EXPECT(list.items[0].bytes > 0 && list.items[0].newest);
    EXPECT_OK(tess_ckpt_item_path(&list, &list.items[0], path, sizeof(path)));
    EXPECT_TEXT(path, test_path("ckpt/fixtures/torch/dtypes.pt"));
    tess_ckpt_list_free(&list);
}

static void a_checkpoint_itself_is_a_list_of_one(void)
{
    tess_ckpt_list list;
    save_state(test_folder(), 5, 2);
    EXPECT_OK(tess_ckpt_list_read(test_mem(), path_in(test_folder(), "step-00000005/"), &list));
    EXPECT_INT(list.n, 1);
    EXPECT_TEXT(list.items[0].name, ".");
    EXPECT_INT(list.items[0].step, 5);
    tess_ckpt_list_free(&list);
}

static void a_folder_without_checkpoints_says_what_was_looked_for(void)
{
    tess_ckpt_list list;
    EXPECT_FAILS(tess_ckpt_list_read(test_mem(), test_folder(), &list), TESS_E_NOT_FOUND, "looked for folders step-*");
    save_state(path_in(test_folder(), "checkpoint"), 5, 1);
    EXPECT_FAILS(tess_ckpt_list_read(test_mem(), test_folder(), &list), TESS_E_NOT_FOUND, "did you mean");
    EXPECT_FAILS(tess_ckpt_list_read(test_mem(), path_in(test_folder(), "gone"), &list), TESS_E_NOT_FOUND,
                 "no such folder");
}

static tess_ckpt_hosts two_hosts(void)
{
    static int first[] = {0, 1}, last[] = {0, 1};
    static char names[2][TESS_CKPT_HOST_NAME] = {"h1", "h2"};
    return (tess_ckpt_hosts){.n = 2, .host = 0, .first = first, .last = last, .names = names};
}

static void a_hosts_part_of_a_checkpoint_is_valid(void)
{
    tess_ckpt_list list;
    tess_prune_decision decision;
    char *assignments[] = {"seed=9"};
    const tess_ckpt_hosts hosts = two_hosts();
    save_part(test_folder(), 5, 2, &hosts);
    EXPECT_OK(tess_ckpt_list_read(test_mem(), test_folder(), &list));
    EXPECT_TEXT(list.items[0].problem, "");
    EXPECT_INT(list.items[0].state, TESS_CKPT_VALID);
    EXPECT_FAILS(tess_ckpt_prune_plan(&list, 1, NULL, &decision), TESS_E_UNSUPPORTED, "which steps all hosts have");
    tess_ckpt_list_free(&list);
    EXPECT_FAILS(tess_ckpt_edit(NULL, path_in(test_folder(), "step-00000005"), assignments, 1, false, NULL, NULL),
                 TESS_E_UNSUPPORTED, "one host's part");
}

/* ---- Pruning */
static void prune_and_expect(int keep, const char *names)
{
    tess_ckpt_list list;
    tess_prune_decision decisions[16];
    EXPECT_OK(tess_ckpt_list_read(test_mem(), test_folder(), &list));
    EXPECT_OK(tess_ckpt_prune_plan(&list, keep, NULL, decisions));
    for (int i = 0; i < list.n; i++)
        if (decisions[i] == TESS_PRUNE_GOES)
            EXPECT_OK(tess_ckpt_remove(&list, &list.items[i]));
    tess_ckpt_list_free(&list);
    EXPECT_TEXT(names_in(test_folder()), names);
}

static void pruning_keeps_the_newest_that_are_good(void)
{
    const char *dir = test_folder();
    for (int64_t step = 1; step <= 6; step++)
        save_state(dir, step, 1);
    /* Step 6 is damaged so that only its checksum shows it; step 2 is a killed save, step 7 perhaps one under way. */
    flip_byte(path_in(dir, "step-00000006/rank-00000.data"), 1);
    EXPECT_OK(tess_os_rename(path_in(dir, "step-00000002"), path_in(dir, "step-00000002.tmp")));
    EXPECT_OK(tess_os_make_dir(path_in(dir, "step-00000007.tmp")));
    prune_and_expect(2, "step-00000004 step-00000005 step-00000006 step-00000007.tmp");
    prune_and_expect(5, "step-00000004 step-00000005 step-00000006 step-00000007.tmp");
    prune_and_expect(1, "step-00000005 step-00000006 step-00000007.tmp");
}

static void the_last_good_one_never_goes(void)
{
    tess_ckpt_list list;
    tess_prune_decision decisions[4];
    const char *dir = test_folder();
    for (int64_t step = 1; step <= 3; step++)
        save_state(dir, step, 1);
    flip_byte(path_in(dir, "step-00000003/rank-00000.data"), 1);
    flip_byte(path_in(dir, "step-00000002/rank-00000.data"), 1);
    prune_and_expect(1, "step-00000001 step-00000002 step-00000003");
    flip_byte(path_in(dir, "step-00000001/rank-00000.data"), 1);
    EXPECT_OK(tess_ckpt_list_read(test_mem(), dir, &list));
    EXPECT_FAILS(tess_ckpt_prune_plan(&list, 1, NULL, decisions), TESS_E_INVALID, "none of its 3 checkpoints is good");
    EXPECT_FAILS(tess_ckpt_prune_plan(&list, 0, NULL, decisions), TESS_E_INVALID, "at least one");
    tess_ckpt_list_free(&list);
}

/* ---- Editing */
static json_t *edited(json_t *meta, const char *assignment, bool may_add)
{
    EXPECT_OK(tess_meta_set(meta, assignment, may_add));
    return meta;
}

static void nested_keys_are_set_by_their_dots(void)
{
    json_t *meta = json_pack("{s:i, s:{s:f, s:s}, s:n, s:i}", "seed", 7, "a", "b", 0.5, "c", "x", "none", "d.e", 1);
    json_t *want =
        json_pack("{s:i, s:{s:f, s:s}, s:[i], s:i}", "seed", 9, "a", "b", 1e-3, "c", "some text", "none", 1, "d.e", 2);
    edited(meta, "seed=9", false);
    edited(meta, "meta.a.b=1e-3", false);
    edited(meta, "a.c=some text", false);
    edited(meta, "none=[1]", false);
    edited(meta, "d.e=2", false);
    EXPECT(json_equal(meta, want));
    edited(meta, "f.g.h=true", true);
    EXPECT(json_is_true(json_object_get(json_object_get(json_object_get(meta, "f"), "g"), "h")));
    EXPECT_FAILS(tess_meta_set(meta, "sed=1", false), TESS_E_INVALID, "did you mean 'seed'");
    EXPECT_FAILS(tess_meta_set(meta, "seed.x=1", true), TESS_E_INVALID, "is a number");
    EXPECT_FAILS(tess_meta_set(meta, "seed=abc", false), TESS_E_INVALID, "is a number, not a text");
    EXPECT_FAILS(tess_meta_set(meta, "seed", false), TESS_E_INVALID, "write key=value");
    EXPECT_FAILS(tess_meta_set(meta, "=1", false), TESS_E_INVALID, "write key=value");
    json_decref(meta);
    json_decref(want);
}

static json_t *manifest_of(const char *folder, int64_t step)
{
    json_t *manifest;
    EXPECT_OK(tess_store_open_manifest(folder, step, &manifest));
    return manifest;
}

static void an_edited_checkpoint_is_valid_and_keeps_what_it_was(void)
{
    char *assignments[] = {"seed=9", "schedule.lr=0.5"};
    const char *dir = test_folder(), *folder = path_in(dir, "step-00000005");
    json_t *before, *after;
    save_state(dir, 5, 2);
    json_t *old = manifest_of(folder, 5);
    EXPECT_OK(tess_ckpt_edit(NULL, folder, assignments, 2, false, &before, &after));
    json_t *new = manifest_of(folder, 5);
    EXPECT(json_equal(json_object_get(old, "meta"), before));
    EXPECT(json_equal(json_object_get(new, "meta"), after));
    EXPECT_INT(json_integer_value(json_object_get(after, "seed")), 9);
    EXPECT(json_real_value(json_object_get(json_object_get(after, "schedule"), "lr")) == 0.5);
    EXPECT(json_equal(json_object_get(old, "tensors"), json_object_get(new, "tensors")));
    EXPECT(json_equal(json_object_get(old, "files"), json_object_get(new, "files")));
    EXPECT_INT(json_integer_value(json_object_get(new, "world_size")), 2);
    EXPECT_TEXT(names_in(folder), "commit.json commit.json.backup manifest.json manifest.json.backup rank-00000.data "
                                  "rank-00001.data");
    EXPECT_TEXT(names_in(dir), "step-00000005");

    /* The backup is what the save wrote, also after a second edit, and restores it. */
    char *again[] = {"seed=11"};
    EXPECT_OK(tess_ckpt_edit(NULL, path_in(dir, "step-00000005/"), again, 1, false, NULL, NULL));
    EXPECT_OK(tess_os_rename(path_in(folder, "manifest.json.backup"), path_in(folder, "manifest.json")));
    EXPECT_OK(tess_os_rename(path_in(folder, "commit.json.backup"), path_in(folder, "commit.json")));
    json_t *back = manifest_of(folder, 5);
    EXPECT(json_equal(back, old));
    json_decref(old);
    json_decref(new);
    json_decref(back);
    json_decref(before);
    json_decref(after);
}

static void an_edit_that_fails_changes_nothing(void)
{
    char *assignments[] = {"seed=9", "nothing=1"};
    const char *dir = test_folder(), *folder = path_in(dir, "step-00000005");
    save_state(dir, 5, 1);
    json_t *old = manifest_of(folder, 5);
    EXPECT_FAILS(tess_ckpt_edit(NULL, folder, assignments, 2, false, NULL, NULL), TESS_E_INVALID, "no key 'nothing'");
    json_t *new = manifest_of(folder, 5);
    EXPECT(json_equal(old, new));
    EXPECT_TEXT(names_in(dir), "step-00000005");
    EXPECT_FAILS(tess_ckpt_edit(NULL, dir, assignments, 1, false, NULL, NULL), TESS_E_UNSUPPORTED,
                 "name its folder step-*");
    EXPECT_FAILS(tess_ckpt_edit(NULL, path_in(dir, "step-00000006"), assignments, 1, false, NULL, NULL),
                 TESS_E_NOT_FOUND, "no such checkpoint");
    flip_byte(path_in(folder, "manifest.json"), 20);
    EXPECT_FAILS(tess_ckpt_edit(NULL, folder, assignments, 1, false, NULL, NULL), TESS_E_FORMAT, "checksum");
    json_decref(old);
    json_decref(new);
}

/* Edits in a process that ends, as if killed, at its `left`th call. */
static int end_here(void *left, tess_save_point point)
{
    (void)point;
    if ((*(int *)left)-- == 0)
        _exit(1);
    return 0;
}

static bool edit_until(const char *folder, int n_calls)
{
    char *assignments[] = {"seed=9"};
    int status;
    pid_t child = fork();
    if (child == 0) {
        tess_io io = {end_here, &n_calls};
        _exit(tess_ckpt_edit(&io, folder, assignments, 1, false, NULL, NULL) == TESS_OK ? 0 : 2);
    }
    EXPECT_INT(waitpid(child, &status, 0), child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) != 2);
    return WEXITSTATUS(status) == 0;
}

static void an_edit_that_is_killed_leaves_the_old_or_the_new(void)
{
    const char *dir = test_folder(), *folder = path_in(dir, "step-00000005");
    int n_calls = 0, n_old = 0;
    save_state(dir, 5, 2);
    for (bool done = false; !done; n_calls++) {
        tess_catalog *catalog;
        done = edit_until(folder, n_calls);
        json_t *manifest = manifest_of(folder, 5);
        json_int_t seed = json_integer_value(json_object_get(json_object_get(manifest, "meta"), "seed"));
        EXPECT(seed == 9 || (seed == 7 && !done));
        n_old += seed == 7;
        EXPECT_OK(tess_catalog_open(test_mem(), folder, &catalog));
        EXPECT_OK(tess_catalog_verify(catalog, NULL));
        tess_catalog_destroy(&catalog);
        json_decref(manifest);
    }
    EXPECT(n_old >= 5); /* clear, make, manifest, its sync, its name .. */
    EXPECT_TEXT(names_in(dir), "step-00000005");
}

/* ---- Slices */
static void slices_are_runs_that_cover_a_tensor_once(void)
{
    const tess_box whole = {.begin = {2, 0, 1}, .size = {3, 4, 5}};
    for (int64_t most = 1; most <= 61; most++) {
        tess_box s;
        int64_t next = 0;
        for (int64_t n; next < 60; next += n) {
            const int64_t *b = s.begin;
            n = tess_flat_slice(3, &whole, next, most, &s);
            EXPECT_INT(((b[0] - 2) * 4 + b[1]) * 5 + b[2] - 1, next);
            EXPECT(n >= 1 && n <= most);
            EXPECT_INT(n, tess_box_count(3, &s));
            EXPECT(s.size[0] == 1 || (s.size[1] == 4 && s.size[2] == 5));
            EXPECT(s.size[1] == 1 || s.size[2] == 5);
        }
        EXPECT_INT(next, 60);
    }
}

static void scalars_have_one_slice(void)
{
    const tess_box scalar = {.begin = {0}};
    tess_box s;
    EXPECT_INT(tess_flat_slice(0, &scalar, 0, 10, &s), 1);
}

static const test_case cases[] = {
    CASE(a_list_tells_valid_damaged_and_incomplete_ones_apart),
    CASE(a_file_is_a_list_of_one),
    CASE(a_checkpoint_itself_is_a_list_of_one),
    CASE(a_folder_without_checkpoints_says_what_was_looked_for),
    CASE(a_hosts_part_of_a_checkpoint_is_valid),
    CASE(pruning_keeps_the_newest_that_are_good),
    CASE(the_last_good_one_never_goes),
    CASE(nested_keys_are_set_by_their_dots),
    CASE(an_edited_checkpoint_is_valid_and_keeps_what_it_was),
    CASE(an_edit_that_fails_changes_nothing),
    CASE(an_edit_that_is_killed_leaves_the_old_or_the_new),
    CASE(slices_are_runs_that_cover_a_tensor_once),
    CASE(scalars_have_one_slice),
};
TEST_MAIN(cases)
