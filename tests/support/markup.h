/* Checks the markup of a page: it has only elements and attributes that the writer of pages uses. Texts of files that
 * become markup would add others. */
#ifndef TESS_TESTS_SUPPORT_MARKUP_H
#define TESS_TESTS_SUPPORT_MARKUP_H

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char *const markup_elements[] = {
    "!DOCTYPE", "html",     "head", "meta", "title",   "style",    "body",   "header",  "h1",     "h2",         "h3",
    "h4",       "p",        "nav",  "ul",   "li",      "a",        "main",   "section", "figure", "figcaption", "svg",
    "desc",     "clipPath", "path", "g",    "text",    "polyline", "circle", "rect",    "div",    "table",      "thead",
    "tbody",    "tr",       "th",   "td",   "details", "summary",  "pre",    "q",       "b",      "script"};

static const char *const markup_attributes[] = {
    "html",       "lang",     "charset", "http-equiv", "content",   "name",    "id",         "href",
    "class",      "viewBox",  "role",    "d",          "x",         "y",       "cx",         "cy",
    "r",          "width",    "height",  "points",     "clip-path", "scope",   "tabindex",   "preserveAspectRatio",
    "data-label", "data-box", "data-x",  "data-y",     "data-log",  "data-of", "aria-label", "aria-labelledby",
    "aria-hidden"};

static bool markup_is_in(const char *const *list, size_t n, const char *word, size_t size)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(list[i]) == size && memcmp(list[i], word, size) == 0)
            return true;
    return false;
}

/* Checks the attributes in text[0..n), up to the end of the tag. Returns the end; NULL: one is wrong. */
static const char *markup_attributes_end(const char *at, const char *end, char *fault, size_t size)
{
    while (at < end && *at != '>') {
        if (*at == ' ' || *at == '\n' || *at == '/') {
            at++;
            continue;
        }
        const char *name = at;
        while (at < end && (isalnum((unsigned char)*at) || *at == '-'))
            at++;
        const size_t length = (size_t)(at - name);
        if (!markup_is_in(markup_attributes, sizeof(markup_attributes) / sizeof(markup_attributes[0]), name, length)) {
            snprintf(fault, size, "attribute %.60s", name);
            return NULL;
        }
        if (at == end || *at != '=')
            continue; /* <!DOCTYPE html> */
        if (at + 1 == end || at[1] != '"') {
            snprintf(fault, size, "attribute without quotes: %.60s", name);
            return NULL;
        }
        if (length == 4 && memcmp(name, "href", 4) == 0 && at[2] != '#') {
            snprintf(fault, size, "link %.60s", name);
            return NULL;
        }
        for (at += 2; at < end && *at != '"';)
            at++;
        at += at < end;
    }
    return at;
}

/* Returns NULL, or what is wrong with the markup of a page or a section. A page has one script, and a section none. */
static const char *markup_fault(const char *text, size_t n, bool is_page, char *fault, size_t size)
{
    const char *at = text, *end = text + n;
    int n_scripts = 0;
    while ((at = memchr(at, '<', (size_t)(end - at))) != NULL) {
        const char *name = ++at;
        const bool closes = at < end && *at == '/';
        at = name += closes;
        while (at < end && (isalnum((unsigned char)*at) || *at == '!'))
            at++;
        const size_t length = (size_t)(at - name);
        if (!markup_is_in(markup_elements, sizeof(markup_elements) / sizeof(markup_elements[0]), name, length)) {
            snprintf(fault, size, "element <%.60s", name);
            return fault;
        }
        at = markup_attributes_end(at, end, fault, size);
        if (at == NULL)
            return fault;
        const bool is_script = length == 6 && memcmp(name, "script", 6) == 0,
                   is_style = length == 5 && memcmp(name, "style", 5) == 0;
        if (closes || (!is_script && !is_style))
            continue;
        n_scripts += is_script;
        at = memmem(at, (size_t)(end - at), is_script ? "</script>" : "</style>", is_script ? 9 : 8);
        if (at == NULL) {
            snprintf(fault, size, "a script or style without its end");
            return fault;
        }
    }
    if (n_scripts == is_page)
        return NULL;
    snprintf(fault, size, "%d scripts", n_scripts);
    return fault;
}

#endif
