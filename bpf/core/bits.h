/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A set of 4,096 small numbers with "which is the next one from here, going
 * round": two levels of 64-bit words, so every operation costs the same
 * whatever the set holds. Bit i of `top` says that word[i] is not empty.
 */
#ifndef WEIR_BITS_H
#define WEIR_BITS_H

#include "kernel.h"

#define BITS 4096
#define BITS_NONE BITS

struct bits {
	__u64 top;
	__u64 word[64];
};

/* Position of the lowest set bit; x is not 0. */
static __always_inline __u32 lowest(__u64 x)
{
	return __builtin_ctzll(x);
}

static __always_inline void bits_set(struct bits *b, __u32 i)
{
	__u32 w = bounded(i >> 6, 64);

	b->word[w] |= 1ULL << (i & 63);
	b->top |= 1ULL << w;
}

static __always_inline void bits_clear(struct bits *b, __u32 i)
{
	__u32 w = bounded(i >> 6, 64);

	b->word[w] &= ~(1ULL << (i & 63));
	if (!b->word[w])
		b->top &= ~(1ULL << w);
}

static __always_inline bool bits_has(struct bits *b, __u32 i)
{
	return b->word[bounded(i >> 6, 64)] & (1ULL << (i & 63));
}

/* The first member at or after `from`, else the first of all, else BITS_NONE. */
static __always_inline __u32 bits_next(struct bits *b, __u32 from)
{
	__u32 w = bounded(from >> 6, 64);
	__u64 m = b->word[w] & (~0ULL << (from & 63));

	if (!m) {
		__u64 later = b->top & ~((2ULL << w) - 1);

		if (!later)
			later = b->top;
		if (!later)
			return BITS_NONE;
		w = bounded(lowest(later), 64);
		m = b->word[w];
		if (!m)
			return BITS_NONE;
	}
	return w * 64 + lowest(m);
}

#endif /* WEIR_BITS_H */
