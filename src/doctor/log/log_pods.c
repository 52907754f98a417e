/* Finds the pod that an event of Kubernetes is about, in the forms that kubectl, the kubelet, schedulers and operators
 * print, and in an object (YAML or JSON) or a description around the event. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "doctor/log/log_impl.h"

enum { LONGEST_POD = 63, LINES_OF_OBJECT = 12 };

static bool is_name_char(char c)
{
    return islower((unsigned char)c) || isdigit((unsigned char)c) || c == '-' || c == '.';
}

static size_t name_length(const char *at, const char *end)
{
    size_t n = 0;
    while (at + n < end && is_name_char(at[n]))
        n++;
    return n;
}

/* Reads a name, perhaps after a namespace and a slash, into `pod`. Returns false if there is none. `plain`: the name
 * stands between words, so only one with a digit counts. */
static bool read_name(const char *at, const char *end, bool plain, char pod[LONGEST_POD + 1])
{
    size_t n = name_length(at, end);
    if (n > 0 && at + n < end && at[n] == '/') {
        at += n + 1;
        n = name_length(at, end);
    }
    while (n > 0 && (at[n - 1] == '.' || at[n - 1] == '-'))
        n--;
    bool has_digit = false, has_letter = false;
    for (size_t i = 0; i < n; i++) {
        has_digit |= isdigit((unsigned char)at[i]) != 0;
        has_letter |= isalpha((unsigned char)at[i]) != 0;
    }
    if (n < 2 || n > LONGEST_POD || !isalnum((unsigned char)at[0]) || !has_letter || (plain && !has_digit))
        return false;
    snprintf(pod, LONGEST_POD + 1, "%.*s", (int)n, at);
    return true;
}

bool log_pod_of_line(const char *line, size_t size, char pod[64])
{
    /* words before the name; `key`: words that must stand between them and the name */
    static const struct {
        const char *words, *key;
        bool plain;
    } forms[] = {{"pod=\"", NULL, false},
                 {"Kind:\"Pod\"", "Name:\"", false},
                 {"\"kind\":\"Pod\"", "\"name\":\"", false},
                 {"\"kind\": \"Pod\"", "\"name\": \"", false},
                 {"\"pod\":\"", NULL, false},
                 {"\"pod\": \"", NULL, false},
                 {"podName=\"", NULL, false},
                 {"pod_name=\"", NULL, false},
                 {"podName=", NULL, false},
                 {"pod_name=", NULL, false},
                 {"pod \"", NULL, false},
                 {"pods \"", NULL, false},
                 {"Pod \"", NULL, false},
                 {"pod '", NULL, false},
                 {" pod/", NULL, false},
                 {" pods/", NULL, false},
                 {" Pod/", NULL, false},
                 {"reated pod: ", NULL, false},
                 {"eleted pod: ", NULL, false},
                 {"pod=", NULL, true},
                 {"pod: ", NULL, true},
                 {" pod ", NULL, true},
                 {"Pod ", NULL, true}};
    const char *end = line + (size < 2048 ? size : 2048);
    if (memmem(line, (size_t)(end - line), "od", 2) == NULL)
        return false;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        const char *at = memmem(line, (size_t)(end - line), forms[i].words, strlen(forms[i].words));
        const char *after = at != NULL ? at + strlen(forms[i].words) : NULL;
        if (after != NULL && forms[i].key != NULL) {
            const char *key = memmem(after, (size_t)(end - after), forms[i].key, strlen(forms[i].key));
            after = key != NULL ? key + strlen(forms[i].key) : NULL;
        }
        bool is_agent = at != NULL && at - line >= 2 && memcmp(at - 2, "by", 2) == 0; /* "Preempted by pod b" */
        if (after != NULL && !is_agent && read_name(after, end, forms[i].plain, pod))
            return true;
    }
    return false;
}

/* Reads the head of a description by kubectl: "Name:  job-0", "Namespace:  team", then "Priority:" or "Node:", which
 * only pods have there. Returns whether the line belongs to such a head. */
static bool read_description(survey_reading *r, const char *text, size_t size, int64_t number)
{
    static const char name[] = "Name: ";
    char pod[LONGEST_POD + 1];
    if (log_begins_with(text, size, name)) {
        size_t at = sizeof(name) - 1;
        while (at < size && text[at] == ' ')
            at++;
        bool is_name = read_name(text + at, text + size, false, pod);
        r->described_line = is_name ? number : 0;
        if (is_name)
            memcpy(r->described, pod, sizeof(pod));
        return true;
    }
    if (r->described_line == 0 || number - r->described_line > 3)
        return false;
    if (tess_text_has(text, size, TESS_WORD_BEGINS, "Priority|Node: |Service Account: ")) {
        r->described_line = 0;
        log_note_pod(r, r->described);
        return true;
    }
    return log_begins_with(text, size, "Namespace: ");
}

void log_note_object(survey_reading *r, const char *line, size_t size, int64_t number)
{
    static const char *const names[] = {"name: ", "\"name\": \"", "\"name\":\""};
    char pod[LONGEST_POD + 1];
    size_t blanks = 0;
    while (blanks < size && (line[blanks] == ' ' || line[blanks] == '-' || line[blanks] == '\t'))
        blanks++;
    const char *text = line + blanks, *end = line + size;
    if (read_description(r, text, size - blanks, number))
        return;
    if (tess_text_has(text, size - blanks, TESS_WORD_BEGINS, "kind: Pod|\"kind\": \"Pod\"|\"kind\":\"Pod\"")) {
        const size_t word = line[blanks] == '"' ? strlen("\"kind\": \"Pod\"") : strlen("kind: Pod");
        const char after = size - blanks > word ? text[word] : ' ';
        if (!isalpha((unsigned char)after)) /* "PodGroup" is another kind */
            r->object_line = number;
        return;
    }
    if (r->object_line == 0)
        return;
    if (number - r->object_line > LINES_OF_OBJECT ||
        tess_text_has(text, size - blanks, TESS_WORD_BEGINS, "spec:|status:|containers:|\"spec\"|kind: |\"kind\"")) {
        r->object_line = 0;
        return;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (log_begins_with(text, size - blanks, names[i]) && read_name(text + strlen(names[i]), end, false, pod)) {
            r->object_line = 0;
            log_note_pod(r, pod);
            return;
        }
}

void log_complete_pods(survey_reading *r)
{
    for (int i = 0; r->pod[0] != '\0' && i < tess_knowledge_n(r->survey->knowledge); i++) {
        log_match *match = &r->survey->matches[i];
        if (!tess_knowledge_at(r->survey->knowledge, i)->by_pod || match->n_lines == 0 ||
            match->first.file != r->file || match->who.actor[0] != '\0')
            continue;
        snprintf(match->who.actor, sizeof(match->who.actor), "%s", r->pod);
        match->who.noun = "pod";
        match->who.is_named = true;
        if (match->who.host[0] == '\0')
            snprintf(match->who.host, sizeof(match->who.host), "%s", r->node);
    }
}
