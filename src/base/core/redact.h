/* Removes secrets from texts that people see or that are kept. */
#ifndef TESS_BASE_CORE_REDACT_H
#define TESS_BASE_CORE_REDACT_H

/* Replaces each occurrence of `secret` in `text` by stars. The lines of a secret are secrets of their own. Parts of at
 * least 6 bytes are replaced where a message cuts them: an end of a line where the text begins, and a beginning where
 * the text ends or "..." follows. Lines of fewer than 6 bytes are left alone: they would be found in ordinary words. */
void tess_redact(char *text, const char *secret);

/* Replaces what may hold a secret in each URL of `text` by stars: what stands before an '@' of its host, and its query.
 * Works in place; the text does not grow. Returns text. */
char *tess_redact_urls(char *text);

#endif
