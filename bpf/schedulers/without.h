/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* For schedulers that lack something: the functions that table.h asks for, and do nothing. */
#ifndef WEIR_WITHOUT_H
#define WEIR_WITHOUT_H

#include "../core/class.h"

/* It lets no class overtake others. */
#define SCHEDULER_WITHOUT_PRIORITY(name)                                                           \
	static __always_inline void name##_boost(struct weir_class *c, __u32 id, __u32 len,        \
						 __u64 now)                                        \
	{                                                                                          \
	}                                                                                          \
	static __always_inline class_ref name##_next_at_once(void)                                 \
	{                                                                                          \
		return 0;                                                                          \
	}

/* It keeps classes in no order that depends on their policy. */
#define SCHEDULER_WITHOUT_ORDER(name)                                                              \
	static __always_inline void name##_lift(struct weir_class *c, __u32 id)                    \
	{                                                                                          \
	}                                                                                          \
	static __always_inline void name##_settle(struct weir_class *c, __u32 id)                  \
	{                                                                                          \
	}

#define SCHEDULER_WITHOUT_GROUPS(name)                                                             \
	static __always_inline void name##_move(struct weir_class *c, __u32 id, __u32 parent)      \
	{                                                                                          \
	}                                                                                          \
	static __always_inline class_ref name##_member(struct Qdisc *sch, __u32 id)                \
	{                                                                                          \
		return 0;                                                                          \
	}

#endif /* WEIR_WITHOUT_H */
