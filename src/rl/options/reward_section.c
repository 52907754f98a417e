#include "rl/options/reward_section.h"

#include "base/core/option_rows.h"

static const tess_option reward[] = {
    TEXT(reward, kind, BITS, "exact",
         "exact, number, boxed, regex, format, countdown, signs, f1, length, overlong, command, http; several with "
         "weights: "
         "number:1,format:0.1"),
    TEXT(reward, regex, BITS, "", "regex: the pattern (PCRE2)"),
    TEXT(reward, format, BITS, "", "format: the pattern of a whole answer (PCRE2)"),
    BOOL(reward, number_fallback, BITS, "false", "number: without ####, the answer's last number counts"),
    PATHS(reward, command, BITS, "command: words of the program that grades answers, a line of JSON each"),
    ROW(reward, url, BITS, TESS_OPTION_TEXT, .fallback = "", .is_url = true,
        .help = "http: where prompt, response and label are posted"),
    PATH(reward, header_file, NOTHING, "",
         "http: file of headers for each request, a line each, like Authorization: Bearer KEY"),
    LIST(reward, header_env, NOTHING, "http: names of variables that hold such headers"),
    INT(reward, workers, NOTHING, "2", 1, 1024, "processes or requests of a rank at a time"),
    INT(reward, in_flight, NOTHING, "1", 1, 65536, "command: answers that a process is given before it replies"),
    FLOAT(reward, timeout_s, NOTHING, "30", 0.01, 86400, "seconds until an answer's grading counts as failed"),
    FLOAT(reward, start_s, NOTHING, "30", 0, 86400, "command: seconds more for a process's first reply"),
    INT(reward, retries, NOTHING, "3", -1, 100,
        "command, http: further tries of an item after an end, a silence or a lost connection; 0: none"),
    FLOAT(reward, max_failures, CALLS, "0.1", 0, 1,
          "share of a rollout's gradings, over all ranks, that may fail before the run ends; those count as no reward"),
    BYTES(reward, max_answer_bytes, BITS, "65536", 64, 1e9, "command, http: longest reply"),
    BYTES(reward, max_memory_bytes, NOTHING, "8589934592", 0, 1e15, "command: address space of a process"),
    INT(reward, max_cpu_s, NOTHING, "0", 0, 1e9, "command: processor time of a process; 0: any"),
    INT(reward, max_processes, NOTHING, "1024", 1, 1e6, "command: processes that a grader may have (not of root)"),
    CHOICE(reward, sandbox, NOTHING, "none", "none|bwrap", "command: bwrap: no network, no file of the host to write"),
    PATHS(reward, readable, NOTHING,
          "bwrap: files and folders to show from /home, /root, /run, /tmp and /var/tmp, which are empty inside"),
    LIST(reward, env, NOTHING, "command: names of variables that it gets in addition to PATH, HOME and LANG"),
    TEXT(reward, user, NOTHING, "", "command: user that it runs as, by name or number; empty: ours; needs root"),
};
const tess_option_section tess_section_reward = SECTION("reward", "how they are graded", reward);
