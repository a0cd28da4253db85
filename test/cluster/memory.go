package cluster

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// PeakResidentBytes returns the most memory that the process has had since it started.
func (p *Process) PeakResidentBytes() (kib int64, err error) {
	pid, err := p.pid()
	if err != nil {
		return 0, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscanf(peak, "%d kB", &kib); err != nil {
		return 0, fmt.Errorf("reading VmHWM of %s: %w", p.name, err)
	}
	return kib << 10, nil
}

func (p *Process) pid() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return 0, errors.New(p.name + " does not run")
	}
	return p.run.pid, nil
}
