#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os/machine.h"
#include "base/os/os.h"
#include "base/text/json.h"
#include "rl/reward/reward.h"
#include "rl/sandbox_support.h"
#include "support/test.h"

enum { N = 12 };

/* What most graders of these tests begin with: `answer(id, reward)`, and `items`, that gives each line's object. */
static const char prelude[] = "import sys, json, time, os, signal\n"
                              "def answer(id, reward): print(json.dumps({'id': id, 'reward': reward}), flush=True)\n"
                              "def items():\n"
                              "    for line in iter(sys.stdin.readline, ''):\n"
                              "        yield json.loads(line)\n";

static void set_command(tess_text_list *list, const char *const *argv)
{
    for (list->n = 0; argv[list->n] != NULL; list->n++)
        snprintf(list->item[list->n], sizeof(list->item[0]), "%s", argv[list->n]);
}

/* A grader in Python, in the case's folder. */
static tess_text_list *python(const char *body)
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

static tess_reward_options options_of(const tess_text_list *command)
{
    return (tess_reward_options){
        .kind = "command", .command = command, .workers = 2, .timeout_s = 60, .start_s = 120, .max_failures = 1};
}

/* Item i has the id 100 + i and the response "i". */
static void make_items(tess_reward_item items[N])
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
static bool is_grader_of(pid_t owner, int pid)
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
static int count_left_of(pid_t owner)
{
    int n = 0;
    DIR *all = opendir("/proc");
    for (struct dirent *entry; (entry = readdir(all)) != NULL;)
        if (isdigit((unsigned char)entry->d_name[0]))
            n += tess_os_process_parent(atoi(entry->d_name)) == (int)owner || is_grader_of(owner, atoi(entry->d_name));
    closedir(all);
    return n;
}

static int count_left(void)
{
    return count_left_of(getpid());
}

static int count_descriptors(void)
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
static const outcome *score(const tess_reward_options *options)
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
static void expect_all_but(const outcome *o, int bad, const char *why)
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

static const outcome *score_with_workers(const char *bad, double timeout_s, int64_t workers)
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

static const outcome *score_with_bad(const char *bad, double timeout_s)
{
    return score_with_workers(bad, timeout_s, 2);
}

static void answers_come_back(void)
{
    const outcome *o = score_with_bad("        pass\n", 60);
    expect_all_but(o, -1, "");
    EXPECT_INT(o->failures.n_restarts, 0);
    EXPECT_INT(o->out[3].n_parts, 1);
    EXPECT_TEXT(o->out[3].part[0].name, "command");
    EXPECT(o->out[3].part[0].value == 3.5);
}

static void texts_arrive(void)
{
    static const char body[] =
        "for x in items():\n"
        "    good = x == {'id': 5, 'prompt': 'a\\u0000\"\\n\\u00e9', 'response': 'b\\ufffdc\\ufffd', 'label': '',\n"
        "                 'metadata': {'k': [1]}} or x == {'id': 6, 'prompt': '', 'response': 'y' * 1000000,\n"
        "                                                  'label': 'l', 'metadata': None}\n"
        "    answer(x['id'], 1 if good else 0)\n";
    tess_reward_options options = options_of(python(body));
    options.workers = 1;
    char *big = malloc(1000000);
    EXPECT(big != NULL);
    memset(big, 'y', 1000000);
    json_t *metadata = json_pack("{s:[i]}", "k", 1);
    const tess_reward_item items[] = {
        {.id = 5,
         .prompt = "a\0\"\n\xc3\xa9",
         .prompt_size = 6,
         .response = "b\xff"
                     "c\xe2\x82",
         .response_size = 4,
         .label = "",
         .metadata = metadata},
        {.id = 6, .prompt = "", .response = big, .response_size = 1000000, .label = "l", .label_size = 1}};
    tess_reward_result out[2];
    tess_rewarder *r;
    EXPECT_OK(tess_rewarder_create(test_mem(), &options, &r));
    EXPECT_OK(tess_rewarder_score(r, items, 2, 2, out));
    tess_rewarder_destroy(&r);
    json_decref(metadata);
    free(big);
    EXPECT(out[1].value == 1);
    EXPECT(out[0].value == 1);
}

static void parts_and_nulls(void)
{
    static const char body[] = "for x in items():\n"
                               "    i = int(x['response'])\n"
                               "    answer(x['id'], None if i == 3 else {'style': 0.25, 'truth': i})\n";
    tess_reward_options options = options_of(python(body));
    options.kind = "command:2,length:1";
    options.max_tokens = 10;
    options.max_failures = 0;
    const outcome *o = score(&options);
    EXPECT_OK(o->status);
    EXPECT(!o->out[3].scored && o->out[3].value == 0 && o->out[3].why[0] == '\0');
    EXPECT(o->out[4].scored && o->out[4].value == 2 * 4.25 - 0);
    EXPECT_INT(o->out[4].n_parts, 3);
    EXPECT_TEXT(o->out[4].part[0].name, "style");
    EXPECT_TEXT(o->out[4].part[1].name, "truth");
    EXPECT(o->out[4].part[1].value == 4);
    EXPECT_INT(o->failures.n_failed, 0);
}

static void out_of_order(void)
{
    static const char body[] = "import itertools\n"
                               "it = items()\n"
                               "while True:\n"
                               "    group = list(itertools.islice(it, 4))\n"
                               "    if not group: break\n"
                               "    for x in reversed(group): answer(x['id'], int(x['response']) + 0.5)\n";
    tess_reward_options options = options_of(python(body));
    options.workers = 1;
    options.in_flight = 4;
    expect_all_but(score(&options), -1, "");
}

static void processes_stay(void)
{
    tess_reward_options options = options_of(python("for x in items(): answer(x['id'], os.getpid())\n"));
    options.workers = 1;
    tess_reward_item items[N];
    tess_reward_result out[N], again[N];
    tess_rewarder *r;
    make_items(items);
    EXPECT_OK(tess_rewarder_create(test_mem(), &options, &r));
    EXPECT_OK(tess_rewarder_score(r, items, N, N, out));
    EXPECT_OK(tess_rewarder_score(r, items, N, N, again));
    for (int i = 0; i < N; i++)
        EXPECT(out[i].value == out[0].value && again[i].value == out[0].value);
    kill((pid_t)out[0].value, SIGKILL); /* between two calls */
    while (tess_os_process_state((int)out[0].value) != 'Z')
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    EXPECT_OK(tess_rewarder_score(r, items, N, N, again));
    EXPECT(again[N - 1].scored && again[N - 1].value != out[0].value);
    tess_rewarder_destroy(&r);
    EXPECT_INT(count_left(), 0);
}

static void one_answer_a_process(void)
{
    tess_reward_options options = options_of(python("x = next(items())\nanswer(x['id'], int(x['response']) + 0.5)\n"));
    const outcome *o = score(&options);
    expect_all_but(o, -1, "");
    EXPECT(o->failures.n_restarts >= N - 2);
}

/* ---- What goes wrong ---- */
static void hang(void)
{
    expect_all_but(score_with_bad("        time.sleep(10000)\n", 3), 5, "no answer within");
}

static void drip(void)
{
    expect_all_but(score_with_bad("        while True:\n"
                                  "            sys.stdout.write('{'); sys.stdout.flush(); time.sleep(0.5)\n",
                                  3),
                   5, "no whole answer within");
}

static void crash_at_start(void)
{
    tess_reward_options options =
        options_of(python("sys.stderr.write('first\\n' * 100 + 'no module named judge\\n')\nsys.exit(3)\n"));
    options.max_failures = 0.1;
    const outcome *o = score(&options);
    EXPECT_INT(o->status, TESS_E_INVALID);
    EXPECT_CONTAINS(o->message,
                    "2 of 12 rewards failed, reward.max_failures allows 0.1 of them; grader 'python3', item 10");
    EXPECT_CONTAINS(o->message, "it ended (exit code 3) before its first answer; it wrote: '");
    EXPECT_CONTAINS(o->message, "first | no module named judge'");
    EXPECT_INT(o->failures.n_failed, 2);
}

static void crash_in_an_item(void)
{
    /* One process, which must be started again: of two the other may be done with the rest before. */
    const outcome *o = score_with_workers("        sys.stderr.write('boom\\n'); sys.stderr.flush()\n"
                                          "        os.kill(os.getpid(), signal.SIGSEGV)\n",
                                          60, 1);
    expect_all_but(o, 5, "(signal 11: Segmentation fault)");
    EXPECT_CONTAINS(o->failures.newest, "it wrote: 'boom'");
    EXPECT_CONTAINS(o->failures.newest, "item 105");
    EXPECT_INT(o->failures.n_restarts, 1);
    expect_all_but(score_with_bad("        sys.exit(0)\n", 60), 5, "it ended (exit code 0)");
}

/* A grader that fails at its first sight of an item, as one that ran out of memory or connections does. */
static void ends_may_pass(void)
{
    static const char *const bad = "        mark = sys.argv[0] + '.seen'\n"
                                   "        if not os.path.exists(mark):\n"
                                   "            open(mark, 'w').close(); %s\n";
    char body[600];
    for (int i = 0; i < 3; i++) {
        snprintf(body, sizeof(body), bad, i < 2 ? "sys.exit(4)" : "answer(x['id'], 'no number'); continue");
        char whole[1200];
        snprintf(whole, sizeof(whole),
                 "for x in items():\n"
                 "    if x['response'] == '5':\n%s"
                 "    answer(x['id'], int(x['response']) + 0.5)\n",
                 body);
        tess_reward_options options = options_of(python(whole));
        options.retries = i;
        if (i == 1)
            expect_all_but(score(&options), -1, ""); /* the second try answers */
        else                                         /* no tries, or an answer, which is no end */
            expect_all_but(score(&options), 5, i == 0 ? "it ended (exit code 4)" : "is no number");
    }
    tess_reward_options options = options_of(python("for x in items(): sys.exit(3)\n"));
    options.retries = 1;
    options.max_failures = 0;
    tess_reward_item items[N];
    tess_reward_result out[N];
    tess_rewarder *r;
    make_items(items);
    EXPECT_OK(tess_rewarder_create(test_mem(), &options, &r));
    EXPECT_FAILS(tess_rewarder_score(r, items, 1, N, out), TESS_E_INVALID,
                 "after 2 tries: it ended (exit code 3) before its first answer");
    tess_rewarder_destroy(&r);
}

/* The share is of the items of all ranks. */
static void failures_of_all_ranks(void)
{
    tess_reward_options options = options_of(python("for x in items():\n"
                                                    "    answer(x['id'], 1 if int(x['response']) > 1 else 'bad')\n"));
    options.max_failures = 0.1;
    tess_reward_item items[N];
    tess_reward_result out[N];
    tess_rewarder *r;
    make_items(items);
    EXPECT_OK(tess_rewarder_create(test_mem(), &options, &r));
    EXPECT_OK(tess_rewarder_score(r, items, 4, 20, out)); /* 2 of 20 */
    EXPECT_OK(tess_rewarder_judge(r, 2, 20));
    EXPECT_FAILS(tess_rewarder_judge(r, 3, 20), TESS_E_INVALID,
                 "3 of 20 rewards failed, reward.max_failures allows 0.1");
    EXPECT_CONTAINS(tess_error_message(), "grader 'python3', item 10");
    EXPECT_FAILS(tess_rewarder_score(r, items, 4, 19, out), TESS_E_INVALID, "2 of 19 rewards failed");
    tess_rewarder_destroy(&r);
}

/* Some failures are known before the first item. */
static void checks(void)
{
    tess_rewarder *r;
    tess_text_list command; /* a shell: it ends within a second on any machine */
    set_command(&command, (const char *const[]){"sh", "-c", "echo no module named judge >&2; exit 1", NULL});
    tess_reward_options options = options_of(&command);
    EXPECT_OK(tess_rewarder_create(test_mem(), &options, &r));
    EXPECT_FAILS(tess_rewarder_check(r), TESS_E_INVALID,
                 "reward.command: 'sh' ended (exit code 1) before it was given anything; it wrote: 'no module");
    tess_rewarder_destroy(&r);
    options = options_of(python("for x in items(): answer(x['id'], int(x['response']) + 0.5)\n"));
    EXPECT_OK(tess_rewarder_create(test_mem(), &options, &r));
    EXPECT_OK(tess_rewarder_check(r));
    tess_reward_item items[N];
    tess_reward_result out[N];
    make_items(items);
    EXPECT_OK(tess_rewarder_score(r, items, N, N, out));
    EXPECT(out[3].value == 3.5);
    tess_rewarder_destroy(&r);
    EXPECT_INT(count_left(), 0);
}

/* Of one item, graded by a program that shows its key. */
static void expect_hidden(const char *body, const char *key, const char *shown)
{
    tess_text_list names = {.n = 1};
    snprintf(names.item[0], sizeof(names.item[0]), "TESS_TEST_KEY");
    setenv("TESS_TEST_KEY", key, 1);
    tess_reward_options options = options_of(python(body));
    options.env = &names;
    options.max_failures = 0;
    const outcome *o = score(&options);
    EXPECT_CONTAINS(o->message, shown);
    EXPECT(strstr(o->message, "hunter") == NULL && strstr(o->failures.newest, "hunter") == NULL);
    EXPECT(strstr(o->message, "unter2") == NULL && strstr(o->failures.newest, "unter2") == NULL);
}

/* A grader's words do not show what it was given, wherever they are cut. */
static void words_hide_keys(void)
{
    static const char lines[] = "-----BEGIN KEY-----\nhunter2hunter2\nhunter2\xc3\xbchunter2\n-----END KEY-----";
    expect_hidden("sys.exit('refused: ' + os.environ['TESS_TEST_KEY'] + '!')\n", "hunter2hunter2", "refused: ***!");
    expect_hidden("sys.exit('refused: ' + os.environ['TESS_TEST_KEY'] + '!')\n", lines,
                  "refused: *** | *** | *** | ***!");
    /* The last 400 bytes begin within the key. */
    expect_hidden("sys.exit(os.environ['TESS_TEST_KEY'] + 'x' * 389)\n", "hunter2hunter2", "it wrote: '***xxx");
    expect_hidden("for x in items(): print('key ' + os.environ['TESS_TEST_KEY'], flush=True)\n", "hunter2hunter2",
                  "is not JSON (which knows finite numbers alone): 'key ***'");
    expect_hidden("for x in items(): print('x' * 50 + os.environ['TESS_TEST_KEY'], flush=True)\n", "hunter2hunter2",
                  "xxx***...'");
}

static void crash_among_several(void)
{
    static const char body[] = "seen = []\n"
                               "for x in items():\n"
                               "    seen.append(x)\n"
                               "    if x['response'] == '5': time.sleep(0.2); os._exit(9)\n"
                               "    if len(seen) > 2 or x['response'] in '9 10 11':\n"
                               "        for y in seen: answer(y['id'], int(y['response']) + 0.5)\n"
                               "        seen = []\n"
                               "    elif os.path.exists(sys.argv[0] + '.crashed'):\n"
                               "        answer(x['id'], int(x['response']) + 0.5); seen.pop()\n"
                               "    if x['response'] == '4': open(sys.argv[0] + '.crashed', 'w')\n";
    tess_reward_options options = options_of(python(body));
    options.workers = 1;
    options.in_flight = 4;
    expect_all_but(score(&options), 5, "it ended (exit code 9)");
}

static void garbage(void)
{
    expect_all_but(score_with_bad("        print('I think\\x07 it is good', flush=True); continue\n", 60), 5,
                   "its answer is not JSON (which knows finite numbers alone): 'I think? it is good'");
    expect_all_but(score_with_bad("        answer(x['id'], float('nan')); continue\n", 60), 5, "\"reward\": NaN}'");
    expect_all_but(score_with_bad("        answer(x['id'], float('inf')); continue\n", 60), 5, "not JSON");
    expect_all_but(
        score_with_bad("        print('{\"id\": %d, \"reward\": 1e999}' % x['id'], flush=True); continue\n", 60), 5,
        "not JSON");
    expect_all_but(score_with_bad("        answer(x['id'], {'a': 1e308, 'b': 1e308}); continue\n", 60), 5,
                   "no finite sum");
    expect_all_but(score_with_bad("        answer(x['id'], 'good'); continue\n", 60), 5,
                   "the reward 'command' is no number");
    expect_all_but(score_with_bad("        answer(x['id'], {'a': True}); continue\n", 60), 5,
                   "the reward 'a' is no number");
    expect_all_but(score_with_bad("        answer(x['id'], {}); continue\n", 60), 5, "an empty object");
    expect_all_but(score_with_bad("        answer(x['id'], {str(i): 1 for i in range(9)}); continue\n", 60), 5,
                   "more than 8 rewards");
    expect_all_but(score_with_bad("        print('{}', flush=True); continue\n", 60), 5, "is not {\"id\": integer");
    expect_all_but(score_with_bad("        print('[' * 60000, flush=True); continue\n", 60), 5, "not JSON");
    expect_all_but(score_with_bad("        answer(99, 1); continue\n", 60), 5,
                   "it answers for id 99, which it was not asked");
}

static void a_gigabyte(void)
{
    expect_all_but(score_with_bad("        for i in range(1024): sys.stdout.write('x' * (1 << 20))\n", 60), 5,
                   "an answer of more than 65536 bytes without a line end: 'xxxx");
}

static void streams(void)
{
    expect_all_but(score_with_bad("        os.close(1); time.sleep(10000)\n", 3), 5, "it closed its standard output");
    expect_all_but(score_with_bad("        for i in range(100): os.write(2, b'e' * (1 << 16))\n", 60), -1, "");
    expect_all_but(score_with_bad("        os.close(0); time.sleep(10000)\n", 3), 5, "no answer within");
    /* One that reads nothing, with an item that does not fit into a pipe; then it goes while the rest is on its way. */
    tess_reward_options options = options_of(python("time.sleep(0.2)\nos.close(0)\ntime.sleep(0.2)\nsys.exit(4)\n"));
    char *big = calloc(1, 4 << 20);
    tess_reward_item item = {.id = 1, .prompt = big, .prompt_size = 4 << 20, .response = "", .label = ""};
    tess_reward_result out;
    tess_rewarder *r;
    EXPECT(big != NULL);
    EXPECT_OK(tess_rewarder_create(test_mem(), &options, &r));
    EXPECT_OK(tess_rewarder_score(r, &item, 1, 1, &out));
    EXPECT_CONTAINS(out.why, "it ended (exit code 4)");
    tess_rewarder_destroy(&r);
    free(big);
    sigset_t pending;
    sigpending(&pending);
    EXPECT(sigismember(&pending, SIGPIPE) == 0);
}

static void limits(void)
{
    static const char body[] = "for x in items():\n"
                               "    try: b = bytearray(1 << 30)\n"
                               "    except MemoryError: answer(x['id'], int(x['response']) + 0.5); continue\n"
                               "    answer(x['id'], -1)\n";
    tess_reward_options options = options_of(python(body));
    options.max_memory_bytes = 512 << 20;
    expect_all_but(score(&options), -1, "");
    static const char writes[] = "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
                                 "for x in items():\n"
                                 "    f = open(sys.argv[0] + '.out', 'wb', 0)\n"
                                 "    try:\n"
                                 "        for i in range(3): f.write(b'x' * 4096)\n"
                                 "    except OSError: answer(x['id'], int(x['response']) + 0.5); continue\n"
                                 "    answer(x['id'], -1)\n";
    options = options_of(python(writes));
    options.max_file_bytes = 8192;
    expect_all_but(score(&options), -1, "");
    options = options_of(python("for x in items():\n    while True: pass\n"));
    options.max_cpu_s = 1;
    options.max_failures = 0;
    const outcome *o = score(&options);
    EXPECT_CONTAINS(o->message, "(signal 24: CPU time limit exceeded)");
}

/* ---- Families ---- */
static void children(void)
{
    /* In the group, in groups and sessions of their own, orphaned, and with the streams kept open. */
    static const char *const bad = "        import subprocess\n"
                                   "        subprocess.Popen(['sleep', '10001'])\n"
                                   "        subprocess.Popen(['sleep', '10002'], start_new_session=True)\n"
                                   "        subprocess.Popen(['sh', '-c', 'sleep 10003 & exec setsid sleep 10004'])\n"
                                   "        if os.fork() == 0:\n"
                                   "            os.setsid()\n"
                                   "            if os.fork() == 0: time.sleep(10005)\n"
                                   "            os._exit(0)\n"
                                   "        %s\n";
    char body[1200];
    snprintf(body, sizeof(body), bad, "time.sleep(10000)");
    expect_all_but(score_with_bad(body, 5), 5, "no answer within");
    snprintf(body, sizeof(body), bad, "os._exit(7)");
    expect_all_but(score_with_bad(body, 60), 5, "it ended (exit code 7)");
    snprintf(body, sizeof(body), bad, "pass");
    expect_all_but(score_with_bad(body, 60), -1, "");
}

static void fork_bomb(void)
{
    /* Bounded at 400 where no limit holds, as for root; each child only waits, so that the machine stays usable. */
    static const char *const bad = "        for i in range(400):\n"
                                   "            try:\n"
                                   "                if os.fork() == 0:\n"
                                   "                    if i %% 50 == 0 and %d: os.setsid()\n"
                                   "                    time.sleep(10000)\n"
                                   "            except OSError: pass\n"
                                   "        time.sleep(10000)\n";
    char body[800];
    snprintf(body, sizeof(body), bad, 1);
    expect_all_but(score_with_bad(body, 5), 5, "no answer within");
    /* And one without end, until it is killed. */
    expect_all_but(score_with_bad("        while True:\n"
                                  "            try:\n"
                                  "                os.fork(); time.sleep(0.5)\n"
                                  "            except OSError: time.sleep(0.1)\n",
                                  4),
                   5, "no answer within");
}

/* ---- Sandbox ---- */
/* A grader whose text is an argument: the sandbox has a /tmp of its own. */
static tess_text_list *python_argument(const char *body)
{
    static tess_text_list list;
    EXPECT(strlen(body) < TESS_TEXT_SIZE);
    set_command(&list, (const char *const[]){"/usr/bin/python3", "-c", body, NULL}); /* any user can run this one */
    return &list;
}

/* Without root, a limit on processes holds. */
static double processes_of(const char *sandbox)
{
    static const char body[] = "import sys, json, os, time\n"
                               "x = json.loads(sys.stdin.readline())\n"
                               "n = 0\n"
                               "try:\n"
                               "    while n < 300:\n"
                               "        if os.fork() == 0: time.sleep(10000)\n"
                               "        n += 1\n"
                               "except OSError: pass\n"
                               "print(json.dumps({'id': x['id'], 'reward': n}), flush=True)\n";
    tess_reward_options options = options_of(python_argument(body));
    options.max_processes = 20;
    options.workers = 1;
    options.sandbox = sandbox;
    tess_reward_item items[N];
    tess_reward_result out[N];
    tess_rewarder *r;
    make_items(items);
    EXPECT_OK(tess_rewarder_create(test_mem(), &options, &r));
    EXPECT_OK(tess_rewarder_score(r, items, 1, 1, out));
    tess_rewarder_destroy(&r);
    EXPECT_TEXT(out[0].why, "");
    EXPECT_INT(count_left(), 0);
    return out[0].value;
}

static void process_limit(void)
{
    if (getuid() == 0)
        EXPECT(setgid(65534) == 0 && setuid(65534) == 0);
    double n = processes_of("");
    if (n >= 300)
        test_fail(__FILE__, __LINE__, "%g processes were started, more than 300", n);
    if (has_bwrap()) {
        n = processes_of("bwrap"); /* which counts its own alone */
        if (n >= 20 || n < 10)
            test_fail(__FILE__, __LINE__, "%g processes were started in the sandbox, expected 10 to 19", n);
    }
}

/* Scores an item and then waits for its end, which takes the graders along. */
static void kill_a_rank(const tess_reward_options *options)
{
    int ends[2];
    char done = 0;
    EXPECT(pipe(ends) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        tess_reward_item items[N];
        tess_reward_result out[N];
        tess_rewarder *r;
        make_items(items);
        if (tess_rewarder_create(test_mem(), options, &r) != TESS_OK ||
            tess_rewarder_score(r, items, 1, 1, out) != TESS_OK || !out[0].scored)
            _exit(1);
        _exit(write(ends[1], "x", 1) != 1 || pause());
    }
    close(ends[1]);
    EXPECT(read(ends[0], &done, 1) == 1);
    EXPECT(count_left_of(pid) > 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    while (count_left_of(pid) > 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    close(ends[0]);
}

static void parent_dies(void)
{
    tess_reward_options options = options_of(python("for x in items(): answer(x['id'], 1)\n"));
    kill_a_rank(&options);
    if (!has_bwrap())
        return;
    options.command = python_argument("import sys, json, os, time\n"
                                      "if os.fork() == 0: os.setsid(); time.sleep(10000)\n"
                                      "for l in iter(sys.stdin.readline, ''):\n"
                                      "    print(json.dumps({'id': json.loads(l)['id'], 'reward': 1}), flush=True)\n");
    options.sandbox = "bwrap";
    options.user = unprivileged();
    kill_a_rank(&options);
}

static void nothing_is_inherited(void)
{
    enum { FD = 77 };
    int null = open("/dev/null", O_RDONLY), fd = dup2(null, FD); /* kept on exec */
    char body[400];
    signal(SIGPIPE, SIG_IGN);
    snprintf(body, sizeof(body),
             "fds = sorted(int(x) for x in os.listdir('/proc/self/fd'))\n"
             "bad = %d in fds or os.getsid(0) != os.getpid() or os.getpgid(0) != os.getpid()\n"
             "ignored = [l for l in open('/proc/self/status') if l.startswith('SigBlk')][0].split()[1]\n"
             "for x in items(): answer(x['id'], -1 if bad or int(ignored, 16) else int(x['response']) + 0.5)\n",
             fd);
    tess_reward_options options = options_of(python(body));
    expect_all_but(score(&options), -1, "");
    close(fd);
    close(null);
}

static void sandbox(void)
{
    static const char body[] =
        "import sys,json,os,socket\n"
        "def can(f):\n"
        "    try: f(); return 1\n"
        "    except OSError: return 0\n"
        "for l in iter(sys.stdin.readline, ''):\n"
        "    x = json.loads(l)\n"
        "    n = can(lambda: open('/etc/x', 'w')) + len(socket.if_nameindex()) - 1\n"
        "    n += os.path.exists('/proc/%s' % x['prompt']) + 1 - can(lambda: open('/tmp/x', 'w'))\n"
        "    print(json.dumps({'id': x['id'], 'reward': n}), flush=True)\n";
    tess_text_list *command = python_argument(body);
    tess_reward_options options = options_of(command);
    options.sandbox = "firejail";
    options.user = unprivileged();
    tess_rewarder *r;
    EXPECT_FAILS(tess_rewarder_create(test_mem(), &options, &r), TESS_E_UNSUPPORTED, "'firejail' is unknown");
    options.sandbox = "bwrap";
    if (!has_bwrap()) {
        if (access("/usr/bin/bwrap", X_OK) != 0)
            EXPECT_FAILS(tess_rewarder_create(test_mem(), &options, &r), TESS_E_UNSUPPORTED,
                         "install the package bubblewrap");
        printf("SKIPPED: no sandbox: bubblewrap is missing, or forbidden here\n");
        return;
    }
    char own[16];
    snprintf(own, sizeof(own), "%d", (int)getpid());
    tess_reward_item item = {.id = 1, .prompt = own, .prompt_size = strlen(own), .response = "", .label = ""};
    tess_reward_result out;
    EXPECT_OK(tess_rewarder_create(test_mem(), &options, &r));
    EXPECT_OK(tess_rewarder_score(r, &item, 1, 1, &out));
    tess_rewarder_destroy(&r);
    EXPECT_TEXT(out.why, "");
    EXPECT(out.value == 0);
    EXPECT_INT(count_left(), 0);
}

/* There even those end that have left the group and cleared their environment. */
static void sandbox_ends_all(void)
{
    static const char body[] =
        "import sys,json,os,time\n"
        "for l in iter(sys.stdin.readline, ''):\n"
        "    x = json.loads(l)\n"
        "    if x['response'] == '5':\n"
        "        if os.fork() == 0:\n"
        "            os.setsid()\n"
        "            os.execve('/bin/sleep', ['sleep', '10077.%s'], {})\n"
        "        time.sleep(10000)\n"
        "    print(json.dumps({'id': x['id'], 'reward': int(x['response']) + 0.5}), flush=True)\n";
    if (!has_bwrap())
        return;
    char text[1000], needle[32], find[100];
    snprintf(needle, sizeof(needle), "%d", (int)getpid());
    snprintf(text, sizeof(text), body, needle);
    EXPECT(strlen(text) < TESS_TEXT_SIZE);
    tess_reward_options options = options_of(python_argument(text));
    options.sandbox = "bwrap";
    options.user = unprivileged();
    options.timeout_s = 5;
    expect_all_but(score(&options), 5, "no answer within");
    snprintf(find, sizeof(find), "grep -lsz '^10077.%s' /proc/[0-9]*/cmdline | grep -v self", needle);
    EXPECT(system(find) != 0);
}

static void programs_that_are_none(void)
{
    tess_rewarder *r;
    tess_text_list command;
    tess_reward_options options = options_of(&command);
    set_command(&command, (const char *const[]){"no-such-grader", NULL});
    EXPECT_FAILS(tess_rewarder_create(test_mem(), &options, &r), TESS_E_NOT_FOUND,
                 "no program 'no-such-grader' in PATH");
    set_command(&command, (const char *const[]){"/etc/passwd", NULL});
    EXPECT_FAILS(tess_rewarder_create(test_mem(), &options, &r), TESS_E_NOT_FOUND, "'/etc/passwd' is no program");
    char path[400];
    snprintf(path, sizeof(path), "%s/empty", test_folder());
    EXPECT_OK(tess_os_write_atomic(path,
                                   "\x7f"
                                   "ELF?",
                                   5));
    EXPECT(chmod(path, 0755) == 0);
    set_command(&command, (const char *const[]){path, NULL});
    options.max_failures = 0;
    const outcome *o = score(&options);
    EXPECT_INT(o->status, TESS_E_INVALID);
    EXPECT_CONTAINS(o->message, "Exec format error");
}

static const test_case cases[] = {
    {"answers_come_back_to_their_items", answers_come_back},
    {"texts_with_any_bytes_arrive", texts_arrive},
    {"named_rewards_are_parts_and_null_is_no_failure", parts_and_nulls},
    {"answers_may_come_out_of_order", out_of_order},
    {"processes_stay_between_calls_and_are_replaced", processes_stay},
    {"a_process_may_end_well_after_each_answer", one_answer_a_process},
    {"a_grader_that_hangs_fails_its_item_alone", hang},
    {"a_grader_that_drips_fails_its_item_alone", drip},
    {"a_grader_that_crashes_at_start_stops_the_call_by_name", crash_at_start},
    {"a_grader_that_crashes_in_an_item_fails_it_alone", crash_in_an_item},
    {"an_item_whose_process_ended_is_tried_again", ends_may_pass},
    {"failures_are_a_share_of_the_items_of_all_ranks", failures_of_all_ranks},
    {"a_grader_that_cannot_run_is_known_before_the_first_item", checks},
    {"words_hide_the_keys_that_a_grader_was_given", words_hide_keys},
    {"a_crash_with_several_in_flight_finds_the_guilty_item", crash_among_several},
    {"garbage_is_quoted", garbage},
    {"a_gigabyte_without_a_line_end_is_cut", a_gigabyte},
    {"closed_and_flooded_streams_are_survived", streams},
    {"limits_hold", limits},
    {"children_of_graders_do_not_outlive_them", children},
    {"fork_bombs_end_with_their_grader", fork_bomb},
    {"the_limit_on_processes_holds_without_root", process_limit},
    {"graders_end_with_a_killed_parent", parent_dies},
    {"graders_inherit_no_descriptors_and_signals", nothing_is_inherited},
    {"a_sandbox_has_no_network_and_no_files_to_write", sandbox},
    {"a_sandbox_ends_whatever_was_started_in_it", sandbox_ends_all},
    {"programs_that_cannot_be_run_are_named", programs_that_are_none},
};
TEST_MAIN(cases)
