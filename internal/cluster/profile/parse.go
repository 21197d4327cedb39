// SPDX-License-Identifier: Apache-2.0

package profile

import "bytes"

// The kernel's files are read into one buffer again and again and parsed where they
// are, without a string for every word: a hundred containers have a thousand files.

// number reads the decimal digits at the beginning of text, as many as there are; a
// number that is too large is the largest.
func number(text []byte) uint64 {
	var n uint64
	for _, b := range text {
		if b < '0' || b > '9' {
			break
		}
		digit := uint64(b - '0')
		if n > (1<<64-1-digit)/10 {
			return 1<<64 - 1
		}
		n = n*10 + digit
	}
	return n
}

// field returns the number after a word at the beginning of a line and blanks, as
// in "anon 4096"; 0 if there is none.
func field(text []byte, name string) uint64 {
	for line := range bytes.Lines(text) {
		if len(line) > len(name) && string(line[:len(name)]) == name && line[len(name)] == ' ' {
			return number(bytes.TrimLeft(line[len(name)+1:], " "))
		}
	}
	return 0
}

// assigned returns the number after "name=" anywhere in a line, as in
// "rbytes=4096"; the text begins with it or has a blank before it.
func assigned(line []byte, name string) uint64 {
	for len(line) > 0 {
		word, rest, _ := bytes.Cut(line, []byte(" "))
		if len(word) > len(name) && string(word[:len(name)]) == name && word[len(name)] == '=' {
			return number(word[len(name)+1:])
		}
		line = rest
	}
	return 0
}

// ioStat adds up io.stat over the devices.
func ioStat(text []byte) (read, written uint64) {
	for line := range bytes.Lines(text) {
		read += assigned(line, "rbytes")
		written += assigned(line, "wbytes")
	}
	return read, written
}

// serviced adds up blkio.throttle.io_service_bytes over the devices. counted is
// false if there is no line of a device, or all are 0: the kernel may not count.
func serviced(text []byte) (read, written uint64, counted bool) {
	for line := range bytes.Lines(text) {
		_, rest, _ := bytes.Cut(line, []byte(" ")) // "254:0 Read 4096"
		operation, value, ok := bytes.Cut(rest, []byte(" "))
		switch {
		case !ok:
		case string(operation) == "Read":
			read += number(value)
		case string(operation) == "Write":
			written += number(value)
		}
	}
	return read, written, read+written > 0
}

// netDev adds up /proc/PID/net/dev over the devices but lo, or over those that wanted
// accepts.
func netDev(text []byte, wanted func(device []byte) bool) (sent, received uint64) {
	for line := range bytes.Lines(text) {
		device, counters, ok := bytes.Cut(line, []byte(":"))
		if device = bytes.TrimSpace(device); !ok || !wanted(device) {
			continue
		}
		for column := 0; column <= 8; column++ {
			counters = bytes.TrimLeft(counters, " ")
			switch column {
			case 0:
				received += number(counters)
			case 8:
				sent += number(counters)
			}
			end := bytes.IndexByte(counters, ' ')
			if end < 0 {
				break
			}
			counters = counters[end:]
		}
	}
	return sent, received
}

func notLoopback(device []byte) bool { return string(device) != "lo" }

// Waited returns the microseconds in which some task has waited, of a file of
// pressure stall information.
func Waited(text []byte) uint64 {
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte("some ")); ok {
			return assigned(rest, "total")
		}
	}
	return 0
}

// quota returns cpu.max, "200000 100000" or "max 100000", in CPUs; 0 = none.
func quota(text []byte) float64 {
	limit, period, _ := bytes.Cut(text, []byte(" "))
	if n := number(period); n > 0 {
		return float64(number(limit)) / float64(n)
	}
	return 0
}

// unlimited stands for no limit in version 1, which prints the largest number of pages;
// values near it count as no limit.
const unlimited = 1 << 60

func limited(bytes uint64) uint64 {
	if bytes >= unlimited {
		return 0
	}
	return bytes
}

// busy returns the line "cpu" of /proc/stat: ticks in which the CPUs have worked,
// and how many CPUs there are.
func busy(text []byte) (ticks uint64, cpus int) {
	for line := range bytes.Lines(text) {
		rest, ok := bytes.CutPrefix(line, []byte("cpu"))
		if !ok || len(rest) == 0 {
			break // they come first
		}
		if rest[0] != ' ' {
			cpus++
			continue
		}
		// user nice system idle iowait irq softirq steal, of which steal is not ours.
		for column := range 7 {
			rest = bytes.TrimLeft(rest, " ")
			if column != 3 && column != 4 {
				ticks += number(rest)
			}
			end := bytes.IndexByte(rest, ' ')
			if end < 0 {
				break
			}
			rest = rest[end:]
		}
	}
	return ticks, cpus
}

// diskStats adds up the bytes of /proc/diskstats over the disks, not their partitions:
// a partition follows its disk and its name begins with the disk's.
func diskStats(text []byte) (read, written uint64) {
	var disk []byte
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) < 10 {
			continue
		}
		name := fields[2]
		for _, prefix := range []string{"loop", "ram", "dm-", "md", "zram"} { // what others are behind
			if bytes.HasPrefix(name, []byte(prefix)) {
				name = nil
				break
			}
		}
		if name == nil || disk != nil && bytes.HasPrefix(name, disk) {
			continue
		}
		disk = name
		read += number(fields[5]) * sector
		written += number(fields[9]) * sector
	}
	return read, written
}

// sector is the unit of /proc/diskstats, whatever the disk's own is.
const sector = 512
