/* The resources that graders may take, and what they leave behind: limits, families of processes, the end of their
 * parent, the sandbox. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rl/grader_rig.h"
#include "rl/sandbox_support.h"

static void limits_hold(void)
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
static void children_of_graders_do_not_outlive_them(void)
{
    /* Processes in the group, in groups and sessions of their own, orphaned, and with the streams kept open. */
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

static void fork_bombs_end_with_their_grader(void)
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

/* A limit on processes holds if the grader is not root. */
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

static void the_limit_on_processes_holds_without_root(void)
{
    if (getuid() == 0)
        EXPECT(setgid(65534) == 0 && setuid(65534) == 0);
    double n = processes_of("");
    if (n >= 300)
        test_fail(__FILE__, __LINE__, "%g processes were started, more than 300", n);
    if (has_bwrap()) {
        n = processes_of("bwrap"); /* the sandbox counts its own processes alone */
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

static void graders_end_with_a_killed_parent(void)
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

static void graders_inherit_no_descriptors_and_signals(void)
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
static void a_sandbox_ends_whatever_was_started_in_it(void)
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

static const test_case cases[] = {
    CASE(limits_hold),
    CASE(children_of_graders_do_not_outlive_them),
    CASE(fork_bombs_end_with_their_grader),
    CASE(the_limit_on_processes_holds_without_root),
    CASE(graders_end_with_a_killed_parent),
    CASE(graders_inherit_no_descriptors_and_signals),
    {"a_sandbox_has_no_network_and_no_files_to_write", sandbox},
    CASE(a_sandbox_ends_whatever_was_started_in_it),
};
TEST_MAIN(cases)
