package rebalancer

import (
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Window is a recurring time in which pods may move.
type Window struct {
	// Schedule says when the window opens, as five fields of cron.
	Schedule string `json:"schedule"`
	// Duration is how long it stays open.
	Duration metav1.Duration `json:"duration"`
	// TimeZone is that of Schedule, such as Europe/Berlin; UTC if empty.
	TimeZone string `json:"timeZone,omitempty"`
}

// The limits of Window.Duration.
const (
	shortestWindow = time.Minute
	longestWindow  = 7 * 24 * time.Hour
)

// Open reports whether pods may move at the time. The configuration must be valid.
func (c *Configuration) Open(now time.Time) bool {
	for i := range c.Windows {
		if c.Windows[i].open(now) {
			return true
		}
	}
	return len(c.Windows) == 0
}

func (w *Window) open(now time.Time) bool {
	zone, err := time.LoadLocation(w.TimeZone)
	if err != nil {
		return false
	}
	schedule, err := cron.ParseStandard(w.Schedule)
	if err != nil {
		return false
	}
	opened := schedule.Next(now.In(zone).Add(-w.Duration.Duration))
	return !opened.IsZero() && !opened.After(now)
}

func (w *Window) validate(path *field.Path) (errs field.ErrorList) {
	if strings.Contains(w.Schedule, "TZ") {
		errs = append(errs, field.Invalid(path.Child("schedule"), w.Schedule, "write the time zone in timeZone"))
	} else if _, err := cron.ParseStandard(w.Schedule); err != nil {
		errs = append(errs, field.Invalid(path.Child("schedule"), w.Schedule, err.Error()))
	}
	if d := w.Duration.Duration; d < shortestWindow || d > longestWindow {
		errs = append(errs, field.Invalid(path.Child("duration"), d.String(),
			"must be in ["+shortestWindow.String()+", "+longestWindow.String()+"]"))
	}
	if _, err := time.LoadLocation(w.TimeZone); err != nil {
		errs = append(errs, field.Invalid(path.Child("timeZone"), w.TimeZone, err.Error()))
	}
	return errs
}
