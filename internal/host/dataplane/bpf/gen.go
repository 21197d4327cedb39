// SPDX-License-Identifier: Apache-2.0

package bpf

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -cflags "-O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -mcpu=v4 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" -no-global-types -type weir_class_config -type weir_link_config -type weir_class -type weir_drop -type weir_scheduler -type weir_discipline -type weir_flow -type weir_queue_stats -type hold -type weir_sockets -type weir_delays -type weir_carrier qdisc ../../../../bpf/qdisc.bpf.c
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -cflags "-O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -mcpu=v4 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" -no-global-types small ../../../../bpf/qdisc.bpf.c -- -DWEIR_SMALL
