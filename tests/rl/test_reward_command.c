/* Graders that are programs: how their answers come back, and what each way to go wrong costs and says. */
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/text/json.h"
#include "rl/grader_rig.h"

static void answers_come_back_to_their_items(void)
{
    const outcome *o = score_with_bad("        pass\n", 60);
    expect_all_but(o, -1, "");
    EXPECT_INT(o->failures.n_restarts, 0);
    EXPECT_INT(o->out[3].n_parts, 1);
    EXPECT_TEXT(o->out[3].part[0].name, "command");
    EXPECT(o->out[3].part[0].value == 3.5);
}

static void texts_with_any_bytes_arrive(void)
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

static void named_rewards_are_parts_and_null_is_no_failure(void)
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

static void answers_may_come_out_of_order(void)
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

static void processes_stay_between_calls_and_are_replaced(void)
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

static void a_process_may_end_well_after_each_answer(void)
{
    tess_reward_options options = options_of(python("x = next(items())\nanswer(x['id'], int(x['response']) + 0.5)\n"));
    const outcome *o = score(&options);
    expect_all_but(o, -1, "");
    EXPECT(o->failures.n_restarts >= N - 2);
}

/* ---- Failures ---- */
static void a_grader_that_hangs_fails_its_item_alone(void)
{
    expect_all_but(score_with_bad("        time.sleep(10000)\n", 3), 5, "no answer within");
}

static void a_grader_that_drips_fails_its_item_alone(void)
{
    expect_all_but(score_with_bad("        while True:\n"
                                  "            sys.stdout.write('{'); sys.stdout.flush(); time.sleep(0.5)\n",
                                  3),
                   5, "no whole answer within");
}

static void a_grader_that_crashes_at_start_stops_the_call_by_name(void)
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

static void a_grader_that_crashes_in_an_item_fails_it_alone(void)
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
static void an_item_whose_process_ended_is_tried_again(void)
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

/* A program that never answers is started for the tries of few items, not once for each item before. */
static void a_program_that_never_answers_is_found_out_by_few_items(void)
{
    char body[600], path[400];
    struct stat info;
    snprintf(path, sizeof(path), "%s/starts", test_folder());
    snprintf(body, sizeof(body), "open('%s', 'a').write('x')\nfor x in items(): sys.exit(3)\n", path);
    tess_reward_options options = options_of(python(body));
    options.retries = 3;
    options.max_failures = 0.1;
    const outcome *o = score(&options);
    EXPECT_CONTAINS(o->message, "2 of 12 rewards failed");
    EXPECT_CONTAINS(o->message, "after 4 tries: it ended (exit code 3) before its first answer");
    EXPECT(stat(path, &info) == 0 && info.st_size >= 8 && info.st_size <= 10);
}

/* The share is one of the items of all ranks. */
static void failures_are_a_share_of_the_items_of_all_ranks(void)
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
static void a_grader_that_cannot_run_is_known_before_the_first_item(void)
{
    tess_rewarder *r;
    tess_text_list command = {0}; /* a shell: it ends within a second on any machine */
    set_command(&command, (const char *const[]){"sh", "-c", "echo no module named judge >&2; exit 1", NULL});
    tess_reward_options options = options_of(&command);
    EXPECT_OK(tess_rewarder_create(test_mem(), &options, &r));
    EXPECT_FAILS(tess_rewarder_check(r), TESS_E_INVALID,
                 "reward.command: 'sh' ended (exit code 1) before it was given anything; it wrote: 'no module");
    tess_rewarder_destroy(&r);
    options = options_of(python("for x in items(): answer(x['id'], int(x['response']) + 0.5)\n"));
    EXPECT_OK(tess_rewarder_create(test_mem(), &options, &r));
    EXPECT_OK(tess_rewarder_check(r));
    tess_text_list_free(&command);
    tess_reward_item items[N];
    tess_reward_result out[N];
    make_items(items);
    EXPECT_OK(tess_rewarder_score(r, items, N, N, out));
    EXPECT(out[3].value == 3.5);
    tess_rewarder_destroy(&r);
    EXPECT_INT(count_left(), 0);
}

/* Grades one item by a program that shows its key. */
static void expect_hidden(const char *body, const char *key, const char *shown)
{
    char *name = "TESS_TEST_KEY";
    const tess_text_list names = {1, &name};
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
static void words_hide_the_keys_that_a_grader_was_given(void)
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

static void a_crash_with_several_in_flight_finds_the_guilty_item(void)
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

static void garbage_is_quoted(void)
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

static void a_gigabyte_without_a_line_end_is_cut(void)
{
    expect_all_but(score_with_bad("        for i in range(1024): sys.stdout.write('x' * (1 << 20))\n", 60), 5,
                   "an answer of more than 65536 bytes without a line end: 'xxxx");
}

static void closed_and_flooded_streams_are_survived(void)
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

static void programs_that_cannot_be_run_are_named(void)
{
    tess_rewarder *r;
    tess_text_list command = {0};
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
    tess_text_list_free(&command);
}

static const test_case cases[] = {
    CASE(answers_come_back_to_their_items),
    CASE(texts_with_any_bytes_arrive),
    CASE(named_rewards_are_parts_and_null_is_no_failure),
    CASE(answers_may_come_out_of_order),
    CASE(processes_stay_between_calls_and_are_replaced),
    CASE(a_process_may_end_well_after_each_answer),
    CASE(a_grader_that_hangs_fails_its_item_alone),
    CASE(a_grader_that_drips_fails_its_item_alone),
    CASE(a_grader_that_crashes_at_start_stops_the_call_by_name),
    CASE(a_grader_that_crashes_in_an_item_fails_it_alone),
    CASE(an_item_whose_process_ended_is_tried_again),
    CASE(a_program_that_never_answers_is_found_out_by_few_items),
    CASE(failures_are_a_share_of_the_items_of_all_ranks),
    CASE(a_grader_that_cannot_run_is_known_before_the_first_item),
    CASE(words_hide_the_keys_that_a_grader_was_given),
    CASE(a_crash_with_several_in_flight_finds_the_guilty_item),
    CASE(garbage_is_quoted),
    CASE(a_gigabyte_without_a_line_end_is_cut),
    CASE(closed_and_flooded_streams_are_survived),
    CASE(programs_that_cannot_be_run_are_named),
};
TEST_MAIN(cases)
