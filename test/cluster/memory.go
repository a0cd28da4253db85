package cluster

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ResidentBytes returns how much memory the process has now.
func (p *Process) ResidentBytes() (int64, error) { return p.memory("VmRSS") }

// PeakResidentBytes returns the most memory that the process has had since it started, or since ResetPeak.
func (p *Process) PeakResidentBytes() (int64, error) { return p.memory("VmHWM") }

// ResetPeak makes PeakResidentBytes begin anew.
func (p *Process) ResetPeak() error {
	const resetPeak = "5"
	pid, err := p.pid()
	if err != nil {
		return err
	}
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte(resetPeak), 0o200)
}

// memory returns a field of the kernel's status of the process.
func (p *Process) memory(name string) (int64, error) {
	pid, err := p.pid()
	if err != nil {
		return 0, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == name+":" && fields[2] == "kB" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("the status of %s has no %s", p.name, name)
}

func (p *Process) pid() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return 0, errors.New(p.name + " does not run")
	}
	return p.run.pid, nil
}
