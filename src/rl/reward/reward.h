/* Rewards of responses, by built-in graders, a pool of the user's own grader processes, and a reward model over
 * HTTP, alone or as a weighted sum.
 *
 * Responses and the output of graders are hostile. Built-in graders take time linear in the response (a regex:
 * bounded time) and are pure functions of the item, so a reward has the same bits on any rank. External graders are
 * not pure, so callers journal their answers. docs/howto/rewards.md says how to write a grader, and what its
 * processes can rely on. */
#ifndef TESS_RL_REWARD_REWARD_H
#define TESS_RL_REWARD_REWARD_H

#include <jansson.h>

#include "base/core/options.h"

enum { TESS_REWARD_PARTS = 8, TESS_REWARD_WHY = 160 };

/* The words of tess_reward_options.kind:
 *   exact      1: the response is the label, white space around both aside
 *   number     1: the number after the last "####" is the label's (GSM8K); compared as decimals of any length
 *   boxed      1: the content of the last \boxed{} is the label, as numbers or as text without white space
 *   regex      1: `regex` matches; when it has a group, the group of its last match must be the label
 *   format     1: `format` matches the whole response ('.' matches line ends)
 *   countdown  1: the expression in the last <answer></answer>, or the whole response, has the value `target`
 *              and uses each of `numbers` at most once (both of the metadata); 0.1: another value
 *   signs      1: prompt "7 2 5=4:", response "7+2-5"; 0.1: these numbers in this order, another value
 *   f1         token overlap with the label, as SQuAD and slime count it
 *   length     -tokens / max_tokens, at least -1
 *   overlong   DAPO's: 0 up to max_tokens - overlong_tokens, from there linearly to -1 at max_tokens; truncated: -1
 *   command    what a process of `command` says
 *   http       what `url` says */
typedef struct tess_reward_options {
    const char *kind;                 /* one word, or several with weights: "number:1.0,format:0.1" */
    const char *regex, *format;       /* PCRE2 */
    bool number_fallback;             /* number: use the response's last number if there is no "####" */
    int64_t max_tokens;               /* length, overlong: of a response */
    int64_t overlong_tokens;          /* overlong: number of the last tokens that are penalised */
    double max_failures;              /* share of a call's items that may fail before the call fails; 0: none */
    int64_t workers;                  /* processes of `command`, requests of `url` at a time; 0: 1 */
    int64_t in_flight;                /* items that a process receives before it answers; 0: 1 */
    double timeout_s;                 /* limit for one answer, however it arrives; 0: 30 */
    double start_s;                   /* additional time for a process's first answer; 0: 30 */
    const tess_text_list *command;    /* argv; no shell is involved */
    const char *url;                  /* http:// or https:// */
    const char *header_file;          /* lines "Name: value", sent with each request; NULL or "": none */
    const tess_text_list *header_env; /* names of variables that hold such lines; NULL: none */
    int64_t retries;                  /* further tries of an item after a failure that may be temporary; 0: none */
    const char *sandbox;              /* sandbox of `command`: NULL or "": none, or "bwrap" */
    const tess_text_list *readable;   /* files and folders that the sandbox shows although it hides the folder around
                                         them; NULL: none */
    const tess_text_list
        *env; /* names of variables that processes of `command` get; NULL: only the standard ones, such as PATH */
    const char *user;         /* user of processes of `command`, by name or number; NULL or "": this process's user */
    int64_t max_answer_bytes; /* 0: 64 KiB */
    int64_t max_memory_bytes; /* address space of each process of a grader; 0: 8 GiB */
    int64_t max_file_bytes;   /* size of a file that a process may write; 0: 256 MiB */
    int64_t max_cpu_s;        /* CPU time of each process over its whole life; 0: no limit */
    int64_t max_processes;    /* processes that a grader may have; 0: 1024. No limit for root */
} tess_reward_options;

/* Replaces members that are 0 or NULL by their defaults. TESS_E_INVALID: the message names the option that is out of
 * range. */
tess_status tess_reward_options_complete(tess_reward_options *options);

/* One response. Texts may hold any bytes and are borrowed for the call. */
typedef struct tess_reward_item {
    uint64_t id; /* unique among the items of a call */
    const char *prompt;
    size_t prompt_size;
    const char *response;
    size_t response_size;
    const char *label; /* "" when the data has none */
    size_t label_size;
    const json_t *metadata; /* NULL: none */
    bool truncated;         /* the response ended at a length limit */
    int64_t n_tokens;       /* tokens of the response */
} tess_reward_item;

typedef struct tess_reward_part {
    char name[32]; /* the kind, or the name that an external grader gave; truncated, with other bytes than ASCII
                    * letters as '?' */
    double value;  /* value before it is weighted */
} tess_reward_part;

typedef struct tess_reward_result {
    bool scored;  /* false: a grader answered null, or failed */
    double value; /* weighted sum of the parts, 0 when not scored; finite */
    int n_parts;
    tess_reward_part part[TESS_REWARD_PARTS];
    char why[TESS_REWARD_WHY]; /* reason of a failure; "": null, or scored */
} tess_reward_result;

typedef struct tess_reward_failures {
    int64_t n_items, n_failed; /* counts since the rewarder was made */
    int64_t n_restarts;        /* starts of processes beyond the first start of each worker */
    char newest[1024];         /* newest failure: the grader, the item and the grader's output; "": none */
} tess_reward_failures;

typedef struct tess_rewarder tess_rewarder;

/* Creates a rewarder. Starts no process yet. Options are copied. TESS_E_INVALID: an option names no grader, lacks
 * what its grader needs or is out of range, or a regex does not compile; TESS_E_NOT_FOUND: no such program;
 * TESS_E_UNSUPPORTED: bwrap is not installed, or http in a build without libcurl. All name the key. */
tess_status tess_rewarder_create(tess_mem *mem, const tess_reward_options *options, tess_rewarder **rewarder);

/* Whether an item of the data can be graded, whatever its response. TESS_E_INVALID: it has no label, or none that its
 * graders understand, or its prompt or metadata belongs to another task. */
tess_status tess_rewarder_check_item(const tess_rewarder *rewarder, const tess_reward_item *item);

/* Finds out before the first item what can be known: starts a process of `command`, which must not end within a second,
 * and posts empty texts to `url`. TESS_E_INVALID: a process cannot be started or ends, nobody listens, or the status
 * says that no request can succeed (a redirection, 401, 403, 404, 405, 407). */
tess_status tess_rewarder_check(tess_rewarder *rewarder);

/* Scores `n` items into out[0..n) and waits for it. Ranks score n_all items together, each its own. An item's failure
 * is in its result. If more than max_failures * n_all items fail here, the call stops at once: TESS_E_INVALID, and the
 * message names grader, item and what it said. Below that, the ranks add up their failures and call
 * tess_rewarder_judge. Also TESS_E_NOMEM. Not thread-safe. Call it always from the thread that will live longest: when
 * that ends, so do the processes. */
tess_status tess_rewarder_score(tess_rewarder *rewarder, const tess_reward_item *items, int64_t n, int64_t n_all,
                                tess_reward_result *out);

/* TESS_E_INVALID: `failed` of n_all items are more than max_failures allows; the message has this rank's newest. */
tess_status tess_rewarder_judge(const tess_rewarder *rewarder, int64_t failed, int64_t n_all);

/* Facts for a warning line. */
void tess_rewarder_failures(const tess_rewarder *rewarder, tess_reward_failures *failures);

/* Kills the processes, with what they have started. NULL is fine. */
void tess_rewarder_destroy(tess_rewarder **rewarder);

#endif
