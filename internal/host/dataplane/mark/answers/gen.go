// SPDX-License-Identifier: Apache-2.0

package answers

// The folder of asm/types.h is as in package mark.
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -cflags "-O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -mcpu=v3 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" -no-global-types -type weir_carrier answers ../../../../../bpf/marking/answers.bpf.c
