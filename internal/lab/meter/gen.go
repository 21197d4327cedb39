// SPDX-License-Identifier: Apache-2.0

package meter

//go:generate go tool bpf2go -cc clang-19 -target bpfel -no-strip -cflags "-O2 -g -Wall -Werror -mcpu=v3 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" meter ../../../bpf/lab/meter.bpf.c
//go:generate go tool bpf2go -cc clang-19 -target bpfel -no-strip -cflags "-O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -mcpu=v4 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" -no-global-types null ../../../bpf/lab/null.bpf.c
