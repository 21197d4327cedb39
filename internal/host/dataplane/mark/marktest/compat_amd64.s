// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// func compat(number, a, b, c, d, e uint32) int32
TEXT ·compat(SB), NOSPLIT, $0-28
	MOVL number+0(FP), AX
	MOVL a+4(FP), BX
	MOVL b+8(FP), CX
	MOVL c+12(FP), DX
	MOVL d+16(FP), SI
	MOVL e+20(FP), DI
	INT  $0x80
	MOVL AX, ret+24(FP)
	RET
