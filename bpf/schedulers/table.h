/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which class sends next: what the schedulers have in common.
 *
 * A scheduler NAME is a header with these functions and a row in weir.h's table. It
 * has to do with classes only; which of a class's packets goes first is the
 * discipline's (disciplines/table.h). c is the class, id its number.
 *
 *   NAME_activate(c, id, alone)    class id had nothing waiting and has got a packet;
 *                                  alone = no other packet waits on the link
 *   NAME_choose(sch)               the class that sends. 0 = none may, and the
 *                                  watchdog is armed if packets wait
 *   NAME_charge(c, id, len, left)  it has sent `len` bytes, which its queue no longer
 *                                  holds; `left` packets wait on the link
 *   NAME_reset()                   the link is empty, and each class was lifted
 *
 * What few schedulers have (without.h for the others):
 *
 *   NAME_boost(c, id, len, now)    class id has got a packet of `len` bytes that its
 *                                  discipline sorts: with a boost (discipline_boost)
 *                                  the class may overtake others
 *   NAME_next_at_once()            a class that goes first whatever else changed; 0 =
 *                                  ask NAME_choose
 *   NAME_lift(c, id)               the policy of class id is about to change: the class
 *                                  leaves all that is ordered by it
 *   NAME_settle(c, id)             and goes back to where it belongs now
 *   NAME_move(c, id, parent)       between these two: the class joins a group, 0 = none
 *   NAME_member(sch, id)           the member that sends, of the group that was chosen;
 *                                  0 as above
 *
 * The cost of a packet must not depend on the number of classes.
 * docs/write-a-scheduler.md writes one step by step.
 */
#ifndef WEIR_SCHEDULERS_TABLE_H
#define WEIR_SCHEDULERS_TABLE_H

#include "fair.h"
#include "qcon.h"
#include "ancs.h"
#ifdef WEIR_EXTRA_SCHEDULER_HEADER /* of WEIR_EXTRA_SCHEDULER */
#include WEIR_EXTRA_SCHEDULER_HEADER
#endif

/* Set by the loader; the verifier removes the schedulers that were not chosen. */
const volatile enum weir_scheduler scheduler = WEIR_SCHED_FAIR;

#define IF_CHOSEN(number, name, operation, ...)                                                    \
	if (scheduler == number)                                                                   \
		return name##_##operation(__VA_ARGS__);

static __always_inline void scheduler_activate(struct weir_class *c, __u32 id, bool alone)
{
	WEIR_SCHEDULERS(IF_CHOSEN, activate, c, id, alone)
}

static __always_inline void scheduler_boost(struct weir_class *c, __u32 id, __u32 len, __u64 now)
{
	WEIR_SCHEDULERS(IF_CHOSEN, boost, c, id, len, now)
}

static __always_inline class_ref scheduler_next_at_once(void)
{
	WEIR_SCHEDULERS(IF_CHOSEN, next_at_once)
	return 0;
}

static __always_inline class_ref scheduler_choose(struct Qdisc *sch)
{
	WEIR_SCHEDULERS(IF_CHOSEN, choose, sch)
	return 0;
}

static __always_inline class_ref scheduler_member(struct Qdisc *sch, __u32 id)
{
	WEIR_SCHEDULERS(IF_CHOSEN, member, sch, id)
	return 0;
}

static __always_inline void scheduler_charge(struct weir_class *c, __u32 id, __u32 len, __u32 left)
{
	WEIR_SCHEDULERS(IF_CHOSEN, charge, c, id, len, left)
}

static __always_inline void scheduler_lift(struct weir_class *c, __u32 id)
{
	WEIR_SCHEDULERS(IF_CHOSEN, lift, c, id)
}

static __always_inline void scheduler_move(struct weir_class *c, __u32 id, __u32 parent)
{
	WEIR_SCHEDULERS(IF_CHOSEN, move, c, id, parent)
}

static __always_inline void scheduler_settle(struct weir_class *c, __u32 id)
{
	WEIR_SCHEDULERS(IF_CHOSEN, settle, c, id)
}

static __always_inline void scheduler_reset(void)
{
	WEIR_SCHEDULERS(IF_CHOSEN, reset)
}

#undef IF_CHOSEN

#endif /* WEIR_SCHEDULERS_TABLE_H */
