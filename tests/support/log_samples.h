/* Samples of the texts that programs print, for tests of `tessera doctor log`: one text and the entry that it is, or
 * one log and the beginning of its headline. */
#ifndef TESS_TESTS_SUPPORT_LOG_SAMPLES_H
#define TESS_TESTS_SUPPORT_LOG_SAMPLES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "doctor/log/log_impl.h"
#include "support/test.h"

/* An empty id: no entry that ends a job. */
typedef struct log_sample {
    const char *text, *id;
} log_sample;

/* A text, its entry, and whom it is about, as the report names it; "": nobody. */
typedef struct log_named_sample {
    const char *id, *who, *text;
} log_named_sample;

/* The beginning of the headline; "": the log shows no cause. `absent` are words that the headline must not have. */
typedef struct log_case {
    const char *text, *headline, *absent;
} log_case;

static inline tess_knowledge *test_log_knowledge(void)
{
    tess_knowledge *knowledge;
    setenv("XDG_CONFIG_HOME", "/nowhere", 1);
    EXPECT_OK(tess_knowledge_create(test_mem(), NULL, 0, &knowledge));
    return knowledge;
}

/* Says what is wrong with a sample, and whether anything is. A wrapper next to a cause is its effect. */
static inline bool test_log_is_wrong(tess_knowledge *knowledge, const log_sample *s)
{
    tess_found found;
    bool is_there = s->id[0] == '\0', is_wrong = false;
    tess_knowledge_begin_text(knowledge);
    tess_knowledge_find(knowledge, s->text, strlen(s->text), &found);
    for (int e = 0; e < found.n_entries; e++) {
        const tess_log_entry *entry = tess_knowledge_at(knowledge, found.entries[e].entry);
        bool is_it = strcmp(entry->row.id, s->id) == 0;
        is_there |= is_it;
        if (!is_it && entry->role == TESS_LOG_CAUSE) {
            fprintf(stderr, "    \"%s\" is also %s\n", s->text, entry->row.id);
            is_wrong = true;
        }
    }
    if (!is_there)
        fprintf(stderr, "    \"%s\" is not %s (%d others)\n", s->text, s->id, found.n_entries);
    return is_wrong || !is_there;
}

/* Expects that each text is its entry, and no other cause. */
static inline void test_log_expect_entries(const log_sample *samples, size_t n)
{
    int n_wrong = 0;
    tess_knowledge *knowledge = test_log_knowledge();
    for (size_t i = 0; i < n; i++)
        n_wrong += test_log_is_wrong(knowledge, &samples[i]);
    EXPECT_INT(n_wrong, 0);
    tess_knowledge_destroy(&knowledge);
}

static inline void test_log_read(tess_knowledge *knowledge, const char *text, tess_survey *survey)
{
    char path[512];
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "log.txt"));
    EXPECT_OK(tess_os_write_atomic(path, text, strlen(text)));
    EXPECT_OK(tess_survey_begin(test_mem(), knowledge, survey));
    EXPECT_OK(tess_survey_read(survey, path));
}

/* Whether the text is its entry, about `who`, and nothing else is a cause; says what is not so. */
static inline bool test_log_is_named(tess_knowledge *knowledge, const log_named_sample *s)
{
    char named[400] = "", causes[400] = "";
    size_t n = 0;
    bool is_there = false;
    tess_survey survey;
    test_log_read(knowledge, s->text, &survey);
    for (int i = 0; i < tess_knowledge_n(knowledge); i++) {
        if (survey.matches[i].n_lines == 0)
            continue;
        if (strcmp(tess_knowledge_at(knowledge, i)->row.id, s->id) == 0) {
            is_there = true;
            log_who_text(&survey.matches[i].who, named, sizeof(named));
        } else if (log_role_of(&survey, i) == TESS_LOG_CAUSE) {
            n = tess_text_add(causes, sizeof(causes), n, " %s", tess_knowledge_at(knowledge, i)->row.id);
        }
    }
    tess_survey_free(&survey);
    bool is_right = is_there && causes[0] == '\0' && strcmp(named, s->who) == 0;
    if (!is_right)
        fprintf(stderr, "\"%.100s\": %s%s; about '%s', expected '%s'; other causes:%s\n", s->text, s->id,
                is_there ? "" : " is not found", named, s->who, causes);
    return is_right;
}

/* Expects that each text is its entry, names whom it is about, and no other cause. */
static inline void test_log_expect_whom(const log_named_sample *samples, size_t n)
{
    int n_wrong = 0;
    tess_knowledge *knowledge = test_log_knowledge();
    for (size_t i = 0; i < n; i++)
        n_wrong += !test_log_is_named(knowledge, &samples[i]);
    EXPECT_INT(n_wrong, 0);
    tess_knowledge_destroy(&knowledge);
}

static inline void test_log_diagnose(tess_knowledge *knowledge, const char *text, tess_log_diagnosis *diagnosis)
{
    tess_survey survey;
    test_log_read(knowledge, text, &survey);
    EXPECT_OK(tess_log_diagnose(&survey, 0, diagnosis));
    tess_survey_free(&survey);
}

/* Expects that the headline of each log begins as it should. */
static inline void test_log_expect_headlines(const log_case *cases, size_t n)
{
    tess_knowledge *knowledge = test_log_knowledge();
    for (size_t i = 0; i < n; i++) {
        tess_log_diagnosis d;
        test_log_diagnose(knowledge, cases[i].text, &d);
        bool is_error = d.kind != TESS_LOG_NOTHING && d.kind != TESS_LOG_KNOWN;
        bool begins = strncmp(d.headline, cases[i].headline, strlen(cases[i].headline)) == 0;
        if (is_error != (cases[i].headline[0] != '\0') || !begins ||
            (cases[i].absent != NULL && strstr(d.headline, cases[i].absent) != NULL))
            test_fail(__FILE__, __LINE__, "\"%s\": expected '%s', got '%s'", cases[i].text, cases[i].headline,
                      d.headline);
    }
    tess_knowledge_destroy(&knowledge);
}

#endif
