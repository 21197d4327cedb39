# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
#
# What vm/build and vm/run must agree on: which kernels there are, and where in
# the cache an image lies. Sourced by both, so it only defines things.
#
# The cache holds two kinds of entry, each a directory named after its key:
#
#   root-KEY/           root.cpio, packages (name and version of each); the same
#   root-IMAGE-KEY/     for an image other than "plain"
#   kernel-SERIES-KEY/  vmlinux, modules.cpio, release
#
# Those of arm64 have "arm64-" before KEY, kernels of the flavour "full" have "full-".
#
# KEY is a hash of everything written in this repository that decides what is
# inside. So an edit to packages.txt makes a new root and leaves the kernels,
# two checkouts share what they have in common, and nothing has to be
# invalidated by hand.

VM_DIR=$(dirname -- "$(realpath -- "${BASH_SOURCE[0]}")")
REPO_DIR=$(dirname -- "$VM_DIR")
CACHE_DIR=${WEIR_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/weir}/vm

# fail STATUS MESSAGE...: one line on stderr and out.
fail() {
	local status=$1
	shift
	echo "vm/${0##*/}: $*" >&2
	exit "$status"
}

# List the kernel series, newest first.
kernel_series() {
	awk '!/^#/ && NF { print $1 }' "$VM_DIR/kernels.txt"
}

# kernel_pin SERIES: print "RELEASE VERSION" or fail.
kernel_pin() {
	awk -v series="$1" '!/^#/ && $1 == series { print $2, $3; found = 1 }
		END { exit !found }' "$VM_DIR/kernels.txt"
}

# The processors: Debian's names for them.
ARCHES="amd64 arm64"

# check_arch OPTION ARCH
check_arch() {
	local arch
	for arch in $ARCHES; do
		[[ $arch != "$2" ]] || return 0
	done
	fail 2 "$1 $2: no such processor; there are: $ARCHES"
}

# qemu_of ARCH: the program that emulates it.
qemu_of() {
	case $1 in
	amd64) echo qemu-system-x86_64 ;;
	arm64) echo qemu-system-aarch64 ;;
	esac
}

# deps_of ARCH: the group of scripts/deps that installs what vm/run needs.
deps_of() {
	case $1 in
	amd64) echo vm ;;
	arm64) echo vm-arm64 ;;
	esac
}

# prefix_of ARCH: what the keys of its entries begin with.
prefix_of() {
	[[ $1 == amd64 ]] || echo "$1-"
}

key_of() {
	cat -- "$@" | sha256sum | cut -c 1-16
}

# The images: what the root file system has in it.
IMAGES="plain cluster podman units"

# check_image OPTION IMAGE ARCH
check_image() {
	local image images=$IMAGES
	[[ $3 == amd64 ]] || images=plain # CRIU, which the others have, is unpacked for amd64
	for image in $images; do
		[[ $image != "$2" ]] || return 0
	done
	[[ " $IMAGES " != *" $2 "* ]] || fail 2 "$1 $2: there is none for $3; there is: $images"
	fail 2 "$1 $2: no such image; there are: $images"
}

# root_entry IMAGE ARCH
root_entry() {
	case $1 in
	plain) echo "$CACHE_DIR/root-$(prefix_of "$2")$(key_of "$VM_DIR/build" "$VM_DIR/packages.txt")" ;;
	cluster | podman) echo "$CACHE_DIR/root-$1-$(key_of "$VM_DIR"/{build,packages.txt,"packages-$1.txt"} "$REPO_DIR/scripts/criu")" ;;
	units) echo "$CACHE_DIR/root-$1-$(key_of "$VM_DIR"/{build,packages.txt,packages-cluster.txt,packages-units.txt} "$REPO_DIR/scripts/criu")" ;;
	esac
}

# The flavours of a kernel: Debian's for clouds, and that for every machine, whose
# drivers are more (ppp).
FLAVOURS="cloud full"

# check_flavour OPTION FLAVOUR
check_flavour() {
	local flavour
	for flavour in $FLAVOURS; do
		[[ $flavour != "$2" ]] || return 0
	done
	fail 2 "$1 $2: no such flavour; there are: $FLAVOURS"
}

# suffix_of FLAVOUR ARCH: what the names of its packages end in.
suffix_of() {
	[[ $1 == full ]] || printf %s cloud-
	echo "$2"
}

# kernel_entry SERIES ARCH FLAVOUR
kernel_entry() {
	local flavour=
	[[ $3 == cloud ]] || flavour=$3-
	echo "$CACHE_DIR/kernel-$1-$flavour$(prefix_of "$2")$({
		kernel_pin "$1"
		cat "$VM_DIR/build" "$VM_DIR/modules.txt"
	} | key_of -)"
}
