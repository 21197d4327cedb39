// SPDX-License-Identifier: Apache-2.0

//go:build race

package boundtest

// slower is how many times the time of a program the race detector may take.
const slower = 20
