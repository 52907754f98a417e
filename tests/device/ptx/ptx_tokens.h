/* The words and signs of a PTX text. */
#ifndef TESS_TESTS_DEVICE_PTX_PTX_TOKENS_H
#define TESS_TESTS_DEVICE_PTX_PTX_TOKENS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum ptx_token_kind { PTX_END, PTX_WORD, PTX_SIGN, PTX_STRING } ptx_token_kind;

/* A word has letters, digits and any of "_$.%", or "::"; a sign is one character. A string is without its quotes. */
typedef struct ptx_token {
    ptx_token_kind kind;
    const char *text;
    size_t length;
    int line;
} ptx_token;

typedef struct ptx_tokens {
    const char *at, *end;
    int line;
    ptx_token next; /* the token that ptx_take returns */
} ptx_tokens;

void ptx_tokens_begin(ptx_tokens *t, const char *text, size_t bytes);
ptx_token ptx_take(ptx_tokens *t);
/* Returns whether the next token is this word or sign. */
bool ptx_sees(const ptx_tokens *t, const char *text);
/* Takes the next token if it is this word or sign. */
bool ptx_takes(ptx_tokens *t, const char *text);
bool ptx_token_is(const ptx_token *token, const char *text);
/* Takes the rest of the line of the token that was taken last. */
void ptx_skip_line(ptx_tokens *t, int line);

#endif
