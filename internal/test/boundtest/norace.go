// SPDX-License-Identifier: Apache-2.0

//go:build !race

package boundtest

const slower = 1
