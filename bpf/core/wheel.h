/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A timing wheel of classes (Varghese and Lauck 1987): "which class has the smallest
 * time?" in the same few steps for one class or for four thousand.
 *
 * Times are sorted into 4,096 buckets that go round; a class waits in the list
 * of its bucket. A set of bits says which buckets are not empty. Order inside
 * a bucket is first in, first out: the caller keeps exact times, so what a
 * bucket blurs for a moment is never lost.
 *
 * `cursor` is the number (not yet reduced to 4,096) of the bucket where the
 * search begins. What lies before it is put into it; what lies further ahead
 * than the wheel reaches is put into the last bucket. The caller finds it
 * there before its time and adds it again.
 *
 * Each class has three nodes, so it can be in three wheels at once (weir.h).
 */
#ifndef WEIR_WHEEL_H
#define WEIR_WHEEL_H

#include "bits.h"
#include "class.h"

#define RETRIES 4 /* classes found in a wheel before their time, per packet */

struct bucket {
	__u16 head, tail; /* class_ref */
};

struct wheel {
	__u64 cursor;
	__u32 count; /* classes in the wheel */
	struct bits used;
	struct bucket bucket[BITS];
};

static __always_inline struct bucket *bucket_at(struct wheel *w, __u64 i)
{
	return &w->bucket[bounded(i, BITS)];
}

/* Puts class id at the end of the list of a bucket. */
static __always_inline void bucket_add(struct bucket *b, int n, __u32 id)
{
	struct weir_node *node = &class_at(id)->node[n];

	node->next = 0;
	node->prev = b->tail;
	if (b->tail)
		class_at(b->tail - 1)->node[n].next = id + 1;
	else
		b->head = id + 1;
	b->tail = id + 1;
}

static __always_inline void bucket_del(struct bucket *b, int n, __u32 id)
{
	struct weir_node *node = &class_at(id)->node[n];

	if (node->prev)
		class_at(node->prev - 1)->node[n].next = node->next;
	else
		b->head = node->next;
	if (node->next)
		class_at(node->next - 1)->node[n].prev = node->prev;
	else
		b->tail = node->prev;
}

/* Adds class c, number id, to the bucket `ahead` of the cursor, or to the nearest one there is. */
static __always_inline void wheel_add(struct wheel *w, int n, struct weir_class *c, __u32 id,
				      __s64 ahead)
{
	struct weir_node *node = &c->node[n];
	struct bucket *b;
	__u64 at;

	if (unlikely((__u64)ahead >= BITS))
		ahead = ahead < 0 ? 0 : BITS - 1;
	at = (w->cursor + ahead) & (BITS - 1);
	b = bucket_at(w, at);
	node->bucket = at;
	node->next = 0;
	node->prev = b->tail;
	if (b->tail) {
		class_at(b->tail - 1)->node[n].next = id + 1;
	} else {
		b->head = id + 1;
		bits_set(&w->used, at);
	}
	b->tail = id + 1;
	w->count++;
}

static __always_inline void wheel_del(struct wheel *w, int n, struct weir_class *c)
{
	struct weir_node *node = &c->node[n];
	struct bucket *b = bucket_at(w, node->bucket);

	if (node->prev)
		class_at(node->prev - 1)->node[n].next = node->next;
	else
		b->head = node->next;
	if (node->next)
		class_at(node->next - 1)->node[n].prev = node->prev;
	else
		b->tail = node->prev;
	if (!b->head)
		bits_clear(&w->used, node->bucket);
	w->count--;
}

/* Takes out class c, which is the first one of the bucket at the cursor. */
static __always_inline void wheel_pop(struct wheel *w, int n, struct weir_class *c)
{
	struct bucket *b = bucket_at(w, w->cursor);
	class_ref next = c->node[n].next;

	b->head = next;
	if (next) {
		class_at(next - 1)->node[n].prev = 0;
	} else {
		b->tail = 0;
		bits_clear(&w->used, w->cursor);
	}
	w->count--;
}

/*
 * The number of the first bucket that is not empty; the wheel must not be
 * empty either. The bucket at the cursor is looked at first: under load it is
 * nearly always the one.
 */
static __always_inline __u64 wheel_first(struct wheel *w)
{
	__u32 at = w->cursor & (BITS - 1);
	__u32 i;

	if (bucket_at(w, at)->head)
		return w->cursor;
	i = bits_next(&w->used, at);
	return w->cursor + ((i - at) & (BITS - 1));
}

#endif /* WEIR_WHEEL_H */
