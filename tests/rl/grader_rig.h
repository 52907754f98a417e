/* The common parts of tests of graders: graders in Python, items, one call, and what it leaves behind. */
#ifndef TESS_TESTS_RL_GRADER_RIG_H
#define TESS_TESTS_RL_GRADER_RIG_H

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/os/machine.h"
#include "base/os/os.h"
#include "rl/reward/reward.h"
#include "support/test.h"

enum { N = 12 };

/* The beginning of most graders of these tests: `answer(id, reward)`, and `items`, that gives each line's object. */
static const char prelude[] = "import sys, json, time, os, signal\n"
                              "def answer(id, reward): print(json.dumps({'id': id, 'reward': reward}), flush=True)\n"
                              "def items():\n"
                              "    for line in iter(sys.stdin.readline, ''):\n"
                              "        yield json.loads(line)\n";

/* Replaces a list, which may be empty. */
static inline void set_command(tess_text_list *list, const char *const *argv)
{
    int n = 0;
    while (argv[n] != NULL)
        n++;
    tess_text_list_free(list);
    EXPECT_OK(tess_text_list_make(argv, n, list));
}

/* A grader in Python, in the case's folder. */
static inline tess_text_list *python(const char *body)
{
    static tess_text_list list;
    static int count;
    char path[400], text[4096];
    snprintf(path, sizeof(path), "%s/grader%d.py", test_folder(), count++);
    int n = snprintf(text, sizeof(text), "%s%s", prelude, body);
    EXPECT(n > 0 && (size_t)n < sizeof(text));
    EXPECT_OK(tess_os_write_atomic(path, text, (size_t)n));
    set_command(&list, (const char *const[]){"python3", path, NULL});
    return &list;
}

static inline tess_reward_options options_of(const tess_text_list *command)
{
    return (tess_reward_options){
        .kind = "command", .command = command, .workers = 2, .timeout_s = 60, .start_s = 120, .max_failures = 1};
}

/* Item i has the id 100 + i and the response "i". */
static inline void make_items(tess_reward_item items[N])
{
    static char text[N][8];
    for (int i = 0; i < N; i++) {
        snprintf(text[i], sizeof(text[i]), "%d", i);
        items[i] = (tess_reward_item){.id = 100 + (uint64_t)i,
                                      .prompt = "p",
                                      .prompt_size = 1,
                                      .response = text[i],
                                      .response_size = strlen(text[i]),
                                      .label = ""};
    }
}

/* ---- Processes ---- */

/* The process carries the mark of a grader of `owner`'s. */
static inline bool is_grader_of(pid_t owner, int pid)
{
    char path[64], mark[64], text[1 << 16];
    snprintf(mark, sizeof(mark), "TESSERA_GRADER=%d.", (int)owner);
    snprintf(path, sizeof(path), "/proc/%d/environ", pid);
    int fd = open(path, O_RDONLY);
    ssize_t size = fd >= 0 ? read(fd, text, sizeof(text)) : 0;
    if (fd >= 0)
        close(fd);
    return size > 0 && memmem(text, (size_t)size, mark, strlen(mark)) != NULL;
}

/* Children of `owner`, zombies among them, and processes with a mark of its graders, whatever their parent. */
static inline int count_left_of(pid_t owner)
{
    int n = 0;
    DIR *all = opendir("/proc");
    for (struct dirent *entry; (entry = readdir(all)) != NULL;)
        if (isdigit((unsigned char)entry->d_name[0]))
            n += tess_os_process_parent(atoi(entry->d_name)) == (int)owner || is_grader_of(owner, atoi(entry->d_name));
    closedir(all);
    return n;
}

static inline int count_left(void)
{
    return count_left_of(getpid());
}

static inline int count_descriptors(void)
{
    int n = 0;
    DIR *all = opendir("/proc/self/fd");
    while (readdir(all) != NULL)
        n++;
    closedir(all);
    return n;
}

/* ---- One call ---- */
typedef struct outcome {
    tess_status status;
    char message[2048];
    tess_reward_result out[N];
    tess_reward_failures failures;
} outcome;

/* Scores N items, and checks that nothing is left of the graders. */
static inline const outcome *score(const tess_reward_options *options)
{
    static outcome o;
    tess_reward_item items[N];
    tess_rewarder *r;
    int before = count_descriptors();
    make_items(items);
    EXPECT_OK(tess_rewarder_create(test_mem(), options, &r));
    o.status = tess_rewarder_score(r, items, N, N, o.out);
    snprintf(o.message, sizeof(o.message), "%s", tess_error_message());
    tess_rewarder_failures(r, &o.failures);
    tess_rewarder_destroy(&r);
    EXPECT_INT(count_left(), 0);
    EXPECT_INT(count_descriptors(), before);
    return &o;
}

/* All items but `bad` have the reward i + 0.5; `bad` (-1: none) has failed and `why` says so. */
static inline void expect_all_but(const outcome *o, int bad, const char *why)
{
    if (o->status != TESS_OK)
        test_fail(__FILE__, __LINE__, "the call failed: %s", o->message);
    for (int i = 0; i < N; i++) {
        if (i == bad) {
            EXPECT(!o->out[i].scored && o->out[i].value == 0);
            EXPECT_CONTAINS(o->out[i].why, why);
        } else if (!o->out[i].scored || o->out[i].value != i + 0.5) {
            test_fail(__FILE__, __LINE__, "item %d has %g: %s", i, o->out[i].value, o->out[i].why);
        }
    }
    EXPECT_INT(o->failures.n_failed, bad >= 0);
}

static inline const outcome *score_with_workers(const char *bad, double timeout_s, int64_t workers)
{
    char body[3000];
    snprintf(body, sizeof(body),
             "for x in items():\n"
             "    if x['response'] == '5':\n%s"
             "    answer(x['id'], int(x['response']) + 0.5)\n",
             bad);
    tess_reward_options options = options_of(python(body));
    options.timeout_s = timeout_s;
    options.start_s = 120;
    options.workers = workers;
    return score(&options);
}

static inline const outcome *score_with_bad(const char *bad, double timeout_s)
{
    return score_with_workers(bad, timeout_s, 2);
}

#endif
