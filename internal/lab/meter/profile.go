// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// profilePages hold the samples of one profile, 16 bytes each; a power of two.
	profilePages = 512
	// inBPF ends the name of a BPF program's function.
	inBPF = " (BPF)"
	// userSpace is the name of all that is not the kernel's.
	userSpace = "user space"
)

// Profile samples which function the calling thread is in: a clock interrupt at every period
// notes the address. In virtual time each sample stands for as many instructions. What
// repeats may repeat in step with the samples, so that they miss a part of it: take several
// profiles with different periods.
// An interrupt waits while interrupts are off; its sample is of the function that turns them
// on again.
//
//	p, err := meter.StartProfile(20_011) // on a locked thread
//	send()
//	addresses, err := p.Stop()
//	samples, err := meter.ByFunction(addresses) // {"weir_enqueue (BPF)": 213, "__dev_queue_xmit": 340, ...}
type Profile struct {
	fd   int
	ring []byte
}

// StartProfile begins to sample the calling thread, which has to be locked
// (runtime.LockOSThread). The kernel takes no period below 10 us, and loses samples where there
// are more than 100,000 a second.
func StartProfile(period time.Duration) (*Profile, error) {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample: uint64(period), Sample_type: unix.PERF_SAMPLE_IP, Bits: unix.PerfBitDisabled,
	}
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("sample the kernel's functions (perf_event_open): %w", err)
	}
	p := &Profile{fd: fd}
	if p.ring, err = unix.Mmap(fd, 0, (1+profilePages)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("map the samples of functions: %w", err)
	}
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
		p.close()
		return nil, fmt.Errorf("begin to sample functions: %w", err)
	}
	return p, nil
}

// Stop ends the sampling and returns the address of each sample.
func (p *Profile) Stop() ([]uint64, error) {
	defer p.close()
	if err := unix.IoctlSetInt(p.fd, unix.PERF_EVENT_IOC_DISABLE, 0); err != nil {
		return nil, fmt.Errorf("end the sampling of functions: %w", err)
	}
	page := os.Getpagesize()
	control := (*unix.PerfEventMmapPage)(unsafe.Pointer(&p.ring[0]))
	head := atomic.LoadUint64(&control.Data_head)
	if head > uint64(profilePages*page) {
		return nil, fmt.Errorf("%d bytes of samples, %d fit", head, profilePages*page)
	}
	return samples(p.ring[page : uint64(page)+head])
}

// ByFunction returns the number of addresses in each function. The BPF programs in question have
// to be loaded still.
func ByFunction(addresses []uint64) (map[string]int, error) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := readSymbols(f)
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, a := range addresses {
		counts[names.of(a)]++
	}
	return counts, nil
}

func (p *Profile) close() {
	_ = unix.Munmap(p.ring)
	unix.Close(p.fd)
}

// samples returns the addresses in the records of a ring that has not wrapped.
func samples(ring []byte) (addresses []uint64, err error) {
	for len(ring) >= 8 {
		kind, size := binary.NativeEndian.Uint32(ring), binary.NativeEndian.Uint16(ring[6:])
		if size < 8 || int(size) > len(ring) {
			return nil, fmt.Errorf("a record of %d bytes among the samples", size)
		}
		switch {
		case kind == unix.PERF_RECORD_SAMPLE && size == 16:
			addresses = append(addresses, binary.NativeEndian.Uint64(ring[8:]))
		case kind == unix.PERF_RECORD_LOST, kind == unix.PERF_RECORD_THROTTLE:
			return nil, fmt.Errorf("the kernel lost samples (record %d)", kind)
		}
		ring = ring[size:]
	}
	if len(addresses) == 0 {
		return nil, fmt.Errorf("no sample was taken")
	}
	return addresses, nil
}

// symbols are the kernel's functions by their addresses, in order.
type symbols []symbol

type symbol struct {
	address uint64
	name    string
}

// bpfName is the name of a BPF program's function, after its tag.
var bpfName = regexp.MustCompile(`^bpf_prog_[0-9a-f]{16}_(.+)$`)

// readSymbols reads the text of /proc/kallsyms.
func readSymbols(r io.Reader) (list symbols, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 3 || strings.IndexByte("tTwW", fields[1][0]) < 0 {
			continue
		}
		address, err := strconv.ParseUint(fields[0], 16, 64)
		if err != nil {
			return nil, fmt.Errorf("/proc/kallsyms: %w", err)
		}
		name := fields[2]
		if found := bpfName.FindStringSubmatch(name); found != nil {
			name = found[1] + inBPF
		}
		list = append(list, symbol{address, name})
	}
	slices.SortStableFunc(list, func(a, b symbol) int {
		switch {
		case a.address < b.address:
			return -1
		case a.address > b.address:
			return 1
		}
		return 0
	})
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(list) == 0 || list[len(list)-1].address == 0 {
		return nil, fmt.Errorf("/proc/kallsyms shows no addresses; sysctl kernel.kptr_restrict=1")
	}
	return list, nil
}

// of returns the name of the function at an address.
func (s symbols) of(address uint64) string {
	i, exact := slices.BinarySearchFunc(s, address, func(s symbol, a uint64) int {
		switch {
		case s.address < a:
			return -1
		case s.address > a:
			return 1
		}
		return 0
	})
	if exact {
		return s[i].name
	}
	if i == 0 || address>>63 == 0 {
		return userSpace
	}
	return s[i-1].name
}
