// SPDX-License-Identifier: Apache-2.0

package tc

// See package mark for the include folders.
//go:generate go tool bpf2go -cc clang-19 -target bpfel -no-strip -cflags "-O2 -g -Wall -Werror -mcpu=v3 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" classid ../../../../bpf/marking/classid.bpf.c
