/* Options of the rewards that samples get. */
#ifndef TESS_RL_OPTIONS_REWARD_SECTION_H
#define TESS_RL_OPTIONS_REWARD_SECTION_H

#include "base/core/options.h"

typedef enum tess_sandbox_choice { TESS_SANDBOX_NONE, TESS_SANDBOX_BWRAP } tess_sandbox_choice;

/* clang-format off */
#define TESS_REWARD_OPTIONS(OPTION)                                                                                    \
    OPTION(TEXT, reward, kind, BITS, "exact",                                                                          \
           "how answers are graded: exact, number, boxed, regex, format, countdown, signs, f1, length, overlong, "     \
           "command, http; several with weights: number:1,format:0.1")                                                 \
    OPTION(TEXT, reward, regex, BITS, "", "pattern (PCRE2) that kind regex searches for in an answer")                 \
    OPTION(TEXT, reward, format, BITS, "", "pattern (PCRE2) that kind format compares with a whole answer")            \
    OPTION(BOOL, reward, number_fallback, BITS, "false",                                                               \
           "kind number takes the last number of an answer that has no ####")                                          \
    OPTION(PATHS, reward, command, BITS,                                                                               \
           "words of the program that grades answers of kind command, a line of JSON each")                            \
    OPTION(URL, reward, url, BITS, "", "address to which kind http posts prompt, response and label")                  \
    OPTION(PATH, reward, header_file, NOTHING, "",                                                                     \
           "file of headers for each request of kind http, a line each, such as Authorization: Bearer KEY")            \
    OPTION(LIST, reward, header_env, NOTHING, "names of variables that hold headers for each request of kind http")    \
    OPTION(INT, reward, workers, NOTHING, "2", 1, 1024,                                                                \
           "number of processes (command) or requests (http) of a rank at the same time")                              \
    OPTION(INT, reward, in_flight, NOTHING, "1", 1, 65536,                                                             \
           "number of answers that a process of kind command gets before it replies")                                  \
    OPTION(FLOAT, reward, timeout_s, NOTHING, "30", 0.01, 86400,                                                       \
           "seconds after which grading an answer counts as failed")                                                   \
    OPTION(FLOAT, reward, start_s, NOTHING, "30", 0, 86400,                                                            \
           "seconds more for the first reply of a process of kind command")                                            \
    OPTION(INT, reward, retries, NOTHING, "3", -1, 100,                                                                \
           "further attempts to grade an answer by command or http after an exit, a timeout or a lost connection; "    \
           "0: none")                                                                                                  \
    OPTION(FLOAT, reward, max_failures, CALLS, "0.1", 0, 1,                                                            \
           "share of a rollout's gradings, over all ranks, that may fail before the run ends; those count as no "      \
           "reward")                                                                                                   \
    OPTION(BYTES, reward, max_answer_bytes, BITS, "65536", 64, 1e9, "largest reply of command or http, in bytes")      \
    OPTION(BYTES, reward, max_memory_bytes, NOTHING, "8589934592", 0, 1e15,                                            \
           "address space of a process of kind command, in bytes")                                                     \
    OPTION(INT, reward, max_cpu_s, NOTHING, "0", 0, 1e9,                                                               \
           "processor time of a process of kind command, in seconds; 0: no limit")                                     \
    OPTION(INT, reward, max_processes, NOTHING, "1024", 1, 1e6,                                                        \
           "number of processes that a grader of kind command may have (root is not limited)")                         \
    /* tess_sandbox_choice */                                                                                          \
    OPTION(CHOICE, reward, sandbox, NOTHING, "none", "none|bwrap",                                                     \
           "sandbox of kind command; bwrap: no network, and no file of the host can be written")                       \
    OPTION(PATHS, reward, readable, NOTHING,                                                                           \
           "files and folders that the sandbox shows from /home, /root, /run, /tmp and /var/tmp, which are empty "     \
           "inside")                                                                                                   \
    OPTION(LIST, reward, env, NOTHING,                                                                                 \
           "names of variables that a program of kind command gets in addition to PATH, HOME and LANG")                \
    OPTION(                                                                                                            \
        TEXT, reward, user, NOTHING, "",                                                                               \
        "user that a program of kind command runs as, by name or number; needs root; empty: the user of the run")
/* clang-format on */

typedef struct tess_reward_section {
    TESS_REWARD_OPTIONS(TESS_OPTION_FIELD)
} tess_reward_section;

extern const tess_option_section tess_section_reward;

#endif
