/* Removes secrets from texts that people see or that are kept. */
#ifndef TESS_BASE_CORE_REDACT_H
#define TESS_BASE_CORE_REDACT_H

/* Replaces each occurrence of `secret` in `text` by stars. A secret of fewer than 6 bytes is left alone: it would be
 * found in ordinary words. */
void tess_redact(char *text, const char *secret);

/* Replaces what may hold a secret in each URL of `text` by stars: what stands before an '@' of its host, and its query.
 * Works in place; the text does not grow. Returns text. */
char *tess_redact_urls(char *text);

#endif
