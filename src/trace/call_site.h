/* Represents a call site as one number. It is an offset in the program, or the id of a shared object
 * (base/os/objects.h) with an offset in it. All ranks that run the same files get the same number. An address in
 * code that belongs to no file is also a number, but a different one in each process. */
#ifndef TESS_TRACE_CALL_SITE_H
#define TESS_TRACE_CALL_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Builds the number for an offset in a shared object. Bits 62 and 63 set: a call site in a shared object, with the
 * object's id in bits 40 to 61 and the offset below. Bit 63 alone: an address. */
uint64_t tess_call_site_in_object(uint32_t object, uint64_t offset);
uint64_t tess_call_site_at_address(uintptr_t address);

bool tess_call_site_is_address(uint64_t site);
uint32_t tess_call_site_object(uint64_t site); /* returns the object's id; 0: not in an object */
uint64_t tess_call_site_offset(uint64_t site); /* returns the offset in the program or object, or the address */

/* Formats "program+0x1f30", "libengine.so+0x1f30" or "address 0x7f0000001f30". If the object's name is not known
 * (""), formats "object-3fa21b+0x1f30". Returns text. */
const char *tess_call_site_format(uint64_t site, const char *object, char *text, size_t size);

#endif
