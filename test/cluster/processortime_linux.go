package cluster

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// ProcessorTime returns the processor time that the process has used since it started, in all threads, ended ones too. It is the
// sum that getrusage returns to the process itself, to the nanosecond.
func (p *Process) ProcessorTime() (time.Duration, error) {
	const scheduled = 2 // the kernel's clock of time on a processor, of all threads of a process
	pid, err := p.pid()
	if err != nil {
		return 0, err
	}
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &used); err != nil {
		return 0, fmt.Errorf("reading the processor time of %s: %w", p.name, err)
	}
	return time.Duration(used.Nano()), nil
}
