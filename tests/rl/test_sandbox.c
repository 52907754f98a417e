/* Tests what a grader can do in its sandbox, hole by hole. This program is its own grader. As a grader it tries what
 * the response of its item asks for, and its reward has the result. */
#include <asm/ioctls.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/machine.h"
#include "base/os/os.h"
#include "rl/reward/grader_filter.h"
#include "rl/reward/reward.h"
#include "rl/sandbox_support.h"
#include "support/test.h"

/* ---- The grader ---- */

/* 0, or the error that the system gave. */
static int error_of(long result)
{
    return result < 0 ? errno : 0;
}

static int connect_to(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    return fd < 0 ? errno : error_of(connect(fd, (struct sockaddr *)&to, sizeof(to)));
}

static int count_entries(const char *path)
{
    int n = 0;
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    if (folder != NULL)
        closedir(folder);
    return n;
}

/* The number after `name` in /proc/self/status, as hexadecimal. */
static double status_of(const char *name)
{
    char text[4096];
    const char *at = tess_os_read_text("/proc/self/status", text, sizeof(text)) > 0 ? strstr(text, name) : NULL;
    return at != NULL ? (double)strtoull(at + strlen(name), NULL, 16) : -1;
}

static double answer(const char *asked)
{
    char word[512] = "", rest[512] = "";
    int pair[2];
    sscanf(asked, "%511s %511s", word, rest);
    if (strcmp(word, "status") == 0)
        return status_of(rest);
    if (strcmp(word, "uid") == 0)
        return (double)getuid();
    if (strcmp(word, "variable") == 0)
        return getenv(rest) != NULL;
    if (strcmp(word, "entries") == 0)
        return count_entries(rest);
    if (strcmp(word, "read") == 0)
        return error_of(open(rest, O_RDONLY));
    if (strcmp(word, "write") == 0)
        return error_of(open(rest, O_WRONLY | O_CREAT, 0600));
    if (strcmp(word, "remount") == 0)
        return error_of(mount("none", rest, NULL, MS_REMOUNT | MS_BIND, NULL));
    if (strcmp(word, "connect") == 0)
        return connect_to(rest);
    if (strcmp(word, "pair") == 0)
        return error_of(socketpair(AF_UNIX, strcmp(rest, "stream") == 0 ? SOCK_STREAM : SOCK_DGRAM, 0, pair));
    if (strcmp(word, "call") == 0)
        return error_of(syscall(strtol(rest, NULL, 0), -1, -1, -1, -1, -1, -1));
    if (strcmp(word, "descriptor") == 0)
        return error_of(fcntl(atoi(rest), F_GETFD));
    return -1;
}

static int be_grader(void)
{
    char line[4096], asked[512];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        const char *id = strstr(line, "\"id\":"), *response = strstr(line, "\"response\":\"");
        if (id == NULL || response == NULL || sscanf(response + 12, "%511[^\"]", asked) != 1)
            return 3;
        printf("{\"id\": %lld, \"reward\": %.0f}\n", strtoll(id + 5, NULL, 10), answer(asked));
        fflush(stdout);
    }
    return 0;
}

/* ---- Asking it ---- */
static char grader[400];
static char *command_words[] = {grader, "--grade"};
static const tess_text_list command = {2, command_words};

static tess_reward_options options_of(const char *sandbox)
{
    char own[512];
    EXPECT_OK(tess_os_own_path(own, sizeof(own)));
    snprintf(grader, sizeof(grader), "%s/grader", test_folder());
    EXPECT(chmod(test_folder(), 0755) == 0); /* another user must reach it */
    EXPECT_OK(tess_os_copy(own, grader));
    EXPECT(chmod(grader, 0755) == 0);
    return (tess_reward_options){.kind = "command",
                                 .command = &command,
                                 .sandbox = sandbox,
                                 .user = unprivileged(),
                                 .timeout_s = 60,
                                 .start_s = 120,
                                 .max_memory_bytes = INT64_C(1) << 50, /* sanitizers reserve much */
                                 .max_failures = 0};
}

static double ask(const tess_reward_options *options, const char *question)
{
    tess_rewarder *r;
    tess_reward_result out;
    const tess_reward_item item = {
        .id = 1, .prompt = "", .response = question, .response_size = strlen(question), .label = ""};
    EXPECT_OK(tess_rewarder_create(test_mem(), options, &r));
    EXPECT_OK(tess_rewarder_score(r, &item, 1, 1, &out));
    tess_rewarder_destroy(&r);
    return out.value;
}

static void expect_answer(const tess_reward_options *options, const char *question, double wanted)
{
    const double got = ask(options, question);
    if (got != wanted)
        test_fail(__FILE__, __LINE__, "'%s' gives %g, expected %g", question, got, wanted);
}

/* False, with a word about it, where bwrap can make no namespaces at all. */
static bool can_sandbox(void)
{
    const bool can = has_bwrap();
    if (!can)
        printf("SKIPPED: no sandbox: bubblewrap is missing, or can make no namespaces here\n");
    return can;
}

/* ---- The holes ---- */
static void a_sandbox_has_no_capabilities_and_gets_none(void)
{
    static const char *const sets[] = {"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"};
    if (!can_sandbox())
        return;
    const tess_reward_options options = options_of("bwrap");
    char question[64];
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        snprintf(question, sizeof(question), "status %s", sets[i]);
        expect_answer(&options, question, 0);
    }
    expect_answer(&options, "status NoNewPrivs:", 1);
    expect_answer(&options, "status Seccomp:", 2);
    expect_answer(&options, "descriptor 3", EBADF);
}

static void root_is_refused_in_a_sandbox_unless_a_user_is_named(void)
{
    if (getuid() != 0 || !can_sandbox())
        return;
    tess_rewarder *r;
    tess_reward_options options = options_of("bwrap");
    options.user = "";
    EXPECT_FAILS(tess_rewarder_create(test_mem(), &options, &r), TESS_E_INVALID, "name another user (reward.user=");
    options.user = "root";
    EXPECT_FAILS(tess_rewarder_create(test_mem(), &options, &r), TESS_E_INVALID, "name another user (reward.user=");
}

static void graders_run_as_the_named_user(void)
{
    tess_rewarder *r;
    tess_reward_options options = options_of("");
    options.user = "no-such-user";
    EXPECT_FAILS(tess_rewarder_create(test_mem(), &options, &r), TESS_E_NOT_FOUND, "there is no user 'no-such-user'");
    if (getuid() == 0) {
        options.user = "nobody";
        expect_answer(&options, "uid", 65534);
    } else {
        options.user = "root";
        EXPECT_FAILS(tess_rewarder_create(test_mem(), &options, &r), TESS_E_INVALID, "only root can start graders");
    }
}

static void a_sandbox_hides_and_protects_the_files_of_the_host(void)
{
    if (!can_sandbox())
        return;
    char own[512], question[600], name[64];
    const tess_reward_options options = options_of("bwrap");
    expect_answer(&options, "remount /", EPERM);
    expect_answer(&options, "write /etc/tess-hole", EROFS);
    EXPECT(access("/etc/tess-hole", F_OK) != 0);
    snprintf(name, sizeof(name), "/tmp/tess-sandbox-%d", (int)getpid());
    snprintf(question, sizeof(question), "write %s", name);
    expect_answer(&options, question, 0);
    EXPECT(access(name, F_OK) != 0);
    expect_answer(&options, "entries /run", 0);
    setenv("HOME", "/usr/share", 1); /* wherever it is */
    expect_answer(&options, "entries /usr/share", 0);
    expect_answer(&options, "entries /usr/lib", count_entries("/usr/lib"));
    expect_answer(&options, "entries /root", 0);
    /* The case's folder is in /tmp: only the program is visible. */
    snprintf(own, sizeof(own), "%s/key", test_folder());
    EXPECT_OK(tess_os_write_atomic(own, "k", 1));
    snprintf(question, sizeof(question), "read %s", own);
    expect_answer(&options, question, ENOENT);
    snprintf(question, sizeof(question), "entries %s", test_folder());
    expect_answer(&options, question, 1);
    expect_answer(&options, "write /run/x", EROFS);
}

/* The home folder of a user other than the job's, wherever it is. */
static void a_sandbox_hides_the_home_folder_of_the_named_user(void)
{
    char question[600] = "", name[64];
    if (getuid() != 0 || !can_sandbox())
        return;
    for (const struct passwd *user; question[0] == '\0' && (user = getpwent()) != NULL;)
        if (user->pw_uid != 0 && strncmp(user->pw_dir, "/var/", 5) == 0 && count_entries(user->pw_dir) > 0) {
            snprintf(question, sizeof(question), "entries %s", user->pw_dir);
            snprintf(name, sizeof(name), "%s", user->pw_name);
        }
    endpwent();
    tess_reward_options options = options_of("bwrap");
    if (question[0] == '\0')
        return;
    options.user = name;
    expect_answer(&options, question, 0);
}

static void a_sandbox_shows_the_paths_that_are_named(void)
{
    if (!can_sandbox())
        return;
    char path[512], question[600], shown[520], *at = shown;
    const tess_text_list readable = {1, &at};
    tess_reward_options options = options_of("bwrap");
    options.readable = &readable;
    snprintf(path, sizeof(path), "%s/module", test_folder());
    EXPECT_OK(tess_os_make_dirs(path));
    snprintf(shown, sizeof(shown), "%s/", path);
    snprintf(path, sizeof(path), "%s/module/judge.py", test_folder());
    EXPECT_OK(tess_os_write_atomic(path, "k", 1));
    EXPECT(chmod(path, 0666) == 0);
    snprintf(question, sizeof(question), "read %s", path);
    expect_answer(&options, question, 0);
    snprintf(question, sizeof(question), "write %s", path);
    expect_answer(&options, question, EROFS);
    tess_rewarder *r;
    snprintf(shown, sizeof(shown), "%s/nothing", test_folder());
    EXPECT_FAILS(tess_rewarder_create(test_mem(), &options, &r), TESS_E_NOT_FOUND, "reward.readable: '");
}

/* A command may name its files from a working folder that a mask hides. */
static void a_command_is_found_from_a_working_folder_that_is_hidden(void)
{
    char old[512], below[512];
    if (!can_sandbox())
        return;
    const tess_reward_options options = options_of("bwrap");
    snprintf(grader, sizeof(grader), "../grader");
    snprintf(below, sizeof(below), "%s/below", test_folder());
    EXPECT_OK(tess_os_make_dirs(below));
    EXPECT(chmod(below, 0755) == 0);
    EXPECT(getcwd(old, sizeof(old)) != NULL && chdir(below) == 0);
    expect_answer(&options, "uid", getuid() == 0 ? 65534 : getuid());
    EXPECT(chdir(old) == 0);
}

static void sockets_in_the_file_system_cannot_be_reached(void)
{
    if (!can_sandbox())
        return;
    char question[600];
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const tess_reward_options options = options_of("bwrap");
    char shown[512], *path = shown;
    const tess_text_list readable = {1, &path};
    tess_reward_options seen = options;
    /* Even one that can be seen, and that everybody may use. */
    snprintf(shown, sizeof(shown), "%s", test_folder());
    seen.readable = &readable;
    snprintf(at.sun_path, sizeof(at.sun_path), "%s/socket", test_folder());
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, 1) == 0);
    EXPECT(chmod(at.sun_path, 0777) == 0);
    snprintf(question, sizeof(question), "connect %s", at.sun_path);
    expect_answer(&seen, question, EPERM);
    expect_answer(&options, "pair stream", 0);
    expect_answer(&options, "pair datagram", EPERM);
    close(fd);
}

static void graders_get_only_the_variables_that_are_named(void)
{
    char *name = "TESS_TEST_KEY";
    const tess_text_list names = {1, &name};
    tess_rewarder *r;
    setenv("TESS_TEST_KEY", "hunter2hunter2", 1);
    setenv("TESS_TEST_OTHER_KEY", "k", 1);
    const char *const sandboxes[] = {"", "bwrap"};
    for (int i = 0; i < 1 + can_sandbox(); i++) {
        tess_reward_options options = options_of(sandboxes[i]);
        expect_answer(&options, "variable TESS_TEST_KEY", 0);
        expect_answer(&options, "variable PATH", 1);
        options.env = &names;
        expect_answer(&options, "variable TESS_TEST_KEY", 1);
        expect_answer(&options, "variable TESS_TEST_OTHER_KEY", 0);
    }
    tess_reward_options options = options_of("");
    options.env = &names;
    name = "TESS_TEST_NO_KEY";
    EXPECT_FAILS(tess_rewarder_create(test_mem(), &options, &r), TESS_E_INVALID,
                 "the variable TESS_TEST_NO_KEY is not set");
    name = "KEY=hunter2hunter2";
    EXPECT_FAILS(tess_rewarder_create(test_mem(), &options, &r), TESS_E_INVALID, "names of variables");
    EXPECT(strstr(tess_error_message(), "hunter2hunter2") == NULL);
}

#ifdef __x86_64__
/* Loads the filter into this process, as bwrap does. */
static void load_filter(void)
{
    struct sock_filter code[1024];
    int fd;
    EXPECT_OK(grader_filter_open(&fd));
    const ssize_t size = read(fd, code, sizeof(code));
    close(fd);
    EXPECT(size > 0 && size < (ssize_t)sizeof(code));
    const struct sock_fprog program = {(unsigned short)((size_t)size / sizeof(code[0])), code};
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void expect_error(const char *name, long result, int wanted)
{
    const int got = error_of(result);
    if (got != wanted)
        test_fail(__FILE__, __LINE__, "%s: error %d, expected %d", name, got, wanted);
}

/* The arguments mean nothing: if there is no filter, the calls fail with other errors or do nothing. */
static void expect_filter(void)
{
#define CALL(name)        \
    {                     \
#name, SYS_##name \
    }
    static const struct {
        const char *name;
        long number;
    } calls[] = {CALL(mount),
                 CALL(umount2),
                 CALL(pivot_root),
                 CALL(chroot),
                 CALL(open_tree),
                 CALL(move_mount),
                 CALL(fsopen),
                 CALL(fsconfig),
                 CALL(fsmount),
                 CALL(fspick),
                 CALL(mount_setattr),
                 CALL(swapon),
                 CALL(unshare),
                 CALL(setns),
                 CALL(open_by_handle_at),
                 CALL(name_to_handle_at),
                 CALL(ptrace),
                 CALL(process_vm_readv),
                 CALL(process_vm_writev),
                 CALL(pidfd_getfd),
                 CALL(kcmp),
                 CALL(bpf),
                 CALL(perf_event_open),
                 CALL(userfaultfd),
                 CALL(io_uring_setup),
                 CALL(io_uring_enter),
                 CALL(io_uring_register),
                 CALL(keyctl),
                 CALL(add_key),
                 CALL(request_key),
                 CALL(kexec_load),
                 CALL(kexec_file_load),
                 CALL(init_module),
                 CALL(finit_module),
                 CALL(delete_module),
                 CALL(iopl),
                 CALL(ioperm),
                 CALL(modify_ldt),
                 CALL(personality),
                 CALL(syslog),
                 CALL(sethostname)};
#undef CALL
    load_filter();
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        expect_error(calls[i].name, syscall(calls[i].number, -1, -1, -1, -1, -1, -1), EPERM);
    static const unsigned spaces[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,   CLONE_NEWNET,
                                      CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP};
    for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++)
        expect_error("clone with a namespace", syscall(SYS_clone, spaces[i] | SIGCHLD, 0, 0, 0, 0), EPERM);
    expect_error("clone3", syscall(SYS_clone3, NULL, 0), ENOSYS);
    expect_error("a call newer than the list", syscall(462, -1, -1, -1), ENOSYS);
    expect_error("getpid of x32", syscall(0x40000000 | SYS_getpid), ENOSYS);
    int pair[2];
    expect_error("TIOCSTI", ioctl(0, TIOCSTI, "x"), EPERM);
    expect_error("TIOCSTI with high bits", syscall(SYS_ioctl, 0, (1UL << 32) | TIOCSTI, "x"), EPERM);
    expect_error("a socket in the file system", socket(AF_UNIX, SOCK_STREAM, 0), EPERM);
    expect_error("a socket of the hypervisor", socket(40, SOCK_STREAM, 0), EPERM);
    expect_error("a pair of raw sockets", socketpair(AF_UNIX, SOCK_RAW | SOCK_CLOEXEC, 0, pair), EPERM);
    /* Programs need these calls. */
    expect_error("a pair", socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    expect_error("a socket", socket(AF_INET, SOCK_STREAM, 0), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(7);
    int state;
    EXPECT(waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == 7);
}

/* Runs in a process that ends by _exit: at a normal end, sanitizers use ptrace. */
static void the_filter_refuses_what_could_leave_the_sandbox(void)
{
    const pid_t child = fork();
    int state;
    if (child == 0) {
        expect_filter();
        _exit(0);
    }
    EXPECT(waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == 0);
}

/* A program of 32 bits has other numbers: 20 is getpid there and writev here. */
static void the_filter_ends_programs_of_another_architecture(void)
{
    pid_t child = fork();
    int state;
    if (child == 0) {
        load_filter();
        long number = 20;
        __asm__ volatile("int $0x80" : "+a"(number) : : "memory", "r8", "r9", "r10", "r11");
        _exit(0);
    }
    EXPECT(waitpid(child, &state, 0) == child);
    EXPECT(WIFSIGNALED(state) && (WTERMSIG(state) == SIGSYS || WTERMSIG(state) == SIGSEGV)); /* SEGV: no such calls */
}

/* bwrap loads it: a few of the calls, from inside. */
static void a_sandbox_loads_the_filter(void)
{
    static const long calls[] = {SYS_unshare, SYS_keyctl, SYS_bpf, SYS_io_uring_setup, SYS_ptrace, SYS_userfaultfd};
    if (!can_sandbox())
        return;
    const tess_reward_options options = options_of("bwrap");
    char question[64];
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        snprintf(question, sizeof(question), "call %ld", calls[i]);
        expect_answer(&options, question, EPERM);
    }
}
#endif

static const test_case cases[] = {
    CASE(a_sandbox_has_no_capabilities_and_gets_none),
    CASE(root_is_refused_in_a_sandbox_unless_a_user_is_named),
    CASE(graders_run_as_the_named_user),
    CASE(a_sandbox_hides_and_protects_the_files_of_the_host),
    CASE(a_sandbox_hides_the_home_folder_of_the_named_user),
    CASE(a_sandbox_shows_the_paths_that_are_named),
    CASE(a_command_is_found_from_a_working_folder_that_is_hidden),
    CASE(sockets_in_the_file_system_cannot_be_reached),
    CASE(graders_get_only_the_variables_that_are_named),
#ifdef __x86_64__
    CASE(the_filter_refuses_what_could_leave_the_sandbox),
    CASE(the_filter_ends_programs_of_another_architecture),
    CASE(a_sandbox_loads_the_filter),
#endif
};

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--grade") == 0)
        return be_grader();
    return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
