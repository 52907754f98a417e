#include "device/ptx/ptx_tokens.h"

#include <ctype.h>
#include <string.h>

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || (c != '\0' && strchr("_$.%", c) != NULL);
}

static bool begins(const ptx_tokens *t, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(t->end - t->at) >= n && memcmp(t->at, text, n) == 0;
}

static void advance(ptx_tokens *t)
{
    t->line += *t->at == '\n';
    t->at++;
}

static void skip_until(ptx_tokens *t, const char *text)
{
    while (t->at < t->end && !begins(t, text))
        advance(t);
    for (size_t n = strlen(text); n > 0 && t->at < t->end; n--)
        advance(t);
}

static void skip_space(ptx_tokens *t)
{
    while (t->at < t->end) {
        if (begins(t, "//"))
            skip_until(t, "\n");
        else if (begins(t, "/*"))
            skip_until(t, "*/");
        else if (isspace((unsigned char)*t->at))
            advance(t);
        else
            return;
    }
}

static ptx_token read_string(ptx_tokens *t)
{
    ptx_token token = {.kind = PTX_STRING, .text = ++t->at, .line = t->line};
    while (t->at < t->end && *t->at != '"')
        advance(t);
    token.length = (size_t)(t->at - token.text);
    t->at += t->at < t->end;
    return token;
}

static ptx_token read_token(ptx_tokens *t)
{
    skip_space(t);
    if (t->at >= t->end)
        return (ptx_token){.kind = PTX_END, .text = "", .line = t->line};
    if (*t->at == '"')
        return read_string(t);
    ptx_token token = {.kind = PTX_SIGN, .text = t->at, .length = 1, .line = t->line};
    if (!is_word(*t->at)) {
        t->at++;
        return token;
    }
    token.kind = PTX_WORD;
    while (t->at < t->end && (is_word(*t->at) || begins(t, "::")))
        t->at += begins(t, "::") ? 2 : 1;
    token.length = (size_t)(t->at - token.text);
    return token;
}

void ptx_tokens_begin(ptx_tokens *t, const char *text, size_t bytes)
{
    *t = (ptx_tokens){.at = text, .end = text + bytes, .line = 1};
    t->next = read_token(t);
}

ptx_token ptx_take(ptx_tokens *t)
{
    ptx_token token = t->next;
    t->next = read_token(t);
    return token;
}

bool ptx_token_is(const ptx_token *token, const char *text)
{
    return token->kind != PTX_STRING && token->length == strlen(text) && token->length > 0 &&
           memcmp(token->text, text, token->length) == 0;
}

bool ptx_sees(const ptx_tokens *t, const char *text)
{
    return ptx_token_is(&t->next, text);
}

bool ptx_takes(ptx_tokens *t, const char *text)
{
    bool sees = ptx_sees(t, text);
    if (sees)
        ptx_take(t);
    return sees;
}

void ptx_skip_line(ptx_tokens *t, int line)
{
    while (t->next.kind != PTX_END && t->next.line == line)
        ptx_take(t);
}
