/* Stacks as py-spy 0.4.3 printed them of PyTorch 2.15 over gloo, with neutral paths. */
#include <string.h>

#include "doctor/log/python_stacks.h"
#include "support/test.h"

#define STACK(pid, frames)                                                                                     \
    "Process " #pid ": /venv/bin/python train.py\nPython v3.11.7 (/usr/bin/python3.11)\n\nThread " #pid        \
    " (idle): \"MainThread\"\n" frames "    <module> (train.py:10)\nThread 0x7F00 (idle): \"pt_autograd_0\"\n" \
    "    barrier (torch/distributed/distributed_c10d.py:4700)\n"
#define WAITS                                                       \
    "    all_reduce (torch/distributed/distributed_c10d.py:4181)\n" \
    "    _exception_logger.<locals>.wrapper (torch/distributed/c10d_logger.py:83)\n    train_step (train.py:9)\n"
#define GATHERS                                                                 \
    "    all_gather_into_tensor (torch/distributed/distributed_c10d.py:4001)\n" \
    "    wrapper (torch/distributed/c10d_logger.py:83)\n    evaluate (train.py:30)\n"
#define LOADS                                                                                              \
    "    read (<frozen importlib._bootstrap_external>:1131)\n    load_batch (train.py:6)\n    train_step " \
    "(train.py:8)\n"

/* Judges a text; `odd` is the pid that is blamed, 0: none. */
static void expect_verdict(const char *text, const char *wanted, int odd_pid)
{
    log_stacks stacks = {.mem = test_mem()};
    const log_stack *odd;
    char verdict[640];
    for (const char *line = text; *line != '\0'; line += line[0] == '\n') {
        size_t n = strcspn(line, "\n");
        EXPECT_OK(log_stacks_take(&stacks, line, n, -1));
        line += n;
    }
    EXPECT(stacks.n > 0);
    log_stacks_judge(&stacks, verdict, sizeof(verdict), &odd);
    EXPECT_TEXT(verdict, wanted);
    EXPECT_INT(odd != NULL ? odd->pid : 0, odd_pid);
    log_stacks_free(&stacks);
}

static void who_is_elsewhere_is_named(void)
{
    expect_verdict(STACK(11, WAITS) STACK(12, LOADS) STACK(13, WAITS),
                   "pid 12 is in load_batch (train.py:6), while pid 11, pid 13 are in all_reduce, called by train_step "
                   "(train.py:9) and wait for it",
                   12);
    expect_verdict(STACK(11, WAITS) STACK(12, LOADS) STACK(13, LOADS),
                   "pid 12, pid 13 are in load_batch (train.py:6), while pid 11 is in all_reduce, called by train_step "
                   "(train.py:9) and waits for it",
                   0);
}

static void nobody_is_named_where_the_stacks_do_not_say(void)
{
    expect_verdict(STACK(11, WAITS),
                   "pid 11 is in all_reduce, called by train_step (train.py:9) and waits for other ranks: their stacks "
                   "say who is elsewhere",
                   0);
    expect_verdict(
        STACK(11, WAITS) STACK(12, WAITS),
        "pid 11, pid 12 are in all_reduce, called by train_step (train.py:9): a rank whose stack is not here "
        "is missing, or the network or a device stands still",
        0);
    expect_verdict(STACK(11, WAITS) STACK(12, WAITS) STACK(13, GATHERS),
                   "processes wait in different collectives: pid 11, pid 12 are in all_reduce, called by train_step "
                   "(train.py:9), pid 13 is in all_gather_into_tensor, called by evaluate (train.py:30)",
                   0);
    expect_verdict(STACK(11, LOADS), "pid 11 is in load_batch (train.py:6)", 0);
    expect_verdict("Process 7: x\nThread 7 (active): \"MainThread\"\n", "pid 7 is in no code of Python", 0);
}

/* A function of the program with the name of a collective is not taken for one, nor are lines that follow a stack. */
static void other_lines_are_no_frames(void)
{
    expect_verdict("Process 7: x\nThread 7 (active): \"MainThread\"\n    scatter (plot.py:3)\nINFO step 3\n"
                   "    all_reduce (torch/distributed/distributed_c10d.py:1)\n",
                   "pid 7 is in scatter (plot.py:3)", 0);
    expect_verdict("Process 7: x\nThread 7 (active): \"MainThread\"\n    (\n    x\n     all_reduce (torch/x.py:1)\n    "
                   "f (a.py:1)\n",
                   "pid 7 is in f (a.py:1)", 0);
}

static const test_case cases[] = {
    CASE(who_is_elsewhere_is_named),
    CASE(nobody_is_named_where_the_stacks_do_not_say),
    CASE(other_lines_are_no_frames),
};

TEST_MAIN(cases)
