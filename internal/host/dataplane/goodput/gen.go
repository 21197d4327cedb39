// SPDX-License-Identifier: Apache-2.0

package goodput

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -cflags "-O2 -g -Wall -Wextra -Werror -mcpu=v3 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" -no-global-types -type weir_gp_place -type weir_carrier -type weir_gp_counts -type weir_gp_key -type weir_gp_flow goodput ../../../../bpf/goodput.bpf.c
