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

key_of() {
	cat -- "$@" | sha256sum | cut -c 1-16
}

# The images: what the root file system has in it.
IMAGES="plain cluster podman units"

# check_image OPTION IMAGE
check_image() {
	local image
	for image in $IMAGES; do
		[[ $image != "$2" ]] || return 0
	done
	fail 2 "$1 $2: no such image; there are: $IMAGES"
}

# root_entry IMAGE
root_entry() {
	case $1 in
	plain) echo "$CACHE_DIR/root-$(key_of "$VM_DIR/build" "$VM_DIR/packages.txt")" ;;
	cluster | podman) echo "$CACHE_DIR/root-$1-$(key_of "$VM_DIR"/{build,packages.txt,"packages-$1.txt"} "$REPO_DIR/scripts/criu")" ;;
	units) echo "$CACHE_DIR/root-$1-$(key_of "$VM_DIR"/{build,packages.txt,packages-cluster.txt,packages-units.txt} "$REPO_DIR/scripts/criu")" ;;
	esac
}

kernel_entry() {
	echo "$CACHE_DIR/kernel-$1-$({
		kernel_pin "$1"
		cat "$VM_DIR/build" "$VM_DIR/modules.txt"
	} | key_of -)"
}
