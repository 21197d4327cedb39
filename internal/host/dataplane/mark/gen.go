// SPDX-License-Identifier: Apache-2.0

package mark

// linux/bpf.h includes asm/types.h, which Debian keeps in a folder per machine;
// its content is the same on all of them.
//go:generate go tool bpf2go -cc clang-19 -target bpfel -no-strip -cflags "-O2 -g -Wall -Werror -mcpu=v3 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" mark ../../../../bpf/marking/mark.bpf.c
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -cflags "-O2 -g -Wall -Wextra -Werror -mcpu=v3 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" -no-global-types -type weir_rule -type weir_place -type weir_carrier -type weir_late_class -type weir_inward -type weir_area -type weir_fact -type weir_test -type weir_hosts classify ../../../../bpf/marking/classify.bpf.c
